//! The rules of a job's life as typed values: what the supervisor decides by.
//!
//! Everything is resolved: defaults filled in, texts parsed, lengths of time as
//! [`std::time::Duration`]. The supervisor reads these and never the resource's spec.
//! Conversion from the spec is in `resource::to_policy`; a spec that passed `weir check`
//! always converts. Nothing here looks at a clock or draws a random number.

use std::time::Duration;

/// Everything of one job that the supervisor needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct JobPolicy {
    /// What starts a run.
    pub trigger: JobTrigger,
    /// Backoff between runs, and when a run counts as stable.
    pub restart: RestartPolicy,
    /// Retries of a failed task inside a run; `None` exactly when the mode is [`TaskRetryMode::Never`].
    pub task_retry: Option<TaskRetryPolicy>,
    /// How long a task may take from creation to ready.
    pub start_deadline: Duration,
    /// How long a stopping task may take to reach a batch boundary.
    pub stop_timeout: Duration,
    /// How long a failed pod is kept before its successor starts.
    pub keep_failed_for: Duration,
    /// What happens when the node of a task is lost.
    pub node_lost_policy: NodeLostPolicy,
    /// No run while true.
    pub suspend: bool,
    /// A change starts a new run and resets the backoff.
    pub restart_nonce: i64,
    /// When a running job counts as stale, behind or over its limits.
    pub health: HealthPolicy,
    /// The tasks in the order of the manifest.
    pub tasks: Vec<TaskPolicy>,
}

/// What starts a run of the job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobTrigger {
    /// A run is always wanted: when one ends the next begins.
    Continuous {
        /// Whether a failed task is retried inside its run.
        task_retry_mode: TaskRetryMode,
    },
    /// A run at each tick of a cron expression.
    Schedule(SchedulePolicy),
    /// A run for each new `weir.dev/run-now` token.
    Manual,
}

/// When the ticks of a schedule are.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulePolicy {
    /// Five fields: minute, hour, day of month, month, day of week.
    pub cron: String,
    /// IANA name of the time zone that the fields are in.
    pub time_zone: String,
    /// A tick that is later than this is skipped; `None`: never too late.
    pub starting_deadline: Option<Duration>,
}

/// Whether a failed task is retried by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRetryMode {
    /// Retried inside the run, siblings untouched.
    OnFailure,
    /// Stays failed until the run has ended.
    Never,
}

/// Backoff between runs: `min(max_delay, initial_delay * multiplier^(n-1)) * (1 + jitter*u)`.
#[derive(Clone, Debug, PartialEq)]
pub struct RestartPolicy {
    /// Delay after the first failure.
    pub initial_delay: Duration,
    /// Growth per further failure, 1 to 10.
    pub multiplier: u32,
    /// Upper bound of the delay, before jitter.
    pub max_delay: Duration,
    /// Most that is added to a delay, in percent of it.
    pub jitter_percent: u32,
    /// A run that was ready for so long resets the counters.
    pub stable_after: Duration,
    /// Failures in a row from which the job counts as crash looping.
    pub failure_threshold: u32,
    /// Least time between the starts of two runs after a success.
    pub min_interval: Duration,
}

/// Retries of one task inside a run; jitter is that of [`RestartPolicy`].
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRetryPolicy {
    /// Retries before the run fails.
    pub max_retries: u32,
    /// Delay before the first retry.
    pub initial_delay: Duration,
    /// Growth per further retry, 1 to 10.
    pub multiplier: u32,
    /// Upper bound of the delay, before jitter.
    pub max_delay: Duration,
}

/// What happens when the node of a task is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLostPolicy {
    /// Replace at once where the fence protects checkpoint and sinks.
    ReplaceWhenFenced,
    /// Wait for proof that the old pod is gone.
    Wait,
}

/// When a running job counts as stale, behind or over its limits.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthPolicy {
    /// Batches in a row that make `FallingBehind` true.
    pub falling_behind_batches: u32,
    /// Without a commit for so long although input is there: `ProgressStale`.
    pub stale_after: Duration,
    /// Without a commit for so long although input is there: the attempt is ended.
    pub fail_after: Duration,
    /// Limits of the backlog.
    pub rules: Vec<BacklogRule>,
}

/// One limit of the backlog, on the 10-minute average of the worst stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogRule {
    /// What is measured.
    pub metric: BacklogMetric,
    /// Above this the condition is true.
    pub greater_than: i64,
}

/// What a backlog rule measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BacklogMetric {
    /// Age of the oldest unread record.
    Seconds,
    /// Unread records.
    Records,
    /// Unread bytes, estimated.
    Bytes,
    /// Unread files.
    Files,
}

/// One task and what ends it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPolicy {
    /// Name, unique in the job.
    pub name: String,
    /// Its queries in the order of the manifest.
    pub queries: Vec<QueryPolicy>,
}

/// One query and whether it ends by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryPolicy {
    /// Name, unique in the task.
    pub name: String,
    /// When its batches start.
    pub trigger: QueryTrigger,
}

/// When the batches of a query start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryTrigger {
    /// The next batch as soon as the last has ended and there is data.
    #[default]
    Default,
    /// At multiples of the interval since the epoch.
    ProcessingTime(Duration),
    /// Everything that is there at the start, in batches of the limits, then the end.
    AvailableNow,
    /// Everything that is there, in one batch, then the end.
    Once,
}

impl QueryTrigger {
    /// Whether a query with this trigger ends without being stopped.
    pub fn ends_by_itself(self) -> bool {
        matches!(self, QueryTrigger::AvailableNow | QueryTrigger::Once)
    }

    /// The interval between ticks; zero for every trigger without one.
    pub fn interval(self) -> Duration {
        match self {
            QueryTrigger::ProcessingTime(interval) => interval,
            QueryTrigger::Default | QueryTrigger::AvailableNow | QueryTrigger::Once => Duration::ZERO,
        }
    }
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_secs(10),
            multiplier: 2,
            max_delay: Duration::from_secs(300),
            jitter_percent: 20,
            stable_after: Duration::from_secs(600),
            failure_threshold: 3,
            min_interval: Duration::from_secs(10),
        }
    }
}

impl Default for TaskRetryPolicy {
    fn default() -> Self {
        Self { max_retries: 3, initial_delay: Duration::from_secs(10), multiplier: 2, max_delay: Duration::from_secs(300) }
    }
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self { falling_behind_batches: 5, stale_after: Duration::from_secs(300), fail_after: Duration::from_secs(900), rules: Vec::new() }
    }
}
