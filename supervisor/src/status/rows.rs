//! The rows of tasks and queries, and how they are made to fit.

use weir_crds::resource;

use super::{number, time};
use crate::desired::Desired;
use crate::exit::ExitClass;
use crate::health::HealthMemory;
use crate::memory::{ExitSummary, Memory, TaskMemory, TaskState};
use crate::observed::{Backlog, Observed, Phase, QueryFacts};
use crate::text::{HISTORY_MESSAGE_BYTES, cut};
use crate::time::Timestamp;

/// What a query says of itself, at most.
const QUERY_MESSAGE_BYTES: usize = 256;

/// One row per task of the living run, in the order of the manifest.
pub(super) fn tasks(desired: &Desired, observed: &Observed, memory: &Memory) -> Vec<resource::TaskStatus> {
    let Some(run) = &memory.run else { return Vec::new() };
    let ordered = desired.rules.tasks.iter().map(|task| &task.name);
    // A run that makes room for an edit may still have tasks that the manifest no longer has.
    let removed = run.tasks.keys().filter(|name| !desired.has_task(name));
    let known = ordered.chain(removed).filter_map(|name| Some((name, run.tasks.get(name)?)));
    known.map(|(name, task)| row(name, task, observed, &memory.health)).collect()
}

fn row(name: &str, task: &TaskMemory, observed: &Observed, health: &HealthMemory) -> resource::TaskStatus {
    let instance = observed.slot(name).instance().filter(|instance| Some(instance.epoch) == task.epoch);
    let live = instance.filter(|instance| !matches!(instance.phase, Phase::Exited(_)));
    let state = match task.state {
        TaskState::Pending => "Pending",
        TaskState::Starting => "Starting",
        TaskState::Running => "Running",
        TaskState::WaitingRetry => "WaitingForRetry",
        TaskState::Stopping => "Stopping",
        TaskState::Succeeded => "Succeeded",
        TaskState::Failed => "Failed",
        TaskState::Stopped => "Stopped",
    };
    resource::TaskStatus {
        name: name.to_owned(),
        state: state.to_owned(),
        attempt: i64::from(task.attempt),
        epoch: task.epoch.map(number),
        pod: instance.map(|instance| instance.name.clone()).filter(|name| !name.is_empty()),
        generation: task.epoch.map(|_| task.generation),
        config_generation: live.filter(|live| live.phase == Phase::Ready).map(|live| live.config_generation),
        next_retry_time: task.next_retry.map(time),
        last_exit: task.last_exit.as_ref().map(exit),
        queries: live.map_or_else(Vec::new, |live| live.queries.iter().map(|facts| query(facts, measured(health, name, facts))).collect()),
    }
}

fn measured(health: &HealthMemory, task: &str, query: &QueryFacts) -> Option<Timestamp> {
    health.queries.get(&format!("{task}/{}", query.name)).and_then(|known| known.backlog_at)
}

fn exit(exit: &ExitSummary) -> resource::TaskExit {
    let class = match exit.class {
        Some(ExitClass::Completed) => "Completed",
        Some(ExitClass::Stopped) => "Stopped",
        Some(ExitClass::Retryable) => "Retryable",
        Some(ExitClass::Config) => "Config",
        Some(ExitClass::Incompatible) => "Incompatible",
        Some(ExitClass::Fenced) => "Fenced",
        None => "Disruption",
    };
    let filled = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    resource::TaskExit {
        class: class.to_owned(),
        query: exit.query.clone(),
        reason: filled(&exit.reason),
        exit_code: exit.exit_code,
        message: filled(&exit.message),
        log_tail: filled(&exit.log_tail),
        finished_at: Some(time(exit.at)),
    }
}

fn query(facts: &QueryFacts, measured_at: Option<Timestamp>) -> resource::QueryStatus {
    let filled = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    resource::QueryStatus {
        name: facts.name.clone(),
        id: filled(&facts.id),
        run_id: filled(&facts.run_id),
        batch_id: facts.batch_id.map(number),
        is_active: facts.is_active,
        message: filled(&cut(&facts.message, QUERY_MESSAGE_BYTES)),
        input_rows_per_second: rate(facts.input_rows_per_second),
        processed_rows_per_second: rate(facts.processed_rows_per_second),
        backlog: backlog(&facts.backlog, measured_at),
        last_commit_time: facts.last_commit.map(time),
        watermark: facts.watermark.map(time),
        bad_records: (facts.bad_records > 0).then(|| number(facts.bad_records)),
    }
}

/// One decimal is enough to read, and fewer digits change less often. A rate that is not a number is left out.
fn rate(rows_per_second: f64) -> Option<f64> {
    rows_per_second.is_finite().then(|| (rows_per_second * 10.0).round() / 10.0)
}

fn backlog(backlog: &Backlog, measured_at: Option<Timestamp>) -> Option<resource::Backlog> {
    (*backlog != Backlog::default()).then(|| resource::Backlog {
        records: backlog.records.map(number),
        bytes: backlog.bytes.map(number),
        seconds: backlog.seconds.map(|seconds| seconds as f64),
        files: backlog.files.map(number),
        measured_at: measured_at.map(time),
    })
}

/// The commit of the query that is furthest back. Outlives the run that reported it.
pub(super) fn last_commit(memory: &Memory) -> Option<Timestamp> {
    memory.health.queries.values().filter_map(|query| query.last_commit).min()
}

/// All queries together: sums, and the oldest record of all. Outlives the run that reported it.
pub(super) fn total_backlog(memory: &Memory) -> Option<resource::Backlog> {
    let known = || memory.health.queries.values().filter(|query| query.backlog != Backlog::default());
    let sum = |part: fn(&Backlog) -> Option<u64>| known().filter_map(|query| part(&query.backlog)).reduce(u64::saturating_add);
    let total = Backlog {
        records: sum(|backlog| backlog.records),
        bytes: sum(|backlog| backlog.bytes),
        seconds: known().filter_map(|query| query.backlog.seconds).max(),
        files: sum(|backlog| backlog.files),
    };
    backlog(&total, known().filter_map(|query| query.backlog_at).max())
}

/// Makes the status fit: healthy tasks collapse to a count, then texts are cut, then rows are left out.
pub(super) fn fit(status: &mut resource::StreamingJobStatus, limit: usize) {
    if size(status) <= limit {
        return;
    }
    collapse(status, |task| task.state == "Running" && task.last_exit.is_none());
    if size(status) <= limit {
        return;
    }
    for task in &mut status.tasks {
        if let Some(exit) = &mut task.last_exit {
            exit.log_tail = None;
            exit.message = exit.message.as_ref().map(|message| cut(message, HISTORY_MESSAGE_BYTES));
        }
    }
    if size(status) > limit {
        collapse(status, |task| task.state == "Running" || task.state == "Succeeded");
    }
    if size(status) > limit {
        for task in &mut status.tasks {
            task.queries.clear();
        }
    }
}

fn collapse(status: &mut resource::StreamingJobStatus, healthy: fn(&resource::TaskStatus) -> bool) {
    let before = status.tasks.len();
    status.tasks.retain(|task| !healthy(task));
    let left_out = i64::try_from(before - status.tasks.len()).unwrap_or(i64::MAX);
    let already = status.tasks_collapsed.unwrap_or(0);
    status.tasks_collapsed = Some(already + left_out);
}

fn size(status: &resource::StreamingJobStatus) -> usize {
    serde_json::to_vec(status).map_or(usize::MAX, |bytes| bytes.len())
}
