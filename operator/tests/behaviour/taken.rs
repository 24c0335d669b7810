//! M10: the name of a generation's ConfigMap that something else has is told, waited for and never taken.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use weir_testcluster::kubelet::Signal;

use crate::world::{World, condition, job};

/// Longer than the operator waits before it looks again at what is foreign.
const PAST_A_LOOK: Duration = Duration::from_secs(31);

impl World {
    pub fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A ConfigMap of this name and owner.
    async fn squat(&self, name: &str, owner: Option<&Value>) -> ConfigMap {
        let owners: Vec<&Value> = owner.into_iter().collect();
        let map = json!({"metadata": {"name": name, "ownerReferences": owners}, "data": {"job.json": "mine"}});
        self.create(&serde_json::from_value::<ConfigMap>(map).unwrap()).await
    }

    async fn remove_map(&self, name: &str) {
        self.config_maps().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until the job says that a ConfigMap is another's, in a condition and an event.
    async fn until_contested(&self, words: &str) -> Value {
        let shown = self.until_condition("j", "Stalled", "True", "OwnershipConflict").await;
        for kind in ["Accepted", "Ready"] {
            let found = condition(&shown, kind);
            assert_eq!((&found["status"], &found["reason"]), (&json!("False"), &json!("OwnershipConflict")), "{shown:#}");
            assert!(found["message"].as_str().unwrap().contains(words), "{found}");
        }
        assert!(self.until_event("j", "OwnershipConflict").await.contains(words));
        shown
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_a_generation_whose_name_is_anothers_is_told_and_waits() {
    let predecessor = json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "name": "j", "uid": "0-0-0", "controller": true});
    let other = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1-1-1", "controller": true});
    let cases = [(None, "has no owner"), (Some(other), "belongs to ReplicaSet r"), (Some(predecessor), "left from an earlier job")];
    join_all(cases.map(|(owner, words)| async move {
        let world = World::new("taken").await;
        let before = world.squat("j-g1", owner.as_ref()).await;
        let operator = world.operator().await;
        world.apply(&job("j", &["t"])).await;
        world.until_contested(words).await;
        world.until_run_of_passes(&operator).await;
        assert!(world.kubelet.records().is_empty());
        assert_eq!(world.config_maps().get("j-g1").await.unwrap(), before, "it is left alone");
        world.remove_map("j-g1").await;
        // What is left of an earlier job is looked at again within seconds; nobody needs to move the clock.
        if words != "left from an earlier job" {
            world.clock.advance(PAST_A_LOOK);
        }
        world.until_streaming("j").await;
        operator.stop().await;
        world.check(&[("j", "t")]);
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_a_generation_whose_name_was_taken_later_is_told_when_a_pod_needs_it() {
    let world = World::new("usurped").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    world.remove_map("j-g1").await;
    let before = world.squat("j-g1", None).await;
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    world.until_contested("has no owner").await;
    assert_eq!(world.config_maps().get("j-g1").await.unwrap(), before);
    world.remove_map("j-g1").await;
    world.clock.advance(PAST_A_LOOK);
    world.until_streaming("j").await;
    assert_eq!(world.processes("j"), 2);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_no_pod_is_made_of_a_generation_that_the_operator_has_not_sealed() {
    let world = World::new("forged").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    // One of a generation that was accepted, with its seal, and one of a generation that is yet to come.
    let real = world.config_maps().get("j-g1").await.unwrap();
    let mut document: Value = serde_json::from_str(&real.data.as_ref().unwrap()["job.json"]).unwrap();
    document["spec"]["tasks"][0]["podTemplate"] = json!({"labels": {"forged": "yes"}});
    let forge = |name: &str, generation: &str| {
        let mut map = real.clone();
        (map.metadata.uid, map.metadata.resource_version, map.metadata.name) = (None, None, Some(name.to_owned()));
        map.metadata.labels.as_mut().unwrap().insert("weir.dev/generation".to_owned(), generation.to_owned());
        map.data.as_mut().unwrap().insert("job.json".to_owned(), document.to_string());
        map
    };
    world.remove_map("j-g1").await;
    let forged = world.create(&forge("j-g1", "1")).await;
    let mut held = forge("j-g2", "2");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    world.create(&held).await;
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    world
        .until("j", "streaming under epoch 2", |job| job["status"]["epoch"] == 2 && condition(job, "Ready")["reason"] == "Streaming")
        .await;
    let replaced = world.config_maps().get("j-g1").await.unwrap();
    assert!(replaced.metadata.uid != forged.metadata.uid && replaced.data == real.data, "{replaced:#?}");
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    // One that does not go is told of, and nothing is made of it meanwhile.
    world.until_contested("does not bear the seal").await;
    let free = json!({"metadata": {"finalizers": null}});
    world.config_maps().patch("j-g2", &PatchParams::default(), &Patch::Merge(&free)).await.unwrap();
    world.clock.advance(PAST_A_LOOK);
    world.until_run_streams("j", 2).await;
    operator.stop().await;
    let pods: Vec<_> = world.recorder.pods();
    assert!(pods.len() >= 3 && pods.iter().all(|pod| !format!("{pod:?}").contains("forged\"")), "{pods:#?}");
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_a_job_takes_its_generations_with_it_and_a_new_one_of_its_name_needs_no_garbage_collection() {
    let world = World::new("again").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    let first = world.until_streaming("j").await;
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    world.until_run_streams("j", 2).await;
    // It carries the labels of a generation and belongs to nobody.
    let mut stranger = world.config_maps().get("j-g2").await.unwrap();
    stranger.metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        name: Some("stranger".to_owned()),
        labels: stranger.metadata.labels,
        ..Default::default()
    };
    world.create(&stranger).await;
    world.delete("j").await;
    world.until_gone("j").await;
    let left: Vec<String> =
        world.config_maps().list(&ListParams::default()).await.unwrap().into_iter().filter_map(|map| map.metadata.name).collect();
    assert_eq!(left.iter().filter(|name| *name != "kube-root-ca.crt").collect::<Vec<_>>(), ["stranger"]);
    world.apply(&job("j", &["t"])).await;
    let second = world.until_streaming("j").await;
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(world.events("j", "OwnershipConflict").await, Vec::<String>::new());
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_a_run_whose_generation_is_gone_goes_on_and_nothing_follows_it_without_one() {
    let world = World::new("lost").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    operator.stop().await;
    let pid = world.pid("j", "t");
    let real = world.config_maps().get("j-g1").await.unwrap();
    // As a Weir without seals left it, then as if it had never been: the next operator mends it before an edit comes.
    let bare = json!({"metadata": {"annotations": {"weir.dev/seal": null}}});
    world.config_maps().patch("j-g1", &PatchParams::default(), &Patch::Merge(&bare)).await.unwrap();
    let operator = world.operator().await;
    world.until_run_of_passes(&operator).await;
    operator.stop().await;
    let sealed = world.config_maps().get("j-g1").await.unwrap();
    assert_eq!((&sealed.metadata.annotations, &sealed.data), (&real.metadata.annotations, &real.data));
    world.remove_map("j-g1").await;
    let operator = world.operator().await;
    let mut broken = job("j", &["t"]);
    broken["spec"]["tasks"][0]["queries"][0]["sql"] = json!("SELECT 1 -- REFUSE: no such column");
    world.until_run_of_passes(&operator).await;
    assert_eq!(world.config_maps().get("j-g1").await.unwrap().data, real.data);
    world.apply(&broken).await;
    let shown = world.until_condition("j", "Accepted", "False", "SpecInvalid").await;
    assert_eq!(condition(&shown, "Running")["reason"], "Streaming", "the last good generation is in force: {shown:#}");
    // What goes under the eyes of an operator is missed when it is needed.
    world.remove_map("j-g1").await;
    world.annotate("j", "example.com/look", "again").await;
    let shown = world.until_condition("j", "Stalled", "True", "GenerationLost").await;
    let message = condition(&shown, "Ready")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("generation 1") && message.contains("no such column"), "{message}");
    world.until_event("j", "GenerationLost").await;
    // Nor is an edit compared with nothing.
    let mut moved = job("j", &["t"]);
    moved["spec"]["checkpointRoot"] = json!("s3://lake/elsewhere");
    world.apply(&moved).await;
    let is_told =
        |job: &Value| condition(job, "Stalled")["message"].as_str().is_some_and(|message| message.contains("first apply the manifest"));
    world.until("j", "a moved checkpoint is refused", is_told).await;
    assert_eq!(world.pid("j", "t"), pid);
    // Its process ends: nothing can be begun in its place, until the manifest is mended.
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    world.until_looked_again(&operator).await;
    assert_eq!(world.processes("j"), 1, "no second one");
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}
