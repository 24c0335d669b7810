//! A pod's status from facts: phase, conditions and container statuses as a kubelet words them.
//!
//! Pure but for the memory of when a condition changed. What a test asked for
//! (an eviction, an empty container list) is a verdict that overrides what the
//! processes say.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::table::ProcessExit;

/// What a container does.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It cannot start yet.
    Waiting { reason: &'static str, message: String },
    /// Its process runs.
    Running { since: Timestamp, ready: bool },
    /// Its process has ended.
    Ended { since: Timestamp, until: Timestamp, exit: ProcessExit, reason: &'static str, message: Option<String> },
}

/// One container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerFacts {
    pub name: String,
    pub image: String,
    pub state: State,
}

/// A decision about the pod as a whole.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// A disruption: phase Failed, a reason, and the condition DisruptionTarget.
    Disrupted { reason: String, message: String, condition_reason: String },
    /// Failed, and nothing is known of its containers.
    Empty,
}

/// A pod on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct PodFacts {
    pub ip: Option<Ipv4Addr>,
    pub started: Timestamp,
    pub containers: Vec<ContainerFacts>,
    pub verdict: Option<Verdict>,
}

impl PodFacts {
    /// The phase.
    pub fn phase(&self) -> &'static str {
        let all_ended = self.containers.iter().all(|container| matches!(container.state, State::Ended { .. }));
        let failed = self.containers.iter().any(|container| matches!(&container.state, State::Ended { exit, .. } if exit.code != 0));
        match &self.verdict {
            Some(_) if all_ended => "Failed",
            _ if self.containers.iter().any(|container| matches!(container.state, State::Waiting { .. })) => "Pending",
            _ if !all_ended => "Running",
            _ if failed => "Failed",
            _ => "Succeeded",
        }
    }

    /// Whether every container is ready.
    fn is_ready(&self) -> bool {
        self.containers.iter().all(|container| matches!(container.state, State::Running { ready: true, .. }))
    }
}

/// When which condition changed.
#[derive(Debug, Default)]
pub struct Transitions {
    known: BTreeMap<&'static str, (bool, Timestamp)>,
}

impl Transitions {
    fn condition(&mut self, kind: &'static str, holds: bool, reason: Option<&str>, now: Timestamp) -> Value {
        let entry = self.known.entry(kind).or_insert((holds, now));
        if entry.0 != holds {
            *entry = (holds, now);
        }
        let mut condition = json!({
            "type": kind,
            "status": if holds { "True" } else { "False" },
            "lastTransitionTime": seconds(entry.1),
            "lastProbeTime": null,
        });
        condition["reason"] = json!(reason);
        condition
    }
}

/// The status to merge into the pod's.
pub fn status(facts: &PodFacts, transitions: &mut Transitions, now: Timestamp) -> Value {
    let phase = facts.phase();
    let is_over = matches!(phase, "Failed" | "Succeeded");
    let unready = match phase {
        "Succeeded" => Some("PodCompleted"),
        "Failed" => Some("PodFailed"),
        _ if facts.is_ready() => None,
        _ => Some("ContainersNotReady"),
    };
    let ready = unready.is_none();
    let mut conditions = vec![
        transitions.condition("PodScheduled", true, None, now),
        transitions.condition("PodReadyToStartContainers", facts.ip.is_some() && !is_over, None, now),
        transitions.condition("Initialized", true, None, now),
        transitions.condition("ContainersReady", ready, unready, now),
        transitions.condition("Ready", ready, unready, now),
    ];
    let mut status = json!({
        "phase": phase,
        "startTime": seconds(facts.started),
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "containerStatuses": facts.containers.iter().map(container_status).collect::<Vec<_>>(),
    });
    if let Some(ip) = facts.ip {
        status["podIP"] = json!(ip.to_string());
        status["podIPs"] = json!([{"ip": ip.to_string()}]);
    }
    match &facts.verdict {
        Some(Verdict::Disrupted { reason, message, condition_reason }) => {
            conditions.push(transitions.condition("DisruptionTarget", true, Some(condition_reason), now));
            status["reason"] = json!(reason);
            status["message"] = json!(message);
        }
        Some(Verdict::Empty) if is_over => status["containerStatuses"] = Value::Null,
        _ => {}
    }
    status["conditions"] = json!(conditions);
    status
}

/// The status of a pod whose containers cannot be found any more.
pub fn lost(pod: &Pod) -> Value {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ended = |name: &str| {
        json!({"terminated": {
            "exitCode": 137,
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
            "containerID": format!("process://{name}"),
        }})
    };
    let statuses = containers.map(|container| {
        let (name, image) = (&container.name, &container.image);
        json!({"name": name, "image": image, "imageID": "", "restartCount": 0, "ready": false, "started": false, "state": ended(name)})
    });
    json!({"phase": "Failed", "containerStatuses": statuses.collect::<Vec<_>>()})
}

fn container_status(container: &ContainerFacts) -> Value {
    let (state, started, ready) = match &container.state {
        State::Waiting { reason, message } => (json!({"waiting": {"reason": reason, "message": message}}), false, false),
        State::Running { since, ready } => (json!({"running": {"startedAt": seconds(*since)}}), true, *ready),
        State::Ended { since, until, exit, reason, message } => {
            let ended = json!({
                "startedAt": seconds(*since),
                "finishedAt": seconds(*until),
                "exitCode": exit.code,
                "reason": reason,
                "message": message,
                "containerID": format!("process://{}", container.name),
            });
            (json!({"terminated": ended}), false, false)
        }
    };
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "restartCount": 0,
        "started": started,
        "ready": ready,
        "state": state,
        "lastState": {},
    })
}

/// A time as the API has it.
pub fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn facts(state: State, verdict: Option<Verdict>) -> PodFacts {
        let container = ContainerFacts { name: "engine".into(), image: "weir".into(), state };
        PodFacts { ip: Some(Ipv4Addr::LOCALHOST), started: Timestamp::UNIX_EPOCH, containers: vec![container], verdict }
    }

    fn ended(code: i32) -> State {
        let at = Timestamp::UNIX_EPOCH;
        State::Ended { since: at, until: at, exit: ProcessExit { code, signal: None }, reason: "Error", message: None }
    }

    #[test]
    fn phases_follow_the_containers() {
        let running = State::Running { since: Timestamp::UNIX_EPOCH, ready: false };
        assert_eq!(facts(running.clone(), None).phase(), "Running");
        assert_eq!(facts(running, Some(Verdict::Empty)).phase(), "Running");
        assert_eq!(facts(ended(0), None).phase(), "Succeeded");
        assert_eq!(facts(ended(10), None).phase(), "Failed");
        assert_eq!(facts(State::Waiting { reason: "ImagePullBackOff", message: String::new() }, None).phase(), "Pending");
    }

    #[test]
    fn verdicts_show_in_the_status() {
        let mut transitions = Transitions::default();
        let verdict =
            Verdict::Disrupted { reason: "Evicted".into(), message: "low".into(), condition_reason: "TerminationByKubelet".into() };
        let shown = status(&facts(ended(137), Some(verdict)), &mut transitions, Timestamp::UNIX_EPOCH);
        assert_eq!((shown["phase"].as_str(), shown["reason"].as_str()), (Some("Failed"), Some("Evicted")));
        assert!(shown["conditions"].as_array().unwrap().iter().any(|condition| condition["type"] == "DisruptionTarget"));
        let empty = status(&facts(ended(137), Some(Verdict::Empty)), &mut transitions, Timestamp::UNIX_EPOCH);
        assert!(empty["containerStatuses"].is_null() && empty["phase"] == "Failed");
    }

    #[test]
    fn a_condition_keeps_the_time_of_its_change() {
        let mut transitions = Transitions::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let time = |value: &Value| value["lastTransitionTime"].as_str().unwrap().to_owned();
        assert_eq!(time(&transitions.condition("Ready", true, None, at(1))), "1970-01-01T00:00:01Z");
        assert_eq!(time(&transitions.condition("Ready", true, None, at(2))), "1970-01-01T00:00:01Z");
        assert_eq!(time(&transitions.condition("Ready", false, None, at(3))), "1970-01-01T00:00:03Z");
    }
}
