//! Tasks and queries: SQL between sources and one sink, with a checkpoint.
//!
//! A task is one pod and retries as a whole; a query is one stream with its own checkpoint.
//! Fields that exist only to be refused carry `x-weir-refused` with the sentence, because the
//! API server drops unknown fields silently; the same sentence is the message of a CEL rule.
//! That no two queries share a checkpoint is left to `manifest::rules`: comparing each pair in CEL is
//! more than an API server lets a rule cost, and it would see the spelling only.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::input::{BadRecordsSpec, OptionsFromSpec, SinkSpec, SourceSpec};
use super::pod::PodTemplateSpec;

/// One task: a pod with one or more queries.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.dependsOn)").message("tasks cannot depend on each other: all tasks of a run start together and stream side by side; remove dependsOn, or put what must run in order into jobs of their own"))]
pub struct TaskSpec {
    /// Name, unique in the job: a DNS label without `--`.
    #[schemars(length(min = 1, max = 61), regex(pattern = r"^[a-z0-9]+(-[a-z0-9]+)*$"))]
    pub name: String,
    /// What the pod of this task has beside the engine's container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-weir-disrupts" = "task"))]
    pub pod_template: Option<PodTemplateSpec>,
    /// The queries; a failed one ends the attempt of the task, a retry starts all of them.
    #[schemars(length(min = 1, max = 64), extend("x-weir-disrupts" = "task"))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub queries: Vec<QuerySpec>,
    /// Refused: tasks cannot depend on each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), inner(length(max = 63)), extend("x-weir-disrupts" = "task", "x-weir-refused" = "tasks cannot depend on each other: all tasks of a run start together and stream side by side; remove dependsOn, or put what must run in order into jobs of their own"))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub depends_on: Option<Vec<String>>,
}

/// One query: sources, SQL, one sink, one checkpoint.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.checkpointResetNonce != oldSelf.checkpointResetNonce || (has(self.checkpointLocation) == has(oldSelf.checkpointLocation) && (!has(self.checkpointLocation) || self.checkpointLocation == oldSelf.checkpointLocation))").message("checkpointLocation cannot change by itself, because the query would start from the beginning: change checkpointResetNonce with it"))]
pub struct QuerySpec {
    /// Name, unique in its task; it is the query's name in progress records and in the health table.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$"))]
    pub name: String,
    /// The streams that the query reads, each a table of that name in the SQL.
    #[schemars(length(min = 1, max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub sources: Vec<SourceSpec>,
    /// Static inputs for joins: same shape as a source, read again for each batch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub tables: Vec<SourceSpec>,
    /// Named SQL steps; each may read the sources, the tables and the views before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub views: Vec<ViewSpec>,
    /// Aggregates over a view, computed as its rows pass, reported as observedMetrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub observe: Vec<ObserveSpec>,
    /// The SELECT whose rows go to the sink.
    #[schemars(length(min = 1, max = 32768))]
    pub sql: String,
    /// Where the rows go.
    pub sink: SinkSpec,
    /// Where records go that a source cannot parse; such a record makes no rows then. Without it the option `mode` of the source decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_records: Option<BadRecordsSpec>,
    /// Which rows of a changed result are written: only new ones, changed ones, or all.
    #[serde(default)]
    pub output_mode: OutputMode,
    /// When batches start. Default: the next one as soon as the last has ended and there is data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<QueryTriggerSpec>,
    /// Folder or URL of the checkpoint. Default: below checkpointRoot; console and noop sinks take a temporary one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), extend("x-weir-disrupts" = "run"))]
    pub checkpoint_location: Option<String>,
    /// A changed location is accepted only together with a changed nonce; nothing is ever deleted.
    #[serde(default)]
    #[schemars(extend("x-weir-disrupts" = "run"))]
    pub checkpoint_reset_nonce: i64,
}

impl QuerySpec {
    /// All that may take options from Secrets and ConfigMaps: the field in the query, and what it refers to.
    pub fn options_from(&self) -> impl Iterator<Item = (String, &[OptionsFromSpec])> {
        fn of<'a>(list: &'static str, inputs: &'a [SourceSpec]) -> impl Iterator<Item = (String, &'a [OptionsFromSpec])> {
            inputs.iter().map(move |input| (format!("{list}[{}]", input.name), input.options_from.as_slice()))
        }
        of("sources", &self.sources)
            .chain(of("tables", &self.tables))
            .chain(std::iter::once(("sink".to_owned(), self.sink.options_from.as_slice())))
            .chain(self.bad_records.iter().map(|bad_records| ("badRecords".to_owned(), bad_records.options_from.as_slice())))
    }
}

/// A named SQL step.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ViewSpec {
    /// Name of the view in the SQL; unique among sources, tables and views.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// A SELECT over sources, tables and the views before this one.
    #[schemars(length(min = 1, max = 32768))]
    pub sql: String,
}

/// Aggregates over a view, as `Dataset.observe`.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ObserveSpec {
    /// Name of the observation in observedMetrics.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// The view, source or table whose rows are observed.
    #[schemars(length(min = 1, max = 63))]
    pub view: String,
    /// The aggregates.
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub metrics: Vec<MetricSpec>,
}

/// One observed aggregate.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MetricSpec {
    /// Name of the column in the observation's row.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// An aggregate expression, for example `count(*)`.
    #[schemars(length(min = 1, max = 4096))]
    pub expr: String,
}

/// Which rows of a changed result are written. Any case will do, as in Spark; an API server takes these and the lower one.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[schemars(inline, extend("x-weir-any-case" = true))]
pub enum OutputMode {
    #[default]
    #[serde(alias = "append")]
    Append,
    #[serde(alias = "update")]
    Update,
    #[serde(alias = "complete")]
    Complete,
}

impl OutputMode {
    /// The name as Spark's progress and error texts write it.
    pub fn as_str(self) -> &'static str {
        match self {
            OutputMode::Append => "Append",
            OutputMode::Update => "Update",
            OutputMode::Complete => "Complete",
        }
    }
}

/// When the batches of a query start: at most one of the kinds.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("[has(self.processingTime), has(self.availableNow), has(self.once)].filter(x, x).size() <= 1").message("give at most one of processingTime, availableNow, once"))]
#[x_kube(validation = Rule::new("!has(self.continuous)").message("a query has no trigger named continuous: for the lowest latency write `processingTime: 0s`, and to keep the job running write `spec.trigger.continuous`"))]
pub struct QueryTriggerSpec {
    /// Batches start at multiples of this interval since 1970 (UTC); a tick that passes during a batch is skipped. A Weir duration or a Spark interval, `0s` for back to back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), extend("x-weir-type" = "interval"))]
    pub processing_time: Option<String>,
    /// Reads what is there at the start, in batches of the sources' limits, then ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_now: Option<AvailableNowSpec>,
    /// Reads what is there in one batch without limits, then ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub once: Option<OnceSpec>,
    /// Refused: a query has no trigger of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128), extend("x-weir-refused" = "a query has no trigger named continuous: for the lowest latency write `processingTime: 0s`, and to keep the job running write `spec.trigger.continuous`"))]
    pub continuous: Option<String>,
}

/// No settings.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AvailableNowSpec {}

/// No settings.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct OnceSpec {}
