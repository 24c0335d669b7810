//! What is read of objects: all but `metadata.managedFields`.
//!
//! Whoever may create a job or a pod can nest them deeper than a JSON reader
//! goes, and one such object would keep the lists of all others, and each pass
//! over its own job, from being read. What is not asked for is skipped without a
//! bound on its depth. Jobs that are read for a pass are in `stored`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Node, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Deserializer, Serialize};
use weir_crds::StreamingJob;

/// The metadata of a job.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct JobMeta {
    /// As far as it is read.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
}

/// An object of Kubernetes' own.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Slim<K>(pub K);

macro_rules! slim {
    ($kind:ident { $($field:ident: $type:ty = $name:literal),+ $(,)? }) => {
        impl<'de> Deserialize<'de> for Slim<$kind> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                struct Parts {
                    #[serde(deserialize_with = "slim")]
                    metadata: ObjectMeta,
                    $(#[serde(rename = $name)] $field: Option<$type>,)+
                }
                let Parts { metadata, $($field),+ } = Parts::deserialize(deserializer)?;
                Ok(Slim($kind { metadata, $($field),+ }))
            }
        }
    };
}

slim!(Pod { spec: PodSpec = "spec", status: PodStatus = "status" });
slim!(Node { spec: NodeSpec = "spec", status: NodeStatus = "status" });
slim!(ConfigMap {
    data: BTreeMap<String, String> = "data",
    binary_data: BTreeMap<String, ByteString> = "binaryData",
    immutable: bool = "immutable",
});
slim!(Secret {
    data: BTreeMap<String, ByteString> = "data",
    immutable: bool = "immutable",
    string_data: BTreeMap<String, String> = "stringData",
    type_: String = "type",
});

impl<K: Resource> Resource for Slim<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// Makes something that holds the metadata of a job a resource.
macro_rules! as_job {
    ($read:ty, $is_metadata:literal, $it:ident => $metadata:expr) => {
        impl Resource for $read {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn metadata_api() -> bool {
                $is_metadata
            }

            fn kind(_: &()) -> Cow<'_, str> {
                StreamingJob::kind(&())
            }

            fn group(_: &()) -> Cow<'_, str> {
                StreamingJob::group(&())
            }

            fn version(_: &()) -> Cow<'_, str> {
                StreamingJob::version(&())
            }

            fn plural(_: &()) -> Cow<'_, str> {
                StreamingJob::plural(&())
            }

            fn meta(&self) -> &ObjectMeta {
                let $it = self;
                &$metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                let $it = self;
                &mut $metadata
            }
        }
    };
}
pub(crate) use as_job;

as_job!(JobMeta, true, it => it.metadata);

/// Metadata as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadMeta {
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

/// Metadata without `managedFields`.
fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Ok(ReadMeta::deserialize(deserializer)?.into())
}

impl From<ReadMeta> for ObjectMeta {
    fn from(read: ReadMeta) -> ObjectMeta {
        ObjectMeta {
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
        }
    }
}

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
        let WatchEvent::Deleted(Slim::<Pod>(pod)) = serde_json::from_str(&event).unwrap() else { panic!("{event}") };
        assert_eq!((pod.metadata.uid.as_deref(), pod.status.unwrap().phase.as_deref()), (Some("u"), Some("Failed")));
    }
}
