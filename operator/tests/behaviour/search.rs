//! How pods are found: by name inside a run, by a list where a run begins or nothing is sure.

use serde_json::{Value, json};
use weir_testcluster::faults::{Call, Verb};
use weir_testcluster::kubelet::Signal;

use crate::world::{World, job};

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_listed_before_a_run_begins_and_not_for_a_retry() {
    let world = World::new("search").await;
    let operator = world.operator().await;
    let mut retried = job("j", &["a", "b"]);
    retried["spec"]["taskRetry"] = json!({"maxRetries": 3, "initialDelay": "0s"});
    world.apply(&retried).await;
    let epoch = world.until_streaming("j").await["status"]["epoch"].as_u64().unwrap();
    let of_pods = |call: &Call, verb: Verb| call.verb == verb && call.target.resource == "pods";
    let before = operator.faults.calls();
    let lists = before.iter().filter(|call| of_pods(call, Verb::List)).count();
    assert!(lists >= 2, "the watch begins with a list, and so did the first run: {before:?}");

    world.kubelet.kill(&world.namespace, "j--a", Signal::KILL).unwrap();
    world.until("j", "at a new epoch", |job| job["status"]["epoch"].as_u64() > Some(epoch)).await;
    world.until_streaming("j").await;
    let after = operator.faults.calls().split_off(before.len());
    assert!(after.iter().all(|call| !of_pods(call, Verb::List)), "{after:?}");
    let create = after.iter().position(|call| of_pods(call, Verb::Create)).unwrap();
    let is_read = |call: &Call| of_pods(call, Verb::Get) && call.target.name == "j--a";
    let write_ahead =
        after[..create].iter().rposition(|call| call.verb == Verb::Update && call.target.resource == "streamingjobs/status").unwrap();
    assert!(after[..write_ahead].iter().rev().any(is_read), "the place was read before the write-ahead: {after:?}");
    operator.stop().await;

    // The manifest, the memory and the status that goes with it forget a task whose pod lives: only the list finds it, and its end comes before the next run.
    world.edit("j", json!({"spec": {"tasks": [retried["spec"]["tasks"][0]]}})).await;
    world.meddle("j", json!({"run": null, "tasks": null, "memory": {"run": null, "spec": {"tasks": {"b": null}}}})).await;
    let operator = world.operator().await;
    let alone = |job: &Value| job["status"]["run"]["number"] == 2 && job["status"]["run"]["generation"] == 2;
    world.until("j", "in its second run", alone).await;
    world.until_streaming("j").await;
    let records = world.kubelet.records();
    let newest = records.iter().filter(|record| record.task == "a").max_by_key(|record| record.epoch).unwrap();
    let forgotten = records.iter().find(|record| record.task == "b").unwrap();
    assert!(forgotten.ended_at.is_some_and(|at| at <= newest.started_at), "{records:#?}");
    operator.stop().await;
    world.check(&[("j", "a"), ("j", "b")]);
}
