//! Pods that were removed after their end, as the watch told, until a pass asks for them.
//!
//! Passes never take a cached read for permission, and this is none. What a
//! cache says of the present (absent, running) may be old news; that a pod has
//! ended cannot become old. The last state in a Delete event is the API
//! server's own word on one UID; a terminal phase in it was written by the
//! kubelet once no container ran any more (or by the pod garbage collector for
//! a node that is no more), and neither phase nor a terminated container ever
//! goes back. A pass that had read the pod in time would have read just this.
//! A pod that never had a node ran nowhere, by the same reasoning. The proof
//! holds for the one epoch of that pod, for a job of that UID, and only where a
//! fresh read finds no pod in the slot. A removal by force leaves a last state
//! that says neither, and proves nothing. The answer to a deletion is as good as its event, and is there first.
//!
//! What is kept is slim and bounded; what is dropped costs a wait, never a run.

use std::collections::{HashMap, VecDeque};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use weir_supervisor::Timestamp;

use crate::names::{ENGINE_CONTAINER, EPOCH_VARIABLE, controller_uid};
use crate::observe;

/// Pods that are kept at most, of all jobs; each is taken within moments by the pass that its removal wakes.
const MOST: usize = 1024;

/// Pods that were removed after their end, by the UID of their job.
#[derive(Default)]
pub struct Ended {
    pods: HashMap<String, Vec<(u64, Pod)>>,
    order: VecDeque<(u64, String)>,
    newest: u64,
}

impl Ended {
    /// Keeps the last state of a pod that was removed, where it proves that nothing of the pod is alive.
    pub fn removed(&mut self, pod: &Pod, now: Timestamp) {
        let Some(job) = controller_uid(&pod.metadata) else { return };
        let Some(proof) = proof(pod, now) else { return };
        self.newest += 1;
        self.pods.entry(job.to_owned()).or_default().push((self.newest, proof));
        self.order.push_back((self.newest, job.to_owned()));
        if self.order.len() > MOST {
            self.drop_oldest();
        }
    }

    /// Takes what is kept of a job.
    pub fn take(&mut self, job: &str) -> Vec<Pod> {
        self.pods.remove(job).into_iter().flatten().map(|(_, pod)| pod).collect()
    }

    fn drop_oldest(&mut self) {
        let Some((number, job)) = self.order.pop_front() else { return };
        let Some(pods) = self.pods.get_mut(&job) else { return };
        pods.retain(|(kept, _)| *kept != number);
        if pods.is_empty() {
            self.pods.remove(&job);
        }
    }
}

/// The last state of a pod, where it shows that it ended or never began; so does the answer to a deletion, after which no
/// pod gets a node.
pub fn proof(pod: &Pod, now: Timestamp) -> Option<Pod> {
    (observe::has_ended(pod, now) || observe::pod::place(pod).is_none()).then(|| slim(pod))
}

/// As much of a pod as says whose it was and how it ended.
fn slim(pod: &Pod) -> Pod {
    let mut slim = pod.clone();
    slim.metadata.managed_fields = None;
    slim.metadata.annotations = None;
    slim.spec = pod.spec.as_ref().map(|spec| PodSpec {
        containers: spec.containers.iter().filter(|container| container.name == ENGINE_CONTAINER).map(engine).collect(),
        node_name: spec.node_name.clone(),
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        ..PodSpec::default()
    });
    slim
}

fn engine(container: &Container) -> Container {
    let variables = container.env.iter().flatten().filter(|variable| variable.name == EPOCH_VARIABLE).cloned().collect();
    Container { name: container.name.clone(), env: Some(variables), ..Container::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;
    use crate::names::epoch_of_pod;

    fn pod(job: &str, epoch: usize, node: Option<&str>, status: Value) -> Pod {
        let owner = json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "name": "j", "uid": job, "controller": true});
        serde_json::from_value(json!({
            "metadata": {"name": "j--t", "uid": format!("{job}-{epoch}"), "ownerReferences": [owner], "annotations": {"a": "b"}},
            "spec": {"nodeName": node, "containers": [
                {"name": "sidecar", "image": "x"},
                {"name": "engine", "image": "x", "env": [{"name": "WEIR_EPOCH", "value": epoch.to_string()}, {"name": "B", "value": "c"}]},
            ]},
            "status": status,
        }))
        .unwrap()
    }

    fn epochs(pods: &[Pod]) -> Vec<u64> {
        pods.iter().filter_map(epoch_of_pod).collect()
    }

    #[test]
    fn only_an_end_that_was_written_or_a_pod_without_a_node_is_proof() {
        let terminated = json!({"phase": "Running", "containerStatuses": [{
            "name": "engine", "ready": false, "restartCount": 0, "image": "x", "imageID": "", "state": {"terminated": {"exitCode": 1}},
        }]});
        for (node, status, proof) in [
            (Some("n"), json!({"phase": "Failed"}), true),
            (Some("n"), json!({"phase": "Succeeded"}), true),
            (Some("n"), terminated, true),
            (None, json!({"phase": "Pending"}), true),
            (Some("n"), json!({"phase": "Pending"}), false),
            (Some("n"), json!({"phase": "Running"}), false),
            (Some("n"), json!({"phase": "Unknown"}), false),
            (Some("n"), json!({}), false),
        ] {
            let mut ended = Ended::default();
            ended.removed(&pod("u", 1, node, status.clone()), Timestamp::UNIX_EPOCH);
            assert_eq!(ended.take("u").len(), usize::from(proof), "{node:?} {status}");
            assert!(ended.take("u").is_empty());
        }
        let mut ended = Ended::default();
        ended.removed(&Pod { metadata: Default::default(), ..pod("u", 1, None, json!({})) }, Timestamp::UNIX_EPOCH);
        assert!(ended.pods.is_empty(), "nobody's");
    }

    #[test]
    fn what_nobody_asks_for_is_dropped_oldest_first() {
        let mut ended = Ended::default();
        let failed = json!({"phase": "Failed"});
        for number in 0..MOST + 3 {
            ended.removed(&pod(&format!("u{}", number % 7), number, Some("n"), failed.clone()), Timestamp::UNIX_EPOCH);
        }
        assert_eq!(ended.order.len(), MOST);
        assert_eq!(ended.pods.values().map(Vec::len).sum::<usize>(), MOST);
        assert_eq!(epochs(&ended.take("u2"))[0], 9, "2 is gone, 9 is not");
        for number in 0..MOST {
            ended.removed(&pod("other", number, Some("n"), failed.clone()), Timestamp::UNIX_EPOCH);
        }
        assert_eq!((ended.pods.len(), ended.order.len()), (1, MOST));
        let kept = ended.take("other");
        assert_eq!(kept.len(), MOST);
        let spec = kept[0].spec.as_ref().unwrap();
        assert_eq!((spec.containers.len(), spec.containers[0].env.as_ref().unwrap().len()), (1, 1));
        assert!(kept[0].metadata.annotations.is_none());
    }
}
