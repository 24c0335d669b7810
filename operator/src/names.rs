//! Names, labels and annotations of what the operator owns in a cluster.
//!
//! A pod is found by its owner's UID, never by a label that a user may change;
//! labels carry facts for people and for the cross-check. Pod names are fixed
//! per task, so the API server itself keeps two pods of a task apart.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use weir_crds::{annotations, reserved};
use weir_supervisor::memory::HIGHEST_EPOCH;

/// The field manager and event reporter.
pub const MANAGER: &str = "weir-operator";
/// The name of the engine's container.
pub const ENGINE_CONTAINER: &str = "engine";
/// The finalizer of a job: its runs are stopped before it goes.
pub const FINALIZER: &str = "weir.dev/run";
/// Scheduling gate of a pod: nothing of it runs before the status remembers that it is there.
pub const GATE: &str = "weir.dev/remembered";
/// Annotation of a generation's ConfigMap: the seal of the installation that accepted it.
pub const SEAL: &str = "weir.dev/seal";
/// Annotation of a job: the installation that looks after it.
pub const INSTALLATION: &str = annotations::OPERATOR;
/// Port of the task's HTTP interface in its pod.
pub const TASK_PORT: u16 = 8080;

/// Label: who made this. Watches select on it.
pub const LABEL_MANAGED_BY: &str = reserved::LABEL_MANAGED_BY;
/// Its value.
pub const MANAGED_BY: &str = "weir";
/// Label: UID of the job.
pub const LABEL_JOB_UID: &str = "weir.dev/job-uid";
/// Label: name of the job.
pub const LABEL_JOB: &str = "weir.dev/job";
/// Label: name of the task.
pub const LABEL_TASK: &str = "weir.dev/task";
/// Label: number of the run.
pub const LABEL_RUN: &str = "weir.dev/run";
/// Label: attempt of the task in the run.
pub const LABEL_ATTEMPT: &str = "weir.dev/attempt";
/// Label: the epoch, the fence token of the pod.
pub const LABEL_EPOCH: &str = "weir.dev/epoch";
/// Label: generation of the manifest that the pod or ConfigMap is made of.
pub const LABEL_GENERATION: &str = "weir.dev/generation";

/// The job that something belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID, so that a job of the same name made anew is another one.
    pub uid: String,
}

impl JobId {
    /// The owner reference that children carry: the controller, so that garbage collection takes them with the job.
    pub fn owner_reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: "weir.dev/v1alpha1".to_owned(),
            kind: "StreamingJob".to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// The generation of a ConfigMap of this very job.
    pub fn generation_of(&self, map: &ObjectMeta) -> Option<i64> {
        self.owns(map).then(|| label(map, LABEL_GENERATION)?.parse().ok()).flatten()
    }

    /// Whether an object's controller is this very job.
    pub fn owns(&self, metadata: &ObjectMeta) -> bool {
        controller_uid(metadata) == Some(self.uid.as_str())
    }

    /// The label selector of everything that belongs to this job.
    pub fn selector(&self) -> String {
        format!("{LABEL_JOB_UID}={}", self.uid)
    }

    /// Labels of everything that belongs to this job.
    pub fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (LABEL_MANAGED_BY.to_owned(), MANAGED_BY.to_owned()),
            (LABEL_JOB_UID.to_owned(), self.uid.clone()),
            (LABEL_JOB.to_owned(), self.name.clone()),
        ])
    }
}

/// An object's controller.
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// UID of an object's controller.
pub fn controller_uid(metadata: &ObjectMeta) -> Option<&str> {
    controller(metadata).map(|owner| owner.uid.as_str())
}

/// The pod of a task.
pub fn pod_name(job: &str, task: &str) -> String {
    format!("{job}--{task}")
}

/// The ConfigMap of an accepted generation.
pub fn generation_name(job: &str, generation: i64) -> String {
    format!("{job}-g{generation}")
}

/// A label's value.
pub fn label<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// An annotation's value.
pub fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// Environment variable of the engine's container that carries the epoch.
pub const EPOCH_VARIABLE: &str = reserved::EPOCH_VARIABLE;

/// The epoch of a pod: from its container's environment, which nobody can change, else from the label; none where
/// neither is one, so that nobody can tell which instance it is.
pub fn epoch_of_pod(pod: &Pod) -> Option<u64> {
    epochs_of_pod(pod).find_map(|text| text.parse::<u64>().ok().filter(|epoch| (1..=HIGHEST_EPOCH).contains(epoch)))
}

/// What a pod says of its epoch, believed in this order.
pub fn epochs_of_pod(pod: &Pod) -> impl Iterator<Item = &str> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let variables = containers.filter(|container| container.name == ENGINE_CONTAINER).flat_map(|engine| engine.env.iter().flatten());
    let fixed = variables.filter(|variable| variable.name == EPOCH_VARIABLE).filter_map(|variable| variable.value.as_deref());
    fixed.chain(label(&pod.metadata, LABEL_EPOCH))
}
