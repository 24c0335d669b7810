//! Node objects, as a kubelet and the node controller write them.
//!
//! Only writes; which node is in which state is the kubelet's to know.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// What a node's Ready condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The kubelet reports.
    Ready,
    /// The node controller has not heard of it.
    Unknown,
    /// It shuts down.
    ShuttingDown,
}

/// The taint of a node that is not heard of.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Creates the Node object, or takes one of that name over.
pub async fn create(client: &Client, name: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node: Node = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
    }))?;
    match nodes.create(&PostParams::default(), &node).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        Err(error) => return Err(error).with_context(|| format!("creating node {name}")),
    }
    let room = json!({"cpu": "64", "memory": "256Gi", "pods": "20000", "ephemeral-storage": "256Gi"});
    let status = json!({
        "capacity": room,
        "allocatable": room,
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
    });
    nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(json!({"status": status}))).await?;
    report(client, name, Readiness::Ready).await
}

/// Writes the Ready condition and the taints that belong to it.
pub async fn report(client: &Client, name: &str, readiness: Readiness) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let (status, reason, message, taints) = match readiness {
        Readiness::Ready => ("True", "KubeletReady", "kubelet is posting ready status", Value::Null),
        Readiness::Unknown => ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.", taints(UNREACHABLE)),
        Readiness::ShuttingDown => ("False", "KubeletNotReady", "node is shutting down", taints("node.kubernetes.io/not-ready")),
    };
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut ready = json!({
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
    });
    if readiness_of(&nodes.get(name).await?) != Some(status.to_owned()) {
        ready["lastTransitionTime"] = json!(now);
    }
    nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(json!({"status": {"conditions": [ready]}}))).await?;
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": {"taints": taints}}))).await?;
    Ok(())
}

/// Says again that the node is there.
pub async fn heartbeat(client: &Client, name: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": now});
    nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(json!({"status": {"conditions": [ready]}}))).await?;
    Ok(())
}

/// What the node controller does to the pods of a node that it does not hear of: their Ready turns False.
pub async fn unready_pods(client: &Client, name: &str) -> Result<()> {
    let all: Api<Pod> = Api::all(client.clone());
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for pod in all.list(&ListParams::default().fields(&format!("spec.nodeName={name}"))).await? {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        if !conditions.clone().any(|condition| condition.type_ == "Ready" && condition.status == "True") {
            continue;
        }
        let ready = json!({"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": now});
        let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [ready]}}));
        pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// Removes the Node object.
pub async fn remove(client: &Client, name: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete(name, &DeleteParams::default()).await.with_context(|| format!("removing node {name}"))?;
    Ok(())
}

fn taints(key: &str) -> Value {
    json!([{"key": key, "effect": "NoSchedule"}, {"key": key, "effect": "NoExecute"}])
}

fn readiness_of(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status.clone())
}
