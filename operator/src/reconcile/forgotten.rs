//! What a memory that is lost may have forgotten, and whether that can do harm.
//!
//! A status that was wiped as a whole tells nothing; a recorded generation does,
//! because it is stored after a memory and before any pod. Nothing is forgotten
//! where every task that may have been begun shows its pod; what is, is harmless
//! behind a fence that covers every generation which is kept or named. Whether a
//! job is held for it is told by `hold`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_supervisor::conditions::{Condition, ConditionStatus, Reason};
use weir_supervisor::generation::Accepted;
use weir_supervisor::memory::LeftBehind;

use super::{Footing, PassError};
use crate::accept;
use crate::context::Context;
use crate::fencing;
use crate::job::{Job, Remembered};
use crate::local::Local;
use crate::names::{JobId, pod_name};
use crate::observe;

/// What a lost memory may have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// Nothing: there is a memory, or whoever was begun is seen.
    Nothing,
    /// An instance that is harmless to what is begun behind its fence, and to nothing else.
    Fenced,
    /// An instance that may still have effects.
    Perhaps,
}

/// What stands for the instances that a lost memory may have forgotten: by task, one behind the fence that covers them all.
pub fn stand_ins(job: &Job, accepted: &Accepted) -> BTreeMap<String, LeftBehind> {
    let of = |fence| LeftBehind { epoch: job.status_epoch(), fence, place: None, with_earlier: true };
    let fences = fencing::fences(&accepted.spec, &job.id.namespace, &job.id.name);
    fences.into_iter().map(|(task, fence)| (task, of(fence))).collect()
}

/// Whether the status shows that there was a memory and is none.
pub fn is_memory_lost(job: &Job) -> bool {
    match &job.memory {
        // What told of a run may have been a condition that this very hold has replaced.
        Remembered::Nothing => job.shows_a_run() || shows(job, Reason::MemoryLost),
        Remembered::Damaged(_) => true,
        Remembered::Known(_) | Remembered::Newer(_) | Remembered::Unreadable(_) => false,
    }
}

/// What is not remembered of a job, and whether that may do harm. A status that was wiped as a whole tells nothing; a
/// recorded generation does, because it is stored after a memory and before any pod.
pub async fn look(context: &Context, job: &Job, footing: &Footing, local: &Local) -> Result<Forgotten, PassError> {
    let is_shown = match &job.memory {
        Remembered::Known(_) => return Ok(Forgotten::Nothing),
        // Their memory is there, so they are held in any case; only a deletion does without.
        Remembered::Newer(_) | Remembered::Unreadable(_) if !job.is_deleting() => return Ok(Forgotten::Nothing),
        Remembered::Newer(_) | Remembered::Unreadable(_) => true,
        Remembered::Nothing | Remembered::Damaged(_) => is_memory_lost(job),
    };
    if !is_shown && local.is_new && footing.accepted.is_none() {
        return Ok(Forgotten::Nothing);
    }
    let maps = context.cluster.config_maps(&job.id).await?;
    let own: Vec<&ObjectMeta> = maps.iter().filter(|map| job.id.owns(map)).collect();
    if !is_shown && own.is_empty() {
        return Ok(Forgotten::Nothing);
    }
    let mut recorded = Vec::new();
    for name in own.into_iter().filter_map(|map| map.name.as_deref()) {
        let Some(map) = context.cluster.config_map(&job.id.namespace, name).await? else { continue };
        // One that cannot be read may have been begun.
        let Some(accepted) = accept::recorded(&context.key, &job.id, &map) else { return Ok(Forgotten::Perhaps) };
        recorded.push(accepted);
    }
    // What it is held for has been taken away since, which vouches for nothing.
    if recorded.is_empty() && shows(job, Reason::MemoryLost) {
        return Ok(Forgotten::Perhaps);
    }
    if !is_shown && is_all_there(&job.id, &recorded, &context.cluster.pods(&job.id).await?) {
        return Ok(Forgotten::Nothing);
    }
    let is_fenced = match (&job.spec, &footing.accepted) {
        (Ok(spec), _) if job.is_deleting() => fencing::covers_the_end(&job.id, spec, &recorded, &job.shown_generations()),
        (_, Some(accepted)) if !job.is_deleting() => fencing::covers(&job.id, &accepted.spec, &recorded, &job.shown_generations()),
        _ => false,
    };
    Ok(if is_fenced { Forgotten::Fenced } else { Forgotten::Perhaps })
}

/// Whether each task that may have been begun has its pod, with nothing before it. A pod is made only when the one before it
/// in its place is over, or behind the same fence; what is behind one is harmless once this one has claimed it, and is ready.
fn is_all_there(id: &JobId, recorded: &[Accepted], pods: &[Pod]) -> bool {
    let found = |wanted: &dyn Fn(&Pod) -> bool| -> BTreeSet<&str> {
        pods.iter().filter(|pod| id.owns(&pod.metadata) && wanted(pod)).filter_map(name_of).collect()
    };
    let (present, ready) = (found(&|_| true), found(&observe::pod::is_ready));
    let mut tasks = recorded.iter().flat_map(|accepted| {
        let fences = fencing::fences(&accepted.spec, &id.namespace, &id.name);
        accepted.spec.tasks.iter().map(move |task| (pod_name(&id.name, &task.name), fences.contains_key(&task.name)))
    });
    !recorded.is_empty() && tasks.all(|(pod, is_fenced)| if is_fenced { &ready } else { &present }.contains(pod.as_str()))
}

fn name_of(pod: &Pod) -> Option<&str> {
    pod.metadata.name.as_deref()
}

fn shows(job: &Job, reason: Reason) -> bool {
    let is_shown = |condition: &Condition| condition.status == ConditionStatus::True && condition.reason == reason.as_str();
    job.conditions().iter().any(|condition| condition.kind == "Stalled" && is_shown(condition))
}

/// Jobs for tests of what holds them.
#[cfg(test)]
pub(super) mod samples {
    use serde_json::{Value, json};

    use super::*;

    pub fn job(status: &Value, discards: &str, deletion: Value) -> Job {
        let metadata = json!({
            "name": "j", "namespace": "n", "uid": "u", "generation": 2, "deletionTimestamp": deletion,
            "annotations": {weir_crds::annotations::DISCARD_MEMORY: discards},
        });
        let object = json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "metadata": metadata, "spec": {}, "status": status});
        Job::read(serde_json::from_value(object).expect("an object"))
    }

    pub fn stalled(reason: &str, message: &str) -> Value {
        let condition = json!({"type": "Stalled", "status": "True", "reason": reason, "message": message, "lastTransitionTime": "2026-11-30T12:00:00Z"});
        json!({"conditions": [condition]})
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::samples::{job, stalled};
    use super::*;

    #[test]
    fn nothing_is_forgotten_where_every_task_that_was_recorded_has_its_pod() {
        let id = JobId { namespace: "n".to_owned(), name: "j".to_owned(), uid: "u".to_owned() };
        let of = |generation, sink: &str, tasks: &[&str]| {
            let query = json!({"name": "q", "sources": [], "sql": "", "sink": {"format": sink}, "checkpointLocation": "s3://b/c"});
            let tasks: Vec<Value> = tasks.iter().map(|name| json!({"name": name, "queries": [query]})).collect();
            let spec = serde_json::from_value(json!({"trigger": {"continuous": {}}, "tasks": tasks})).expect("a spec");
            Accepted::first(generation, spec)
        };
        let pods = |names: &[&str], ready: &str| -> Vec<Pod> {
            let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
            let of = |name: &&str| {
                let metadata = json!({"name": name, "ownerReferences": [id.owner_reference()]});
                serde_json::from_value(json!({"metadata": metadata, "status": status})).expect("a pod")
            };
            names.iter().map(of).collect()
        };
        let all_there = |recorded: &[Accepted], pods: &[Pod]| is_all_there(&id, recorded, pods);
        let recorded = [of(1, "console", &["a"]), of(2, "console", &["a", "b"])];
        let both = pods(&["j--a", "j--b"], "False");
        assert!(all_there(&recorded, &both) && all_there(&recorded[..1], &both[..1]));
        for names in [&[][..], &["j--a"], &["j--b", "k--a"]] {
            assert!(!all_there(&recorded, &pods(names, "True")), "{names:?}");
        }
        assert!(!all_there(&[], &both), "what was begun is not known");
        let fenced = [of(1, "delta", &["a", "b"]), of(2, "console", &["a", "b"])];
        assert!(!all_there(&fenced, &both), "one before it may go on until the fence is claimed");
        assert!(all_there(&fenced, &pods(&["j--a", "j--b"], "True")));
    }

    #[test]
    fn a_memory_is_lost_where_there_was_one() {
        for (status, lost) in [
            (json!({"observedGeneration": -1}), false),
            (json!({"epoch": 0, "memory": {"version": 1}}), false),
            (json!({"epoch": 3, "memory": {"version": 1, "epoch": 3}}), false),
            (json!({"epoch": 3}), true),
            (json!({"history": [{"number": 1}]}), true),
            (json!({"memory": {"version": 1, "epoch": "x"}}), true),
            (json!({"epoch": 3, "memory": {"version": 1}}), true),
            (json!({"epoch": 3, "run": {"number": 1}, "memory": {"version": 1, "epoch": 3, "run": null}}), true),
            (json!({"epoch": 3, "tasks": [{"name": "t", "epoch": 3}], "memory": {"version": 1, "epoch": 3}}), true),
            (json!({"lastRun": {"number": 1, "epoch": 3}, "memory": {"version": 1, "epoch": 2}}), true),
            (json!({"epoch": 3, "memory": {"version": 1, "epoch": 4}}), false),
            (stalled("MemoryLost", ""), true),
            (stalled("StatusNotKept", ""), false),
        ] {
            assert_eq!(is_memory_lost(&job(&status, "", Value::Null)), lost, "{status}");
        }
        let little = json!({"epoch": 3, "memory": {"version": 1, "epoch": 2}});
        assert!(is_memory_lost(&job(&little, "", json!("2026-11-30T12:00:00Z"))), "a deletion mends nothing");
    }
}
