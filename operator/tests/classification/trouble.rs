//! Pods that no kubelet would write: never a panic, and texts stay bounded.

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};
use weir_operator::observe::{NodeState, instance, phase};
use weir_supervisor::observed::{Exit, Phase};
use weir_supervisor::text::{LOG_TAIL_BYTES, MESSAGE_BYTES};
use weir_supervisor::{Observed, Slot};

use crate::pods::{EPOCH, condition, container, edited, now, terminated};
use crate::stage::{show, streaming};

fn with_message(message: &str) -> Exit {
    let mut state = terminated(10);
    state["terminated"]["message"] = json!(message);
    let pod = edited(|document| document["status"] = json!({"phase": "Failed", "containerStatuses": [container("engine", state)]}));
    match phase(&pod, &NodeState::Ready, now()) {
        Phase::Exited(exit) => exit,
        other => panic!("not over: {other:?}"),
    }
}

#[test]
fn a_message_that_is_no_report_is_the_end_of_a_log() {
    let exit = with_message("thread 'main' panicked at ...\nlast line\n");
    assert_eq!((exit.report, exit.log_tail.as_str()), (None, "thread 'main' panicked at ...\nlast line"));
    for broken in ["{", r#"{"class": "unheard-of", "epoch": 1}"#, r#"{"class": "retryable"}"#, "[]", "null", "7"] {
        let exit = with_message(broken);
        assert_eq!((exit.report, exit.log_tail.as_str()), (None, broken));
    }
}

#[test]
fn a_megabyte_is_cut_between_characters() {
    let exit = with_message(&"ä日🦀".repeat(120_000));
    assert!(exit.log_tail.len() <= LOG_TAIL_BYTES && exit.log_tail.ends_with("ä日🦀"), "{}", exit.log_tail.len());
    let nested = "[".repeat(1 << 20);
    assert_eq!(with_message(&nested).report, None);
    assert_eq!(with_message(&"[".repeat(60_000)).report, None);
    let long = "é".repeat(5_000);
    let report = json!({"class": "retryable", "epoch": EPOCH, "reason": long, "message": long, "query": long, "sourceVersion": long});
    let report = with_message(&report.to_string()).report.unwrap();
    assert!(report.message.len() <= MESSAGE_BYTES && report.reason.len() <= 128);
    assert!(report.query.unwrap().len() <= 253 && report.source_version.unwrap().len() <= 253);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "", "True", "False", "Unknown", "Running", "Pending", "Succeeded", "Failed", "Evicted", "OOMKilled", "engine", "sidecar",
            "Ready", "DisruptionTarget", "PodScheduled", "Unschedulable", "ErrImagePull", "CreateContainerConfigError",
            "ContainerStatusUnknown", "NodeLost", "OutOfpods", r#"{"class":"retryable","epoch":7}"#,
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,400}",
    ]
}

fn time() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        prop::sample::select(vec![
            "0001-01-01T00:00:00Z",
            "1970-01-01T00:00:00Z",
            "2026-11-30T11:59:59.999999Z",
            "2026-11-30T12:00:00Z",
            "9999-01-01T00:00:00Z"
        ])
        .prop_map(|time| json!(time)),
    ]
}

fn state() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        time().prop_map(|started| json!({"running": {"startedAt": started}})),
        (text(), text()).prop_map(|(reason, message)| json!({"waiting": {"reason": reason, "message": message}})),
        (any::<i32>(), text(), text(), time()).prop_map(
            |(code, reason, message, at)| json!({"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": at}})
        ),
    ]
}

fn containers() -> impl Strategy<Value = Vec<Value>> {
    let status = (text(), state(), any::<bool>(), text()).prop_map(|(name, state, ready, image)| {
        json!({"name": name, "image": image, "imageID": "", "ready": ready, "restartCount": 0, "state": state})
    });
    prop::collection::vec(status, 0..4)
}

prop_compose! {
    fn any_status()(
        phase in text(), reason in text(), message in text(), mains in containers(), inits in containers(),
        conditions in prop::collection::vec((text(), text(), text(), time()), 0..4),
    ) -> Value {
        let conditions: Vec<Value> = conditions.into_iter()
            .map(|(kind, status, reason, at)| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}))
            .collect();
        json!({"phase": phase, "reason": reason, "message": message, "conditions": conditions, "containerStatuses": mains, "initContainerStatuses": inits})
    }
}

prop_compose! {
    fn any_pod()(
        status in prop_oneof![9 => any_status(), 1 => Just(Value::Null)],
        deletion in time(), created in time(), grace in prop::option::of(any::<i64>()), bound in prop::option::of(text()), epoch in text(),
    ) -> Pod {
        edited(|document| {
            document["status"] = status;
            document["metadata"]["deletionTimestamp"] = deletion;
            document["metadata"]["creationTimestamp"] = created;
            document["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            document["spec"]["nodeName"] = json!(bound);
            if epoch.len().is_multiple_of(2) {
                document["spec"]["containers"][0]["env"] = json!([]);
                document["metadata"]["labels"]["weir.dev/epoch"] = json!(epoch);
            }
        })
    }
}

fn any_node() -> impl Strategy<Value = NodeState> {
    prop::sample::select(vec![
        NodeState::NotAsked,
        NodeState::Ready,
        NodeState::Gone,
        NodeState::Unreadable,
        NodeState::NotReady { since: now() },
        NodeState::NotReady { since: weir_supervisor::Timestamp::MAX_UTC },
        NodeState::NotReady { since: weir_supervisor::Timestamp::MIN_UTC },
    ])
}

fn bounded(phase: &Phase) -> bool {
    match phase {
        Phase::Exited(exit) => {
            let report = exit.report.as_ref().is_none_or(|report| report.message.len() <= MESSAGE_BYTES);
            report && exit.log_tail.len() <= LOG_TAIL_BYTES && exit.at <= now()
        }
        Phase::Starting(obstacle) => obstacle.reason().is_none_or(|(_, message)| message.len() <= MESSAGE_BYTES),
        Phase::Unreachable { since } => *since <= now(),
        Phase::Ready | Phase::Terminating | Phase::Vanished => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the API server shows is classified, the same way each time, and decided upon.
    #[test]
    fn any_pod_is_classified(pod in any_pod(), node in any_node()) {
        let first = instance(&pod, &node, None, now());
        prop_assert!(bounded(&first.phase), "{:?}", first.phase);
        prop_assert_eq!(&first, &instance(&pod, &node, None, now()));
        let plan = show(&pod, &node, &streaming());
        prop_assert!(plan.memory.epoch >= EPOCH);
        let observed = Observed { slots: [("a".to_owned(), Slot::Present(Box::new(first)))].into(), ..Observed::default() };
        prop_assert!(observed.slot("a").instance().is_some());
    }

    /// A terminal pod stays terminal whatever is learnt of its node.
    #[test]
    fn what_is_over_stays_over(pod in any_pod(), first in any_node(), second in any_node()) {
        let terminal = pod.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(|phase| matches!(phase, "Succeeded" | "Failed"));
        if terminal {
            prop_assert!(matches!(phase(&pod, &first, now()), Phase::Exited(_)));
            prop_assert!(matches!(phase(&pod, &second, now()), Phase::Exited(_)));
        }
    }

    /// The messages of a container are never split inside a character.
    #[test]
    fn any_message_is_read(message in "\\PC{0,3000}") {
        let exit = with_message(&message);
        prop_assert!(exit.log_tail.len() <= LOG_TAIL_BYTES);
    }
}

#[test]
fn a_condition_without_a_reason_still_says_that_it_was_a_disruption() {
    let pod = edited(|document| document["status"] = json!({"phase": "Failed", "conditions": [condition("DisruptionTarget", "True", "")]}));
    let Phase::Exited(exit) = phase(&pod, &NodeState::Ready, now()) else { panic!("not over") };
    assert_eq!(exit.cause, weir_supervisor::observed::ExitCause::Disruption { reason: "DisruptionTarget".to_owned() });
}
