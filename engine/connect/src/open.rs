//! What a connector is given when it is opened.
//!
//! The contexts carry handles, never paths: the source's own log, the storage
//! to open user locations with, the session's settings. A source and a sink get
//! them in two steps: what the manifest says before the checkpoint is claimed,
//! their place in the claimed checkpoint after. Which connector a format means
//! is decided in `registry`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use weir_core::checkpoint::{Fence, FencedLog};
use weir_core::storage::Storage;

use crate::expressions::Expressions;

/// What becomes of records of a source that do not fit its schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MalformedRecords {
    /// What the parse mode among the options says.
    #[default]
    ByMode,
    /// They are handed out apart from the rows.
    SetApart,
}

/// What every source is prepared with.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// Opens the locations that the options name.
    pub storage: Storage,
    /// Spark settings by name that the manifest sets; the connector asks for those it knows.
    pub conf: BTreeMap<String, String>,
    /// Whether the query has a place for bad records.
    pub malformed: MalformedRecords,
}

/// A source's place in a claimed checkpoint.
#[derive(Clone, Debug)]
pub struct SourcePlace {
    /// `sources/<n>/` of the checkpoint.
    pub log: FencedLog,
    /// The query's id; part of client and group ids.
    pub query_id: uuid::Uuid,
}

/// By which columns a sink merges rows into its table instead of appending them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpsertBy {
    /// The columns that identify a row.
    pub keys: Vec<String>,
    /// The column whose greatest value wins.
    pub order_by: Option<String>,
}

/// A sink as the manifest has it, with the columns of its query: all that can be judged before the checkpoint is claimed.
#[derive(Clone, Copy, Debug)]
pub struct SinkSettings<'a> {
    /// The format.
    pub format: &'a str,
    /// Its options.
    pub options: &'a BTreeMap<String, String>,
    /// The columns that it is to take.
    pub schema: &'a SchemaRef,
    /// Partition columns.
    pub partition_by: &'a [String],
    /// How rows are merged, for sinks that can; else they are appended.
    pub upsert: Option<&'a UpsertBy>,
    /// Opens the locations that the options name.
    pub storage: &'a Storage,
    /// Spark settings by name that the manifest sets.
    pub conf: &'a BTreeMap<String, String>,
    /// Evaluates what the sink's table has of SQL.
    pub expressions: &'a Arc<dyn Expressions>,
}

/// Which rows of a query a sink takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkRole {
    /// Those of its SQL.
    Rows,
    /// Its bad records: a second sink of the same batches.
    BadRecords,
}

/// A sink's place in a claimed checkpoint.
#[derive(Clone, Debug)]
pub struct SinkContext {
    /// The query's id.
    pub query_id: uuid::Uuid,
    /// The fence of this run's epoch.
    pub fence: Fence,
    /// Whose rows it takes.
    pub role: SinkRole,
}

impl SinkContext {
    /// Under which name a table records the batches.
    pub fn transaction_id(&self) -> String {
        match self.role {
            SinkRole::Rows => self.query_id.to_string(),
            SinkRole::BadRecords => format!("{}-badRecords", self.query_id),
        }
    }
}
