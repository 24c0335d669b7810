//! Sanity of what was stored: epochs only rise, times are never out of reach.
//!
//! Runs first in every round. A clock that went back must not leave the job
//! waiting for a time that no rule can have meant, nor make a deadline longer.

use crate::decide::Pass;
use crate::exit::own_report;
use crate::memory::{HIGHEST_CLAIM, NextStart, RunMemory, StartReason, TaskMemory};
use crate::observed::{Instance, Phase, Slot};
use crate::time::{Timestamp, after};

/// Lifts the counter to the highest epoch that anybody has seen or that is recorded anywhere.
pub(super) fn absorb_epochs(pass: &mut Pass<'_>) {
    let slots = pass.observed.slots.values().flat_map(|slot| match slot {
        Slot::Absent | Slot::Occupied { .. } | Slot::Unclassified { .. } => [0, 0],
        Slot::Rejected { epoch, .. } | Slot::Lost { epoch } => [*epoch, 0],
        Slot::Present(instance) => [instance.epoch, reported(instance)],
    });
    let seen = slots.chain([pass.observed.highest_epoch]).filter(|epoch| *epoch <= HIGHEST_CLAIM);
    pass.memory.epoch = seen.chain([pass.memory.highest_epoch()]).max().unwrap_or_default();
}

fn reported(instance: &Instance) -> u64 {
    let Phase::Exited(exit) = &instance.phase else { return 0 };
    own_report(exit, instance.epoch).and_then(|report| report.highest_epoch_seen).unwrap_or(0)
}

/// Pulls times back that lie further ahead than any rule can have put them.
pub(super) fn clamp(pass: &mut Pass<'_>) {
    let (desired, now) = (pass.desired, pass.now);
    not_after(&mut pass.memory.shutdown_since, now);
    let kept = after(now, desired.rules.keep_failed_for);
    if let Some(next) = &mut pass.memory.next_start {
        next.at = clamped_start(next, kept, pass.desired, now);
    }
    let backoff = desired.task_backoff();
    if let Some(run) = &mut pass.memory.run {
        let latest_stop = after(now, desired.rules.stop_timeout);
        clamp_run(run, latest_stop, now);
        for task in run.tasks.values_mut() {
            clamp_task(task, latest_stop, now);
            if let Some(at) = &mut task.next_retry {
                *at = if *at <= kept { *at } else { backoff.clamp(*at, now) };
            }
        }
    }
}

fn clamped_start(next: &NextStart, kept: Timestamp, desired: &crate::desired::Desired, now: Timestamp) -> Timestamp {
    match next.reason {
        StartReason::Backoff | StartReason::MaximumDelay if next.at > kept => desired.run_backoff().clamp(next.at, now),
        StartReason::Backoff | StartReason::MaximumDelay => next.at,
        StartReason::BetweenRuns => next.at.min(after(now, desired.rules.restart.min_interval)),
        StartReason::Restart | StartReason::Tick | StartReason::RunNow | StartReason::OneRun => next.at.min(now),
    }
}

fn clamp_run(run: &mut RunMemory, latest_stop: Timestamp, now: Timestamp) {
    not_after(&mut run.ready_since, now);
    run.started_at = run.started_at.min(now);
    if let Some(stop) = &mut run.stop {
        stop.deadline = stop.deadline.min(latest_stop);
    }
}

fn clamp_task(task: &mut TaskMemory, latest_stop: Timestamp, now: Timestamp) {
    not_after(&mut task.start_clock, now);
    not_after(&mut task.ready_since, now);
    not_after(&mut task.disruptions.last_at, now);
    if let Some(stop) = &mut task.stop {
        stop.deadline = stop.deadline.min(latest_stop);
    }
}

fn not_after(since: &mut Option<Timestamp>, now: Timestamp) {
    if since.is_some_and(|at| at > now) {
        *since = Some(now);
    }
}
