//! What is written to `.status`, and when.
//!
//! The supervisor renders the status; here it is laid over the stored one, so
//! that fields and conditions of others survive, and made to fit. A change of
//! anything that people or tools decide by is written at once; one of progress
//! alone at most every interval; none at all causes no write. Pure.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use weir_crds::resource::{CONDITION_TYPES, StreamingJobStatus};
use weir_supervisor::Memory;
use weir_supervisor::conditions::Condition;

/// The largest status, serialised.
pub const STATUS_BYTES: usize = 32 * 1024;
/// As much of it as conditions of others may have.
const FOREIGN_BYTES: usize = 4 * 1024;

/// How a status differs from the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Not at all.
    None,
    /// In numbers that move while a job streams.
    Progress,
    /// In something that somebody acts upon.
    Fact,
}

/// The status to store: the new one over what is there.
pub fn compose(stored: &Value, status: &StreamingJobStatus, memory: &Memory) -> Value {
    let fits = |composed: &Value| serde_json::to_vec(composed).map_or(0, |bytes| bytes.len()) <= STATUS_BYTES;
    let mut composed = lay_over(stored, status, memory, FOREIGN_BYTES);
    if fits(&composed) {
        return composed;
    }
    let (mut status, mut memory) = (status.clone(), memory.clone());
    for step in 0..STEPS {
        slim(&mut status, &mut memory, step);
        composed = lay_over(stored, &status, &memory, FOREIGN_BYTES);
        if fits(&composed) {
            return composed;
        }
    }
    lay_over(stored, &status, &memory, 0)
}

/// How many ways there are to make a status smaller.
const STEPS: usize = 7;
/// A message that has to be short.
const SHORT: usize = 160;

/// Leaves out what is missed least; what decisions rest on stays.
fn slim(status: &mut StreamingJobStatus, memory: &mut Memory, step: usize) {
    match step {
        // What the memory tells people is told beside it, and rendered anew with each pass.
        0 => {
            for exit in exits(memory) {
                exit.log_tail.clear();
            }
            for condition in &mut memory.conditions {
                condition.message.clear();
            }
        }
        1 => {
            for query in memory.health.queries.values_mut() {
                query.samples.clear();
            }
            for exit in exits(memory) {
                cut(&mut exit.message, SHORT);
            }
        }
        2 => {
            memory.health.queries.clear();
            for record in memory.history.iter_mut().chain(&mut memory.last_run) {
                cut(&mut record.message, SHORT);
            }
        }
        3 => {
            let healthy = |task: &weir_crds::resource::TaskStatus| task.state == "Running" && task.last_exit.is_none();
            let before = status.tasks.len();
            status.tasks.retain(|task| !healthy(task));
            let gone = i64::try_from(before - status.tasks.len()).unwrap_or(i64::MAX);
            status.tasks_collapsed = Some(status.tasks_collapsed.unwrap_or(0).saturating_add(gone)).filter(|count| *count > 0);
        }
        4 => {
            for task in &mut status.tasks {
                task.queries.clear();
                if let Some(exit) = &mut task.last_exit {
                    exit.log_tail = None;
                    shorten(&mut exit.message);
                }
            }
        }
        5 => {
            for record in status.history.iter_mut().chain(&mut status.last_run) {
                shorten(&mut record.message);
            }
            for condition in &mut status.conditions {
                cut(&mut condition.message, 2 * SHORT);
            }
            for record in &mut memory.history {
                record.message.clear();
            }
        }
        _ => {
            for exit in exits(memory) {
                exit.message.clear();
            }
            memory.history.truncate(3);
            status.history.truncate(3);
        }
    }
}

fn shorten(text: &mut Option<String>) {
    if let Some(text) = text {
        cut(text, SHORT);
    }
}

fn exits(memory: &mut Memory) -> impl Iterator<Item = &mut weir_supervisor::memory::ExitSummary> {
    memory.run.iter_mut().flat_map(|run| run.tasks.values_mut()).filter_map(|task| task.last_exit.as_mut())
}

fn cut(text: &mut String, bytes: usize) {
    let end = text.floor_char_boundary(bytes);
    text.truncate(end);
}

fn lay_over(stored: &Value, status: &StreamingJobStatus, memory: &Memory, foreign_bytes: usize) -> Value {
    let mut ours = match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    };
    ours.insert("memory".to_owned(), serde_json::to_value(memory).unwrap_or_default());
    if let Some(Value::Array(conditions)) = ours.get_mut("conditions") {
        conditions.extend(foreign_conditions(stored, foreign_bytes));
    }
    let mut fields: Map<String, Value> = stored.as_object().cloned().unwrap_or_default();
    fields.retain(|name, _| !OWN_FIELDS.contains(name));
    fields.extend(ours);
    Value::Object(fields)
}

/// The stored status of a job of which nothing may be decided: conditions speak, all else stays as it is.
pub fn hold(stored: &Value, conditions: &[Condition], generation: i64) -> Value {
    let mut fields: Map<String, Value> = stored.as_object().cloned().unwrap_or_default();
    let message = conditions.iter().find(|condition| condition.kind == "Ready").map(|ready| ready.message.clone());
    let ours = conditions.iter().map(weir_supervisor::status::condition);
    let ours = ours.map(|condition| serde_json::to_value(condition).unwrap_or_default());
    fields.insert("conditions".to_owned(), ours.chain(foreign_conditions(stored, FOREIGN_BYTES)).collect());
    let observed = stored["observedGeneration"].as_i64().unwrap_or_default().max(generation);
    fields.insert("observedGeneration".to_owned(), observed.into());
    if let Value::Object(summary) = fields.entry("summary").or_insert_with(|| Value::Object(Map::new())) {
        summary.insert("message".to_owned(), message.into());
    }
    Value::Object(fields)
}

/// Conditions that somebody else keeps here, as far as they fit into `bytes`: where all do not, their messages are cut, and
/// the longest ones are left out.
///
/// They have to be sent: the status is written by an update, which carries the `resourceVersion` and shows who wrote the
/// epoch last, and it replaces the whole list, as a merge patch would. So they are bounded when something of ours is
/// written, and that they are too long is no reason to write.
fn foreign_conditions(stored: &Value, bytes: usize) -> Vec<Value> {
    let known = stored["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let foreign: Vec<&Value> = known.iter().filter(|condition| !is_own(condition)).filter(|other| other["type"].is_string()).collect();
    let size = |condition: &Value| condition.to_string().len() + 1;
    if foreign.iter().map(|condition| size(condition)).sum::<usize>() <= bytes {
        return foreign.into_iter().cloned().collect();
    }
    let mut short: Vec<(usize, Value)> = foreign.into_iter().map(shortened).enumerate().collect();
    short.sort_by_cached_key(|(_, condition)| size(condition));
    let mut left = bytes;
    short.retain(|(_, condition)| {
        let fits = size(condition) <= left;
        left -= if fits { size(condition) } else { 0 };
        fits
    });
    short.sort_by_key(|(place, _)| *place);
    short.into_iter().map(|(_, condition)| condition).collect()
}

fn shortened(condition: &Value) -> Value {
    let fields = condition.as_object().into_iter().flatten();
    let shorten = |(name, value): (&String, &Value)| match value.as_str().filter(|_| name == "message") {
        Some(message) => (name.clone(), weir_supervisor::text::cut(message, SHORT).into()),
        None => (name.clone(), value.clone()),
    };
    fields.map(shorten).collect::<Map<String, Value>>().into()
}

fn is_own(condition: &Value) -> bool {
    condition["type"].as_str().is_some_and(|kind| CONDITION_TYPES.contains(&kind))
}

/// The names of the fields that this version writes.
static OWN_FIELDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let schema = serde_json::to_value(schemars::schema_for!(StreamingJobStatus)).unwrap_or_default();
    let fields = schema["properties"].as_object().map(|properties| properties.keys().cloned().collect());
    fields.unwrap_or_default()
});

/// How the new status differs from the stored one.
pub fn change(stored: &Value, new: &Value) -> Change {
    let (stored, new) = (&by_type(stored), &by_type(new));
    if stored == new {
        Change::None
    } else if facts(stored) == facts(new) {
        Change::Progress
    } else {
        Change::Fact
    }
}

/// The same with our conditions alone, in the order of their types: they are a map, so somebody else's order is no reason
/// to write, and neither are somebody else's conditions.
fn by_type(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        conditions.retain(is_own);
        conditions.sort_by(|one, other| one["type"].as_str().cmp(&other["type"].as_str()));
    }
    status
}

/// A status without the numbers that move by themselves.
fn facts(status: &Value) -> Value {
    let mut facts = status.clone();
    let Some(fields) = facts.as_object_mut() else { return facts };
    fields.remove("backlog");
    if let Some(Value::Object(summary)) = fields.get_mut("summary") {
        summary.remove("lastCommitTime");
        summary.remove("lag");
    }
    if let Some(Value::Array(tasks)) = fields.get_mut("tasks") {
        for task in tasks.iter_mut().filter_map(Value::as_object_mut) {
            task.remove("queries");
        }
    }
    if let Some(Value::Object(memory)) = fields.get_mut("memory") {
        memory.remove("health");
    }
    facts
}

#[cfg(test)]
mod tests;
