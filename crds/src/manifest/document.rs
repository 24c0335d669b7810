//! One document of a file: its kind, its metadata, and the walk over its spec.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::locate::{Locator, Spot, child};
use super::tree::{Entry, Node, NodeValue, Position, Style};
use super::walk::{Walk, to_json};
use crate::finding::Finding;
use crate::resource::resource_schema;

const API_VERSION: &str = "weir.dev/v1alpha1";
const METADATA: [&str; 15] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "generateName",
    "finalizers",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// What kind of object a document is.
pub(super) enum Kind {
    Job,
    Secret,
    ConfigMap,
}

/// Tells the kind; anything but the three is an error.
pub(super) fn kind_of(node: &Node) -> Result<Kind, (Position, Finding)> {
    let NodeValue::Map(_) = &node.value else {
        return Err((node.start, Finding::error("kind", "", "a document must be a map with apiVersion and kind")));
    };
    let Some(kind) = node.get("kind") else {
        return Err((node.start, Finding::error("missing-field", "kind", "`kind` is required").remedy("add `kind: StreamingJob`")));
    };
    match kind.text() {
        Some("StreamingJob") => Ok(Kind::Job),
        Some("Secret") => Ok(Kind::Secret),
        Some("ConfigMap") => Ok(Kind::ConfigMap),
        other => {
            let known = ["StreamingJob", "Secret", "ConfigMap"];
            let found = other.unwrap_or_default();
            let finding = Finding::error("kind", "kind", format!("`{found}` is not a kind that Weir reads"));
            Err((kind.start, finding.found(found).allowed(known).nearest_of(found, known)))
        }
    }
}

/// A job's document as a JSON value that fits the resource, beside the findings of the walk.
pub(super) struct WalkedJob {
    pub value: Value,
    pub findings: Vec<(Position, Finding)>,
    /// Paths that were already spoken about.
    pub covered: Covered,
}

/// Answers whether a finding would repeat what the walk has said.
pub(super) struct Covered(BTreeSet<String>);

impl Covered {
    pub fn has(&self, path: &str) -> bool {
        let mut locator = Locator::default();
        let mut walk = Walk::new(&mut locator);
        walk.damaged.clone_from(&self.0);
        walk.is_covered(path)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(super) fn walk_job(node: &Node, locator: &mut Locator) -> WalkedJob {
    locator.add("", Spot { key: node.start, value: node.start, style: Style::Plain });
    let mut walk = Walk::new(locator);
    let mut root = Map::new();
    root.insert("apiVersion".to_owned(), json!(API_VERSION));
    root.insert("kind".to_owned(), json!("StreamingJob"));
    if let NodeValue::Map(entries) = &node.value {
        for entry in entries {
            top_level(entry, &mut walk, &mut root);
        }
    }
    for (name, remedy) in [
        ("apiVersion", "add `apiVersion: weir.dev/v1alpha1`"),
        ("metadata", "add `metadata: {name: my-job}`"),
        ("spec", "add `spec` with trigger and tasks"),
    ] {
        if node.get(name).is_none() {
            walk.report(node.start, Finding::error("missing-field", name, format!("`{name}` is required")).remedy(remedy));
        }
    }
    root.entry("metadata").or_insert_with(|| json!({}));
    root.entry("spec").or_insert_with(|| json!({"trigger": {}, "tasks": []}));
    let (findings, damaged) = (walk.findings, walk.damaged);
    WalkedJob { value: Value::Object(root), findings, covered: Covered(damaged) }
}

fn top_level(entry: &Entry, walk: &mut Walk<'_>, root: &mut Map<String, Value>) {
    let node = &entry.value;
    walk.locator.add(&entry.key, Spot { key: entry.key_start, value: node.start, style: Style::Plain });
    match entry.key.as_str() {
        "apiVersion" => {
            if node.text() != Some(API_VERSION) {
                let finding = Finding::error("api-version", "apiVersion", "this is not a version of StreamingJob that Weir reads");
                walk.report(node.start, finding.found(node.text().unwrap_or_default()).allowed([API_VERSION]));
            }
        }
        "kind" | "status" => {}
        "metadata" => {
            if let Some(metadata) = metadata(entry, walk) {
                root.insert("metadata".to_owned(), metadata);
            }
        }
        "spec" => {
            if let Some(spec) = walk.value(resource_schema(), node, "spec", entry.key_start) {
                root.insert("spec".to_owned(), spec);
            }
        }
        other => {
            let known = ["apiVersion", "kind", "metadata", "spec"];
            let finding = Finding::error("unknown-field", other, format!("`{other}` is not a field here"));
            walk.report(entry.key_start, finding.allowed(known).nearest_of(other, known));
        }
    }
}

fn metadata(entry: &Entry, walk: &mut Walk<'_>) -> Option<Value> {
    let node = &entry.value;
    let NodeValue::Map(entries) = &node.value else {
        walk.report(node.start, Finding::error("type", "metadata", "must be a map").remedy("write `metadata: {name: my-job}`"));
        return None;
    };
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut result = Map::new();
    for field in entries {
        let path = child("metadata", &field.key);
        let value = match field.key.as_str() {
            "name" | "namespace" => walk.value(&text, &field.value, &path, field.key_start),
            "labels" | "annotations" => walk.value(&texts, &field.value, &path, field.key_start),
            known if METADATA.contains(&known) => Some(to_json(&field.value)),
            unknown => {
                let finding = Finding::error("unknown-field", &path, format!("`{unknown}` is not a field of metadata"));
                walk.report(field.key_start, finding.nearest_of(unknown, METADATA));
                None
            }
        };
        if let Some(value) = value {
            result.insert(field.key.clone(), value);
        }
    }
    if !result.contains_key("name") && !walk.damaged.contains("metadata.name") {
        walk.report(
            entry.key_start,
            Finding::error("missing-field", "metadata.name", "`name` is required").remedy("add `name`: the name of the job"),
        );
    }
    // Fields that the API server fills may be of any shape here; only a typed object is kept.
    match serde_json::from_value::<ObjectMeta>(Value::Object(result.clone())) {
        Ok(_) => Some(Value::Object(result)),
        Err(error) => {
            walk.report(node.start, Finding::error("type", "metadata", format!("is not the metadata of an object: {error}")));
            result.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "labels" | "annotations"));
            Some(Value::Object(result))
        }
    }
}
