//! Everything that outlives the supervisor's process: one JSON document.
//!
//! Counters, epochs, timers and backoff state are memory; all else is
//! observed. The shell stores the document before it carries out any action of
//! the plan that it came with, and hands it back unchanged. Times are absolute
//! and include their jitter. `health` may be dropped by a shell that is short
//! of room: that only delays the health conditions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::exit::ExitClass;
use crate::health::HealthMemory;
use crate::observed::Confirmation;
use crate::time::Timestamp;

mod run;

pub use run::{ConfigOrder, Disruptions, ExitSummary, RunMemory, RunStop, StopCause, TaskMemory, TaskState, TaskStop, TaskStopGoal};

/// The version of the document that this crate writes.
pub const MEMORY_VERSION: u32 = 1;
/// How many finished runs are remembered.
pub const HISTORY_LENGTH: usize = 10;
/// Epochs have twelve digits; a greater number is none, whoever says it.
pub const HIGHEST_EPOCH: u64 = 999_999_999_999;
/// A greater number is believed of nobody but the memory itself, so that epochs are left above whatever others say.
pub const HIGHEST_CLAIM: u64 = 899_999_999_999;

/// The memory of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Version of this document.
    pub version: u32,
    /// The highest epoch ever reserved or seen; the next one is above it.
    pub epoch: u64,
    /// The number of the newest run; 0 before the first.
    pub run_number: u64,
    /// The run that is alive.
    pub run: Option<RunMemory>,
    /// The newest finished run.
    pub last_run: Option<RunRecord>,
    /// Finished runs, newest first.
    pub history: Vec<RunRecord>,
    /// Failed runs in a row.
    pub consecutive_failures: u32,
    /// When the next run begins, where that is known.
    pub next_start: Option<NextStart>,
    /// What restarts were for, since the job exists.
    pub restarts: RestartTotals,
    /// What keeps the job from being well until something happens.
    pub stall: Option<Stall>,
    /// The accepted manifest that was last acted upon.
    pub spec: Option<SpecMark>,
    /// The restart nonce that was last acted upon.
    pub restart_nonce: Option<i64>,
    /// The run-now token that was last acted upon.
    pub handled_run_now: Option<String>,
    /// Whether the job was last seen suspended with no run alive.
    pub suspended: bool,
    /// The word of a human that was answered last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<ConfirmationMemory>,
    /// By request: the text that means nothing and was answered last.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unreadable: BTreeMap<String, String>,
    /// Instances in a slot that were given up without proof of their end, by epoch; told once.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub given_up: BTreeSet<u64>,
    /// By epoch of an instance that may be alive: the fence that it was begun behind (`Desired::fences`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fences: BTreeMap<u64, String>,
    /// By task: an instance in its slot that no run calls its own, so that one which vanishes unseen is still waited for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub strangers: BTreeMap<String, Stranger>,
    /// By task: an instance that was given up behind a fence which no successor is known to have claimed yet.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left_behind: BTreeMap<String, LeftBehind>,
    /// Since when the supervisor is to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_since: Option<Timestamp>,
    /// Where a schedule is.
    pub schedule: Option<ScheduleMemory>,
    /// The one run of a `Lifetime::OneRun`.
    pub one_run: Option<OneRunMemory>,
    /// By task: source versions whose schema change was already forgiven.
    pub schema_changes: BTreeMap<String, BTreeSet<String>>,
    /// Windows and streaks behind the health conditions.
    pub health: HealthMemory,
    /// The twelve conditions as last decided.
    pub conditions: Vec<Condition>,
}

/// An instance that no run calls its own: of a memory that was lost, or of an order that came late.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stranger {
    /// Its epoch.
    pub epoch: u64,
    /// Where it runs, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// An instance that may be alive and was given up all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftBehind {
    /// Its epoch.
    pub epoch: u64,
    /// The fence that it was begun behind (`Desired::fences`); only what begins behind the same one may follow it.
    pub fence: String,
    /// Where it runs, where that is known and its end there would be proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Whether earlier ones may be alive as well, so that its own end is no proof.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_earlier: bool,
}

/// The word of a human that an instance is gone. It is good for what waited for it when it came, so that one that names a
/// living instance by mistake does no harm when that one falls silent later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmationMemory {
    /// What was written.
    pub text: String,
    /// The epoch that is believed to be gone; none where nothing waited for this word.
    pub epoch: Option<u64>,
}

impl ConfirmationMemory {
    /// The epoch that was written, whether or not anything waited for it.
    pub(crate) fn named(&self) -> Option<u64> {
        Confirmation::read(&self.text).epoch
    }
}

/// When and why the next run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NextStart {
    /// Not before this time; jitter included.
    pub at: Timestamp,
    /// Why then.
    pub reason: StartReason,
}

/// Why a run begins when it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartReason {
    /// After a failed run: the backoff.
    Backoff,
    /// After a failure that a retry cannot heal: the maximum delay.
    MaximumDelay,
    /// After a success: `minInterval` since the last start.
    BetweenRuns,
    /// An edit, a nonce, a resume or a stop by the supervisor's end: at once.
    Restart,
    /// A tick of the schedule.
    Tick,
    /// A run-now token.
    RunNow,
    /// `Lifetime::OneRun`.
    OneRun,
}

impl StartReason {
    /// Whether the wait is a backoff.
    pub fn is_backoff(self) -> bool {
        matches!(self, StartReason::Backoff | StartReason::MaximumDelay)
    }
}

/// A finished run. Never changed once written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The run's number.
    pub number: u64,
    /// The generation that it began with.
    pub generation: i64,
    /// The highest epoch that one of its tasks had.
    pub epoch: u64,
    /// How it ended.
    pub result: RunResult,
    /// What is to blame.
    pub cause: RunCause,
    /// CamelCase word.
    pub reason: String,
    /// The task that decided the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Exit code of that task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Exit class of that task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ExitClass>,
    /// For people; cut to fit.
    pub message: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When all its tasks were first ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Timestamp>,
    /// When its last task had ended.
    pub finished_at: Timestamp,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunResult {
    /// All tasks completed.
    Succeeded,
    /// A task failed for good.
    Failed,
    /// Replaced after an edit or a restart request.
    Superseded,
    /// Stopped by suspension or with the supervisor.
    Stopped,
    /// Another owner has the checkpoint.
    Fenced,
}

/// What is to blame for the end of a run or attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunCause {
    /// The task's own exit.
    Application,
    /// It did not become ready.
    StartUp,
    /// The surroundings.
    Disruption,
    /// The owner's wish, in the manifest.
    Spec,
    /// The owner's request to end: Ctrl-C, or the deletion of the job.
    Request,
    /// Nothing: it was done.
    None,
}

/// Counters that only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestartTotals {
    /// After failures of the task itself.
    pub application: u64,
    /// After attempts that did not get ready.
    pub start_up: u64,
    /// After disruptions.
    pub disruption: u64,
    /// After edits and restart requests.
    pub spec: u64,
    /// After exits that found a newer epoch.
    pub fenced: u64,
    /// After schema changes that were forgiven.
    pub schema_change: u64,
}

/// Something that a human has to look at. `restartNonce` ends it in any case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stall {
    /// CamelCase word, as in the `Stalled` condition.
    pub reason: String,
    /// For people.
    pub message: String,
    /// What else ends it.
    pub until: StallEnd,
}

/// What ends a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StallEnd {
    /// All tasks are ready again, a run succeeded, or a disruptive edit.
    Ready,
    /// Only `restartNonce`.
    RestartNonce,
}

/// The accepted manifest that was last acted upon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpecMark {
    /// Its generation.
    pub generation: i64,
    /// Its run-level hash.
    pub run_hash: String,
    /// Its task-level hashes.
    pub tasks: BTreeMap<String, String>,
    /// Digest of where its checkpoints are, so that an edit can be judged whose predecessor is not kept any more; empty where
    /// that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub places: String,
}

/// Where a schedule is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleMemory {
    /// Fields and zone that `handled` belongs to.
    pub identity: String,
    /// Every tick up to here was begun or skipped.
    pub handled: Timestamp,
}

/// The one run of a `Lifetime::OneRun`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OneRunMemory {
    /// The invocation's token.
    pub token: String,
    /// The number of its run, once begun or taken over.
    pub run: Option<u64>,
}

impl Default for Memory {
    fn default() -> Self {
        Memory {
            version: MEMORY_VERSION,
            epoch: 0,
            run_number: 0,
            run: None,
            last_run: None,
            history: Vec::new(),
            consecutive_failures: 0,
            next_start: None,
            restarts: RestartTotals::default(),
            stall: None,
            spec: None,
            restart_nonce: None,
            handled_run_now: None,
            suspended: false,
            confirmation: None,
            unreadable: BTreeMap::new(),
            given_up: BTreeSet::new(),
            fences: BTreeMap::new(),
            strangers: BTreeMap::new(),
            left_behind: BTreeMap::new(),
            shutdown_since: None,
            schedule: None,
            one_run: None,
            schema_changes: BTreeMap::new(),
            health: HealthMemory::default(),
            conditions: Vec::new(),
        }
    }
}

/// Why a stored document cannot be used. What helps depends on where it is stored, so the shell says it.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Not the JSON that this crate writes.
    #[error("the supervisor's memory cannot be read: {0}")]
    Damaged(#[from] serde_json::Error),
    /// A counter that nothing can have driven up so far.
    #[error("the supervisor's memory has the epoch {epoch}, which has not been given out")]
    Exhausted {
        /// The epoch found.
        epoch: u64,
    },
    /// Written by a later version.
    #[error("the supervisor's memory has version {found}, this one knows up to {MEMORY_VERSION}; use the newer Weir")]
    Newer {
        /// The version found.
        found: u32,
    },
}

impl Memory {
    /// Reads a stored document.
    pub fn from_json(text: &str) -> Result<Memory, MemoryError> {
        let memory: Memory = serde_json::from_str(text)?;
        if memory.version > MEMORY_VERSION {
            return Err(MemoryError::Newer { found: memory.version });
        }
        // Half of what is left above all claims: no job begins so many instances.
        if memory.epoch > HIGHEST_CLAIM + (HIGHEST_EPOCH - HIGHEST_CLAIM) / 2 {
            return Err(MemoryError::Exhausted { epoch: memory.epoch });
        }
        Ok(memory)
    }

    /// Whether this must be stored before the plan's actions, given what is stored already.
    ///
    /// `health` alone may wait: it changes with every batch, and losing some of it only delays
    /// the health conditions. A flip of one of those is in `conditions` and must be stored.
    pub fn needs_storing(&self, stored: &Memory) -> bool {
        let bare = |memory: &Memory| Memory { health: HealthMemory::default(), ..memory.clone() };
        bare(self) != bare(stored)
    }

    /// The highest epoch that is recorded anywhere in the document; above `epoch` only where somebody has changed it.
    pub fn highest_epoch(&self) -> u64 {
        let tasks = self.run.iter().flat_map(|run| run.tasks.values());
        let of_task = |task: &TaskMemory| task.epoch.max(task.last_exit.as_ref().map(|exit| exit.epoch));
        let runs = self.history.iter().chain(&self.last_run).map(|run| run.epoch);
        tasks.filter_map(of_task).chain(runs).chain([self.epoch]).filter(|epoch| *epoch <= HIGHEST_EPOCH).max().unwrap_or_default()
    }

    /// The document to store.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("memory has string keys and no foreign types")
    }
}
