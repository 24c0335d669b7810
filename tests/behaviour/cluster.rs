//! Jobs on a cluster: real API server, real operator, real `weir task`
//! processes, real Kafka, and PySpark as the judge of what was written.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_operator::authority::Authority;
use weir_operator::clock::SystemClock;
use weir_operator::http::Health;
use weir_operator::metrics::Metrics;
use weir_operator::operator::{self, Services};
use weir_operator::rbac::Scope;
use weir_operator::settings::Settings;
use weir_operator::token::OperatorKey;
use weir_testcluster::invariants::{Invariant, Recorder, condition, epochs_of_pods, job_resource, one_run};
use weir_testcluster::kubelet::{Kubelet, Options, Program, Signal};
use weir_testcluster::{ControlPlane, User};
use weir_testkit::judge::{Input, Judge};
use weir_testkit::kafka::{Broker, Message};

use crate::support::{DEADLINE, Place, repository};

const JOB: &str = "sensor-readings";
const POD: &str = "sensor-readings--bronze";
const IMAGE: &str = "weir:test";

/// A namespace of a cluster with an operator and a node.
struct Town<'a> {
    plane: &'a ControlPlane,
    client: Client,
    namespace: String,
    kubelet: Kubelet,
    recorder: Recorder,
    stop: watch::Sender<bool>,
    operator: JoinHandle<()>,
}

impl<'a> Town<'a> {
    async fn new(plane: &'a ControlPlane, namespace: &str) -> Town<'a> {
        let client = plane.client(User::Admin).await.unwrap();
        plane.namespace(namespace).await.unwrap();
        let engine = Program::image(IMAGE, env!("CARGO_BIN_EXE_weir")).env("WEIR_LOG_FORMAT", "text");
        let node = format!("node-{namespace}");
        let options = Options::new([engine]).namespace(namespace).nodes(&[&node]);
        let kubelet = Kubelet::start(client.clone(), options).await.unwrap();
        let recorder = Recorder::start(client.clone(), namespace).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let settings = Settings {
            checker: env!("CARGO_BIN_EXE_weir").into(),
            poll_interval: Duration::from_millis(500),
            progress_interval: Duration::from_secs(1),
            ..Settings::new("weir-system/weir-operator", Scope::Namespaces([namespace.to_owned()].into()), IMAGE)
        };
        let services = Services {
            client: client.clone(),
            settings,
            clock: Arc::new(SystemClock),
            jumps: watch::channel(0).1,
            key: OperatorKey::new([1; 32]),
            authority: Authority::Alone,
            instance: "test".to_owned(),
            metrics: Metrics::default(),
            health: Arc::new(Health::default()),
        };
        let operator = tokio::spawn(async move { operator::run(services, stopped).await.unwrap() });
        Town { plane, client, namespace: namespace.to_owned(), kubelet, recorder, stop, operator }
    }

    fn jobs(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &job_resource())
    }

    async fn kubectl(&self, arguments: &[&str]) -> String {
        let all = ["-n", &self.namespace].into_iter().chain(arguments.iter().copied());
        self.plane.kubectl(all.map(str::to_owned)).stdout().await.unwrap()
    }

    async fn apply(&self, manifest: &str) {
        let all = ["-n", self.namespace.as_str(), "apply", "-f", "-"].map(str::to_owned);
        self.plane.kubectl(all).input(manifest).stdout().await.unwrap();
    }

    async fn patch(&self, patch: Value) {
        self.jobs().patch(JOB, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    async fn until(&self, what: &str, ask: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let job = self.jobs().get_opt(JOB).await.unwrap();
            let job = job.map(|job| serde_json::to_value(job).unwrap()).unwrap_or_default();
            if ask(&job) {
                return job;
            }
            if tokio::time::Instant::now() > deadline {
                panic!("the job is not {what}: {:#}\n{:#?}", job["status"], self.kubelet.log(&self.namespace, POD));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn until_streaming(&self, epoch_above: i64) -> Value {
        self.until("streaming", |job| {
            condition(job, "Ready")["reason"] == "Streaming" && job["status"]["epoch"].as_i64().unwrap_or(0) > epoch_above
        })
        .await
    }

    async fn delete(&self) {
        self.jobs().delete(JOB, &DeleteParams::background()).await.unwrap();
        self.until("gone", Value::is_null).await;
    }

    /// What must hold at the end of every test, but for what the test itself broke.
    fn check(&self, broken_on_purpose: &[Invariant]) {
        self.recorder.check_except(broken_on_purpose).unwrap();
        assert_eq!(epochs_of_pods(&self.recorder.pods()), []);
        for record in self.kubelet.records() {
            one_run(&self.kubelet.overlaps(&record.job_uid), []).unwrap();
        }
    }

    async fn close(self) {
        self.stop.send_replace(true);
        self.operator.await.unwrap();
    }
}

/// The example's manifest for a topic and a folder, mounted from the node; delays made short.
fn manifest(topic: &str, folder: &str) -> String {
    let path = repository().join("examples/kafka-to-delta/job.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let mut job: Value = serde_yaml_ng::from_str(&text).unwrap();
    let spec = &mut job["spec"];
    spec["parameters"] = json!({"bootstrap": Broker::shared().bootstrap_servers(), "lake": folder});
    spec["restart"] = json!({"initialDelay": "1s", "maxDelay": "2s", "minInterval": "1s"});
    spec["taskRetry"] = json!({"initialDelay": "1s", "maxDelay": "2s"});
    spec["tasks"][0]["podTemplate"] = json!({
        "volumes": [{"name": "lake", "hostPath": {"path": folder}}],
        "volumeMounts": [{"name": "lake", "mountPath": folder}],
    });
    let query = &mut spec["tasks"][0]["queries"][0];
    query["sources"][0]["options"]["subscribe"] = json!(topic);
    query["checkpointLocation"] = json!(format!("{folder}/checkpoint"));
    serde_yaml_ng::to_string(&job).unwrap()
}

fn produce(topic: &str, numbers: std::ops::Range<u64>) {
    let reading = |n: u64| Message::of(format!("{{\"device_id\":\"d{n}\",\"temperature\":{n}.5,\"timestamp\":\"2024-06-01T10:00:00Z\"}}"));
    Broker::shared().produce(topic, numbers.map(reading)).unwrap();
}

/// PySpark finds each row once.
fn judge(folder: &str, rows: u64) {
    let table = Input::at("delta", format!("{folder}/sensor_readings"));
    let found = Judge::shared().query(&table, "SELECT count(*) AS n, count(DISTINCT device_id) AS d FROM source").unwrap();
    assert_eq!(found.rows, [vec![json!(rows), json!(rows)]], "{folder}");
}

fn rows_are_there(job: &Value, folder: &Place, rows: u64) -> bool {
    let is_idle = job["status"]["tasks"][0]["queries"][0]["backlog"]["records"] == 0;
    is_idle && folder.sql("SELECT count(*) AS n FROM t", &[("t", "delta:sensor_readings")])[0]["n"] == rows
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_an_example_job_streams_and_survives_its_failures() {
    let place = Place::new("cluster-example");
    let folder = place.at("");
    let folder = folder.trim_end_matches('/');
    let topic = Broker::shared().new_topic("cluster", 2, &[]).unwrap();
    produce(&topic, 0..100);
    let town = Town::new(ControlPlane::shared().await, "cluster-example").await;
    town.apply(&manifest(&topic, folder)).await;
    let first = town.until_streaming(0).await;
    let job = town.until("at 100 rows", |job| rows_are_there(job, &place, 100)).await;
    produce(&topic, 100..150);
    // The rows are there at once, the status follows within its interval.
    let batch = |job: &Value| job["status"]["tasks"][0]["queries"][0]["batchId"].as_i64().unwrap_or(-1);
    let before = batch(&job);
    let moved = town.until("at 150 rows in a newer batch", |job| batch(job) > before && rows_are_there(job, &place, 150)).await;
    assert!(moved["status"]["summary"]["lastCommitTime"].is_string(), "{moved:#}");

    // Killed: the task is retried inside its run.
    town.kubelet.kill(&town.namespace, POD, Signal::KILL).unwrap();
    let retrying = town.until("retrying", |job| condition(job, "Degraded")["reason"] == "TaskRetrying").await;
    assert_eq!(retrying["status"]["tasks"][0]["lastExit"]["exitCode"], 137, "{retrying:#}");
    let again = town.until_streaming(first["status"]["epoch"].as_i64().unwrap()).await;
    assert_eq!(again["status"]["run"]["number"], 1);

    // Without retries the run fails, and the next one comes after its delay.
    town.patch(json!({"spec": {"taskRetry": {"maxRetries": 0}}})).await;
    let is_accepted = |job: &Value| {
        condition(job, "Accepted")["status"] == "True" && job["status"]["observedGeneration"] == job["metadata"]["generation"]
    };
    town.until("accepted", is_accepted).await;
    produce(&topic, 150..200);
    town.kubelet.kill(&town.namespace, POD, Signal::KILL).unwrap();
    let waiting = town.until("backing off", |job| condition(job, "Ready")["reason"] == "BackingOff").await;
    assert!(waiting["status"]["nextRestartTime"].is_string(), "{waiting:#}");
    let last = town.until_streaming(again["status"]["epoch"].as_i64().unwrap()).await;
    assert_eq!(last["status"]["run"]["number"], 2);
    town.until("at 200 rows", |job| rows_are_there(job, &place, 200)).await;
    assert!(town.kubectl(&["get", "sjob"]).await.contains("Streaming"));

    // A wiped status is rebuilt; the epoch goes on rising.
    let epoch = last["status"]["epoch"].as_i64().unwrap();
    town.jobs().patch_status(JOB, &PatchParams::default(), &Patch::Merge(json!({"status": null}))).await.unwrap();
    town.until_streaming(epoch).await;
    produce(&topic, 200..230);
    town.until("at 230 rows", |job| rows_are_there(job, &place, 230)).await;

    // Deleted and applied again: the checkpoint goes on without ceremony.
    town.delete().await;
    produce(&topic, 230..250);
    town.apply(&manifest(&topic, folder)).await;
    town.until("at 250 rows", |job| rows_are_there(job, &place, 250)).await;
    town.delete().await;
    // The wiped status was seen, and is the only one that fell.
    town.check(&[Invariant::I2, Invariant::I4]);
    judge(folder, 250);
    town.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_a_second_cluster_takes_a_checkpoint_only_when_told() {
    let place = Place::new("cluster-second");
    let folder = place.at("");
    let folder = folder.trim_end_matches('/');
    let topic = Broker::shared().new_topic("cluster", 2, &[]).unwrap();
    produce(&topic, 0..50);
    let here = Town::new(ControlPlane::shared().await, "cluster-second").await;
    here.apply(&manifest(&topic, folder)).await;
    let owner = here.until("at 50 rows", |job| rows_are_there(job, &place, 50)).await;
    let other_plane = ControlPlane::start(weir_testcluster::Options::default()).await.unwrap();
    other_plane.install_crd().await.unwrap();
    let there = Town::new(&other_plane, "cluster-second").await;
    there.apply(&manifest(&topic, folder)).await;
    let refused = there.until("stalled", |job| condition(job, "Stalled")["reason"] == "CheckpointIncompatible").await;
    let words = refused["status"]["tasks"][0]["lastExit"]["message"].as_str().or(refused["status"]["lastRun"]["message"].as_str());
    let words = words.unwrap_or_default().to_owned();
    let epoch = owner["status"]["epoch"].as_i64().unwrap();
    assert!(words.contains(&format!("weir.dev/adopt-checkpoint: \"{epoch}\"")) || words.contains("weir.dev/adopt-checkpoint"), "{words}");
    assert!(words.contains(owner["metadata"]["uid"].as_str().unwrap()), "{words}");

    // Told so, it takes over, and the first owner's run ends fenced.
    there.patch(json!({"metadata": {"annotations": {"weir.dev/adopt-checkpoint": epoch.to_string()}}, "spec": {"restartNonce": 1}})).await;
    there.until("streaming", |job| condition(job, "Ready")["reason"] == "Streaming").await;
    produce(&topic, 50..80);
    let fenced = here.until("fenced", |job| condition(job, "Stalled")["reason"] == "Fenced").await;
    assert_eq!(condition(&fenced, "Ready")["status"], "False", "{fenced:#}");
    there.until("at 80 rows", |job| rows_are_there(job, &place, 80)).await;
    there.delete().await;
    here.delete().await;
    here.check(&[]);
    there.check(&[]);
    judge(folder, 80);
    here.close().await;
    there.close().await;
}
