//! The life of a job as its owner sees it.

use serde_json::json;
use weir_crds::exit::ExitClass;
use weir_testcluster::standin::Control;

use crate::world::{World, condition, job};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_streams_is_retried_backs_off_and_leaves_nothing() {
    let world = World::new("life").await;
    let operator = world.operator().await;
    world.control("sensors", "bronze", &Control::default().for_epoch(1, Control::fails(ExitClass::Retryable)));
    world.apply(&job("sensors", &["bronze"])).await;
    let shown = world.until_condition("sensors", "Degraded", "True", "TaskRetrying").await;
    assert_eq!(condition(&shown, "Ready")["status"], "False");
    let shown = world.until_streaming("sensors").await;
    assert_eq!(shown["status"]["run"]["number"], 1);
    assert_eq!(shown["status"]["epoch"], 2);
    assert_eq!(shown["status"]["summary"]["tasksReady"], "1/1");
    world.delete("sensors").await;
    world.until_gone("sensors").await;
    assert!(world.kubelet.running(&world.namespace, "sensors").is_empty());
    operator.stop().await;
    world.check(&[("sensors", "bronze")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn suspend_resume_and_a_new_nonce_act_by_themselves() {
    let world = World::new("suspend").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["a", "b"])).await;
    world.until_streaming("j").await;
    world.edit("j", json!({"spec": {"suspend": true}})).await;
    let shown = world.until_condition("j", "Ready", "True", "Suspended").await;
    assert_eq!(condition(&shown, "Suspended")["status"], "True");
    assert!(world.kubelet.running(&world.namespace, "j").is_empty());
    world.edit("j", json!({"spec": {"suspend": false}})).await;
    let shown = world.until_streaming("j").await;
    assert_eq!(shown["status"]["run"]["number"], 2);
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    let shown =
        world.until("j", "in run 3", |job| job["status"]["run"]["number"] == 3 && condition(job, "Ready")["status"] == "True").await;
    assert_eq!(shown["status"]["epoch"], 6);
    operator.stop().await;
    world.check(&[("j", "a"), ("j", "b")]);
}
