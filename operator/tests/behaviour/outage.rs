//! M15: an API server that is away or refuses is no information about jobs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use weir_operator::clock::Clock;
use weir_operator::http;
use weir_operator::names::epoch_of_pod;
use weir_operator::operator::endless;
use weir_operator::settings::Settings;
use weir_testcluster::faults::{Effect, Matcher, Refusal, Times, Verb, WatchEffect};
use weir_testcluster::invariants::Recorder;
use weir_testcluster::kubelet::Signal;
use weir_testcluster::operator_process::sample;
use weir_testcluster::wait::eventually;

use crate::world::{PATIENCE, Running, World, condition, job};

/// Calls in a second that no loop with pauses makes.
const BUSY: f64 = 120.0;

#[tokio::test(flavor = "multi_thread")]
async fn m15_refusals_of_every_kind_touch_no_process() {
    let world = World::new("refusals").await;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    for code in [403, 404, 409, 410, 422, 429, 500, 503] {
        let calls = operator.faults.calls().len();
        let rule = operator.faults.add(Matcher::any(), Times::Always, Effect::Answer(Refusal::code(code)));
        let began = Instant::now();
        let since = |calls: usize| operator.faults.calls().len() - calls;
        let made = async |what: &str, from: usize, times: usize| {
            let ask = || async {
                anyhow::ensure!(since(from) >= times, "{} calls", since(from));
                Ok(())
            };
            eventually(what, PATIENCE, ask).await.unwrap();
        };
        world.annotate("j", "test/touched", &code.to_string()).await;
        made("a call that is refused", calls, 1).await;
        operator.faults.remove(rule);
        let refused = operator.faults.calls().len();
        // One that was told that the job is gone has no reason to ask again by itself.
        world.annotate("j", "test/touched", &format!("after {code}")).await;
        made("a pass that is not refused", refused, 2).await;
        let (during, took) = (since(calls), began.elapsed());
        assert!((during as f64) < BUSY * took.as_secs_f64().max(0.25), "{code}: {during} calls within {took:?}");
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
    let world = World::alone("outage").await;
    let plane = world.plane;
    let operator = world.operator().await;
    world.apply(&job("j", &["t"])).await;
    world.until_streaming("j").await;
    let asked_in_vain = async |times: usize| {
        let before = operator.faults.calls().len();
        let asked = || async {
            let calls = operator.faults.calls().len() - before;
            anyhow::ensure!(calls >= times, "{calls} calls");
            Ok(())
        };
        eventually("calls that nobody answers", PATIENCE, asked).await.unwrap();
    };
    plane.freeze().unwrap();
    asked_in_vain(1).await;
    plane.thaw().unwrap();
    plane.kill().await.unwrap();
    asked_in_vain(3).await;
    plane.restart().await.unwrap();
    assert_eq!(world.kubelet.running(&world.namespace, "j").len(), 1);
    assert_eq!(world.kubelet.records().len(), 1, "the process was left alone");
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    world.until("j", "in run 2", |job| job["status"]["run"]["number"] == 2 && job["status"]["run"]["readyAt"].is_string()).await;
    assert_eq!(world.store("j", "t").verify(), Vec::<String>::new());
    operator.stop().await;
    plane.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m15_pods_that_may_not_be_listed_and_a_server_that_asks_for_patience_are_no_information() {
    let world = World::new("patience").await;
    let operator = world.operator().await;
    for name in ["a", "b"] {
        world.apply(&job(name, &["t"])).await;
        world.until_streaming(name).await;
    }
    // A right that is taken away is gone for single pods as well.
    let pods = [Verb::List, Verb::Get].map(|verb| Matcher::any().verb(verb).resource("pods")).to_vec();
    for (matchers, refusal, run) in [(pods, Refusal::code(403), 2), (vec![Matcher::any()], Refusal::retry_after(1), 3)] {
        let processes = world.kubelet.records().len();
        let add = |matcher| operator.faults.add(matcher, Times::Always, Effect::Answer(refusal.clone()));
        let rules: Vec<_> = matchers.into_iter().map(add).collect();
        let (calls, writes) = (operator.faults.calls().len(), operator.faults.writes().len());
        // What happens meanwhile is not seen, and nothing is made of that.
        world.kubelet.kill(&world.namespace, "a--t", Signal::KILL).unwrap();
        let refused = || async {
            let hits: usize = rules.iter().map(|rule| operator.faults.hits(*rule).len()).sum();
            anyhow::ensure!(hits >= 8, "{hits} refusals");
            Ok(())
        };
        let began = Instant::now();
        eventually("eight refusals", PATIENCE, refused).await.unwrap();
        let touching: Vec<_> = operator.faults.writes().split_off(writes);
        let touching: Vec<_> = touching.iter().filter(|call| call.target.resource == "pods").collect();
        assert!(touching.is_empty(), "{touching:?}");
        let rate = (operator.faults.calls().len() - calls) as f64 / began.elapsed().as_secs_f64();
        assert!(rate < 20.0, "{rate} calls a second");
        rules.iter().for_each(|rule| operator.faults.remove(*rule));
        for name in ["a", "b"] {
            world.edit(name, json!({"spec": {"restartNonce": run}})).await;
        }
        for name in ["a", "b"] {
            world.until_run_streams(name, run).await;
        }
        assert!(world.kubelet.records().len() <= processes + 3, "the killed attempt, and one process per run");
    }
    operator.stop().await;
    world.check(&[("a", "t"), ("b", "t")]);
}

/// What `/readyz` says.
async fn readiness(address: SocketAddr) -> (u16, String) {
    let answer = reqwest::get(format!("http://{address}/readyz")).await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

async fn until_readiness(address: SocketAddr, wanted: u16) -> String {
    let ask = || async {
        let (code, text) = readiness(address).await;
        anyhow::ensure!(code == wanted, "it says {code}: {text}");
        Ok(text)
    };
    eventually("another readiness", PATIENCE, ask).await.unwrap()
}

/// When the watch of pods was last heard of, in seconds.
async fn last_heard(address: SocketAddr) -> f64 {
    let metrics = reqwest::get(format!("http://{address}/metrics")).await.unwrap().text().await.unwrap();
    sample(&metrics, "weir_watch_last_event_timestamp_seconds{kind=\"Pod\"}").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn m15_a_watch_that_says_nothing_ends_readiness_until_it_speaks_again() {
    let world = World::new("stall").await;
    let settings = Settings { watch_seconds: 4, ..world.settings() };
    let stale_after = settings.watch_stale_after();
    let operator = world.operator_with(settings).await;
    operator.health.leadership(&endless());
    let (listener, address) = http::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let server = tokio::spawn(http::serve(listener, operator.metrics.clone(), Arc::clone(&operator.health), Arc::new(|_| {})));
    let mut idle = job("idle", &["t"]);
    idle["spec"]["suspend"] = json!(true);
    world.apply(&idle).await;
    world.until_condition("idle", "Ready", "True", "Suspended").await;
    until_readiness(address, 200).await;
    // In a quiet cluster watches end and begin anew, and all is well.
    let lives = || operator.faults.calls().iter().filter(|call| call.verb == Verb::List && call.target.resource == "streamingjobs").count();
    let before = lives();
    let two_lives = || async {
        let (code, text) = readiness(address).await;
        assert_eq!(code, 200, "{text}");
        anyhow::ensure!(lives() >= before + 2, "the watches have not begun anew twice");
        Ok(())
    };
    eventually("two lives of a watch", PATIENCE, two_lives).await.unwrap();

    let rule = operator.faults.disturb_watches(Matcher::any(), WatchEffect::Stall);
    let why = until_readiness(address, 503).await;
    assert!(why.contains("was last heard of"), "{why}");
    let silent_for = world.clock.now().timestamp_millis() as f64 / 1000.0 - last_heard(address).await;
    assert!(silent_for >= stale_after.as_secs_f64() - 0.1, "silent for {silent_for} s");
    operator.faults.remove(rule);
    until_readiness(address, 200).await;
    world.edit("idle", json!({"spec": {"suspend": false}})).await;
    world.until_streaming("idle").await;
    server.abort();
    operator.stop().await;
    world.check(&[("idle", "t")]);
}

/// The highest epoch that any pod of the namespace carries.
async fn highest_epoch(world: &World) -> u64 {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let listed = pods.list(&ListParams::default()).await.unwrap();
    listed.items.iter().filter_map(epoch_of_pod).max().unwrap_or_default()
}

fn shows(operator: &Running, job: &str) -> bool {
    operator.metrics.pieces().any(|piece| piece.contains(&format!("name=\"{job}\"")))
}

#[tokio::test(flavor = "multi_thread")]
async fn m15_a_store_that_was_restored_is_noticed_and_no_epoch_comes_twice() {
    let world = World::alone("restore").await;
    let plane = world.plane;
    let operator = world.operator().await;
    let mut idle = job("idle", &["t"]);
    idle["spec"]["suspend"] = json!(true);
    world.apply(&idle).await;
    world.apply(&job("busy", &["t"])).await;
    world.until_condition("idle", "Ready", "True", "Suspended").await;
    world.until_streaming("busy").await;
    let snapshot = plane.snapshot().await.unwrap();

    // All this will not have been.
    world.edit("idle", json!({"spec": {"suspend": false}})).await;
    world.until_streaming("idle").await;
    for nonce in [1, 2] {
        world.edit("busy", json!({"spec": {"restartNonce": nonce}})).await;
        world.until_run_streams("busy", nonce + 1).await;
    }
    world.apply(&job("late", &["t"])).await;
    world.until_streaming("late").await;
    let epochs = world.kubelet.records().iter().filter_map(|record| record.epoch).max().unwrap();
    assert!(epochs >= 3 && highest_epoch(&world).await == epochs && shows(&operator, "late"));

    world.recorder.check().unwrap();
    plane.restore(&snapshot).await.unwrap();
    world.kubelet.restart_kubelets();
    let restored = Instant::now();
    let after = Recorder::start(world.client.clone(), &world.namespace).await.unwrap();
    let is_anew = |job: &Value| job["status"]["epoch"].as_u64() > Some(epochs) && condition(job, "Ready")["reason"] == "Streaming";
    world.until("busy", "streaming above every epoch", is_anew).await;
    // Nobody but a watch tells of this edit.
    world.edit("idle", json!({"spec": {"suspend": false}})).await;
    world.until("idle", "streaming above every epoch", is_anew).await;
    assert!(restored.elapsed() < Duration::from_secs(60), "it took {:?}", restored.elapsed());
    assert!(!shows(&operator, "late"), "what never was is not shown");

    let records = world.kubelet.records();
    let mut given: Vec<(&str, Option<u64>)> = records.iter().map(|record| (record.job_uid.as_str(), record.epoch)).collect();
    let all = given.len();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), all, "no epoch comes twice: {records:#?}");
    operator.stop().await;
    after.check().unwrap();
    world.check_runs(&[("busy", "t"), ("idle", "t")]);
    plane.kill().await.unwrap();
}
