//! The sources that need nothing outside: `rate` and `rate-micro-batch`.
//!
//! `per_second` counts whole seconds since a stored creation time,
//! `per_batch` gives every trigger the same number of rows. Both share their
//! columns (`timestamp`, `value bigint`) and the reader below: partition p of n
//! holds every n-th value. A range of offsets always yields the same rows.

mod per_batch;
mod per_second;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use weir_core::{Error, Result};

pub use per_batch::{RatePerBatchSource, damage as damage_per_batch};
pub use per_second::{RateOptions, RateSource, damage};

use crate::options::Options;
use crate::source::{PartitionReader, ReadCounters, Scan};

/// Partitions when the option is not set.
const DEFAULT_PARTITIONS: u64 = 2;

/// The columns of both sources.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("timestamp", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("value", DataType::Int64, true),
    ]))
}

fn must_be_positive(name: &str, value: &str) -> Error {
    Error::config("INVALID_OPTION_VALUE", format!("Invalid value '{value}'. The option '{name}' must be positive"))
}

/// A number above zero; Spark reports the default when the option is missing.
fn positive(options: &Options, name: &str, default: i64) -> Result<u64> {
    let text = options.get(name).map_or_else(|| default.to_string(), str::to_owned);
    let value: i64 = text.trim().parse().map_err(|_| must_be_positive(name, &text))?;
    u64::try_from(value).ok().filter(|value| *value > 0).ok_or_else(|| must_be_positive(name, &text))
}

fn partition_count(options: &Options) -> Result<u64> {
    positive(options, "numPartitions", DEFAULT_PARTITIONS.cast_signed())
}

/// How Spark's description shows an option that may be missing.
fn described_partitions(options: &Options) -> String {
    options.get("numPartitions").unwrap_or("default").to_owned()
}

/// Every `step`-th value of a range, and the timestamp of each.
struct ValueReader {
    next: i64,
    end: i64,
    step: i64,
    /// First value of the whole range, at `start_ms`.
    range_start: i64,
    start_ms: i64,
    /// Milliseconds from one value to the next.
    ms_per_value: f64,
    scan: Scan,
}

impl ValueReader {
    fn timestamp_micros(&self, value: i64) -> i64 {
        let relative = ((value - self.range_start) as f64 * self.ms_per_value + 0.5).floor() as i64;
        self.start_ms.saturating_add(relative).saturating_mul(1000)
    }
}

#[async_trait]
impl PartitionReader for ValueReader {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let rows_by_bytes = (self.scan.max_bytes / 16).max(1);
        let rows = self.scan.max_rows.max(1).min(rows_by_bytes);
        let mut values = Vec::new();
        while values.len() < rows && self.next < self.end {
            values.push(self.next);
            self.next = self.next.saturating_add(self.step);
        }
        if values.is_empty() {
            return Ok(None);
        }
        let count = values.len();
        let schema = Arc::new(schema().project(&self.scan.columns).map_err(|e| bad_projection(&e))?);
        let columns: Vec<ArrayRef> = self
            .scan
            .columns
            .iter()
            .map(|column| -> ArrayRef {
                if *column == 0 {
                    let micros = values.iter().map(|value| self.timestamp_micros(*value));
                    Arc::new(TimestampMicrosecondArray::from_iter_values(micros).with_timezone("UTC"))
                } else {
                    Arc::new(Int64Array::from(values.clone()))
                }
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(schema, columns, &options).map(Some).map_err(|e| bad_projection(&e))
    }

    fn counters(&self) -> ReadCounters {
        ReadCounters::default()
    }

    fn name(&self) -> String {
        format!("values of {} up to {}, every {}", self.range_start, self.end, self.step)
    }

    fn position(&self) -> u64 {
        self.next.cast_unsigned()
    }

    fn skip_to(&mut self, position: u64) {
        self.next = position.cast_signed();
    }
}

fn bad_projection(error: &arrow::error::ArrowError) -> Error {
    Error::config("INTERNAL_ERROR", format!("the rate source cannot build its rows: {error}"))
}

#[cfg(test)]
mod tests;
