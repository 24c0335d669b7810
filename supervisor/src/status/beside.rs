//! Whether a memory can be the one that a status was written with.
//!
//! A status is rendered of its memory and stored in one write with it, so it
//! never tells of a run, an instance or an epoch that the memory does not
//! know. Where it does, somebody put another memory in its place, or a part of
//! it was dropped on the way. A memory that knows more than its status is
//! none of that. Pure.

use serde_json::Value;

use crate::conditions::{Condition, ConditionStatus, Reason};
use crate::memory::{HIGHEST_CLAIM, Memory};

/// The highest epoch that a status shows.
pub fn highest_epoch(shown: &Value) -> u64 {
    let rows = [&shown["tasks"], &shown["history"]].into_iter().flat_map(rows);
    let places = rows.chain([shown, &shown["run"], &shown["lastRun"]]);
    places.filter_map(|place| place["epoch"].as_u64()).filter(|epoch| *epoch <= HIGHEST_CLAIM).max().unwrap_or_default()
}

/// What a status tells that the memory beside it does not know, for people; none where they go together.
pub fn contradiction(shown: &Value, memory: &Memory) -> Option<String> {
    let (epoch, known) = (highest_epoch(shown), memory.highest_epoch());
    if known < epoch {
        return Some(format!("it knows no epoch above {known}, the status tells of {epoch}"));
    }
    let run = memory.run.as_ref();
    let number = |run: &Value| run["number"].as_u64().unwrap_or_default();
    let shown_run = &shown["run"];
    if !shown_run.is_null() && run.is_none_or(|run| run.number < number(shown_run)) {
        return Some(format!("it does not know run {}, of which the status tells", number(shown_run)));
    }
    if shown["tasksCollapsed"].as_u64().unwrap_or_default() > 0 && run.is_none() {
        return Some("it knows no run, the status tells of tasks".to_owned());
    }
    let forgotten = rows(&shown["tasks"]).find(|row| {
        let task = run.and_then(|run| run.tasks.get(row["name"].as_str().unwrap_or_default()));
        task.is_none_or(|task| task.epoch.unwrap_or_default() < row["epoch"].as_u64().unwrap_or_default())
    });
    if let Some(row) = forgotten {
        return Some(format!("it does not know what the status tells of task {}", row["name"].as_str().unwrap_or_default()));
    }
    let last = &shown["lastRun"];
    if !last.is_null() && memory.last_run.as_ref().is_none_or(|known| known.number < number(last)) {
        return Some(format!("it does not know the end of run {}, of which the status tells", number(last)));
    }
    if memory.conditions.is_empty() && !rows(&shown["conditions"]).all(is_anothers) {
        return Some("it has no conditions, the status shows some".to_owned());
    }
    let is_nobody_known = run.is_none() && memory.strangers.is_empty() && memory.given_up.is_empty() && memory.left_behind.is_empty();
    let unproven = memory.conditions.iter().find(|condition| is_unproven(condition)).filter(|_| is_nobody_known)?;
    Some(format!("it does not know the instance that its condition {}/{} is about", unproven.kind, unproven.reason))
}

/// Whether a condition says that something may be alive which only the memory tells of.
fn is_unproven(condition: &Condition) -> bool {
    let reasons = [Reason::PodVanished, Reason::NodeUnreachable];
    condition.kind == "PreviousRunTerminated"
        && condition.status == ConditionStatus::False
        && reasons.iter().any(|reason| condition.reason == reason.as_str())
}

fn is_anothers(condition: &Value) -> bool {
    let kind = condition["type"].as_str().unwrap_or_default();
    !weir_crds::resource::CONDITION_TYPES.contains(&kind)
}

fn rows(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        let task = json!({"state": "Running", "hash": "h", "generation": 1, "attempt": 1, "failures": 0, "epoch": 7, "seen": true});
        let last = json!({
            "number": 1, "generation": 1, "epoch": 6, "result": "Failed", "cause": "Application", "reason": "Failed", "message": "",
            "startedAt": "2026-11-30T12:00:00Z", "finishedAt": "2026-11-30T12:00:00Z",
        });
        let run = json!({"number": 2, "generation": 1, "runHash": "r", "startedAt": "2026-11-30T12:00:00Z", "tasks": {"t": task}});
        let condition = json!({
            "type": "PreviousRunTerminated", "status": "False", "reason": "PodVanished", "message": "",
            "lastTransitionTime": "2026-11-30T12:00:00Z", "observedGeneration": 1,
        });
        json!({"version": 1, "epoch": 7, "runNumber": 2, "run": run, "lastRun": last, "conditions": [condition]})
    }

    fn shown() -> Value {
        json!({
            "epoch": 7, "run": {"number": 2}, "lastRun": {"number": 1, "epoch": 6}, "tasks": [{"name": "t", "epoch": 7}],
            "history": [{"number": 1, "epoch": 6}], "conditions": [{"type": "Ready"}, {"type": "example.com/Audited"}],
        })
    }

    fn found(shown: &Value, memory: &Value) -> bool {
        contradiction(shown, &Memory::from_json(&memory.to_string()).unwrap()).is_some()
    }

    #[test]
    fn what_was_written_together_goes_together_and_a_memory_may_know_more() {
        assert!(!found(&shown(), &document()));
        for part in ["epoch", "run", "lastRun", "tasks", "history", "conditions"] {
            let mut less = shown();
            less.as_object_mut().unwrap().remove(part);
            assert!(!found(&less, &document()), "{part}");
        }
        assert!(!found(&json!({}), &json!({"version": 1})), "a new job");
        assert!(!found(&json!({"conditions": [{"type": "example.com/Audited"}]}), &json!({"version": 1})));
        assert!(!found(&json!({"epoch": u64::MAX}), &document()), "no epoch has so many digits");
    }

    #[test]
    fn a_part_that_the_status_tells_of_and_the_memory_lacks_is_a_contradiction() {
        let document = document();
        let changed = |pointer: &str, value: Value| {
            let mut changed = document.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            changed
        };
        for (what, memory) in [
            ("nothing", json!({"version": 1})),
            ("no run", changed("/run", Value::Null)),
            ("an earlier run", changed("/run/number", json!(1))),
            ("no task", changed("/run/tasks", json!({}))),
            ("a task before its epoch", changed("/run/tasks/t/epoch", json!(6))),
            ("a task without an epoch", changed("/run/tasks/t/epoch", Value::Null)),
            ("no end of a run", changed("/lastRun", Value::Null)),
            ("no conditions", changed("/conditions", json!([]))),
        ] {
            assert!(found(&shown(), &memory), "{what}");
        }
        let epochs = json!({"version": 1, "epoch": 5, "conditions": document["conditions"], "strangers": {"t": {"epoch": 5}}});
        assert!(found(&json!({"epoch": 6}), &epochs) && found(&json!({"history": [{"epoch": 6}]}), &epochs));
        assert!(!found(&json!({"epoch": 5}), &epochs), "an instance that no run calls its own is known");
        assert!(found(&json!({"tasksCollapsed": 2}), &epochs));
        // The pod that vanished, of which the memory's own conditions tell though the status was held since.
        assert!(found(&json!({"epoch": 7}), &changed("/run", Value::Null)));
    }
}
