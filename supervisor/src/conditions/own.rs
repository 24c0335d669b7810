//! The conditions that are decided by themselves.
//!
//! While no run reports, `FallingBehind` and `BacklogExceeded` are Unknown,
//! never False: silence is not health.

use weir_crds::policy::{BacklogMetric, TaskRetryMode};

use super::{Look, Reason, Verdict};
use crate::desired::Acceptance;
use crate::health;
use crate::memory::{RunMemory, StartReason, TaskState};
use crate::observed::{Instance, Phase, Shutdown};
use crate::time::{elapsed, rfc3339};

pub(super) fn accepted(look: &Look<'_>) -> Verdict {
    match &look.desired.acceptance {
        Acceptance::Accepted if look.desired.rules.tasks.is_empty() => Verdict::unknown(Reason::NotYetObserved, ""),
        Acceptance::Accepted => Verdict::holds(Reason::Valid, ""),
        Acceptance::Checking { .. } if look.observed.shutdown != Shutdown::None => {
            Verdict::unknown(Reason::NotYetObserved, "nothing new begins any more, so the newest generation is not checked")
        }
        Acceptance::Checking { obstacle: None, .. } => Verdict::unknown(Reason::NotYetObserved, "the newest generation is being checked"),
        Acceptance::Checking { obstacle: Some(why), .. } => Verdict::unknown(Reason::CheckUnavailable, why.clone()),
        Acceptance::Rejected { reason, message, .. } => Verdict::fails(*reason, message.clone()),
    }
}

pub(super) fn progress_stale(look: &Look<'_>) -> Verdict {
    let Some(run) = ready_run(look) else { return Verdict::fails(Reason::NotRunning, "") };
    let stale_after = look.desired.rules.health.stale_after;
    let mut input = false;
    for (name, task) in &run.tasks {
        let Some(instance) = ready_instance(look, name) else { continue };
        let heard = instance.reported_at.or(task.ready_since).unwrap_or(look.now);
        if elapsed(heard, look.now) >= stale_after {
            let message = format!("task {name} has not answered since {}", rfc3339(heard));
            return Verdict::holds(Reason::EndpointUnreachable, message);
        }
        let silent = health::without_progress(&look.memory.health, name, task, instance, look.now);
        if let Some(silent) = silent.as_ref().filter(|silent| silent.lasted >= stale_after) {
            let message = format!(
                "task {name}, query {}: no batch was committed since {} although input is there",
                silent.query,
                rfc3339(silent.since)
            );
            return Verdict::holds(Reason::NoBatchCommitted, message);
        }
        input |= silent.is_some();
    }
    Verdict::fails(if input { Reason::Progressing } else { Reason::IdleNoInput }, "")
}

pub(super) fn backing_off(look: &Look<'_>) -> Verdict {
    let next = look.next_run().filter(|next| next.reason.is_backoff() && next.at > look.now);
    let Some(next) = next else { return Verdict::fails(Reason::NotBackingOff, "") };
    let failures = look.memory.consecutive_failures;
    let restart = &look.desired.rules.restart;
    let base = look.desired.run_backoff().delay(failures, 0.0);
    let reason = if next.reason == StartReason::MaximumDelay || base >= restart.max_delay {
        Reason::AtMaximumDelay
    } else if failures > 1 {
        Reason::RepeatedFailure
    } else {
        Reason::RunFailed
    };
    Verdict::holds(reason, format!("until {}", rfc3339(next.at)))
}

pub(super) fn previous_run_terminated(look: &Look<'_>) -> Verdict {
    let run = look.memory.run.as_ref();
    let stranger = look.observed.slots.iter().find_map(|(name, slot)| {
        let instance = slot.live()?;
        let owned = run.and_then(|run| run.tasks.get(name)).is_some_and(|task| task.state.is_live() && task.epoch == Some(instance.epoch));
        let superseded = run.is_some_and(|run| run.stop.is_some());
        let silent = matches!(instance.phase, Phase::Unreachable { .. } | Phase::Vanished);
        (!owned || superseded || silent).then_some((name, instance))
    });
    let mut slots = look.observed.slots.iter();
    let unclassified = slots.find_map(|(name, slot)| Some(format!("task {name}: {}", slot.unclassified()?)));
    match stranger {
        Some((name, Instance { phase: Phase::Unreachable { .. }, epoch, .. })) => {
            Verdict::fails(Reason::NodeUnreachable, lost(look, name, *epoch))
        }
        Some((name, Instance { phase: Phase::Vanished, epoch, .. })) => Verdict::fails(Reason::PodVanished, lost(look, name, *epoch)),
        Some((name, instance)) => Verdict::fails(Reason::WaitingForTermination, format!("task {name}, epoch {}", instance.epoch)),
        None if unclassified.is_some() => Verdict::fails(Reason::WaitingForTermination, unclassified.unwrap_or_default()),
        None if !look.memory.left_behind.is_empty() => {
            let all: Vec<String> = look.memory.left_behind.iter().map(|(name, left)| lost(look, name, left.epoch)).collect();
            Verdict::fails(Reason::LeftBehind, all.join("; "))
        }
        None if look.memory.run_number <= 1 && look.memory.last_run.is_none() => Verdict::holds(Reason::NoPreviousRun, ""),
        None => Verdict::holds(Reason::TerminalPhaseObserved, ""),
    }
}

/// An instance that is not known to be over, and whether others before it are not either.
fn lost(look: &Look<'_>, task: &str, epoch: u64) -> String {
    let with_earlier = look.memory.left_behind.get(task).is_some_and(|left| left.epoch == epoch && left.with_earlier);
    format!("task {task}, epoch {epoch}{}", if with_earlier { " and earlier ones" } else { "" })
}

pub(super) fn suspended(look: &Look<'_>) -> Verdict {
    match (look.desired.rules.suspend, look.memory.suspended) {
        (true, true) => Verdict::holds(Reason::SuspendedBySpec, ""),
        (true, false) => Verdict::fails(Reason::Stopping, "the run is stopping"),
        (false, _) => Verdict::fails(Reason::NotSuspended, ""),
    }
}

pub(super) fn degraded(look: &Look<'_>) -> Verdict {
    let Some(run) = look.memory.run.as_ref().filter(|run| run.stop.is_none()) else {
        return Verdict::fails(Reason::NotDegraded, "");
    };
    let named = |state: TaskState| {
        let names: Vec<&str> = run.tasks.iter().filter(|(_, task)| task.state == state).map(|(name, _)| name.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    if let Some(names) = named(TaskState::Failed) {
        let never = look.desired.task_retry_mode() == TaskRetryMode::Never;
        let hint = if never { "; taskRetryMode is Never, so nothing retries it in this run" } else { "" };
        return Verdict::holds(Reason::TaskFailed, format!("failed: {names}{hint}"));
    }
    match named(TaskState::WaitingRetry) {
        Some(names) => Verdict::holds(Reason::TaskRetrying, format!("waiting for a retry: {names}")),
        None => Verdict::fails(Reason::NotDegraded, ""),
    }
}

pub(super) fn falling_behind(look: &Look<'_>) -> Verdict {
    if !reports(look) {
        return Verdict::unknown(Reason::NotRunning, "");
    }
    match health::falling_behind(&look.memory.health, look.desired) {
        Some((query, facts)) => {
            let stage = if facts.costliest_stage.is_empty() { "unknown" } else { &facts.costliest_stage };
            let message = format!(
                "{query}: input came faster than it was processed for several batches in a row; costliest stage: {stage}. \
                 Give the task more CPU, split its input among more tasks, or lower the limits per batch"
            );
            Verdict::holds(Reason::InputFasterThanProcessing, message)
        }
        None => Verdict::fails(Reason::KeepingUp, ""),
    }
}

pub(super) fn backlog_exceeded(look: &Look<'_>) -> Verdict {
    if !reports(look) {
        return Verdict::unknown(Reason::NotRunning, "");
    }
    match health::exceeded(&look.memory.health, look.desired, look.now) {
        Some((rule, query, _)) => {
            let metric = match rule.metric {
                BacklogMetric::Records => Reason::StreamingBacklogRecords,
                BacklogMetric::Bytes => Reason::StreamingBacklogBytes,
                BacklogMetric::Seconds => Reason::StreamingBacklogSeconds,
                BacklogMetric::Files => Reason::StreamingBacklogFiles,
            };
            let message = format!("{query}: {metric} was above {} over the last 10 minutes", rule.greater_than);
            Verdict::holds(metric, message)
        }
        None => Verdict::fails(Reason::WithinLimits, ""),
    }
}

fn ready_run<'a>(look: &'a Look<'_>) -> Option<&'a RunMemory> {
    let run = look.memory.run.as_ref()?;
    run.tasks.values().any(|task| task.state == TaskState::Running).then_some(run)
}

fn ready_instance<'a>(look: &'a Look<'_>, task: &str) -> Option<&'a Instance> {
    look.observed.slot(task).instance().filter(|instance| instance.phase == Phase::Ready)
}

fn reports(look: &Look<'_>) -> bool {
    let reporting = |name: &String| ready_instance(look, name).is_some_and(|instance| !instance.queries.is_empty());
    ready_run(look).is_some_and(|run| run.tasks.keys().any(reporting))
}
