//! What the owner changed: edits, `restartNonce`, run-now, suspend, shutdown.
//!
//! Each request is acted upon once; the memory holds the newest one handled.
//! An edit stops only what its hashes say it disrupts. Requests end backoffs
//! and reset counters as the backoff contract lists.

use crate::decide::{Pass, runs};
use crate::desired::Lifetime;
use crate::events::EventReason;
use crate::exit::ExitClass;
use crate::memory::{
    NextStart, OneRunMemory, RunMemory, RunResult, SpecMark, StallEnd, StartReason, StopCause, TaskMemory, TaskState, TaskStop,
    TaskStopGoal,
};
use crate::observed::{Observed, Shutdown, Unreadable};
use crate::plan::Finished;
use crate::time::after;

/// Acts on everything that is new.
pub(super) fn apply(pass: &mut Pass<'_>) {
    edits(pass);
    restart_nonce(pass);
    run_now(pass);
    one_run(pass);
    suspend(pass);
    shutdown(pass);
}

/// Answers what cannot be understood, once per text.
pub(super) fn answer_unreadable(pass: &mut Pass<'_>) {
    let observed = pass.observed;
    pass.memory.unreadable.retain(|request, _| observed.unreadable.iter().any(|unreadable| unreadable.request == *request));
    for Unreadable { request, text, expected } in &observed.unreadable {
        let known = pass.memory.unreadable.insert(request.clone(), text.clone());
        if known.as_ref() != Some(text) {
            pass.tell(EventReason::AnnotationIgnored, format!("{request}: {text:?} was ignored: {expected}"));
        }
    }
}

fn edits(pass: &mut Pass<'_>) {
    if pass.desired.rules.tasks.is_empty() {
        return;
    }
    let names = pass.desired.rules.tasks.iter().map(|task| task.name.clone());
    let mark = SpecMark {
        generation: pass.desired.generation,
        run_hash: pass.desired.run_hash.clone(),
        tasks: names.map(|name| (name.clone(), pass.desired.task_hash(&name).to_owned())).collect(),
        places: pass.desired.places.clone(),
    };
    // Where checkpoints are is no edit of itself: an earlier memory did not know it.
    let is_same = |old: &SpecMark| (old.generation, &old.run_hash, &old.tasks) == (mark.generation, &mark.run_hash, &mark.tasks);
    if let Some(old) = pass.memory.spec.as_ref().filter(|old| !is_same(old)) {
        let run_class = old.run_hash != mark.run_hash || !old.tasks.keys().eq(mark.tasks.keys());
        let task_class = !run_class && old.tasks != mark.tasks;
        let note = format!("generation {} is in effect; the edit {}", mark.generation, effects(pass, run_class, task_class));
        if run_class || task_class {
            reset_backoff(pass, "an edit");
        }
        pass.tell(EventReason::SpecUpdateApplied, note);
    }
    pass.memory.spec = Some(mark);
    if let Some(mut run) = pass.memory.run.take() {
        edit_run(pass, &mut run);
        pass.memory.run = Some(run);
    }
}

/// What an edit does, in words.
fn effects(pass: &Pass<'_>, run_class: bool, task_class: bool) -> String {
    let (rules, memory) = (&pass.desired.rules, &pass.memory);
    let is_suspending = memory.run.as_ref().and_then(|run| run.stop.as_ref()).is_some_and(|stop| stop.cause == StopCause::Suspend);
    let suspends = rules.suspend && !memory.suspended && !is_suspending;
    let restarts = memory.restart_nonce.is_some_and(|known| known != rules.restart_nonce);
    let all = [
        (run_class, "needs a new run"),
        (task_class, "restarts the edited tasks"),
        (restarts, "asks for a restart by restartNonce"),
        (suspends && memory.run.is_some(), "suspends the job: its run stops at batch boundaries"),
        (suspends && memory.run.is_none(), "suspends the job: no run begins"),
        (!rules.suspend && (memory.suspended || is_suspending), "resumes the job"),
    ];
    let named: Vec<&str> = all.iter().filter(|(is_so, _)| *is_so).map(|(_, words)| *words).collect();
    if named.is_empty() { "disturbs nothing".to_owned() } else { named.join(" and ") }
}

fn edit_run(pass: &mut Pass<'_>, run: &mut RunMemory) {
    let desired = pass.desired;
    let same_tasks = run.tasks.len() == desired.rules.tasks.len() && run.tasks.keys().all(|task| desired.has_task(task));
    if run.run_hash != desired.run_hash || !same_tasks {
        runs::stop(pass, run, StopCause::Edit);
    } else if run.stop.is_none() {
        let deadline = after(pass.now, desired.rules.stop_timeout);
        for (name, task) in &mut run.tasks {
            if task.hash != desired.task_hash(name) {
                restart_task(pass.observed, name, task, desired.task_hash(name), deadline);
            }
        }
    }
}

/// Brings the edited task to its new generation; its record of failures belongs to the old one.
fn restart_task(observed: &Observed, name: &str, task: &mut TaskMemory, hash: &str, deadline: crate::time::Timestamp) {
    task.hash = hash.to_owned();
    let order = TaskStop { goal: TaskStopGoal::Restart, deadline };
    match task.state {
        TaskState::Starting | TaskState::Running if runs::may_be_alive(observed, name, task) => {
            task.state = TaskState::Stopping;
            task.stop = Some(order);
        }
        TaskState::Stopping => {
            let deadline = task.stop.as_ref().map_or(order.deadline, |stop| stop.deadline);
            task.stop = Some(TaskStop { deadline, ..order });
        }
        _ => task.begin_again(),
    }
}

fn restart_nonce(pass: &mut Pass<'_>) {
    let nonce = pass.desired.rules.restart_nonce;
    let known = pass.memory.restart_nonce.replace(nonce);
    if known.is_none_or(|known| known == nonce) {
        return;
    }
    pass.memory.stall = None;
    reset_backoff(pass, "restartNonce");
    if let Some(mut run) = pass.memory.run.take() {
        runs::stop(pass, &mut run, StopCause::RestartNonce);
        pass.memory.run = Some(run);
    } else if pass.desired.is_continuous() {
        pass.memory.next_start = Some(NextStart { at: pass.now, reason: StartReason::Restart });
    }
}

fn run_now(pass: &mut Pass<'_>) {
    let Some(token) = pass.desired.run_now.clone() else { return };
    if pass.memory.handled_run_now.as_ref() == Some(&token) {
        return;
    }
    pass.memory.handled_run_now = Some(token.clone());
    let adopted = pass.memory.stall.as_ref().is_some_and(|stall| stall.until == StallEnd::RestartNonce);
    let obstacle = if pass.memory.run.is_some() {
        Some("a run is alive")
    } else if pass.desired.rules.suspend {
        Some("the job is suspended")
    } else if adopted {
        Some("the checkpoint has another owner; only restartNonce goes on")
    } else {
        None
    };
    if let Some(obstacle) = obstacle {
        pass.tell(EventReason::RunNowIgnored, format!("run-now {token:?} was ignored: {obstacle}"));
        return;
    }
    reset_backoff(pass, "run-now");
    pass.memory.next_start = Some(NextStart { at: pass.now, reason: StartReason::RunNow });
}

fn one_run(pass: &mut Pass<'_>) {
    let Lifetime::OneRun { token } = &pass.desired.lifetime else { return };
    if pass.memory.one_run.as_ref().is_some_and(|known| known.token == *token) {
        return;
    }
    let run = pass.memory.run.as_ref().map(|run| run.number);
    pass.memory.one_run = Some(OneRunMemory { token: token.clone(), run });
    if run.is_none() {
        pass.memory.next_start = Some(NextStart { at: pass.now, reason: StartReason::OneRun });
    }
}

fn suspend(pass: &mut Pass<'_>) {
    if !pass.desired.rules.suspend {
        if std::mem::take(&mut pass.memory.suspended) {
            reset_backoff(pass, "resume");
            pass.tell(EventReason::Resumed, "the job is no longer suspended".to_owned());
        }
        return;
    }
    if let Some(mut run) = pass.memory.run.take() {
        runs::stop(pass, &mut run, StopCause::Suspend);
        pass.memory.run = Some(run);
    } else if !pass.memory.suspended {
        pass.memory.suspended = true;
        if !pass.desired.is_continuous() {
            pass.memory.next_start = None;
        }
        pass.tell(EventReason::Suspended, "no run is alive and none will begin".to_owned());
    }
}

fn shutdown(pass: &mut Pass<'_>) {
    if pass.observed.shutdown == Shutdown::None {
        pass.memory.shutdown_since = None;
        return;
    }
    pass.memory.shutdown_since.get_or_insert(pass.now);
    let Some(mut run) = pass.memory.run.take() else { return };
    runs::stop(pass, &mut run, StopCause::Shutdown);
    if pass.observed.shutdown == Shutdown::Immediate {
        for stop in run.tasks.values_mut().filter_map(|task| task.stop.as_mut()) {
            stop.deadline = stop.deadline.min(pass.now);
        }
    }
    pass.memory.run = Some(run);
}

/// Forgets failures: the next one waits the initial delay, and a pending wait is over.
pub(super) fn reset_backoff(pass: &mut Pass<'_>, because: &str) {
    let memory = &mut pass.memory;
    if memory.stall.as_ref().is_some_and(|stall| stall.until == StallEnd::Ready) {
        memory.stall = None;
    }
    if let Some(next) = &mut memory.next_start {
        *next = NextStart { at: pass.now, reason: StartReason::Restart };
    }
    if std::mem::take(&mut memory.consecutive_failures) > 0 {
        pass.tell(EventReason::BackoffReset, format!("consecutive failures went back to zero after {because}"));
    }
}

/// Whether supervision is over: nothing is alive and nothing will be begun.
pub(super) fn finished(pass: &Pass<'_>) -> Option<Finished> {
    if pass.memory.run.is_some() || pass.observed.any_live() {
        return None;
    }
    if pass.observed.shutdown != Shutdown::None {
        return Some(Finished { class: ExitClass::Stopped, message: "stopped on request".to_owned() });
    }
    let Lifetime::OneRun { .. } = &pass.desired.lifetime else { return None };
    if pass.desired.rules.suspend {
        let message = "the job is suspended; set spec.suspend to false to run it".to_owned();
        return Some(Finished { class: ExitClass::Config, message });
    }
    if pass.memory.stall.as_ref().is_some_and(|stall| stall.until == StallEnd::RestartNonce) {
        let message = "the checkpoint has another owner; change spec.restartNonce to go on".to_owned();
        return Some(Finished { class: ExitClass::Incompatible, message });
    }
    let number = pass.memory.one_run.as_ref()?.run?;
    let last = pass.memory.last_run.as_ref().filter(|last| last.number == number)?;
    let class = match last.result {
        RunResult::Succeeded => ExitClass::Completed,
        RunResult::Stopped | RunResult::Superseded => ExitClass::Stopped,
        RunResult::Fenced => ExitClass::Fenced,
        RunResult::Failed => last.class.unwrap_or(ExitClass::Retryable),
    };
    Some(Finished { class, message: last.message.clone() })
}
