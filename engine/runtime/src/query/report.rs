//! Turning what a trigger did into progress records, events and status.
//!
//! One record for each executed batch; for idle triggers at most one entry per
//! `spark.sql.streaming.noDataProgressEventInterval`, and the event only when
//! the run has executed something before (Spark's `ProgressReporter`).
//! The backlog is refreshed after a batch, at most once a second, since asking
//! may cost a request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use uuid::Uuid;
use weir_connect::{Backlog, OutputRows};
use weir_core::progress::{QueryEvent, Rates, SinkProgress, SourceProgress, StreamingQueryProgress, iso_timestamp, rates};
use weir_core::trigger::Trigger;
use weir_core::{Offset, Result};

use super::batch::BatchOutcome;
use super::definition::QueryDefinition;
use super::open::OpenQuery;
use super::state::{BatchSummary, QueryState, RECENT_BATCHES};

const BACKLOG_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for a source's answer about its backlog.
const BACKLOG_PATIENCE: Duration = Duration::from_secs(2);

/// The figure of a source for records that did not fit the schema, whatever
/// the parse mode made of them; there only when it is not 0.
pub const MALFORMED_RECORDS: &str = "malformedRecords";

/// The figure of the sink for records that went to the place for bad records; there only where the query has one.
pub const BAD_RECORDS: &str = "numBadRecords";

/// What is measured while a trigger runs.
#[derive(Debug)]
pub struct TriggerReport {
    started_ms: i64,
    timer: Instant,
    batch: u64,
    durations: BTreeMap<&'static str, u64>,
    committed_ms: Option<i64>,
    /// Newest offsets known per source, where planning asked.
    pub latest: Vec<Option<Offset>>,
}

impl TriggerReport {
    /// A trigger that begins now, for the batch that would be next.
    pub fn begin(started_ms: i64, batch: u64) -> Self {
        Self { started_ms, timer: Instant::now(), batch, durations: BTreeMap::new(), committed_ms: None, latest: Vec::new() }
    }

    /// Adds the time since `since` to a phase.
    pub fn time(&mut self, phase: &'static str, since: Instant) {
        *self.durations.entry(phase).or_default() += millis(since);
    }

    /// The commit was written.
    pub fn committed(&mut self, now_ms: i64) {
        self.committed_ms = Some(now_ms);
    }
}

/// Builds and publishes the records of one run.
#[derive(Debug)]
pub struct Reporter {
    id: Uuid,
    run_id: Uuid,
    name: String,
    idle_every: Duration,
    state: Arc<QueryState>,
    previous_start_ms: Option<i64>,
    last_report: Option<Instant>,
    last_backlog: Option<Instant>,
    executed: Option<i64>,
    previous_had_data: bool,
    trigger_interval_ms: u64,
}

impl Reporter {
    /// The reporter of one run.
    pub fn new(definition: &QueryDefinition, id: Uuid, run_id: Uuid, idle_every: Duration, state: Arc<QueryState>) -> Self {
        Self {
            id,
            run_id,
            name: definition.name.clone(),
            idle_every,
            state,
            previous_start_ms: None,
            last_report: None,
            last_backlog: None,
            executed: None,
            previous_had_data: false,
            trigger_interval_ms: match definition.trigger {
                Trigger::ProcessingTime(interval) => u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
                Trigger::AvailableNow | Trigger::Once => 0,
            },
        }
    }

    /// The run has started.
    pub fn started(&self, now_ms: i64) {
        self.state.publish(QueryEvent::Started {
            id: self.id,
            run_id: self.run_id,
            name: Some(self.name.clone()),
            timestamp: iso_timestamp(now_ms),
        });
    }

    /// A batch was executed and committed.
    pub async fn batch(
        &mut self,
        report: TriggerReport,
        open: &mut OpenQuery,
        starts: &[Option<Offset>],
        ends: &[Option<Offset>],
        watermark_ms: Option<i64>,
        outcome: BatchOutcome,
    ) -> Result<()> {
        let output_rows = match open.sink.output_rows() {
            OutputRows::Counted => i64::try_from(outcome.rows_written).unwrap_or(i64::MAX),
            OutputRows::Unknown => -1,
        };
        self.executed = Some(if output_rows < 0 { -1 } else { 0 });
        let mut event_time = watermark_text(watermark_ms);
        if let (true, Some(seen)) = (watermark_ms.is_some(), outcome.event_times.iter().find(|s| s.max_ms().is_some())) {
            seen.report(&mut event_time);
        }
        let batch = report.batch;
        let committed_ms = report.committed_ms;
        let latest = report.latest.clone();
        let ended_ms = report.started_ms + i64::try_from(millis(report.timer)).unwrap_or_default();
        let mut progress = self.record(report, ended_ms, open, starts, ends, &latest, &outcome.rows, output_rows);
        progress.event_time = event_time;
        progress.observed_metrics = outcome.observed;
        for (source, met) in progress.sources.iter_mut().zip(&outcome.counters) {
            // Spark has no such figure: a batch without malformed records shows what Spark shows.
            if met.malformed_records > 0 {
                source.metrics.insert(MALFORMED_RECORDS.to_owned(), met.malformed_records.to_string());
            }
        }
        if open.bad_records.is_some() {
            progress.sink.metrics.insert(BAD_RECORDS.to_owned(), outcome.bad_records.to_string());
        }
        self.refresh_backlog(open, ends, ended_ms).await;
        let summary = self.summary(&progress);
        let malformed: u64 = outcome.counters.iter().map(|met| met.malformed_records).sum();
        self.previous_had_data = progress.num_input_rows > 0;
        self.state.update(|snapshot| {
            while snapshot.recent_batches.len() >= RECENT_BATCHES {
                snapshot.recent_batches.pop_front();
            }
            snapshot.recent_batches.push_back(summary);
            snapshot.batch_id = Some(batch);
            snapshot.last_commit_ms = committed_ms.or(snapshot.last_commit_ms);
            snapshot.watermark_ms = watermark_ms;
            snapshot.malformed_records += malformed;
            snapshot.bad_records += outcome.bad_records;
        });
        self.state.record(progress.clone());
        self.state.publish(QueryEvent::Progress { progress: Box::new(progress) });
        self.last_report = Some(Instant::now());
        Ok(())
    }

    /// Nothing was there to do.
    pub async fn idle(
        &mut self,
        report: TriggerReport,
        ended_ms: i64,
        open: &mut OpenQuery,
        ends: &[Option<Offset>],
        watermark_ms: Option<i64>,
    ) -> Result<()> {
        self.previous_had_data = false;
        let started_ms = report.started_ms;
        let is_due = self.last_report.is_none_or(|at| at.elapsed() >= self.idle_every);
        if !is_due {
            self.previous_start_ms = Some(started_ms);
            return Ok(());
        }
        let latest = report.latest.clone();
        let rows = vec![0; ends.len()];
        let output_rows = self.executed.unwrap_or(-1);
        let mut progress = self.record(report, ended_ms, open, ends, ends, &latest, &rows, output_rows);
        progress.event_time = watermark_text(watermark_ms);
        self.refresh_backlog(open, ends, ended_ms).await;
        self.state.record(progress);
        if self.executed.is_some() {
            self.state.publish(QueryEvent::Idle { id: self.id, run_id: self.run_id, timestamp: iso_timestamp(started_ms) });
        }
        self.last_report = Some(Instant::now());
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one record, each from another place")]
    fn record(
        &mut self,
        mut report: TriggerReport,
        ended_ms: i64,
        open: &OpenQuery,
        starts: &[Option<Offset>],
        ends: &[Option<Offset>],
        latest: &[Option<Offset>],
        rows: &[u64],
        output_rows: i64,
    ) -> StreamingQueryProgress {
        let previous = self.previous_start_ms.replace(report.started_ms);
        let value = |offset: Option<&Offset>| offset.map_or(Value::Null, Offset::to_value);
        let sources: Vec<SourceProgress> = open
            .sources
            .iter()
            .enumerate()
            .map(|(at, open)| {
                let newest = latest.get(at).and_then(Option::as_ref);
                SourceProgress {
                    description: open.source.description(),
                    start_offset: value(starts[at].as_ref()),
                    end_offset: value(ends[at].as_ref()),
                    latest_offset: value(newest),
                    num_input_rows: rows[at],
                    rates: rates(rows[at], report.started_ms, ended_ms, previous),
                    metrics: open.source.metrics(ends[at].as_ref(), newest),
                }
            })
            .collect();
        let elapsed = millis(report.timer);
        report.durations.insert("triggerExecution", elapsed);
        StreamingQueryProgress {
            id: self.id,
            run_id: self.run_id,
            name: Some(self.name.clone()),
            timestamp: iso_timestamp(report.started_ms),
            batch_id: report.batch,
            batch_duration: elapsed,
            num_input_rows: rows.iter().sum(),
            rates: sources.iter().map(|source| source.rates).sum::<Rates>(),
            duration_ms: report.durations,
            event_time: BTreeMap::new(),
            state_operators: Vec::new(),
            sources,
            sink: SinkProgress { description: open.sink.description(), num_output_rows: output_rows, metrics: BTreeMap::new() },
            observed_metrics: BTreeMap::new(),
        }
    }

    fn summary(&self, progress: &StreamingQueryProgress) -> BatchSummary {
        let stages = progress.duration_ms.iter().filter(|(stage, _)| **stage != "triggerExecution");
        let finite = |rate: f64| if rate.is_finite() { rate } else { 0.0 };
        BatchSummary {
            batch_id: progress.batch_id,
            duration_ms: progress.batch_duration,
            trigger_interval_ms: self.trigger_interval_ms,
            previous_had_data: self.previous_had_data,
            input_rows_per_second: finite(progress.rates.input),
            processed_rows_per_second: finite(progress.rates.processed),
            costliest_stage: stages.max_by_key(|(_, ms)| **ms).map(|(stage, _)| (*stage).to_owned()).unwrap_or_default(),
        }
    }

    async fn refresh_backlog(&mut self, open: &mut OpenQuery, ends: &[Option<Offset>], now_ms: i64) {
        if self.last_backlog.is_some_and(|at| at.elapsed() < BACKLOG_EVERY) {
            return;
        }
        self.last_backlog = Some(Instant::now());
        let mut total = Backlog::default();
        for (open, end) in open.sources.iter_mut().zip(ends) {
            // The batch is committed; an unknown backlog must neither end nor hold the query.
            match tokio::time::timeout(BACKLOG_PATIENCE, open.source.backlog(end.as_ref(), now_ms)).await {
                Ok(Ok(part)) => total = add(total, &part),
                Ok(Err(error)) => tracing::warn!(%error, "the backlog could not be read"),
                Err(_) => tracing::warn!(source = open.source.description(), "the source did not tell its backlog in time"),
            }
        }
        self.state.update(|snapshot| snapshot.backlog = total);
    }
}

fn add(total: Backlog, part: &Backlog) -> Backlog {
    let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
    let max = |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| Some(a.max(b.unwrap_or(0.0))));
    Backlog {
        records: sum(total.records, part.records),
        bytes: sum(total.bytes, part.bytes),
        files: sum(total.files, part.files),
        seconds: max(total.seconds, part.seconds),
    }
}

fn watermark_text(watermark_ms: Option<i64>) -> BTreeMap<&'static str, String> {
    watermark_ms.map(|ms| ("watermark", iso_timestamp(ms))).into_iter().collect()
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
