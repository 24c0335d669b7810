//! The life of a run: begun through one gate, judged, stopped, recorded.
//!
//! At most one run exists because `begin` is the only place that makes one, and
//! it makes none while a run is in memory or anything at all is alive in a slot.
//! A run is over only when every task has left the live states.

use weir_crds::policy::TaskRetryMode;

use crate::decide::{Pass, left_behind};
use crate::desired::{Desired, Lifetime};
use crate::events::EventReason;
use crate::exit::ExitClass;
use crate::memory::{
    HISTORY_LENGTH, Memory, NextStart, RunCause, RunMemory, RunRecord, RunResult, RunStop, StallEnd, StartReason, StopCause, TaskMemory,
    TaskState, TaskStop, TaskStopGoal,
};
use crate::observed::{Observed, Shutdown};
use crate::text::{HISTORY_MESSAGE_BYTES, cut};
use crate::time::{after, elapsed, rfc3339};

/// Begins the next run if one is due and nothing stands in its way.
pub(super) fn begin(pass: &mut Pass<'_>) {
    if pass.memory.run.is_some() || !is_due(pass) || is_barred(pass) {
        return;
    }
    let desired = pass.desired;
    let number = pass.memory.run_number + 1;
    let pending = |name: &str| TaskMemory::pending(desired.task_hash(name), desired.generation);
    pass.memory.run_number = number;
    let cause = pass.memory.next_start.take().map(|next| next.reason);
    if let Some(one_run) = &mut pass.memory.one_run {
        one_run.run.get_or_insert(number);
    }
    pass.memory.run = Some(RunMemory {
        number,
        generation: desired.generation,
        run_hash: desired.run_hash.clone(),
        image: desired.image.clone(),
        cause,
        started_at: pass.now,
        ready_at: None,
        ready_since: None,
        stable: false,
        stop: None,
        tasks: desired.rules.tasks.iter().map(|task| (task.name.clone(), pending(&task.name))).collect(),
    });
    pass.tell(EventReason::RunStarted, format!("run {number} of generation {}", desired.generation));
}

fn is_due(pass: &Pass<'_>) -> bool {
    match pass.memory.next_start {
        Some(next) => next.at <= pass.now,
        None => pass.desired.is_continuous() && pass.desired.lifetime == Lifetime::AsTriggered,
    }
}

/// Whether no run may begin whatever the time.
pub(super) fn is_barred(pass: &Pass<'_>) -> bool {
    let is_anything_alive = pass.observed.any_live() || left_behind::bars_a_run(pass);
    pass.desired.paused || is_anything_alive || !is_wanted(pass.desired, pass.observed, &pass.memory)
}

/// When and why the next run begins, if one will.
pub(crate) fn next(desired: &Desired, observed: &Observed, memory: &Memory) -> Option<NextStart> {
    memory.next_start.filter(|_| memory.run.is_none() && is_wanted(desired, observed, memory))
}

/// Whether there is to be another run at all.
fn is_wanted(desired: &Desired, observed: &Observed, memory: &Memory) -> bool {
    let one_run_done =
        matches!(desired.lifetime, Lifetime::OneRun { .. }) && memory.one_run.as_ref().is_some_and(|one_run| one_run.run.is_some());
    let adopted = memory.stall.as_ref().is_some_and(|stall| stall.until == StallEnd::RestartNonce);
    let is_ordered = !desired.rules.suspend && !desired.rules.tasks.is_empty() && observed.shutdown == Shutdown::None;
    is_ordered && !one_run_done && !adopted
}

/// Whether an instance of the task's newest epoch is in its slot.
pub(super) fn may_be_alive(observed: &Observed, name: &str, task: &TaskMemory) -> bool {
    observed.slot(name).instance().is_some_and(|instance| Some(instance.epoch) == task.epoch)
}

/// Orders the run to end. A wish of the owner goes before a failure that is ending it already.
pub(super) fn stop(pass: &mut Pass<'_>, run: &mut RunMemory, cause: StopCause) {
    if let Some(stop) = &mut run.stop {
        let wish = matches!(cause, StopCause::Edit | StopCause::RestartNonce);
        if wish && matches!(stop.cause, StopCause::Failed) {
            stop.cause = cause;
        }
        return;
    }
    let deadline = after(pass.now, pass.desired.rules.stop_timeout);
    run.stop = Some(RunStop { cause, deadline });
    run.ready_since = None;
    for (name, task) in &mut run.tasks {
        match task.state {
            TaskState::Starting | TaskState::Running if may_be_alive(pass.observed, name, task) => {
                task.state = TaskState::Stopping;
                task.stop = Some(TaskStop { goal: TaskStopGoal::EndOfRun, deadline });
            }
            TaskState::Stopping => {
                let deadline = task.stop.as_ref().map_or(deadline, |stop| stop.deadline);
                task.stop = Some(TaskStop { goal: TaskStopGoal::EndOfRun, deadline });
            }
            TaskState::WaitingRetry if task.waits_after_failure => task.wait_in(TaskState::Failed),
            TaskState::Pending | TaskState::Starting | TaskState::Running | TaskState::WaitingRetry => {
                task.wait_in(TaskState::Stopped);
            }
            TaskState::Succeeded | TaskState::Failed | TaskState::Stopped => {}
        }
    }
}

/// Follows readiness, stops a run that cannot go on, records one that is over.
pub(super) fn judge(pass: &mut Pass<'_>) {
    let Some(mut run) = pass.memory.run.take() else { return };
    follow_readiness(pass, &mut run);
    let may_stop = run.stop.is_none() && !pass.desired.paused;
    if let Some(cause) = lost_cause(pass, &run).filter(|_| may_stop) {
        stop(pass, &mut run, cause);
    }
    if run.tasks.values().all(|task| task.state.is_over()) {
        finish(pass, &run);
    } else {
        pass.memory.run = Some(run);
    }
}

fn follow_readiness(pass: &mut Pass<'_>, run: &mut RunMemory) {
    let ready = |task: &TaskMemory| matches!(task.state, TaskState::Running | TaskState::Succeeded);
    let all_ready = run.stop.is_none() && run.tasks.values().all(ready) && run.tasks.values().any(|task| task.state == TaskState::Running);
    if !all_ready {
        run.ready_since = None;
        run.stable = false;
        return;
    }
    let since = *run.ready_since.get_or_insert(pass.now);
    if run.ready_at.is_none() {
        run.ready_at = Some(pass.now);
        pass.tell(EventReason::RunReady, format!("run {} is streaming", run.number));
    }
    if pass.memory.stall.as_ref().is_some_and(|stall| stall.until == StallEnd::Ready) {
        pass.memory.stall = None;
    }
    if !run.stable && elapsed(since, pass.now) >= pass.desired.rules.restart.stable_after {
        run.stable = true;
        if std::mem::take(&mut pass.memory.consecutive_failures) > 0 {
            pass.tell(EventReason::BackoffReset, "the run was ready for stableAfter".to_owned());
        }
    }
}

fn lost_cause(pass: &Pass<'_>, run: &RunMemory) -> Option<StopCause> {
    let mut tasks = run.tasks.values();
    let adopted = pass.memory.stall.as_ref().is_some_and(|stall| stall.until == StallEnd::RestartNonce);
    if adopted && tasks.clone().any(|task| task.state == TaskState::Failed) {
        return Some(StopCause::Adopted);
    }
    if pass.desired.task_retry_mode() == TaskRetryMode::Never {
        return None;
    }
    let failed = tasks.clone().any(|task| task.state == TaskState::Failed);
    let unfinished = tasks.clone().any(|task| !task.state.is_over());
    let none_running = !tasks.any(TaskMemory::counts_as_running);
    let all_waiting = run.tasks.len() > 1 && unfinished && none_running;
    (failed || all_waiting).then_some(StopCause::Failed)
}

fn finish(pass: &mut Pass<'_>, run: &RunMemory) {
    let result = match run.stop.as_ref().map(|stop| stop.cause) {
        Some(StopCause::Edit | StopCause::RestartNonce) => RunResult::Superseded,
        Some(StopCause::Suspend | StopCause::Shutdown) if !all_succeeded(run) => RunResult::Stopped,
        Some(StopCause::Adopted) => RunResult::Fenced,
        _ if all_succeeded(run) => RunResult::Succeeded,
        _ => RunResult::Failed,
    };
    let record = record(pass, run, result);
    count(pass, run, &record);
    pass.memory.next_start = next_start(pass, run, &record);
    announce(pass, &record);
    pass.memory.last_run = Some(record.clone());
    let message = cut(&record.message, HISTORY_MESSAGE_BYTES);
    pass.memory.history.insert(0, RunRecord { message, ..record });
    pass.memory.history.truncate(HISTORY_LENGTH);
}

fn all_succeeded(run: &RunMemory) -> bool {
    run.tasks.values().all(|task| task.state == TaskState::Succeeded)
}

fn count(pass: &mut Pass<'_>, run: &RunMemory, record: &RunRecord) {
    match record.result {
        RunResult::Succeeded => {
            pass.memory.consecutive_failures = 0;
            if pass.memory.stall.as_ref().is_some_and(|stall| stall.until == StallEnd::Ready) {
                pass.memory.stall = None;
            }
        }
        RunResult::Failed => {
            pass.memory.consecutive_failures = pass.memory.consecutive_failures.saturating_add(1);
        }
        RunResult::Superseded => {
            pass.memory.restarts.spec += 1;
            // The one run goes on as the run of the new generation.
            if let Some(one_run) = pass.memory.one_run.as_mut().filter(|one| one.run == Some(run.number)) {
                one_run.run = None;
            }
        }
        RunResult::Stopped | RunResult::Fenced => {}
    }
}

fn next_start(pass: &mut Pass<'_>, run: &RunMemory, record: &RunRecord) -> Option<NextStart> {
    let rules = &pass.desired.rules;
    let requested = Some(NextStart { at: pass.now, reason: StartReason::Restart });
    match record.result {
        RunResult::Superseded => requested,
        _ if !pass.desired.is_continuous() => None,
        // Whoever asks for another life of the job does not wait for what the one run left.
        _ if pass.desired.lifetime != Lifetime::AsTriggered => None,
        RunResult::Stopped => requested,
        RunResult::Fenced => None,
        RunResult::Succeeded => {
            let at = after(run.started_at, rules.restart.min_interval).max(pass.now);
            Some(NextStart { at, reason: StartReason::BetweenRuns })
        }
        RunResult::Failed => {
            let hopeless = matches!(record.class, Some(ExitClass::Config | ExitClass::Incompatible));
            let backoff = pass.desired.run_backoff();
            let draw = (pass.draw)();
            let (delay, reason) = if hopeless {
                (backoff.delay_at_maximum(draw), StartReason::MaximumDelay)
            } else {
                (backoff.delay(pass.memory.consecutive_failures, draw), StartReason::Backoff)
            };
            let failed = run.tasks.values().filter(|task| task.state == TaskState::Failed);
            let ended = failed.filter_map(|task| task.last_exit.as_ref()).map(|exit| exit.at.min(pass.now)).max();
            let kept = ended.map_or(pass.now, |at| after(at, rules.keep_failed_for));
            Some(NextStart { at: after(pass.now, delay).max(kept), reason })
        }
    }
}

/// The task that decided how the run ended: the one that no retry can heal, else the last to fail.
fn decisive(run: &RunMemory) -> Option<(&String, &TaskMemory)> {
    let weight = |task: &TaskMemory| {
        let exit = task.last_exit.as_ref();
        let class = exit.and_then(|exit| exit.class).filter(|class| *class != ExitClass::Stopped);
        (class, exit.map(|exit| exit.at))
    };
    run.tasks.iter().filter(|(_, task)| task.state == TaskState::Failed).max_by_key(|(_, task)| weight(task))
}

fn record(pass: &Pass<'_>, run: &RunMemory, result: RunResult) -> RunRecord {
    let blamed = matches!(result, RunResult::Failed | RunResult::Fenced);
    let decisive = decisive(run).filter(|_| blamed);
    let exit = decisive.and_then(|(_, task)| task.last_exit.as_ref());
    let (cause, reason) = match result {
        RunResult::Succeeded => (RunCause::None, "Completed"),
        RunResult::Superseded => (RunCause::Spec, "Superseded"),
        RunResult::Stopped if run.stop.as_ref().is_some_and(|stop| stop.cause == StopCause::Shutdown) => (RunCause::Request, "Stopped"),
        RunResult::Stopped => (RunCause::Spec, "Suspended"),
        RunResult::Failed | RunResult::Fenced => exit.map_or((RunCause::Application, "Failed"), |exit| (exit.cause, exit.reason.as_str())),
    };
    RunRecord {
        number: run.number,
        generation: run.generation,
        epoch: run.tasks.values().filter_map(|task| task.epoch).max().unwrap_or(pass.memory.epoch),
        result,
        cause,
        reason: reason.to_owned(),
        task: decisive.map(|(name, _)| name.clone()),
        exit_code: exit.and_then(|exit| exit.exit_code),
        class: exit.and_then(|exit| exit.class),
        message: exit.map_or_else(String::new, |exit| exit.message.clone()),
        started_at: run.started_at,
        ready_at: run.ready_at,
        finished_at: pass.now,
    }
}

fn announce(pass: &mut Pass<'_>, record: &RunRecord) {
    let number = record.number;
    match record.result {
        RunResult::Succeeded => pass.tell(EventReason::RunCompleted, format!("run {number} completed")),
        RunResult::Superseded => pass.tell(EventReason::RunStopped, format!("run {number} made room for its successor")),
        RunResult::Stopped => pass.tell(EventReason::RunStopped, format!("run {number} was stopped")),
        RunResult::Failed | RunResult::Fenced => {
            let task = record.task.as_deref().unwrap_or("?");
            let code = record.exit_code.map_or_else(String::new, |code| format!(", exit code {code}"));
            let next = next(pass.desired, pass.observed, &pass.memory)
                .map_or_else(|| "no run follows by itself".to_owned(), |next| format!("the next run begins at {}", rfc3339(next.at)));
            let note =
                format!("run {number} failed: task {task}, {}{code}; {} in a row; {next}", record.reason, pass.memory.consecutive_failures);
            pass.tell(EventReason::RunFailed, note);
        }
    }
}
