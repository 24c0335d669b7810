//! Every step that somebody can take, and who takes it.
//!
//! | steps | in the protocol |
//! |---|---|
//! | `Operator` | operators.md 4.5, 1 to 6 and 8; protocol.md 2 (`operator.rs`) |
//! | `Process` | protocol.md 3 (claim, release) and 4 (batch) (`process.rs`) |
//! | `Kubelet`, `World` | what both are up against (`world.rs`) |
//!
//! `take` says false where a step changes nothing; such a step is left out.

use crate::protocol::Protocol;
use crate::state::{Operator, State};
use crate::{operator, process, world};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Operator(usize, Answer),
    /// A request is lost, or the operator dies here: it knows nothing any more.
    OperatorForgets(usize),
    Process(u8, Answer),
    /// SIGKILL.
    ProcessDies(u8),
    Kubelet(u8, Kubelet),
    World(World),
}

/// Whether the one who asked hears of what was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Heard,
    LostAfterCommit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelet {
    Start,
    /// SIGTERM, because the pod is being deleted.
    Signal,
    /// The end of the process reaches the pod's status, or completes its deletion.
    Report,
    /// Ends a process whose pod object is gone.
    EndOrphan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    CutOffNode,
    NodeComesBack,
    /// A human deletes the pod with grace 0.
    ForceDelete,
    /// `weir.dev/confirm-terminated`.
    Vouch,
    WipeStatus,
    Suspend,
    Resume,
    /// The job is deleted, its pod being gone, and applied again.
    Recreate,
    /// A pod whose owner is gone is deleted.
    CollectGarbage,
}

const WORLD: [World; 9] = [
    World::CutOffNode,
    World::NodeComesBack,
    World::ForceDelete,
    World::Vouch,
    World::WipeStatus,
    World::Suspend,
    World::Resume,
    World::Recreate,
    World::CollectGarbage,
];

/// Lists the steps worth trying.
pub fn possible(protocol: &Protocol, state: &State, actions: &mut Vec<Action>) {
    for (at, operator) in state.operators.iter().enumerate() {
        // Two operators that stand at the same point are one case.
        if at > 0 && state.operators[at - 1] == *operator {
            continue;
        }
        actions.push(Action::Operator(at, Answer::Heard));
        if matches!(operator, Operator::Writing { then: Some(_), .. }) {
            actions.push(Action::Operator(at, Answer::LostAfterCommit));
        }
        if *operator != Operator::Idle {
            actions.push(Action::OperatorForgets(at));
        }
    }
    for (uid, process) in (1..).zip(&state.processes) {
        if process.is_running() {
            actions.push(Action::Process(uid, Answer::Heard));
            if state.left.lost_answers > 0 && process::changes_something(process.step) {
                actions.push(Action::Process(uid, Answer::LostAfterCommit));
            }
            if state.left.crashes > 0 {
                actions.push(Action::ProcessDies(uid));
            }
        }
        let steps = [Kubelet::Start, Kubelet::Signal, Kubelet::Report, Kubelet::EndOrphan];
        actions.extend(steps.into_iter().filter(|step| world::kubelet_may(state, uid, *step)).map(|step| Action::Kubelet(uid, step)));
    }
    actions.extend(WORLD.into_iter().filter(|event| world::may(protocol, state, *event)).map(Action::World));
}

/// Takes a step; false where nothing would change.
pub fn take(protocol: &Protocol, state: &mut State, action: Action) -> bool {
    match action {
        Action::Operator(at, answer) => operator::step(protocol, state, at, answer),
        Action::OperatorForgets(at) => {
            state.operators[at] = Operator::Idle;
            true
        }
        Action::Process(uid, answer) => process::step(protocol, state, uid, answer),
        Action::ProcessDies(uid) => {
            state.left.crashes -= 1;
            process::end(state.process(uid), 0);
            true
        }
        Action::Kubelet(uid, step) => {
            world::kubelet(state, uid, step);
            true
        }
        Action::World(event) => {
            world::happen(protocol, state, event);
            true
        }
    }
}
