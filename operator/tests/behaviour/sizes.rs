//! M13: nothing grows with restarts, with what engines say, or with what else is in the cluster.

use std::path::Path;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use serde_json::{Value, json};
use weir_crds::exit::ExitClass;
use weir_testcluster::User;
use weir_testcluster::operator_process::{OperatorProcess, sample};
use weir_testcluster::standin::{self, Control, Ending};
use weir_testcluster::wait::eventually;
use weir_testkit::length::Length;

use crate::telling::{fragile, task};
use crate::world::{IMAGE, PATIENCE, World, condition, job};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

#[tokio::test(flavor = "multi_thread")]
async fn m13_restarts_and_long_messages_leave_a_bounded_status_and_few_events() {
    let restarts = Length::of_this_run().pick(12, 300);
    let world = World::new("m13-restarts").await;
    let operator = world.operator().await;
    // A mebibyte, in which every cut at an even place would split a character.
    let text = format!("x{}", "é".repeat(MIB / 2));
    world.control("loud", "t", &Control::ends(0, Ending::Text { text, exit_code: 10 }));
    world.control("often", "t", &Control::fails(ExitClass::Retryable));
    let mut loud = job("loud", &["t"]);
    loud["spec"]["taskRetry"] = json!({"maxRetries": 1, "initialDelay": "5m", "maxDelay": "5m"});
    world.apply(&loud).await;
    world.apply(&fragile("often", json!({"initialDelay": "0s", "maxDelay": "1s", "minInterval": "0s"}))).await;

    let shown = world.until("loud", "down", |job| task(job, "t")["lastExit"]["logTail"].is_string()).await;
    let told: Vec<String> = texts(&shown["status"]).into_iter().filter(|text| text.contains('é')).collect();
    assert!(!told.is_empty(), "{shown:#}");
    for text in told {
        assert!(text.len() <= 2 * KIB && !text.contains('\u{fffd}'), "{} bytes: {text}", text.len());
    }
    let early = world.until("often", "failed twice", |job| job["status"]["consecutiveFailures"].as_u64() >= Some(4)).await;
    let mut shown = early.clone();
    // Each few in the time that one wait may take.
    for failures in (4..=restarts).step_by(8) {
        shown = world.until("often", "failed often", |job| job["status"]["consecutiveFailures"].as_u64() >= Some(failures)).await;
    }
    let bytes = |job: &Value| job["status"].to_string().len();
    assert!(bytes(&shown) < bytes(&early) + 6 * KIB && bytes(&shown) < 16 * KIB, "{} bytes, early {}", bytes(&shown), bytes(&early));
    assert!(shown["status"]["history"].as_array().unwrap().len() <= 10);
    assert_eq!(condition(&shown, "Stalled")["reason"], "CrashLooping");
    world.edit("often", json!({"spec": {"suspend": true}})).await;
    world.until_condition("often", "Ready", "True", "Suspended").await;

    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let kept = maps.list(&ListParams::default().labels("weir.dev/job=often")).await.unwrap().items.len();
    assert!(kept <= 2, "{kept} generations are kept");
    assert_eq!(world.events("often", "CrashLooping").await.len(), 1, "one event for one flip");
    let events: Api<Event> = Api::namespaced(world.client.clone(), &world.namespace);
    let all = events.list(&ListParams::default()).await.unwrap().items;
    let of_often = all.iter().filter(|event| event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref()) == Some("often"));
    let runs = usize::try_from(world.job("often").await.data["status"]["memory"]["runNumber"].as_u64().unwrap()).unwrap();
    let of_often = of_often.count();
    assert!(of_often <= 3 * runs + 8, "{of_often} events for {runs} runs");
    operator.stop().await;
    world.check(&[("often", "t"), ("loud", "t")]);
}

/// All texts of a document.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// What else is in a namespace: so many pods and ConfigMaps, and so many MiB of Secrets.
struct Crowd {
    pods: usize,
    maps: usize,
    secret_mib: usize,
}

/// Most memory that the operator may hold with a few jobs, whatever surrounds them.
const BUDGET: u64 = 200 * MIB as u64;
/// What it may hold more than in an empty namespace; far less than the crowd's bytes.
const MORE: u64 = 12 * MIB as u64;

#[tokio::test(flavor = "multi_thread")]
async fn m13_the_operators_memory_grows_with_its_own_objects_only() {
    let crowd =
        Length::of_this_run().pick(Crowd { pods: 200, maps: 200, secret_mib: 32 }, Crowd { pods: 5000, maps: 5000, secret_mib: 200 });
    let world = World::new("m13-crowd").await;
    for name in ["a", "b", "c"] {
        let mut idle = job(name, &["t"]);
        idle["spec"]["suspend"] = json!(name != "a");
        world.apply(&idle).await;
    }
    let alone = resident(&world).await;
    surround(&world, &crowd).await;
    let crowded = resident(&world).await;
    assert!(crowded < BUDGET && crowded < alone + MORE, "{crowded} bytes are resident, {alone} without the crowd");
    world.check(&[("a", "t")]);
}

/// Bytes of a new operator process that has looked at every job of the namespace twice.
async fn resident(world: &World) -> u64 {
    let checker = standin::binary().display().to_string();
    let arguments = ["--image", IMAGE, "--checker", &checker, "--namespaces", &world.namespace, "--namespace", &world.namespace];
    let arguments = [&arguments[..], &["--watch-secrets", "--no-leader-election", "--poll-interval", "300ms"]].concat();
    let binary = Path::new(env!("CARGO_BIN_EXE_weir-operator"));
    let operator = OperatorProcess::start(binary, &world.plane.kubeconfig(User::Admin), &arguments).await.unwrap();
    operator.until_ready().await.unwrap();
    world.until_streaming("a").await;
    world.until_condition("c", "Ready", "True", "Suspended").await;
    let looked = || async {
        let passes = sample(&operator.own_metrics().await?, "weir_reconcile_total{result=\"ok\"}");
        anyhow::ensure!(passes >= Some(20.0), "{passes:?} passes");
        Ok(())
    };
    eventually("twenty passes", PATIENCE, looked).await.unwrap();
    let bytes = operator.resident_bytes().unwrap();
    assert!(operator.stop().await.unwrap().success());
    bytes
}

async fn surround(world: &World, crowd: &Crowd) {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let named = |kind: &str, number: usize| ObjectMeta { name: Some(format!("{kind}-{number}")), ..ObjectMeta::default() };
    let create = PostParams::default();
    let many_pods = (0..crowd.pods).map(|number| {
        let spec = json!({"containers": [{"name": "web", "image": "web", "env": [{"name": "PADDING", "value": "p".repeat(8 * KIB)}]}]});
        let pod = Pod { metadata: named("web", number), spec: serde_json::from_value(spec).unwrap(), ..Pod::default() };
        let (pods, create) = (pods.clone(), create.clone());
        async move { pods.create(&create, &pod).await.map(drop) }
    });
    futures::stream::iter(many_pods).buffer_unordered(16).try_collect::<()>().await.unwrap();
    let many_maps = (0..crowd.maps).map(|number| {
        let data = [("padding".to_owned(), "p".repeat(32 * KIB))].into();
        let map = ConfigMap { metadata: named("map", number), data: Some(data), ..ConfigMap::default() };
        let (maps, create) = (maps.clone(), create.clone());
        async move { maps.create(&create, &map).await.map(drop) }
    });
    futures::stream::iter(many_maps).buffer_unordered(16).try_collect::<()>().await.unwrap();
    let many_secrets = (0..crowd.secret_mib).map(|number| {
        let data = [("padding".to_owned(), ByteString(vec![7; 1000 * KIB]))].into();
        let secret = Secret { metadata: named("secret", number), data: Some(data), ..Secret::default() };
        let (secrets, create) = (secrets.clone(), create.clone());
        async move { secrets.create(&create, &secret).await.map(drop) }
    });
    futures::stream::iter(many_secrets).buffer_unordered(4).try_collect::<()>().await.unwrap();
}
