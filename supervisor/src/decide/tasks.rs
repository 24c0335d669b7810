//! From what a slot shows to where its task is.
//!
//! Only the instance of the task's own epoch can move a task; one of another
//! epoch is a stranger, which `actions` removes. An end is accounted once,
//! because accounting leaves the live states. Starting is written ahead here:
//! a new epoch for every order.

use crate::conditions::Reason;
use crate::decide::{Pass, left_behind, outcomes, unproven};
use crate::health;
use crate::memory::{ConfigOrder, RunCause, RunMemory, Stall, StallEnd, TaskMemory, TaskState, TaskStop, TaskStopGoal};
use crate::observed::{Instance, Phase, Slot, StartObstacle};
use crate::time::{Timestamp, after, elapsed};

/// How soon settings that were not confirmed are sent again.
pub(super) const CONFIG_PACE: std::time::Duration = std::time::Duration::from_secs(5);

/// Moves every task of the run by what its slot shows.
pub(super) fn observe(pass: &mut Pass<'_>) {
    let Some(mut run) = pass.memory.run.take() else { return };
    for (name, task) in &mut run.tasks {
        if let (true, Some(epoch)) = (task.state.is_live(), task.epoch) {
            observe_live(pass, name, task, epoch);
        }
    }
    pass.memory.run = Some(run);
}

fn observe_live(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, epoch: u64) {
    let observed = pass.observed;
    match observed.slot(name) {
        Slot::Present(instance) if instance.epoch == epoch => observe_own(pass, name, task, instance),
        // Somebody used a higher epoch; the one that was reserved here would be fenced.
        Slot::Present(instance) if task.state == TaskState::Starting && instance.epoch > epoch => {
            task.wait_in(TaskState::Pending);
        }
        Slot::Rejected { epoch: refused, message, blame } if *refused == epoch && task.state == TaskState::Starting => {
            outcomes::rejected(pass, name, task, message, *blame);
        }
        // An order that may have been carried out, or may be yet, is never given again under its epoch.
        Slot::Lost { epoch: lost } if *lost >= epoch && task.state == TaskState::Starting && !task.seen => {
            task.wait_in(TaskState::Pending);
        }
        Slot::Lost { epoch: lost } if *lost >= epoch => outcomes::vanished(pass, name, task, "InstanceLost"),
        // The order cannot have been carried out. Once the place is free, a new one gets a new epoch.
        Slot::Occupied { .. } | Slot::Unclassified { .. } if task.state == TaskState::Starting && !task.seen => {
            task.wait_in(TaskState::Pending);
        }
        // The order to start is not visible yet; `actions` gives it again.
        _ if task.state == TaskState::Starting && !task.seen => {}
        _ => outcomes::vanished(pass, name, task, "InstanceVanished"),
    }
}

fn observe_own(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, instance: &Instance) {
    // One that is told to stop before it was let go never is, so that nothing of it can have run when it is gone.
    task.seen |= task.stop.is_none() || !instance.phase.is_held_back();
    if instance.place.is_some() {
        task.place.clone_from(&instance.place);
    }
    match &instance.phase {
        Phase::Exited(exit) => outcomes::ended(pass, name, task, exit, instance.epoch),
        Phase::Unreachable { .. } => {
            if let Some(because) = unproven::given_up(pass, name, instance) {
                unproven::give_up(pass, name, instance, because);
                outcomes::vanished(pass, name, task, "NodeLost");
            }
        }
        // One that is given up has left its slot before.
        Phase::Vanished | Phase::Terminating => {}
        Phase::Starting(obstacle) => starting(pass, name, task, instance, obstacle),
        Phase::Ready => ready(pass, name, task, instance),
    }
}

fn starting(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, instance: &Instance, obstacle: &StartObstacle) {
    if task.state == TaskState::Stopping {
        return;
    }
    if task.state == TaskState::Running {
        task.state = TaskState::Starting;
        task.ready_since = None;
        task.start_clock = Some(pass.now);
    }
    let is_overdue = |pass: &Pass<'_>, task: &TaskMemory| pass.now >= start_deadline(pass, task, instance);
    let fits = match obstacle {
        StartObstacle::Unschedulable { .. } | StartObstacle::ReleaseRefused { .. } => false,
        // It was not let go in time, which is not its fault.
        StartObstacle::Gated => !is_overdue(pass, task),
        StartObstacle::None | StartObstacle::ImagePull { .. } | StartObstacle::ContainerConfig { .. } => true,
    };
    if fits && std::mem::take(&mut task.unschedulable) {
        task.start_clock = Some(pass.now);
    }
    task.unschedulable = !fits;
    // Conditions tell of a refusal as long as it lasts.
    let is_refused = matches!(obstacle, StartObstacle::ReleaseRefused { .. });
    if pass.desired.paused || is_refused || !is_overdue(pass, task) {
        return;
    }
    let slow = if fits { "it did not become ready within startDeadline" } else { "its pod could not be let go within startDeadline" };
    let (reason, message) = obstacle.reason().unwrap_or((Reason::StartDeadlineExceeded, slow));
    let message = format!("task {name}: {message}");
    stall(pass, reason, message.clone(), StallEnd::Ready);
    // A new instance would fare no better, so the waiting one stays and nothing is counted.
    if fits {
        give_up(pass, task, RunCause::StartUp, reason.as_str(), message);
    }
}

/// When the current attempt has taken too long to get ready.
pub(super) fn start_deadline(pass: &Pass<'_>, task: &TaskMemory, instance: &Instance) -> Timestamp {
    // A late carrying out of the order is not the task's fault; a clock ahead of ours is no excuse.
    let created = instance.created_at.min(pass.now);
    let since = task.start_clock.map_or(created, |clock| clock.max(created));
    after(since, pass.desired.rules.start_deadline)
}

fn ready(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, instance: &Instance) {
    match task.state {
        TaskState::Starting => {
            task.state = TaskState::Running;
            task.unschedulable = false;
            task.start_clock = None;
            task.ready_since = Some(pass.now);
        }
        TaskState::Running => {}
        _ => return,
    }
    let since = task.ready_since.unwrap_or(pass.now);
    if elapsed(since, pass.now) >= pass.desired.rules.restart.stable_after {
        task.failures = 0;
        task.disruptions.count = 0;
    }
    order_config(pass, task, instance);
    let silent = health::without_progress(&pass.memory.health, name, task, instance, pass.now);
    let too_long = |silent: &health::Silence| silent.lasted >= pass.desired.rules.health.fail_after;
    if let Some(silent) = silent.filter(|silent| too_long(silent) && !pass.desired.paused) {
        let message = format!("query {}: no batch was committed for failAfter although input was there", silent.query);
        give_up(pass, task, RunCause::Application, "NoProgress", message);
    }
}

/// Orders the settings of a newer generation, and again at a pace while they are not confirmed.
fn order_config(pass: &Pass<'_>, task: &mut TaskMemory, instance: &Instance) {
    let generation = pass.desired.generation;
    if instance.config_generation == generation {
        task.config_order = None;
        return;
    }
    let recent = task
        .config_order
        .is_some_and(|order| order.generation == generation && elapsed(order.at, pass.now) < CONFIG_PACE && order.at <= pass.now);
    if !recent && !pass.desired.paused {
        task.config_order = Some(ConfigOrder { generation, at: pass.now });
    }
}

fn give_up(pass: &Pass<'_>, task: &mut TaskMemory, cause: RunCause, reason: &str, message: String) {
    let goal = TaskStopGoal::Fail { cause, reason: reason.to_owned(), message };
    task.state = TaskState::Stopping;
    task.stop = Some(TaskStop { goal, deadline: after(pass.now, pass.desired.rules.stop_timeout) });
}

/// Records what a human has to look at; a stall that only `restartNonce` ends stays.
pub(super) fn stall(pass: &mut Pass<'_>, reason: Reason, message: String, until: StallEnd) {
    let kept = pass.memory.stall.as_ref().is_some_and(|stall| stall.until == StallEnd::RestartNonce);
    if !kept {
        pass.memory.stall =
            Some(Stall { reason: reason.as_str().to_owned(), message: crate::text::cut(&message, crate::text::MESSAGE_BYTES), until });
    }
}

/// Orders the start of every task that is due and whose slot is free.
pub(super) fn start_due(pass: &mut Pass<'_>) {
    let Some(mut run) = pass.memory.run.take() else { return };
    if run.stop.is_none() {
        start_due_in(pass, &mut run);
    }
    pass.memory.run = Some(run);
}

fn start_due_in(pass: &mut Pass<'_>, run: &mut RunMemory) {
    for (name, task) in &mut run.tasks {
        let due = task.next_retry.is_some_and(|at| at <= pass.now);
        if task.state == TaskState::WaitingRetry && due {
            task.wait_in(TaskState::Pending);
        }
        let free = pass.observed.slot(name).is_free() && !left_behind::bars(pass, name);
        if task.state == TaskState::Pending && free {
            pass.memory.epoch += 1;
            task.state = TaskState::Starting;
            task.epoch = Some(pass.memory.epoch);
            task.seen = false;
            task.attempt += 1;
            task.generation = pass.desired.generation;
            task.hash = pass.desired.task_hash(name).to_owned();
            task.start_clock = Some(pass.now);
            if let Some(fence) = pass.desired.fences.get(name) {
                pass.memory.fences.insert(pass.memory.epoch, fence.clone());
            }
        }
    }
}
