//! Sources, static tables and sinks: a format with a string map of options, as in Spark.
//!
//! Which options a format knows, and what their values mean, is in `options`; here is only
//! the shape. Option values are always strings.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::option_map;

/// A stream, or a static input: exactly one of format and table.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.format) != has(self.table)").message("give exactly one of format, table"))]
pub struct SourceSpec {
    /// Name of the input in the SQL; unique among sources, tables and views.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// Format, as Spark's `format(...)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub format: Option<String>,
    /// A Delta table by name: `catalog.schema.name`, `schema.name` or `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub table: Option<String>,
    /// Options of the format; every value is a string.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "option_map")]
    pub options: BTreeMap<String, String>,
    /// Options whose values are kept elsewhere; keys of the object are option names, later ones win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub options_from: Vec<OptionsFromSpec>,
    /// Schema of the records as DDL, for example `device_id STRING, temperature DOUBLE`. Required by file formats that do not carry one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32768))]
    pub schema: Option<String>,
    /// How late rows of this source may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<WatermarkSpec>,
}

/// How late rows may be.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WatermarkSpec {
    /// The event-time column.
    #[schemars(length(min = 1, max = 255))]
    pub column: String,
    /// How far the watermark stays behind the newest event time. A Weir duration or a Spark interval.
    #[schemars(length(min = 1, max = 128), extend("x-weir-type" = "interval"))]
    pub delay: String,
}

/// Options from a Secret or a ConfigMap: exactly one of them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.secretRef) != has(self.configMapRef)").message("give exactly one of secretRef, configMapRef"))]
pub struct OptionsFromSpec {
    /// A Secret in the namespace of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<ObjectRefSpec>,
    /// A ConfigMap in the namespace of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ObjectRefSpec>,
    /// What a change of the object does: nothing until the next start, or a restart of the task.
    #[serde(default)]
    pub on_change: OnChangeSpec,
}

/// The name of an object in the namespace of the job.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRefSpec {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What a change of a referenced object does.
#[derive(schemars::JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[schemars(inline)]
pub enum OnChangeSpec {
    #[default]
    Ignore,
    Restart,
}

/// Where the bad records of a query go: once each, with the batch that met them.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.format) || has(self.table)").message("give format, or table for a Delta table by name"))]
#[x_kube(validation = Rule::new("!has(self.table) || !has(self.format) || self.format == 'delta'").message("a table is written as delta: remove format"))]
#[x_kube(validation = Rule::new("!has(self.table) || !has(self.options) || !('path' in self.options)").message("give table or options.path, not both"))]
pub struct BadRecordsSpec {
    /// `delta`, `json`, `csv` or `parquet`. Default with `table`: delta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub format: Option<String>,
    /// A Delta table by name: `catalog.schema.name`, `schema.name` or `name`. Excludes options.path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub table: Option<String>,
    /// Options of the format as a sink, `path` among them; every value is a string.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "option_map")]
    pub options: BTreeMap<String, String>,
    /// Options whose values are kept elsewhere; keys of the object are option names, later ones win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub options_from: Vec<OptionsFromSpec>,
}

impl BadRecordsSpec {
    /// The same place as that of a sink, which all that is said of sinks goes for.
    pub fn to_sink(&self) -> SinkSpec {
        let Self { format, table, options, options_from } = self.clone();
        SinkSpec { format, table, options, options_from, ..SinkSpec::default() }
    }
}

/// Where the rows of a query go: a format with options, or a Delta table by name.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.format) || has(self.table)").message("give format, or table for a Delta table by name"))]
#[x_kube(validation = Rule::new("!has(self.table) || !has(self.format) || self.format == 'delta'").message("a table is written as delta: remove format"))]
#[x_kube(validation = Rule::new("!has(self.table) || !has(self.options) || !('path' in self.options)").message("give table or options.path, not both"))]
pub struct SinkSpec {
    /// Format, as Spark's `format(...)`. Default with `table`: delta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub format: Option<String>,
    /// A Delta table by name: `catalog.schema.name`, `schema.name` or `name`. Excludes options.path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub table: Option<String>,
    /// Options of the format; every value is a string.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "option_map")]
    pub options: BTreeMap<String, String>,
    /// Options whose values are kept elsewhere; keys of the object are option names, later ones win.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub options_from: Vec<OptionsFromSpec>,
    /// Columns whose values become folders, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 255)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub partition_by: Vec<String>,
    /// Columns that identify a row of a Delta table: rows are merged by them instead of appended, as `MERGE INTO` with
    /// `UPDATE SET *` and `INSERT *` does; makes outputMode Update possible. A row with a null in them equals none and is inserted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 255)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub upsert_keys: Vec<String>,
    /// Column whose greatest value wins among rows with the same key, of the batch and of the table; null is the least.
    /// Without it several different rows of one key in a batch are refused, and the batch's row always replaces the table's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub upsert_order_by: Option<String>,
}
