//! The part of the memory that belongs to one run and its tasks.
//!
//! A task is *live* when an instance of its epoch may exist: starting, running
//! or stopping. Its `epoch` names the newest order to start; an observed end of
//! that epoch is accounted once, by leaving the live states.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exit::ExitClass;
use crate::memory::{RunCause, StartReason};
use crate::time::Timestamp;

/// One life of all tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunMemory {
    /// The run's number, from 1.
    pub number: u64,
    /// The generation that it began with.
    pub generation: i64,
    /// The run-level hash that it began with.
    pub run_hash: String,
    /// The image that it began with.
    #[serde(default)]
    pub image: String,
    /// What it began for; none for the first run of a continuous job.
    #[serde(default)]
    pub cause: Option<StartReason>,
    /// When it began.
    pub started_at: Timestamp,
    /// When all its tasks were first ready.
    #[serde(default)]
    pub ready_at: Option<Timestamp>,
    /// Since when all its unfinished tasks are ready without a break.
    #[serde(default)]
    pub ready_since: Option<Timestamp>,
    /// Whether `stableAfter` was reached in that time.
    #[serde(default)]
    pub stable: bool,
    /// The order to end it.
    #[serde(default)]
    pub stop: Option<RunStop>,
    /// By name.
    pub tasks: BTreeMap<String, TaskMemory>,
}

/// The order to end a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStop {
    /// Why.
    pub cause: StopCause,
    /// When a task that has not stopped is killed.
    pub deadline: Timestamp,
}

/// Why a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopCause {
    /// A disruptive edit.
    Edit,
    /// `restartNonce`.
    RestartNonce,
    /// `suspend`.
    Suspend,
    /// The supervisor itself ends.
    Shutdown,
    /// A task failed for good, or none is left running.
    Failed,
    /// Another owner has a checkpoint.
    Adopted,
}

/// One task in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskMemory {
    /// Where it is.
    pub state: TaskState,
    /// The task-level hash of its newest attempt.
    pub hash: String,
    /// The generation of its newest attempt.
    pub generation: i64,
    /// Attempts begun in this run.
    pub attempt: u32,
    /// Counted failures; back to zero after `stableAfter` ready.
    pub failures: u32,
    /// The epoch of its newest attempt; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// Whether an instance of that epoch was seen that runs or may be let go; until then the order to start is repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
    /// Where that instance was last seen (its node); kept while the task is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Since when the start deadline runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_clock: Option<Timestamp>,
    /// Whether the start deadline is suspended because no node fits, or the instance cannot be let go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
    /// Since when it is ready without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<Timestamp>,
    /// When a waiting task starts; jitter included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry: Option<Timestamp>,
    /// Whether it waits because it failed, rather than for a disruption.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_after_failure: bool,
    /// The newest order to take over settings that disrupt nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_order: Option<ConfigOrder>,
    /// The order to stop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<TaskStop>,
    /// Disruptions of late.
    #[serde(default, skip_serializing_if = "Disruptions::are_none")]
    pub disruptions: Disruptions,
    /// How its last attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<ExitSummary>,
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// To be started as soon as its slot is free.
    Pending,
    /// Start ordered, not yet ready.
    Starting,
    /// Ready.
    Running,
    /// Waits for `next_retry`.
    WaitingRetry,
    /// Stop ordered, not yet over.
    Stopping,
    /// All its queries ended by themselves.
    Succeeded,
    /// Failed for good in this run.
    Failed,
    /// Ended with the run.
    Stopped,
}

/// The order to stop a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStop {
    /// What happens once it is over.
    pub goal: TaskStopGoal,
    /// When it is killed.
    pub deadline: Timestamp,
}

/// What a stop is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskStopGoal {
    /// The run ends.
    EndOfRun,
    /// The task starts again with an edited manifest.
    Restart,
    /// The attempt is given up as failed.
    Fail {
        /// What is to blame.
        cause: RunCause,
        /// CamelCase word.
        reason: String,
        /// For people.
        message: String,
    },
}

/// An order to take over settings; remembered so that an unanswered one is repeated at a pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigOrder {
    /// The generation whose settings they are.
    pub generation: i64,
    /// When it was given.
    pub at: Timestamp,
}

/// Disruptions of late; their number drives their own backoff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disruptions {
    /// In a row, each within `stableAfter` of the one before.
    pub count: u32,
    /// The newest.
    pub last_at: Option<Timestamp>,
}

impl Disruptions {
    fn are_none(&self) -> bool {
        *self == Disruptions::default()
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitSummary {
    /// By the report or the code; none for disruptions without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ExitClass>,
    /// What is to blame.
    pub cause: RunCause,
    /// The query that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// CamelCase word.
    pub reason: String,
    /// Exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// The end of its log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_tail: String,
    /// The epoch that ended.
    pub epoch: u64,
    /// When.
    pub at: Timestamp,
}

impl TaskState {
    /// Whether an instance of the task's epoch may exist.
    pub fn is_live(self) -> bool {
        matches!(self, TaskState::Starting | TaskState::Running | TaskState::Stopping)
    }

    /// Whether nothing more happens to the task in this run.
    pub fn is_over(self) -> bool {
        matches!(self, TaskState::Succeeded | TaskState::Failed | TaskState::Stopped)
    }
}

impl TaskMemory {
    /// A task that has not been started.
    pub fn pending(hash: &str, generation: i64) -> TaskMemory {
        TaskMemory {
            state: TaskState::Pending,
            hash: hash.to_owned(),
            generation,
            attempt: 0,
            failures: 0,
            epoch: None,
            seen: false,
            place: None,
            start_clock: None,
            unschedulable: false,
            ready_since: None,
            next_retry: None,
            waits_after_failure: false,
            config_order: None,
            stop: None,
            disruptions: Disruptions::default(),
            last_exit: None,
        }
    }

    /// Whether the task counts as running for its run: it is alive, or will be without having failed.
    pub fn counts_as_running(&self) -> bool {
        match self.state {
            TaskState::Pending | TaskState::Starting | TaskState::Running | TaskState::Stopping => true,
            TaskState::WaitingRetry => !self.waits_after_failure,
            TaskState::Succeeded | TaskState::Failed | TaskState::Stopped => false,
        }
    }
}

impl RunMemory {
    /// Whether an instance of the run may exist.
    pub fn any_live(&self) -> bool {
        self.tasks.values().any(|task| task.state.is_live())
    }
}

impl TaskMemory {
    /// Goes back to the start inside the same run: attempts are kept, failures forgotten.
    pub(crate) fn begin_again(&mut self) {
        self.failures = 0;
        self.disruptions = Disruptions::default();
        self.wait_in(TaskState::Pending);
    }

    /// Leaves whatever an attempt had and takes a state without an instance.
    pub(crate) fn wait_in(&mut self, state: TaskState) {
        self.state = state;
        self.place = None;
        self.start_clock = None;
        self.unschedulable = false;
        self.ready_since = None;
        self.next_retry = None;
        self.waits_after_failure = false;
        self.config_order = None;
        self.stop = None;
    }
}
