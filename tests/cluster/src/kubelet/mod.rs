//! A scheduler and kubelets played by a table of real processes.
//!
//! Invariants: whatever the API says, [`Kubelet::records`] and
//! [`Kubelet::overlaps`] speak of processes; every pod UID is started at most
//! once; a process dies with the kubelet, and that with the test. There are no
//! mount, network or user namespaces: a pod is a loopback address and a folder,
//! and paths of mounts are rewritten. Init containers, restarts inside a pod,
//! liveness and start-up probes are not played.

mod environment;
mod node;
mod probe;
mod process;
mod program;
mod report;
mod table;
mod volumes;
mod worker;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::stream::{SelectAll, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use weir_testkit::process::Output;
use weir_testkit::scratch;
use weir_testkit::wait::GENEROUS;

pub use process::MESSAGE_BYTES;
pub use program::Program;
pub use rustix::process::Signal;
pub use table::{Overlap, ProcessExit, ProcessRecord, overlaps};

use report::Verdict;
use table::Table;
use worker::{Order, Seen, Worker};

/// The label selector of Weir's own pods.
pub const WEIR_PODS: &str = "app.kubernetes.io/managed-by=weir";
/// The node that there is from the start.
pub const FIRST_NODE: &str = "node-1";

const HEARTBEAT: Duration = Duration::from_secs(10);

/// What a kubelet plays, and with which programs.
#[derive(Clone, Debug)]
pub struct Options {
    programs: Vec<Program>,
    namespaces: Vec<String>,
    selector: String,
    nodes: Vec<String>,
    probe_interval: Option<Duration>,
}

impl Options {
    /// Weir's pods in all namespaces on one node; probes every 50 ms, whatever their period.
    pub fn new(programs: impl IntoIterator<Item = Program>) -> Self {
        Self {
            programs: programs.into_iter().collect(),
            namespaces: Vec::new(),
            selector: WEIR_PODS.to_owned(),
            nodes: vec![FIRST_NODE.to_owned()],
            probe_interval: Some(Duration::from_millis(50)),
        }
    }

    /// Only this namespace; repeat for more.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespaces.push(namespace.to_owned());
        self
    }

    /// All pods, not only Weir's.
    pub fn all_pods(mut self) -> Self {
        self.selector.clear();
        self
    }

    /// These nodes; the first that is well gets the pods.
    pub fn nodes(mut self, names: &[&str]) -> Self {
        self.nodes = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Probes with the delay and period that the pods ask for.
    pub fn real_probe_periods(mut self) -> Self {
        self.probe_interval = None;
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeState {
    Connected,
    /// Processes go on; nothing is seen and nothing is said.
    Lost,
    ShuttingDown,
    /// The machine is gone with its processes.
    Removed,
}

type PodKey = (String, String);

struct Shared {
    client: Client,
    programs: Vec<Program>,
    /// Those whose pods it plays; none stands for all.
    namespaces: Vec<String>,
    probe_interval: Option<Duration>,
    http: reqwest::Client,
    table: Arc<Table>,
    claims: TempDir,
    nodes: Mutex<BTreeMap<String, NodeState>>,
    marks: Mutex<Marks>,
    pods: Mutex<HashMap<String, Entry>>,
    /// Counts changes of nodes and marks, so that workers look again.
    changed: watch::Sender<u64>,
    /// Counts restarts of the kubelets.
    restarts: watch::Sender<u64>,
}

#[derive(Default)]
struct Marks {
    unschedulable: HashSet<PodKey>,
    images: HashSet<String>,
    delays: HashMap<PodKey, Duration>,
    outputs: HashMap<PodKey, Vec<Output>>,
}

struct Entry {
    key: PodKey,
    number: usize,
    seen: watch::Sender<Seen>,
    orders: mpsc::UnboundedSender<Order>,
}

impl Shared {
    fn scopes(&self) -> Vec<Api<Pod>> {
        match self.namespaces.as_slice() {
            [] => vec![Api::all(self.client.clone())],
            some => some.iter().map(|namespace| Api::namespaced(self.client.clone(), namespace)).collect(),
        }
    }

    fn node_state(&self, node: &str) -> Option<NodeState> {
        self.nodes.lock().get(node).copied()
    }

    fn set_node(&self, node: &str, state: NodeState) {
        self.nodes.lock().insert(node.to_owned(), state);
        self.changed.send_modify(|count| *count += 1);
    }

    fn schedulable_node(&self) -> Option<String> {
        self.nodes.lock().iter().find(|(_, state)| **state == NodeState::Connected).map(|(name, _)| name.clone())
    }

    fn mark(&self, change: impl FnOnce(&mut Marks)) {
        change(&mut self.marks.lock());
        self.changed.send_modify(|count| *count += 1);
    }

    fn is_unschedulable(&self, key: &PodKey) -> bool {
        self.marks.lock().unschedulable.contains(key)
    }

    fn image_fails(&self, image: &str) -> bool {
        self.marks.lock().images.contains(image)
    }

    fn sigterm_delay(&self, key: &PodKey) -> Duration {
        self.marks.lock().delays.get(key).copied().unwrap_or_default()
    }

    fn keep_output(&self, key: &PodKey, output: Output) {
        self.marks.lock().outputs.entry(key.clone()).or_default().push(output);
    }

    /// A loopback address that no other pod of this process has had, and hardly one of another process.
    fn next_address(&self) -> Ipv4Addr {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static START: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        let start = *START.get_or_init(|| uuid::Uuid::new_v4().as_u128() as u32);
        // 127.1.0.0 to 127.254.255.255, without the ends of a block of 256.
        let number = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % (254 * 256 * 254);
        let (second, third, fourth) = (1 + number / (256 * 254), number / 254 % 256, 1 + number % 254);
        Ipv4Addr::new(127, second as u8, third as u8, fourth as u8)
    }
}

/// The handle; dropping it kills all processes.
pub struct Kubelet {
    shared: Arc<Shared>,
    main: JoinHandle<()>,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.main.abort();
    }
}

impl Kubelet {
    /// Creates the nodes and plays from now on.
    pub async fn start(client: Client, options: Options) -> Result<Self> {
        let shared = Arc::new(Shared {
            client: client.clone(),
            programs: options.programs,
            namespaces: options.namespaces,
            probe_interval: options.probe_interval,
            http: reqwest::Client::builder().pool_max_idle_per_host(0).build()?,
            table: Arc::new(Table::new()),
            claims: scratch::folder("claims")?,
            nodes: Mutex::default(),
            marks: Mutex::default(),
            pods: Mutex::default(),
            changed: watch::Sender::new(0),
            restarts: watch::Sender::new(0),
        });
        for name in &options.nodes {
            node::create(&client, name).await?;
            shared.set_node(name, NodeState::Connected);
        }
        let main = tokio::spawn(play(Arc::clone(&shared), options.selector));
        Ok(Self { shared, main })
    }

    /// What a person does after etcd was restored: the kubelets begin anew. They list their pods, end the processes of those that are
    /// not there, and mark pods failed whose containers are gone.
    pub fn restart_kubelets(&self) {
        self.shared.restarts.send_modify(|count| *count += 1);
    }

    /// Ends all processes and waits until they are gone.
    pub async fn stop(mut self) {
        self.main.abort();
        // An aborted task ends with an error by design.
        let _ = (&mut self.main).await;
    }

    /// All processes so far, in the order of their start.
    pub fn records(&self) -> Vec<ProcessRecord> {
        self.shared.table.all()
    }

    /// The processes of a job that run now.
    pub fn running(&self, namespace: &str, job: &str) -> Vec<ProcessRecord> {
        let mut records = self.records();
        records.retain(|record| record.is_running() && record.namespace == namespace && record.job == job);
        records
    }

    /// Pairs of processes of one task of this job that lived at the same time.
    pub fn overlaps(&self, job_uid: &str) -> Vec<Overlap> {
        overlaps(&self.records(), job_uid)
    }

    /// Waits until the table answers; an error that names `what` after a generous deadline.
    pub async fn wait_for<T>(&self, what: &str, mut ask: impl FnMut(&[ProcessRecord]) -> Option<T>) -> Result<T> {
        let mut records = self.shared.table.subscribe();
        let answered = async {
            loop {
                if let Some(answer) = ask(&records.borrow_and_update()) {
                    return Ok(answer);
                }
                records.changed().await.context("the table lives as long as the kubelet")?;
            }
        };
        match tokio::time::timeout(GENEROUS, answered).await {
            Ok(answer) => answer,
            Err(_) => bail!("waited {GENEROUS:?} in vain for {what}; the processes: {:#?}", self.records()),
        }
    }

    /// Waits for a running process of the task with an epoch above `epoch`.
    pub async fn wait_for_epoch_above(&self, namespace: &str, job: &str, task: &str, epoch: u64) -> Result<ProcessRecord> {
        self.wait_for(&format!("a process of {job}--{task} above epoch {epoch}"), |records| {
            let own = records.iter().filter(|record| record.namespace == namespace && record.job == job && record.task == task);
            own.filter(|record| record.is_running() && record.pid != 0).find(|record| record.epoch > Some(epoch)).cloned()
        })
        .await
    }

    /// What all processes of pods of this name have printed.
    pub fn log(&self, namespace: &str, pod: &str) -> Vec<String> {
        let key = (namespace.to_owned(), pod.to_owned());
        self.shared.marks.lock().outputs.get(&key).into_iter().flatten().flat_map(Output::lines).collect()
    }

    /// Adds a node.
    pub async fn add_node(&self, name: &str) -> Result<()> {
        node::create(&self.shared.client, name).await?;
        self.shared.set_node(name, NodeState::Connected);
        Ok(())
    }

    /// Cuts a node off: its processes go on, its pods' status freezes, and the node controller's part is done:
    /// Ready=Unknown, the unreachable taint, its pods not ready.
    pub async fn lose_node(&self, name: &str) -> Result<()> {
        self.shared.set_node(name, NodeState::Lost);
        node::report(&self.shared.client, name, node::Readiness::Unknown).await?;
        node::unready_pods(&self.shared.client, name).await
    }

    /// The node is back and looks at what has happened meanwhile.
    pub async fn recover_node(&self, name: &str) -> Result<()> {
        node::report(&self.shared.client, name, node::Readiness::Ready).await?;
        self.shared.set_node(name, NodeState::Connected);
        Ok(())
    }

    /// The machine is gone with its processes, and so is the Node object; its pods stay until [`Kubelet::collect_garbage`].
    pub async fn remove_node(&self, name: &str) -> Result<()> {
        self.shared.set_node(name, NodeState::Removed);
        self.wait_for(&format!("the processes of {name} to end"), |records| {
            records.iter().all(|record| record.node != name || !record.is_running()).then_some(())
        })
        .await?;
        node::remove(&self.shared.client, name).await
    }

    /// What the pod garbage collector does in this kubelet's namespaces: pods of nodes that are no more are marked failed and removed.
    pub async fn collect_garbage(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.shared.client.clone());
        let names: HashSet<String> = nodes.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        let mut all = Vec::new();
        for scope in self.shared.scopes() {
            all.extend(scope.list(&ListParams::default()).await?);
        }
        for pod in all {
            let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { continue };
            if names.contains(&node) {
                continue;
            }
            let pods: Api<Pod> = Api::namespaced(self.shared.client.clone(), &pod.namespace().unwrap_or_default());
            let target = json!({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByPodGC",
                "message": "PodGC: node no longer exists",
                "lastTransitionTime": report::seconds(Timestamp::now()),
            });
            let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"phase": "Failed", "conditions": [target]}});
            let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
            let now = DeleteParams { grace_period_seconds: Some(0), preconditions, ..DeleteParams::default() };
            let marked = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await.map(drop);
            let removed = match marked {
                Ok(()) => pods.delete(&pod.name_any(), &now).await.map(drop),
                Err(error) => Err(error),
            };
            match removed {
                // Whoever looks after the pod was faster.
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// SIGTERM reaches the processes of pods of this name only so much later; the grace period begins then. Zero takes it back.
    pub fn delay_sigterm(&self, namespace: &str, pod: &str, delay: Duration) {
        self.shared.mark(|marks| {
            marks.delays.insert((namespace.to_owned(), pod.to_owned()), delay);
        });
    }

    /// The scheduler finds no node for pods of this name.
    pub fn make_unschedulable(&self, namespace: &str, pod: &str) {
        self.shared.mark(|marks| {
            marks.unschedulable.insert((namespace.to_owned(), pod.to_owned()));
        });
    }

    /// It finds one again.
    pub fn make_schedulable(&self, namespace: &str, pod: &str) {
        self.shared.mark(|marks| {
            marks.unschedulable.remove(&(namespace.to_owned(), pod.to_owned()));
        });
    }

    /// The image cannot be pulled by pods that are not started yet.
    pub fn fail_image_pull(&self, image: &str) {
        self.shared.mark(|marks| {
            marks.images.insert(image.to_owned());
        });
    }

    /// It can be pulled again.
    pub fn allow_image_pull(&self, image: &str) {
        self.shared.mark(|marks| {
            marks.images.remove(image);
        });
    }

    /// The kubelet evicts the pod: killed at once, phase Failed with this reason (`Evicted`, `Preempting`, ...) and DisruptionTarget.
    pub fn evict(&self, namespace: &str, pod: &str, reason: &str) -> Result<()> {
        let message = "The node was low on resource: memory.".to_owned();
        let condition_reason = "TerminationByKubelet".to_owned();
        self.order(namespace, pod, Order::Kill(Verdict::Disrupted { reason: reason.to_owned(), message, condition_reason }))
    }

    /// The pod fails and nothing is known of its containers.
    pub fn fail_empty(&self, namespace: &str, pod: &str) -> Result<()> {
        self.order(namespace, pod, Order::Kill(Verdict::Empty))
    }

    /// The kernel kills the pod's processes for their memory.
    pub fn oom(&self, namespace: &str, pod: &str) -> Result<()> {
        self.order(namespace, pod, Order::OutOfMemory)
    }

    /// Sends a signal to the pod's processes.
    pub fn kill(&self, namespace: &str, pod: &str, signal: Signal) -> Result<()> {
        self.order(namespace, pod, Order::Signal(signal))
    }

    /// The node shuts down: its pods are stopped with this grace and fail as disrupted; nothing is scheduled there any more.
    pub async fn node_shutdown(&self, name: &str, grace: Duration) -> Result<()> {
        self.shared.set_node(name, NodeState::ShuttingDown);
        node::report(&self.shared.client, name, node::Readiness::ShuttingDown).await?;
        let on_node: HashSet<String> =
            self.records().into_iter().filter(|record| record.node == name && record.is_running()).map(|record| record.pod_uid).collect();
        for (uid, entry) in self.shared.pods.lock().iter() {
            if on_node.contains(uid) {
                let verdict = Verdict::Disrupted {
                    reason: "Terminated".to_owned(),
                    message: "Pod was terminated in response to imminent node shutdown.".to_owned(),
                    condition_reason: "TerminationByKubelet".to_owned(),
                };
                // A worker that is done has nothing to stop.
                let _ = entry.orders.send(Order::Stop(verdict, grace));
            }
        }
        Ok(())
    }

    fn order(&self, namespace: &str, pod: &str, order: Order) -> Result<()> {
        let pods = self.shared.pods.lock();
        let own = pods.values().filter(|entry| entry.key.0 == namespace && entry.key.1 == pod && !entry.orders.is_closed());
        let newest = own.max_by_key(|entry| entry.number).with_context(|| format!("there is no pod {namespace}/{pod}"))?;
        newest.orders.send(order).ok().with_context(|| format!("pod {namespace}/{pod} has ended"))
    }
}

/// Follows the pods; one worker per pod UID.
async fn play(shared: Arc<Shared>, selector: String) {
    let scopes = shared.scopes();
    let follow = || {
        let config = if selector.is_empty() { watcher::Config::default() } else { watcher::Config::default().labels(&selector) };
        let follow = |(scope, api): (usize, &Api<Pod>)| {
            watcher(api.clone(), config.clone()).default_backoff().map(move |event| (scope, event)).boxed()
        };
        scopes.iter().enumerate().map(follow).collect::<SelectAll<_>>()
    };
    let mut restarts = shared.restarts.subscribe();
    let mut events = follow();
    let mut workers = JoinSet::new();
    let mut listed: HashMap<usize, HashSet<String>> = HashMap::new();
    let mut scope_of: HashMap<String, usize> = HashMap::new();
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    loop {
        let (scope, event) = tokio::select! {
            next = events.next() => match next {
                Some(next) => next,
                None => return,
            },
            // The sender lives in `shared`.
            _ = restarts.changed() => {
                events = follow();
                continue;
            }
            Some(ended) = workers.join_next() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "a pod's worker panicked");
                }
                continue;
            }
            _ = heartbeat.tick() => {
                workers.spawn(beat(Arc::clone(&shared)));
                continue;
            }
        };
        match event {
            Ok(Event::Init) => drop(listed.insert(scope, HashSet::new())),
            Ok(Event::InitApply(pod)) => {
                let uid = pod.uid().unwrap_or_default();
                listed.entry(scope).or_default().insert(uid.clone());
                let is_done = shared.pods.lock().get(&uid).is_some_and(|entry| entry.orders.is_closed());
                scope_of.insert(uid, scope);
                if is_done {
                    workers.spawn(lose_containers(Arc::clone(&shared), pod));
                } else {
                    apply(&shared, &mut workers, pod);
                }
            }
            Ok(Event::Apply(pod)) => {
                scope_of.insert(pod.uid().unwrap_or_default(), scope);
                apply(&shared, &mut workers, pod);
            }
            Ok(Event::Delete(pod)) => gone(&shared, &pod.uid().unwrap_or_default()),
            Ok(Event::InitDone) => {
                let present = listed.remove(&scope).unwrap_or_default();
                let missing = scope_of.iter().filter(|(uid, at)| **at == scope && !present.contains(*uid));
                missing.for_each(|(uid, _)| gone(&shared, uid));
            }
            Err(error) => tracing::debug!(%error, "the watch of pods is interrupted"),
        }
    }
}

fn apply(shared: &Arc<Shared>, workers: &mut JoinSet<()>, pod: Pod) {
    let uid = pod.uid().unwrap_or_default();
    let key = (pod.namespace().unwrap_or_default(), pod.name_any());
    let seen = Seen { pod: Arc::new(pod), gone: false };
    let mut pods = shared.pods.lock();
    let number = pods.len();
    if let Some(entry) = pods.get(&uid) {
        entry.seen.send_replace(seen);
        return;
    }
    let (seen, pod) = watch::channel(seen);
    let (orders, received) = mpsc::unbounded_channel();
    pods.insert(uid, Entry { key, number, seen, orders });
    drop(pods);
    workers.spawn(Worker::new(Arc::clone(shared), pod, received).run());
}

/// A pod that is there again although its containers ended long ago: what a kubelet says that cannot find them.
async fn lose_containers(shared: Arc<Shared>, pod: Pod) {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return;
    }
    let pods: Api<Pod> = Api::namespaced(shared.client.clone(), &pod.namespace().unwrap_or_default());
    let lost = report::lost(&pod);
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": lost});
    if let Err(error) = pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        tracing::debug!(%error, pod = pod.name_any(), "the loss of its containers could not be reported");
    }
}

fn gone(shared: &Shared, uid: &str) {
    if let Some(entry) = shared.pods.lock().get(uid) {
        entry.seen.send_modify(|seen| seen.gone = true);
    }
}

async fn beat(shared: Arc<Shared>) {
    let connected: Vec<String> =
        shared.nodes.lock().iter().filter(|(_, state)| **state == NodeState::Connected).map(|(name, _)| name.clone()).collect();
    for name in connected {
        let beat = node::heartbeat(&shared.client, &name);
        match tokio::time::timeout(HEARTBEAT, beat).await {
            Ok(Err(error)) => tracing::debug!(%error, name, "no heartbeat"),
            Err(_) => tracing::debug!(name, "no heartbeat in time"),
            Ok(Ok(())) => {}
        }
    }
}
