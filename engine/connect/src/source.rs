//! What the driver asks of a source.
//!
//! A source turns "where did we stop" into "where may this batch end" and a
//! range of offsets into partitions of record batches. It owns its offset's
//! shape and its own log under `sources/<n>/`; it never sees the offset log,
//! the sink or SQL. Planning is asynchronous and small; reading happens on the
//! lanes, one partition at a time, in slices.
//!
//! Invariants: a range once planned yields the same rows however often it is
//! read (or fails naming what is gone); `plan` never returns an end before the
//! start; nothing is read before `partitions`.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use weir_core::{Offset, Result};

use crate::bad_records::BadRows;
use crate::open::SourcePlace;

/// Whether a trigger obeys the per-trigger limits of the source's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLimits {
    /// `maxFilesPerTrigger`, `maxOffsetsPerTrigger` and their kin count.
    Apply,
    /// The `once` trigger takes all that is there.
    Ignore,
}

/// How an `availableNow` run treats the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AvailableNow {
    /// The end is frozen; batches obey the limits until it is reached.
    Frozen,
    /// The source cannot freeze its end: the run falls back to one batch.
    SingleBatch,
}

/// The answer of planning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRange {
    /// Exclusive end of the batch; `None` while the source has produced nothing yet.
    pub end: Option<Offset>,
    /// The newest offset known, where the source reports one.
    pub latest: Option<Offset>,
}

/// What is still unread behind a processed offset; absent figures are unknown.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    /// Records between the processed and the latest offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Bytes: known sizes, or records times the mean size of the last batches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Files outstanding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Age of the oldest unread record, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// What the plan needs of a source's rows.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Indexes into the source's schema, rising; the batches have just these columns.
    pub columns: Vec<usize>,
    /// Most rows of one batch (a slice).
    pub max_rows: usize,
    /// Soft bound of a slice's bytes, so that huge records make small slices.
    pub max_bytes: usize,
}

/// Where the columns of a source, or of a slice, have a record of a topic and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordColumns {
    /// The record, as bytes.
    pub value: usize,
    /// The topic.
    pub topic: usize,
    /// The partition.
    pub partition: usize,
    /// The offset; a reader's position is the next one.
    pub offset: usize,
}

impl RecordColumns {
    /// All of them.
    pub fn all(self) -> [usize; 4] {
        [self.value, self.topic, self.partition, self.offset]
    }

    /// The same columns somewhere else.
    #[must_use]
    pub fn moved(self, to: impl Fn(usize) -> usize) -> Self {
        Self { value: to(self.value), topic: to(self.topic), partition: to(self.partition), offset: to(self.offset) }
    }
}

/// Counters of what a reader met, summed into the progress record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadCounters {
    /// Records that could not be decoded and were treated by the mode asked for.
    pub malformed_records: u64,
    /// Bytes read, before decoding.
    pub bytes: u64,
}

/// One partition of a planned range, pulled by one lane to its end.
///
/// `next` may block the calling thread: a lane has its own.
#[async_trait]
pub trait PartitionReader: Send {
    /// The next slice, or `None` at the end of the range. A slice is empty only where bad records wait to be taken.
    async fn next(&mut self) -> Result<Option<RecordBatch>>;

    /// What was met so far.
    fn counters(&self) -> ReadCounters;

    /// The records that were set apart since they were last taken; asked after each `next`. Those before a place that
    /// `skip_to` was told are among them.
    fn take_bad_records(&mut self) -> Vec<BadRows> {
        Vec::new()
    }

    /// What the partition is and all that decides its rows' order, in words that are the same whenever the range is read;
    /// asked before the first slice.
    fn name(&self) -> String;

    /// The place behind the last row that was handed out. It rises, and means the same to every reader of this name.
    fn position(&self) -> u64;

    /// Begins behind the rows that a reader of this name had handed out at `position`; called before the first slice.
    fn skip_to(&mut self, position: u64);
}

/// A source whose options and schema are settled and that has touched no checkpoint.
#[async_trait]
pub trait PreparedSource: Send {
    /// The rows' schema, with Spark's names and types.
    fn schema(&self) -> SchemaRef;

    /// The columns by which a row is a record of a topic, where it is one.
    fn record_columns(&self) -> Option<RecordColumns> {
        None
    }

    /// Whether records that do not fit are handed out apart, as the context asked for; false where the format knows none.
    fn sets_malformed_apart(&self) -> bool {
        false
    }

    /// Makes the clients of a source that is going to be read, which may read files and reach out. Whoever only judges a
    /// manifest does not call it.
    fn make_clients(&mut self) -> Result<()> {
        Ok(())
    }

    /// The source at its place in the checkpoint.
    async fn bind(self: Box<Self>, place: SourcePlace) -> Result<Box<dyn Source>>;
}

/// Who has not answered for a while, told by whoever asks to whoever waits for it.
#[derive(Clone, Debug, Default)]
pub struct Outage(Arc<Mutex<Option<String>>>);

impl Outage {
    /// Nobody answers; says whether that is news.
    pub fn goes_on(&self, words: String) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(words).is_none()
    }

    /// Somebody answered; says whether that is news.
    pub fn ends(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// What is to be told of it.
    pub fn words(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A streaming source.
#[async_trait]
pub trait Source: Send {
    /// The rows' schema, with Spark's names and types.
    fn schema(&self) -> SchemaRef;

    /// Spark's text for the source in progress records.
    fn description(&self) -> String;

    /// Called once per run before anything else: `last` is the end of the
    /// newest planned batch, for sources that rebuild state from their log.
    async fn open(&mut self, last: Option<&Offset>) -> Result<()>;

    /// Asks whether what is read from answers: a run has begun only after it. What is on a
    /// disk or made up needs no asking.
    async fn reach(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether records that are due have not come for a while; a stop then waits for none.
    fn is_silent(&self) -> bool {
        false
    }

    /// Who does not answer while the source is asked.
    fn outage(&self) -> Outage {
        Outage::default()
    }

    /// The offset before the first batch, for sources that resolve and store
    /// one (Kafka, rate); `None` for those that begin with nothing (files).
    async fn initial_offset(&mut self) -> Result<Option<Offset>>;

    /// Freezes the end for an `availableNow` run.
    async fn freeze_available_now(&mut self) -> Result<AvailableNow>;

    /// The end of the batch that starts at `start`. Writes its own log first.
    async fn plan(&mut self, start: Option<&Offset>, limits: ReadLimits, now_ms: i64) -> Result<PlannedRange>;

    /// The partitions of `start..end`.
    async fn partitions(&mut self, start: Option<&Offset>, end: &Offset, scan: &Scan) -> Result<Vec<Box<dyn PartitionReader>>>;

    /// The batch that ended at `end` is final; acts when the next is planned.
    async fn commit(&mut self, end: &Offset) -> Result<()>;

    /// Source-specific figures of a progress record (`SourceProgress.metrics`).
    fn metrics(&self, end: Option<&Offset>, latest: Option<&Offset>) -> BTreeMap<String, String>;

    /// What is unread behind `processed`.
    async fn backlog(&mut self, processed: Option<&Offset>, now_ms: i64) -> Result<Backlog>;
}
