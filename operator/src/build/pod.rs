//! The pod of one attempt of one task.
//!
//! Its name is fixed per task, so the API server keeps two of them apart; the
//! epoch is in the container's environment, where nobody can change it, and in
//! a label for people. The pod never restarts by itself: when the next one
//! starts is the supervisor's decision. What the template of the task adds is
//! merged by name, and cannot take away what the one-run protocol rests on.

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, EmptyDirVolumeSource, Pod, PodSchedulingGate, PodSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_crds::{StreamingJobSpec, reserved};

use super::{container, references, restricted_pod, template};
use crate::names::{self, JobId};

/// Everything that decides how a pod looks.
#[derive(Clone, Copy, Debug)]
pub struct PodOrder<'a> {
    /// The job.
    pub job: &'a JobId,
    /// `spec` of the accepted generation.
    pub spec: &'a StreamingJobSpec,
    /// That generation; its ConfigMap is mounted.
    pub generation: i64,
    /// The task. One that the spec does not have gives a pod without additions, whose process says that there is no such task.
    pub task: &'a str,
    /// The epoch, written ahead in the job's status.
    pub epoch: u64,
    /// Attempt of the task in its run, from 1.
    pub attempt: u32,
    /// Number of the run.
    pub run: u64,
    /// The container image.
    pub image: &'a str,
    /// Token that the task asks of `PUT /v1/config`.
    pub token: &'a str,
    /// The highest claim of another owner's checkpoint that may be taken over.
    pub adopt_checkpoint: Option<u64>,
}

/// Longest value of a label.
const MAX_LABEL_LENGTH: usize = 63;

/// Builds the pod.
pub fn pod(order: &PodOrder<'_>) -> Pod {
    let task = order.spec.tasks.iter().find(|task| task.name == order.task);
    let given = task.and_then(|task| task.pod_template.clone()).unwrap_or_default();
    let references = task.map(|task| references::of_task(order.spec, task)).unwrap_or_default();
    let fixed = [generation_volume(order)].into_iter().chain(references.iter().enumerate().map(references::volume));
    let defaults = [container::TEMPORARY_VOLUME, container::STATE_VOLUME].map(empty_dir);
    let spec = PodSpec {
        affinity: given.affinity.clone(),
        automount_service_account_token: Some(given.service_account_name.is_some()),
        containers: vec![container::engine(order, &given, &references)],
        enable_service_links: Some(false),
        image_pull_secrets: non_empty(given.image_pull_secrets.clone()),
        node_selector: (!given.node_selector.is_empty()).then(|| given.node_selector.clone()),
        priority_class_name: given.priority_class_name.clone(),
        restart_policy: Some("Never".to_owned()),
        scheduling_gates: Some(vec![PodSchedulingGate { name: names::GATE.to_owned() }]),
        security_context: Some(restricted_pod()),
        service_account_name: given.service_account_name.clone(),
        termination_grace_period_seconds: Some(grace_seconds(order.spec)),
        tolerations: non_empty(given.tolerations.clone()),
        volumes: Some(template::merged(fixed.collect(), defaults.into(), &given.volumes, |volume| &volume.name)),
        ..PodSpec::default()
    };
    Pod { metadata: metadata(order, &given), spec: Some(spec), status: None }
}

fn metadata(order: &PodOrder<'_>, given: &weir_crds::resource::PodTemplateSpec) -> ObjectMeta {
    let mut labels = order.job.labels();
    labels.extend(
        [
            (names::LABEL_TASK, order.task.to_owned()),
            (names::LABEL_RUN, order.run.to_string()),
            (names::LABEL_ATTEMPT, order.attempt.to_string()),
            (names::LABEL_EPOCH, order.epoch.to_string()),
            (names::LABEL_GENERATION, order.generation.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let labels = labels.into_iter().map(|(name, value)| (name, label_value(&value))).collect();
    let annotations = [(reserved::DEFAULT_CONTAINER.to_owned(), names::ENGINE_CONTAINER.to_owned())].into();
    ObjectMeta {
        name: Some(names::pod_name(&order.job.name, order.task)),
        namespace: Some(order.job.namespace.clone()),
        labels: Some(template::with_own(given.labels.clone(), labels)),
        annotations: Some(template::with_own(given.annotations.clone(), annotations)),
        owner_references: Some(vec![order.job.owner_reference()]),
        ..ObjectMeta::default()
    }
}

/// A text as the value of a label: cut to what a label holds, with a letter or digit at both ends.
fn label_value(text: &str) -> String {
    let allowed = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let cut: String = text.chars().map(allowed).take(MAX_LABEL_LENGTH).collect();
    cut.trim_matches(|end: char| !end.is_ascii_alphanumeric()).to_owned()
}

/// Longer than the stop timeout, so that the task ends at a batch boundary by itself and its report is written.
fn grace_seconds(spec: &StreamingJobSpec) -> i64 {
    const BEYOND_STOP_TIMEOUT: i64 = 15;
    i64::try_from(spec.stop_timeout.as_millis().div_ceil(1000)).unwrap_or(i64::MAX).saturating_add(BEYOND_STOP_TIMEOUT)
}

fn generation_volume(order: &PodOrder<'_>) -> Volume {
    let name = names::generation_name(&order.job.name, order.generation);
    Volume {
        name: container::JOB_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource { name, ..ConfigMapVolumeSource::default() }),
        ..Volume::default()
    }
}

pub(crate) fn empty_dir(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }
}

fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_label_value_is_always_allowed(text in "\\PC{0,80}|[a-z.-]{50,80}") {
            let value = label_value(&text);
            prop_assert!(value.len() <= MAX_LABEL_LENGTH);
            prop_assert!(value.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter)), "{value}");
            prop_assert!([value.chars().next(), value.chars().next_back()].into_iter().flatten().all(|end| end.is_ascii_alphanumeric()));
        }

        #[test]
        fn a_short_name_is_left_alone(name in "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?") {
            prop_assert_eq!(label_value(&name), name);
        }
    }
}
