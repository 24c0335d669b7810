//! From children to the supervisor's view: slots, phases, query facts.
//!
//! A child's HTTP interface is asked with a short timeout; an answer of another
//! epoch is not its own. What it said last is kept, so that a slow answer does
//! not look like a lost task. Turning answers into facts is pure.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use weir_runtime::query::BatchSummary;
use weir_supervisor::ExitReport;
use weir_supervisor::observed::{Backlog, BatchFacts, Exit, ExitCause, Instance, Phase, QueryFacts, Slot, StartObstacle, StopOrder};

use super::child::Child;

/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// What a child last said, and what was ordered of it.
#[derive(Clone, Debug)]
pub struct Answers {
    /// When it last answered.
    pub reported_at: Option<DateTime<Utc>>,
    /// Whether all its queries have started.
    pub is_ready: bool,
    /// Its queries.
    pub queries: Vec<QueryFacts>,
    /// The generation whose live settings it has.
    pub config_generation: i64,
    /// The strongest order to stop.
    pub stop_order: StopOrder,
}

impl Answers {
    /// Of a child that has just started with a generation.
    pub fn none_yet(generation: i64) -> Self {
        Self { reported_at: None, is_ready: false, queries: Vec::new(), config_generation: generation, stop_order: StopOrder::None }
    }
}

/// `GET /v1/queries`.
#[derive(Debug, Deserialize)]
struct QueriesAnswer {
    epoch: u64,
    generation: i64,
    queries: Vec<Value>,
}

/// Asks a child once.
pub async fn ask(client: &reqwest::Client, child: &Child, answers: &mut Answers, now: DateTime<Utc>) {
    let Some(address) = child.address() else { return };
    let request = client.get(format!("http://{address}/v1/queries")).timeout(ANSWER_TIMEOUT);
    let answer = match request.send().await {
        Ok(response) => response.json::<QueriesAnswer>().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) if answer.epoch == child.spec.epoch => {
            answers.reported_at = Some(now);
            answers.is_ready = answer.queries.iter().all(|query| query["isStarted"] == true);
            answers.queries = answer.queries.iter().map(facts).collect();
            answers.config_generation = answers.config_generation.max(answer.generation);
        }
        Ok(answer) => tracing::warn!(epoch = answer.epoch, "an answer of another epoch was ignored"),
        Err(error) => tracing::debug!(%error, task = child.spec.task, "the task did not answer"),
    }
}

/// One query of an answer.
fn facts(query: &Value) -> QueryFacts {
    let text = |key: &str| query[key].as_str().unwrap_or_default().to_owned();
    let time = |key: &str| query[key].as_i64().and_then(DateTime::from_timestamp_millis);
    let rate = |key: &str| query["lastProgress"][key].as_f64().unwrap_or(0.0);
    let backlog = &query["backlog"];
    let records = backlog["records"].as_u64();
    let batches = Vec::<BatchSummary>::deserialize(&query["recentBatches"]).unwrap_or_default();
    QueryFacts {
        name: text("name"),
        id: text("id"),
        run_id: text("runId"),
        batch_id: query["batchId"].as_u64(),
        is_active: query["isActive"] == true,
        message: query["status"]["message"].as_str().unwrap_or_default().to_owned(),
        last_commit: time("lastCommitMs"),
        input_available: query["status"]["isDataAvailable"] == true || records.is_some_and(|n| n > 0),
        input_rows_per_second: rate("inputRowsPerSecond"),
        processed_rows_per_second: rate("processedRowsPerSecond"),
        backlog: Backlog {
            records,
            bytes: backlog["bytes"].as_u64(),
            seconds: backlog["seconds"].as_f64().map(|s| s as u64),
            files: backlog["files"].as_u64(),
        },
        watermark: time("watermarkMs"),
        recent_batches: batches.into_iter().map(batch_facts).collect(),
    }
}

fn batch_facts(batch: BatchSummary) -> BatchFacts {
    BatchFacts {
        id: batch.batch_id,
        duration: Duration::from_millis(batch.duration_ms),
        trigger_interval: Duration::from_millis(batch.trigger_interval_ms),
        previous_had_data: batch.previous_had_data,
        input_rows_per_second: batch.input_rows_per_second,
        processed_rows_per_second: batch.processed_rows_per_second,
        costliest_stage: batch.costliest_stage,
    }
}

/// The slot of a child.
pub fn slot(child: &Child, answers: &Answers) -> Slot {
    let phase = match child.exit() {
        Some((code, at)) => Phase::Exited(exit(child, code, at)),
        None if answers.stop_order != StopOrder::None => Phase::Terminating,
        None if answers.is_ready => Phase::Ready,
        None => Phase::Starting(StartObstacle::None),
    };
    Slot::Present(Box::new(Instance {
        name: child.pid.to_string(),
        epoch: child.spec.epoch,
        created_at: child.created_at,
        phase,
        stop_order: answers.stop_order,
        config_generation: answers.config_generation,
        reported_at: answers.reported_at,
        queries: answers.queries.clone(),
    }))
}

fn exit(child: &Child, code: Option<i32>, at: DateTime<Utc>) -> Exit {
    let report = std::fs::read(&child.spec.report).ok().and_then(|bytes| serde_json::from_slice::<ExitReport>(&bytes).ok());
    Exit { code, report, cause: ExitCause::Own, log_tail: child.log_tail(), at }
}

/// Slots by task, with what else is to be reported.
pub fn slots(children: &BTreeMap<String, (Child, Answers)>) -> BTreeMap<String, Slot> {
    children.iter().map(|(task, (child, answers))| (task.clone(), slot(child, answers))).collect()
}
