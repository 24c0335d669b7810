//! How far a pod is, in the words of the supervisor.
//!
//! Phase and reason of the pod are read before its containers, a terminal phase
//! before all else, and only the engine's container counts: a sidecar that
//! lives on keeps nothing alive, one that failed ends nothing. A kubelet that
//! is silent makes what the pod says old news, unless the task itself answers.
//! The pod's deletion, by whomever, is an order to stop.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodSpec, PodStatus};
use weir_supervisor::Timestamp;
use weir_supervisor::observed::{Instance, Phase, QueryFacts, Slot, StartObstacle, StopOrder};
use weir_supervisor::text::{MESSAGE_BYTES, cut};
use weir_supervisor::time::{after, elapsed};

use super::exit::{engine_status, engine_terminated, exit};
use super::node::NodeState;
use super::timestamp;
use crate::names::{ENGINE_CONTAINER, GATE, LABEL_GENERATION, epoch_of_pod, epochs_of_pod, label};

/// How long an answer of the task vouches for it while its kubelet is silent.
const ANSWER_VOUCHES: Duration = Duration::from_secs(15);
/// How long after the end of its grace a deleted pod may still be there before its node is doubted.
const OVERDUE: Duration = Duration::from_secs(60);
/// Grace of a deletion that does not name one.
const DEFAULT_GRACE_SECONDS: i64 = 30;
/// Finalizers that are told.
const FINALIZERS: usize = 3;
/// As much of a label as is told.
const WORD_BYTES: usize = 64;
/// Why a container cannot be made of its image or of what it refers to.
const CANNOT_START: [&str; 8] = [
    "CreateContainerConfigError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// The last answer of a task's HTTP interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// The epoch of the task that answered.
    pub epoch: u64,
    /// When.
    pub reported_at: Timestamp,
    /// Whether all its queries are past their claim.
    pub is_ready: bool,
    /// One entry per query.
    pub queries: Vec<QueryFacts>,
    /// The generation whose live settings it has.
    pub generation: i64,
}

/// The instance that a pod is. An answer of another epoch is not its own and is ignored.
pub fn instance(pod: &Pod, node: &NodeState, answers: Option<&Answers>, now: Timestamp) -> Instance {
    let epoch = epoch_of_pod(pod).unwrap_or_default();
    let answers = answers.filter(|answers| answers.epoch == epoch);
    let metadata = &pod.metadata;
    let began_with = label(metadata, LABEL_GENERATION).and_then(|text| text.parse().ok()).unwrap_or(0);
    Instance {
        name: metadata.name.clone().unwrap_or_default(),
        epoch,
        created_at: metadata.creation_timestamp.as_ref().map_or(now, |at| timestamp(at, now)),
        phase: vouched(phase(pod, node, now), pod, node, answers, now),
        stop_order: stop_order(pod, now),
        config_generation: answers.map_or(began_with, |answers| answers.generation.max(began_with)),
        reported_at: answers.map(|answers| answers.reported_at.min(now)),
        queries: answers.map_or_else(Vec::new, |answers| answers.queries.clone()),
        place: place(pod).map(str::to_owned),
        held_by: held_by(pod),
    }
}

/// The slot of a pod of which nobody can tell which instance of its job it is: none of the operator's, because those have
/// an epoch that nobody can change. Once it has ended it is in the way at most.
pub fn unknown_instance(pod: &Pod, now: Timestamp) -> Option<Slot> {
    if epoch_of_pod(pod).is_some() {
        return None;
    }
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let epoch =
        epochs_of_pod(pod).next().map_or_else(|| "has no epoch".to_owned(), |text| format!("whose epoch is {:?}", cut(text, WORD_BYTES)));
    let what = format!("pod {name}, which names this job as its owner and {epoch}");
    Some(if has_ended(pod, now) { Slot::Occupied { by: what } } else { Slot::Unclassified { what } })
}

/// The finalizers that keep a pod which is to go: none of them is ours.
fn held_by(pod: &Pod) -> Vec<String> {
    let leaves = pod.metadata.deletion_timestamp.is_some();
    pod.metadata.finalizers.iter().flatten().filter(|_| leaves).take(FINALIZERS).cloned().collect()
}

/// A task that answers is alive, though its kubelet is silent; the silence begins with its last answer.
fn vouched(phase: Phase, pod: &Pod, node: &NodeState, answers: Option<&Answers>, now: Timestamp) -> Phase {
    let (Phase::Unreachable { .. }, NodeState::NotReady { since }, Some(answers)) = (&phase, node, answers) else { return phase };
    let heard = answers.reported_at.min(now);
    if heard < *since || pod.metadata.deletion_timestamp.is_some() {
        return phase;
    }
    match elapsed(heard, now) < ANSWER_VOUCHES {
        true if answers.is_ready => Phase::Ready,
        true => Phase::Starting(StartObstacle::None),
        false => Phase::Unreachable { since: heard },
    }
}

/// How far a pod is.
pub fn phase(pod: &Pod, node: &NodeState, now: Timestamp) -> Phase {
    let unknown = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&unknown);
    let word = status.phase.as_deref().unwrap_or("Pending");
    let terminal = matches!(word, "Succeeded" | "Failed");
    let node_is_gone = *node == NodeState::Gone && place(pod).is_some();
    if terminal || engine_terminated(status).is_some() || node_is_gone {
        return Phase::Exited(exit(pod, status, node, now));
    }
    if let Some(since) = silent_since(pod, status, word, node, now) {
        return Phase::Unreachable { since };
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Phase::Terminating;
    }
    if says_ready(status) { Phase::Ready } else { Phase::Starting(obstacle(pod, status)) }
}

/// Whether a pod says that its engine is over.
pub fn has_ended(pod: &Pod, now: Timestamp) -> bool {
    matches!(phase(pod, &NodeState::NotAsked, now), Phase::Exited(_))
}

/// Whether a pod is ready, or was until it was told to stop.
pub fn is_ready(pod: &Pod) -> bool {
    pod.status.as_ref().is_some_and(says_ready)
}

/// The node that a pod is bound to.
pub fn place(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// When the deletion of a pod was asked for; none while nobody did.
pub fn deletion_requested_at(pod: &Pod, now: Timestamp) -> Option<Timestamp> {
    let deadline = deletion_deadline(pod)?;
    let grace = chrono::TimeDelta::try_seconds(grace_seconds(pod)).unwrap_or_default();
    Some(deadline.checked_sub_signed(grace).unwrap_or(deadline).min(now))
}

/// The strongest order to stop that reached a pod.
fn stop_order(pod: &Pod, now: Timestamp) -> StopOrder {
    let (Some(deadline), Some(at)) = (deletion_deadline(pod), deletion_requested_at(pod, now)) else { return StopOrder::None };
    if grace_seconds(pod) == 0 || deadline <= now { StopOrder::Kill } else { StopOrder::Graceful { at } }
}

/// `deletionTimestamp` is when the grace ends, so it may lie ahead.
fn deletion_deadline(pod: &Pod) -> Option<Timestamp> {
    let at = &pod.metadata.deletion_timestamp.as_ref()?.0;
    Some(Timestamp::from_timestamp(at.as_second(), 0).unwrap_or(Timestamp::MAX_UTC))
}

fn grace_seconds(pod: &Pod) -> i64 {
    let of_spec = |spec: &PodSpec| spec.termination_grace_period_seconds;
    let given = pod.metadata.deletion_grace_period_seconds.or_else(|| pod.spec.as_ref().and_then(of_spec));
    given.unwrap_or(DEFAULT_GRACE_SECONDS).max(0)
}

/// Since when nothing is known of a pod; none while its kubelet is to be believed.
fn silent_since(pod: &Pod, status: &PodStatus, word: &str, node: &NodeState, now: Timestamp) -> Option<Timestamp> {
    let bound = place(pod).is_some();
    match node {
        NodeState::NotReady { since } if bound => Some((*since).min(now)),
        // Only a human can tell: a silence that begins now never grows old.
        NodeState::Unreadable if bound && is_overdue(pod, now) => Some(now),
        _ if word == "Unknown" || status.reason.as_deref() == Some("NodeLost") => {
            let flip =
                condition(status, "Ready").filter(|ready| ready.status != "True").and_then(|ready| ready.last_transition_time.as_ref());
            Some(flip.map_or(now, |at| timestamp(at, now)))
        }
        _ => None,
    }
}

fn is_overdue(pod: &Pod, now: Timestamp) -> bool {
    deletion_deadline(pod).is_some_and(|deadline| after(deadline, OVERDUE) <= now)
}

fn says_ready(status: &PodStatus) -> bool {
    let running = status.phase.as_deref() == Some("Running");
    let engine = engine_status(status).is_some_and(|engine| engine.ready);
    running && (engine || condition(status, "Ready").is_some_and(|ready| ready.status == "True"))
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

fn obstacle(pod: &Pod, status: &PodStatus) -> StartObstacle {
    let mut gates = pod.spec.iter().flat_map(|spec| spec.scheduling_gates.iter().flatten()).peekable();
    let is_gated = gates.peek().is_some();
    if gates.any(|gate| gate.name == GATE) {
        return StartObstacle::Gated;
    }
    if let Some(scheduled) = condition(status, "PodScheduled").filter(|_| place(pod).is_none()) {
        let reason = scheduled.reason.as_deref().unwrap_or_default();
        // The condition outlasts the gate by a moment.
        let is_held = reason == "Unschedulable" || reason == "SchedulingGated" && is_gated;
        if scheduled.status == "False" && is_held {
            let message = scheduled.message.as_deref().filter(|message| !message.is_empty()).unwrap_or(reason);
            return StartObstacle::Unschedulable { message: cut(message, MESSAGE_BYTES) };
        }
    }
    let before = status.init_container_statuses.iter().flatten();
    let needed = engine_status(status).into_iter().chain(before);
    needed.filter_map(|container| cannot_start(pod, container)).next().unwrap_or(StartObstacle::None)
}

/// A container whose image cannot be had, or that refers to something that is not there.
fn cannot_start(pod: &Pod, container: &ContainerStatus) -> Option<StartObstacle> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|reason| CANNOT_START.contains(reason))?;
    let said = waiting.message.as_deref().unwrap_or_default();
    let subject = if container.name == ENGINE_CONTAINER { String::new() } else { format!("container {}: ", container.name) };
    let fit = |message: String| cut(message.trim_end_matches([':', ' ']), MESSAGE_BYTES);
    Some(match reason {
        "CreateContainerConfigError" => {
            StartObstacle::ContainerConfig { message: fit(format!("{subject}the container refers to something that is missing: {said}")) }
        }
        _ => StartObstacle::ImagePull { message: fit(format!("{subject}image {}: {reason}: {said}", image(pod, container))) },
    })
}

/// As the template names it: the kubelet may show another spelling, or none.
fn image<'a>(pod: &'a Pod, status: &'a ContainerStatus) -> &'a str {
    let spec = pod.spec.as_ref();
    let all = spec.into_iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let named = all.filter(|container| container.name == status.name).find_map(|container| container.image.as_deref());
    named.unwrap_or(&status.image)
}
