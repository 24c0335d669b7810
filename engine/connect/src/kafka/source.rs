//! The Kafka source: where a batch ends, which ranges it reads.
//!
//! Brings the decisions of `plan` together with the answers of `lookup`. The
//! initial offsets are stored in the source's log before anything is planned; a
//! stored entry wins over `startingOffsets`. Broker calls run on blocking
//! threads. An end may lie below the start only where the partition itself went
//! back (records deleted, topic created anew); reading such a range is data loss.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use weir_core::checkpoint::{Appended, FencedLog};
use weir_core::{Error, Offset, Result};

use super::errors;
use super::lookup::{Freshness, Lookup};
use super::offsets::{self, PartitionOffsets, TopicPartition};
use super::options::{DataLoss, KafkaSourceOptions, TopicSelection};
use super::peek::OldestUnread;
use super::plan::{self, Hold};
use super::pool::ConsumerPool;
use super::reader::{RangeReader, ReadPolicy};
use super::rows;
use super::starting::{self, End, StartingOffsets};
use crate::open::SourcePlace;
use crate::source::{
    AvailableNow, Backlog, Outage, PartitionReader, PlannedRange, PreparedSource, ReadLimits, RecordColumns, Scan, Source,
};

/// A streaming source over Kafka topics.
pub struct KafkaSource {
    options: Arc<KafkaSourceOptions>,
    log: FencedLog,
    schema: SchemaRef,
    lookup: Arc<Lookup>,
    pool: Arc<ConsumerPool>,
    unread: Arc<Mutex<OldestUnread>>,
    end: EndOfRun,
    last_batch_ms: i64,
}

/// How far this run goes.
enum EndOfRun {
    /// On and on.
    Open,
    /// `availableNow`; the end is fixed when the first batch is planned, after a planned one was re-run.
    ToBeFrozen,
    /// `availableNow`, fixed.
    Frozen(PartitionOffsets),
}

/// Validated options, with the client that asks the brokers once there is one.
pub struct PreparedKafka {
    options: KafkaSourceOptions,
    lookup: Option<Lookup>,
}

impl PreparedKafka {
    /// Refuses `kafka.*` settings that librdkafka does not take; opens no file and asks nobody.
    pub fn new(options: KafkaSourceOptions) -> Result<Self> {
        Lookup::check(&options)?;
        Ok(Self { options, lookup: None })
    }
}

#[async_trait]
impl PreparedSource for PreparedKafka {
    fn schema(&self) -> SchemaRef {
        rows::schema(self.options.headers)
    }

    fn record_columns(&self) -> Option<RecordColumns> {
        Some(rows::RECORD)
    }

    fn make_clients(&mut self) -> Result<()> {
        self.options.client = self.options.client.clone().loaded()?;
        self.lookup = Some(Lookup::new(&self.options)?);
        Ok(())
    }

    async fn bind(self: Box<Self>, place: SourcePlace) -> Result<Box<dyn Source>> {
        Ok(Box::new(KafkaSource::new(*self, place)?))
    }
}

impl KafkaSource {
    /// The source at its place, with certificates loaded; no broker is asked yet.
    pub fn new(prepared: PreparedKafka, place: SourcePlace) -> Result<Self> {
        let PreparedKafka { mut options, lookup } = prepared;
        options.client = options.client.loaded()?;
        let lookup = lookup.map_or_else(|| Lookup::new(&options), Ok)?;
        let group = options.group.of_reader(place.query_id);
        let pool = ConsumerPool::new(&options, &group);
        tracing::info!(source = %description(&options.topics), servers = options.client.servers(), group, limits = ?options.limits, queue_bytes = pool.queue_bytes(), "Kafka source");
        Ok(Self {
            schema: rows::schema(options.headers),
            lookup: Arc::new(lookup),
            pool: Arc::new(pool),
            unread: Arc::new(Mutex::new(OldestUnread::new(&options, &group))),
            log: place.log,
            end: EndOfRun::Open,
            last_batch_ms: 0,
            options: Arc::new(options),
        })
    }

    /// The most bytes that records fetched ahead take.
    pub fn queue_bytes(&self) -> usize {
        self.pool.queue_bytes()
    }

    /// Runs a question to the brokers on a blocking thread.
    async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&Lookup) -> Result<T> + Send + 'static) -> Result<T> {
        let lookup = Arc::clone(&self.lookup);
        on_blocking_thread(move || question(&lookup)).await
    }

    async fn start_or_initial(&mut self, start: Option<&Offset>) -> Result<PartitionOffsets> {
        match start {
            Some(offset) => offsets::from_checkpoint(offset),
            None => self.initial().await,
        }
    }

    async fn initial(&self) -> Result<PartitionOffsets> {
        if let Some(stored) = starting::stored(&self.log).await? {
            return Ok(stored);
        }
        let options = Arc::clone(&self.options);
        let resolved = self.ask(move |lookup| resolve_offsets(&options.starting, lookup, End::Starting)).await?;
        match self.log.append(starting::ENTRY, starting::to_entry(&resolved)).await? {
            Appended::New => Ok(resolved),
            Appended::Stored(entry) => starting::from_entry(&entry, &starting::place(&self.log)),
        }
    }

    async fn latest(&mut self, start: &PartitionOffsets) -> Result<PartitionOffsets> {
        if let EndOfRun::Frozen(end) = &self.end {
            return Ok(end.clone());
        }
        let freshness = if matches!(self.end, EndOfRun::Open) { Freshness::Recent } else { Freshness::Now };
        let known = start.clone();
        let latest = self.ask(move |lookup| lookup.latest_above(&known, freshness)).await?;
        if matches!(self.end, EndOfRun::ToBeFrozen) {
            self.end = EndOfRun::Frozen(latest.clone());
        }
        Ok(latest)
    }

    async fn end_of_batch(&mut self, start: &PartitionOffsets, latest: &PartitionOffsets, now_ms: i64) -> Result<PartitionOffsets> {
        let limits = self.options.limits;
        if let Some(min) = limits.min {
            match plan::hold_back(min, limits.max_delay_ms, start, latest, self.last_batch_ms, now_ms) {
                Hold::Wait => return Ok(start.clone()),
                Hold::Go => self.last_batch_ms = now_ms,
            }
        }
        let Some(max) = limits.max else { return Ok(latest.clone()) };
        let added = plan::new_partitions(start, latest);
        let mut from = start.clone();
        if !added.is_empty() {
            from.extend(self.ask(move |lookup| lookup.earliest_of_existing(&added)).await?);
        }
        Ok(plan::rate_limit(max, &from, latest))
    }

    fn report(&self, loss: Error) -> Result<()> {
        match self.options.data_loss {
            DataLoss::Fail => Err(loss),
            DataLoss::Warn => {
                tracing::warn!("{loss}; the query goes on, because failOnDataLoss is false");
                Ok(())
            }
        }
    }
}

/// The offsets that one end of a read stands for now.
pub(super) fn resolve_offsets(asked: &StartingOffsets, lookup: &Lookup, end: End) -> Result<PartitionOffsets> {
    let assigned = lookup.partitions(Freshness::Now)?;
    match asked {
        StartingOffsets::Earliest => lookup.earliest(&assigned),
        StartingOffsets::Latest => lookup.latest(&assigned),
        StartingOffsets::Specific(specified) => {
            starting::check_specific(specified, &assigned, end)?;
            let symbolic: Vec<TopicPartition> = specified.iter().filter(|(_, offset)| **offset < 0).map(|(p, _)| p.clone()).collect();
            let mut offsets = specified.clone();
            offsets.extend(lookup.at(&symbolic, |p| specified.get(p).copied().unwrap_or(starting::LATEST))?);
            Ok(offsets)
        }
        StartingOffsets::ByTimestamp(times, miss) => {
            starting::check_timestamps(times, &assigned, end)?;
            let time_of = |p: &TopicPartition| times.get(p).copied().unwrap_or_default();
            starting::settle_misses(lookup.at(&assigned, time_of)?, time_of, || lookup.latest(&assigned), *miss)
        }
        StartingOffsets::Timestamp(time, miss) => {
            starting::settle_misses(lookup.at(&assigned, |_| *time)?, |_| *time, || lookup.latest(&assigned), *miss)
        }
    }
}

fn description(topics: &TopicSelection) -> String {
    let inner = match topics {
        TopicSelection::Assign(partitions) => format!("Assign[{}]", errors::names(partitions)),
        TopicSelection::Subscribe(topics) => format!("Subscribe[{}]", topics.join(", ")),
        TopicSelection::Pattern(pattern) => format!("SubscribePattern[{}]", pattern.text()),
    };
    format!("KafkaV2[{inner}]")
}

pub(super) async fn on_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::retryable("INTERNAL_ERROR", "a question to the Kafka brokers was interrupted").with_source(error)),
    }
}

#[async_trait]
impl Source for KafkaSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn description(&self) -> String {
        description(&self.options.topics)
    }

    async fn open(&mut self, last: Option<&Offset>) -> Result<()> {
        last.map_or(Ok(()), |offset| offsets::from_checkpoint(offset).map(|_| ()))
    }

    async fn reach(&mut self) -> Result<()> {
        self.ask(Lookup::reach).await
    }

    fn outage(&self) -> Outage {
        self.lookup.outage().clone()
    }

    async fn initial_offset(&mut self) -> Result<Option<Offset>> {
        Ok(Some(offsets::to_offset(&self.initial().await?)))
    }

    async fn freeze_available_now(&mut self) -> Result<AvailableNow> {
        self.end = EndOfRun::ToBeFrozen;
        Ok(AvailableNow::Frozen)
    }

    async fn plan(&mut self, start: Option<&Offset>, limits: ReadLimits, now_ms: i64) -> Result<PlannedRange> {
        let start = self.start_or_initial(start).await?;
        let latest = self.latest(&start).await?;
        let end = match limits {
            ReadLimits::Ignore => latest.clone(),
            ReadLimits::Apply => self.end_of_batch(&start, &latest, now_ms).await?,
        };
        // A subscription that matches no topic yet has produced nothing; one that matches none any more has lost what it had.
        let stated = |offsets: &PartitionOffsets| (!offsets.is_empty() || !start.is_empty()).then(|| offsets::to_offset(offsets));
        Ok(PlannedRange { end: stated(&end), latest: stated(&latest) })
    }

    async fn partitions(&mut self, start: Option<&Offset>, end: &Offset, scan: &Scan) -> Result<Vec<Box<dyn PartitionReader>>> {
        let start = self.start_or_initial(start).await?;
        let end = offsets::from_checkpoint(end)?;
        // A batch planned by an earlier run is re-run before the end is fixed.
        if let EndOfRun::Frozen(frozen) = &self.end {
            plan::verify_frozen(frozen, &end)?;
            let known = end.clone();
            let latest = self.ask(move |lookup| lookup.latest_above(&known, Freshness::Recent)).await?;
            plan::verify_still_there(&latest, &end)?;
        }
        self.pool.expect(&end);
        let added = plan::new_partitions(&start, &end);
        let earliest = match added.is_empty() {
            true => PartitionOffsets::new(),
            false => self.ask(move |lookup| lookup.earliest_of_existing(&added)).await?,
        };
        let resolved = plan::resolve(&start, &end, &earliest, self.options.group.set_by());
        for loss in resolved.losses {
            self.report(loss.0)?;
        }
        let policy = ReadPolicy { data_loss: self.options.data_loss, poll_timeout: self.options.poll_timeout };
        let ranges = plan::split(resolved.ranges, self.options.min_partitions, self.options.max_records_per_partition);
        ranges
            .into_iter()
            .map(|range| {
                let reader = RangeReader::new(range, &self.schema, scan, Arc::clone(&self.pool), policy)?;
                Ok(Box::new(reader) as Box<dyn PartitionReader>)
            })
            .collect()
    }

    fn is_silent(&self) -> bool {
        self.pool.silence().is_there()
    }

    async fn commit(&mut self, _end: &Offset) -> Result<()> {
        Ok(())
    }

    fn metrics(&self, end: Option<&Offset>, latest: Option<&Offset>) -> BTreeMap<String, String> {
        let parsed = |offset: Option<&Offset>| offset.and_then(|offset| offsets::parse(offset.json()).ok());
        match (parsed(end), parsed(latest)) {
            (Some(end), Some(latest)) => plan::lag_metrics(&end, &latest),
            _ => BTreeMap::new(),
        }
    }

    async fn backlog(&mut self, processed: Option<&Offset>, now_ms: i64) -> Result<Backlog> {
        let Some(processed) = processed else { return Ok(Backlog::default()) };
        let processed = offsets::from_checkpoint(processed)?;
        let known = processed.clone();
        let latest = self.ask(move |lookup| lookup.latest_above(&known, Freshness::Recent)).await?;
        let lagging: PartitionOffsets = plan::lags(&processed, &latest)
            .into_iter()
            .filter(|(_, lag)| *lag > 0)
            .map(|(p, _)| {
                let at = processed.get(&p).copied().unwrap_or(0);
                (p, at)
            })
            .collect();
        let records: u64 = lagging.iter().map(|(p, at)| latest.get(p).map_or(0, |end| (end - at) as u64)).fold(0, u64::saturating_add);
        let bytes = if records == 0 { Some(0) } else { self.pool.sizes().mean().map(|mean| (records as f64 * mean) as u64) };
        let seconds = if records == 0 {
            Some(0.0)
        } else {
            let unread = Arc::clone(&self.unread);
            let oldest = on_blocking_thread(move || unread.lock().unwrap_or_else(PoisonError::into_inner).oldest(&lagging)).await?;
            oldest.map(|time| (now_ms - time).max(0) as f64 / 1000.0)
        };
        Ok(Backlog { records: Some(records), bytes, files: None, seconds })
    }
}
