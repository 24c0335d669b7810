//! One pod's life on its node: bound, started, probed, reported, ended, removed.
//!
//! Level-triggered: each step looks at the pod as last seen, at the node and at
//! the processes, and does what is due. A node that is lost neither sees nor
//! says anything while its processes go on. A pod that this kubelet did not
//! start itself is left alone. Writes carry the pod's UID.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use k8s_openapi::api::core::v1::{Binding, Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use weir_testkit::scratch;

use super::environment::{expand, field, rewrite};
use super::process::{Ended, Owned, Running, Start};
use super::report::{ContainerFacts, PodFacts, State, Transitions, Verdict, seconds, status};
use super::table::ProcessRecord;
use super::volumes::{Mounting, mounts};
use super::{NodeState, Shared, probe, program};

const RETRY: Duration = Duration::from_millis(100);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The pod as the watch saw it last.
#[derive(Clone)]
pub struct Seen {
    pub pod: Arc<Pod>,
    pub gone: bool,
}

/// What a test wants done to a pod's processes.
pub enum Order {
    Signal(Signal),
    OutOfMemory,
    /// Killed at once, with a verdict.
    Kill(Verdict),
    /// Stopped with this grace, with a verdict.
    Stop(Verdict, Duration),
}

/// Whether there is more to do for a pod.
#[derive(PartialEq)]
enum Flow {
    Waits,
    Retries,
    Done,
}

struct Stop {
    term_at: Instant,
    kill_at: Instant,
    termed: bool,
    killed: bool,
}

/// The worker of one pod.
pub struct Worker {
    shared: Arc<Shared>,
    pods: Api<Pod>,
    name: String,
    uid: String,
    pod: watch::Receiver<Seen>,
    orders: mpsc::UnboundedReceiver<Order>,
    wake: Arc<Notify>,
    node: Option<String>,
    ip: Ipv4Addr,
    begun: Timestamp,
    folder: Option<TempDir>,
    running: Vec<(Container, Running)>,
    waiting: Option<(&'static str, String)>,
    out_of_memory: bool,
    verdict: Option<Verdict>,
    stop: Option<Stop>,
    transitions: Transitions,
    reported: Option<Value>,
}

impl Worker {
    pub fn new(shared: Arc<Shared>, pod: watch::Receiver<Seen>, orders: mpsc::UnboundedReceiver<Order>) -> Self {
        let first = Arc::clone(&pod.borrow().pod);
        Self {
            pods: Api::namespaced(shared.client.clone(), &first.namespace().unwrap_or_default()),
            name: first.name_any(),
            uid: first.uid().unwrap_or_default(),
            ip: shared.next_address(),
            shared,
            pod,
            orders,
            wake: Arc::new(Notify::new()),
            node: None,
            begun: Timestamp::now(),
            folder: None,
            running: Vec::new(),
            waiting: None,
            out_of_memory: false,
            verdict: None,
            stop: None,
            transitions: Transitions::default(),
            reported: None,
        }
    }

    /// Lives until the pod needs nothing more.
    pub async fn run(mut self) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let flow = match tokio::time::timeout(REQUEST_TIMEOUT, self.step()).await {
                Ok(Ok(flow)) => flow,
                Ok(Err(error)) => {
                    tracing::debug!(pod = self.name, "{error:#}");
                    Flow::Retries
                }
                Err(_) => Flow::Retries,
            };
            let pause = match (&self.stop, flow) {
                (_, Flow::Done) => return,
                (None, Flow::Waits) => Duration::from_secs(3600),
                _ => RETRY,
            };
            tokio::select! {
                seen = self.pod.changed() => if seen.is_err() { return },
                order = self.orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => return,
                },
                () = self.wake.notified() => {}
                _ = changed.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Signal(signal) => self.signal(signal),
            Order::OutOfMemory => {
                self.out_of_memory = true;
                self.signal(Signal::KILL);
            }
            Order::Kill(verdict) => {
                self.verdict = Some(verdict);
                self.signal(Signal::KILL);
            }
            Order::Stop(verdict, grace) => {
                self.verdict = Some(verdict);
                self.begin_stop(grace);
            }
        }
    }

    fn signal(&self, signal: Signal) {
        self.running.iter().for_each(|(_, running)| running.signal(signal));
    }

    fn all_ended(&self) -> bool {
        self.running.iter().all(|(_, running)| running.ended().is_some())
    }

    async fn step(&mut self) -> Result<Flow> {
        let Seen { pod, gone } = self.pod.borrow_and_update().clone();
        let node = self.node.clone().or_else(|| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
        let Some(node) = node else {
            return if gone || pod.metadata.deletion_timestamp.is_some() { Ok(Flow::Done) } else { self.schedule(&pod).await };
        };
        match self.shared.node_state(&node) {
            None => return Ok(Flow::Done),
            Some(NodeState::Lost) => return Ok(Flow::Waits),
            Some(NodeState::Removed) => {
                self.signal(Signal::KILL);
                return Ok(if self.all_ended() { Flow::Done } else { Flow::Retries });
            }
            Some(NodeState::Connected | NodeState::ShuttingDown) => {}
        }
        self.node = Some(node.clone());
        if gone {
            return Ok(self.forget(&pod));
        }
        let is_deleted = pod.metadata.deletion_timestamp.is_some();
        if self.running.is_empty() && self.verdict.is_none() {
            if is_deleted {
                return self.remove().await;
            }
            if phase(&pod).is_some_and(|phase| phase != "Pending") {
                return Ok(Flow::Waits);
            }
            if let Err(reason) = self.start(&pod, &node).await {
                self.report().await?;
                return Err(reason);
            }
        }
        if is_deleted && !self.all_ended() {
            self.follow_deletion(grace(&pod));
        }
        self.advance_stop();
        // Asked before the report: an end that comes during it is reported by the next step, and only then the object goes.
        let all_ended = self.all_ended();
        self.report().await?;
        match (all_ended, is_deleted) {
            (true, true) => self.remove().await,
            _ => Ok(Flow::Waits),
        }
    }

    /// The object is gone although its processes may not be: they are ended, and there is nobody to tell.
    fn forget(&mut self, pod: &Pod) -> Flow {
        if self.all_ended() {
            return Flow::Done;
        }
        if self.stop.is_none() {
            self.begin_stop(grace(pod));
        }
        self.advance_stop();
        Flow::Waits
    }

    async fn schedule(&mut self, pod: &Pod) -> Result<Flow> {
        if pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty())) {
            return Ok(Flow::Waits);
        }
        let node = if self.shared.is_unschedulable(&self.key()) { None } else { self.shared.schedulable_node() };
        let Some(node) = node else {
            let message = "0/1 nodes are available: 1 Insufficient memory.";
            let condition = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
                "lastTransitionTime": seconds(self.begun),
            });
            self.write(json!({"conditions": [condition]})).await?;
            return Ok(Flow::Waits);
        };
        let binding: Binding = serde_json::from_value(json!({
            "metadata": {"name": self.name, "namespace": pod.namespace(), "uid": self.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }))?;
        // The answer is the pod's own change.
        let _: Status = self.pods.create_subresource("binding", &self.name, &PostParams::default(), &binding).await?;
        Ok(Flow::Waits)
    }

    fn key(&self) -> (String, String) {
        (self.pod.borrow().pod.namespace().unwrap_or_default(), self.name.clone())
    }

    /// Starts all containers, or says why they wait.
    async fn start(&mut self, pod: &Pod, node: &str) -> Result<()> {
        let spec = pod.spec.as_ref().context("a pod has a spec")?;
        self.waiting = None;
        for container in &spec.containers {
            let image = container.image.clone().unwrap_or_default();
            if self.shared.image_fails(&image) || program::of(&self.shared.programs, container).is_none() {
                self.waiting = Some(("ImagePullBackOff", format!("Back-off pulling image \"{image}\": ErrImagePull: not found")));
                bail!("image {image} cannot be pulled");
            }
        }
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => scratch::folder(&self.name)?,
        };
        let started = self.start_all(pod, node, &folder).await;
        self.folder = Some(folder);
        if let Err(error) = &started {
            self.signal(Signal::KILL);
            self.running.clear();
            self.waiting.get_or_insert_with(|| ("ContainerCreating", format!("{error:#}")));
        }
        started
    }

    /// Prepares every container first, so that a step that is given up half-way has started none.
    async fn start_all(&mut self, pod: &Pod, node: &str, folder: &TempDir) -> Result<()> {
        let client = self.shared.client.clone();
        let claims = self.shared.claims.path().to_owned();
        let mounting = Mounting { client: &client, pod, node, ip: self.ip, folder: folder.path(), claims: &claims };
        let places = mounting.volumes().await?;
        let mut starts = Vec::new();
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            let variables = match self.variables(&mounting, container).await {
                Ok(variables) => variables,
                Err(error) => {
                    self.waiting = Some(("CreateContainerConfigError", format!("{error:#}")));
                    return Err(error);
                }
            };
            starts.push((container, self.prepare(&mounting, container, &places, variables)?));
        }
        for (container, start) in starts {
            let (ready, tasks) = self.readiness(container);
            let running = Running::start(start, &self.shared.table, ready, tasks, Arc::clone(&self.wake))?;
            self.shared.keep_output(&self.key(), running.output());
            self.running.push((container.clone(), running));
        }
        Ok(())
    }

    fn prepare(
        &self,
        mounting: &Mounting<'_>,
        container: &Container,
        places: &BTreeMap<String, PathBuf>,
        variables: BTreeMap<String, String>,
    ) -> Result<Start> {
        let termination = mounting.folder.join(format!("termination-{}", container.name));
        std::fs::write(&termination, "")?;
        let mounted = mounts(container, places, &variables, &termination);
        let program = program::of(&self.shared.programs, container).context("its image was found before")?;
        let arguments = program::arguments(container).iter().map(|text| rewrite(&expand(text, &variables), &mounted)).collect();
        let mut environment: BTreeMap<String, String> =
            variables.into_iter().map(|(name, value)| (name, rewrite(&value, &mounted))).collect();
        let epoch = environment.get("WEIR_EPOCH").and_then(|epoch| epoch.parse().ok());
        environment.extend(program.environment().iter().cloned());
        let record = self.record(mounting.pod, mounting.node, container, epoch);
        Ok(Start { binary: program.binary().clone(), arguments, environment, folder: mounting.folder.to_owned(), termination, record })
    }

    fn readiness(&self, container: &Container) -> (watch::Receiver<bool>, Vec<Owned>) {
        match probe::of(container, self.ip, self.shared.probe_interval) {
            None => (watch::channel(true).1, Vec::new()),
            Some(probe) => {
                let (sender, receiver) = watch::channel(false);
                let followed = probe::follow(probe, self.shared.http.clone(), sender, Arc::clone(&self.wake));
                (receiver, vec![Owned::spawn(followed)])
            }
        }
    }

    fn record(&self, pod: &Pod, node: &str, container: &Container, epoch: Option<u64>) -> ProcessRecord {
        let label = |name: &str| pod.labels().get(name).cloned().unwrap_or_default();
        let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
        ProcessRecord {
            namespace: pod.namespace().unwrap_or_default(),
            job_uid: owner.map(|owner| owner.uid.clone()).unwrap_or_else(|| label("weir.dev/job-uid")),
            job: owner.map(|owner| owner.name.clone()).unwrap_or_else(|| label("weir.dev/job")),
            task: self.name.split_once("--").map_or_else(|| label("weir.dev/task"), |(_, task)| task.to_owned()),
            epoch: epoch.or_else(|| label("weir.dev/epoch").parse().ok()),
            pod: self.name.clone(),
            pod_uid: self.uid.clone(),
            container: container.name.clone(),
            node: node.to_owned(),
            pid: 0,
            started_at: std::time::SystemTime::now(),
            ended_at: None,
            exit: None,
        }
    }

    async fn variables(&self, mounting: &Mounting<'_>, container: &Container) -> Result<BTreeMap<String, String>> {
        let mut variables = BTreeMap::new();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        for source in container.env_from.iter().flatten() {
            let keys = match (&source.config_map_ref, &source.secret_ref) {
                (Some(map), _) => mounting.config_map(&map.name, map.optional).await?,
                (_, Some(secret)) => mounting.secret(&secret.name, secret.optional).await?,
                _ => BTreeMap::new(),
            };
            let prefix = source.prefix.clone().unwrap_or_default();
            variables.extend(keys.into_iter().map(|(key, value)| (format!("{prefix}{key}"), text(value))));
        }
        for variable in container.env.iter().flatten() {
            let source = variable.value_from.as_ref();
            let value = if let Some(reference) = source.and_then(|source| source.field_ref.as_ref()) {
                let found = field(mounting.pod, mounting.node, mounting.ip, &reference.field_path);
                Some(found.ok_or_else(|| anyhow!("unknown field {}", reference.field_path))?)
            } else if let Some(key) = source.and_then(|source| source.config_map_key_ref.as_ref()) {
                one_key(mounting.config_map(&key.name, key.optional).await?, &key.key, key.optional)?.map(text)
            } else if let Some(key) = source.and_then(|source| source.secret_key_ref.as_ref()) {
                one_key(mounting.secret(&key.name, key.optional).await?, &key.key, key.optional)?.map(text)
            } else {
                Some(expand(variable.value.as_deref().unwrap_or_default(), &variables))
            };
            variables.extend(value.map(|value| (variable.name.clone(), value)));
        }
        Ok(variables)
    }

    /// Stops as the deletion says; one that comes with less grace than the one before shortens what is left.
    fn follow_deletion(&mut self, grace: Duration) {
        match &mut self.stop {
            None => self.begin_stop(grace),
            Some(stop) if grace < stop.kill_at.saturating_duration_since(stop.term_at) => {
                stop.kill_at = stop.kill_at.min(Instant::now() + grace);
            }
            Some(_) => {}
        }
    }

    fn begin_stop(&mut self, grace: Duration) {
        let term_at = Instant::now() + self.shared.sigterm_delay(&self.key());
        self.stop = Some(Stop { term_at, kill_at: term_at + grace, termed: false, killed: false });
        self.advance_stop();
    }

    fn advance_stop(&mut self) {
        let all_ended = self.all_ended();
        let Some(stop) = &mut self.stop else { return };
        let now = Instant::now();
        let signal = if all_ended {
            self.stop = None;
            None
        } else if now >= stop.kill_at && !stop.killed {
            stop.killed = true;
            Some(Signal::KILL)
        } else if now >= stop.term_at && !stop.termed {
            stop.termed = true;
            Some(Signal::TERM)
        } else {
            None
        };
        if let Some(signal) = signal {
            self.signal(signal);
        }
    }

    fn facts(&self) -> PodFacts {
        let pod = Arc::clone(&self.pod.borrow().pod);
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let facts = containers.filter_map(|container| {
            let running = self.running.iter().find(|(other, _)| other.name == container.name).map(|(_, running)| running);
            let state = match (running, &self.waiting) {
                (Some(running), _) => self.state(container, running),
                (None, Some((reason, message))) => State::Waiting { reason, message: message.clone() },
                (None, None) => return None,
            };
            Some(ContainerFacts { name: container.name.clone(), image: container.image.clone().unwrap_or_default(), state })
        });
        let ip = (!self.running.is_empty()).then_some(self.ip);
        let containers = if self.verdict.is_some() && self.running.is_empty() { Vec::new() } else { facts.collect() };
        PodFacts { ip, started: self.begun, containers, verdict: self.verdict.clone() }
    }

    fn state(&self, container: &Container, running: &Running) -> State {
        let Some(Ended { exit, at }) = running.ended() else {
            return State::Running { since: running.started, ready: *running.ready.borrow() };
        };
        let reason = match exit.code {
            137 if self.out_of_memory => "OOMKilled",
            0 => "Completed",
            _ => "Error",
        };
        let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        State::Ended { since: running.started, until: at, exit, reason, message: running.message(exit.code, falls_back) }
    }

    async fn report(&mut self) -> Result<()> {
        let facts = self.facts();
        let status = status(&facts, &mut self.transitions, Timestamp::now());
        self.write(status).await
    }

    async fn write(&mut self, status: Value) -> Result<()> {
        if self.reported.as_ref() == Some(&status) {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": self.uid}, "status": status});
        match self.pods.patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(patch)).await {
            Ok(_) => {}
            // The object is another one by now, or none; the watch tells.
            Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 && answer.message.contains("UID") => {}
            Err(error) => return Err(error).context("reporting the pod's status"),
        }
        self.reported = Some(status);
        Ok(())
    }

    /// The last act: the object goes, if it is still this pod.
    async fn remove(&self) -> Result<Flow> {
        let preconditions = Preconditions { uid: Some(self.uid.clone()), resource_version: None };
        let parameters = DeleteParams { grace_period_seconds: Some(0), preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.pods.delete(&self.name, &parameters).await {
            Ok(_) => Ok(Flow::Done),
            Err(kube::Error::Api(answer)) if answer.code == 404 || answer.code == 409 => Ok(Flow::Done),
            Err(error) => Err(error).context("removing the pod"),
        }
    }
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn grace(pod: &Pod) -> Duration {
    let spec = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let seconds = pod.metadata.deletion_grace_period_seconds.or(spec).unwrap_or(30);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn one_key(mut keys: BTreeMap<String, Vec<u8>>, key: &str, optional: Option<bool>) -> Result<Option<Vec<u8>>> {
    match keys.remove(key) {
        None if optional != Some(true) => Err(anyhow!("couldn't find key {key}")),
        found => Ok(found),
    }
}
