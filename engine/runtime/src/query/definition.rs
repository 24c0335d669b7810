//! A query with everything resolved: what the driver is given.
//!
//! Parameters are substituted, secrets merged into the options, table names
//! and volumes turned into paths, the checkpoint's location decided. Nothing
//! here reads the manifest; `resolve` makes these from it.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use weir_connect::open::UpsertBy;
use weir_core::trigger::Trigger;
use weir_crds::conf::SessionConf;
use weir_sql::{OutputMode, QueryText, SqlConf};

/// An event-time column and how late rows may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The column.
    pub column: String,
    /// The delay, ms.
    pub delay_ms: i64,
}

/// A source or a static table.
#[derive(Clone, Debug)]
pub struct InputDefinition {
    /// Its name in SQL.
    pub name: String,
    /// The format.
    pub format: String,
    /// Its options, secrets included.
    pub options: BTreeMap<String, String>,
    /// The declared schema.
    pub schema: Option<SchemaRef>,
    /// The watermark, for sources.
    pub watermark: Option<Watermark>,
}

/// The sink.
#[derive(Clone, Debug)]
pub struct SinkDefinition {
    /// The format.
    pub format: String,
    /// Its options, secrets included.
    pub options: BTreeMap<String, String>,
    /// Partition columns.
    pub partition_by: Vec<String>,
    /// By which columns rows are merged; else they are appended.
    pub upsert: Option<UpsertBy>,
}

/// One query of a task.
#[derive(Clone, Debug)]
pub struct QueryDefinition {
    /// The query's name.
    pub name: String,
    /// Streaming sources.
    pub sources: Vec<InputDefinition>,
    /// Static tables.
    pub tables: Vec<InputDefinition>,
    /// Views, SQL, observations.
    pub text: QueryText,
    /// The sink.
    pub sink: SinkDefinition,
    /// The sink of bad records.
    pub bad_records: Option<SinkDefinition>,
    /// The output mode.
    pub output_mode: OutputMode,
    /// The trigger.
    pub trigger: Trigger,
    /// The checkpoint's location.
    pub checkpoint: String,
    /// The query's `checkpointResetNonce`.
    pub reset_nonce: u64,
    /// Session settings of SQL.
    pub sql_conf: SqlConf,
    /// The job's settings, typed.
    pub session: SessionConf,
    /// The settings as written, for connectors.
    pub conf: BTreeMap<String, String>,
}
