//! What is known of the node that a pod was bound to.
//!
//! A node that answers makes the word of its kubelet proof. A node object that
//! is gone is proof as well: whoever removes it vouches that the machine is.
//! Silence, ignorance and absence are no proof: a pod that is removed by force
//! is gone at once, and its process when its kubelet has got round to it. Where
//! the beginning of a silence is not known it is taken to be now, so that it
//! never grows long enough for a replacement.

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use weir_supervisor::Timestamp;

use super::timestamp;

/// The taint of a node whose kubelet has gone silent.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The taint of a node whose kubelet says that it is not well.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// What is known of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeState {
    /// Nobody asked, for instance because the pod has no node or nothing hangs on it.
    NotAsked,
    /// It answers.
    Ready,
    /// It does not, or says that it is not well.
    NotReady {
        /// Since when.
        since: Timestamp,
    },
    /// There is no such node any more.
    Gone,
    /// The rights to read nodes are missing, or reading failed.
    Unreadable,
}

/// Judges a node that was read; none when there is none of the name.
pub fn node_state(node: Option<&Node>, now: Timestamp) -> NodeState {
    let Some(node) = node else { return NodeState::Gone };
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let tainted: Vec<&Taint> = taints.filter(|taint| matches!(taint.key.as_str(), UNREACHABLE | NOT_READY)).collect();
    let answers = ready.is_some_and(|condition| condition.status == "True");
    if answers && tainted.is_empty() {
        return NodeState::Ready;
    }
    let flipped = ready.filter(|_| !answers).and_then(|condition| flip(condition, now));
    let added = tainted.iter().filter_map(|taint| Some(timestamp(taint.time_added.as_ref()?, now)));
    NodeState::NotReady { since: added.chain(flipped).min().unwrap_or(now) }
}

fn flip(condition: &NodeCondition, now: Timestamp) -> Option<Timestamp> {
    Some(timestamp(condition.last_transition_time.as_ref()?, now))
}

/// What the absence of a pod proves that was never seen to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vanished {
    /// Its process is over.
    Proven,
    /// Its node answers, but nobody says that its process is over.
    Unproven,
    /// Its process may be alive on a node that nobody can ask.
    Unconfirmed {
        /// Since when the node is silent.
        since: Timestamp,
    },
}

/// Judges an instance whose pod is gone without having been seen to end.
///
/// `place` is the node that it was last seen on; one that was seen without may have got one since. Where the
/// node cannot be asked the silence begins anew with every look, so that only a human's word ends it.
pub fn vanished(place: Option<&str>, node: &NodeState, now: Timestamp) -> Vanished {
    match (place, node) {
        (Some(_), NodeState::Gone) => Vanished::Proven,
        (None, _) | (Some(_), NodeState::Ready) => Vanished::Unproven,
        (Some(_), NodeState::NotReady { since }) => Vanished::Unconfirmed { since: (*since).min(now) },
        (Some(_), NodeState::NotAsked | NodeState::Unreadable) => Vanished::Unconfirmed { since: now },
    }
}
