//! Which epoch the next one must be above, from everything that the API server keeps.
//!
//! The memory counts; status, pods and answers are held against it. Where the
//! counter cannot be trusted the clock gives the next epoch: seconds pass
//! faster than pods are created, and where they do not, this process knows what it
//! gave out, so no epoch comes twice. It is not trusted
//! when it is gone, below what is recorded beside it or below a living pod, or
//! written by somebody else: the API server itself keeps, in `managedFields`,
//! who last changed a field, which is a second place that an edit by hand or a
//! restored backup cannot leave out. Pure.

use weir_supervisor::Timestamp;

use crate::job::{Job, Remembered};
use crate::names::MANAGER;

/// What is known beside the job itself.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The highest epoch of its pods.
    pub of_pods: u64,
    /// Whether this process took the job on just now, so that an empty status is a new one and not a wiped one.
    pub is_new: bool,
}

/// The highest epoch that may have been given out.
pub fn highest(job: &Job, known: &Known, now: Timestamp) -> u64 {
    let recorded = known.of_pods.max(job.status_epoch());
    if is_trusted(job, known, recorded) {
        return recorded;
    }
    recorded.max(of_clock(now))
}

/// The epoch that the clock gives: seconds since 1970.
pub fn of_clock(now: Timestamp) -> u64 {
    u64::try_from(now.timestamp()).unwrap_or_default()
}

fn is_trusted(job: &Job, known: &Known, recorded: u64) -> bool {
    match &job.memory {
        Remembered::Nothing => known.is_new && recorded == 0,
        // One of a later Weir, or that no reader takes, comes here only when it is to be discarded.
        Remembered::Damaged(_) | Remembered::Newer(_) | Remembered::Unreadable(_) => false,
        Remembered::Known(memory) => recorded.max(memory.highest_epoch()) <= memory.epoch && !is_foreign(job),
    }
}

/// Whether somebody else wrote the counter last.
fn is_foreign(job: &Job) -> bool {
    [&["f:status", "f:epoch"][..], &["f:status", "f:memory", "f:epoch"]].iter().any(|path| {
        let owning = job.managers.iter().filter(|manager| manager.owns(path));
        let owners: Vec<&str> = owning.filter_map(|manager| manager.name.as_deref()).collect();
        !owners.is_empty() && !owners.contains(&MANAGER)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    const NOW: i64 = 1_796_000_000;

    fn next_above(status: Value, managers: &[(&str, Value)], of_pods: u64, is_new: bool) -> u64 {
        let fields: Vec<Value> = managers
            .iter()
            .map(|(manager, fields)| {
                json!({"manager": manager, "operation": "Update", "subresource": "status", "fieldsType": "FieldsV1",
                       "fieldsV1": {"f:status": fields}})
            })
            .collect();
        let object = json!({
            "apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob",
            "metadata": {"name": "j", "namespace": "n", "uid": "u", "managedFields": fields},
            "spec": {}, "status": status,
        });
        let job = Job::read(serde_json::from_value(object).unwrap());
        highest(&job, &Known { of_pods, is_new }, Timestamp::from_timestamp(NOW, 0).unwrap())
    }

    fn status(epoch: u64, memory: u64) -> Value {
        json!({"epoch": epoch, "memory": {"version": 1, "epoch": memory}})
    }

    #[test]
    fn what_agrees_is_believed() {
        let by_clock = u64::try_from(NOW).unwrap();
        let ours = json!({"f:epoch": {}, "f:memory": {"f:epoch": {}}});
        assert_eq!(next_above(json!({"observedGeneration": -1}), &[], 0, true), 0, "a new job");
        assert_eq!(next_above(status(7, 7), &[(MANAGER, ours.clone())], 7, false), 7);
        assert_eq!(next_above(status(7, 7), &[(MANAGER, ours.clone()), ("kubectl", json!({"f:conditions": {}}))], 6, false), 7);
        assert_eq!(next_above(status(7, 7), &[(MANAGER, ours.clone()), ("flux", ours.clone())], 6, false), 7, "both say so");
        assert_eq!(next_above(status(7, 7), &[], 7, false), 7, "nobody knows who wrote it");
        assert_eq!(next_above(json!({"observedGeneration": -1}), &[], 0, false), by_clock, "a wiped status");
        assert_eq!(next_above(json!({"memory": {"version": 1, "epoch": "x"}}), &[], 3, true), by_clock);
    }

    #[test]
    fn a_counter_that_was_lowered_by_hand_gives_way_to_the_clock() {
        let by_clock = u64::try_from(NOW).unwrap();
        assert_eq!(next_above(status(7, 3), &[], 0, false), by_clock, "the memory alone");
        assert_eq!(next_above(status(3, 3), &[], 7, false), by_clock, "below a living pod");
        let mut row = status(3, 3);
        row["lastRun"] = json!({"epoch": 7});
        assert_eq!(next_above(row, &[], 0, false), by_clock, "below a row of the status");
        let mut run = status(3, 3);
        run["memory"]["lastRun"] = json!({
            "number": 1, "generation": 1, "epoch": 7, "result": "Succeeded", "cause": "None", "reason": "Completed", "message": "",
            "startedAt": "2026-11-30T00:00:00Z", "finishedAt": "2026-11-30T00:00:00Z",
        });
        assert_eq!(next_above(run, &[], 0, false), by_clock, "below a run of the memory");
        let theirs = json!({"f:epoch": {}, "f:memory": {"f:epoch": {}}});
        let rest = json!({"f:conditions": {}});
        assert_eq!(next_above(status(3, 3), &[(MANAGER, rest.clone()), ("kubectl-edit", theirs)], 0, false), by_clock, "both, by hand");
        let memory = json!({"f:memory": {"f:epoch": {}}});
        assert_eq!(next_above(status(3, 3), &[(MANAGER, rest), ("kubectl-edit", memory)], 0, false), by_clock);
        let absurd = u64::MAX;
        assert_eq!(next_above(status(absurd, 3), &[], 0, false), 0, "no epoch has so many digits");
    }
}
