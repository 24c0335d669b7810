//! M9: a job always gets away, with all that it had, and with nothing that belonged to others.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::json;
use weir_testcluster::faults::{Effect, Matcher, Refusal, Times, Verb};

use crate::world::{World, condition, job};

#[tokio::test(flavor = "multi_thread")]
async fn m09_a_job_that_nobody_has_looked_at_goes_at_once() {
    let world = World::new("unseen").await;
    world.apply(&job("j", &["t"])).await;
    world.delete("j").await;
    world.until_gone("j").await;
    let operator = world.operator().await;
    operator.stop().await;
    assert!(world.kubelet.records().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_a_wiped_status_does_not_hold_a_job() {
    let world = World::new("wiped").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    operator.kill().await;
    world.delete("j").await;
    world.jobs().patch_status("j", &PatchParams::default(), &Patch::Merge(json!({"status": null}))).await.unwrap();
    let operator = world.operator().await;
    world.until_gone("j").await;
    assert!(world.kubelet.running(&world.namespace, "j").is_empty());
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_events_and_creates_that_are_forbidden_do_not_hold_a_job() {
    let world = World::new("forbidden").await;
    let operator = world.operator().await;
    operator.faults.add(Matcher::any().resource("events"), Times::Always, Effect::Answer(Refusal::code(403)));
    operator.faults.add(Matcher::any().verb(Verb::Create).resource("pods"), Times::Always, Effect::Answer(Refusal::code(403)));
    world.apply(&job("j", &["t"])).await;
    world.until("j", "refused a pod", |job| job["status"]["tasks"][0]["lastExit"]["reason"] == "StartRejected").await;
    world.delete("j").await;
    world.until_gone("j").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_finalizers_of_others_stay_and_a_stop_that_hangs_says_so() {
    let world = World::new("hangs").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let mut finalizers = world.job("j").await.metadata.finalizers.unwrap();
    finalizers.push("example.com/other".to_owned());
    world.edit("j", json!({"metadata": {"finalizers": finalizers}})).await;
    // The node is silent under Wait: nobody can tell that the process is over.
    world.edit("j", json!({"spec": {"nodeLostPolicy": "Wait"}})).await;
    world.lose_the_node().await;
    world.delete("j").await;
    world.until("j", "stopping", |job| condition(job, "Ready")["status"] == "False").await;
    world.clock.advance(Duration::from_secs(120));
    let shown = world.until("j", "blocked", |job| condition(job, "Stalled")["reason"] == "FinalizerBlocked").await;
    assert!(condition(&shown, "Stalled")["message"].as_str().unwrap().contains("weir.dev/skip-graceful-stop"), "{shown:#}");
    world.annotate("j", "weir.dev/skip-graceful-stop", "true").await;
    let left = json!(["example.com/other"]);
    world.until("j", "let go by us", |job| job["metadata"]["finalizers"] == left).await;
    world.edit("j", json!({"metadata": {"finalizers": null}})).await;
    world.until_gone("j").await;
    operator.stop().await;
}
