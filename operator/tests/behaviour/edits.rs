//! M8: what an edit restarts depends on what it changes, not on who saw it when.

use std::time::Duration;

use serde_json::{Value, json};
use weir_operator::settings::Settings;
use weir_testcluster::faults::{Effect, Matcher, Times, Verb};
use weir_testcluster::kubelet::Signal;

use crate::telling::task;
use crate::world::{IMAGE, NEXT_IMAGE, World, condition, is_observed, job};

#[tokio::test(flavor = "multi_thread")]
async fn m8_edits_while_no_operator_runs_count_by_their_result() {
    let world = World::new("m8-down").await;
    let operator = world.operator().await;
    let names = ["edited", "reverted", "cycled", "deleted"];
    for name in names {
        world.apply(&job(name, &["t"])).await;
    }
    for name in names {
        world.until_streaming(name).await;
    }
    operator.kill().await;
    let parameters = |value: &str| json!({"spec": {"parameters": {"env": value}}});
    world.edit("edited", parameters("prod")).await;
    world.edit("edited", parameters("test")).await;
    world.edit("reverted", parameters("prod")).await;
    world.edit("reverted", json!({"spec": {"parameters": null}})).await;
    for suspend in [true, false] {
        world.edit("cycled", json!({"spec": {"suspend": suspend}})).await;
    }
    world.delete("deleted").await;
    let operator = world.operator().await;
    world.until_gone("deleted").await;
    let edited = world.until_streaming("edited").await;
    assert_eq!((edited["status"]["run"]["number"].clone(), world.processes("edited")), (json!(2), 2));
    assert_eq!(task(&edited, "t")["generation"], 3);
    for name in ["reverted", "cycled"] {
        let shown = world.until_streaming(name).await;
        assert_eq!((shown["status"]["run"]["number"].clone(), world.processes(name)), (json!(1), 1), "{name}");
    }
    assert!(world.kubelet.running(&world.namespace, "deleted").is_empty());
    operator.stop().await;
    world.check(&names.map(|name| (name, "t")));
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_two_edits_within_one_pass_restart_once() {
    let world = World::new("m8-two").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let reads = Matcher::any().verb(Verb::Get).resource("streamingjobs").name("j");
    let rule = operator.faults.add(reads, Times::Always, Effect::Delay(Duration::from_secs(1)));
    for value in ["one", "two"] {
        world.edit("j", json!({"spec": {"parameters": {"env": value}}})).await;
    }
    operator.faults.remove(rule);
    let shown = world.until_streaming("j").await;
    assert_eq!((task(&shown, "t")["generation"].clone(), shown["status"]["run"]["number"].clone()), (json!(3), json!(2)));
    assert_eq!(world.processes("j"), 2);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_spelling_order_defaults_and_annotations_restart_nothing() {
    let world = World::new("m8-noop").await;
    let operator = world.operator().await;
    let mut first = job("j", &["a", "b"]);
    for at in [0, 1] {
        first["spec"]["tasks"][at]["queries"][0]["trigger"] = json!({"processingTime": "60s"});
        first["spec"]["tasks"][at]["queries"][0]["sources"][0]["options"] = json!({"rowsPerSecond": "5", "numPartitions": "2"});
    }
    world.apply(&first).await;
    world.until_streaming("j").await;
    let before = (world.pid("j", "a"), world.pid("j", "b"));
    let mut second = first.clone();
    for at in [0, 1] {
        let query = &mut second["spec"]["tasks"][at]["queries"][0];
        query["trigger"] = json!({"processingTime": "1m"});
        query["sources"][0]["options"] = json!({"numPartitions": "2", "rowsPerSecond": "5"});
        query["outputMode"] = json!("Append");
        query["checkpointResetNonce"] = json!(0);
    }
    second["spec"]["tasks"].as_array_mut().unwrap().reverse();
    for (field, value) in [
        ("startDeadline", json!("300s")),
        ("suspend", json!(false)),
        ("restartNonce", json!(0)),
        ("nodeLostPolicy", json!("ReplaceWhenFenced")),
    ] {
        second["spec"][field] = value;
    }
    second["metadata"]["annotations"] = json!({"example.com/owner": "data"});
    second["metadata"]["labels"] = json!({"team": "data"});
    let generation = world.apply(&second).await.metadata.generation;
    assert_eq!(generation, Some(2));
    let shown = world.until_streaming("j").await;
    let acknowledged = |job: &Value| ["a", "b"].iter().all(|name| task(job, name)["configGeneration"] == 2);
    world.until("j", "acknowledged", acknowledged).await;
    assert_eq!(shown["status"]["run"]["number"], 1);
    assert_eq!((world.pid("j", "a"), world.pid("j", "b"), world.processes("j")), (before.0, before.1, 2));
    operator.stop().await;
    world.check(&[("j", "a"), ("j", "b")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m8_an_edit_restarts_exactly_what_its_class_says() {
    let world = World::new("m8-class").await;
    let operator = world.operator().await;
    let mut edited = job("j", &["a", "b"]);
    world.apply(&edited).await;
    world.until_streaming("j").await;
    let sibling = world.pid("j", "b");
    // One task: its sibling goes on.
    edited["spec"]["tasks"][0]["queries"][0]["sql"] = json!("SELECT 1");
    world.apply(&edited).await;
    let shown = world.until_streaming("j").await;
    assert_eq!((task(&shown, "a")["generation"].clone(), task(&shown, "b")["generation"].clone()), (json!(2), json!(1)));
    assert_eq!((world.pid("j", "b"), world.processes("j"), shown["status"]["run"]["number"].clone()), (sibling, 3, json!(1)));
    world.until("j", "acknowledged by the sibling", |job| task(job, "b")["configGeneration"] == 2).await;
    // The run: both start anew, once.
    edited["spec"]["conf"] = json!({"spark.sql.ansi.enabled": "false"});
    world.apply(&edited).await;
    let shown = world.until_streaming("j").await;
    assert_eq!((world.processes("j"), shown["status"]["run"]["number"].clone()), (5, json!(2)));
    assert_eq!(shown["status"]["lastRun"]["result"], "Superseded");
    // Nothing: the tasks confirm the new settings.
    edited["spec"]["health"] = json!({"staleAfter": "6m"});
    world.apply(&edited).await;
    world.until("j", "acknowledged by both", |job| ["a", "b"].iter().all(|name| task(job, name)["configGeneration"] == 4)).await;
    assert_eq!(world.processes("j"), 5);
    operator.stop().await;
    world.check(&[("j", "a"), ("j", "b")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_default_image_is_taken_at_the_next_run_only() {
    let world = World::new("image").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let pid = world.pid("j", "t");
    operator.stop().await;
    let operator = world.operator_with(Settings { image: NEXT_IMAGE.to_owned(), ..world.settings() }).await;
    world.until_run_of_passes(&operator).await;
    assert_eq!(world.pid("j", "t"), pid);
    // A retry in the same run has the image of the run.
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    let retried = |job: &Value| task(job, "t")["attempt"] == 2 && condition(job, "Ready")["status"] == "True";
    let shown = world.until("j", "retried", retried).await;
    assert_eq!(shown["status"]["run"]["image"], IMAGE);
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    let shown = world.until_run_streams("j", 2).await;
    assert_eq!(shown["status"]["run"]["image"], NEXT_IMAGE);
    let images: Vec<String> = world.recorder.pods().iter().filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.clone()).collect();
    assert_eq!(images.last().map(String::as_str), Some(NEXT_IMAGE));
    operator.stop().await;
    world.check(&[("j", "t")]);
}

/// A job whose first task takes options from something, and restarts when that changes.
fn referring(to: &str) -> Value {
    let mut job = job("j", &["a", "b"]);
    job["spec"]["tasks"][0]["queries"][0]["sources"][0]["optionsFrom"] = json!([{to: {"name": "options"}, "onChange": "Restart"}]);
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_config_map_restarts_the_task_that_refers_to_it() {
    use k8s_openapi::api::core::v1::ConfigMap;
    let world = World::new("refs-map").await;
    let operator = world.operator().await;
    let map = |value: &str| {
        serde_json::from_value::<ConfigMap>(json!({"metadata": {"name": "options"}, "data": {"rowsPerSecond": value}})).unwrap()
    };
    world.create(&map("5")).await;
    world.apply(&referring("configMapRef")).await;
    world.until_streaming("j").await;
    let (first, sibling) = (world.pid("j", "a"), world.pid("j", "b"));
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(world.client.clone(), &world.namespace);
    maps.replace("options", &Default::default(), &map("6")).await.unwrap();
    let restarted = |job: &Value| task(job, "a")["attempt"] == 2 && condition(job, "Ready")["status"] == "True";
    let shown = world.until("j", "restarted", restarted).await;
    assert_eq!(shown["status"]["run"]["number"], 1);
    assert_eq!((world.pid("j", "b"), world.processes("j")), (sibling, 3));
    assert_ne!(world.pid("j", "a"), first);
    // Neither a new operator nor a map that is gone restarts anything.
    operator.kill().await;
    maps.delete("options", &Default::default()).await.unwrap();
    let operator = world.operator().await;
    world.until_run_of_passes(&operator).await;
    assert_eq!(world.processes("j"), 3);
    operator.stop().await;
    world.check(&[("j", "a"), ("j", "b")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_watched_only_where_the_installation_may() {
    use k8s_openapi::api::core::v1::Secret;
    use weir_operator::rbac::SecretAccess;
    let world = World::new("refs-secret").await;
    let secret = |value: &str| {
        serde_json::from_value::<Secret>(json!({"metadata": {"name": "options"}, "stringData": {"rowsPerSecond": value}})).unwrap()
    };
    world.create(&secret("5")).await;
    let operator = world.operator().await;
    world.apply(&referring("secretRef")).await;
    let shown = world.until_condition("j", "Accepted", "False", "ReferenceNotPermitted").await;
    let message = condition(&shown, "Accepted")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("options") && message.contains("onChange: Ignore"), "{message}");
    assert_eq!(world.processes("j"), 0);
    operator.stop().await;
    let operator = world.operator_with(Settings { secrets: SecretAccess::Watch, ..world.settings() }).await;
    world.until_streaming("j").await;
    let sibling = world.pid("j", "b");
    let secrets: kube::Api<Secret> = kube::Api::namespaced(world.client.clone(), &world.namespace);
    secrets.replace("options", &Default::default(), &secret("6")).await.unwrap();
    let restarted = |job: &Value| task(job, "a")["attempt"] == 2 && condition(job, "Ready")["status"] == "True";
    world.until("j", "restarted", restarted).await;
    assert_eq!(world.pid("j", "b"), sibling);
    let job = world.until("j", "observed", is_observed).await;
    assert!(!job.to_string().contains("rowsPerSecond\":\"6"), "no value of a secret is in the job");
    operator.stop().await;
    world.check(&[("j", "a"), ("j", "b")]);
}
