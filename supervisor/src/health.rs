//! Streaks and windows behind the health conditions.
//!
//! Three separate facts decide: what was committed, whether input was there,
//! whether the instance reports at all. No input is never a fault. Streaks
//! count batches by their number, so a batch reported twice counts once; a
//! window holds one sample per minute and stream. Everything here belongs to
//! one epoch and starts afresh with the next.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_crds::policy::{BacklogMetric, BacklogRule};

use crate::desired::Desired;
use crate::memory::TaskMemory;
use crate::observed::{Backlog, BatchFacts, Exit, Instance, Observed, Phase, QueryFacts};
use crate::time::{Timestamp, elapsed};

/// Minutes that a backlog average covers.
const WINDOW_MINUTES: i64 = 10;
/// A batch shorter than this is never behind, however short its interval.
const SHORTEST_COUNTED: Duration = Duration::from_secs(1);

/// By `<task>/<query>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HealthMemory {
    /// What is remembered of each query.
    pub queries: BTreeMap<String, QueryHealth>,
}

/// What is remembered of one query.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryHealth {
    /// The epoch that it belongs to.
    pub epoch: u64,
    /// The newest batch that was counted.
    pub counted_batch: Option<u64>,
    /// Slow batches in a row up to it.
    pub slow_batches: u32,
    /// The costliest stage of the newest slow one.
    pub costliest_stage: String,
    /// Since when input is there without a break.
    pub input_since: Option<Timestamp>,
    /// One sample per minute and metric of a rule, oldest first.
    pub samples: Vec<Sample>,
    /// The last backlog that was reported; outlives its run.
    pub backlog: Backlog,
    /// When it was reported, by the minute.
    pub backlog_at: Option<Timestamp>,
    /// When a batch was last committed; outlives its run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_commit: Option<Timestamp>,
}

/// A backlog at a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Minutes since 1970.
    pub minute: i64,
    /// All four metrics.
    pub backlog: Backlog,
}

/// A query that has input and commits nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// Its name.
    pub query: String,
    /// Since when.
    pub since: Timestamp,
    /// For how long.
    pub lasted: Duration,
}

/// Takes the facts of this look into the memory; the same look twice changes nothing more.
pub(crate) fn remember(health: &mut HealthMemory, desired: &Desired, observed: &Observed, now: Timestamp) {
    let known = |key: &String| {
        key.split_once('/').is_some_and(|(task, query)| {
            let task = desired.rules.tasks.iter().find(|known| known.name == task);
            task.is_some_and(|task| task.queries.is_empty() || task.queries.iter().any(|known| known.name == query))
        })
    };
    health.queries.retain(|key, _| known(key));
    for (task, slot) in &observed.slots {
        if let Some(Phase::Exited(exit)) = slot.instance().map(|instance| &instance.phase) {
            remember_end(health, desired, task, exit, now);
        }
        let Some(instance) = slot.live() else { continue };
        for query in &instance.queries {
            let entry = health.queries.entry(format!("{task}/{}", query.name)).or_default();
            remember_query(entry, instance, query, now, !desired.rules.health.rules.is_empty());
        }
    }
}

/// A task may commit and end between two looks; its report tells. All its queries are at least as far as the one that
/// it speaks of.
fn remember_end(health: &mut HealthMemory, desired: &Desired, task: &str, exit: &Exit, now: Timestamp) {
    let reported = exit.report.as_ref().and_then(|report| Timestamp::from_timestamp_millis(report.last_commit_ms?));
    let Some(at) = reported.map(|at| at.min(now)) else { return };
    let queries = desired.rules.tasks.iter().filter(|known| known.name == task).flat_map(|known| &known.queries);
    for query in queries {
        let entry = health.queries.entry(format!("{task}/{}", query.name)).or_default();
        entry.last_commit = entry.last_commit.max(Some(at));
    }
}

fn remember_query(entry: &mut QueryHealth, instance: &Instance, query: &QueryFacts, now: Timestamp, sampled: bool) {
    if entry.epoch != instance.epoch {
        let (backlog, backlog_at, last_commit) = (entry.backlog, entry.backlog_at, entry.last_commit);
        *entry = QueryHealth { epoch: instance.epoch, backlog, backlog_at, last_commit, ..QueryHealth::default() };
    }
    entry.last_commit = query.last_commit.map(|at| at.min(now)).or(entry.last_commit);
    entry.input_since = query.input_available.then(|| entry.input_since.unwrap_or(now).min(now));
    let fresh = |batch: &&BatchFacts| entry.counted_batch.is_none_or(|counted| batch.id > counted);
    let batches: Vec<&BatchFacts> = query.recent_batches.iter().filter(fresh).collect();
    for batch in batches {
        entry.counted_batch = Some(batch.id);
        entry.slow_batches = if is_slow(batch) { entry.slow_batches.saturating_add(1) } else { 0 };
        if is_slow(batch) {
            entry.costliest_stage.clone_from(&batch.costliest_stage);
        }
    }
    let minute = now.timestamp().div_euclid(60);
    if query.backlog != Backlog::default() {
        entry.backlog = query.backlog;
        entry.backlog_at = Timestamp::from_timestamp(minute * 60, 0);
    }
    if sampled {
        entry.samples.retain(|sample| sample.minute > minute - WINDOW_MINUTES - 1 && sample.minute < minute);
        entry.samples.push(Sample { minute, backlog: query.backlog });
    }
}

/// The tutorial's rule on rates, for batches that can tell anything: the trigger before had
/// data, and the batch outlasted its interval and a second.
fn is_slow(batch: &BatchFacts) -> bool {
    batch.previous_had_data
        && batch.duration >= batch.trigger_interval.max(SHORTEST_COUNTED)
        && batch.input_rows_per_second > 0.0
        && batch.processed_rows_per_second < batch.input_rows_per_second
}

/// The query of a ready task that has had input for longest without committing.
pub(crate) fn without_progress(
    health: &HealthMemory,
    task_name: &str,
    task: &TaskMemory,
    instance: &Instance,
    now: Timestamp,
) -> Option<Silence> {
    let ready = task.ready_since?;
    if instance.phase != Phase::Ready {
        return None;
    }
    let silent = instance.queries.iter().filter_map(|query| {
        let input = health.queries.get(&format!("{task_name}/{}", query.name))?.input_since?;
        let since = query.last_commit.map_or(ready, |commit| commit.max(ready)).max(input).min(now);
        Some(Silence { query: query.name.clone(), since, lasted: elapsed(since, now) })
    });
    silent.max_by_key(|silence| silence.lasted)
}

/// The query that has been behind for longest, once for enough batches.
pub(crate) fn falling_behind<'a>(health: &'a HealthMemory, desired: &Desired) -> Option<(&'a str, &'a QueryHealth)> {
    let enough = desired.rules.health.falling_behind_batches.max(1);
    let behind = health.queries.iter().filter(|(_, query)| query.slow_batches >= enough);
    behind.max_by_key(|(_, query)| query.slow_batches).map(|(name, query)| (name.as_str(), query))
}

/// The first rule whose average is above its limit, and the stream that is worst.
pub(crate) fn exceeded<'a>(health: &'a HealthMemory, desired: &Desired, now: Timestamp) -> Option<(BacklogRule, &'a str, u64)> {
    desired.rules.health.rules.iter().find_map(|rule| {
        let averages = health.queries.iter().filter_map(|(name, query)| Some((name.as_str(), average(&query.samples, rule.metric, now)?)));
        let (name, worst) = averages.max_by_key(|(_, average)| *average)?;
        (i128::from(worst) > i128::from(rule.greater_than)).then_some((*rule, name, worst))
    })
}

/// The mean over the last ten minutes; none until the window is full.
fn average(samples: &[Sample], metric: BacklogMetric, now: Timestamp) -> Option<u64> {
    let minute = now.timestamp().div_euclid(60);
    let full = samples.first().is_some_and(|oldest| oldest.minute <= minute - WINDOW_MINUTES + 1);
    let inside = samples.iter().filter(|sample| sample.minute > minute - WINDOW_MINUTES);
    let values: Vec<u64> = inside.filter_map(|sample| value(&sample.backlog, metric)).collect();
    let count = u64::try_from(values.len()).ok().filter(|count| full && *count > 0)?;
    Some(values.into_iter().fold(0_u64, u64::saturating_add) / count)
}

fn value(backlog: &Backlog, metric: BacklogMetric) -> Option<u64> {
    match metric {
        BacklogMetric::Records => backlog.records,
        BacklogMetric::Bytes => backlog.bytes,
        BacklogMetric::Seconds => backlog.seconds,
        BacklogMetric::Files => backlog.files,
    }
}
