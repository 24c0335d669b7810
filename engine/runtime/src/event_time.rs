//! Watermarks of a stateless query: observed, logged and reported.
//!
//! Each source with a watermark has its event times observed as its rows are
//! read. The watermark of the next batch is the greatest event time seen minus
//! the delay, never moving back; with several sources the policy (`min` by
//! default) picks one (Spark's `WatermarkTracker`). Nothing is dropped here:
//! late rows matter to stateful operators only.
//!
//! Null event times count as the epoch in the statistics, as Spark's
//! `EventTimeStats` makes of them.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use weir_core::progress::iso_timestamp;
use weir_core::{Error, Result};

/// Minimum, maximum and mean of the event times of a batch, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EventTimeStats {
    count: u64,
    min: i64,
    max: i64,
    mean: f64,
}

impl EventTimeStats {
    /// Adds one column of event times.
    pub fn observe(&mut self, batch: &RecordBatch, column: usize) -> Result<()> {
        let times = event_times(batch, column)?;
        let micros = times.as_primitive::<TimestampMicrosecondType>();
        for row in 0..micros.len() {
            let ms = if micros.is_null(row) { 0 } else { micros.value(row).div_euclid(1000) };
            self.add(ms);
        }
        Ok(())
    }

    fn add(&mut self, ms: i64) {
        self.min = if self.count == 0 { ms } else { self.min.min(ms) };
        self.max = if self.count == 0 { ms } else { self.max.max(ms) };
        self.count += 1;
        self.mean += (ms as f64 - self.mean) / self.count as f64;
    }

    /// Joins the statistics of another lane.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let total = self.count + other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.mean += (other.mean - self.mean) * (other.count as f64 / total as f64);
        self.count = total;
    }

    /// The greatest event time, ms.
    pub fn max_ms(&self) -> Option<i64> {
        (self.count > 0).then_some(self.max)
    }

    /// The keys `avg`, `max`, `min` of the progress record.
    pub fn report(&self, into: &mut BTreeMap<&'static str, String>) {
        if self.count > 0 {
            into.insert("avg", iso_timestamp(self.mean as i64));
            into.insert("max", iso_timestamp(self.max));
            into.insert("min", iso_timestamp(self.min));
        }
    }
}

fn event_times(batch: &RecordBatch, column: usize) -> Result<arrow::array::ArrayRef> {
    let array = batch.column(column);
    let unit = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
    // Dropping the zone keeps the instant, which is what counts here.
    let instants = match array.data_type() {
        DataType::Timestamp(_, _) => cast(array, &DataType::Int64).and_then(|ticks| cast(ticks.as_primitive::<Int64Type>(), &unit)),
        other => cast(array, &unit)
            .map_err(|_| arrow::error::ArrowError::SchemaError(format!("the watermark's column has type {other}, not a timestamp"))),
    };
    instants.map_err(|e| Error::config("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE", e.to_string()))
}

/// How several watermarks make one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatermarkPolicy {
    /// The slowest source decides.
    #[default]
    Min,
    /// The fastest source decides.
    Max,
}

/// The watermark across batches.
#[derive(Clone, Debug)]
pub struct WatermarkTracker {
    policy: WatermarkPolicy,
    current_ms: i64,
    by_source: BTreeMap<usize, i64>,
}

impl WatermarkTracker {
    /// Starts at a watermark from the checkpoint, 0 for a new query.
    pub fn new(policy: WatermarkPolicy, current_ms: i64) -> Self {
        Self { policy, current_ms, by_source: BTreeMap::new() }
    }

    /// The watermark in force, ms.
    pub fn current_ms(&self) -> i64 {
        self.current_ms
    }

    /// Takes the statistics of a finished batch: per source with a watermark
    /// its delay and what was seen.
    pub fn advance(&mut self, seen: impl IntoIterator<Item = (usize, i64, Option<i64>)>) {
        for (source, delay_ms, max_ms) in seen {
            let known = self.by_source.entry(source).or_insert(0);
            if let Some(max_ms) = max_ms {
                *known = (*known).max(max_ms.saturating_sub(delay_ms));
            }
        }
        let chosen = match self.policy {
            WatermarkPolicy::Min => self.by_source.values().min(),
            WatermarkPolicy::Max => self.by_source.values().max(),
        };
        if let Some(chosen) = chosen {
            self.current_ms = self.current_ms.max(*chosen);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::TimestampMicrosecondArray;
    use std::sync::Arc;

    fn batch(times: Vec<Option<i64>>) -> RecordBatch {
        let array = TimestampMicrosecondArray::from(times).with_timezone("UTC");
        RecordBatch::try_from_iter([("ts", Arc::new(array) as _)]).unwrap()
    }

    #[test]
    fn nulls_count_as_the_epoch() {
        let mut stats = EventTimeStats::default();
        stats.observe(&batch(vec![Some(1_704_067_200_000_000), None, None, None]), 0).unwrap();
        let mut report = BTreeMap::new();
        stats.report(&mut report);
        assert_eq!(report["avg"], "1983-07-02T18:00:00.000Z");
        assert_eq!(report["min"], "1970-01-01T00:00:00.000Z");
        assert_eq!(report["max"], "2024-01-01T00:00:00.000Z");
    }

    #[test]
    fn merging_is_observing_together() {
        let (mut a, mut b, mut whole) = (EventTimeStats::default(), EventTimeStats::default(), EventTimeStats::default());
        a.observe(&batch(vec![Some(1_000_000), Some(5_000_000)]), 0).unwrap();
        b.observe(&batch(vec![Some(9_000_000)]), 0).unwrap();
        whole.observe(&batch(vec![Some(1_000_000), Some(5_000_000), Some(9_000_000)]), 0).unwrap();
        a.merge(&b);
        assert_eq!((a.count, a.min, a.max, a.mean.round()), (whole.count, whole.min, whole.max, whole.mean.round()));
    }

    #[test]
    fn the_slowest_source_decides_and_time_never_goes_back() {
        let mut tracker = WatermarkTracker::new(WatermarkPolicy::Min, 0);
        tracker.advance([(0, 10, Some(100)), (1, 10, Some(50))]);
        assert_eq!(tracker.current_ms(), 40);
        tracker.advance([(0, 10, None), (1, 10, Some(20))]);
        assert_eq!(tracker.current_ms(), 40);
    }
}
