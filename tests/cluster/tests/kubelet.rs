//! The kubelet, the fault layer and the recorder on a real API server, with the stand-in as the engine.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, WatchEvent, WatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use weir_crds::exit::{ExitClass, ExitReport};
use weir_testcluster::faults::{Caller, Effect, Faults, Matcher, Refusal, Side, Times, Verb};
use weir_testcluster::invariants::{Recorder, job_resource, one_run};
use weir_testcluster::kubelet::{FIRST_NODE, Kubelet, Options, Program, Signal};
use weir_testcluster::standin::{Control, Ending, STORE_VARIABLE, Store};
use weir_testcluster::{ControlPlane, User};
use weir_testkit::{eventually, scratch, wait::GENEROUS};

struct Cluster {
    client: Client,
    namespace: String,
    kubelet: Kubelet,
    root: TempDir,
}

/// A namespace with a kubelet of its own, on nodes of its own.
async fn cluster() -> Cluster {
    let plane = ControlPlane::shared().await;
    let client = plane.client(User::Admin).await.unwrap();
    let namespace = plane.new_namespace("kubelet").await.unwrap();
    let root = scratch::folder("stores").unwrap();
    let standin = Program::image("weir:test", env!("CARGO_BIN_EXE_weir-standin")).env(STORE_VARIABLE, root.path().display().to_string());
    let node = node(&namespace);
    let options = Options::new([standin]).namespace(&namespace).nodes(&[&node]);
    let kubelet = Kubelet::start(client.clone(), options).await.unwrap();
    let job = json!({"kind": "StreamingJob", "metadata": {"name": "j"}, "spec": {"tasks": [{"name": "t", "queries": [{"name": "q"}]}]}});
    let map = json!({"metadata": {"name": "j-g1"}, "data": {"job.json": job.to_string()}});
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    Cluster { client, namespace, kubelet, root }
}

fn node(namespace: &str) -> String {
    format!("{FIRST_NODE}-{namespace}")
}

fn engine_pod(epoch: u64, image: &str) -> Pod {
    let arguments = [
        "task",
        "--job",
        "j",
        "--namespace",
        "$(NAMESPACE)",
        "--task",
        "t",
        "--epoch",
        "$(WEIR_EPOCH)",
        "--job-uid",
        "u",
        "--listen",
        "$(POD_IP):8080",
        "--termination-log",
        "/dev/termination-log",
        "/etc/weir/job/job.json",
    ];
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    serde_json::from_value(json!({
        "metadata": {"name": "j--t", "labels": {"app.kubernetes.io/managed-by": "weir", "weir.dev/job": "j", "weir.dev/job-uid": "u"}},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "job", "configMap": {"name": "j-g1"}}],
            "containers": [{
                "name": "engine",
                "image": image,
                "args": arguments,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "env": [
                    {"name": "POD_IP", "valueFrom": field("status.podIP")},
                    {"name": "NAMESPACE", "valueFrom": field("metadata.namespace")},
                    {"name": "WEIR_POD_UID", "valueFrom": field("metadata.uid")},
                    {"name": "WEIR_EPOCH", "value": epoch.to_string()},
                ],
                "volumeMounts": [{"name": "job", "mountPath": "/etc/weir/job"}],
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}},
            }],
        },
    }))
    .unwrap()
}

impl Cluster {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn store(&self) -> Store {
        Store::of_task(self.root.path(), &self.namespace, "j", "t")
    }

    async fn create(&self, epoch: u64) -> Pod {
        self.pods().create(&PostParams::default(), &engine_pod(epoch, "weir:test")).await.unwrap()
    }

    /// Waits until the pod's status, as JSON, is as asked.
    async fn status(&self, what: &str, ask: impl Fn(&Value) -> bool + Send) -> Value {
        let condition = |pod: Option<&Pod>| pod.is_some_and(|pod| ask(&serde_json::to_value(&pod.status).unwrap()));
        let waited = tokio::time::timeout(GENEROUS, await_condition(self.pods(), "j--t", condition)).await;
        match waited {
            Ok(found) => serde_json::to_value(found.unwrap().unwrap().status).unwrap(),
            Err(_) => panic!("not {what}: {:#?}\n{:#?}", self.pods().get_opt("j--t").await, self.kubelet.log(&self.namespace, "j--t")),
        }
    }

    async fn ready(&self) -> Value {
        self.status("ready", |status| condition(status, "Ready") == "True").await
    }

    async fn phase(&self, phase: &'static str) -> Value {
        self.status(phase, |status| status["phase"] == phase).await
    }

    /// Removes the pod for good and waits until it is gone.
    async fn delete(&self) {
        if let Ok(deleted) = self.pods().delete("j--t", &DeleteParams::default()).await
            && let Some(pod) = deleted.left()
        {
            self.gone(&pod).await;
        }
    }

    async fn gone(&self, pod: &Pod) {
        let uid = pod.uid().unwrap();
        let gone = await_condition(self.pods(), "j--t", kube::runtime::conditions::is_deleted(&uid));
        tokio::time::timeout(GENEROUS, gone).await.expect("the pod goes").unwrap();
    }
}

fn condition(status: &Value, kind: &str) -> String {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.and_then(|condition| condition["status"].as_str()).unwrap_or_default().to_owned()
}

fn terminated(status: &Value) -> &Value {
    &status["containerStatuses"][0]["state"]["terminated"]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_gets_ready_and_stops_at_a_boundary() {
    let cluster = cluster().await;
    let pod = cluster.create(7).await;
    let status = cluster.ready().await;
    let ip = status["podIP"].as_str().unwrap();
    assert!(ip.starts_with("127."), "{ip}");
    let shown: Value = reqwest::get(format!("http://{ip}:8080/v1/queries")).await.unwrap().json().await.unwrap();
    assert_eq!(shown["epoch"], 7);
    assert_eq!(cluster.kubelet.running(&cluster.namespace, "j").len(), 1);
    let mut events = cluster.pods().watch(&WatchParams::default(), &pod.resource_version().unwrap()).await.unwrap().boxed();
    cluster.delete().await;
    let last = loop {
        let event = tokio::time::timeout(GENEROUS, events.next()).await.unwrap().unwrap().unwrap();
        if let WatchEvent::Deleted(last) = event {
            break serde_json::to_value(&last.status).unwrap();
        }
    };
    // As of a real kubelet: the end is reported before the object goes.
    assert_eq!((&last["phase"], &terminated(&last)["exitCode"]), (&json!("Succeeded"), &json!(0)));
    let record = cluster.kubelet.records().pop().unwrap();
    assert_eq!((record.epoch, record.pod_uid, record.exit.unwrap().code), (Some(7), pod.uid().unwrap(), 0));
    assert!(cluster.kubelet.overlaps("u").is_empty());
    assert_eq!(cluster.store().verify(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_are_reported_as_a_kubelet_does() {
    let cluster = cluster().await;
    let long = Ending::Text { text: "x".repeat(1 << 20), exit_code: 10 };
    let control = Control::ends(1, Ending::Complete)
        .for_epoch(2, Control::fails(ExitClass::Config))
        .for_epoch(3, Control::ends(0, long))
        .for_epoch(4, Control::ends(0, Ending::Panic))
        .for_epoch(5, Control::default())
        .for_epoch(6, Control::default())
        .for_epoch(7, Control::default())
        .for_epoch(8, Control::default());
    cluster.store().control(&control).unwrap();
    let (namespace, kubelet) = (cluster.namespace.as_str(), &cluster.kubelet);

    cluster.create(1).await;
    let status = cluster.phase("Succeeded").await;
    let report: ExitReport = serde_json::from_str(terminated(&status)["message"].as_str().unwrap()).unwrap();
    assert_eq!((report.class, terminated(&status)["reason"].as_str()), (ExitClass::Completed, Some("Completed")));
    cluster.delete().await;

    cluster.create(2).await;
    let status = cluster.phase("Failed").await;
    assert_eq!((terminated(&status)["exitCode"].as_i64(), terminated(&status)["reason"].as_str()), (Some(20), Some("Error")));
    assert!(terminated(&status)["finishedAt"].is_string());
    cluster.delete().await;

    cluster.create(3).await;
    let status = cluster.phase("Failed").await;
    assert_eq!(terminated(&status)["message"].as_str().unwrap().len(), weir_testcluster::kubelet::MESSAGE_BYTES);
    cluster.delete().await;

    cluster.create(4).await;
    let status = cluster.phase("Failed").await;
    let message = terminated(&status)["message"].as_str().unwrap();
    assert!(terminated(&status)["exitCode"] == 101 && message.contains("the test asked for a panic"), "{status}");
    cluster.delete().await;

    cluster.create(5).await;
    cluster.ready().await;
    kubelet.oom(namespace, "j--t").unwrap();
    let status = cluster.phase("Failed").await;
    assert_eq!((terminated(&status)["exitCode"].as_i64(), terminated(&status)["reason"].as_str()), (Some(137), Some("OOMKilled")));
    cluster.delete().await;

    cluster.create(6).await;
    cluster.ready().await;
    kubelet.evict(namespace, "j--t", "Evicted").unwrap();
    let status = cluster.phase("Failed").await;
    assert_eq!((status["reason"].as_str(), condition(&status, "DisruptionTarget").as_str()), (Some("Evicted"), "True"));
    cluster.delete().await;

    cluster.create(7).await;
    cluster.ready().await;
    kubelet.fail_empty(namespace, "j--t").unwrap();
    let status = cluster.phase("Failed").await;
    assert!(status["containerStatuses"].is_null(), "{status}");
    cluster.delete().await;

    cluster.create(8).await;
    cluster.ready().await;
    kubelet.node_shutdown(&node(namespace), Duration::from_secs(30)).await.unwrap();
    let status = cluster.phase("Failed").await;
    assert_eq!((status["reason"].as_str(), terminated(&status)["exitCode"].as_i64()), (Some("Terminated"), Some(0)));
    assert_eq!(one_run(&kubelet.overlaps("u"), [&cluster.store()]), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_wait_for_nodes_images_and_config_maps() {
    let cluster = cluster().await;
    cluster.kubelet.make_unschedulable(&cluster.namespace, "j--t");
    let mut pod = engine_pod(1, "weir:test");
    let missing = json!({"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "kafka", "key": "password"}}});
    pod.spec.as_mut().unwrap().containers[0].env.as_mut().unwrap().push(serde_json::from_value(missing).unwrap());
    cluster.pods().create(&PostParams::default(), &pod).await.unwrap();
    cluster.status("unschedulable", |status| condition(status, "PodScheduled") == "False").await;
    cluster.kubelet.fail_image_pull("weir:test");
    cluster.kubelet.make_schedulable(&cluster.namespace, "j--t");
    cluster.status("pulling", |status| status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let map = maps.get("j-g1").await.unwrap();
    maps.delete("j-g1", &DeleteParams::default()).await.unwrap();
    cluster.kubelet.allow_image_pull("weir:test");
    cluster.status("creating", |status| status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating").await;
    assert!(cluster.kubelet.records().is_empty());
    let again = ConfigMap {
        data: map.data,
        metadata: kube::core::ObjectMeta { name: Some("j-g1".into()), ..Default::default() },
        ..Default::default()
    };
    maps.create(&PostParams::default(), &again).await.unwrap();
    cluster
        .status("without its Secret", |status| status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CreateContainerConfigError")
        .await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let secret = json!({"metadata": {"name": "kafka"}, "stringData": {"password": "x"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    cluster.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_says_nothing_while_its_process_goes_on() {
    let cluster = cluster().await;
    let (namespace, kubelet) = (cluster.namespace.as_str(), &cluster.kubelet);
    let old = cluster.create(1).await;
    cluster.ready().await;
    kubelet.lose_node(&node(namespace)).await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let lost = serde_json::to_value(nodes.get(&node(namespace)).await.unwrap()).unwrap();
    assert_eq!(
        (condition(&lost["status"], "Ready").as_str(), &lost["spec"]["taints"][0]["key"]),
        ("Unknown", &json!("node.kubernetes.io/unreachable"))
    );
    cluster.status("not ready", |status| condition(status, "Ready") == "False").await;
    let before = cluster.store().commits().unwrap().len();
    eventually("commits of the lost process", GENEROUS, || (cluster.store().commits().ok()?.len() > before + 2).then_some(())).unwrap();
    cluster.pods().delete("j--t", &DeleteParams::default()).await.unwrap();
    assert!(cluster.pods().get("j--t").await.unwrap().metadata.deletion_timestamp.is_some());

    // What the operator does under ReplaceWhenFenced: the old object goes by force, and the successor fences the process.
    let preconditions = Some(Preconditions { uid: old.uid(), resource_version: None });
    let force = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
    cluster.pods().delete("j--t", &force).await.unwrap();
    let other = format!("other-{}", node(namespace));
    kubelet.add_node(&other).await.unwrap();
    cluster.create(2).await;
    let record = kubelet.wait_for("the fenced process to end", |records| records.iter().find(|r| r.exit.is_some()).cloned()).await.unwrap();
    assert_eq!((record.epoch, record.exit.unwrap().code), (Some(1), 22));
    assert_eq!(kubelet.overlaps("u").len(), 1);
    assert_eq!(cluster.store().verify(), Vec::<String>::new());
    kubelet.recover_node(&node(namespace)).await.unwrap();
    cluster.ready().await;

    kubelet.remove_node(&other).await.unwrap();
    assert!(nodes.get_opt(&other).await.unwrap().is_none());
    kubelet.collect_garbage().await.unwrap();
    assert!(cluster.pods().get_opt("j--t").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_sigterm_keeps_the_pod_terminating() {
    let cluster = cluster().await;
    cluster.kubelet.delay_sigterm(&cluster.namespace, "j--t", Duration::from_secs(1));
    let pod = cluster.create(1).await;
    cluster.ready().await;
    let asked = std::time::SystemTime::now();
    cluster.pods().delete("j--t", &DeleteParams::default()).await.unwrap();
    let early = cluster.pods().create(&PostParams::default(), &engine_pod(2, "weir:test")).await.unwrap_err();
    assert!(early.to_string().contains("exists"), "{early}");
    cluster.gone(&pod).await;
    let ended = cluster.kubelet.records()[0].ended_at.unwrap();
    assert!(ended.duration_since(asked).unwrap() >= Duration::from_secs(1));
}

/// One test with everything: the shape that the operator's tests have.
#[tokio::test(flavor = "multi_thread")]
async fn all_parts_work_together() {
    let cluster = cluster().await;
    let namespace = cluster.namespace.as_str();
    let plane = ControlPlane::shared().await;
    let recorder = Recorder::start(cluster.client.clone(), namespace).await.unwrap();
    let faults = Faults::new();
    let disturbed = faults.client(plane.config(User::Admin).await.unwrap()).unwrap();
    let pods: Api<Pod> = Api::namespaced(disturbed.clone(), namespace);

    // A quota refuses the first create, the second is lost after its commit.
    faults.add(Matcher::any().verb(Verb::Create).resource("pods"), Times::Once, Effect::Answer(Refusal::quota_exceeded()));
    faults.add(Matcher::any().verb(Verb::Create).resource("pods"), Times::Once, Effect::LoseResponse(Caller::SeesReset));
    let pod = engine_pod(1, "weir:test");
    assert!(pods.create(&PostParams::default(), &pod).await.unwrap_err().to_string().contains("quota"));
    assert!(pods.create(&PostParams::default(), &pod).await.is_err());
    cluster.ready().await;
    assert_eq!(faults.calls().iter().map(|call| call.verb).collect::<Vec<_>>(), [Verb::Create, Verb::Create]);

    // A job whose status is written well, then badly: the recorder tells.
    let jobs: Api<DynamicObject> = Api::namespaced_with(disturbed, namespace, &job_resource());
    let job = json!({
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamingJob",
        "metadata": {"name": "j"},
        "spec": {"trigger": {"manual": {}}, "tasks": [{"name": "t", "queries": [{
            "name": "q",
            "sources": [{"name": "s", "format": "rate"}],
            "sql": "SELECT * FROM s",
            "sink": {"format": "console"},
            "checkpointLocation": "s3://lake/c",
        }]}]},
    });
    jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    recorder.wait_for("the job", |versions| (!versions.is_empty()).then_some(())).await.unwrap();
    assert_eq!(recorder.check(), Ok(()));
    let bad = json!({"status": {"observedGeneration": 1}});
    jobs.patch_status("j", &PatchParams::default(), &Patch::Merge(bad)).await.unwrap();
    recorder
        .wait_for("the bad status", |versions| versions.iter().any(|v| v["status"]["observedGeneration"] == 1).then_some(()))
        .await
        .unwrap();
    let wrong = recorder.check().unwrap_err();
    assert!(wrong.iter().any(|what| what.starts_with("I6")) && wrong.iter().any(|what| what.starts_with("I10")), "{wrong:?}");

    // The operator is killed right after it deletes; the kubelet goes on.
    faults.stop_at(faults.calls().len(), Side::After);
    let operator = tokio::spawn(async move { drop(pods.delete("j--t", &DeleteParams::default()).await) });
    faults.reached().await;
    operator.abort();
    cluster
        .kubelet
        .wait_for("the process to end", |records| records.iter().all(|record| !record.is_running()).then_some(()))
        .await
        .unwrap();
    assert_eq!(one_run(&cluster.kubelet.overlaps("u"), [&cluster.store()]), Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_reach_the_process_and_nothing_outlives_the_kubelet() {
    let cluster = cluster().await;
    cluster.create(1).await;
    cluster.ready().await;
    cluster.kubelet.kill(&cluster.namespace, "j--t", Signal::KILL).unwrap();
    let status = cluster.phase("Failed").await;
    assert_eq!(terminated(&status)["exitCode"], 137);
    cluster.delete().await;
    cluster.create(2).await;
    let record =
        cluster.kubelet.wait_for("a process", |records| records.iter().find(|r| r.is_running() && r.pid != 0).cloned()).await.unwrap();
    let path = PathBuf::from(format!("/proc/{}", record.pid));
    assert!(path.exists());
    cluster.kubelet.stop().await;
    eventually("the process to be gone", GENEROUS, || (!path.exists()).then_some(())).unwrap();
}
