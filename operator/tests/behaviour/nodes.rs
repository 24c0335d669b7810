//! M3: nothing is replaced before it is proven over, except where the fence protects what both could write.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use weir_testcluster::standin::{Control, Hang};

use crate::world::{World, condition, job};

/// Longer than the grace of a silent node.
const PAST_GRACE: Duration = Duration::from_secs(45);

/// Longer than an answer of a task outweighs the silence of its node.
const PAST_ANSWER: Duration = Duration::from_secs(20);

impl World {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The node of a job's only pod.
    async fn node(&self) -> String {
        self.pods().get("j--t").await.unwrap().spec.unwrap().node_name.unwrap()
    }

    async fn force_delete(&self, pod: &str) {
        self.pods().delete(pod, &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    }

    /// Loses the node of the running pod: nobody reaches its task, which goes on. Waits until the operator knows.
    pub async fn lose_the_node(&self) {
        let epoch = self.job("j").await.data["status"]["epoch"].as_u64().unwrap();
        self.control("j", "t", &Control::default().for_epoch(epoch, Control { hang: Hang::Http, ..Control::default() }));
        self.kubelet.lose_node(&self.node().await).await.unwrap();
        self.clock.advance(PAST_ANSWER);
        self.until("j", "on a silent node", |job| condition(job, "PreviousRunTerminated")["reason"] == "NodeUnreachable").await;
    }

    /// No successor though everything was looked at again.
    async fn assert_no_successor(&self) {
        let before = self.job("j").await.data["status"]["epoch"].clone();
        self.annotate("j", "test/touched", &format!("{before}")).await;
        self.clock.advance(PAST_GRACE);
        let stalled = self.until_condition("j", "Stalled", "True", "PreviousRunUnconfirmed").await;
        assert_eq!(stalled["status"]["epoch"], before, "{stalled:#}");
        assert_eq!(self.kubelet.running(&self.namespace, "j").len(), 1);
    }
}

fn waiting_job() -> Value {
    let mut job = job("j", &["t"]);
    job["spec"]["nodeLostPolicy"] = json!("Wait");
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_successor_waits_for_a_process_that_ignores_sigterm() {
    let world = World::new("sigterm").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    world.kubelet.delay_sigterm(&world.namespace, "j--t", Duration::from_secs(60));
    world.edit("j", json!({"spec": {"parameters": {"a": "b"}}})).await;
    world.until("j", "in run 2", |job| job["status"]["run"]["number"] == 2 && condition(job, "Ready")["reason"] == "Streaming").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_lost_node_is_replaced_where_the_fence_protects() {
    let world = World::new("fenced").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let lost = world.node().await;
    world.lose_the_node().await;
    world.clock.advance(PAST_GRACE);
    let shown = world.until("j", "replaced", |job| condition(job, "Ready")["reason"] == "Streaming" && job["status"]["epoch"] == 2).await;
    assert_ne!(world.node().await, lost, "{shown:#}");
    // The process of the lost node meets the fence by itself.
    let fenced = |records: &[weir_testcluster::kubelet::ProcessRecord]| {
        records.iter().any(|record| record.epoch == Some(1) && record.ended_at.is_some()).then_some(())
    };
    world.kubelet.wait_for("the old process is fenced", fenced).await.unwrap();
    assert_eq!(world.store("j", "t").verify(), Vec::<String>::new());
    operator.stop().await;
    world.recorder.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_under_wait_only_proof_or_a_human_replaces() {
    let world = World::new("wait").await;
    let operator = world.operator().await;
    world.apply(&waiting_job()).await;
    world.until_streaming("j").await;
    world.lose_the_node().await;
    world.assert_no_successor().await;
    // The object gone is no proof while the node is silent.
    world.force_delete("j--t").await;
    world.assert_no_successor().await;
    world.annotate("j", "weir.dev/confirm-terminated", "99").await;
    world.assert_no_successor().await;
    world.annotate("j", "weir.dev/confirm-terminated", "1").await;
    world.until("j", "replaced", |job| condition(job, "Ready")["reason"] == "Streaming" && job["status"]["epoch"] == 2).await;
    assert_eq!(world.store("j", "t").verify(), Vec::<String>::new());
    operator.stop().await;
    world.recorder.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_node_that_is_gone_or_comes_back_is_proof() {
    let world = World::new("gone").await;
    let operator = world.operator().await;
    world.apply(&waiting_job()).await;
    world.until_streaming("j").await;
    let node = world.node().await;
    world.lose_the_node().await;
    world.assert_no_successor().await;
    world.control("j", "t", &Control::default());
    world.kubelet.recover_node(&node).await.unwrap();
    world.until_streaming("j").await;
    assert_eq!(world.job("j").await.data["status"]["epoch"], 1, "the process was there all the time");
    world.lose_the_node().await;
    world.kubelet.remove_node(&node).await.unwrap();
    // As the pod garbage collector of a cluster does with pods of nodes that are gone.
    world.kubelet.collect_garbage().await.unwrap();
    world.until("j", "replaced", |job| condition(job, "Ready")["reason"] == "Streaming" && job["status"]["epoch"] == 2).await;
    operator.stop().await;
    world.recorder.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_sinks_without_a_fence_wait_for_proof() {
    let world = World::new("unfenced").await;
    let operator = world.operator().await;
    let mut wanted = job("j", &["t"]);
    wanted["spec"]["tasks"][0]["queries"][0]["sink"] = json!({"format": "console"});
    world.apply(&wanted).await;
    world.until_streaming("j").await;
    world.lose_the_node().await;
    world.assert_no_successor().await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m03_a_pod_that_a_foreign_finalizer_holds_is_waited_for() {
    let world = World::new("held").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    world.pods().patch("j--t", &PatchParams::default(), &Patch::Merge(&held)).await.unwrap();
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    world.kubelet.wait_for("ended", |records| records.iter().all(|record| record.ended_at.is_some()).then_some(())).await.unwrap();
    world.annotate("j", "test/touched", "1").await;
    assert!(world.kubelet.running(&world.namespace, "j").is_empty());
    let free = json!({"metadata": {"finalizers": null}});
    world.pods().patch("j--t", &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
    world.until("j", "in run 2", |job| job["status"]["run"]["number"] == 2 && condition(job, "Ready")["reason"] == "Streaming").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}
