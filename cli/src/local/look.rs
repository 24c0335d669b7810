//! From children to the supervisor's view: slots, phases, query facts.
//!
//! A child's HTTP interface is asked with a short timeout; an answer of another
//! epoch is not its own. What it said last is kept, so that a slow answer does
//! not look like a lost task.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use weir_supervisor::observed::{Exit, ExitCause, Instance, Phase, QueryFacts, Slot, StartObstacle, StopOrder};
use weir_supervisor::{ExitReport, answer};

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

/// Asks a child once.
pub async fn ask(client: &reqwest::Client, child: &Child, answers: &mut Answers, now: DateTime<Utc>) {
    let Some(address) = child.address() else { return };
    let request = client.get(format!("http://{address}/v1/queries")).timeout(ANSWER_TIMEOUT);
    let body = match request.send().await {
        Ok(response) => response.bytes().await,
        Err(error) => Err(error),
    };
    let body = match body {
        Ok(body) => body,
        Err(error) => {
            tracing::debug!(%error, task = child.spec.task, "the task did not answer");
            return;
        }
    };
    match answer::parse(&body) {
        Ok(answer) if answer.epoch == child.spec.epoch => {
            answers.reported_at = Some(now);
            answers.is_ready = answer.is_ready;
            answers.queries = answer.queries;
            answers.config_generation = answers.config_generation.max(answer.generation);
        }
        Ok(answer) => tracing::warn!(epoch = answer.epoch, "an answer of another epoch was ignored"),
        Err(error) => tracing::debug!(%error, task = child.spec.task, "the task's answer was not understood"),
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
        place: None,
        held_by: Vec::new(),
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
