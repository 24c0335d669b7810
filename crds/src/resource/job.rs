//! `spec` of a `StreamingJob`: when runs start, what happens after a failure, and the tasks.
//!
//! One source of truth: type, default, bounds, documentation and what an edit disrupts
//! (`x-weir-disrupts`, inherited by the fields below) all stand on the field. The CRD, the
//! field table, `weir check` and the reference page are derived from here.
//! Rules that the object alone decides are CEL; their twins in Rust are in `manifest::rules`.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::defaults;
use super::status::StreamingJobStatus;
use super::task::TaskSpec;
use super::text_map;
use crate::duration::WeirDuration;

/// A streaming job: sources, SQL and sinks, kept running by the rules of its trigger.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "weir.dev",
    version = "v1alpha1",
    kind = "StreamingJob",
    plural = "streamingjobs",
    shortname = "sjob",
    category = "weir",
    namespaced,
    status = "StreamingJobStatus",
    derive = "PartialEq",
    doc = "A streaming job: sources, SQL and sinks, kept running by the rules of its trigger.",
    validation = Rule::new("self.metadata.name.matches('^[a-z0-9]+(-[a-z0-9]+)*$')").message("metadata.name must be a DNS label without `--`: lower-case letters, digits and single hyphens between them"),
    validation = Rule::new("self.spec.tasks.all(t, size(self.metadata.name) + 2 + size(t.name) <= 63)").message("the pod of a task is named <job>--<task>, together at most 63 characters: shorten metadata.name or the task's name"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Run", type_ = "integer", json_path = ".status.run.number"),
    printcolumn(name = "Tasks", type_ = "string", json_path = ".status.summary.tasksReady"),
    printcolumn(name = "Failures", type_ = "integer", json_path = ".status.consecutiveFailures"),
    printcolumn(name = "Next-Restart", type_ = "string", json_path = ".status.nextRestartTime"),
    printcolumn(name = "Last-Commit", type_ = "date", json_path = ".status.summary.lastCommitTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Lag", type_ = "integer", json_path = ".status.summary.lag", priority = 1),
    printcolumn(name = "Epoch", type_ = "integer", json_path = ".status.epoch", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.summary.message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.taskRetry) || !has(self.trigger.continuous) || self.trigger.continuous.taskRetryMode != 'Never'").message("taskRetry has no effect with taskRetryMode Never: remove taskRetry, or set trigger.continuous.taskRetryMode to OnFailure"))]
#[x_kube(validation = Rule::new("!has(self.trigger.schedule) || self.tasks.all(t, t.queries.all(q, has(q.trigger) && (has(q.trigger.availableNow) || has(q.trigger.once))))").message("under trigger.schedule every query must end by itself: give each one `trigger: {availableNow: {}}` or `trigger: {once: {}}`"))]
#[x_kube(validation = Rule::new("self.tasks.map(t, size(t.queries)).sum() <= 64").message("a job has at most 64 queries in all its tasks together"))]
pub struct StreamingJobSpec {
    /// Container image of the tasks. Default: the image of the operator; a new operator image is taken at the next run. The one in use is in `status.run.image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), extend("x-weir-disrupts" = "run"))]
    pub image: Option<String>,
    /// What starts a run: exactly one of continuous, schedule, manual.
    #[schemars(extend("x-weir-disrupts" = "run"))]
    pub trigger: TriggerSpec,
    /// Backoff between runs after a failure, and when a run counts as stable.
    #[serde(default)]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub restart: RestartSpec,
    /// Retries of a failed task inside its run. Default: 3 retries, 10 s doubling up to 5 min. Not allowed with taskRetryMode Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub task_retry: Option<TaskRetrySpec>,
    /// How long a task may take from its creation until it is ready.
    #[serde(default = "defaults::five_minutes")]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub start_deadline: WeirDuration,
    /// How long a stopping task may take to reach a batch boundary before it is killed.
    #[serde(default = "defaults::one_minute")]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub stop_timeout: WeirDuration,
    /// How long a failed pod is kept for its logs before the next one starts.
    #[serde(default = "defaults::zero")]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub keep_failed_for: WeirDuration,
    /// What happens when the node of a task is lost. ReplaceWhenFenced: a successor starts at once where the checkpoint is on an object store and all sinks are fenced. Wait: only with proof that the old pod is gone.
    #[serde(default)]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub node_lost_policy: NodeLostPolicySpec,
    /// No run while true; a live run is stopped at a batch boundary.
    #[serde(default)]
    #[schemars(extend("x-weir-disrupts" = "self"))]
    pub suspend: bool,
    /// A changed value ends the backoff and starts a new run.
    #[serde(default)]
    #[schemars(extend("x-weir-disrupts" = "self"))]
    pub restart_nonce: i64,
    /// Folder or URL under which a query without checkpointLocation keeps its checkpoint, as `<root>/<namespace>/<job>/<task>/<query>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), extend("x-weir-disrupts" = "run"))]
    pub checkpoint_root: Option<String>,
    /// When a running job counts as stale, behind, or over its backlog limits.
    #[serde(default)]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub health: HealthSpec,
    /// Receivers of the progress events of all queries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-weir-disrupts" = "none"))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub listeners: Vec<ListenerSpec>,
    /// Who is told about what happens to the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub notifications: Option<NotificationsSpec>,
    /// Where `catalog.schema.table` and `/Volumes/catalog/...` are. The first one is the default catalog; the default schema is
    /// `default`. SQL may name `schema.table` and `catalog.schema.table` without declaring them: Delta tables, read again each batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-weir-disrupts" = "run"))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub catalogs: Vec<CatalogSpec>,
    /// Values for `${name}` in options and SQL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "text_map", extend("x-weir-disrupts" = "run"))]
    pub parameters: BTreeMap<String, String>,
    /// Spark settings that Weir knows, and Weir's own (`weir.…`); every value is a string. Any other key is refused by `weir check`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "text_map", extend("x-weir-disrupts" = "run"))]
    pub conf: BTreeMap<String, String>,
    /// The tasks of a run; each is one pod. All start together: tasks cannot depend on each other.
    #[schemars(length(min = 1, max = 20), extend("x-weir-disrupts" = "run"))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub tasks: Vec<TaskSpec>,
}

/// What starts a run.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.continuous), has(self.schedule), has(self.manual)].exists_one(x, x)").message("give exactly one of continuous, schedule, manual"))]
pub struct TriggerSpec {
    /// A run is always wanted: when one ends, the next begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuous: Option<ContinuousSpec>,
    /// A run at each tick of a cron expression; late and overlapping ticks are skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleSpec>,
    /// A run for each new value of the annotation `weir.dev/run-now`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<ManualSpec>,
}

/// The continuous trigger.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ContinuousSpec {
    /// OnFailure: a failed task is retried inside the run, its siblings untouched. Never: it stays failed until the run has ended.
    #[serde(default)]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub task_retry_mode: TaskRetryModeSpec,
}

/// Whether a failed task is retried by itself.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[schemars(inline)]
pub enum TaskRetryModeSpec {
    #[default]
    OnFailure,
    Never,
}

/// The schedule trigger.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleSpec {
    /// Five fields: minute, hour, day of month, month, day of week; or one of @hourly, @daily, @weekly, @monthly, @yearly.
    #[schemars(length(min = 6, max = 128), extend("x-weir-disrupts" = "none"))]
    pub cron: String,
    /// IANA name of the time zone that the fields are in.
    #[serde(default = "defaults::utc")]
    #[schemars(length(min = 1, max = 64), extend("x-weir-disrupts" = "none"))]
    pub time_zone: String,
    /// A tick that could not start within this time is skipped. Default: never too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-weir-disrupts" = "none"))]
    pub starting_deadline: Option<WeirDuration>,
}

/// The manual trigger; it has no settings.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ManualSpec {}

/// Backoff between runs: `min(maxDelay, initialDelay * multiplier^(n-1))` plus jitter after the n-th failure in a row.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("duration(self.initialDelay) <= duration(self.maxDelay)").message("initialDelay must not be longer than maxDelay"))]
pub struct RestartSpec {
    /// Delay after the first failure.
    #[serde(default = "defaults::ten_seconds")]
    pub initial_delay: WeirDuration,
    /// Growth of the delay per further failure.
    #[serde(default = "defaults::doubling")]
    #[schemars(range(min = 1, max = 10))]
    pub multiplier: i32,
    /// Upper bound of the delay, before jitter.
    #[serde(default = "defaults::five_minutes")]
    pub max_delay: WeirDuration,
    /// Most that chance adds to a delay, in percent of it.
    #[serde(default = "defaults::jitter_percent")]
    #[schemars(range(min = 0, max = 100))]
    pub jitter_percent: i32,
    /// A run that has been ready for so long resets the counter of failures.
    #[serde(default = "defaults::ten_minutes")]
    pub stable_after: WeirDuration,
    /// Failures in a row from which the job counts as crash looping (retries go on).
    #[serde(default = "defaults::failure_threshold")]
    #[schemars(range(min = 1, max = 1000))]
    pub failure_threshold: i32,
    /// Least time between the starts of two runs when the first one succeeded.
    #[serde(default = "defaults::ten_seconds")]
    pub min_interval: WeirDuration,
}

impl Default for RestartSpec {
    fn default() -> Self {
        Self {
            initial_delay: defaults::ten_seconds(),
            multiplier: defaults::doubling(),
            max_delay: defaults::five_minutes(),
            jitter_percent: defaults::jitter_percent(),
            stable_after: defaults::ten_minutes(),
            failure_threshold: defaults::failure_threshold(),
            min_interval: defaults::ten_seconds(),
        }
    }
}

/// Retries of a failed task inside its run; the jitter is that of `restart`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("duration(self.initialDelay) <= duration(self.maxDelay)").message("initialDelay must not be longer than maxDelay"))]
pub struct TaskRetrySpec {
    /// Retries of one task before the run fails.
    #[serde(default = "defaults::max_retries")]
    #[schemars(range(min = 0, max = 1000))]
    pub max_retries: i32,
    /// Delay before the first retry.
    #[serde(default = "defaults::ten_seconds")]
    pub initial_delay: WeirDuration,
    /// Growth of the delay per further retry.
    #[serde(default = "defaults::doubling")]
    #[schemars(range(min = 1, max = 10))]
    pub multiplier: i32,
    /// Upper bound of the delay, before jitter.
    #[serde(default = "defaults::five_minutes")]
    pub max_delay: WeirDuration,
}

impl Default for TaskRetrySpec {
    fn default() -> Self {
        Self {
            max_retries: defaults::max_retries(),
            initial_delay: defaults::ten_seconds(),
            multiplier: defaults::doubling(),
            max_delay: defaults::five_minutes(),
        }
    }
}

/// What happens when the node of a task is lost.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[schemars(inline)]
pub enum NodeLostPolicySpec {
    #[default]
    ReplaceWhenFenced,
    Wait,
}

/// When a running job counts as stale, behind, or over its backlog limits.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("duration(self.staleAfter) <= duration(self.failAfter)").message("staleAfter must not be longer than failAfter"))]
pub struct HealthSpec {
    /// Batches in a row, slower than their input, that make FallingBehind true.
    #[serde(default = "defaults::falling_behind_batches")]
    #[schemars(range(min = 1, max = 1000))]
    pub falling_behind_batches: i32,
    /// Without a commit for so long although input was there, ProgressStale is true.
    #[serde(default = "defaults::five_minutes")]
    pub stale_after: WeirDuration,
    /// Without a commit for so long although input was there, the attempt is ended as failed.
    #[serde(default = "defaults::fifteen_minutes")]
    pub fail_after: WeirDuration,
    /// Limits of the backlog: 10-minute average, the worst stream counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["metric".into()]))]
    pub rules: Vec<HealthRuleSpec>,
}

impl Default for HealthSpec {
    fn default() -> Self {
        Self {
            falling_behind_batches: defaults::falling_behind_batches(),
            stale_after: defaults::five_minutes(),
            fail_after: defaults::fifteen_minutes(),
            rules: Vec::new(),
        }
    }
}

/// One limit of the backlog.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HealthRuleSpec {
    /// What is measured: age of the oldest unread record in seconds, unread records, bytes or files.
    pub metric: HealthMetricSpec,
    /// Above this value BacklogExceeded is true.
    #[schemars(range(min = 0))]
    pub greater_than: i64,
}

/// What a backlog limit measures.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[schemars(inline)]
pub enum HealthMetricSpec {
    StreamingBacklogSeconds,
    StreamingBacklogRecords,
    StreamingBacklogBytes,
    StreamingBacklogFiles,
}

/// A receiver of progress events.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ListenerSpec {
    /// Name, unique in the job.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]+(-[a-z0-9]+)*$"))]
    pub name: String,
    /// Appends one row per batch and query to a Delta table.
    pub health_table: HealthTableSpec,
}

/// A Delta table that takes one row per batch and query.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.path) != has(self.table)").message("give exactly one of path, table"))]
pub struct HealthTableSpec {
    /// Folder or URL of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
    /// Name of the table: `catalog.schema.name`, `schema.name` or `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub table: Option<String>,
    /// Longest time between an event and its row.
    #[serde(default = "defaults::ten_seconds")]
    pub flush_interval: WeirDuration,
}

/// Who is told about what happens to the job.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NotificationsSpec {
    /// Told once for each failed run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub on_failure: Vec<NotificationSpec>,
}

/// One receiver.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NotificationSpec {
    /// Name, unique in its list.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]+(-[a-z0-9]+)*$"))]
    pub name: String,
    /// A JSON document is posted here; at least once, not fenced.
    pub webhook: WebhookSpec,
}

/// A webhook whose address is a secret.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSpec {
    /// Where the URL is kept.
    pub url_from: UrlSourceSpec,
}

/// Where a URL is kept.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct UrlSourceSpec {
    /// A key of a Secret in the namespace of the job.
    pub secret_key_ref: SecretKeyRefSpec,
}

/// A key of a Secret.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRefSpec {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key in its data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Where the tables and volumes of one catalog are.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSpec {
    /// Name of the catalog.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// Folder or URL of its managed tables: `<warehouse>/<schema>/<table>`.
    #[schemars(length(min = 1, max = 1024))]
    pub warehouse: String,
    /// Folder or URL of its volumes: `/Volumes/<catalog>/<schema>/<volume>/…` is `<volumes>/<schema>/<volume>/…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub volumes: Option<String>,
}

impl StreamingJob {
    /// A job of a namespace, as it would be applied.
    pub fn in_namespace(namespace: &str, name: &str, spec: StreamingJobSpec) -> StreamingJob {
        let mut job = StreamingJob::new(name, spec);
        job.metadata.namespace = Some(namespace.to_owned());
        job
    }
}

impl StreamingJobSpec {
    /// A spec that wants nothing.
    pub fn without_tasks() -> StreamingJobSpec {
        StreamingJobSpec {
            image: None,
            trigger: TriggerSpec { manual: Some(ManualSpec {}), ..TriggerSpec::default() },
            restart: RestartSpec::default(),
            task_retry: None,
            start_deadline: defaults::five_minutes(),
            stop_timeout: defaults::one_minute(),
            keep_failed_for: defaults::zero(),
            node_lost_policy: NodeLostPolicySpec::default(),
            suspend: false,
            restart_nonce: 0,
            checkpoint_root: None,
            health: HealthSpec::default(),
            listeners: Vec::new(),
            notifications: None,
            catalogs: Vec::new(),
            parameters: BTreeMap::new(),
            conf: BTreeMap::new(),
            tasks: Vec::new(),
        }
    }
}
