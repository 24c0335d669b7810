//! What the driver asks of a sink.
//!
//! A batch is written by one writer per lane, slice by slice, and takes effect
//! in one `commit`. A fenced sink records the batch id in the same atomic step
//! and skips whatever it has recorded already; that skip is what exactly-once
//! rests on (protocol.md sections 1 and 5). Sinks know nothing of sources,
//! offsets or SQL.
//!
//! Invariants: before `commit` nothing a writer did is visible to readers (for
//! fenced sinks); `commit` of a batch at or below the recorded one changes
//! nothing and deletes the batch's own files.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;

use weir_core::Result;

use crate::source::Outage;

/// Which batch is written, by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchId {
    /// The query's id from the checkpoint's `metadata`.
    pub query_id: uuid::Uuid,
    /// The batch.
    pub batch: u64,
    /// The writer's epoch, for traces and names.
    pub epoch: u64,
}

/// What makes two sinks the same place, recorded in `_weir/sink`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkIdentity {
    /// The sink's format.
    pub format: String,
    /// Canonical path or topic; empty for sinks without a place.
    pub location: String,
    /// The table's own id, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_id: Option<String>,
}

/// A file that a writer finished and that no reader sees yet.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenFile {
    /// Path relative to the sink's folder, partition folders included.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Rows.
    pub rows: u64,
    /// Modification time, milliseconds since the epoch.
    pub modification_time_ms: i64,
    /// Partition values in the order of `partitionBy`; `None` is null.
    pub partition_values: Vec<(String, Option<String>)>,
    /// Delta's statistics document, where the sink keeps one.
    pub stats: Option<String>,
}

/// What one writer made of its part of a batch.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Rows written.
    pub rows: u64,
    /// Files, for sinks of files.
    pub files: Vec<WrittenFile>,
    /// Rows kept for `commit`, for sinks that show them (console; bounded).
    pub shown: Vec<RecordBatch>,
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The batch took effect now.
    Now,
    /// The sink had it already; nothing was changed.
    Before,
}

/// Whether Spark reports `numOutputRows` for the sink, or -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputRows {
    /// The rows written.
    Counted,
    /// -1, as Spark's V1 sinks.
    Unknown,
}

/// How far the sink keeps the promise of exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Batches are recorded and skipped: exactly once.
    Fenced,
    /// At least once.
    AtLeastOnce,
}

/// Where a checkpoint stands when its sink is taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The newest committed batch.
    pub committed: Option<u64>,
    /// The batch that was planned and is not known to be committed.
    pub in_doubt: Option<u64>,
    /// Whether the sink was not ready for rows of this checkpoint before, so that none of its batches can be there.
    pub is_new: bool,
}

/// One lane's writer of one batch.
#[async_trait]
pub trait SinkWriter: Send {
    /// Writes a slice.
    async fn write(&mut self, slice: RecordBatch) -> Result<()>;

    /// The rows written so far are all that come of a partition up to `position`; for sinks whose batches may take effect in
    /// several steps.
    async fn reached(&mut self, _partition: usize, _position: u64) -> Result<()> {
        Ok(())
    }

    /// Ends the part; what was written is durable but not visible.
    async fn finish(self: Box<Self>) -> Result<Written>;

    /// Drops the part and whatever it wrote; best effort.
    async fn abort(self: Box<Self>);
}

/// A streaming sink, opened once per run with the query's output schema.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Spark's text for the sink in progress records.
    fn description(&self) -> String;

    /// Which place it is; compared with `_weir/sink`.
    fn identity(&self) -> SinkIdentity;

    /// The id of the table that it writes to, once there is one.
    async fn table_id(&self) -> Option<String> {
        None
    }

    /// Whether progress counts output rows.
    fn output_rows(&self) -> OutputRows;

    /// What it promises.
    fn delivery(&self) -> Delivery;

    /// Whether every batch leaves its id in the sink, empty ones too; then a
    /// record behind the checkpoint means that the sink was replaced.
    fn records_every_batch(&self) -> bool {
        false
    }

    /// Whether its log would have a hole where a batch without rows is not committed.
    fn needs_every_batch(&self) -> bool {
        false
    }

    /// Whether what was sent has not been acknowledged for a while; a stop then waits for nothing.
    fn is_silent(&self) -> bool {
        false
    }

    /// Who does not answer while rows wait for it.
    fn outage(&self) -> Outage {
        Outage::default()
    }

    /// The schema it was opened with.
    fn schema(&self) -> SchemaRef;

    /// The newest batch of this query that took effect; `None` when none did
    /// or the sink keeps no record.
    async fn recorded_batch(&self, query_id: uuid::Uuid) -> Result<Option<u64>>;

    /// Called once, after `recorded_batch` and before the first batch, with what the checkpoint says. A sink whose record
    /// can be lost refuses here what it can no longer tell.
    async fn resume(&self, _standing: Standing) -> Result<()> {
        Ok(())
    }

    /// Present where a batch may take effect in several steps.
    fn steps(&self) -> Option<&dyn Steps> {
        None
    }

    /// A writer for one lane's part of a batch.
    async fn writer(&self, batch: &BatchId, lane: usize) -> Result<Box<dyn SinkWriter>>;

    /// Makes the batch visible, at once and once.
    async fn commit(&self, batch: &BatchId, parts: Vec<Written>) -> Result<Committed>;

    /// Housekeeping off the commit path (log checkpoints, clean-up); called
    /// after a batch was committed, on a thread of its own, one at a time.
    async fn maintain(&self, batch: u64) -> Result<()>;
}

/// A sink whose batches may take effect in several steps, each at a boundary between slices on every lane.
#[async_trait]
pub trait Steps: Send + Sync {
    /// Called before a batch's writers are made, with the names of its partitions in order. Returns how far earlier steps of
    /// the batch have come: a position for each partition that was begun.
    async fn begin(&self, batch: &BatchId, partitions: &[String]) -> Result<BTreeMap<usize, u64>>;
}
