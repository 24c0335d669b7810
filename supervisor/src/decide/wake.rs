//! When to look again though nothing happens.
//!
//! Recomputed from the memory on every pass; no timer lives anywhere else. All
//! times are later than now, so an unhandled one cannot become a busy loop: a
//! state that waits for the world is looked at again after a heartbeat.

use std::time::Duration;

use crate::decide::{Pass, actions, runs, tasks, unproven};
use crate::desired::{Desired, Lifetime};
use crate::health;
use crate::memory::{Memory, RunMemory, TaskMemory, TaskState};
use crate::observed::{Instance, Observed, Phase, Shutdown, Slot};
use crate::time::{Timestamp, after};

/// How often a living run is looked at.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// How often an order whose effect is awaited, or an end, is looked at.
const AWAITING: Duration = Duration::from_secs(5);
/// How long after its deadline a shutdown may still take, and what has ended may stay in its slot.
pub(crate) const STUCK_GRACE: Duration = Duration::from_secs(30);
/// How long a job between two runs counts as ready.
pub(crate) const BETWEEN_RUNS_GRACE: Duration = Duration::from_secs(60);

/// When a shutdown that has not finished counts as stuck; none where none was ordered.
pub(crate) fn stuck_at(desired: &Desired, observed: &Observed, memory: &Memory) -> Option<Timestamp> {
    let since = memory.shutdown_since?;
    let patience = match observed.shutdown {
        Shutdown::None => return None,
        Shutdown::Immediate => Duration::ZERO,
        Shutdown::Graceful => desired.rules.stop_timeout,
    };
    Some(after(after(since, patience), STUCK_GRACE))
}

/// The earliest time at which something is due.
pub(super) fn next(pass: &Pass<'_>, ordered: bool) -> Option<Timestamp> {
    let mut due: Vec<Timestamp> = Vec::new();
    if ordered {
        due.push(after(pass.now, AWAITING));
    }
    match &pass.memory.run {
        Some(run) => of_run(pass, run, &mut due),
        None => between_runs(pass, &mut due),
    }
    if let Some(tick) = next_tick(pass) {
        due.push(tick);
    }
    for slot in pass.observed.slots.values() {
        if let Some(instance) = slot.live() {
            due.push(after(pass.now, HEARTBEAT));
            due.push(actions::stranger_deadline(pass, instance));
            if let Phase::Unreachable { since } = instance.phase {
                due.push(after(since, unproven::NODE_GRACE));
            }
        }
        // Nobody watches what is foreign.
        if matches!(slot, Slot::Occupied { .. } | Slot::Unclassified { .. }) {
            due.push(after(pass.now, HEARTBEAT));
        }
    }
    due.extend(stuck_at(pass.desired, pass.observed, &pass.memory));
    due.into_iter().filter(|at| *at > pass.now).min()
}

fn next_tick(pass: &Pass<'_>) -> Option<Timestamp> {
    let watched = pass.desired.lifetime == Lifetime::AsTriggered && !pass.desired.rules.tasks.is_empty();
    let schedule = pass.desired.schedule().filter(|_| watched)?;
    schedule.next_after(pass.now)
}

fn between_runs(pass: &Pass<'_>, due: &mut Vec<Timestamp>) {
    if let Some(next) = pass.memory.next_start {
        due.push(next.at);
        if next.at <= pass.now && runs::is_barred(pass) && pass.observed.any_live() {
            due.push(after(pass.now, AWAITING));
        }
    }
    if let Some(last) = &pass.memory.last_run {
        let grace = pass.desired.rules.restart.min_interval + BETWEEN_RUNS_GRACE;
        due.push(after(last.finished_at, grace));
    }
}

fn of_run(pass: &Pass<'_>, run: &RunMemory, due: &mut Vec<Timestamp>) {
    let stable_after = pass.desired.rules.restart.stable_after;
    if run.any_live() {
        due.push(after(pass.now, if run.stop.is_some() { AWAITING } else { HEARTBEAT }));
    }
    if let Some(since) = run.ready_since.filter(|_| !run.stable) {
        due.push(after(since, stable_after));
    }
    for (name, task) in &run.tasks {
        let instance = pass.observed.slot(name).instance().filter(|instance| Some(instance.epoch) == task.epoch);
        of_task(pass, name, task, instance, due);
    }
}

fn of_task(pass: &Pass<'_>, name: &str, task: &TaskMemory, instance: Option<&Instance>, due: &mut Vec<Timestamp>) {
    due.extend(task.next_retry);
    due.extend(task.config_order.map(|order| after(order.at, tasks::CONFIG_PACE)));
    due.extend(task.stop.as_ref().map(|stop| stop.deadline));
    match (task.state, instance) {
        (TaskState::Starting, Some(instance)) => due.push(tasks::start_deadline(pass, task, instance)),
        (TaskState::Running, Some(instance)) => {
            let counted = task.failures > 0 || task.disruptions.count > 0;
            due.extend(task.ready_since.filter(|_| counted).map(|since| after(since, pass.desired.rules.restart.stable_after)));
            if let Some(silent) = health::without_progress(&pass.memory.health, name, task, instance, pass.now) {
                due.push(after(silent.since, pass.desired.rules.health.stale_after));
                due.push(after(silent.since, pass.desired.rules.health.fail_after));
            }
        }
        (TaskState::Pending | TaskState::Starting | TaskState::Stopping, _) => due.push(after(pass.now, AWAITING)),
        _ => {}
    }
}
