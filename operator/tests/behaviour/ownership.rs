//! M10: what belongs to others is never touched; what is ours is found by its owner.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{IMAGE, World, condition, job};

fn foreign_pod(owner: Option<Value>) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "j--t", "labels": {"app": "somebody"}, "ownerReferences": owner.into_iter().collect::<Vec<_>>()},
        "spec": {"containers": [{"name": "c", "image": IMAGE}], "automountServiceAccountToken": false},
    }))
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_a_foreign_pod_in_the_slot_is_reported_and_never_touched() {
    let old_uid = json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "name": "j", "uid": "0-0-0", "controller": true});
    let other = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1-1-1", "controller": true});
    for owner in [None, Some(old_uid), Some(other)] {
        let world = World::new("foreign").await;
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
        let before = world.create(&foreign_pod(owner)).await;
        let operator = world.operator().await;
        world.apply(&job("j", &["t"])).await;
        let shown = world.until_condition("j", "Stalled", "True", "OwnershipConflict").await;
        assert!(condition(&shown, "Ready")["message"].as_str().unwrap().contains("j--t"), "{shown:#}");
        world.until_looked_again(&operator).await;
        let after = pods.get("j--t").await.unwrap();
        assert_eq!(after.metadata.uid, before.metadata.uid);
        assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
        pods.delete("j--t", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
        // Foreign pods are not watched; the next look is due by the clock.
        world.clock.advance(Duration::from_secs(30));
        world.until_streaming("j").await;
        operator.stop().await;
        world.check(&[("j", "t")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_a_live_pod_whose_labels_were_edited_is_still_the_jobs_own() {
    let world = World::new("labels").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let labels = json!({"weir.dev/job-uid": null, "weir.dev/epoch": "77", "weir.dev/job": "other"});
    pods.patch("j--t", &PatchParams::default(), &Patch::Merge(&json!({"metadata": {"labels": labels}}))).await.unwrap();
    world.until_looked_again(&operator).await;
    assert_eq!(world.job("j").await.data["status"]["epoch"], 1);
    assert_eq!(world.processes("j"), 1, "nothing happened to it");
    operator.stop().await;
    let operator = world.operator().await;
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    let shown =
        world.until("j", "in run 2", |job| job["status"]["run"]["number"] == 2 && condition(job, "Ready")["reason"] == "Streaming").await;
    assert_eq!(shown["status"]["epoch"], 2, "a label is no epoch: {shown:#}");
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_names_that_would_share_a_pod_are_refused() {
    let world = World::new("names").await;
    let long = "n".repeat(56);
    // The last two would be one pod if their names were cut to 63 characters.
    let alike = [format!("{long}-one"), format!("{long}-other")];
    for (name, task) in [("a--b", "c"), ("a", "b--c"), (&*"n".repeat(40), &*"t".repeat(30)), (&*alike[0], "tasks"), (&*alike[1], "tasks")] {
        let mut wanted = job("x", &["t"]);
        wanted["metadata"]["name"] = json!(name);
        wanted["spec"]["tasks"][0]["name"] = json!(task);
        let refused = world.jobs().patch(name, &PatchParams::apply("test"), &Patch::Apply(&wanted)).await.unwrap_err();
        assert!(refused.to_string().contains("name"), "{refused}");
    }
}
