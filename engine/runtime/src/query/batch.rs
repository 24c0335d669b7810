//! Running one planned batch: partitions over lanes, slices through the plan
//! into the sink's writers, and what was counted on the way.
//!
//! Nothing here takes effect: the driver commits what comes back. On the first
//! failure of any lane the others stop at their next slice and every writer is
//! aborted, so that no half-written file of the batch stays referenced.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::Array;
use arrow::record_batch::RecordBatch;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use weir_connect::{BatchId, PartitionReader, ReadCounters, RecordColumns, Scan, Sink, SinkWriter, Written};
use weir_core::{Error, Result, failpoint};
use weir_sql::{Lane, ObservedPartial};

use super::bad_records::{BadRecordsSink, LaneBadRecords, judged};
use crate::event_time::EventTimeStats;
use crate::lanes::{BatchFailed, Lanes};

/// How one source's slices go into the plan.
#[derive(Clone, Debug)]
pub struct SourceScan {
    /// What is read.
    pub scan: Scan,
    /// Positions within the scan of the columns that the plan takes.
    pub plan_columns: Vec<usize>,
    /// Position within the scan of the event-time column.
    pub event_time: Option<usize>,
    /// Positions within the scan of a record and its place, where records are judged before the plan gets them.
    pub judged: Option<RecordColumns>,
}

/// A batch's partitions, each with the number of its source.
pub type Partitions = Vec<(usize, Box<dyn PartitionReader>)>;

/// What a batch came to, summed over lanes.
#[derive(Debug, Default)]
pub struct BatchOutcome {
    /// What the writers made.
    pub parts: Vec<Written>,
    /// What the writers of bad records made.
    pub bad_parts: Vec<Written>,
    /// Bad records that were set apart.
    pub bad_records: u64,
    /// Rows read per source.
    pub rows: Vec<u64>,
    /// Event times per source.
    pub event_times: Vec<EventTimeStats>,
    /// What the readers met, per source.
    pub counters: Vec<ReadCounters>,
    /// Results of `observe`.
    pub observed: BTreeMap<String, Value>,
    /// Rows that the sink took.
    pub rows_written: u64,
}

impl BatchOutcome {
    /// The outcome of a batch that the sink had recorded before.
    pub fn skipped(sources: usize) -> Self {
        Self {
            rows: vec![0; sources],
            event_times: vec![EventTimeStats::default(); sources],
            counters: vec![ReadCounters::default(); sources],
            ..Self::default()
        }
    }
}

/// What every lane of a batch shares.
struct Shared {
    queue: Mutex<VecDeque<Part>>,
    failed: BatchFailed,
    scans: Arc<Vec<SourceScan>>,
    sink: Arc<dyn Sink>,
    bad_records: Option<Arc<BadRecordsSink>>,
    batch: BatchId,
    timestamp_ms: i64,
}

/// One partition that waits for a lane.
struct Part {
    /// Its number in the batch.
    number: usize,
    source: usize,
    reader: Box<dyn PartitionReader>,
    /// Rows before this position took effect already, and are read for the sake of bad records.
    pass_by: u64,
}

/// One lane's share.
struct LaneOutcome {
    written: Written,
    bad: Option<Written>,
    rows: Vec<u64>,
    event_times: Vec<EventTimeStats>,
    counters: Vec<ReadCounters>,
    observed: ObservedPartial,
}

/// Runs a batch. `timestamp_ms` is the batch's `current_timestamp()`.
pub async fn execute(
    lanes: &mut Lanes,
    sink: &Arc<dyn Sink>,
    bad_records: Option<&Arc<BadRecordsSink>>,
    scans: &Arc<Vec<SourceScan>>,
    partitions: Partitions,
    batch: BatchId,
    timestamp_ms: i64,
) -> Result<BatchOutcome> {
    let width = lanes.width(partitions.len());
    let parts = partitions.into_iter().enumerate().map(|(number, (source, reader))| Part { number, source, reader, pass_by: 0 });
    let shared = Arc::new(Shared {
        queue: Mutex::new(behind_earlier_steps(parts.collect(), &**sink, &batch, scans).await?),
        failed: BatchFailed::default(),
        scans: Arc::clone(scans),
        sink: Arc::clone(sink),
        bad_records: bad_records.cloned(),
        batch,
        timestamp_ms,
    });
    // A driver that gives the batch up drops this future; the lanes then end with their slice.
    let _ends = shared.failed.with_the_end();
    let results = lanes
        .run(width, |number| {
            let shared = Arc::clone(&shared);
            Box::new(move |lane: &mut Lane| -> BoxFuture<'_, Result<LaneOutcome>> {
                Box::pin(async move { run_lane(&shared, number, lane).await })
            })
        })
        .await?;
    gather(results, scans.len())
}

/// The partitions, each behind the rows that took effect in earlier steps of the batch.
async fn behind_earlier_steps(mut parts: VecDeque<Part>, sink: &dyn Sink, batch: &BatchId, scans: &[SourceScan]) -> Result<VecDeque<Part>> {
    let Some(steps) = sink.steps() else { return Ok(parts) };
    let names: Vec<String> = parts.iter().map(|part| part.reader.name()).collect();
    for (number, position) in steps.begin(batch, &names).await? {
        match parts.get_mut(number) {
            Some(part) if scans[part.source].judged.is_some() => part.pass_by = position,
            Some(part) => part.reader.skip_to(position),
            None => {}
        }
    }
    Ok(parts)
}

fn gather(results: Vec<Result<LaneOutcome>>, sources: usize) -> Result<BatchOutcome> {
    let mut outcome = BatchOutcome::skipped(sources);
    let mut partials = Vec::new();
    // The first failure by lane number may be the echo of another; prefer a cause.
    let (oks, errors): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    if let Some(error) = errors.into_iter().filter_map(Result::err).min_by_key(|e| e.condition() == GAVE_UP) {
        return Err(error);
    }
    for lane in oks.into_iter().flatten() {
        for source in 0..sources {
            outcome.rows[source] += lane.rows[source];
            outcome.event_times[source].merge(&lane.event_times[source]);
            outcome.counters[source].malformed_records += lane.counters[source].malformed_records;
            outcome.counters[source].bytes += lane.counters[source].bytes;
        }
        outcome.parts.push(lane.written);
        outcome.bad_records += lane.bad.as_ref().map_or(0, |written| written.rows);
        outcome.bad_parts.extend(lane.bad);
        partials.push(lane.observed);
    }
    outcome.observed = weir_sql::merge_observed(partials)?;
    Ok(outcome)
}

const GAVE_UP: &str = "BATCH_ABORTED";

async fn run_lane(shared: &Shared, number: usize, lane: &mut Lane) -> Result<LaneOutcome> {
    let started = async {
        lane.begin_batch(shared.timestamp_ms).await?;
        shared.sink.writer(&shared.batch, number).await
    };
    let mut writer = started.await.inspect_err(|_| shared.failed.set())?;
    let mut bad =
        shared.bad_records.as_ref().map(|to| LaneBadRecords::new(Arc::clone(to), shared.batch.clone(), shared.timestamp_ms, number));
    match drain(shared, lane, writer.as_mut(), bad.as_mut()).await {
        Ok((rows, event_times, counters)) => {
            let finished = async { Ok::<_, Error>((writer.finish().await?, lane.finish_batch()?)) };
            match (finished.await, bad) {
                (Ok((written, observed)), bad) => {
                    let bad = match bad {
                        Some(bad) => bad.finish().await.inspect_err(|_| shared.failed.set())?,
                        None => None,
                    };
                    Ok(LaneOutcome { written, bad, rows, event_times, counters, observed })
                }
                (Err(error), bad) => Err(given_up(shared, error, None, bad).await),
            }
        }
        Err(error) => Err(given_up(shared, error, Some(writer), bad).await),
    }
}

/// Ends the batch for all lanes and drops what this one wrote.
async fn given_up(shared: &Shared, error: Error, writer: Option<Box<dyn SinkWriter>>, bad: Option<LaneBadRecords>) -> Error {
    shared.failed.set();
    if let Some(writer) = writer {
        writer.abort().await;
    }
    if let Some(bad) = bad {
        bad.abort().await;
    }
    error
}

type Counted = (Vec<u64>, Vec<EventTimeStats>, Vec<ReadCounters>);

async fn drain(shared: &Shared, lane: &mut Lane, writer: &mut dyn SinkWriter, mut bad: Option<&mut LaneBadRecords>) -> Result<Counted> {
    let sources = shared.scans.len();
    let mut rows = vec![0; sources];
    let mut event_times = vec![EventTimeStats::default(); sources];
    let mut counters = vec![ReadCounters::default(); sources];
    loop {
        let Some(Part { number, source, mut reader, pass_by }) = shared.queue.lock().pop_front() else { break };
        let scan = &shared.scans[source];
        while let Some(slice) = reader.next().await? {
            if shared.failed.is_set() {
                return Err(Error::retryable(GAVE_UP, "another lane of the batch failed, or the batch was given up"));
            }
            if let Some(bad) = &mut bad {
                bad.write(source, reader.take_bad_records()).await?;
            }
            rows[source] += slice.num_rows() as u64;
            let slice = match (scan.judged, &mut bad) {
                (Some(record), Some(bad)) => {
                    let (good, found) = judged(lane, source, scan, record, slice, pass_by).await?;
                    counters[source].malformed_records += found.as_ref().map_or(0, |found| found.reason.len() as u64);
                    bad.write(source, found.into_iter().collect()).await?;
                    good
                }
                _ => slice,
            };
            if slice.num_rows() == 0 {
                continue;
            }
            if let Some(column) = scan.event_time {
                event_times[source].observe(&slice, column)?;
            }
            let outputs = lane.execute(source, plan_input(scan, slice)?).await?;
            counters[source].malformed_records += lane.take_malformed();
            for output in outputs {
                if output.num_rows() > 0 {
                    writer.write(output).await?;
                }
            }
            writer.reached(number, reader.position()).await?;
            failpoint::hit("batch.slice.after")?;
        }
        if let Some(bad) = &mut bad {
            bad.write(source, reader.take_bad_records()).await?;
        }
        let met = reader.counters();
        counters[source].malformed_records += met.malformed_records;
        counters[source].bytes += met.bytes;
    }
    Ok((rows, event_times, counters))
}

/// The columns of a slice that the plan takes; the event-time column may have
/// been read for the watermark alone.
pub(super) fn plan_input(scan: &SourceScan, slice: RecordBatch) -> Result<RecordBatch> {
    if scan.plan_columns.len() == slice.num_columns() {
        return Ok(slice);
    }
    slice
        .project(&scan.plan_columns)
        .map_err(|e| Error::retryable("SLICE_NOT_PROJECTED", "a slice lacks a column that was asked for").with_source(e))
}
