//! What people with few rights can put into a cluster harms their own jobs at most.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use weir_testcluster::faults::{Effect, Matcher, Refusal, Times, Verb};

use crate::world::{World, condition, job};

/// Fields nested deeper than a JSON reader goes, as anybody may send them with an object.
fn deep_fields(version: &str) -> Value {
    let nested = (0..300).fold(json!({}), |inner, _| json!({"f:a": inner}));
    json!([{"manager": "m", "operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": nested}}])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_nested_without_bound_stops_no_other_job() {
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
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    operator.stop().await;
    world.check_runs(&[("j", "t")]);
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
