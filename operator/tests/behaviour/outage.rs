//! M15: an API server that is away or refuses is no information about jobs.

use std::time::Duration;

use serde_json::json;
use weir_testcluster::faults::{Effect, Matcher, Refusal, Times, WatchEffect};
use weir_testcluster::{ControlPlane, Options};

use crate::world::{World, job};

/// How long what refuses goes on refusing.
const A_WHILE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn m15_refusals_of_every_kind_touch_no_process() {
    let world = World::new("refusals").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    for code in [403, 404, 409, 410, 422, 429, 500, 503] {
        let calls = operator.faults.calls().len();
        let rule = operator.faults.add(Matcher::any(), Times::Always, Effect::Answer(Refusal::code(code)));
        world.annotate("j", "test/touched", &code.to_string()).await;
        tokio::time::sleep(A_WHILE / 6).await;
        operator.faults.remove(rule);
        let during = operator.faults.calls().len() - calls;
        assert!(during < 60, "{code}: {during} calls in half a second");
    }
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    world.until("j", "in run 2", |job| job["status"]["run"]["number"] == 2 && job["status"]["run"]["readyAt"].is_string()).await;
    assert_eq!(world.kubelet.records().len(), 2, "one process per run");
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m15_silent_watches_are_made_up_for_by_timers() {
    let world = World::new("silent").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    operator.faults.disturb_watches(Matcher::any(), WatchEffect::Stall);
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    world.until("j", "in run 2", |job| job["status"]["run"]["number"] == 2 && job["status"]["run"]["readyAt"].is_string()).await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m15_a_server_that_freezes_or_dies_costs_no_run() {
    let plane: &'static ControlPlane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.unwrap()));
    plane.install_crd().await.unwrap();
    let world = World::on(plane, "outage").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    plane.freeze().unwrap();
    tokio::time::sleep(A_WHILE).await;
    plane.thaw().unwrap();
    plane.kill().await.unwrap();
    tokio::time::sleep(A_WHILE / 3).await;
    plane.restart().await.unwrap();
    assert_eq!(world.kubelet.running(&world.namespace, "j").len(), 1);
    assert_eq!(world.kubelet.records().len(), 1, "the process was left alone");
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    world.until("j", "in run 2", |job| job["status"]["run"]["number"] == 2 && job["status"]["run"]["readyAt"].is_string()).await;
    assert_eq!(world.store("j", "t").verify(), Vec::<String>::new());
    operator.stop().await;
    plane.kill().await.unwrap();
}
