//! The bad records of a query: a second sink of the same batches.
//!
//! **Where one is born.** A source of json or csv files sets a record apart when it does not fit the declared schema, as
//! DROPMALFORMED leaves it out; the whole schema is judged, whichever columns the query reads. The mode FAILFAST is refused
//! together with `badRecords`. Files that cannot be read at all are no records: `ignoreCorruptFiles` decides about them.
//! A record of a topic is born bad where SQL decodes it: the calls of `from_json` and `from_csv` that are surely made over
//! columns of the topic alone are evaluated for a slice before the plan gets it (`weir_sql`, `exec/judge.rs`), because behind
//! the plan nobody knows any more which record a row was.
//!
//! **What it is.** A row of one fixed table (`weir_connect::bad_records`) with the batch's time, so that a batch that is run
//! again makes the same rows. It makes no row of the query.
//!
//! **Once.** Lanes write both sinks side by side; the driver commits this one first, then the sink of the rows, then
//! `commits/N`. So a batch that the latter has recorded is whole, and one that it has not is run again, where this sink
//! skips what it has. Delta records under an identifier of its own and only batches with bad records; the log of files
//! has every batch. A sink of rows that takes effect in steps makes no bad record final: sources read them again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::{filter_record_batch, is_not_null};
use arrow::datatypes::{Int32Type, Int64Type};
use uuid::Uuid;
use weir_connect::bad_records::{BadRows, Places, Stamp};
use weir_connect::{BatchId, Committed, RecordColumns, Sink, SinkWriter, Written};
use weir_core::checkpoint::{BindSink, QueryLog};
use weir_core::{Error, Result};
use weir_sql::Lane;

use super::batch::{SourceScan, plan_input};

/// The sink, with what its rows have in common.
pub struct BadRecordsSink {
    sink: Arc<dyn Sink>,
    query: String,
    /// Names of the sources in plan order.
    sources: Vec<String>,
    /// The query's `checkpointResetNonce`.
    nonce: u64,
    /// Whether the checkpoint knows the table's id, if it is a table.
    bound: AtomicBool,
}

impl BadRecordsSink {
    /// The sink of a query's bad records.
    pub fn new(sink: Arc<dyn Sink>, query: String, sources: Vec<String>, nonce: u64) -> Self {
        Self { sink, query, sources, nonce, bound: AtomicBool::new(false) }
    }

    /// Holds the table that the sink found against the one that the checkpoint knows; a query whose batches seldom have bad
    /// records would else make a deleted one anew.
    pub async fn bind(&self, log: &QueryLog) -> Result<()> {
        let id = self.sink.table_id().await;
        log.bind_table(BindSink::BadRecords, id.as_deref(), self.nonce).await?;
        self.bound.store(id.is_some(), Ordering::Relaxed);
        Ok(())
    }

    /// The newest batch that it has of the query.
    pub async fn recorded_batch(&self, query_id: Uuid) -> Result<Option<u64>> {
        self.sink.recorded_batch(query_id).await
    }

    /// Makes the records of a batch visible, once; before the sink of the rows does.
    pub async fn commit(&self, batch: &BatchId, parts: Vec<Written>, log: &QueryLog) -> Result<()> {
        if parts.is_empty() && !self.sink.needs_every_batch() {
            return Ok(());
        }
        if self.sink.commit(batch, parts).await? == Committed::Before {
            tracing::info!(batch = batch.batch, "the sink of bad records had recorded the batch already");
        }
        // One that the checkpoint knows was looked at by the commit.
        if !self.bound.load(Ordering::Relaxed) && self.sink.table_id().await.is_some() {
            self.bind(log).await?;
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

/// The rows of a slice that the plan gets, and the bad records among them. Rows before the offset `pass_by` are left out, bad
/// ones are not.
pub async fn judged(
    lane: &Lane,
    stream: usize,
    scan: &SourceScan,
    record: RecordColumns,
    slice: RecordBatch,
    pass_by: u64,
) -> Result<(RecordBatch, Option<BadRows>)> {
    let why = lane.misfits(stream, &plan_input(scan, slice.clone())?).await?;
    if why.is_none() && pass_by == 0 {
        return Ok((slice, None));
    }
    let why = why.unwrap_or_else(|| StringArray::new_null(slice.num_rows()));
    let offsets = slice.column(record.offset).as_primitive::<Int64Type>();
    let is_due = |row: usize| u64::try_from(offsets.value(row)).is_ok_and(|offset| offset >= pass_by);
    let good: BooleanArray = (0..slice.num_rows()).map(|row| Some(why.is_null(row) && is_due(row))).collect();
    let is_bad = is_not_null(&why).map_err(failed)?;
    let bad = filter_record_batch(&slice, &is_bad).map_err(failed)?;
    let reason: StringArray = why.iter().flatten().map(Some).collect();
    let rows = (!reason.is_empty()).then(|| BadRows {
        reason,
        record: text(bad.column(record.value)),
        place: Places::Topics {
            topic: bad.column(record.topic).as_string().clone(),
            partition: bad.column(record.partition).as_primitive::<Int32Type>().clone(),
            offset: bad.column(record.offset).as_primitive::<Int64Type>().clone(),
        },
    });
    Ok((filter_record_batch(&slice, &good).map_err(failed)?, rows))
}

/// Bytes as text.
fn text(values: &ArrayRef) -> StringArray {
    values.as_binary::<i32>().iter().map(|value| value.map(String::from_utf8_lossy)).collect()
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::retryable("SLICE_NOT_JUDGED", "the bad records of a slice could not be told apart").with_source(error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{BinaryArray, Int32Array, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use weir_connect::Scan;
    use weir_sql::{OutputMode, QueryText, SqlConf, StreamInput, Undecodable, compile};

    use super::*;

    #[tokio::test]
    async fn bad_records_before_a_place_are_told_again_and_rows_are_not() {
        let columns = [("value", DataType::Binary), ("topic", DataType::Utf8), ("partition", DataType::Int32), ("offset", DataType::Int64)];
        let schema = Arc::new(Schema::new(columns.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()));
        let text = QueryText {
            sql: "SELECT from_json(CAST(value AS STRING), 'n INT').n FROM raw".into(),
            undecodable: Undecodable::SetApart,
            ..QueryText::default()
        };
        let stream = StreamInput { name: "raw".into(), schema: Arc::clone(&schema), has_watermark: false };
        let query = compile(&SqlConf::default(), vec![stream], vec![], &text, OutputMode::Append).unwrap();
        let mut lane = query.lane().unwrap();
        lane.begin_batch(0).await.unwrap();
        let record = RecordColumns { value: 0, topic: 1, partition: 2, offset: 3 };
        let scan = Scan { columns: vec![0, 1, 2, 3], max_rows: 100, max_bytes: 1 << 20 };
        let scan = SourceScan { scan, plan_columns: query.required_columns(0), event_time: None, judged: Some(record) };
        let values: [&[u8]; 4] = [b"x", b"{\"n\":1}", b"\xff", b"{\"n\":2}"];
        let columns: Vec<ArrayRef> = vec![
            Arc::new(BinaryArray::from(values.to_vec())),
            Arc::new(StringArray::from(vec!["t"; 4])),
            Arc::new(Int32Array::from(vec![1; 4])),
            Arc::new(Int64Array::from(vec![5, 6, 7, 8])),
        ];
        let slice = RecordBatch::try_new(schema, columns).unwrap();
        for (pass_by, kept) in [(0, vec![6, 8]), (6, vec![6, 8]), (7, vec![8]), (9, vec![])] {
            let (good, bad) = judged(&lane, 0, &scan, record, slice.clone(), pass_by).await.unwrap();
            assert_eq!(good.column(3).as_primitive::<Int64Type>().values().to_vec(), kept, "{pass_by}");
            let bad = bad.unwrap();
            assert_eq!(bad.record, StringArray::from(vec!["x", "\u{fffd}"]));
            assert!(matches!(bad.place, Places::Topics { offset, .. } if offset.values().to_vec() == [5, 7]));
        }
        let good = slice.slice(1, 1);
        let (rows, bad) = judged(&lane, 0, &scan, record, good.clone(), 0).await.unwrap();
        assert_eq!((rows, bad), (good, None));
    }
}
