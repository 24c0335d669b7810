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
use arrow::datatypes::{DataType, Int64Type, Schema, TimeUnit, TimestampMicrosecondType};
use weir_core::progress::iso_timestamp;
use weir_core::{Error, Result};
use weir_crds::finding::nearest;

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

/// Where a watermark's column is among a source's; refuses one that is not there or holds no timestamps.
pub fn event_column(source: &str, column: &str, schema: &Schema, case: Case) -> Result<usize> {
    let fields = schema.fields();
    let exact = fields.iter().position(|field| field.name() == column);
    let found = exact.or_else(|| fields.iter().position(|field| case == Case::Ignored && field.name().eq_ignore_ascii_case(column)));
    let Some(at) = found else {
        let names = fields.iter().map(|field| field.name().as_str());
        let meant = nearest(column, names.clone()).map_or_else(String::new, |name| format!("did you mean `{name}`? "));
        let known = names.collect::<Vec<_>>().join(", ");
        return Err(Error::config(
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            format!("the watermark of source {source} names the column `{column}`, which it does not have; {meant}Its columns are {known}"),
        ));
    };
    match fields[at].data_type() {
        DataType::Timestamp(_, _) => Ok(at),
        other => Err(Error::config(
            "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE",
            format!(
                "the watermark of source {source} names the column `{column}`, which has the type {}, but a watermark is on a TIMESTAMP; \
                 declare the column as TIMESTAMP in the source's schema, or name another one",
                weir_sql::types::quoted_type(other)
            ),
        )),
    }
}

/// Whether names of columns compare with case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `spark.sql.caseSensitive`.
    Counts,
    /// As by default.
    Ignored,
}

fn event_times(batch: &RecordBatch, column: usize) -> Result<arrow::array::ArrayRef> {
    let array = batch.column(column);
    let unit = DataType::Timestamp(TimeUnit::Microsecond, None);
    let zone = match array.data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    // Dropping the zone keeps the instant, which is what counts here.
    let ticks = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, zone)).and_then(|micros| cast(&micros, &DataType::Int64));
    let instants = ticks.and_then(|ticks| cast(ticks.as_primitive::<Int64Type>(), &unit));
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
    fn a_watermark_is_on_a_timestamp_that_is_there() {
        use arrow::datatypes::Field;
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let schema = Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("ts", timestamp, true)]);
        let find = |column: &str, case| event_column("events", column, &schema, case);
        assert_eq!((find("ts", Case::Counts).unwrap(), find("TS", Case::Ignored).unwrap()), (1, 1));
        let refused = |column: &str, case| find(column, case).unwrap_err().to_string();
        for text in [refused("tss", Case::Ignored), refused("TS", Case::Counts)] {
            assert!(text.starts_with("[UNRESOLVED_COLUMN.WITH_SUGGESTION]") && text.contains("`ts`") && text.contains("k, ts"), "{text}");
        }
        let text = refused("k", Case::Ignored);
        assert!(text.starts_with("[EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE]") && text.contains("STRING"), "{text}");
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
