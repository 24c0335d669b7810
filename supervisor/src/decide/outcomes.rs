//! What an end does to its task: retry, give up, start again, or nothing.
//!
//! Failures count, against `maxRetries` and in the delay. Disruptions, refused
//! starts and fences do not; they have a counter and a backoff of their own, so
//! that a broken surrounding cannot become a busy loop. A start that is refused
//! because of the manifest is a failure of configuration: no retry heals it.
//! A schema change is forgiven once per source version.

use weir_crds::policy::TaskRetryMode;

use crate::conditions::Reason;
use crate::decide::Pass;
use crate::decide::tasks::stall;
use crate::events::EventReason;
use crate::exit::{self, ExitClass, Verdict, classify, own_report};
use crate::memory::{ExitSummary, RunCause, StallEnd, TaskMemory, TaskState, TaskStop, TaskStopGoal};
use crate::observed::{Blame, Exit, ExitCause};
use crate::text::{LOG_TAIL_BYTES, MESSAGE_BYTES, QUERY_NAME_BYTES, cut, cut_front};
use crate::time::{after, elapsed};

/// The word for the end of an attempt that was never begun.
pub(crate) const START_REJECTED: &str = "StartRejected";
/// Forgiven schema changes remembered per task.
const REMEMBERED_VERSIONS: usize = 4;
/// The longest version that is remembered as it is.
const VERSION_BYTES: usize = 24;

/// The instance of the task's epoch is proven over.
pub(super) fn ended(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, exit: &Exit, epoch: u64) {
    let verdict = classify(exit, epoch);
    let mut summary = summarise(exit, epoch, &verdict);
    if let Some(stop) = task.stop.take() {
        if let TaskStopGoal::Fail { cause, reason, message } = &stop.goal {
            summary.cause = *cause;
            summary.class = Some(ExitClass::Retryable);
            summary.reason.clone_from(reason);
            summary.message = cut(message, MESSAGE_BYTES);
        }
        task.last_exit = Some(summary);
        ended_as_ordered(pass, name, task, &stop, verdict == Verdict::Completed);
        return;
    }
    task.last_exit = Some(summary);
    match verdict {
        Verdict::Completed => task.wait_in(TaskState::Succeeded),
        Verdict::Failed(class) => failed_with(pass, name, task, class),
        Verdict::SchemaChanged { version } => schema_changed(pass, name, task, &version),
        Verdict::Fenced => fenced(pass, name, task),
        Verdict::Adopted => {
            task.wait_in(TaskState::Failed);
            let message = format!("task {name}: another owner has its checkpoint; change restartNonce to go on");
            stall(pass, Reason::Fenced, message.clone(), StallEnd::RestartNonce);
            pass.tell(EventReason::FencedOut, message);
        }
        Verdict::Disrupted { reason } => disrupted(pass, name, task, &reason),
    }
}

/// No instance is there and nothing is known of its end.
pub(super) fn vanished(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, reason: &str) {
    let exit = Exit { code: None, report: None, cause: ExitCause::Own, log_tail: String::new(), at: pass.now };
    let disruption = Verdict::Disrupted { reason: reason.to_owned() };
    let mut summary = summarise(&exit, task.epoch.unwrap_or_default(), &disruption);
    summary.reason = reason.to_owned();
    if let Some(stop) = task.stop.take() {
        if let TaskStopGoal::Fail { cause, reason, message } = &stop.goal {
            summary.cause = *cause;
            summary.class = Some(ExitClass::Retryable);
            summary.reason.clone_from(reason);
            summary.message = cut(message, MESSAGE_BYTES);
        }
        task.last_exit = Some(summary);
        return ended_as_ordered(pass, name, task, &stop, false);
    }
    task.last_exit = Some(summary);
    disrupted(pass, name, task, reason);
}

/// The order to start was refused.
pub(super) fn rejected(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, message: &str, blame: Blame) {
    let exit = Exit { code: None, report: None, cause: ExitCause::Own, log_tail: String::new(), at: pass.now };
    let verdict = Verdict::Disrupted { reason: START_REJECTED.to_owned() };
    let mut summary = summarise(&exit, task.epoch.unwrap_or_default(), &verdict);
    summary.reason = START_REJECTED.to_owned();
    summary.message = cut(message, MESSAGE_BYTES);
    if blame == Blame::Manifest {
        summary.class = Some(ExitClass::Config);
        summary.cause = RunCause::StartUp;
        task.last_exit = Some(summary);
        pass.memory.restarts.start_up += 1;
        return beyond_retry(pass, task, Reason::SpecInvalid, format!("task {name} cannot be started; edit the manifest: {message}"));
    }
    task.last_exit = Some(summary);
    count_disruption(pass, task);
    let delay = pass.desired.task_backoff().delay(task.disruptions.count, (pass.draw)());
    pass.memory.restarts.disruption += 1;
    task.wait_in(TaskState::WaitingRetry);
    task.next_retry = Some(after(pass.now, delay));
    pass.tell(EventReason::RunDisrupted, format!("task {name} could not be started: {message}"));
}

fn ended_as_ordered(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, stop: &TaskStop, completed: bool) {
    match &stop.goal {
        TaskStopGoal::EndOfRun if completed => task.wait_in(TaskState::Succeeded),
        TaskStopGoal::EndOfRun => task.wait_in(TaskState::Stopped),
        TaskStopGoal::Restart => {
            pass.memory.restarts.spec += 1;
            task.begin_again();
        }
        TaskStopGoal::Fail { cause, .. } => failed(pass, name, task, *cause),
    }
}

fn failed_with(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, class: ExitClass) {
    let reason = match class {
        ExitClass::Config => Reason::NonRetryableExit,
        ExitClass::Incompatible => Reason::CheckpointIncompatible,
        _ => return failed(pass, name, task, RunCause::Application),
    };
    pass.memory.restarts.application += 1;
    let message = task.last_exit.as_ref().map_or("", |exit| exit.message.as_str());
    let message = format!("task {name}: {message}");
    beyond_retry(pass, task, reason, message);
}

/// A failure that no retry of the task heals: its run fails, and a human has to look.
fn beyond_retry(pass: &mut Pass<'_>, task: &mut TaskMemory, reason: Reason, message: String) {
    task.failures += 1;
    task.wait_in(TaskState::Failed);
    stall(pass, reason, message.clone(), StallEnd::Ready);
    pass.tell(EventReason::TaskFailed, message);
}

/// Counts a failure and retries the task, or gives it up.
fn failed(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, cause: RunCause) {
    match cause {
        RunCause::StartUp => pass.memory.restarts.start_up += 1,
        _ => pass.memory.restarts.application += 1,
    }
    task.failures += 1;
    let reason = task.last_exit.as_ref().map_or_else(String::new, |exit| exit.reason.clone());
    let retried = pass.desired.task_retry_mode() == TaskRetryMode::OnFailure;
    if !retried || task.failures > pass.desired.max_retries() {
        task.wait_in(TaskState::Failed);
        pass.tell(EventReason::TaskFailed, format!("task {name} failed and is not retried in this run: {reason}"));
        return;
    }
    let delay = pass.desired.task_backoff().delay(task.failures, (pass.draw)());
    let kept = task.last_exit.as_ref().map_or(pass.now, |exit| after(exit.at.min(pass.now), pass.desired.rules.keep_failed_for));
    task.wait_in(TaskState::WaitingRetry);
    task.waits_after_failure = true;
    task.next_retry = Some(after(pass.now, delay).max(kept));
    pass.tell(EventReason::TaskRetrying, format!("task {name} failed and will be retried: {reason}"));
}

fn schema_changed(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, version: &str) {
    let version = mark(version);
    let known = pass.memory.schema_changes.entry(name.to_owned()).or_default();
    if !known.insert(version.clone()) {
        return failed(pass, name, task, RunCause::Application);
    }
    if known.len() > REMEMBERED_VERSIONS {
        let oldest = known.iter().find(|kept| **kept != version).cloned();
        oldest.map(|oldest| known.remove(&oldest));
    }
    pass.memory.restarts.schema_change += 1;
    task.wait_in(TaskState::Pending);
    pass.tell(EventReason::SchemaChanged, format!("task {name} starts again with the new schema of its source"));
}

/// A version, or where it is long its beginning and a hash (FNV-1a): memory is scarce and only equality counts.
fn mark(version: &str) -> String {
    if version.len() <= VERSION_BYTES {
        return version.to_owned();
    }
    let hash = version.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}~{hash:016x}", &version[..version.floor_char_boundary(VERSION_BYTES - 17)])
}

fn fenced(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory) {
    pass.memory.restarts.fenced += 1;
    again_uncounted(pass, task);
    pass.tell(EventReason::FencedOut, format!("task {name} found a newer epoch and starts again above it"));
}

fn disrupted(pass: &mut Pass<'_>, name: &str, task: &mut TaskMemory, reason: &str) {
    pass.memory.restarts.disruption += 1;
    again_uncounted(pass, task);
    pass.tell(EventReason::RunDisrupted, format!("task {name} was disrupted: {reason}"));
}

/// The first one within `stableAfter` starts again at once, later ones by their own backoff.
fn again_uncounted(pass: &mut Pass<'_>, task: &mut TaskMemory) {
    count_disruption(pass, task);
    let earlier = task.disruptions.count - 1;
    if earlier == 0 {
        task.wait_in(TaskState::Pending);
        return;
    }
    let delay = pass.desired.task_backoff().delay(earlier, (pass.draw)());
    task.wait_in(TaskState::WaitingRetry);
    task.next_retry = Some(after(pass.now, delay));
}

fn count_disruption(pass: &Pass<'_>, task: &mut TaskMemory) {
    let stable_after = pass.desired.rules.restart.stable_after;
    let recent = task.disruptions.last_at.is_some_and(|at| elapsed(at, pass.now) < stable_after);
    task.disruptions.count = if recent { task.disruptions.count.saturating_add(1) } else { 1 };
    task.disruptions.last_at = Some(pass.now);
}

fn summarise(exit: &Exit, epoch: u64, verdict: &Verdict) -> ExitSummary {
    let report = own_report(exit, epoch);
    let class = match verdict {
        Verdict::Completed => Some(ExitClass::Completed),
        Verdict::Failed(class) => Some(*class),
        Verdict::SchemaChanged { .. } => Some(ExitClass::Retryable),
        Verdict::Fenced | Verdict::Adopted => Some(ExitClass::Fenced),
        Verdict::Disrupted { .. } => report.map(|report| report.class),
    };
    let cause = match verdict {
        Verdict::Completed => RunCause::None,
        Verdict::Failed(_) | Verdict::SchemaChanged { .. } => RunCause::Application,
        Verdict::Fenced | Verdict::Adopted | Verdict::Disrupted { .. } => RunCause::Disruption,
    };
    ExitSummary {
        class,
        cause,
        query: report.and_then(|report| report.query.as_deref()).map(|query| cut(query, QUERY_NAME_BYTES)),
        reason: exit::reason(exit, epoch),
        exit_code: exit.code,
        message: report.map_or_else(String::new, |report| cut(&report.message, MESSAGE_BYTES)),
        log_tail: cut_front(&exit.log_tail, LOG_TAIL_BYTES),
        epoch,
        at: exit.at,
    }
}
