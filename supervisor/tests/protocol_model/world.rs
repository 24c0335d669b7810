//! What the protocol is up against: kubelets, a node that is cut off, humans.
//!
//! A kubelet that is cut off still starts and keeps processes, but hears and
//! reports nothing. The first node is the one that can be; pods that are
//! created meanwhile go to the second.

use crate::actions::{Kubelet, World};
use crate::protocol::{Mutant, NodeLostPolicy, Protocol, SinkKind};
use crate::state::{History, Job, Node, Operator, Pod, Slot, State, Status, Step};
use crate::{operator, process};

pub fn kubelet_may(state: &State, uid: u8, step: Kubelet) -> bool {
    let process = &state.processes[usize::from(uid) - 1];
    let hears = !(state.node_lost && process.node == Node::First);
    let pod = state.pod.filter(|pod| pod.uid == uid);
    let deleting = pod.is_some_and(|pod| pod.deleting);
    match step {
        Kubelet::Start => process.step == Step::NotStarted && (!hears || pod.is_some_and(|pod| !pod.deleting)),
        Kubelet::Signal => hears && deleting && process.is_running() && !process.stop,
        Kubelet::Report => {
            let over = process.step == Step::Ended || (deleting && process.step == Step::NotStarted);
            hears && over && pod.is_some_and(|pod| pod.end.is_none() || pod.deleting)
        }
        Kubelet::EndOrphan => hears && pod.is_none() && process.step != Step::Ended,
    }
}

pub fn kubelet(state: &mut State, uid: u8, step: Kubelet) {
    match step {
        Kubelet::Start => state.process(uid).step = Step::Owner,
        Kubelet::Signal => state.process(uid).stop = true,
        Kubelet::Report => {
            let report = state.process(uid).report;
            process::end(state.process(uid), report);
            if let Some(pod) = state.pod.filter(|pod| pod.deleting) {
                state.told_end = pod.epoch;
            }
            state.pod = state.pod.filter(|pod| !pod.deleting).map(|pod| Pod { end: Some(report), ..pod });
        }
        Kubelet::EndOrphan => process::end(state.process(uid), 0),
    }
}

/// The epoch that a human may vouch for: of the pod on the silent node, or of the one that vanished there.
fn to_vouch_for(protocol: &Protocol, state: &State) -> Option<u8> {
    let at_slot = || match state.job.status.slot {
        // Of an order that was never seen nothing is shown that a human could vouch for.
        Slot::Seen { epoch, .. } if state.pod.is_none() => Some(epoch),
        _ => None,
    };
    let on_node = state.pod.filter(|pod| pod.node == Node::First && pod.end.is_none()).map(|pod| pod.epoch);
    let epoch = on_node.or_else(at_slot)?;
    let alive = state.processes.iter().any(|process| process.step != Step::Ended && process.epoch == epoch);
    // Fenced sinks survive a human who is wrong. For others his word is all there is, so it is true.
    (protocol.sink == SinkKind::Fenced || !alive).then_some(epoch)
}

pub fn may(protocol: &Protocol, state: &State, event: World) -> bool {
    let left = &state.left;
    match event {
        World::CutOffNode => left.partitions > 0 && !state.node_lost,
        World::NodeComesBack => state.node_lost,
        World::ForceDelete => {
            // Of a pod that no pass has seen nobody knows that it was there; see `limit_of_a_force_delete_by_hand`.
            let known = |pod: Pod| state.job.status.slot == Slot::Seen { epoch: pod.epoch, node: pod.node };
            let bearable = protocol.sink == SinkKind::Fenced || protocol.is(Mutant::ForceDeleteUnseen);
            left.force_deletes > 0 && state.pod.is_some_and(|pod| bearable || known(pod))
        }
        World::Vouch => {
            let vanished = state.pod.is_none() && matches!(state.job.status.slot, Slot::Seen { .. });
            let waits = (state.node_lost || vanished) && protocol.policy == NodeLostPolicy::Wait;
            left.vouchers > 0 && waits && to_vouch_for(protocol, state).is_some()
        }
        World::WipeStatus => left.wipes > 0 && state.job.status != Status::default(),
        World::Suspend => left.suspends > 0 && !state.job.suspend,
        World::Resume => state.job.suspend,
        World::Recreate => left.recreations > 0 && state.pod.is_none() && state.job.status != Status::default(),
        World::CollectGarbage => state.pod.is_some_and(|pod| pod.job != state.job.uid && !pod.deleting),
    }
}

pub fn happen(protocol: &Protocol, state: &mut State, event: World) {
    match event {
        World::CutOffNode => {
            state.left.partitions -= 1;
            state.node_lost = true;
        }
        World::NodeComesBack => state.node_lost = false,
        World::ForceDelete => {
            state.left.force_deletes -= 1;
            state.history.excused |= state.history.wiped;
            if let Some(pod) = state.pod.take() {
                state.process(pod.uid).given_up = true;
            }
        }
        World::Vouch => {
            state.left.vouchers -= 1;
            let epoch = to_vouch_for(protocol, state);
            state.job.vouched = epoch;
            for process in state.processes.iter_mut().filter(|process| Some(process.epoch) == epoch) {
                process.given_up = true;
            }
            state.job_was_written();
        }
        World::WipeStatus => {
            state.left.wipes -= 1;
            // Safe is only a wipe under a pod of the highest epoch that nobody is about to take away.
            let shown = state.pod.is_some_and(|pod| pod.job == state.job.uid && pod.epoch == state.history.reserved && !pod.deleting);
            let quiet = state.operators.iter().all(|operator| *operator == Operator::Idle);
            state.history.wiped = true;
            state.history.excused |= !(shown && quiet);
            state.job.status = Status::default();
            state.job_was_written();
        }
        World::Suspend | World::Resume => {
            state.left.suspends -= u8::from(event == World::Suspend);
            state.job.suspend = event == World::Suspend;
            state.job_was_written();
        }
        World::Recreate => {
            state.left.recreations -= 1;
            let uid = state.job.uid + 1;
            state.told_end = 0;
            state.job = Job { uid, suspend: false, vouched: None, status: Status { counter: 0, slot: Slot::Free } };
            state.history = History { used: 0, reserved: 0, wiped: false, excused: false, forgotten: false, ..state.history };
            state.job_was_written();
        }
        World::CollectGarbage => {
            if let Some(pod) = state.pod {
                operator::delete(state, pod);
            }
        }
    }
}
