//! `status` of a `StreamingJob`: what is true now, and the memory that decisions rest on.
//!
//! The cluster and the local runner write the same record. No enums and no bounds in the
//! schema, because they could block the operator's own writes; sizes are kept by whoever
//! renders it (`status.tasks` at most 32 KiB, `history` ten runs). Reasons and classes are
//! open sets: new values may appear.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// The condition types in the fixed order in which they are written.
pub const CONDITION_TYPES: [&str; 12] = [
    "Ready",
    "Reconciling",
    "Stalled",
    "Accepted",
    "Running",
    "ProgressStale",
    "BackingOff",
    "PreviousRunTerminated",
    "Suspended",
    "Degraded",
    "FallingBehind",
    "BacklogExceeded",
];

/// What is true of the job.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StreamingJobStatus {
    /// Generation of the spec that this status speaks of; -1 before the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The twelve conditions, in a fixed order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The newest epoch given out; only rising.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The run that is alive or being started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatus>,
    /// The run before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunResult>,
    /// Failed runs in a row.
    #[serde(default)]
    pub consecutive_failures: i64,
    /// Whether the next run waits for its time.
    #[serde(default)]
    pub backing_off: bool,
    /// When the next run may start; absent unless one is waited for. Jitter included, never recomputed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_restart_time: Option<Time>,
    /// Since when the current run has been ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_since: Option<Time>,
    /// Starts by cause, since the job was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_restarts: Option<RestartTotals>,
    /// The tasks of the current run; healthy rows may be collapsed to `tasksCollapsed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub tasks: Vec<TaskStatus>,
    /// Healthy tasks that are left out of `tasks` for size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_collapsed: Option<i64>,
    /// The last runs, newest first, at most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub history: Vec<RunResult>,
    /// Backlog of all queries together, with the time of its measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// What the columns show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<StatusSummary>,
    /// The run-now token that was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_run_now: Option<String>,
    /// The restartNonce that was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_restart_nonce: Option<i64>,
    /// The tick of the schedule that was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// The supervisor's record of counters and timers that cannot be observed anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::free_form_object")]
    pub memory: Option<serde_json::Value>,
}

/// A run that is alive or being started.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// Number of the run, from 1.
    #[serde(default)]
    pub number: i64,
    /// Generation of the spec that the run was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Hash over the fields whose change disrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_hash: Option<String>,
    /// The image in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Why it was started: Continuous, Schedule, RunNow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
    /// When the first task was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When all tasks were ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_at: Option<Time>,
}

/// How a run ended.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Number of the run.
    #[serde(default)]
    pub number: i64,
    /// Highest epoch of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// Generation that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Succeeded, Failed, Disrupted, Superseded, Fenced or Stopped.
    #[serde(default)]
    pub result: String,
    /// Application, StartUp, Disruption, Spec (an edit or suspend) or Request (Ctrl-C or the deletion of the job).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// One word for machines, for example the error class or OOMKilled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Exit code of the task that decided the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// One text for people, at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}

/// Starts by cause.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RestartTotals {
    /// After a failure of the application.
    #[serde(default)]
    pub application: i64,
    /// After a drain, a preemption or the like.
    #[serde(default)]
    pub disruption: i64,
    /// After an edit.
    #[serde(default)]
    pub spec: i64,
    /// After a start that did not become ready.
    #[serde(default)]
    pub start_up: i64,
}

/// One task of the current run.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// Name of the task.
    pub name: String,
    /// Pending, Starting, Running, Stopping, WaitingForRetry, Succeeded, Failed.
    #[serde(default)]
    pub state: String,
    /// Attempt of the task in this run, from 1.
    #[serde(default)]
    pub attempt: i64,
    /// Epoch of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// Name of the pod, or of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Generation of the spec that the attempt was started from; absent before the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Generation whose live settings (those that restart nothing) the running attempt has confirmed; absent while none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_generation: Option<i64>,
    /// When the next attempt may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_retry_time: Option<Time>,
    /// How the last attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<TaskExit>,
    /// Its queries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub queries: Vec<QueryStatus>,
}

/// How an attempt of a task ended.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct TaskExit {
    /// Completed, Stopped, Retryable, Config, Incompatible, Fenced, Disruption.
    #[serde(default)]
    pub class: String,
    /// The query that decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// One word for machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Exit code of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// One text for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// End of the log, at most 2 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_tail: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
}

/// One query as its task reported it last.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueryStatus {
    /// Name of the query.
    pub name: String,
    /// Id of the query, from its checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Id of this start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The newest batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<i64>,
    /// Whether it is running.
    #[serde(default)]
    pub is_active: bool,
    /// What it is doing, or why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Rows per second that arrived in the last batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_rows_per_second: Option<f64>,
    /// Rows per second that the last batch processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processed_rows_per_second: Option<f64>,
    /// What is still to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// When its last batch was committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit_time: Option<Time>,
    /// Its watermark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Time>,
    /// Records of this start that went to the place for bad records; left out while there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_records: Option<i64>,
}

/// What is still to be read.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    /// Latest minus processed offsets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<i64>,
    /// Records times the mean size of the last batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// Age of the oldest unread record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Files that are outstanding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<i64>,
    /// When this was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Time>,
}

/// What the columns show and JSONPath cannot compute.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StatusSummary {
    /// Ready tasks of all tasks, as `2/2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_ready: Option<String>,
    /// Last commit of the running query that is furthest back; of any query while none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit_time: Option<Time>,
    /// Greatest backlog of a query, in records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<i64>,
    /// Message of the Ready condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
