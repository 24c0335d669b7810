//! Pods as the API server shows them, made from the few facts that matter.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use weir_supervisor::Timestamp;

/// The time of every look.
pub fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

/// The epoch of every pod.
pub const EPOCH: u64 = 7;

/// A pod of an engine that is bound to a node, without a status.
pub fn document() -> Value {
    json!({
        "metadata": {
            "name": "orders--a", "namespace": "data", "uid": "p-1", "creationTimestamp": "2026-11-30T11:00:00Z",
            "labels": {"weir.dev/epoch": "7", "weir.dev/generation": "3"},
        },
        "spec": {
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 90,
            "containers": [
                {"name": "engine", "image": "registry.example/weir:1", "env": [{"name": "WEIR_EPOCH", "value": "7"}]},
                {"name": "sidecar", "image": "registry.example/proxy:1"},
            ],
        },
        "status": {},
    })
}

/// The pod of a document.
pub fn pod(document: Value) -> Pod {
    serde_json::from_value(document).unwrap()
}

/// A pod whose document was edited.
pub fn edited(edit: impl FnOnce(&mut Value)) -> Pod {
    let mut document = document();
    edit(&mut document);
    pod(document)
}

/// The end of a container.
pub fn terminated(code: i32) -> Value {
    json!({"terminated": {"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }, "finishedAt": "2026-11-30T11:59:30Z"}})
}

/// The status of a container.
pub fn container(name: &str, state: Value) -> Value {
    let ready = state.get("running").is_some();
    json!({"name": name, "image": "sha256:1", "imageID": "", "ready": ready, "restartCount": 0, "state": state})
}

/// A container that runs.
pub fn running() -> Value {
    json!({"running": {"startedAt": "2026-11-30T11:00:05Z"}})
}

/// A condition.
pub fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": "2026-11-30T11:59:00Z"})
}

/// Asks for the deletion at 11:59:00, with the grace of the spec.
pub fn delete(document: &mut Value) {
    document["metadata"]["deletionTimestamp"] = json!("2026-11-30T12:00:30Z");
    document["metadata"]["deletionGracePeriodSeconds"] = json!(90);
}
