//! What people with few rights can put into a cluster harms their own jobs at most.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weir_operator::status::STATUS_BYTES;
use weir_operator::stored::StoredJob;
use weir_testcluster::faults::{Effect, Matcher, Refusal, Times, Verb};
use weir_testcluster::wait::eventually;

use crate::world::{PATIENCE, World, condition, job};

/// Nested deeper than a JSON reader goes.
fn deep() -> Value {
    (0..300).fold(json!({}), |inner, _| json!({"f:a": inner}))
}

/// Fields as anybody may send them with an object.
fn deep_fields(version: &str) -> Value {
    json!([{"manager": "m", "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": deep()}}])
}

impl World {
    /// Waits until a job that no common client can read has a condition with this reason; what can be read of it.
    async fn until_shown(&self, name: &str, kind: &str, reason: &str) -> Value {
        let api: Api<StoredJob> = Api::namespaced(self.client.clone(), &self.namespace);
        let ask = || async {
            let shown = api.get(name).await?.object.data;
            anyhow::ensure!(condition(&shown, kind)["reason"] == reason, "{:#}", shown["status"]["conditions"]);
            Ok(shown)
        };
        eventually(&format!("{kind} of {name} to be {reason}"), PATIENCE, ask).await.unwrap()
    }

    /// Changes the status of a job though the answer cannot be read.
    async fn nest(&self, name: &str) {
        let patch = Patch::Merge(json!({"status": {"memory": {"nested": deep()}}}));
        let unread = self.jobs().patch_status(name, &PatchParams::default(), &patch).await;
        assert!(matches!(unread, Err(kube::Error::SerdeError(_))), "{unread:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_reader_takes_or_nobody_made_is_told_at_its_own_job_and_stops_no_other() {
    // No list of others can be read either while these objects are there, so they get a control plane of their own.
    let world = World::alone("nested").await;
    let mut nested = job("nested", &["t"]);
    nested["metadata"]["namespace"] = json!(world.namespace);
    nested["metadata"]["managedFields"] = deep_fields("weir.dev/v1alpha1");
    // It is stored, though no client can read the answer.
    let unread = world.jobs().create(&PostParams::default(), &serde_json::from_value(nested).unwrap()).await;
    assert!(matches!(unread, Err(kube::Error::SerdeError(_))), "{unread:?}");
    let labels = json!({"app.kubernetes.io/managed-by": "weir"});
    let pod = json!({
        "metadata": {"name": "nested", "labels": labels, "managedFields": deep_fields("v1")},
        "spec": {"containers": [{"name": "c", "image": "nothing"}]},
    });
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let unread = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await;
    assert!(matches!(unread, Err(kube::Error::SerdeError(_))), "{unread:?}");
    // This one lists both at its start.
    let operator = world.operator().await;
    world.until_shown("nested", "Ready", "Streaming").await;

    // A pod of nobody that says it is the job's, before its first run.
    let mut held = job("held", &["t"]);
    held["spec"]["suspend"] = json!(true);
    let uid = world.apply(&held).await.metadata.uid;
    world.until_condition("held", "Ready", "True", "Suspended").await;
    let labels = json!({"app.kubernetes.io/managed-by": "weir", "weir.dev/job-uid": uid, "weir.dev/epoch": "nonsense"});
    let owner = json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "name": "held", "uid": uid, "controller": true});
    let forged = json!({
        "metadata": {"name": "held--t", "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c", "image": "nothing"}]},
    });
    let forged = pods.create(&PostParams::default(), &serde_json::from_value(forged).unwrap()).await.unwrap();
    world.edit("held", json!({"spec": {"suspend": false}})).await;

    // A pod that the API server takes from nobody.
    let mut invalid = job("invalid", &["t"]);
    invalid["spec"]["tasks"][0]["podTemplate"] = json!({"env": [{"name": "a=b", "value": "c"}]});
    world.apply(&invalid).await;

    // A memory that no reader takes, and a condition of somebody who has much to say.
    world.apply(&job("j", &["t"])).await;
    let before = world.until_streaming("j").await;
    let pid = world.pid("j", "t");
    let other = json!({
        "type": "example.com/Wordy", "status": "True", "reason": "Wordy", "message": "w".repeat(30_000), "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let wordy =
        json!({"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "metadata": {"name": "j"}, "status": {"conditions": [other]}});
    world.jobs().patch_status("j", &PatchParams::apply("other"), &Patch::Apply(wordy)).await.unwrap();
    world.nest("j").await;
    let shown = world.until_shown("j", "Stalled", "StatusUnreadable").await;
    let epoch = before["status"]["epoch"].as_u64().unwrap();
    let remedy = format!("weir.dev/discard-memory: \"{epoch}\"");
    let message = condition(&shown, "Ready")["message"].as_str().unwrap();
    assert!(message.contains("status.memory") && message.contains(&remedy), "{message}");
    assert!(world.until_event("j", "StatusUnreadable").await.contains("status.memory"));

    let conflict = world.until_condition("held", "Stalled", "True", "OwnershipConflict").await;
    let message = condition(&conflict, "Ready")["message"].as_str().unwrap();
    assert!(message.contains("held--t") && message.contains("nonsense") && message.contains("delete it"), "{message}");
    assert!(world.until_event("held", "OwnershipConflict").await.contains("held--t"));
    let refused = world.until_condition("invalid", "Stalled", "True", "SpecInvalid").await;
    assert!(condition(&refused, "Ready")["message"].as_str().unwrap().contains("a=b"), "{refused:#}");
    assert!(world.until_event("invalid", "SpecInvalid").await.contains("a=b"));
    assert_eq!(refused["status"]["totalRestarts"]["disruption"], 0);
    world.until_looked_again(&operator).await;
    assert_eq!((world.processes("held"), world.processes("invalid"), world.processes("j"), world.pid("j", "t")), (0, 0, 1, pid));
    assert_eq!(pods.get("held--t").await.unwrap().metadata.uid, forged.metadata.uid);
    assert_eq!(pods.get("held--t").await.unwrap().metadata.deletion_timestamp, None);

    // Each goes on once it is mended: a memory that is restored as if nothing had been, one that is given up above its epoch.
    let restored = Patch::Merge(json!({"status": {"memory": {"nested": null}}}));
    let api: Api<StoredJob> = Api::namespaced(world.client.clone(), &world.namespace);
    api.patch_status("j", &PatchParams::default(), &restored).await.unwrap();
    let shown = world.until_shown("j", "Ready", "Streaming").await;
    assert_eq!((shown["status"]["epoch"].as_u64(), world.pid("j", "t")), (Some(epoch), pid));
    let bytes = shown["status"].to_string().len();
    let wordy = condition(&shown, "example.com/Wordy");
    assert!(bytes <= STATUS_BYTES && wordy["status"] == "True" && wordy["message"].to_string().len() < 200, "{bytes} bytes: {wordy}");
    world.nest("j").await;
    world.until_shown("j", "Stalled", "StatusUnreadable").await;
    let discard = Patch::Merge(json!({"metadata": {"annotations": {"weir.dev/discard-memory": epoch.to_string()}}}));
    let unread = world.jobs().patch("j", &PatchParams::default(), &discard).await;
    assert!(matches!(unread, Err(kube::Error::SerdeError(_))), "{unread:?}");
    let shown = world.until_shown("j", "Ready", "Streaming").await;
    assert!(shown["status"]["epoch"].as_u64() > Some(epoch));
    pods.delete("held--t", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await.unwrap();
    world.until_streaming("held").await;
    world.edit("invalid", json!({"spec": {"tasks": job("invalid", &["t"])["spec"]["tasks"]}})).await;
    world.until_streaming("invalid").await;
    operator.stop().await;
    world.check_runs(&[("j", "t"), ("nested", "t"), ("held", "t"), ("invalid", "t")]);
    world.plane.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_whose_config_map_is_refused_says_so() {
    let world = World::new("quota").await;
    let operator = world.operator().await;
    let creates = Matcher::any().verb(Verb::Create).resource("configmaps");
    let rule = operator.faults.add(creates, Times::Always, Effect::Answer(Refusal::code(403)));
    world.apply(&job("j", &["t"])).await;
    let shown = world.until("j", "not accepted", |job| condition(job, "Accepted")["reason"] == "CheckUnavailable").await;
    assert!(condition(&shown, "Accepted")["message"].as_str().unwrap().contains("ConfigMap"), "{shown:#}");
    operator.faults.remove(rule);
    world.clock.advance(std::time::Duration::from_secs(31));
    world.until_streaming("j").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}
