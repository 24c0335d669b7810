//! The `.status` document: what the memory and this look say, for people and tools.
//!
//! The cluster and the local runner show the same record. It is a pure function
//! and forgets nothing that matters: times and counters come from the memory.
//! Its size is bounded: messages are cut, the history has ten runs, and when
//! everything together exceeds 32 KiB, healthy tasks collapse to a count.
//! `status.memory` is left empty; a shell that keeps the memory there fills it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::jiff;
use weir_crds::policy::JobTrigger;
use weir_crds::resource;

use crate::conditions::{Condition, ConditionStatus};
use crate::decide;
use crate::desired::Desired;
use crate::memory::{Memory, RunCause, RunMemory, RunRecord, StartReason};
use crate::observed::{Observed, Phase, QueryFacts};
use crate::text::{HISTORY_MESSAGE_BYTES, MESSAGE_BYTES, cut};
use crate::time::Timestamp;

mod beside;
mod rows;

pub use beside::{contradiction, highest_epoch};

/// The largest status, serialised.
pub const STATUS_BYTES: usize = 32 * 1024;

/// The status after a decision; `memory` is that of the plan.
pub fn status(desired: &Desired, observed: &Observed, memory: &Memory) -> resource::StreamingJobStatus {
    let run = memory.run.as_ref();
    let mut status = resource::StreamingJobStatus {
        observed_generation: Some(desired.newest_generation()),
        conditions: memory.conditions.iter().map(condition).collect(),
        epoch: Some(number(memory.epoch)),
        run: run.map(|run| run_status(desired, run)),
        last_run: memory.last_run.as_ref().map(|record| run_result(record, MESSAGE_BYTES)),
        consecutive_failures: i64::from(memory.consecutive_failures),
        backing_off: is_true(memory, "BackingOff"),
        next_restart_time: decide::next_run(desired, observed, memory).map(|next| time(next.at)),
        stable_since: run.and_then(|run| run.ready_since).map(time),
        total_restarts: Some(resource::RestartTotals {
            application: number(memory.restarts.application),
            disruption: number(memory.restarts.disruption.saturating_add(memory.restarts.fenced)),
            spec: number(memory.restarts.spec.saturating_add(memory.restarts.schema_change)),
            start_up: number(memory.restarts.start_up),
        }),
        tasks: rows::tasks(desired, observed, memory),
        tasks_collapsed: None,
        history: memory.history.iter().map(|record| run_result(record, HISTORY_MESSAGE_BYTES)).collect(),
        backlog: rows::total_backlog(memory),
        summary: Some(summary(desired, observed, memory)),
        handled_run_now: memory.handled_run_now.clone(),
        handled_restart_nonce: memory.restart_nonce,
        last_schedule_time: memory.schedule.as_ref().map(|schedule| time(schedule.handled)),
        memory: None,
    };
    rows::fit(&mut status, STATUS_BYTES);
    status
}

/// A condition as it is shown.
pub fn condition(condition: &Condition) -> meta::Condition {
    let status = match condition.status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    meta::Condition {
        type_: condition.kind.clone(),
        status: status.to_owned(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        last_transition_time: time(condition.last_transition_time),
        observed_generation: Some(condition.observed_generation),
    }
}

fn is_true(memory: &Memory, kind: &str) -> bool {
    memory.conditions.iter().any(|known| known.kind == kind && known.status == ConditionStatus::True)
}

fn run_status(desired: &Desired, run: &RunMemory) -> resource::RunStatus {
    let cause = match (run.cause, &desired.rules.trigger) {
        (Some(StartReason::RunNow), _) => "RunNow",
        (Some(StartReason::OneRun), _) => "Once",
        (Some(StartReason::Restart), _) => "Restart",
        (Some(StartReason::Tick), _) | (_, JobTrigger::Schedule(_)) => "Schedule",
        (_, JobTrigger::Continuous { .. }) => "Continuous",
        (_, JobTrigger::Manual) => "RunNow",
    };
    resource::RunStatus {
        number: number(run.number),
        generation: Some(run.generation),
        spec_hash: Some(run.run_hash.clone()),
        image: Some(run.image.clone()).filter(|image| !image.is_empty()),
        cause: Some(cause.to_owned()),
        created_at: Some(time(run.started_at)),
        started_at: Some(time(run.started_at)),
        ready_at: run.ready_at.map(time),
    }
}

fn run_result(record: &RunRecord, message_bytes: usize) -> resource::RunResult {
    let cause = match record.cause {
        RunCause::Application => Some("Application"),
        RunCause::StartUp => Some("StartUp"),
        RunCause::Disruption => Some("Disruption"),
        RunCause::Spec => Some("Spec"),
        RunCause::Request => Some("Request"),
        RunCause::None => None,
    };
    resource::RunResult {
        number: number(record.number),
        epoch: Some(number(record.epoch)),
        generation: Some(record.generation),
        result: format!("{:?}", record.result),
        cause: cause.map(str::to_owned),
        reason: Some(record.reason.clone()),
        exit_code: record.exit_code,
        message: Some(cut(&record.message, message_bytes)).filter(|message| !message.is_empty()),
        started_at: Some(time(record.started_at)),
        finished_at: Some(time(record.finished_at)),
    }
}

fn summary(desired: &Desired, observed: &Observed, memory: &Memory) -> resource::StatusSummary {
    let of = desired.rules.tasks.len();
    let ready = memory.run.iter().flat_map(|run| run.tasks.values()).filter(|task| task.ready_since.is_some()).count();
    let queries: Vec<&QueryFacts> = ready_queries(observed).collect();
    let active = queries.iter().filter(|query| query.is_active);
    let message = memory.conditions.iter().find(|known| known.kind == "Ready").map(|ready| ready.message.clone());
    resource::StatusSummary {
        tasks_ready: Some(format!("{ready}/{of}")),
        last_commit_time: active.filter_map(|query| query.last_commit).min().or_else(|| rows::last_commit(memory)).map(time),
        lag: queries.iter().filter_map(|query| query.backlog.records).max().map(number),
        message: message.filter(|message| !message.is_empty()),
    }
}

fn ready_queries(observed: &Observed) -> impl Iterator<Item = &QueryFacts> {
    let instances = observed.slots.values().filter_map(|slot| slot.instance());
    instances.filter(|instance| instance.phase == Phase::Ready).flat_map(|instance| &instance.queries)
}

/// Kubernetes prints whole seconds; more would only make every write a change.
fn time(at: Timestamp) -> meta::Time {
    let seconds = jiff::Timestamp::from_second(at.timestamp());
    meta::Time(seconds.unwrap_or(jiff::Timestamp::MAX))
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
