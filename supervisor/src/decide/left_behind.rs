//! Instances that were given up without proof, because a fence makes them harmless.
//!
//! A fence holds once a successor has claimed the places behind it, not when that
//! one is ordered: until then the lost instance may go on with its work. So it is
//! remembered until a claim above its epoch behind the same fence is seen, until
//! it is known to be over, or until a human says so. Meanwhile its task starts
//! behind that very fence or not at all, and no edit, suspension or new run gets
//! round it. A task has one entry: whatever joins it was begun behind its fence.

use weir_crds::policy::NodeLostPolicy;

use crate::decide::Pass;
use crate::decide::unproven::GivenUp;
use crate::exit::ExitClass;
use crate::memory::LeftBehind;
use crate::observed::{Instance, Phase, Shutdown, Slot};

/// Forgets those that can do no harm any more, by what the slots show.
pub(super) fn observe(pass: &mut Pass<'_>) {
    let (observed, fences) = (pass.observed, &pass.memory.fences);
    pass.memory.left_behind.retain(|task, left| match observed.slot(task) {
        // A shell that knows of an instance shows it until there is proof.
        Slot::Absent => false,
        Slot::Present(instance) => {
            let is_over = matches!(instance.phase, Phase::Exited(_)) && instance.epoch == left.epoch && !left.with_earlier;
            let is_behind = instance.epoch > left.epoch && fences.get(&instance.epoch) == Some(&left.fence);
            !(is_over || is_behind && has_claimed(&instance.phase))
        }
        Slot::Rejected { .. } | Slot::Lost { .. } | Slot::Occupied { .. } | Slot::Unclassified { .. } => true,
    });
}

/// Whether all queries of an instance are known to have claimed their checkpoints.
fn has_claimed(phase: &Phase) -> bool {
    match phase {
        Phase::Ready => true,
        Phase::Exited(exit) => exit.report.as_ref().is_some_and(|report| report.class == ExitClass::Completed),
        Phase::Starting(_) | Phase::Terminating | Phase::Unreachable { .. } | Phase::Vanished => false,
    }
}

/// Remembers an instance that is given up, where it is not known to be over.
pub(super) fn remember(pass: &mut Pass<'_>, task: &str, instance: &Instance, because: GivenUp) {
    // One for whom a human vouches was forgotten when the word came.
    if because == GivenUp::Confirmed {
        return;
    }
    let Some(fence) = fence(pass, task, instance) else { return };
    let left = match pass.memory.left_behind.get(task) {
        Some(left) if left.epoch == instance.epoch => {
            LeftBehind { place: instance.place.clone().filter(|_| !left.with_earlier).or_else(|| left.place.clone()), ..left.clone() }
        }
        // The end of one proves nothing of the other. A start beside another fence is not allowed; were there one, neither holds.
        Some(left) => {
            let fence = Some(fence).filter(|fence| *fence == left.fence).unwrap_or_default();
            LeftBehind { epoch: left.epoch.max(instance.epoch), fence, place: None, with_earlier: true }
        }
        None => LeftBehind { epoch: instance.epoch, fence, place: instance.place.clone(), with_earlier: false },
    };
    pass.memory.left_behind.insert(task.to_owned(), left);
}

/// Whether an instance can do no harm to what is begun now.
pub(super) fn is_harmless(pass: &Pass<'_>, task: &str, instance: &Instance) -> bool {
    fence(pass, task, instance).is_some_and(|fence| holds(pass, task, &fence))
}

/// Whether a task may not be started because of what was left behind.
pub(super) fn bars(pass: &Pass<'_>, task: &str) -> bool {
    pass.memory.left_behind.get(task).is_some_and(|left| !holds(pass, task, &left.fence))
}

/// Whether no run may begin because of what was left behind, also of tasks that the manifest no longer has.
pub(super) fn bars_a_run(pass: &Pass<'_>) -> bool {
    pass.memory.left_behind.keys().any(|task| bars(pass, task))
}

/// The fence that an instance was begun behind.
fn fence(pass: &Pass<'_>, task: &str, instance: &Instance) -> Option<String> {
    let left = pass.memory.left_behind.get(task).filter(|left| left.epoch == instance.epoch);
    left.map(|left| &left.fence).or_else(|| pass.memory.fences.get(&instance.epoch)).cloned()
}

fn holds(pass: &Pass<'_>, task: &str, fence: &str) -> bool {
    // Nothing of this job follows it any more.
    let is_last = pass.observed.shutdown != Shutdown::None;
    let ahead = pass.desired.fences.get(task).map(String::as_str);
    pass.desired.rules.node_lost_policy == NodeLostPolicy::ReplaceWhenFenced && (is_last || ahead == Some(fence))
}
