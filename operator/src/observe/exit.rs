//! How a pod ended: the engine's own report, its exit code, and what the
//! surroundings did to it.
//!
//! The pod's conditions and reason are read before its containers, because a
//! pod that was evicted, refused by its node or lost may have none, or have
//! ones that say nothing. Only the engine's container counts; others matter
//! where it never ran. Every text is cut here: a termination message may be of
//! any size and content. What an end means is decided by the supervisor.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use weir_supervisor::observed::{Exit, ExitCause};
use weir_supervisor::text::{LOG_TAIL_BYTES, MESSAGE_BYTES, cut, cut_front};
use weir_supervisor::{ExitReport, Timestamp};

use super::node::NodeState;
use super::timestamp;
use crate::names::ENGINE_CONTAINER;

/// The code of a process that was killed.
const KILLED: i32 = 137;
/// The code of a process that was terminated and did not handle it.
const TERMINATED: i32 = 143;
/// Longest CamelCase word.
const REASON_BYTES: usize = 128;
/// Longest name of a query or version of a source.
const NAME_BYTES: usize = 253;
/// A termination message longer than this is no report; the kubelet keeps 4 KiB.
const REPORT_BYTES: usize = 64 * 1024;
/// Pod reasons that say that the surroundings ended the pod or did not let it begin.
const DISRUPTIONS: [&str; 14] = [
    "DeadlineExceeded",
    "Evicted",
    "NodeAffinity",
    "NodeLost",
    "NodePorts",
    "NodeShutdown",
    "Preempted",
    "Preempting",
    "Shutdown",
    "Terminated",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
    "PodFeatureUnsupported",
    "PodOSNotSupported",
];
/// The kubelet's words for a pod that used more disk than it may; its own fault, not the node's.
const OWN_DISK_LIMIT: [&str; 3] = [
    "Usage of EmptyDir volume",
    "exceeded its local ephemeral storage limit",
    "Pod ephemeral local storage usage exceeds the total limit of containers",
];

/// The end of a pod that is proven over.
pub(super) fn exit(pod: &Pod, status: &PodStatus, node: &NodeState, now: Timestamp) -> Exit {
    let engine = engine_terminated(status);
    let (report, log_tail) = last_words(status, engine);
    let own_disk = over_own_disk_limit(status);
    let code = code(status, engine).or(own_disk.then_some(KILLED));
    let cause = if own_disk { ExitCause::Own } else { cause(pod, status, engine, node, now) };
    Exit { code, report, cause, log_tail, at: ended_at(pod, status, engine, now) }
}

/// The end of the engine's container, once its kubelet reported it.
pub(super) fn engine_terminated(status: &PodStatus) -> Option<&ContainerStateTerminated> {
    terminated(engine_status(status)?)
}

/// The status of the engine's container.
pub(super) fn engine_status(status: &PodStatus) -> Option<&ContainerStatus> {
    status.container_statuses.iter().flatten().find(|container| container.name == ENGINE_CONTAINER)
}

fn terminated(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    let ContainerState { terminated, .. } = container.state.as_ref()?;
    terminated.as_ref()
}

/// The kubelet found no trace of the container, so its code is made up.
fn is_unknown(terminated: &ContainerStateTerminated) -> bool {
    terminated.reason.as_deref() == Some("ContainerStatusUnknown")
}

fn code(status: &PodStatus, engine: Option<&ContainerStateTerminated>) -> Option<i32> {
    match engine {
        Some(engine) if is_unknown(engine) => None,
        Some(engine) => Some(engine.exit_code),
        // Weir's own codes have a meaning only in the engine's mouth.
        None => failed_before(status).map(|(_, end)| if matches!(end.exit_code, 20..=22) { 1 } else { end.exit_code }),
    }
}

/// The init container that kept the engine from running.
fn failed_before(status: &PodStatus) -> Option<(&str, &ContainerStateTerminated)> {
    let started = status.init_container_statuses.iter().flatten();
    let mut ends = started.filter_map(|container| Some((container.name.as_str(), terminated(container)?)));
    ends.find(|(_, end)| end.exit_code != 0)
}

fn cause(pod: &Pod, status: &PodStatus, engine: Option<&ContainerStateTerminated>, node: &NodeState, now: Timestamp) -> ExitCause {
    let disruption = |reason: &str| ExitCause::Disruption { reason: cut(reason, REASON_BYTES) };
    if let Some(target) = disruption_target(status) {
        return disruption(target);
    }
    if let Some(reason) = pod_reason(status).filter(|reason| is_disruption(reason) || engine.is_none()) {
        return disruption(reason);
    }
    match engine {
        Some(engine) if engine.reason.as_deref() == Some("OOMKilled") => ExitCause::OutOfMemory,
        Some(engine) if is_unknown(engine) => disruption("ContainerStatusUnknown"),
        Some(engine) if ended_by_deletion(pod, engine, now) => disruption("PodDeleted"),
        None if *node == NodeState::Gone => disruption("NodeGone"),
        None if pod.metadata.deletion_timestamp.is_some() => disruption("PodDeleted"),
        Some(_) | None => ExitCause::Own,
    }
}

fn pod_reason(status: &PodStatus) -> Option<&str> {
    status.reason.as_deref().filter(|reason| !reason.is_empty())
}

/// Reason of the condition that the control plane sets before it takes a pod away.
fn disruption_target(status: &PodStatus) -> Option<&str> {
    let target =
        status.conditions.iter().flatten().find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")?;
    let reason = target.reason.as_deref().filter(|reason| !reason.is_empty());
    Some(reason.or(pod_reason(status)).unwrap_or("DisruptionTarget"))
}

fn is_disruption(reason: &str) -> bool {
    DISRUPTIONS.contains(&reason) || reason.starts_with("OutOf")
}

/// Evictions for the pod's own limits carry no `DisruptionTarget`, unlike those for the node's sake.
fn over_own_disk_limit(status: &PodStatus) -> bool {
    let message = status.message.as_deref().unwrap_or_default();
    pod_reason(status) == Some("Evicted")
        && disruption_target(status).is_none()
        && OWN_DISK_LIMIT.iter().any(|sentence| message.contains(sentence))
}

/// Whether a signal that nobody handled came with, and not before, the deletion of the pod.
fn ended_by_deletion(pod: &Pod, engine: &ContainerStateTerminated, now: Timestamp) -> bool {
    let signalled = matches!(engine.exit_code, KILLED | TERMINATED);
    let ended = engine.finished_at.as_ref().map(|at| timestamp(at, now));
    let ordered = super::pod::deletion_requested_at(pod, now);
    signalled && ordered.is_some_and(|ordered| ended.is_none_or(|ended| ended.timestamp() >= ordered.timestamp()))
}

/// The engine's report, or whatever it left instead of one.
fn last_words(status: &PodStatus, engine: Option<&ContainerStateTerminated>) -> (Option<ExitReport>, String) {
    let message = engine.and_then(|engine| engine.message.as_deref()).map(str::trim).filter(|message| !message.is_empty());
    if let Some(message) = message {
        return match report(message) {
            Some(report) => (Some(report), String::new()),
            None => (None, cut_front(message, LOG_TAIL_BYTES)),
        };
    }
    if let Some((container, end)) = failed_before(status).filter(|_| engine.is_none()) {
        let said = end.message.as_deref().or(end.reason.as_deref()).unwrap_or_default();
        let code = end.exit_code;
        let said = cut_front(said.trim(), LOG_TAIL_BYTES / 2);
        let what = format!("the engine did not begin: init container {container} ended with code {code}: {said}");
        return (None, cut(&what, LOG_TAIL_BYTES));
    }
    (None, cut(status.message.as_deref().unwrap_or_default().trim(), LOG_TAIL_BYTES))
}

fn report(message: &str) -> Option<ExitReport> {
    if message.len() > REPORT_BYTES {
        return None;
    }
    let report: ExitReport = serde_json::from_str(message).ok()?;
    Some(ExitReport {
        query: report.query.map(|query| cut(&query, NAME_BYTES)),
        reason: cut(&report.reason, REASON_BYTES),
        message: cut(&report.message, MESSAGE_BYTES),
        source_version: report.source_version.map(|version| cut(&version, NAME_BYTES)),
        ..report
    })
}

/// The engine's end, else the newest time at which anything is known to have ended.
fn ended_at(pod: &Pod, status: &PodStatus, engine: Option<&ContainerStateTerminated>, now: Timestamp) -> Timestamp {
    let finished = |end: &ContainerStateTerminated| end.finished_at.as_ref().map(|at| timestamp(at, now));
    if let Some(at) = engine.and_then(finished) {
        return at;
    }
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let others = all.filter_map(|container| finished(terminated(container)?));
    let flips = status.conditions.iter().flatten().filter_map(|condition| Some(timestamp(condition.last_transition_time.as_ref()?, now)));
    others.max().or(flips.max()).or(super::pod::deletion_requested_at(pod, now)).unwrap_or(now)
}
