//! The rows that deserve a name.

use k8s_openapi::api::core::v1::{Node, Pod, PodSchedulingGate};
use serde_json::{Value, json};
use weir_operator::observe::{Answers, NodeState, Vanished, instance, node_state, phase, unknown_instance, vanished};
use weir_supervisor::observed::{Exit, ExitCause, Phase, QueryFacts, Slot, StartObstacle, StopOrder};
use weir_supervisor::{ExitClass, Timestamp};

use crate::pods::{EPOCH, condition, container, delete, edited, now, running, terminated};
use crate::stage::{Outcome, outcome, show, streaming};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn with_status(status: Value) -> Pod {
    edited(|document| document["status"] = status)
}

/// A pod whose engine ended with a code, a reason and a termination message.
fn ended(code: i32, reason: &str, message: &str) -> Pod {
    let mut state = terminated(code);
    state["terminated"]["reason"] = json!(reason);
    state["terminated"]["message"] = json!(message);
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    with_status(json!({"phase": phase, "containerStatuses": [container("engine", state)]}))
}

fn exit_of(pod: &Pod) -> Exit {
    match phase(pod, &NodeState::Ready, now()) {
        Phase::Exited(exit) => exit,
        other => panic!("not over: {other:?}"),
    }
}

fn obstacle(pod: &Pod) -> StartObstacle {
    match phase(pod, &NodeState::Ready, now()) {
        Phase::Starting(obstacle) => obstacle,
        other => panic!("not starting: {other:?}"),
    }
}

fn report(class: &str) -> String {
    json!({"class": class, "epoch": EPOCH, "query": "readings", "message": "words"}).to_string()
}

#[test]
fn the_report_goes_before_the_code_and_what_was_done_to_the_pod() {
    let pod = ended(0, "Completed", &report("completed"));
    let exit = exit_of(&pod);
    assert_eq!(exit.report.as_ref().map(|report| report.class), Some(ExitClass::Completed));
    assert_eq!(exit.at, at("2026-11-30T11:59:30Z"));
    assert_eq!(exit.log_tail, "");
    assert_eq!(outcome(&show(&pod, &NodeState::Ready, &streaming())), Outcome::Completed);
    for (class, code, expected) in [
        ("stopped", 0, Outcome::Uncounted),
        ("retryable", 10, Outcome::Counted),
        ("config", 20, Outcome::Hopeless),
        ("incompatible", 21, Outcome::Hopeless),
        ("fenced", 22, Outcome::Uncounted),
    ] {
        let pod = ended(code, "Error", &report(class));
        assert_eq!(outcome(&show(&pod, &NodeState::Ready, &streaming())), expected, "{class}");
    }
    let evicted = edited(|document| {
        *document = serde_json::to_value(ended(0, "Completed", &report("completed"))).unwrap();
        document["status"]["reason"] = json!("Evicted");
        document["status"]["phase"] = json!("Failed");
    });
    assert_eq!(outcome(&show(&evicted, &NodeState::Ready, &streaming())), Outcome::Completed);
}

#[test]
fn a_kill_for_memory_is_told_from_any_other() {
    assert_eq!(exit_of(&ended(137, "OOMKilled", "")).cause, ExitCause::OutOfMemory);
    assert_eq!(exit_of(&ended(137, "Error", "")).cause, ExitCause::Own);
    let plan = show(&ended(137, "OOMKilled", ""), &NodeState::Ready, &streaming());
    assert_eq!(outcome(&plan), Outcome::Counted);
    assert_eq!(plan.memory.run.unwrap().tasks["a"].last_exit.as_ref().unwrap().reason, "OOMKilled");
}

#[test]
fn a_code_that_the_kubelet_made_up_is_not_believed() {
    let exit = exit_of(&ended(137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated"));
    assert_eq!(exit.code, None);
    assert_eq!(exit.cause, ExitCause::Disruption { reason: "ContainerStatusUnknown".to_owned() });
}

#[test]
fn only_the_engine_ends_a_pod_that_still_runs() {
    let with_engine = |engine: Value, sidecar: Value| {
        with_status(json!({"phase": "Running", "containerStatuses": [container("sidecar", sidecar), container("engine", engine)]}))
    };
    let pod = with_engine(terminated(10), running());
    assert_eq!(exit_of(&pod).code, Some(10));
    assert_eq!(outcome(&show(&pod, &NodeState::Ready, &streaming())), Outcome::Counted);
    assert_eq!(phase(&with_engine(running(), terminated(1)), &NodeState::Ready, now()), Phase::Ready);
    // The engine's word stays true though the node falls silent afterwards.
    let silent = NodeState::NotReady { since: now() };
    assert!(matches!(phase(&pod, &silent, now()), Phase::Exited(_)));
}

#[test]
fn disks_over_the_pods_own_limit_are_its_own_fault() {
    let evicted = |message: &str, conditions: Value| {
        with_status(json!({"phase": "Failed", "reason": "Evicted", "message": message, "conditions": conditions}))
    };
    let node_pressure = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi.";
    let exit = exit_of(&evicted(node_pressure, json!([])));
    assert_eq!(exit.cause, ExitCause::Disruption { reason: "Evicted".to_owned() });
    assert_eq!(exit.log_tail, node_pressure);
    for message in [
        r#"Usage of EmptyDir volume "state" exceeds the limit "1Gi". "#,
        r#"Container engine exceeded its local ephemeral storage limit "2Gi". "#,
        "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. ",
    ] {
        let pod = evicted(message, json!([]));
        assert_eq!(exit_of(&pod).cause, ExitCause::Own);
        assert_eq!(outcome(&show(&pod, &NodeState::Ready, &streaming())), Outcome::Counted, "{message}");
        let targeted = evicted(message, json!([condition("DisruptionTarget", "True", "TerminationByKubelet")]));
        assert_eq!(outcome(&show(&targeted, &NodeState::Ready, &streaming())), Outcome::Uncounted);
    }
}

#[test]
fn a_pod_that_somebody_deletes_is_terminating_and_then_disrupted() {
    let deleted = |state: Value| {
        edited(|document| {
            delete(document);
            document["status"] = json!({"phase": "Running", "containerStatuses": [container("engine", state)]});
        })
    };
    let pod = deleted(running());
    assert_eq!(phase(&pod, &NodeState::Ready, now()), Phase::Terminating);
    let order = |pod: &Pod, now| instance(pod, &NodeState::Ready, None, now).stop_order;
    assert_eq!(order(&pod, now()), StopOrder::Graceful { at: at("2026-11-30T11:59:00Z") });
    assert_eq!(order(&pod, at("2026-11-30T12:00:30Z")), StopOrder::Kill);
    let mut forced = pod.clone();
    forced.metadata.deletion_grace_period_seconds = Some(0);
    assert_eq!(order(&forced, now()), StopOrder::Kill);
    let silent = NodeState::NotReady { since: at("2026-11-30T11:58:00Z") };
    assert_eq!(phase(&pod, &silent, now()), Phase::Unreachable { since: at("2026-11-30T11:58:00Z") });
    assert_eq!(outcome(&show(&deleted(terminated(143)), &NodeState::Ready, &streaming())), Outcome::Uncounted);
    // One that had failed before it was deleted stays a failure.
    let mut earlier = terminated(137);
    earlier["terminated"]["finishedAt"] = json!("2026-11-30T11:58:59Z");
    assert_eq!(outcome(&show(&deleted(earlier), &NodeState::Ready, &streaming())), Outcome::Counted);
    // The order is given once and seen: the supervisor does not repeat it.
    assert!(show(&pod, &NodeState::Ready, &streaming()).actions.is_empty());
}

#[test]
fn a_node_that_is_gone_ends_its_pods_and_a_silent_one_only_hides_them() {
    let pod = with_status(json!({"phase": "Running", "containerStatuses": [container("engine", running())]}));
    let gone = phase(&pod, &NodeState::Gone, now());
    assert!(matches!(&gone, Phase::Exited(exit) if exit.cause == ExitCause::Disruption { reason: "NodeGone".to_owned() }), "{gone:?}");
    assert_eq!(outcome(&show(&pod, &NodeState::Gone, &streaming())), Outcome::Uncounted);
    let since = at("2026-11-30T11:55:00Z");
    assert_eq!(phase(&pod, &NodeState::NotReady { since }, now()), Phase::Unreachable { since });
    assert_eq!(phase(&pod, &NodeState::Unreadable, now()), Phase::Ready);
    let unbound = edited(|document| {
        document["spec"]["nodeName"] = Value::Null;
        document["status"] = json!({"phase": "Pending"});
    });
    for node in [NodeState::Gone, NodeState::NotReady { since }, NodeState::NotAsked] {
        assert_eq!(phase(&unbound, &node, now()), Phase::Starting(StartObstacle::None));
    }
}

#[test]
fn a_deleted_pod_that_stays_where_nodes_cannot_be_read_needs_a_human() {
    let pod = edited(|document| {
        delete(document);
        document["status"] = json!({"phase": "Running", "containerStatuses": [container("engine", running())]});
    });
    assert_eq!(phase(&pod, &NodeState::Unreadable, at("2026-11-30T12:01:29Z")), Phase::Terminating);
    let late = at("2026-11-30T12:01:30Z");
    assert_eq!(phase(&pod, &NodeState::Unreadable, late), Phase::Unreachable { since: late });
    assert_eq!(phase(&pod, &NodeState::Ready, late), Phase::Terminating);
}

fn answers(epoch: u64, reported_at: Timestamp) -> Answers {
    let queries = vec![QueryFacts { name: "readings".to_owned(), ..QueryFacts::default() }];
    Answers { epoch, reported_at, is_ready: true, queries, generation: 5 }
}

#[test]
fn a_task_that_answers_is_alive_though_its_kubelet_is_silent() {
    let pod = with_status(json!({"phase": "Running", "containerStatuses": [container("engine", running())]}));
    let node = NodeState::NotReady { since: at("2026-11-30T11:55:00Z") };
    let seen = |reported_at| instance(&pod, &node, Some(&answers(EPOCH, reported_at)), now()).phase;
    assert_eq!(seen(at("2026-11-30T11:59:55Z")), Phase::Ready);
    let last_heard = at("2026-11-30T11:59:40Z");
    assert_eq!(seen(last_heard), Phase::Unreachable { since: last_heard });
    assert_eq!(seen(at("2026-11-30T11:54:00Z")), Phase::Unreachable { since: at("2026-11-30T11:55:00Z") });
    let stranger = instance(&pod, &node, Some(&answers(EPOCH - 1, now())), now());
    assert!(matches!(stranger.phase, Phase::Unreachable { .. }));
}

#[test]
fn an_instance_carries_what_its_pod_and_its_own_answer_say() {
    let pod = with_status(json!({"phase": "Running", "conditions": [condition("Ready", "True", "")]}));
    let heard = instance(&pod, &NodeState::NotAsked, Some(&answers(EPOCH, now())), now());
    assert_eq!((heard.name.as_str(), heard.epoch, heard.place.as_deref()), ("orders--a", EPOCH, Some("node-1")));
    assert_eq!((heard.config_generation, heard.reported_at, heard.queries.len()), (5, Some(now()), 1));
    assert_eq!((heard.phase, heard.stop_order, heard.created_at), (Phase::Ready, StopOrder::None, at("2026-11-30T11:00:00Z")));
    let foreign = instance(&pod, &NodeState::NotAsked, Some(&answers(EPOCH + 1, now())), now());
    assert_eq!((foreign.config_generation, foreign.reported_at, foreign.queries.len()), (3, None, 0));
    let relabelled = edited(|document| document["metadata"]["labels"]["weir.dev/epoch"] = json!("99"));
    assert_eq!(instance(&relabelled, &NodeState::NotAsked, None, now()).epoch, EPOCH, "the environment cannot be edited");
}

#[test]
fn a_pod_whose_epoch_is_none_is_no_instance_and_is_taken_for_over_only_once_it_has_ended() {
    let claiming = |fixed: Option<&str>, labelled: Option<&str>, phase: &str| {
        edited(|document| {
            let variable = fixed.map(|epoch| json!({"name": "WEIR_EPOCH", "value": epoch}));
            document["spec"]["containers"][0]["env"] = variable.into_iter().collect();
            document["metadata"]["labels"]["weir.dev/epoch"] = labelled.map_or(Value::Null, Value::from);
            document["metadata"]["labels"].as_object_mut().unwrap().retain(|_, value| !value.is_null());
            document["status"]["phase"] = json!(phase);
        })
    };
    let known = [(Some("7"), None), (None, Some("7")), (Some("7"), Some("nonsense")), (None, Some("999999999999"))];
    for (fixed, labelled) in known {
        assert_eq!(unknown_instance(&claiming(fixed, labelled, "Running"), now()), None, "{fixed:?} {labelled:?}");
    }
    let huge = "9".repeat(300);
    for epoch in
        [Some("nonsense"), Some("-1"), Some("0"), Some("1000000000000"), Some("18446744073709551616"), Some(&*huge), Some(""), None]
    {
        for (fixed, labelled) in [(epoch, None), (None, epoch)] {
            let named = |what: &str| {
                what.contains("orders--a") && what.len() < 400 && epoch.is_none_or(|epoch| what.contains(&epoch[..epoch.len().min(60)]))
            };
            let alive = unknown_instance(&claiming(fixed, labelled, "Running"), now());
            assert!(matches!(&alive, Some(Slot::Unclassified { what }) if named(what)), "{alive:?}");
            let over = unknown_instance(&claiming(fixed, labelled, "Failed"), now());
            assert!(matches!(&over, Some(Slot::Occupied { by }) if named(by)), "{over:?}");
        }
    }
}

#[test]
fn what_keeps_a_pod_from_starting_is_named() {
    let waiting = |name: &str, reason: &str, message: &str| container(name, json!({"waiting": {"reason": reason, "message": message}}));
    for reason in ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"] {
        let pod = with_status(json!({"phase": "Pending", "containerStatuses": [waiting("engine", reason, "not found")]}));
        let message = format!("image registry.example/weir:1: {reason}: not found");
        assert_eq!(obstacle(&pod), StartObstacle::ImagePull { message });
    }
    let missing = r#"secret "kafka-credentials" not found"#;
    let pod = with_status(json!({"phase": "Pending", "containerStatuses": [waiting("engine", "CreateContainerConfigError", missing)]}));
    let message = format!("the container refers to something that is missing: {missing}");
    assert_eq!(obstacle(&pod), StartObstacle::ContainerConfig { message });
    let pod = with_status(json!({"phase": "Pending", "initContainerStatuses": [waiting("proxy", "ErrImagePull", "")]}));
    assert!(matches!(obstacle(&pod), StartObstacle::ImagePull { message } if message.starts_with("container proxy: image ")));
    let pod = with_status(json!({"phase": "Pending", "containerStatuses": [waiting("engine", "ContainerCreating", "")]}));
    assert_eq!(obstacle(&pod), StartObstacle::None);

    let mut scheduled = condition("PodScheduled", "False", "Unschedulable");
    scheduled["message"] = json!("0/3 nodes are available");
    let unbound = |conditions: Value| {
        edited(|document| {
            document["spec"]["nodeName"] = Value::Null;
            document["status"] = json!({"phase": "Pending", "conditions": conditions});
        })
    };
    let message = "0/3 nodes are available".to_owned();
    assert_eq!(obstacle(&unbound(json!([scheduled]))), StartObstacle::Unschedulable { message });
    let free = unbound(json!([condition("PodScheduled", "False", "SchedulingGated")]));
    assert_eq!(obstacle(&free), StartObstacle::None, "the gate has just gone");
    let gate = |name: &str| Some(vec![PodSchedulingGate { name: name.to_owned() }]);
    let mut gated: Pod = free.clone();
    gated.spec.as_mut().unwrap().scheduling_gates = gate("example.com/queue");
    assert_eq!(obstacle(&gated), StartObstacle::Unschedulable { message: "SchedulingGated".to_owned() });
    let mut held: Pod = gated.clone();
    held.spec.as_mut().unwrap().scheduling_gates = gate("weir.dev/remembered");
    assert_eq!(obstacle(&held), StartObstacle::Gated, "the gate is ours");
}

#[test]
fn an_init_container_that_keeps_the_engine_from_running_counts() {
    for (code, shown) in [(3, 3), (20, 1), (22, 1)] {
        let pod = with_status(json!({
            "phase": "Failed",
            "initContainerStatuses": [container("setup", terminated(code))],
            "containerStatuses": [container("engine", json!({"waiting": {"reason": "PodInitializing"}}))],
        }));
        let exit = exit_of(&pod);
        assert_eq!(exit.code, Some(shown));
        assert!(exit.log_tail.contains("init container setup"), "{}", exit.log_tail);
        assert_eq!(outcome(&show(&pod, &NodeState::Ready, &streaming())), Outcome::Counted);
    }
}

fn node(ready: Option<(&str, &str)>, taints: Value) -> Node {
    let conditions: Vec<Value> =
        ready.into_iter().map(|(status, since)| json!({"type": "Ready", "status": status, "lastTransitionTime": since})).collect();
    serde_json::from_value(json!({"metadata": {"name": "node-1"}, "spec": {"taints": taints}, "status": {"conditions": conditions}}))
        .unwrap()
}

#[test]
fn nodes_are_judged_by_condition_and_taint() {
    let flip = "2026-11-30T11:50:00Z";
    let silent = NodeState::NotReady { since: at(flip) };
    assert_eq!(node_state(None, now()), NodeState::Gone);
    assert_eq!(node_state(Some(&node(Some(("True", flip)), json!([]))), now()), NodeState::Ready);
    assert_eq!(node_state(Some(&node(Some(("Unknown", flip)), json!([]))), now()), silent);
    assert_eq!(node_state(Some(&node(Some(("False", flip)), json!([]))), now()), silent);
    assert_eq!(node_state(Some(&node(None, json!([]))), now()), NodeState::NotReady { since: now() });
    let taint = |key: &str, added: Option<&str>| json!([{"key": key, "effect": "NoExecute", "timeAdded": added}]);
    let tainted = node(Some(("True", "2026-11-01T00:00:00Z")), taint("node.kubernetes.io/unreachable", Some(flip)));
    assert_eq!(node_state(Some(&tainted), now()), silent);
    let fading = node(Some(("True", "2026-11-01T00:00:00Z")), taint("node.kubernetes.io/not-ready", None));
    assert_eq!(node_state(Some(&fading), now()), NodeState::NotReady { since: now() }, "an old condition is not an old silence");
    let cordoned = node(Some(("True", flip)), taint("node.kubernetes.io/unschedulable", None));
    assert_eq!(node_state(Some(&cordoned), now()), NodeState::Ready);
    let ahead = node(Some(("False", "2026-11-30T13:00:00Z")), json!([]));
    assert_eq!(node_state(Some(&ahead), now()), NodeState::NotReady { since: now() });
}

#[test]
fn an_absent_pod_is_proof_only_where_its_node_is_gone() {
    let since = at("2026-11-30T11:50:00Z");
    assert_eq!(vanished(Some("node-1"), &NodeState::Gone, now()), Vanished::Proven);
    assert_eq!(vanished(Some("node-1"), &NodeState::Ready, now()), Vanished::Unproven, "it may have been removed by force");
    assert_eq!(vanished(Some("node-1"), &NodeState::NotReady { since }, now()), Vanished::Unconfirmed { since });
    for node in [NodeState::NotAsked, NodeState::Unreadable] {
        assert_eq!(vanished(Some("node-1"), &node, now()), Vanished::Unconfirmed { since: now() });
    }
    assert_eq!(vanished(None, &NodeState::NotAsked, now()), Vanished::Unproven, "it may have got a node since");
}
