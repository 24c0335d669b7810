//! Progress records and listener events, field for field as Spark's JSON.
//!
//! `StreamingQueryProgress` and its parts keep Spark's field order; maps are
//! sorted and left out when empty; rates are rounded to one decimal, half up,
//! and left out when not finite (spark-sql `progress.scala`). Building a record
//! from a batch's facts is the pure function `rates` plus plain struct fields.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

/// One executed batch, or an idle trigger.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamingQueryProgress {
    /// Query id, stable across restarts.
    pub id: Uuid,
    /// Run id, new for each start.
    pub run_id: Uuid,
    /// The query's name.
    pub name: Option<String>,
    /// Start of the trigger, ISO 8601 UTC with milliseconds.
    pub timestamp: String,
    /// The batch; for an idle trigger the id that the next batch will get.
    pub batch_id: u64,
    /// Wall time of the trigger, ms.
    pub batch_duration: u64,
    /// Rows read, summed over sources.
    pub num_input_rows: u64,
    /// Rows per second since the previous trigger.
    #[serde(flatten)]
    pub rates: Rates,
    /// Phases of the trigger, ms.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub duration_ms: BTreeMap<&'static str, u64>,
    /// Event-time statistics; empty without a watermark.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub event_time: BTreeMap<&'static str, String>,
    /// Stateful operators; none in a stateless query.
    pub state_operators: Vec<Value>,
    /// The sources in plan order.
    pub sources: Vec<SourceProgress>,
    /// The sink.
    pub sink: SinkProgress,
    /// Results of `observe`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub observed_metrics: BTreeMap<String, Value>,
}

/// One source's part of a batch.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceProgress {
    /// Spark's text for the source.
    pub description: String,
    /// Where the batch started.
    pub start_offset: Value,
    /// Where it ended.
    pub end_offset: Value,
    /// The newest offset known.
    pub latest_offset: Value,
    /// Rows read.
    pub num_input_rows: u64,
    /// Rates of this source.
    #[serde(flatten)]
    pub rates: Rates,
    /// Source-specific figures.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

/// The sink's part of a batch.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkProgress {
    /// Spark's text for the sink.
    pub description: String,
    /// Rows written; -1 where the sink does not count.
    pub num_output_rows: i64,
    /// Sink-specific figures.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, String>,
}

/// Input and processed rates, rows per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Rows over the time since the previous trigger began.
    pub input: f64,
    /// Rows over the time this trigger took.
    pub processed: f64,
}

impl Serialize for Rates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, rate) in [("inputRowsPerSecond", self.input), ("processedRowsPerSecond", self.processed)] {
            if rate.is_finite() {
                map.serialize_entry(key, &round_half_up(rate))?;
            }
        }
        map.end()
    }
}

/// Rounds to one decimal, half up (Scala's `BigDecimal.setScale(1, HALF_UP)`).
pub fn round_half_up(rate: f64) -> f64 {
    let scaled = (rate * 10.0 + 0.5).floor() / 10.0;
    if scaled.is_finite() { scaled } else { rate }
}

/// Spark's rate formulas (`ProgressContext.finishTrigger`).
///
/// `previous_start_ms` is the start of the previous trigger of this run, idle
/// ones included; without one the input rate is rows over infinity, 0. The
/// processed rate has a floor of one millisecond.
pub fn rates(rows: u64, start_ms: i64, end_ms: i64, previous_start_ms: Option<i64>) -> Rates {
    let rows = rows as f64;
    let input_seconds = previous_start_ms.map_or(f64::INFINITY, |previous| (start_ms - previous) as f64 / 1000.0);
    let processing_seconds = (end_ms - start_ms).max(1) as f64 / 1000.0;
    Rates { input: rows / input_seconds, processed: rows / processing_seconds }
}

impl std::iter::Sum for Rates {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self { input: 0.0, processed: 0.0 }, |sum, part| Self {
            input: sum.input + part.input,
            processed: sum.processed + part.processed,
        })
    }
}

/// A time as Spark writes it in progress records.
pub fn iso_timestamp(ms: i64) -> String {
    DateTime::<Utc>::from_timestamp_millis(ms).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// What listeners are told, in Spark's order per run: started, progress and
/// idle in trigger order, terminated.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum QueryEvent {
    /// `QueryStartedEvent`.
    Started {
        /// Query id.
        id: Uuid,
        /// Run id.
        run_id: Uuid,
        /// Name.
        name: Option<String>,
        /// ISO UTC.
        timestamp: String,
    },
    /// `QueryProgressEvent`.
    Progress {
        /// The record.
        progress: Box<StreamingQueryProgress>,
    },
    /// `QueryIdleEvent`.
    Idle {
        /// Query id.
        id: Uuid,
        /// Run id.
        run_id: Uuid,
        /// ISO UTC.
        timestamp: String,
    },
    /// `QueryTerminatedEvent`.
    Terminated {
        /// Query id.
        id: Uuid,
        /// Run id.
        run_id: Uuid,
        /// The failure's text; absent after a normal end.
        #[serde(skip_serializing_if = "Option::is_none")]
        exception: Option<String>,
        /// The failure's condition.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_class_on_exception: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rate_formulas() {
        assert_eq!(rates(10, 2000, 2853, Some(0)), Rates { input: 5.0, processed: 10.0 / 0.853 });
        assert_eq!(rates(10, 5, 5, None), Rates { input: 0.0, processed: 10_000.0 });
        assert!(rates(10, 5, 6, Some(5)).input.is_infinite());
        assert!(rates(0, 5, 6, Some(5)).input.is_nan());
        assert_eq!(serde_json::to_string(&rates(0, 5, 6, Some(5))).unwrap(), r#"{"processedRowsPerSecond":0.0}"#);
        assert_eq!(round_half_up(11.72), 11.7);
        assert_eq!(round_half_up(0.25), 0.3);
    }

    #[test]
    fn field_order_is_sparks() {
        let progress = StreamingQueryProgress {
            id: Uuid::nil(),
            run_id: Uuid::nil(),
            name: None,
            timestamp: iso_timestamp(1_795_984_761_521),
            batch_id: 3,
            batch_duration: 853,
            num_input_rows: 10,
            rates: rates(10, 2000, 2853, Some(0)),
            duration_ms: BTreeMap::from([("walCommit", 1), ("addBatch", 2)]),
            event_time: BTreeMap::new(),
            state_operators: vec![],
            sources: vec![],
            sink: SinkProgress { description: "NoopTable".into(), num_output_rows: 10, metrics: BTreeMap::new() },
            observed_metrics: BTreeMap::new(),
        };
        let zero = Uuid::nil();
        assert_eq!(
            serde_json::to_string(&progress).unwrap(),
            format!(
                r#"{{"id":"{zero}","runId":"{zero}","name":null,"timestamp":"2026-11-29T20:39:21.521Z","batchId":3,"batchDuration":853,"numInputRows":10,"inputRowsPerSecond":5.0,"processedRowsPerSecond":11.7,"durationMs":{{"addBatch":2,"walCommit":1}},"stateOperators":[],"sources":[],"sink":{{"description":"NoopTable","numOutputRows":10}}}}"#
            )
        );
    }
}
