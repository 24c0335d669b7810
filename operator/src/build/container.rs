//! The engine's container: arguments, environment, probes, mounts, resources.
//!
//! Resources that the task's template does not name: 250m CPU and 256Mi memory
//! requested, memory limited to 1Gi. The root file system is read-only; `/tmp`
//! and `/var/lib/weir` are empty folders that end with the pod, and yield to a
//! template that mounts something else there.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, Probe, ResourceRequirements, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weir_crds::reserved;
use weir_crds::resource::PodTemplateSpec;

use super::references::{self, Reference};
use super::{DOCUMENT_KEY, PodOrder, restricted_container, template};
use crate::names;

/// CPU that is requested where the template names none.
pub const CPU_REQUEST: &str = "250m";
/// Memory that is requested where the template names none.
pub const MEMORY_REQUEST: &str = "256Mi";
/// Limit of memory where the template names none.
pub const MEMORY_LIMIT: &str = "1Gi";

pub(super) const JOB_VOLUME: &str = "weir-job";
pub(super) const TEMPORARY_VOLUME: &str = "weir-tmp";
pub(super) const STATE_VOLUME: &str = "weir-state";
const JOB_FOLDER: &str = "/etc/weir/job";
const TEMPORARY_FOLDER: &str = "/tmp";
const STATE_FOLDER: &str = "/var/lib/weir";
const TERMINATION_LOG: &str = "/dev/termination-log";
const PORT_NAME: &str = "http";

/// The container.
pub(super) fn engine(order: &PodOrder<'_>, given: &PodTemplateSpec, references: &[Reference]) -> Container {
    Container {
        name: names::ENGINE_CONTAINER.to_owned(),
        image: Some(order.image.to_owned()),
        command: Some(vec!["weir".to_owned()]),
        args: Some(arguments(order)),
        env: Some(environment(order, given)),
        env_from: (!given.env_from.is_empty()).then(|| given.env_from.clone()),
        ports: Some(vec![ContainerPort {
            name: Some(PORT_NAME.to_owned()),
            container_port: i32::from(names::TASK_PORT),
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        startup_probe: Some(startup_probe(order)),
        liveness_probe: Some(Probe { period_seconds: Some(10), failure_threshold: Some(6), ..http_probe("/livez") }),
        readiness_probe: Some(Probe { period_seconds: Some(2), failure_threshold: Some(3), ..http_probe("/readyz") }),
        resources: Some(template::resources(default_resources(), given.resources.as_ref())),
        security_context: Some(restricted_container()),
        termination_message_path: Some(TERMINATION_LOG.to_owned()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts(given, references)),
        ..Container::default()
    }
}

fn arguments(order: &PodOrder<'_>) -> Vec<String> {
    let epoch = order.epoch.to_string();
    let listen = format!("$(POD_IP):{}", names::TASK_PORT);
    let adopted = order.adopt_checkpoint.map(|claim| claim.to_string());
    let document = format!("{JOB_FOLDER}/{DOCUMENT_KEY}");
    let named = [
        ("--job", order.job.name.as_str()),
        ("--namespace", &order.job.namespace),
        ("--task", order.task),
        ("--epoch", &epoch),
        ("--job-uid", &order.job.uid),
        ("--listen", &listen),
        ("--termination-log", TERMINATION_LOG),
        ("--secrets-dir", references::FOLDER),
    ];
    let named = named.into_iter().chain(adopted.as_deref().map(|claim| ("--adopt-checkpoint", claim)));
    ["task"].into_iter().chain(named.flat_map(|(name, value)| [name, value])).chain([document.as_str()]).map(str::to_owned).collect()
}

/// Weir's variables come first, so that those of the template may refer to them.
fn environment(order: &PodOrder<'_>, given: &PodTemplateSpec) -> Vec<EnvVar> {
    let fixed = vec![
        variable(names::EPOCH_VARIABLE, &order.epoch.to_string()),
        field_variable(reserved::POD_IP_VARIABLE, "status.podIP"),
        field_variable(reserved::POD_UID_VARIABLE, "metadata.uid"),
        variable(reserved::TOKEN_VARIABLE, order.token),
    ];
    template::merged(fixed, vec![variable("WEIR_LOG_FORMAT", "json")], &given.env, |variable| &variable.name)
}

pub(crate) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), ..EnvVar::default() }
}

pub(crate) fn field_variable(name: &str, path: &str) -> EnvVar {
    let field = ObjectFieldSelector { field_path: path.to_owned(), ..ObjectFieldSelector::default() };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value_from: Some(source), ..EnvVar::default() }
}

fn mounts(given: &PodTemplateSpec, references: &[Reference]) -> Vec<VolumeMount> {
    let at = |name: &str, path: &str| VolumeMount { name: name.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() };
    let job = VolumeMount { read_only: Some(true), ..at(JOB_VOLUME, JOB_FOLDER) };
    let fixed = [job].into_iter().chain(references.iter().enumerate().map(references::mount)).collect();
    let defaults = vec![at(TEMPORARY_VOLUME, TEMPORARY_FOLDER), at(STATE_VOLUME, STATE_FOLDER)];
    template::merged(fixed, defaults, &given.volume_mounts, |mount| mount.mount_path.trim_end_matches('/'))
}

/// The kubelet's patience is longer than the start deadline, so that it is the supervisor who ends a start that takes too long.
fn startup_probe(order: &PodOrder<'_>) -> Probe {
    const BEYOND_START_DEADLINE: u64 = 60;
    let seconds = order.spec.start_deadline.as_millis().div_ceil(1000) + BEYOND_START_DEADLINE;
    let failures = i32::try_from(seconds).unwrap_or(i32::MAX);
    Probe { period_seconds: Some(1), failure_threshold: Some(failures), ..http_probe("/livez") }
}

fn http_probe(path: &str) -> Probe {
    let http = HTTPGetAction { path: Some(path.to_owned()), port: IntOrString::String(PORT_NAME.to_owned()), ..HTTPGetAction::default() };
    Probe { http_get: Some(http), timeout_seconds: Some(5), ..Probe::default() }
}

fn default_resources() -> ResourceRequirements {
    let quantity = |resource: &str, value: &str| (resource.to_owned(), Quantity(value.to_owned()));
    ResourceRequirements {
        requests: Some([quantity("cpu", CPU_REQUEST), quantity("memory", MEMORY_REQUEST)].into()),
        limits: Some([quantity("memory", MEMORY_LIMIT)].into()),
        claims: None,
    }
}
