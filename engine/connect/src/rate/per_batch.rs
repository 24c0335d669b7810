//! `rate-micro-batch`: every trigger makes the same number of rows.
//!
//! Offset `{"offset":N,"timestamp":ms}`: the next value and the timestamp of
//! the next batch's rows (Spark's `RatePerMicroBatchStream`). All rows of a
//! batch carry the timestamp of its start. `availableNow` is one step.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use weir_core::checkpoint::entries::object;
use weir_core::{Error, Offset, Result};

use super::{ValueReader, described_partitions, partition_count, positive};
use crate::open::SourcePlace;
use crate::options::{Options, invalid};
use crate::source::{AvailableNow, Backlog, PartitionReader, PlannedRange, PreparedSource, ReadLimits, Scan, Source};

/// Position of a `rate-micro-batch` source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    offset: i64,
    timestamp: i64,
}

impl Position {
    fn of(offset: &Offset) -> Result<Self> {
        let read = object::<Self>(offset.json().as_bytes());
        read.and_then(|read| if read.offset >= 0 && read.timestamp >= 0 { Ok(read) } else { Err("a number is negative".to_owned()) }).map_err(|e| {
            Error::incompatible(
                "INVALID_SOURCE_OFFSET",
                format!("the checkpoint holds the offset {offset} where the rate-micro-batch source keeps offset and timestamp; use the checkpoint of this source or a new checkpointLocation"),
            )
            .with_source(e)
        })
    }

    fn to_offset(self) -> Offset {
        Offset::new(format!("{{\"offset\":{},\"timestamp\":{}}}", self.offset, self.timestamp))
    }
}

/// What a run cannot read of the newest offset; there is no log.
pub fn damage(last: Option<&Offset>) -> Result<()> {
    last.map(Position::of).transpose().map(drop)
}

/// The `rate-micro-batch` source.
#[derive(Debug)]
pub struct RatePerBatchSource {
    rows_per_batch: u64,
    partitions: u64,
    described_partitions: String,
    start_timestamp_ms: i64,
    advance_ms: i64,
    available_now: Option<Freeze>,
}

/// Where an `availableNow` run ends.
#[derive(Clone, Copy, Debug)]
enum Freeze {
    AtNextPlan,
    At(Position),
}

impl RatePerBatchSource {
    /// Reads the options.
    pub fn new(options: &Options) -> Result<Self> {
        let not_negative = |name: &str, default: i64| -> Result<i64> {
            let value = options.number(name, "must be a whole number of milliseconds")?.unwrap_or(default);
            if value < 0 { Err(invalid(name, &value.to_string(), "must not be negative")) } else { Ok(value) }
        };
        Ok(Self {
            rows_per_batch: positive(options, "rowsPerBatch", 0)?,
            partitions: partition_count(options)?,
            described_partitions: described_partitions(options),
            start_timestamp_ms: not_negative("startTimestamp", 0)?,
            advance_ms: not_negative("advanceMillisPerBatch", 1000)?,
            available_now: None,
        })
    }

    fn beginning(&self) -> Position {
        Position { offset: 0, timestamp: self.start_timestamp_ms }
    }

    fn position(&self, start: Option<&Offset>) -> Result<Position> {
        start.map_or_else(|| Ok(self.beginning()), Position::of)
    }

    fn step(&self, start: Position) -> Position {
        Position {
            offset: start.offset.saturating_add(i64::try_from(self.rows_per_batch).unwrap_or(i64::MAX)),
            timestamp: start.timestamp.saturating_add(self.advance_ms),
        }
    }
}

#[async_trait]
impl PreparedSource for RatePerBatchSource {
    fn schema(&self) -> SchemaRef {
        super::schema()
    }

    async fn bind(self: Box<Self>, _place: SourcePlace) -> Result<Box<dyn Source>> {
        Ok(self)
    }
}

#[async_trait]
impl Source for RatePerBatchSource {
    fn schema(&self) -> SchemaRef {
        super::schema()
    }

    fn description(&self) -> String {
        format!(
            "RatePerMicroBatchStream[rowsPerBatch={}, numPartitions={}, startTimestamp={}, advanceMsPerBatch={}]",
            self.rows_per_batch, self.described_partitions, self.start_timestamp_ms, self.advance_ms
        )
    }

    async fn open(&mut self, last: Option<&Offset>) -> Result<()> {
        last.map(Position::of).transpose().map(|_| ())
    }

    async fn initial_offset(&mut self) -> Result<Option<Offset>> {
        Ok(Some(self.beginning().to_offset()))
    }

    async fn freeze_available_now(&mut self) -> Result<AvailableNow> {
        self.available_now = Some(Freeze::AtNextPlan);
        Ok(AvailableNow::Frozen)
    }

    async fn plan(&mut self, start: Option<&Offset>, _limits: ReadLimits, _now_ms: i64) -> Result<PlannedRange> {
        let start = self.position(start)?;
        let end = match self.available_now {
            None => self.step(start),
            Some(Freeze::AtNextPlan) => self.step(start),
            Some(Freeze::At(end)) => end,
        };
        if self.available_now.is_some() {
            self.available_now = Some(Freeze::At(end));
        }
        Ok(PlannedRange { end: Some(end.to_offset()), latest: None })
    }

    async fn partitions(&mut self, start: Option<&Offset>, end: &Offset, scan: &Scan) -> Result<Vec<Box<dyn PartitionReader>>> {
        let start = self.position(start)?;
        let end = Position::of(end)?;
        if start.offset >= end.offset {
            return Ok(Vec::new());
        }
        let step = i64::try_from(self.partitions).unwrap_or(i64::MAX);
        let readers = (0..self.partitions).map(|partition| {
            let reader = ValueReader {
                next: start.offset.saturating_add(partition as i64),
                end: end.offset,
                step,
                range_start: start.offset,
                start_ms: start.timestamp,
                ms_per_value: 0.0,
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

    async fn backlog(&mut self, _processed: Option<&Offset>, _now_ms: i64) -> Result<Backlog> {
        Ok(Backlog::default())
    }
}
