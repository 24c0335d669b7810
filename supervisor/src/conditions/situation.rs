//! Which one situation the job is in, as its owner would tell it.
//!
//! The order of the questions is the order of precedence. The table from
//! situation to conditions is in `table`.

use weir_crds::policy::TaskRetryMode;

use super::{Condition, ConditionStatus, Look, Reason};
use crate::decide::START_REJECTED;
use crate::desired::{Acceptance, Lifetime};
use crate::memory::{ExitSummary, Memory, RunMemory, StopCause, TaskMemory, TaskState};
use crate::observed::{Instance, Phase, Shutdown, Slot};
use crate::time::{Timestamp, after, elapsed, rfc3339};

/// The situations of a job.
pub(super) enum Situation {
    /// No generation was ever accepted and none is refused yet.
    NotYetObserved,
    /// The newest generation is refused; a run of the last good one may be alive.
    SpecInvalid { reason: Reason, message: String, running: bool },
    /// The job is going away or its supervisor is.
    Stopping { message: String },
    /// The same, and something is alive long after it should have been killed.
    StopBlocked { message: String },
    /// Suspended and nothing alive.
    Suspended,
    /// An instance on a silent node bars the way; a short silence passes by itself.
    NodeUnreachable { message: String, lasting: bool },
    /// Something from before is not over yet.
    WaitingForTermination { message: String },
    /// Something that has ended stays in its slot because others hold it; that should pass soon.
    Held { message: String, lasting: bool },
    /// A run is stopped to make room for an edit.
    Upgrading { message: String },
    /// A human has to look.
    Stalled { reason: Reason, message: String, running: Running },
    /// Tasks are starting.
    Starting { obstacle: Option<(Reason, String)>, message: String },
    /// A task of a living run is down.
    TaskDown { never_retried: bool, message: String },
    /// Everything runs.
    Streaming { message: String },
    /// Waits for a backoff.
    BackingOff { message: String },
    /// A run ended well and the next is about to begin.
    BetweenRuns { message: String, ready: bool },
    /// Idle on purpose.
    WaitingForTrigger { message: String },
}

/// What `Running` says beside a stall.
#[derive(Clone, Copy)]
pub(super) enum Running {
    Streaming,
    Starting,
    Stopping,
    BackingOff,
    NoRun,
}

/// Decides the situation.
pub(super) fn of(look: &Look<'_>) -> Situation {
    let memory = look.memory;
    if look.observed.shutdown != Shutdown::None {
        return stopping(look);
    }
    match &look.desired.acceptance {
        Acceptance::Rejected { reason, message, .. } => {
            let running = memory.run.as_ref().is_some_and(|run| run.ready_since.is_some());
            return Situation::SpecInvalid { reason: *reason, message: message.clone(), running };
        }
        Acceptance::Accepted | Acceptance::Checking { .. } if look.desired.rules.tasks.is_empty() => {
            return Situation::NotYetObserved;
        }
        Acceptance::Accepted | Acceptance::Checking { .. } => {}
    }
    if let Some(silent) = unreachable(look) {
        return silent;
    }
    if let Some(message) = occupied(look) {
        let running = if memory.run.is_some() { Running::Starting } else { Running::NoRun };
        return Situation::Stalled { reason: Reason::OwnershipConflict, message, running };
    }
    match &memory.run {
        Some(run) => in_run(look, run),
        None => between_runs(look),
    }
}

fn stopping(look: &Look<'_>) -> Situation {
    let late = crate::decide::stuck_at(look.desired, look.observed, look.memory).is_some_and(|at| at <= look.now);
    const SKIP: &str = "annotate weir.dev/skip-graceful-stop: \"true\" to go on without waiting for it";
    if let Some((_, what)) = unproven(look) {
        return if late { Situation::StopBlocked { message: format!("{what}; or {SKIP}") } } else { Situation::Stopping { message: what } };
    }
    let alive = look.observed.slots.iter().find_map(|(task, slot)| Some((task, still_there(slot)?)));
    match alive {
        Some((task, (what, held))) if late => {
            let message = format!("task {task} ({what}) is still there long after its stop deadline{held}; {SKIP}");
            Situation::StopBlocked { message }
        }
        _ => Situation::Stopping { message: "stopping on request".to_owned() },
    }
}

/// What is alive in a slot or may be, and what holds it, for people.
fn still_there(slot: &Slot) -> Option<(String, String)> {
    let alive = slot.live().map(|instance| (format!("epoch {}, {}", instance.epoch, instance.name), held_by(instance)));
    alive.or_else(|| Some((slot.unclassified()?.to_owned(), String::new())))
}

/// A slot that a task needs, now or for the next run, and something foreign has; or one that may hold an instance of the
/// job, beside which no run may begin.
fn occupied(look: &Look<'_>) -> Option<String> {
    let run = look.memory.run.as_ref();
    if run.is_none() && look.memory.suspended {
        return None;
    }
    look.observed.slots.iter().find_map(|(name, slot)| {
        let needed = match run.and_then(|run| run.tasks.get(name)) {
            Some(task) => !task.state.is_over(),
            None => run.is_none() && (look.desired.has_task(name) || slot.unclassified().is_some()),
        };
        let what = match slot {
            Slot::Occupied { by } => format!(
                "the place of task {name} is taken by {by}, which is not Weir's and is left alone; remove it, or rename the job or the task"
            ),
            Slot::Unclassified { what } => format!(
                "the place of task {name} is taken by {what}: it may be running for this job, so nothing is started beside it and it is \
                 left alone; delete it to go on"
            ),
            Slot::Absent | Slot::Rejected { .. } | Slot::Lost { .. } | Slot::Present(_) => return None,
        };
        needed.then_some(what)
    })
}

fn unreachable(look: &Look<'_>) -> Option<Situation> {
    let (since, message) = unproven(look)?;
    Some(Situation::NodeUnreachable { message, lasting: has_lasted(look, since) })
}

/// An instance of which nobody knows whether it is over: since when, and what is known and helps, for people.
fn unproven(look: &Look<'_>) -> Option<(Timestamp, String)> {
    look.observed.slots.iter().find_map(|(task, slot)| {
        let instance = slot.instance()?;
        let (name, epoch) = (&instance.name, instance.epoch);
        let (since, what) = match instance.phase {
            Phase::Unreachable { since } => (since, format!("the node of task {task} (epoch {epoch}) does not answer")),
            Phase::Vanished => {
                let what = format!("{name} of task {task} (epoch {epoch}) vanished without being seen to end, so its process may be alive");
                (look.now, what)
            }
            Phase::Starting(_) | Phase::Ready | Phase::Terminating | Phase::Exited(_) => return None,
        };
        let is_left_behind = look.memory.left_behind.get(task).is_some_and(|left| left.epoch == epoch);
        // It was harmless until an edit moved its successors to where they do not fence it.
        let undo = if is_left_behind { ", and its successor would not fence it: undo that edit, or," } else { ";" };
        Some((since, format!("{what}{undo} {}", vouching(look.memory, epoch))))
    })
}

/// How a human vouches for the end of an instance, and of whom else the same word tells.
fn vouching(memory: &Memory, epoch: u64) -> String {
    let covered = memory.left_behind.iter().filter(|(_, left)| left.epoch == epoch && left.with_earlier);
    let tasks: Vec<&str> = covered.map(|(task, _)| task.as_str()).collect();
    let who = match tasks.as_slice() {
        [] => "it is".to_owned(),
        [task] => format!("every process of task {task} up to epoch {epoch} is"),
        more => format!("every process of the tasks {} up to epoch {epoch} is", more.join(", ")),
    };
    // A word that was there before counts for nothing; see `ConfirmationMemory`.
    let is_early = memory.confirmation.as_ref().is_some_and(|said| said.epoch != Some(epoch) && said.named() == Some(epoch));
    let (first, again) =
        if is_early { ("remove that annotation, which was there before and so is no answer to this, and ", " again") } else { ("", "") };
    format!("once {who} known to be gone, {first}annotate weir.dev/confirm-terminated: {epoch}{again}")
}

/// Whether a silence outlasted its grace. A shell that cannot tell when it began says "now" each
/// time; then it has lasted since the condition that shows it.
fn has_lasted(look: &Look<'_>, since: Timestamp) -> bool {
    let is_shown = |known: &&Condition| {
        let silent = [Reason::NodeUnreachable, Reason::PodVanished];
        known.kind == "PreviousRunTerminated" && silent.iter().any(|reason| known.reason == reason.as_str())
    };
    let shown = look.memory.conditions.iter().find(is_shown);
    let since = shown.map_or(since, |shown| since.min(shown.last_transition_time));
    elapsed(since, look.now) >= crate::decide::NODE_GRACE
}

fn in_run(look: &Look<'_>, run: &RunMemory) -> Situation {
    if let Some(stop) = &run.stop {
        let message = format!("run {} is stopping", run.number);
        return match stop.cause {
            StopCause::Edit | StopCause::RestartNonce => Situation::Upgrading { message },
            StopCause::Suspend | StopCause::Shutdown => Situation::Stopping { message },
            StopCause::Failed | StopCause::Adopted => stalled(look, Running::Stopping).unwrap_or(Situation::Stopping { message }),
        };
    }
    let running = if run.ready_since.is_some() { Running::Streaming } else { Running::Starting };
    if let Some((reason, message)) = obstacles(look, run).find(|(reason, _)| *reason == Reason::ReleaseRefused) {
        return Situation::Stalled { reason, message, running };
    }
    if let Some(stalled) = stalled(look, running) {
        return stalled;
    }
    if let Some((name, task)) = down(run) {
        let never_retried = task.state == TaskState::Failed;
        let reason = task.last_exit.as_ref().map_or_else(|| "failed".to_owned(), why);
        let next = task.next_retry.map_or_else(String::new, |at| format!("; next attempt at {}", rfc3339(at)));
        let retried = look.desired.task_retry_mode() == TaskRetryMode::OnFailure;
        let mode = if never_retried && !retried { "; taskRetryMode is Never" } else { "" };
        return Situation::TaskDown { never_retried, message: format!("task {name}: {reason}{next}{mode}") };
    }
    if run.tasks.values().any(|task| task.stop.is_some()) {
        return Situation::Upgrading { message: "a task is stopping to start again".to_owned() };
    }
    if run.ready_since.is_some() {
        return Situation::Streaming { message: format!("run {} is streaming", run.number) };
    }
    let mut pending = run.tasks.iter().filter(|(_, task)| task.state == TaskState::Pending);
    let bars = |instance: &&Instance| !matches!(instance.phase, Phase::Exited(_)) || !instance.held_by.is_empty();
    let waits = pending.find_map(|(name, _)| Some((name, look.observed.slot(name).instance().filter(bars)?)));
    if let Some((name, instance)) = waits {
        return waiting(look, name, instance);
    }
    Situation::Starting { obstacle: obstacles(look, run).next(), message: format!("run {} is starting", run.number) }
}

/// Why an attempt ended, for people. What refused a start is told with it: no row of the task's own exit follows.
fn why(exit: &ExitSummary) -> String {
    let refused = exit.reason == START_REJECTED && !exit.message.is_empty();
    if refused { format!("{}: {}", exit.reason, exit.message) } else { exit.reason.clone() }
}

/// What an instance that bars the way of a task is waited for.
fn waiting(look: &Look<'_>, task: &str, instance: &Instance) -> Situation {
    let held = held_by(instance);
    match &instance.phase {
        Phase::Exited(exit) if !held.is_empty() => {
            let message =
                format!("{}, an earlier instance of task {task}, has ended{held}; whoever set that has to take it away", instance.name);
            Situation::Held { message, lasting: elapsed(exit.at, look.now) >= crate::decide::STUCK_GRACE }
        }
        _ => Situation::WaitingForTermination { message: format!("an earlier instance of task {task} is not over yet{held}") },
    }
}

/// What others hold an instance with, for people.
fn held_by(instance: &Instance) -> String {
    match instance.held_by.as_slice() {
        [] => String::new(),
        [one] => format!(" and is held by the finalizer {one}"),
        more => format!(" and is held by the finalizers {}", more.join(", ")),
    }
}

/// A task that is failed or waits, failed ones first.
fn down(run: &RunMemory) -> Option<(&String, &TaskMemory)> {
    let failed = run.tasks.iter().find(|(_, task)| task.state == TaskState::Failed);
    failed.or_else(|| run.tasks.iter().find(|(_, task)| task.state == TaskState::WaitingRetry))
}

fn obstacles(look: &Look<'_>, run: &RunMemory) -> impl Iterator<Item = (Reason, String)> {
    run.tasks.keys().filter_map(|name| {
        let Phase::Starting(obstacle) = &look.observed.slot(name).instance()?.phase else { return None };
        let (reason, message) = obstacle.reason()?;
        Some((reason, format!("task {name}: {message}")))
    })
}

fn stalled(look: &Look<'_>, running: Running) -> Option<Situation> {
    let memory = look.memory;
    if let Some(stall) = &memory.stall {
        // A word of a later version stands for what its message says.
        let reason =
            Reason::named(&stall.reason).filter(|reason| reason.is_of("Stalled", ConditionStatus::True)).unwrap_or(Reason::TaskFailed);
        return Some(Situation::Stalled { reason, message: stall.message.clone(), running });
    }
    let threshold = look.desired.rules.restart.failure_threshold.max(1);
    if memory.consecutive_failures < threshold {
        return None;
    }
    let last = memory.last_run.as_ref().map_or_else(String::new, |last| format!("; the last one: {} {}", last.reason, last.message));
    let next = look.next_run().map_or_else(String::new, |next| format!("; next run at {}", rfc3339(next.at)));
    let message = format!("{} runs failed in a row{next}{last}", memory.consecutive_failures);
    Some(Situation::Stalled { reason: Reason::CrashLooping, message, running })
}

fn between_runs(look: &Look<'_>) -> Situation {
    let memory = look.memory;
    if memory.suspended {
        return Situation::Suspended;
    }
    let waits = look.next_run().is_some_and(|next| next.reason.is_backoff() && next.at > look.now);
    let running = if waits { Running::BackingOff } else { Running::NoRun };
    if let Some(stalled) = stalled(look, running) {
        return stalled;
    }
    if look.observed.any_live() {
        return Situation::WaitingForTermination { message: "an earlier instance is not over yet".to_owned() };
    }
    let last = memory.last_run.as_ref();
    if let Some(next) = look.next_run().filter(|next| next.at > look.now && waits) {
        let why = last.map_or("it failed", |last| last.reason.as_str());
        let message = format!("the last run failed ({why}); the next begins at {}", rfc3339(next.at));
        return Situation::BackingOff { message };
    }
    if look.desired.is_continuous() && look.desired.lifetime == Lifetime::AsTriggered {
        let message = look.next_run().map_or_else(String::new, |next| format!("the next run begins at {}", rfc3339(next.at)));
        return match last {
            Some(last) => Situation::BetweenRuns { message, ready: look.now <= between_runs_until(look, last.finished_at) },
            None => Situation::Starting { obstacle: None, message: "the first run is about to begin".to_owned() },
        };
    }
    let last = last.map_or_else(|| "no run yet".to_owned(), |last| format!("run {}: {}", last.number, last.reason));
    Situation::WaitingForTrigger { message: last }
}

fn between_runs_until(look: &Look<'_>, finished_at: Timestamp) -> Timestamp {
    after(finished_at, look.desired.rules.restart.min_interval + crate::decide::BETWEEN_RUNS_GRACE)
}
