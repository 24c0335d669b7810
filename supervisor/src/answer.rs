//! What a task answers to `GET /v1/queries`, as facts.
//!
//! The field names are those that the engine writes; fields that are not known
//! here are skipped, absent ones take their default, so that neighbouring
//! versions understand each other. Whatever comes in, what goes out is bounded:
//! queries, batches and texts are cut, rates are finite. Asking, and whether
//! the epoch is the right one, is the business of the shell.

use std::time::Duration;

use chrono::DateTime;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::observed::{Backlog, BatchFacts, QueryFacts};
use crate::text::{MESSAGE_BYTES, NAME_BYTES, cut};

/// Longest body that is read.
pub const BODY_BYTES: usize = 1 << 20;
/// Most queries that are kept, which is the most that a job may have.
pub const QUERIES: usize = 64;
/// Most batches that are kept of a query, the newest.
const BATCHES: usize = 64;

/// One answer of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The epoch of the task that answered.
    pub epoch: u64,
    /// The generation whose live settings it has; 0 until it took over any.
    pub generation: i64,
    /// Its queries.
    pub queries: Vec<QueryFacts>,
    /// Whether all of them are past their claim.
    pub is_ready: bool,
}

/// Why an answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Longer than any task's answer.
    #[error("the answer of GET /v1/queries has {bytes} bytes, more than {BODY_BYTES}; it is not read")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Not what a task answers.
    #[error("the answer of GET /v1/queries is not that of a task; does something else listen on its port? {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Reads the body of an answer.
pub fn parse(bytes: &[u8]) -> Result<Answer, AnswerError> {
    if bytes.len() > BODY_BYTES {
        return Err(AnswerError::TooLong { bytes: bytes.len() });
    }
    let body: Body = serde_json::from_slice(bytes)?;
    let is_ready = !body.queries.is_empty() && body.queries.iter().all(|query| query.is_started);
    let queries = body.queries.into_iter().take(QUERIES).map(Query::facts).collect();
    Ok(Answer { epoch: body.epoch, generation: body.generation, queries, is_ready })
}

/// The whole body.
#[derive(Debug, Deserialize)]
struct Body {
    epoch: u64,
    generation: i64,
    queries: Vec<Query>,
}

/// One query.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Query {
    name: String,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default)]
    is_active: bool,
    #[serde(default)]
    is_started: bool,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    batch_id: Option<u64>,
    #[serde(default)]
    last_commit_ms: Option<i64>,
    #[serde(default)]
    watermark_ms: Option<i64>,
    #[serde(default)]
    bad_records: u64,
    #[serde(default)]
    backlog: Unread,
    #[serde(default)]
    recent_batches: Vec<BatchSummary>,
    #[serde(default)]
    last_progress: Option<Rates>,
}

/// `StreamingQueryStatus`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    message: String,
    is_data_available: bool,
}

/// The backlog as the engine counts it, with fractions of seconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Unread {
    records: Option<u64>,
    bytes: Option<u64>,
    seconds: Option<f64>,
    files: Option<u64>,
}

/// The rates of a progress record, which leaves out those that are not finite.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rates {
    #[serde(deserialize_with = "rate")]
    input_rows_per_second: f64,
    #[serde(deserialize_with = "rate")]
    processed_rows_per_second: f64,
}

/// One batch as health judges it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BatchSummary {
    batch_id: u64,
    duration_ms: u64,
    trigger_interval_ms: u64,
    previous_had_data: bool,
    #[serde(default, deserialize_with = "rate")]
    input_rows_per_second: f64,
    #[serde(default, deserialize_with = "rate")]
    processed_rows_per_second: f64,
    #[serde(default)]
    costliest_stage: String,
}

/// A number; 0 for `null` and for the words that some writers use for what is not finite.
fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Rate {
        Number(f64),
        Other(IgnoredAny),
    }
    Ok(match Rate::deserialize(deserializer)? {
        Rate::Number(rate) if rate.is_finite() => rate,
        Rate::Number(_) | Rate::Other(_) => 0.0,
    })
}

impl Query {
    fn facts(self) -> QueryFacts {
        let rates = self.last_progress.unwrap_or_default();
        let backlog = Backlog {
            records: self.backlog.records,
            bytes: self.backlog.bytes,
            seconds: self.backlog.seconds.map(|seconds| seconds as u64),
            files: self.backlog.files,
        };
        let older = self.recent_batches.len().saturating_sub(BATCHES);
        QueryFacts {
            name: cut(&self.name, NAME_BYTES),
            id: cut(&self.id.unwrap_or_default(), NAME_BYTES),
            run_id: cut(&self.run_id.unwrap_or_default(), NAME_BYTES),
            batch_id: self.batch_id,
            is_active: self.is_active,
            message: cut(&self.status.message, MESSAGE_BYTES),
            last_commit: self.last_commit_ms.and_then(DateTime::from_timestamp_millis),
            input_available: self.status.is_data_available || backlog.records.is_some_and(|records| records > 0),
            input_rows_per_second: rates.input_rows_per_second,
            processed_rows_per_second: rates.processed_rows_per_second,
            backlog,
            watermark: self.watermark_ms.and_then(DateTime::from_timestamp_millis),
            bad_records: self.bad_records,
            recent_batches: self.recent_batches.into_iter().skip(older).map(BatchSummary::facts).collect(),
        }
    }
}

impl BatchSummary {
    fn facts(self) -> BatchFacts {
        BatchFacts {
            id: self.batch_id,
            duration: Duration::from_millis(self.duration_ms),
            trigger_interval: Duration::from_millis(self.trigger_interval_ms),
            previous_had_data: self.previous_had_data,
            input_rows_per_second: self.input_rows_per_second,
            processed_rows_per_second: self.processed_rows_per_second,
            costliest_stage: cut(&self.costliest_stage, NAME_BYTES),
        }
    }
}
