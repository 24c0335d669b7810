//! From memory and observation to orders.
//!
//! Level-triggered: an order is given as long as its effect is not visible, so
//! a shell that died between storing and acting loses nothing. An instance
//! that no task of the run calls its own is a stranger: it is stopped, and its
//! remains are cleared once somebody needs the slot or its task is gone. Only live
//! settings, whose delivery may fail for long, are repeated at a pace.

use crate::decide::unproven::given_up;
use crate::decide::{Pass, left_behind};
use crate::memory::{TaskMemory, TaskState};
use crate::observed::{Instance, Phase, Slot, StopOrder};
use crate::plan::Action;
use crate::time::{Timestamp, after};

/// Every order that is due now.
pub(super) fn wanted(pass: &Pass<'_>) -> Vec<Action> {
    if pass.desired.paused {
        return Vec::new();
    }
    let starts = pass.memory.run.iter().flat_map(|run| run.tasks.iter().filter_map(|(name, task)| start(pass, run.number, name, task)));
    let slots = pass.observed.slots.iter().filter_map(|(name, slot)| match slot {
        Slot::Present(instance) => on_instance(pass, name, instance),
        Slot::Absent | Slot::Rejected { .. } | Slot::Lost { .. } | Slot::Occupied { .. } | Slot::Unclassified { .. } => None,
    });
    slots.chain(starts).collect()
}

fn start(pass: &Pass<'_>, run: u64, name: &str, task: &TaskMemory) -> Option<Action> {
    let free = pass.observed.slot(name).is_free();
    let epoch = task.epoch.filter(|_| free && task.state == TaskState::Starting && !task.seen)?;
    Some(Action::StartTask { task: name.to_owned(), epoch, attempt: task.attempt, run, generation: task.generation })
}

fn task_of<'a>(pass: &'a Pass<'_>, name: &str) -> Option<&'a TaskMemory> {
    pass.memory.run.as_ref().and_then(|run| run.tasks.get(name))
}

fn on_instance(pass: &Pass<'_>, name: &str, instance: &Instance) -> Option<Action> {
    let task = task_of(pass, name);
    let owner = task.filter(|task| task.state.is_live() && task.epoch == Some(instance.epoch));
    let (task_name, epoch) = (name.to_owned(), instance.epoch);
    match (&instance.phase, owner) {
        (Phase::Exited(_), _) => {
            let wanted_again = task.is_some_and(|task| matches!(task.state, TaskState::Pending | TaskState::Starting));
            let foreign = !pass.desired.has_task(name);
            // Whoever is waited for shows only in a slot that is clear.
            let hides = left_behind::bars(pass, name);
            (wanted_again || foreign || hides).then_some(Action::ClearTask { task: task_name, epoch })
        }
        (Phase::Unreachable { .. }, None) => given_up(pass, name, instance).map(|_| Action::ForceRemoveTask { task: task_name, epoch }),
        (Phase::Unreachable { .. }, Some(_)) | (Phase::Vanished, _) => None,
        (_, Some(task)) => match &task.stop {
            Some(stop) => stop_by(pass, name, instance, stop.deadline),
            // `tasks` has just noted that it was seen.
            None if instance.phase.is_held_back() => Some(Action::ReleaseTask { task: task_name, epoch }),
            None => live_config(pass, name, instance, task),
        },
        (_, None) => stop_by(pass, name, instance, stranger_deadline(pass, instance)),
    }
}

/// When an instance that nobody calls its own is killed.
pub(super) fn stranger_deadline(pass: &Pass<'_>, instance: &Instance) -> Timestamp {
    let ordered = match instance.stop_order {
        StopOrder::Graceful { at } => at.min(pass.now),
        StopOrder::None | StopOrder::Kill => pass.now,
    };
    after(ordered, pass.desired.rules.stop_timeout)
}

fn stop_by(pass: &Pass<'_>, name: &str, instance: &Instance, deadline: Timestamp) -> Option<Action> {
    let (task, epoch) = (name.to_owned(), instance.epoch);
    match instance.stop_order {
        StopOrder::Kill => None,
        _ if deadline <= pass.now => Some(Action::KillTask { task, epoch }),
        StopOrder::Graceful { .. } => None,
        StopOrder::None => Some(Action::StopTask { task, epoch, deadline }),
    }
}

fn live_config(pass: &Pass<'_>, name: &str, instance: &Instance, task: &TaskMemory) -> Option<Action> {
    let generation = pass.desired.generation;
    let due = instance.phase == Phase::Ready
        && task.state == TaskState::Running
        && instance.config_generation != generation
        && task.config_order.is_some_and(|order| order.at == pass.now);
    due.then(|| Action::ApplyLiveConfig { task: name.to_owned(), epoch: instance.epoch, generation })
}
