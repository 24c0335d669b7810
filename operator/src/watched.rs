//! What the watches read of objects.
//!
//! `metadata.managedFields` is left out while reading: whoever may create a job
//! or a pod can nest it deeper than a JSON reader goes, and one such object
//! would keep the lists of all others from being read. What is not asked for is
//! skipped without a bound on its depth.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Deserializer};
use weir_crds::StreamingJob;

/// The metadata of a job.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct JobMeta {
    /// As far as it is read.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct WatchedPod(pub Pod);

#[derive(Deserialize)]
struct ReadPod {
    #[serde(deserialize_with = "slim")]
    metadata: ObjectMeta,
    spec: Option<PodSpec>,
    status: Option<PodStatus>,
}

impl<'de> Deserialize<'de> for WatchedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ReadPod { metadata, spec, status } = ReadPod::deserialize(deserializer)?;
        Ok(WatchedPod(Pod { metadata, spec, status }))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let read = ReadMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        generation: read.generation,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        deletion_grace_period_seconds: read.deletion_grace_period_seconds,
        labels: read.labels,
        annotations: read.annotations,
        finalizers: read.finalizers,
        owner_references: read.owner_references,
        ..ObjectMeta::default()
    })
}

macro_rules! as_resource {
    ($watched:ty, $of:ty, $is_metadata:literal, $meta:ident => $place:expr, $place_mut:expr) => {
        impl Resource for $watched {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn metadata_api() -> bool {
                $is_metadata
            }

            fn kind(_: &()) -> Cow<'_, str> {
                <$of>::kind(&())
            }

            fn group(_: &()) -> Cow<'_, str> {
                <$of>::group(&())
            }

            fn version(_: &()) -> Cow<'_, str> {
                <$of>::version(&())
            }

            fn plural(_: &()) -> Cow<'_, str> {
                <$of>::plural(&())
            }

            fn meta(&self) -> &ObjectMeta {
                let $meta = self;
                $place
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                let $meta = self;
                $place_mut
            }
        }
    };
}

as_resource!(JobMeta, StreamingJob, true, it => &it.metadata, &mut it.metadata);
as_resource!(WatchedPod, Pod, false, it => &it.0.metadata, &mut it.0.metadata);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kube::core::{ObjectList, WatchEvent};

    use super::*;

    #[test]
    fn what_is_nested_without_bound_is_passed_by() {
        let deep = format!("{}1{}", r#"{"f:a":"#.repeat(3000), "}".repeat(3000));
        let metadata = format!(
            r#"{{"name":"j","namespace":"n","uid":"u","labels":{{"a":"b"}},"managedFields":[{{"manager":"m","fieldsV1":{deep}}}],"generation":2}}"#
        );
        let job = format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#);
        let list = format!(
            r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"7"}},"items":[{job}]}}"#
        );
        let jobs: ObjectList<JobMeta> = serde_json::from_str(&list).unwrap();
        assert_eq!((jobs.items[0].metadata.name.as_deref(), jobs.items[0].metadata.generation), (Some("j"), Some(2)));
        let pod =
            format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata},"spec":{{"containers":[]}},"status":{{"phase":"Failed"}}}}"#);
        let event = format!(r#"{{"type":"DELETED","object":{pod}}}"#);
        let WatchEvent::Deleted(WatchedPod(pod)) = serde_json::from_str(&event).unwrap() else { panic!("{event}") };
        assert_eq!((pod.metadata.uid.as_deref(), pod.status.unwrap().phase.as_deref()), (Some("u"), Some("Failed")));
    }
}
