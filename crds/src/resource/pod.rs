//! The parts of a pod that a task may set.
//!
//! A curated subset of `PodTemplateSpec`, so that the CRD stays small and the operator keeps
//! what the one-run protocol needs (name, restart policy, container, ports, owner) to itself.
//! Types are Kubernetes' own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvFromSource, EnvVar, LocalObjectReference, ResourceRequirements, Toleration, Volume, VolumeMount,
};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::text_map;

/// What the pod of a task has beside the engine's container.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct PodTemplateSpec {
    /// Labels of the pod. Keys under weir.dev/ and app.kubernetes.io/managed-by are the operator's and refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "text_map", extend("x-weir-disrupts" = "none"))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod. Keys under weir.dev/ and kubectl.kubernetes.io/default-container are the operator's and refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "text_map", extend("x-weir-disrupts" = "none"))]
    pub annotations: BTreeMap<String, String>,
    /// Compute resources of the engine's container; the memory limit bounds the engine's pools. Default: requests of 250m CPU and 256Mi memory, a limit of 1Gi memory; a resource that is named here, in either list, has no default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Environment of the engine's container. WEIR_EPOCH, WEIR_POD_UID, WEIR_TASK_TOKEN and POD_IP are the operator's and refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Environment of the engine's container from Secrets and ConfigMaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub env_from: Vec<EnvFromSource>,
    /// Volumes of the pod. Names that begin with weir- are the operator's and refused, but weir-tmp and weir-state replace its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub volumes: Vec<Volume>,
    /// Where the volumes are mounted in the engine's container; not under /etc/weir, which is the operator's. A bare path in a pod is refused unless a volume is mounted there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["mountPath".into()]))]
    pub volume_mounts: Vec<VolumeMount>,
    /// Service account of the pod. Its token is mounted only when this is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Secrets for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "text_map")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pod tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub tolerations: Vec<Toleration>,
    /// Scheduling preferences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Priority class of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
}
