//! The judges: pure functions over versions of jobs and over pods, in the order seen.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use weir_crds::resource::CONDITION_TYPES;

use super::kstatus::{Kstatus, kstatus};
use super::{Invariant, Violation};

/// Most bytes of a status.
const STATUS_BYTES: usize = 32 * 1024;
/// Reasons of Ready with which a job is well or intentionally idle.
const WELL: [&str; 4] = ["Streaming", "BetweenRuns", "WaitingForTrigger", "Suspended"];

/// One version of a job, as JSON.
pub type Version = Value;

/// I4, I5, I6, I9 and I10 over all versions of jobs, in the order of the watch.
pub fn judge_versions(versions: &[Version]) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut previous: HashMap<&str, &Version> = HashMap::new();
    for version in versions {
        let uid = version["metadata"]["uid"].as_str().unwrap_or_default();
        wrong.extend(judge_one(version));
        if let Some(before) = previous.insert(uid, version) {
            wrong.extend(judge_pair(before, version));
        }
    }
    wrong
}

fn name(version: &Version) -> String {
    let text = |key: &str| version["metadata"][key].as_str().unwrap_or_default().to_owned();
    format!("{} at resourceVersion {}", text("name"), text("resourceVersion"))
}

fn conditions(version: &Version) -> &[Value] {
    version["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn written<'a>(version: &'a Version, kind: &str) -> Option<&'a Value> {
    conditions(version).iter().find(|condition| condition["type"] == kind)
}

/// A condition of a job; null where it has none of that kind.
pub fn condition<'a>(version: &'a Version, kind: &str) -> &'a Value {
    written(version, kind).unwrap_or(&Value::Null)
}

fn judge_one(version: &Version) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut add = |invariant, what: String| wrong.push(Violation { invariant, what: format!("{}: {what}", name(version)) });
    let status = &version["status"];
    let bytes = status.to_string().len();
    if bytes > STATUS_BYTES {
        add(Invariant::I9, format!("the status has {bytes} bytes"));
    }
    let (observed, generation) = (status["observedGeneration"].as_i64(), version["metadata"]["generation"].as_i64());
    if observed > generation {
        add(Invariant::I4, format!("observedGeneration {observed:?} is above generation {generation:?}"));
    }
    let is_written = observed.is_some_and(|observed| observed >= 0) || !conditions(version).is_empty();
    if is_written {
        let missing: Vec<&str> = CONDITION_TYPES.into_iter().filter(|kind| written(version, kind).is_none()).collect();
        if !missing.is_empty() {
            add(Invariant::I10, format!("the conditions {missing:?} are missing"));
        }
    }
    let holds = |kind: &str| written(version, kind).is_some_and(|condition| condition["status"] == "True");
    if holds("Reconciling") && holds("Stalled") {
        add(Invariant::I10, "Reconciling and Stalled are both True".to_owned());
    }
    if kstatus(version) == Kstatus::Current {
        let reason = written(version, "Ready").filter(|ready| ready["status"] == "True").and_then(|ready| ready["reason"].as_str());
        if !reason.is_some_and(|reason| WELL.contains(&reason)) {
            add(Invariant::I6, format!("kstatus says Current although Ready's reason is {reason:?}"));
        }
        if reason == Some("Streaming") && !holds("Running") {
            add(Invariant::I6, "kstatus says Current of a stream that does not run".to_owned());
        }
        if reason == Some("Suspended") && version["spec"]["suspend"] != true {
            add(Invariant::I6, "kstatus says Current as suspended although the spec does not suspend".to_owned());
        }
    }
    wrong
}

fn judge_pair(before: &Version, after: &Version) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut add = |invariant, what: String| wrong.push(Violation { invariant, what: format!("{}: {what}", name(after)) });
    let observed = |version: &Version| version["status"]["observedGeneration"].as_i64();
    if observed(after) < observed(before) {
        add(Invariant::I4, format!("observedGeneration went from {:?} to {:?}", observed(before), observed(after)));
    }
    let epoch = |version: &Version| version["status"]["epoch"].as_i64();
    if epoch(after) < epoch(before) {
        add(Invariant::I2, format!("status.epoch went from {:?} to {:?}", epoch(before), epoch(after)));
    }
    for new in conditions(after) {
        let kind = new["type"].as_str().unwrap_or_default();
        let Some(old) = written(before, kind) else { continue };
        let (old_time, new_time) = (old["lastTransitionTime"].as_str(), new["lastTransitionTime"].as_str());
        let flipped = old["status"] != new["status"];
        if !flipped && old_time != new_time {
            add(Invariant::I5, format!("{kind} kept its status and moved its time from {old_time:?} to {new_time:?}"));
        }
        // Times have whole seconds, so two flips may share one; RFC 3339 in UTC sorts as text.
        if flipped && new_time < old_time {
            add(Invariant::I5, format!("{kind} flipped and its time went back from {old_time:?} to {new_time:?}"));
        }
    }
    wrong
}

/// I2 over pods in the order of their creation: job UID, task and epoch of each.
pub fn epochs_of_pods<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut seen: HashMap<String, (String, BTreeMap<u64, String>)> = HashMap::new();
    let mut newest: HashMap<(String, String), u64> = HashMap::new();
    for pod in pods {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let owners = pod.metadata.owner_references.iter().flatten();
        let owner = owners.clone().find(|owner| owner.controller == Some(true) && owner.kind == "StreamingJob");
        let (Some(owner), Some(epoch)) = (owner, epoch(pod)) else { continue };
        let (_, epochs) = seen.entry(owner.uid.clone()).or_insert_with(|| (owner.name.clone(), BTreeMap::new()));
        if let Some(other) = epochs.insert(epoch, uid.clone())
            && other != uid
        {
            let what = format!("job {}: pods {other} and {uid} share epoch {epoch}", owner.name);
            wrong.push(Violation { invariant: Invariant::I2, what });
        }
        if let Some(before) = newest.insert((owner.uid.clone(), name.clone()), epoch)
            && before > epoch
        {
            wrong.push(Violation { invariant: Invariant::I2, what: format!("pod {name}: epoch {epoch} came after {before}") });
        }
    }
    wrong
}

fn epoch(pod: &Pod) -> Option<u64> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let variables = containers.flat_map(|container| container.env.iter().flatten()).filter(|variable| variable.name == "WEIR_EPOCH");
    let fixed = variables.filter_map(|variable| variable.value.as_ref()?.parse().ok()).next();
    fixed.or_else(|| pod.metadata.labels.as_ref()?.get("weir.dev/epoch")?.parse().ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn version(generation: i64, observed: i64, ready: (&str, &str, &str)) -> Version {
        let condition = |kind: &str| match kind {
            "Ready" => json!({"type": kind, "status": ready.0, "reason": ready.1, "lastTransitionTime": ready.2}),
            "Running" => json!({"type": kind, "status": "True", "reason": "x", "lastTransitionTime": "1"}),
            _ => json!({"type": kind, "status": "False", "reason": "x", "lastTransitionTime": "1"}),
        };
        json!({
            "metadata": {"uid": "u", "name": "j", "generation": generation},
            "spec": {},
            "status": {"observedGeneration": observed, "conditions": CONDITION_TYPES.map(condition)},
        })
    }

    fn broken(versions: &[Version]) -> Vec<Invariant> {
        judge_versions(versions).into_iter().map(|violation| violation.invariant).collect()
    }

    #[test]
    fn a_healthy_history_breaks_nothing() {
        let created = json!({"metadata": {"uid": "u", "generation": 1}, "status": {"observedGeneration": -1}});
        let history = [created, version(1, 1, ("False", "RunStarting", "1")), version(1, 1, ("True", "Streaming", "2"))];
        assert_eq!(broken(&history), []);
    }

    #[test]
    fn each_broken_invariant_is_named() {
        let good = version(2, 2, ("True", "Streaming", "2"));
        assert_eq!(broken(&[good.clone(), version(2, 1, ("True", "Streaming", "2"))]), [Invariant::I4]);
        assert_eq!(broken(&[version(1, 2, ("True", "Streaming", "2"))]), [Invariant::I4]);
        assert_eq!(broken(&[good.clone(), version(2, 2, ("True", "Streaming", "3"))]), [Invariant::I5]);
        assert_eq!(broken(&[version(2, 2, ("True", "Elsewhere", "2"))]), [Invariant::I6]);
        assert_eq!(broken(&[json!({"metadata": {"uid": "u", "generation": 1}})]), [Invariant::I6]);
        let mut long = good.clone();
        long["status"]["memory"] = json!("x".repeat(STATUS_BYTES));
        assert_eq!(broken(&[long]), [Invariant::I9]);
        let mut both = version(2, 2, ("False", "RunStarting", "2"));
        for at in [1, 2] {
            both["status"]["conditions"][at]["status"] = json!("True");
        }
        assert_eq!(broken(&[both]), [Invariant::I10]);
        let mut few = good;
        few["status"]["conditions"].as_array_mut().unwrap().pop();
        assert_eq!(broken(&[few]), [Invariant::I10]);
    }

    fn pod(uid: usize, task: &str, epoch: u64) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "uid": uid.to_string(),
                "name": format!("j--{task}"),
                "ownerReferences": [{"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "name": "j", "uid": "u", "controller": true}],
            },
            "spec": {"containers": [{"name": "engine", "env": [{"name": "WEIR_EPOCH", "value": epoch.to_string()}]}]},
        }))
        .unwrap()
    }

    #[test]
    fn versions_of_one_pod_are_one_pod() {
        assert_eq!(epochs_of_pods(&[pod(1, "a", 1), pod(1, "a", 1), pod(2, "b", 3), pod(3, "a", 2)]), []);
    }

    proptest! {
        #[test]
        fn epochs_of_one_task_must_rise(epochs in proptest::collection::vec(1u64..6, 0..6)) {
            let pods: Vec<Pod> = epochs.iter().enumerate().map(|(uid, epoch)| pod(uid, "a", *epoch)).collect();
            let rises = epochs.windows(2).all(|pair| pair[0] < pair[1]);
            prop_assert_eq!(epochs_of_pods(&pods).is_empty(), rises);
        }
    }
}
