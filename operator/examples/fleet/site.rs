//! A control plane with an installation and a fleet of jobs, most of which wait for a trigger.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use weir_testcluster::invariants::job_resource;
use weir_testcluster::kubelet::{Kubelet, Options, Program, WEIR_PODS};
use weir_testcluster::operator_process::{OperatorProcess, printed};
use weir_testcluster::standin::{self, Control, STORE_VARIABLE, Store};
use weir_testcluster::{ControlPlane, Options as PlaneOptions, User};
use weir_testkit::scratch;

/// The account of the installation in the audit log.
pub const ACCOUNT: &str = "system:serviceaccount:weir-system:weir-operator";
/// The image that the kubelet knows.
const IMAGE: &str = "weir:fleet";
/// Jobs are spread over this many namespaces.
const NAMESPACES: usize = 20;
/// Creations under way at one time.
const SIDE_BY_SIDE: usize = 16;

/// The cluster.
pub struct Site {
    pub plane: ControlPlane,
    pub kubelet: Kubelet,
    client: kube::Client,
    account: PathBuf,
    stores: TempDir,
}

/// A pod, as a watch shows it, and when.
pub struct Sight {
    pub at: Instant,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub phase: String,
    pub ready: bool,
}

impl Site {
    /// An empty cluster in which `weir-operator manifests` was applied.
    pub async fn new(operator: &Path) -> Result<Site> {
        let plane = ControlPlane::start(PlaneOptions::default()).await?;
        let manifests = printed(operator, &["manifests", "--image", IMAGE]).await?;
        plane.kubectl(["apply", "--server-side", "-f", "-"]).input(manifests).stdout().await?;
        plane.kubectl(["wait", "--for=condition=Established", "crd/streamingjobs.weir.dev"]).stdout().await?;
        let account = plane.service_account_kubeconfig("weir-system", "weir-operator").await?;
        for number in 0..NAMESPACES {
            plane.namespace(&namespace(number)).await?;
        }
        let client = plane.client(User::Admin).await?;
        let stores = scratch::folder("stores")?;
        let engine = Program::image(IMAGE, standin::binary()).env(STORE_VARIABLE, stores.path().display().to_string());
        // Probes at the pace of a real kubelet, or the probes of fifty pods would be most of the load.
        let kubelet = Kubelet::start(client.clone(), Options::new([engine]).real_probe_periods()).await?;
        Ok(Site { plane, kubelet, client, account, stores })
    }

    /// Starts the operator with the rights and arguments of the installation.
    pub async fn operator(&self, binary: &Path) -> Result<OperatorProcess> {
        let checker = standin::binary().display().to_string();
        OperatorProcess::start(binary, &self.account, &["--image", IMAGE, "--checker", &checker, "--instance", "weir-operator-0"]).await
    }

    /// Creates jobs that wait for somebody to start them.
    pub async fn create_idle(&self, count: usize) -> Result<()> {
        self.create((0..count).map(|number| job(&format!("idle-{number}"), &namespace(number), json!({"manual": {}})))).await
    }

    /// Creates jobs that stream, one batch a second; their names.
    pub async fn create_streaming(&self, count: usize) -> Result<Vec<(String, String)>> {
        let names: Vec<(String, String)> = (0..count).map(|number| (namespace(number), format!("stream-{number}"))).collect();
        for (namespace, name) in &names {
            let slow = Control { batch_interval_ms: 1000, ..Control::default() };
            Store::of_task(self.stores.path(), namespace, name, "main").control(&slow)?;
        }
        self.create(names.iter().map(|(namespace, name)| job(name, namespace, json!({"continuous": {}})))).await?;
        Ok(names)
    }

    async fn create(&self, jobs: impl Iterator<Item = Value>) -> Result<()> {
        let created = futures::stream::iter(jobs).map(|job| async move {
            let object: DynamicObject = serde_json::from_value(job)?;
            let namespace = object.metadata.namespace.clone().context("a job has a namespace")?;
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &job_resource());
            api.create(&PostParams::default(), &object).await?;
            Ok(())
        });
        created.buffer_unordered(SIDE_BY_SIDE).try_collect().await
    }

    /// All of Weir's pods from now on, as a watch shows them.
    pub fn sights(&self) -> mpsc::UnboundedReceiver<Sight> {
        let (seen, sights) = mpsc::unbounded_channel();
        let events = watcher(Api::<Pod>::all(self.client.clone()), watcher::Config::default().labels(WEIR_PODS));
        tokio::spawn(async move {
            let mut pods = std::pin::pin!(events.default_backoff().applied_objects());
            while let Some(Ok(pod)) = pods.next().await {
                // Nobody listens at the end.
                if seen.send(sight(pod)).is_err() {
                    return;
                }
            }
        });
        sights
    }
}

fn sight(pod: Pod) -> Sight {
    let status = pod.status.unwrap_or_default();
    let ready = status.conditions.iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    Sight {
        at: Instant::now(),
        namespace: pod.metadata.namespace.unwrap_or_default(),
        name: pod.metadata.name.unwrap_or_default(),
        uid: pod.metadata.uid.unwrap_or_default(),
        phase: status.phase.unwrap_or_default(),
        ready,
    }
}

fn namespace(number: usize) -> String {
    format!("fleet-{}", number % NAMESPACES)
}

/// A job whose failures are retried at once and without end.
fn job(name: &str, namespace: &str, trigger: Value) -> Value {
    json!({
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "trigger": trigger,
            "restart": {"initialDelay": "0s", "minInterval": "0s", "jitterPercent": 0},
            "taskRetry": {"maxRetries": 1000, "initialDelay": "0s"},
            "checkpointRoot": "s3://lake/checkpoints",
            "tasks": [{"name": "main", "queries": [{
                "name": "readings",
                "sources": [{"name": "raw", "format": "kafka",
                    "options": {"kafka.bootstrap.servers": "kafka.example:9092", "subscribe": name, "startingOffsets": "latest"}}],
                "sql": "SELECT from_json(CAST(value AS STRING), 'device STRING, temperature DOUBLE, at STRING') AS reading FROM raw",
                "sink": {"format": "delta", "options": {"path": format!("s3://lake/{namespace}/{name}")}},
                "trigger": {"processingTime": "10s"},
            }]}],
        },
    })
}

/// How long something took.
pub async fn timed<T>(what: impl Future<Output = Result<T>>) -> Result<(T, Duration)> {
    let began = Instant::now();
    let done = what.await?;
    Ok((done, began.elapsed()))
}
