//! An operator's pass: read the job, read the pod and decide, write ahead, call.
//!
//! Between any two of these steps anything else may happen, so each operator
//! may be the leader, or one that lost the lease and does not know it. `decide`
//! is what `weir_supervisor::decide` and the shell around it come to for one
//! task of a continuous job without delays; the numbers are those of
//! operators.md 4.5. Where that text is silent the choice is marked.

use crate::actions::Answer;
use crate::protocol::{Mutant, NodeLostPolicy, Protocol};
use crate::state::{Call, Job, Node, Operator, Pod, Process, Slot, State, Status};

/// Takes the operator's next step; false where it would change nothing.
pub fn step(protocol: &Protocol, state: &mut State, at: usize, answer: Answer) -> bool {
    let next = match state.operators[at] {
        Operator::Idle => Operator::HasJob { job: state.job, fresh: true },
        Operator::HasJob { job, fresh } => {
            let (next, then) = decide(protocol, &job, state);
            match (next == job.status, then) {
                (true, None) => Operator::Idle,
                (true, Some(call)) => Operator::Calling(call),
                (false, then) => Operator::Writing { next, then, fresh },
            }
        }
        Operator::Writing { next, then, .. } => {
            // 4.5.2: a PUT with the resourceVersion just read; `State::normal` has dropped those that would conflict.
            state.job.status = next;
            state.job_was_written();
            match then.filter(|_| answer == Answer::Heard) {
                Some(call) => Operator::Calling(call),
                None => Operator::Idle,
            }
        }
        Operator::Calling(request) => {
            call(protocol, state, request);
            Operator::Idle
        }
    };
    let changed = state.operators[at] != next;
    state.operators[at] = next;
    changed
}

/// The status to store, and the call to make once it is stored.
fn decide(protocol: &Protocol, job: &Job, state: &State) -> (Status, Option<Call>) {
    match &state.pod {
        None => on_absent(protocol, job, state),
        // 4.5.4: OwnershipConflict, touch nothing.
        Some(pod) if pod.job != job.uid => (job.status, None),
        Some(pod) => on_pod(protocol, job, pod, state.node_lost),
    }
}

fn on_pod(protocol: &Protocol, job: &Job, pod: &Pod, node_lost: bool) -> (Status, Option<Call>) {
    let slot = job.status.slot;
    // protocol.md 2: above the maximum of status, pod labels and every epoch that a task reported.
    let seen = if protocol.is(Mutant::LabelsIgnored) { 0 } else { pod.epoch.max(pod.end.unwrap_or(0)) };
    let counter = job.status.counter.max(seen);
    let accounted = Status { counter, slot: Slot::Free };
    if pod.end.is_some() {
        // 4.5.6: a terminal phase was seen; first it is accounted for, then the object is removed.
        return (accounted, Some(Call::Delete { uid: pod.uid }));
    }
    if node_lost && pod.node == Node::First {
        let vouched = job.vouched == Some(pod.epoch);
        let given_up = protocol.policy == NodeLostPolicy::ReplaceWhenFenced || vouched || protocol.is(Mutant::ReplaceUnproven);
        return if given_up { (accounted, Some(Call::ForceDelete { uid: pod.uid })) } else { (Status { counter, slot }, None) };
    }
    if slot.epoch() == Some(pod.epoch) {
        let own = Status { counter, slot: Slot::Seen { epoch: pod.epoch, node: pod.node } };
        return (own, (job.suspend && !pod.deleting).then_some(Call::Delete { uid: pod.uid }));
    }
    // A pod that the status does not know: after a wipe, or a create that came late. It is stopped. An order below it would
    // be fenced and is given up (own UID and a higher epoch: the text is silent).
    let overtaken = slot.epoch().is_some_and(|ordered| ordered < pod.epoch);
    let stranger = Status { counter, slot: if overtaken { Slot::Free } else { slot } };
    (stranger, (!pod.deleting).then_some(Call::Delete { uid: pod.uid }))
}

fn on_absent(protocol: &Protocol, job: &Job, state: &State) -> (Status, Option<Call>) {
    let Status { counter, slot } = job.status;
    // 4.5.6: gone is no proof; the last state that the watch told of is, where it is an end. Of an order that was never seen
    // the node is not known, so all have to answer.
    let in_doubt = match slot {
        Slot::Free => false,
        Slot::Ordered(_) => state.node_lost,
        Slot::Seen { epoch, .. } => state.told_end != epoch && !protocol.is(Mutant::GoneIsProof),
    };
    let given_up = protocol.policy == NodeLostPolicy::ReplaceWhenFenced || (slot.epoch().is_some() && job.vouched == slot.epoch());
    if in_doubt && !given_up {
        return (job.status, None);
    }
    if job.suspend {
        return (Status { counter, slot: Slot::Free }, None);
    }
    if let (Slot::Ordered(epoch), true) = (slot, protocol.is(Mutant::OrderGivenAgain)) {
        return (job.status, Some(Call::Create { job: job.uid, epoch }));
    }
    if counter >= protocol.bounds.epochs {
        return (job.status, None);
    }
    // Each create takes the next value (protocol.md 1): an order whose outcome is not known is never given again.
    let epoch = counter + 1;
    (Status { counter: epoch, slot: Slot::Ordered(epoch) }, Some(Call::Create { job: job.uid, epoch }))
}

fn call(protocol: &Protocol, state: &mut State, request: Call) {
    match request {
        // 4.5.4: AlreadyExists leads to a new look.
        Call::Create { job, epoch } if state.pod.is_none() => create(protocol, state, job, epoch),
        Call::Create { .. } => {}
        Call::Delete { uid } => {
            let Some(pod) = hit(protocol, state, uid) else { return };
            delete(state, pod);
        }
        Call::ForceDelete { uid } => {
            let Some(pod) = hit(protocol, state, uid) else { return };
            let stated = pod.uid == uid && !protocol.is(Mutant::ReplaceUnproven);
            state.process(pod.uid).given_up |= stated;
            state.history.replaced = pod.epoch;
            state.pod = None;
        }
    }
}

/// 4.5.5: a delete reaches the pod that was read and no other.
fn hit(protocol: &Protocol, state: &State, uid: u8) -> Option<Pod> {
    state.pod.filter(|pod| pod.uid == uid || protocol.is(Mutant::DeleteByName))
}

/// What the API server does with a deletion with grace.
pub fn delete(state: &mut State, pod: Pod) {
    state.pod = pod.end.is_none().then_some(Pod { deleting: true, ..pod });
}

fn create(protocol: &Protocol, state: &mut State, job: u8, epoch: u8) {
    if state.processes.len() == protocol.bounds.pods {
        return;
    }
    let node = if state.node_lost { Node::Second } else { Node::First };
    let uid = state.processes.len() as u8 + 1;
    let pod = Pod { uid, job, epoch, node, deleting: false, end: None };
    state.processes.push(Process::new(&pod));
    state.pod = Some(pod);
    if job == state.job.uid {
        let bit = 1 << epoch;
        if state.history.used & bit != 0 {
            state.history.shared |= !state.history.forgotten;
            state.history.shared_forgotten |= state.history.forgotten;
        }
        state.history.used |= bit;
    }
}
