//! `rate`: so many rows a second since the source was created.
//!
//! Offset: whole seconds since the creation time, a bare number. The creation
//! time is entry 0 of the source's log (`v1` and a bare number of
//! milliseconds, as Spark's `RateStreamMicroBatchStream` writes it), so a
//! restart goes on counting. With `rampUpTime` the speed grows by the same step
//! each second. The end cannot be frozen: `availableNow` is one batch.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use weir_core::checkpoint::numbered::LATEST_MS;
use weir_core::checkpoint::{Appended, FencedLog};
use weir_core::{Error, Offset, Result};
use weir_crds::duration::{TimeUnit, parse_time_string};

use super::{ValueReader, described_partitions, partition_count, positive};
use crate::open::SourcePlace;
use crate::options::Options;
use crate::source::{AvailableNow, Backlog, PartitionReader, PlannedRange, PreparedSource, ReadLimits, Scan, Source};

/// The seconds up to the last moment.
const LATEST_S: u64 = (LATEST_MS / 1000).cast_unsigned();

/// The speed of a rate source over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// Rows a second once at full speed.
    pub rows_per_second: u64,
    /// Seconds until full speed.
    pub ramp_up_seconds: u64,
}

impl Speed {
    /// The first value that is not yet produced after `seconds`; `None` when
    /// it does not fit into a `bigint`.
    pub fn value_at(self, seconds: u64) -> Option<i64> {
        let step = u128::from(self.rows_per_second / self.ramp_up_seconds.saturating_add(1));
        let ramp = u128::from(seconds.min(self.ramp_up_seconds));
        let after = u128::from(seconds - seconds.min(self.ramp_up_seconds));
        let value = step * ramp * (ramp + 1) / 2 + after * u128::from(self.rows_per_second);
        i64::try_from(value).ok()
    }
}

/// What the options say.
#[derive(Clone, Debug)]
pub struct RateOptions {
    speed: Speed,
    partitions: u64,
    described_partitions: String,
}

/// The `rate` source.
#[derive(Debug)]
pub struct RateSource {
    options: RateOptions,
    log: FencedLog,
    created_ms: Option<i64>,
    /// The latest time seen; the clock may go backwards, offsets may not.
    last_ms: i64,
    last_offset: Option<u64>,
}

impl RateOptions {
    /// Reads the options.
    pub fn parse(options: &Options) -> Result<Self> {
        let rows_per_second = positive(options, "rowsPerSecond", 1)?;
        let ramp = options.get("rampUpTime").unwrap_or("0s");
        let ramp_up_seconds = parse_time_string(ramp, TimeUnit::Seconds)
            .map_err(|e| Error::config("INVALID_OPTION_VALUE", format!("Invalid value '{ramp}'. The option 'rampUpTime': {e}")))?
            .as_secs();
        Ok(Self {
            speed: Speed { rows_per_second, ramp_up_seconds },
            partitions: partition_count(options)?,
            described_partitions: described_partitions(options),
        })
    }
}

#[async_trait]
impl PreparedSource for RateOptions {
    fn schema(&self) -> SchemaRef {
        super::schema()
    }

    async fn bind(self: Box<Self>, place: SourcePlace) -> Result<Box<dyn Source>> {
        Ok(Box::new(RateSource::new(*self, place.log)))
    }
}

impl RateSource {
    /// A source over its log; nothing is written before the first plan.
    pub fn new(options: RateOptions, log: FencedLog) -> Self {
        Self { options, log, created_ms: None, last_ms: i64::MIN, last_offset: None }
    }

    async fn created_ms(&mut self, now_ms: i64) -> Result<i64> {
        if let Some(created) = self.created_ms {
            return Ok(created);
        }
        let log = &self.log;
        let created = match stored_creation(log).await? {
            Some(stored) => stored,
            None => match log.append("0", format!("v1\n{now_ms}")).await? {
                Appended::New => now_ms,
                Appended::Stored(stored) => parse_creation(&stored, log.folder().url())?,
            },
        };
        self.created_ms = Some(created);
        self.last_ms = self.last_ms.max(created);
        Ok(created)
    }
}

/// The offset of a number of seconds.
fn offset(seconds: u64) -> Offset {
    Offset::new(seconds.to_string())
}

/// Reads an offset of this source.
fn seconds_of(offset: &Offset) -> Result<u64> {
    offset.json().trim().parse().ok().filter(|seconds| *seconds <= LATEST_S).ok_or_else(|| {
        Error::incompatible(
            "INVALID_SOURCE_OFFSET",
            format!("the checkpoint holds the offset {offset} where the rate source keeps a number of seconds; use the checkpoint of this source or a new checkpointLocation"),
        )
    })
}

async fn stored_creation(log: &FencedLog) -> Result<Option<i64>> {
    log.read("0").await?.map(|stored| parse_creation(&stored, log.folder().url())).transpose()
}

/// What a run cannot read of the log of a source with this newest offset.
pub async fn damage(log: &FencedLog, last: Option<&Offset>) -> Result<()> {
    last.map(seconds_of).transpose()?;
    match stored_creation(log).await? {
        None if last.is_some() => Err(creation_is_gone(log)),
        _ => Ok(()),
    }
}

fn creation_is_gone(log: &FencedLog) -> Error {
    let url = log.folder().url();
    let text = format!("{url}/0, the creation time of the rate source, is gone; restore the file or use a new checkpointLocation");
    Error::incompatible("DAMAGED_SOURCE_LOG", text)
}

fn parse_creation(stored: &[u8], log: &url::Url) -> Result<i64> {
    let text = String::from_utf8_lossy(stored);
    text.strip_prefix("v1\n").and_then(|number| number.trim().parse().ok()).filter(|ms| (0..=LATEST_MS).contains(ms)).ok_or_else(|| {
        Error::incompatible(
            "DAMAGED_SOURCE_LOG",
            format!("{log}/0 should hold 'v1' and the creation time of a rate source; restore the file or use a new checkpointLocation"),
        )
    })
}

#[async_trait]
impl Source for RateSource {
    fn schema(&self) -> SchemaRef {
        super::schema()
    }

    // The missing closing bracket is Spark's.
    fn description(&self) -> String {
        format!(
            "RateStreamV2[rowsPerSecond={}, rampUpTimeSeconds={}, numPartitions={}",
            self.options.speed.rows_per_second, self.options.speed.ramp_up_seconds, self.options.described_partitions
        )
    }

    async fn open(&mut self, last: Option<&Offset>) -> Result<()> {
        self.last_offset = last.map(seconds_of).transpose()?;
        Ok(())
    }

    async fn initial_offset(&mut self) -> Result<Option<Offset>> {
        Ok(Some(offset(0)))
    }

    async fn freeze_available_now(&mut self) -> Result<AvailableNow> {
        Ok(AvailableNow::SingleBatch)
    }

    async fn plan(&mut self, start: Option<&Offset>, _limits: ReadLimits, now_ms: i64) -> Result<PlannedRange> {
        let created = self.created_ms(now_ms).await?;
        self.last_ms = self.last_ms.max(now_ms);
        let elapsed = u64::try_from((self.last_ms - created) / 1000).unwrap_or(0);
        let start = start.map(seconds_of).transpose()?.unwrap_or(0);
        let end = elapsed.max(start).max(self.last_offset.unwrap_or(0));
        Ok(PlannedRange { end: Some(offset(end)), latest: None })
    }

    async fn partitions(&mut self, start: Option<&Offset>, end: &Offset, scan: &Scan) -> Result<Vec<Box<dyn PartitionReader>>> {
        let start = start.map(seconds_of).transpose()?.unwrap_or(0);
        let end = seconds_of(end)?;
        let (Some(first), Some(last)) = (self.options.speed.value_at(start), self.options.speed.value_at(end)) else {
            let text = format!(
                "Integer overflow. Max offset with {} rowsPerSecond is {}, but it's {end} now.",
                self.options.speed.rows_per_second,
                i64::MAX as u64 / self.options.speed.rows_per_second
            );
            return Err(Error::config("ARITHMETIC_OVERFLOW", text));
        };
        if first >= last || start >= end {
            return Ok(Vec::new());
        }
        let Some(created) = self.created_ms.or(stored_creation(&self.log).await?) else { return Err(creation_is_gone(&self.log)) };
        let start_ms = created.saturating_add((start as i64).saturating_mul(1000));
        let ms_per_value = (end - start) as f64 * 1000.0 / (last - first) as f64;
        let step = i64::try_from(self.options.partitions).unwrap_or(i64::MAX);
        let readers = (0..self.options.partitions).map(|partition| {
            let reader = ValueReader {
                next: first.saturating_add(partition as i64),
                end: last,
                step,
                range_start: first,
                start_ms,
                ms_per_value,
                scan: scan.clone(),
            };
            Box::new(reader) as Box<dyn PartitionReader>
        });
        Ok(readers.collect())
    }

    async fn commit(&mut self, _end: &Offset) -> Result<()> {
        Ok(())
    }

    fn metrics(&self, _end: Option<&Offset>, _latest: Option<&Offset>) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    async fn backlog(&mut self, processed: Option<&Offset>, now_ms: i64) -> Result<Backlog> {
        let processed = processed.map(seconds_of).transpose()?.unwrap_or(0);
        let Some(created) = self.created_ms else { return Ok(Backlog::default()) };
        let elapsed = u64::try_from((now_ms - created) / 1000).unwrap_or(0).max(processed);
        let records = match (self.options.speed.value_at(processed), self.options.speed.value_at(elapsed)) {
            (Some(first), Some(last)) => u64::try_from(last - first).ok(),
            _ => None,
        };
        let seconds = Some((elapsed - processed) as f64);
        Ok(Backlog { records, bytes: records.map(|records| records * 16), files: None, seconds })
    }
}
