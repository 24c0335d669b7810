//! A namespace with a kubelet, a recorder, and operators that are started and stopped at will.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_operator::authority::Authority;
use weir_operator::clock::Clock;
use weir_operator::http::Health;
use weir_operator::metrics::Metrics;
use weir_operator::operator::{self, Services};
use weir_operator::rbac::Scope;
use weir_operator::settings::Settings;
use weir_operator::token::OperatorKey;
use weir_testcluster::faults::{Faults, Side};
pub use weir_testcluster::invariants::condition;
use weir_testcluster::invariants::{Invariant, Recorder, job_resource, one_run};
use weir_testcluster::kubelet::{FIRST_NODE, Kubelet, Options, Program};
use weir_testcluster::standin::{self, Control, STORE_VARIABLE, Store};
use weir_testcluster::{ControlPlane, User};
use weir_testkit::scratch;

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// How often a test looks though nothing was told.
const LOOK: Duration = Duration::from_millis(250);
/// The image that the kubelet knows.
pub const IMAGE: &str = "weir:test";
/// Another one that it knows.
pub const NEXT_IMAGE: &str = "weir:next";

/// The system's clock, moved by a test.
#[derive(Clone)]
pub struct TestClock {
    ahead: Arc<Mutex<TimeDelta>>,
    jumps: watch::Sender<u64>,
}

impl TestClock {
    fn new() -> TestClock {
        TestClock { ahead: Arc::new(Mutex::new(TimeDelta::zero())), jumps: watch::channel(0).0 }
    }

    /// Moves the clock; every job is looked at.
    pub fn advance(&self, by: Duration) {
        *self.ahead.lock() += TimeDelta::from_std(by).unwrap();
        self.jumps.send_modify(|count| *count += 1);
    }

    /// Sets the clock back.
    pub fn set_back(&self, by: Duration) {
        *self.ahead.lock() -= TimeDelta::from_std(by).unwrap();
        self.jumps.send_modify(|count| *count += 1);
    }
}

impl Clock for TestClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now() + *self.ahead.lock()
    }
}

/// A namespace and what is in it.
pub struct World {
    pub plane: &'static ControlPlane,
    pub client: Client,
    pub namespace: String,
    pub kubelet: Kubelet,
    pub recorder: Recorder,
    pub clock: TestClock,
    stores: TempDir,
}

/// A running operator.
pub struct Running {
    pub faults: Faults,
    pub metrics: Metrics,
    pub health: Arc<Health>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    /// Ends it as SIGKILL would: at once, wherever it is.
    pub async fn kill(self) {
        self.faults.sever();
        self.task.abort();
        let _ = self.task.await;
    }

    /// Ends it as SIGTERM would.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

/// A control plane of a test's own, which it may harm and has to end.
pub async fn own_plane() -> &'static ControlPlane {
    let plane = ControlPlane::start(weir_testcluster::Options::default()).await.unwrap();
    plane.install_crd().await.unwrap();
    Box::leak(Box::new(plane))
}

impl World {
    /// A new namespace, with nodes of its own.
    pub async fn new(prefix: &str) -> World {
        let plane = ControlPlane::shared().await;
        World::on(plane, prefix).await
    }

    /// The same on a control plane of its own.
    pub async fn alone(prefix: &str) -> World {
        World::on(own_plane().await, prefix).await
    }

    /// The same on a given control plane.
    pub async fn on(plane: &'static ControlPlane, prefix: &str) -> World {
        let client = plane.client(User::Admin).await.unwrap();
        let namespace = plane.new_namespace(prefix).await.unwrap();
        let stores = scratch::folder("stores").unwrap();
        let engine = |image| Program::image(image, standin::binary()).env(STORE_VARIABLE, stores.path().display().to_string());
        let nodes = [format!("{FIRST_NODE}-{namespace}"), format!("node-2-{namespace}")];
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let kubelet = Kubelet::start(client.clone(), Options::new([engine(IMAGE), engine(NEXT_IMAGE)]).namespace(&namespace).nodes(&nodes))
            .await
            .unwrap();
        let recorder = Recorder::start(client.clone(), &namespace).await.unwrap();
        World { plane, client, namespace, kubelet, recorder, clock: TestClock::new(), stores }
    }

    /// Settings of a test: this namespace, quick polls.
    pub fn settings(&self) -> Settings {
        Settings {
            checker: standin::binary(),
            poll_interval: Duration::from_millis(300),
            progress_interval: Duration::from_secs(2),
            reference_interval: Duration::from_millis(500),
            ..Settings::new("weir-system/weir-operator", Scope::Namespaces([self.namespace.clone()].into()), IMAGE)
        }
    }

    /// Starts an operator with these settings.
    pub async fn operator_with(&self, settings: Settings) -> Running {
        let faults = Faults::new();
        let config = self.plane.config(User::Admin).await.unwrap();
        let client = faults.client(config).unwrap();
        self.operator_over(client, faults, settings, Authority::Alone)
    }

    /// Starts an operator.
    pub async fn operator(&self) -> Running {
        self.operator_with(self.settings()).await
    }

    /// Starts an operator that is cut off at a call.
    pub async fn operator_cut_off_at(&self, index: usize, side: Side) -> Running {
        let faults = Faults::new();
        faults.stop_at(index, side);
        let client = faults.client(self.plane.config(User::Admin).await.unwrap()).unwrap();
        self.operator_over(client, faults, self.settings(), Authority::Alone)
    }

    /// Starts an operator over a client of the test's.
    pub fn operator_over(&self, client: Client, faults: Faults, settings: Settings, authority: Authority) -> Running {
        let (metrics, health) = (Metrics::default(), Arc::new(Health::default()));
        let (stop, stopped) = watch::channel(false);
        let services = Services {
            client,
            settings,
            clock: Arc::new(self.clock.clone()),
            jumps: self.clock.jumps.subscribe(),
            key: OperatorKey::new([7; 32]),
            authority,
            instance: "test".to_owned(),
            metrics: metrics.clone(),
            health: Arc::clone(&health),
        };
        let task = tokio::spawn(async move { operator::run(services, stopped).await.unwrap() });
        Running { faults, metrics, health, stop, task }
    }

    /// The jobs of this namespace.
    pub fn jobs(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &job_resource())
    }

    /// Applies a job.
    pub async fn apply(&self, job: &Value) -> DynamicObject {
        let name = job["metadata"]["name"].as_str().unwrap();
        self.jobs().patch(name, &PatchParams::apply("test").force(), &Patch::Apply(job)).await.unwrap()
    }

    /// Changes a job by a merge patch.
    pub async fn edit(&self, name: &str, patch: Value) -> DynamicObject {
        self.jobs().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap()
    }

    /// Sets annotations of a job.
    pub async fn annotate(&self, name: &str, key: &str, value: &str) {
        self.edit(name, json!({"metadata": {"annotations": {key: value}}})).await;
    }

    /// Asks for a job's deletion.
    pub async fn delete(&self, name: &str) {
        self.jobs().delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Creates any object of this namespace.
    pub async fn create<K>(&self, object: &K) -> K
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace).create(&PostParams::default(), object).await.unwrap()
    }

    /// A job as it is.
    pub async fn job(&self, name: &str) -> DynamicObject {
        self.jobs().get(name).await.unwrap()
    }

    /// Waits until a job is as asked.
    pub async fn until(&self, name: &str, what: &str, ask: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut seen = self.recorder.changes();
        loop {
            seen.mark_unchanged();
            let job = self.jobs().get_opt(name).await.unwrap().map(|job| serde_json::to_value(job).unwrap()).unwrap_or_default();
            if ask(&job) {
                return job;
            }
            if tokio::time::Instant::now() > deadline {
                let pods = self.kubelet.records();
                let shown = serde_json::to_string_pretty(&without_memory(&job)).unwrap();
                panic!("{name} is not {what}: {shown}\n{pods:#?}");
            }
            // A watch that is begun anew may miss the last change.
            let _ = tokio::time::timeout(LOOK, seen.changed()).await;
        }
    }

    /// Waits until a condition of a job has a status and reason.
    pub async fn until_condition(&self, name: &str, kind: &str, status: &str, reason: &str) -> Value {
        let what = format!("{kind}={status}/{reason}");
        self.until(name, &what, |job| {
            let found = condition(job, kind);
            found["status"] == status && (reason.is_empty() || found["reason"] == reason) && is_observed(job)
        })
        .await
    }

    /// Waits until the newest generation of a job streams.
    pub async fn until_streaming(&self, name: &str) -> Value {
        self.until_condition(name, "Ready", "True", "Streaming").await
    }

    /// Waits until a job is gone.
    pub async fn until_gone(&self, name: &str) {
        self.until(name, "gone", |job| job.is_null()).await;
    }

    /// The stand-in's store of a task.
    pub fn store(&self, job: &str, task: &str) -> Store {
        Store::of_task(self.stores.path(), &self.namespace, job, task)
    }

    /// Scripts what a task of a job does.
    pub fn control(&self, job: &str, task: &str, control: &Control) {
        self.store(job, task).control(control).unwrap();
    }

    /// Checks everything that must hold in every test: the recorder's invariants, and one run in processes and commits.
    pub fn check(&self, tasks: &[(&str, &str)]) {
        self.check_except(&[], tasks);
    }

    /// The same without what the test broke on purpose.
    pub fn check_except(&self, broken_on_purpose: &[Invariant], tasks: &[(&str, &str)]) {
        self.recorder.check_except(broken_on_purpose).unwrap();
        self.check_runs(tasks);
    }

    /// One run of each job in processes and commits.
    pub fn check_runs(&self, tasks: &[(&str, &str)]) {
        let mut uids: Vec<String> = self.kubelet.records().into_iter().map(|record| record.job_uid).collect();
        uids.sort();
        uids.dedup();
        let stores: Vec<Store> = tasks.iter().map(|(job, task)| self.store(job, task)).collect();
        for uid in uids {
            one_run(&self.kubelet.overlaps(&uid), &stores).unwrap();
        }
    }
}

/// A job with quick delays and one query per task.
pub fn job(name: &str, tasks: &[&str]) -> Value {
    let task = |task: &&str| {
        json!({"name": task, "queries": [{
            "name": "q",
            "sources": [{"name": "s", "format": "rate"}],
            "sql": "SELECT * FROM s",
            "sink": {"format": "delta", "options": {"path": format!("s3://lake/{name}/{task}")}},
        }]})
    };
    json!({
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamingJob",
        "metadata": {"name": name},
        "spec": {
            "trigger": {"continuous": {}},
            "restart": {"initialDelay": "1s", "maxDelay": "8s", "jitterPercent": 0, "minInterval": "1s", "stableAfter": "1h"},
            "taskRetry": {"maxRetries": 1, "initialDelay": "1s", "maxDelay": "4s"},
            "stopTimeout": "5s",
            "checkpointRoot": "s3://lake/checkpoints",
            "tasks": tasks.iter().map(task).collect::<Vec<_>>(),
        },
    })
}

/// Whether the status speaks of the newest generation.
pub fn is_observed(job: &Value) -> bool {
    job["status"]["observedGeneration"] == job["metadata"]["generation"]
}

fn without_memory(job: &Value) -> Value {
    let mut job = job.clone();
    if let Some(status) = job["status"].as_object_mut() {
        status.remove("memory");
    }
    job
}
