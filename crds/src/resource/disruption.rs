//! What an edit of the spec disrupts.
//!
//! Two specs are compared field by field along the schema; the class of a difference is that
//! of the field table. Lists that are maps by name are compared by name, so a new order alone
//! is no difference; durations and intervals are compared by value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::StreamingJobSpec;
use super::fields::Disrupts;
use super::schema::resource_schema;
use crate::duration::parse_delay;

/// What an edit disrupts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disruption {
    /// The whole run ends and a new one starts.
    pub run: bool,
    /// Tasks that are restarted, by name; empty when the run is.
    pub tasks: BTreeSet<String>,
    /// Something changed that reaches the running tasks without a restart.
    pub live: bool,
    /// Paths that differ, with their class; for events and logs.
    pub changes: BTreeMap<String, Disrupts>,
}

impl Disruption {
    /// Whether nothing has to be restarted.
    pub fn is_none(&self) -> bool {
        !self.run && self.tasks.is_empty()
    }
}

/// Compares two specs. Both should have passed `weir check`.
pub fn disruption(old: &StreamingJobSpec, new: &StreamingJobSpec) -> Disruption {
    let as_value = |spec: &StreamingJobSpec| serde_json::to_value(spec).expect("a spec is made of plain maps, lists and strings");
    let mut found = Disruption::default();
    let place = Place { path: "spec".to_owned(), task: None, class: Disrupts::Run };
    compare(&place, resource_schema(), Some(&as_value(old)), Some(&as_value(new)), &mut found);
    if found.run {
        found.tasks.clear();
    }
    found
}

#[derive(Clone)]
struct Place {
    path: String,
    task: Option<String>,
    class: Disrupts,
}

fn compare(place: &Place, schema: &Value, old: Option<&Value>, new: Option<&Value>, found: &mut Disruption) {
    match (old, new) {
        (Some(Value::Object(before)), Some(Value::Object(after))) if schema.get("properties").is_some() => {
            let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for key in keys {
                let child = &schema["properties"][key.as_str()];
                let place = Place {
                    path: format!("{}.{key}", place.path),
                    task: place.task.clone(),
                    class: Disrupts::of(child).unwrap_or(place.class),
                };
                compare(&place, child, before.get(key), after.get(key), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if list_key(schema).is_some() => {
            compare_lists(place, schema, before, after, found);
        }
        (Some(before), Some(after)) if same_value(schema, before, after) => {}
        (None, None) => {}
        _ => record(place, found),
    }
}

fn compare_lists(place: &Place, schema: &Value, before: &[Value], after: &[Value], found: &mut Disruption) {
    let key = list_key(schema).unwrap_or("name");
    let by_name = |list: &[Value]| -> BTreeMap<String, Value> {
        list.iter().map(|item| (item[key].as_str().unwrap_or_default().to_owned(), item.clone())).collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let task = if place.path == "spec.tasks" { Some(name.clone()) } else { place.task.clone() };
        let place = Place { path: format!("{}[{name}]", place.path), task, class: place.class };
        compare(&place, &schema["items"], before.get(name), after.get(name), found);
    }
}

fn list_key(schema: &Value) -> Option<&str> {
    schema.get("x-kubernetes-list-map-keys")?.get(0)?.as_str()
}

fn same_value(schema: &Value, before: &Value, after: &Value) -> bool {
    if before == after {
        return true;
    }
    match (schema["x-weir-type"].as_str(), before.as_str(), after.as_str()) {
        (Some("duration" | "interval"), Some(before), Some(after)) => {
            matches!((parse_delay(before), parse_delay(after)), (Ok(before), Ok(after)) if before == after)
        }
        _ => false,
    }
}

fn record(place: &Place, found: &mut Disruption) {
    found.changes.insert(place.path.clone(), place.class);
    match (place.class, &place.task) {
        (Disrupts::Run, _) | (Disrupts::Task, None) => found.run = true,
        (Disrupts::Task, Some(task)) => {
            found.tasks.insert(task.clone());
        }
        (Disrupts::None, _) => found.live = true,
        (Disrupts::Itself, _) => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn spec() -> Value {
        json!({
            "trigger": {"continuous": {}},
            "tasks": [
                {"name": "a", "queries": [{"name": "q", "sql": "SELECT * FROM s", "sources": [{"name": "s", "format": "rate"}],
                    "sink": {"format": "noop"}, "trigger": {"processingTime": "1 minute"}}]},
                {"name": "b", "queries": [{"name": "q", "sql": "SELECT * FROM s", "sources": [{"name": "s", "format": "rate"}], "sink": {"format": "noop"}}]},
            ],
        })
    }

    fn edit(change: impl FnOnce(&mut Value)) -> Disruption {
        let old: StreamingJobSpec = serde_json::from_value(spec()).unwrap();
        let mut edited = spec();
        change(&mut edited);
        disruption(&old, &serde_json::from_value(edited).unwrap())
    }

    #[test]
    fn the_same_spec_in_other_words_disrupts_nothing() {
        assert_eq!(edit(|_| ()), Disruption::default());
        let found = edit(|spec| {
            spec["restart"] = json!({"initialDelay": "10000ms"});
            spec["tasks"][0]["queries"][0]["trigger"]["processingTime"] = json!("60s");
            spec["tasks"].as_array_mut().unwrap().reverse();
        });
        assert_eq!(found, Disruption::default());
    }

    #[test]
    fn each_edit_has_its_class() {
        let found = edit(|spec| spec["tasks"][0]["queries"][0]["sql"] = json!("SELECT 1"));
        assert!(!found.run && found.tasks.contains("a") && found.tasks.len() == 1);
        assert!(edit(|spec| spec["conf"] = json!({"spark.sql.ansi.enabled": "false"})).run);
        assert!(edit(|spec| spec["trigger"] = json!({"manual": {}})).run);
        assert!(edit(|spec| spec["tasks"].as_array_mut().unwrap().truncate(1)).run);
        assert!(edit(|spec| spec["tasks"][0]["queries"][0]["checkpointLocation"] = json!("/c")).run);
        for path in [("stopTimeout", json!("90s")), ("taskRetry", json!({})), ("health", json!({"staleAfter": "1m"}))] {
            let found = edit(|spec| spec[path.0] = path.1.clone());
            assert!(found.is_none() && found.live, "{} {found:?}", path.0);
        }
        let found = edit(|spec| spec["suspend"] = json!(true));
        assert!(found.is_none() && !found.live && !found.changes.is_empty());
    }
}
