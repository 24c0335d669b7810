//! A StreamingJob as it is stored, read though parts of it cannot be.
//!
//! Whoever may write a job or its status can put things there that no JSON
//! reader takes, such as a field nested without bound. Such a field is kept as
//! the text that it is: it is known by its name, goes back unchanged with each
//! write, and keeps nothing else from being read. `metadata.managedFields` is
//! looked into no deeper than asked, and is never sent: a write of `status`
//! leaves the stored ones in place. Judges nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{DynamicObject, TypeMeta};
use kube::core::NamespaceResourceScope;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use weir_crds::StreamingJob;

use crate::slim::{ReadMeta, as_job};

/// A job as it is stored.
#[derive(Clone, Debug)]
pub struct StoredJob {
    /// What can be read: its metadata, `spec` and `status`.
    pub object: DynamicObject,
    /// What cannot.
    pub unread: Unread,
    /// Who wrote which fields.
    pub managers: Vec<Manager>,
}

/// What of a job cannot be read.
#[derive(Clone, Debug, Default)]
pub struct Unread {
    /// All of `spec`.
    pub spec: Option<Field>,
    /// By name: fields of `status`.
    pub status: BTreeMap<String, Field>,
}

/// A field that cannot be read.
#[derive(Clone, Debug)]
pub struct Field {
    text: Box<RawValue>,
    /// Why, for people.
    pub why: String,
}

/// An entry of `managedFields`.
#[derive(Clone, Debug, Deserialize)]
pub struct Manager {
    /// Who.
    #[serde(rename = "manager")]
    pub name: Option<String>,
    #[serde(rename = "fieldsV1")]
    fields: Option<Box<RawValue>>,
}

as_job!(StoredJob, false, it => it.object.metadata);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Box<RawValue>,
    spec: Option<Box<RawValue>>,
    status: Option<BTreeMap<String, Box<RawValue>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Managers {
    #[serde(default)]
    managed_fields: Vec<Manager>,
}

impl<'de> Deserialize<'de> for StoredJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::deserialize(deserializer)?;
        let metadata: ReadMeta = serde_json::from_str(text.metadata.get()).map_err(serde::de::Error::custom)?;
        let managers: Managers = serde_json::from_str(text.metadata.get()).map_err(serde::de::Error::custom)?;
        let (mut data, mut unread) = (Map::new(), Unread::default());
        if let Some(spec) = text.spec {
            match read(spec) {
                Ok(spec) => drop(data.insert("spec".to_owned(), spec)),
                Err(field) => unread.spec = Some(field),
            }
        }
        if let Some(fields) = text.status {
            let mut status = Map::new();
            for (name, text) in fields {
                match read(text) {
                    Ok(value) => drop(status.insert(name, value)),
                    Err(field) => drop(unread.status.insert(name, field)),
                }
            }
            data.insert("status".to_owned(), Value::Object(status));
        }
        let types = text.api_version.zip(text.kind).map(|(api_version, kind)| TypeMeta { api_version, kind });
        let object = DynamicObject { types, metadata: metadata.into(), data: Value::Object(data) };
        Ok(StoredJob { object, unread, managers: managers.managed_fields })
    }
}

fn read(text: Box<RawValue>) -> Result<Value, Field> {
    serde_json::from_str(text.get()).map_err(|error| Field { text, why: error.to_string() })
}

impl Serialize for StoredJob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        if let Some(types) = &self.object.types {
            fields.serialize_entry("apiVersion", &types.api_version)?;
            fields.serialize_entry("kind", &types.kind)?;
        }
        fields.serialize_entry("metadata", &self.object.metadata)?;
        match &self.unread.spec {
            Some(field) => fields.serialize_entry("spec", &field.text)?,
            None => fields.serialize_entry("spec", &self.object.data["spec"])?,
        }
        fields.serialize_entry("status", &Status { read: &self.object.data["status"], unread: &self.unread.status })?;
        fields.end()
    }
}

/// What is read, and beside it what is not and has no successor in it.
struct Status<'a> {
    read: &'a Value,
    unread: &'a BTreeMap<String, Field>,
}

impl Serialize for Status<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        for (name, value) in self.read.as_object().into_iter().flatten() {
            fields.serialize_entry(name, value)?;
        }
        for (name, field) in self.unread.iter().filter(|(name, _)| self.read.get(name.as_str()).is_none()) {
            fields.serialize_entry(name, &field.text)?;
        }
        fields.end()
    }
}

impl Manager {
    /// Whether the entry has a field.
    pub fn owns(&self, path: &[&str]) -> bool {
        let Some(mut text) = self.fields.as_ref().map(|fields| fields.get()) else { return false };
        for name in path {
            let level: Option<BTreeMap<Cow<'_, str>, &RawValue>> = serde_json::from_str(text).ok();
            let Some(found) = level.and_then(|mut level| level.remove(*name)) else { return false };
            text = found.get();
        }
        text != "null"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn deep(levels: usize) -> String {
        format!("{}1{}", r#"{"f:a":"#.repeat(levels), "}".repeat(levels))
    }

    fn stored(memory: &str, spec: &str) -> String {
        let deep = deep(3000);
        let managers = format!(
            r#"[{{"manager":"m","operation":"Update","fieldsV1":{{"f:status":{{"f:memory":{{"f:epoch":{{}},"f:deep":{deep}}}}}}}}},{{"manager":"n","fieldsV1":{deep}}}]"#
        );
        let metadata = format!(r#"{{"name":"j","namespace":"n","uid":"u","generation":2,"managedFields":{managers}}}"#);
        let status = format!(r#"{{"epoch":7,"memory":{memory},"conditions":[]}}"#);
        format!(r#"{{"apiVersion":"weir.dev/v1alpha1","kind":"StreamingJob","metadata":{metadata},"spec":{spec},"status":{status}}}"#)
    }

    #[test]
    fn a_field_that_cannot_be_read_is_named_and_goes_back_as_it_came() {
        let memory = deep(3000);
        for (text, why) in [(memory.as_str(), "recursion"), ("1e999", "range")] {
            let mut job: StoredJob = serde_json::from_str(&stored(text, "{}")).unwrap();
            assert_eq!((job.object.metadata.name.as_deref(), job.object.metadata.generation), (Some("j"), Some(2)));
            assert_eq!((&job.object.data["status"]["epoch"], &job.object.data["status"]["memory"]), (&json!(7), &Value::Null));
            assert!(job.unread.status["memory"].why.contains(why), "{}", job.unread.status["memory"].why);
            job.object.data["status"]["conditions"] = json!([{"type": "Ready"}]);
            let sent = serde_json::to_string(&job).unwrap();
            assert!(sent.contains(&format!(r#""memory":{text}"#)), "unchanged");
            assert!(sent.contains(r#""conditions":[{"type":"Ready"}]"#) && !sent.contains("managedFields"));
            // Whoever has a new memory writes that one.
            job.object.data["status"]["memory"] = json!({"version": 1});
            let sent: Value = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
            assert_eq!(sent["status"]["memory"], json!({"version": 1}));
        }
        let job: StoredJob = serde_json::from_str(&stored("{}", &memory)).unwrap();
        assert!(job.unread.spec.is_some() && serde_json::to_string(&job).unwrap().contains(&memory));
    }

    #[test]
    fn what_can_be_read_is_read_as_it_is() {
        let text = stored(r#"{"version":1}"#, r#"{"tasks":[]}"#);
        let job: StoredJob = serde_json::from_str(&text).unwrap();
        assert!(job.unread.spec.is_none() && job.unread.status.is_empty());
        assert_eq!((&job.object.data["status"]["memory"]["version"], &job.object.data["spec"]["tasks"]), (&json!(1), &json!([])));
        let bare: StoredJob = serde_json::from_str(r#"{"metadata":{"name":"j"}}"#).unwrap();
        assert_eq!((&bare.object.data["status"], bare.managers.len()), (&Value::Null, 0));
    }

    #[test]
    fn managed_fields_are_looked_into_no_deeper_than_asked() {
        let job: StoredJob = serde_json::from_str(&stored("{}", "{}")).unwrap();
        let [m, n] = &job.managers[..] else { panic!("two managers") };
        assert!(m.owns(&["f:status", "f:memory", "f:epoch"]) && m.owns(&["f:status", "f:memory", "f:deep"]));
        assert!(!m.owns(&["f:status", "f:epoch"]) && !n.owns(&["f:status", "f:epoch"]));
    }
}
