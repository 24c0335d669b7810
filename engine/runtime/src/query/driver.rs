//! The trigger loop of one query (Spark's `MicroBatchExecution`).
//!
//! Per trigger: look at the fence, ask the sources for their ends, write the
//! plan ahead, look again, execute, commit the sinks, commit the log, report.
//! A planned and uncommitted batch is run again exactly as planned. The loop
//! ends by its trigger, at a batch boundary when told to stop, or with an
//! error; it never retries by itself, that is the supervisor's business.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;
use weir_connect::{AvailableNow, BatchId, Committed, Outage, ReadLimits, Sink, Source};
use weir_core::checkpoint::query::Planned;
use weir_core::checkpoint::{CommitEntry, OffsetEntry, Recovery};
use weir_core::trigger::{Trigger, Wait, wait_after};
use weir_core::{ErrorClass, Offset, Result, failpoint};
use weir_crds::conf::MultipleWatermarkPolicy;

use super::batch::{self, BatchOutcome, Partitions};
use super::definition::QueryDefinition;
use super::open::{self, OpenQuery, OpenSource};
use super::report::{Reporter, TriggerReport};
use super::state::QueryState;
use crate::environment::TaskEnvironment;
use crate::event_time::{WatermarkPolicy, WatermarkTracker};

/// How often a stop looks whether the batch that it waits for is owed by a silent service.
const LOOK_FOR_SILENCE: Duration = Duration::from_millis(50);
/// How long a stop waits for a source that is asked for its partitions.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// What the task asks of its queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopRequest {
    /// Go on.
    None,
    /// End at the next batch boundary.
    AtBoundary,
}

/// How a query ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryEnd {
    /// Its trigger was done.
    Completed,
    /// It was told to stop.
    Stopped,
}

/// A query between triggers.
struct Driver {
    open: OpenQuery,
    environment: TaskEnvironment,
    state: Arc<QueryState>,
    reporter: Reporter,
    conf: BTreeMap<String, String>,
    retain: u64,
    polling_ms: i64,
    next_batch: u64,
    /// Ends of the last planned batch: what the log says, and what readers start from.
    logged: Vec<Option<Offset>>,
    starts: Vec<Option<Offset>>,
    replay: Option<OffsetEntry>,
    tracker: WatermarkTracker,
    fence_checked: Option<Instant>,
    maintenance: Option<JoinHandle<Result<()>>>,
}

/// Runs a query to its end.
pub async fn run(
    definition: &QueryDefinition,
    environment: &TaskEnvironment,
    state: Arc<QueryState>,
    run_id: Uuid,
    mut stop: watch::Receiver<StopRequest>,
) -> Result<QueryEnd> {
    state.message("Initializing sources");
    let open = open::open(definition, environment).await?;
    let claim = open.log.claim().clone();
    // Sources may wait long for brokers that do not answer; a stop need not.
    let mut driver = tokio::select! {
        driver = Driver::new(definition, environment, Arc::clone(&state), run_id, open) => driver?,
        () = asked_to_stop(&stop) => {
            claim.release().await?;
            return Ok(QueryEnd::Stopped);
        }
    };
    state.update(|snapshot| snapshot.is_started = true);
    let ended = match driver.run(definition.trigger, &mut stop).await {
        Err(error) if error.class() == ErrorClass::Fenced => return Err(driver.open.log.claim().explain(error).await),
        ended => ended?,
    };
    if let Some(maintenance) = driver.maintenance.take() {
        maintenance_result(maintenance.await);
    }
    driver.open.log.claim().release().await?;
    Ok(ended)
}

impl Driver {
    async fn new(
        definition: &QueryDefinition,
        environment: &TaskEnvironment,
        state: Arc<QueryState>,
        run_id: Uuid,
        mut open: OpenQuery,
    ) -> Result<Self> {
        let sources = open.sources.len();
        let (next_batch, logged, before, replay, watermark_ms, stored_conf) = match open.recovery.clone() {
            Recovery::Fresh => (0, vec![None; sources], None, None, 0, None),
            Recovery::Next { batch, last, watermark_ms } => {
                (batch, last.offsets.clone(), Some(last.offsets), None, watermark_ms, Some(last.conf))
            }
            Recovery::Replay { batch, plan, before } => {
                let starts = before.map_or_else(|| vec![None; sources], |entry| entry.offsets);
                let newest = Some(plan.offsets.clone());
                (batch, starts, newest, Some(plan.clone()), plan.watermark_ms, Some(plan.conf))
            }
        };
        let mut starts = logged.clone();
        for (at, open) in open.sources.iter_mut().enumerate() {
            let newest = before.as_ref().and_then(|offsets| offsets[at].as_ref());
            open.source.open(newest).await?;
            if starts[at].is_none() {
                let outage = open.source.outage();
                starts[at] = shown(&state, &outage, open.source.initial_offset()).await?;
            }
        }
        // Nothing of this run is true of the world before each source has answered once.
        for open in &mut open.sources {
            state.message(&getting_offsets(&*open.source));
            let outage = open.source.outage();
            shown(&state, &outage, open.source.reach()).await?;
        }
        // What the checkpoint pinned wins over the job's settings, as in Spark.
        let (session, overridden) = match &stored_conf {
            Some(stored) => definition.session.with_pinned(stored),
            None => (definition.session.clone(), Vec::new()),
        };
        if !overridden.is_empty() {
            tracing::warn!(?overridden, "settings pinned in the checkpoint win over the job's conf");
        }
        let policy = match session.multiple_watermark_policy {
            MultipleWatermarkPolicy::Max => WatermarkPolicy::Max,
            MultipleWatermarkPolicy::Min => WatermarkPolicy::Min,
        };
        let query_id = open.log.query_id();
        state.update(|snapshot| snapshot.id = Some(query_id));
        let driver = Self {
            reporter: Reporter::new(definition, query_id, run_id, session.no_data_progress_event_interval, Arc::clone(&state)),
            conf: session.pinned(),
            retain: u64::from(session.min_batches_to_retain.max(1)),
            polling_ms: i64::try_from(session.polling_delay.as_millis()).unwrap_or(i64::MAX),
            tracker: WatermarkTracker::new(policy, watermark_ms),
            environment: environment.clone(),
            open,
            state,
            next_batch,
            logged,
            starts,
            replay,
            fence_checked: None,
            maintenance: None,
        };
        driver.open.log.purge_all(next_batch, driver.retain).await?;
        driver.reporter.started(driver.now());
        Ok(driver)
    }

    fn now(&self) -> i64 {
        self.environment.clock.now_ms()
    }

    async fn run(&mut self, trigger: Trigger, stop: &mut watch::Receiver<StopRequest>) -> Result<QueryEnd> {
        match trigger {
            Trigger::ProcessingTime(interval) => loop {
                if stopping(stop) {
                    return Ok(QueryEnd::Stopped);
                }
                let started_ms = self.now();
                let ran = self.trigger(ReadLimits::Apply, stop).await?;
                match wait_after(interval, started_ms, self.now(), ran, self.polling_ms) {
                    Wait::Now => tokio::task::yield_now().await,
                    Wait::Until(until) => self.wait_until(until, stop, ran).await,
                }
            },
            Trigger::AvailableNow => {
                let mut single = false;
                for open in &mut self.open.sources {
                    single |= open.source.freeze_available_now().await? == AvailableNow::SingleBatch;
                }
                if single {
                    tracing::warn!("a source cannot freeze its end: availableNow runs one batch, as once does");
                    return self.single_batch(stop).await;
                }
                loop {
                    if stopping(stop) {
                        return Ok(QueryEnd::Stopped);
                    }
                    if !self.trigger(ReadLimits::Apply, stop).await? && !stopping(stop) {
                        return Ok(QueryEnd::Completed);
                    }
                }
            }
            Trigger::Once => self.single_batch(stop).await,
        }
    }

    async fn single_batch(&mut self, stop: &watch::Receiver<StopRequest>) -> Result<QueryEnd> {
        let ran = self.trigger(ReadLimits::Ignore, stop).await?;
        Ok(if !ran && stopping(stop) { QueryEnd::Stopped } else { QueryEnd::Completed })
    }

    async fn wait_until(&mut self, until_ms: i64, stop: &mut watch::Receiver<StopRequest>, ran: bool) {
        self.state.message(if ran { "Waiting for next trigger" } else { "Waiting for data to arrive" });
        let millis = u64::try_from(until_ms - self.now()).unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(millis)) => {}
            // A closed channel means that the task is gone; the loop sees it as a stop.
            _ = stop.wait_for(|request| *request != StopRequest::None) => {}
        }
    }

    /// One trigger; true when a batch was executed.
    async fn trigger(&mut self, limits: ReadLimits, stop: &watch::Receiver<StopRequest>) -> Result<bool> {
        self.state.update(|snapshot| snapshot.status.is_trigger_active = true);
        let begun = Instant::now();
        let ran = self.active_trigger(limits, stop).await;
        self.state.update(|snapshot| {
            snapshot.status.is_trigger_active = false;
            snapshot.triggers += 1;
            snapshot.trigger_time += begun.elapsed();
        });
        ran
    }

    async fn active_trigger(&mut self, limits: ReadLimits, stop: &watch::Receiver<StopRequest>) -> Result<bool> {
        let mut report = TriggerReport::begin(self.now(), self.next_batch);
        let plan = match self.replay.take() {
            Some(plan) => Some(plan),
            None => self.plan(limits, &mut report, stop).await?,
        };
        let Some(plan) = plan else {
            if stopping(stop) {
                return Ok(false);
            }
            self.state.update(|snapshot| snapshot.status.is_data_available = false);
            self.report_idle(report).await?;
            return Ok(false);
        };
        self.state.update(|snapshot| {
            snapshot.status.is_data_available = true;
            "Processing new data".clone_into(&mut snapshot.status.message);
        });
        let Some(outcome) = self.execute(&plan, &mut report, stop).await? else { return Ok(false) };
        self.finish(plan, outcome, report).await?;
        Ok(true)
    }

    /// Plans the next batch and writes it ahead; `None` when nothing is new, or
    /// when a stop came while a source was asked.
    async fn plan(
        &mut self,
        limits: ReadLimits,
        report: &mut TriggerReport,
        stop: &watch::Receiver<StopRequest>,
    ) -> Result<Option<OffsetEntry>> {
        self.look_at_fence().await?;
        failpoint::hit("batch.source-log.before")?;
        let now_ms = self.now();
        let mut ends = Vec::with_capacity(self.starts.len());
        let mut is_new = false;
        let timer = Instant::now();
        for (at, open) in self.open.sources.iter_mut().enumerate() {
            self.state.message(&getting_offsets(&*open.source));
            let outage = open.source.outage();
            let planned = tokio::select! {
                biased;
                planned = shown(&self.state, &outage, open.source.plan(self.starts[at].as_ref(), limits, now_ms)) => planned?,
                () = asked_to_stop(stop) => return Ok(None),
            };
            is_new |= planned.end.is_some() && planned.end != self.logged[at];
            ends.push(planned.end.or_else(|| self.logged[at].clone()));
            report.latest.push(planned.latest);
        }
        report.time("latestOffset", timer);
        if !is_new {
            return Ok(None);
        }
        failpoint::hit("batch.source-log.after")?;
        self.state.message("Writing offsets to log");
        let timer = Instant::now();
        let entry = OffsetEntry { watermark_ms: self.tracker.current_ms(), timestamp_ms: now_ms, conf: self.conf.clone(), offsets: ends };
        let entry = match self.open.log.plan(self.next_batch, &entry).await? {
            Planned::AsProposed => entry,
            Planned::Stored(stored) => stored,
        };
        for (at, open) in self.open.sources.iter_mut().enumerate() {
            if let Some(end) = &self.logged[at] {
                open.source.commit(end).await?;
            }
        }
        self.open.log.purge(self.next_batch, self.retain).await?;
        report.time("walCommit", timer);
        Ok(Some(entry))
    }

    /// Executes the plan and commits the sink; `None` when a stop found a service that does not answer. The next run
    /// then runs the batch as planned.
    async fn execute(
        &mut self,
        plan: &OffsetEntry,
        report: &mut TriggerReport,
        stop: &watch::Receiver<StopRequest>,
    ) -> Result<Option<BatchOutcome>> {
        self.open.log.fence().check().await?;
        failpoint::hit("batch.refence.after")?;
        if self.open.sink_recorded.is_some_and(|recorded| recorded >= self.next_batch) {
            tracing::info!(batch = self.next_batch, "the sink has recorded the batch already; it is skipped");
            return Ok(Some(BatchOutcome::skipped(self.open.sources.len())));
        }
        let timer = Instant::now();
        let mut partitions: Partitions = Vec::new();
        for (at, open) in self.open.sources.iter_mut().enumerate() {
            let Some(end) = &plan.offsets[at] else { continue };
            if self.starts[at].as_ref() == Some(end) {
                continue;
            }
            let readers = tokio::select! {
                biased;
                readers = open.source.partitions(self.starts[at].as_ref(), end, &self.open.scans[at].scan) => readers?,
                () = stopped_with_patience(stop) => return Ok(None),
            };
            partitions.extend(readers.into_iter().map(|reader| (at, reader)));
        }
        report.time("getBatch", timer);
        report.time("queryPlanning", Instant::now());
        let timer = Instant::now();
        let batch = BatchId { query_id: self.open.log.query_id(), batch: self.next_batch, epoch: self.environment.epoch };
        let (state, outage) = (Arc::clone(&self.state), self.open.sink.outage());
        let OpenQuery { log, lanes, sink, bad_records, scans, sources, .. } = &mut self.open;
        let mut outcome = tokio::select! {
            biased;
            outcome = shown(&state, &outage, batch::execute(lanes, sink, bad_records.as_ref(), scans, partitions, batch.clone(), plan.timestamp_ms)) => outcome?,
            () = stopped_in_silence(stop, sources, sink) => {
                tracing::warn!(batch = batch.batch, "a service does not answer, so the stop does not wait for the batch; the next run runs it as planned");
                return Ok(None);
            }
        };
        if let Some(bad_records) = bad_records {
            bad_records.commit(&batch, std::mem::take(&mut outcome.bad_parts), log).await?;
        }
        let parts = std::mem::take(&mut outcome.parts);
        outcome.rows_written = parts.iter().map(|part| part.rows).sum();
        let committed = tokio::select! {
            biased;
            committed = shown(&state, &outage, sink.commit(&batch, parts)) => committed?,
            () = stopped_in_silence(stop, &mut [], sink) => {
                tracing::warn!(batch = batch.batch, "the sink does not answer, so the stop does not wait for its commit; the next run asks it how that ended");
                return Ok(None);
            }
        };
        if committed == Committed::Before {
            tracing::info!(batch = batch.batch, "the sink had recorded the batch already");
        }
        report.time("addBatch", timer);
        Ok(Some(outcome))
    }

    /// Commits the log and reports.
    async fn finish(&mut self, plan: OffsetEntry, outcome: BatchOutcome, mut report: TriggerReport) -> Result<()> {
        let delays = self.open.sources.iter().enumerate();
        let watermark_in_force = plan.watermark_ms;
        self.tracker
            .advance(delays.filter_map(|(at, open)| open.watermark_delay_ms.map(|delay| (at, delay, outcome.event_times[at].max_ms()))));
        let timer = Instant::now();
        self.open.log.commit(self.next_batch, &CommitEntry { next_watermark_ms: self.tracker.current_ms() }).await?;
        report.time("commitOffsets", timer);
        report.committed(self.now());
        let starts = std::mem::replace(&mut self.logged, plan.offsets.clone());
        for (start, end) in self.starts.iter_mut().zip(&plan.offsets) {
            if end.is_some() {
                start.clone_from(end);
            }
        }
        self.next_batch += 1;
        self.fence_checked = None;
        let ends = self.logged.clone();
        let with_watermark = self.open.sources.iter().any(|open| open.watermark_delay_ms.is_some());
        let watermark = with_watermark.then_some(watermark_in_force);
        self.reporter.batch(report, &mut self.open, &starts, &ends, watermark, outcome).await?;
        self.maintain();
        Ok(())
    }

    async fn report_idle(&mut self, report: TriggerReport) -> Result<()> {
        let with_watermark = self.open.sources.iter().any(|open| open.watermark_delay_ms.is_some());
        let watermark = with_watermark.then_some(self.tracker.current_ms());
        let ended_ms = self.now();
        self.reporter.idle(report, ended_ms, &mut self.open, &self.logged, watermark).await
    }

    /// Looks at the fence before planning: always after a batch, and at least
    /// once a second while idle, so that polling does not list without end.
    async fn look_at_fence(&mut self) -> Result<()> {
        let is_due = self.fence_checked.is_none_or(|at| at.elapsed() >= Duration::from_secs(1));
        if is_due {
            self.open.log.fence().check().await?;
            self.fence_checked = Some(Instant::now());
        }
        failpoint::hit("batch.fence.after")
    }

    /// Starts the sinks' housekeeping for the batch just committed, unless the
    /// last one is still at it.
    fn maintain(&mut self) {
        if self.maintenance.as_ref().is_some_and(|running| !running.is_finished()) {
            return;
        }
        let sink: Arc<dyn Sink> = Arc::clone(&self.open.sink);
        let batch = self.next_batch - 1;
        let bad_records = self.open.bad_records.clone();
        self.maintenance = Some(tokio::spawn(async move {
            let maintained = sink.maintain(batch).await;
            if let Some(bad_records) = bad_records {
                bad_records.maintain(batch).await?;
            }
            maintained
        }));
    }
}

fn maintenance_result(result: std::result::Result<Result<()>, tokio::task::JoinError>) {
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "housekeeping of the sink failed; it is tried again later"),
        Err(error) => tracing::warn!(%error, "housekeeping of the sink ended early"),
    }
}

async fn asked_to_stop(stop: &watch::Receiver<StopRequest>) {
    // A closed channel means that the task is gone: a stop as well.
    let _ = stop.clone().wait_for(|request| *request != StopRequest::None).await;
}

/// A stop that finds a service silent. What it owes may come late or never.
async fn stopped_in_silence(stop: &watch::Receiver<StopRequest>, sources: &mut [OpenSource], sink: &Arc<dyn Sink>) {
    asked_to_stop(stop).await;
    while !sink.is_silent() && !sources.iter().any(|open| open.source.is_silent()) {
        tokio::time::sleep(LOOK_FOR_SILENCE).await;
    }
}

/// A stop, with some time for a question that was asked before it.
async fn stopped_with_patience(stop: &watch::Receiver<StopRequest>) {
    asked_to_stop(stop).await;
    tokio::time::sleep(STOP_PATIENCE).await;
}

/// Waits for a source or sink, and has the status say as long who does not answer it.
async fn shown<T>(state: &QueryState, outage: &Outage, question: impl Future<Output = T>) -> T {
    tokio::pin!(question);
    let mut before: Option<String> = None;
    loop {
        tokio::select! {
            biased;
            answer = &mut question => {
                if let Some(message) = before {
                    state.message(&message);
                }
                return answer;
            }
            () = tokio::time::sleep(LOOK_FOR_SILENCE) => match outage.words() {
                Some(words) => {
                    before.get_or_insert_with(|| state.snapshot().status.message.clone());
                    state.message(&words);
                }
                None => {
                    if let Some(message) = before.take() {
                        state.message(&message);
                    }
                }
            }
        }
    }
}

fn getting_offsets(source: &dyn Source) -> String {
    format!("Getting offsets from {}", source.description())
}

fn stopping(stop: &watch::Receiver<StopRequest>) -> bool {
    *stop.borrow() != StopRequest::None || stop.has_changed().is_err()
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    #[tokio::test]
    async fn who_does_not_answer_is_shown_while_it_is_waited_for() {
        let state = QueryState::new("q", Uuid::nil(), 1, broadcast::channel(1).0);
        let outage = Outage::default();
        assert_eq!(shown(&state, &outage, async { 1 }).await, 1);
        outage.goes_on("the Kafka servers k:1 do not answer".to_owned());
        let told = async {
            while !state.snapshot().status.message.contains("k:1") {
                tokio::task::yield_now().await;
            }
        };
        state.message("Processing new data");
        shown(&state, &outage, told).await;
        assert_eq!(state.snapshot().status.message, "Processing new data", "it is over");
    }
}
