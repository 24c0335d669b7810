//! The bad records of a query: a second sink of the same batches.
//!
//! **Where one is born.** A source of json or csv files sets a record apart when it does not fit the declared schema, as
//! DROPMALFORMED leaves it out; the whole schema is judged, whichever columns the query reads. The mode FAILFAST is refused
//! together with `badRecords`. Files that cannot be read at all are no records: `ignoreCorruptFiles` decides about them.
//!
//! **What it is.** A row of one fixed table (`weir_connect::bad_records`) with the batch's time, so that a batch that is run
//! again makes the same rows. It makes no row of the query.
//!
//! **Once.** Lanes write both sinks side by side; the driver commits this one first, then the sink of the rows, then
//! `commits/N`. So a batch that the latter has recorded is whole, and one that it has not is run again, where this sink
//! skips what it has. Delta records under an identifier of its own and only batches with bad records; the log of files
//! has every batch. A sink of rows that takes effect in steps makes no bad record final: sources read them again.

use std::sync::Arc;

use uuid::Uuid;
use weir_connect::bad_records::{BadRows, Stamp};
use weir_connect::{BatchId, Committed, Sink, SinkWriter, Written};
use weir_core::Result;

/// The sink, with what its rows have in common.
pub struct BadRecordsSink {
    sink: Arc<dyn Sink>,
    query: String,
    /// Names of the sources in plan order.
    sources: Vec<String>,
}

impl BadRecordsSink {
    /// The sink of a query's bad records.
    pub fn new(sink: Arc<dyn Sink>, query: String, sources: Vec<String>) -> Self {
        Self { sink, query, sources }
    }

    /// The newest batch that it has of the query.
    pub async fn recorded_batch(&self, query_id: Uuid) -> Result<Option<u64>> {
        self.sink.recorded_batch(query_id).await
    }

    /// Makes the records of a batch visible, once; before the sink of the rows does.
    pub async fn commit(&self, batch: &BatchId, parts: Vec<Written>) -> Result<()> {
        if parts.is_empty() && !self.sink.needs_every_batch() {
            return Ok(());
        }
        if self.sink.commit(batch, parts).await? == Committed::Before {
            tracing::info!(batch = batch.batch, "the sink of bad records had recorded the batch already");
        }
        Ok(())
    }

    /// Housekeeping.
    pub async fn maintain(&self, batch: u64) -> Result<()> {
        self.sink.maintain(batch).await
    }
}

/// What one lane writes of a batch; nothing is made before the first record.
pub struct LaneBadRecords {
    to: Arc<BadRecordsSink>,
    batch: BatchId,
    time_ms: i64,
    lane: usize,
    writer: Option<Box<dyn SinkWriter>>,
}

impl LaneBadRecords {
    /// A lane that has met none.
    pub fn new(to: Arc<BadRecordsSink>, batch: BatchId, time_ms: i64, lane: usize) -> Self {
        Self { to, batch, time_ms, lane, writer: None }
    }

    /// Writes records of a source, given by its number in the plan.
    pub async fn write(&mut self, source: usize, found: Vec<BadRows>) -> Result<()> {
        for rows in found {
            let writer = match &mut self.writer {
                Some(writer) => writer,
                None => self.writer.insert(self.to.sink.writer(&self.batch, self.lane).await?),
            };
            let stamp = Stamp {
                time_ms: self.time_ms,
                query: self.to.query.clone(),
                query_id: self.batch.query_id,
                batch: self.batch.batch,
                source: self.to.sources.get(source).cloned().unwrap_or_default(),
            };
            writer.write(rows.stamped(&stamp)?).await?;
        }
        Ok(())
    }

    /// Ends the part, if there is any.
    pub async fn finish(self) -> Result<Option<Written>> {
        match self.writer {
            Some(writer) => writer.finish().await.map(Some),
            None => Ok(None),
        }
    }

    /// Drops what was written.
    pub async fn abort(self) {
        if let Some(writer) = self.writer {
            writer.abort().await;
        }
    }
}
