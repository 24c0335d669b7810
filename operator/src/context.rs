//! Everything that passes share: the API server, the tasks, settings, counters, and what each job left.
//!
//! Passes of one job never overlap (the controller's queue sees to it), so a
//! job's leavings are taken out for a pass and put back after it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use tokio::time::Instant;
use weir_crds::StreamingJob;
use weir_crds::resource::{StreamingJobSpec, StreamingJobStatus};
use weir_supervisor::Desired;

use crate::checks::Checks;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::ended::Ended;
use crate::events::EventSink;
use crate::gate::Gate;
use crate::http::Health;
use crate::job::Job;
use crate::local::Local;
use crate::metrics::{JobView, Metrics, WatchKind};
use crate::names::{JobId, controller};
use crate::poll::Poller;
use crate::restores::{Restores, went_back};
use crate::settings::Settings;
use crate::token;
use crate::turns::Turns;

/// What passes share.
pub struct Context {
    /// The API server.
    pub cluster: Cluster,
    /// The tasks.
    pub poller: Poller,
    /// Settings.
    pub settings: Settings,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The installation's key.
    pub key: token::OperatorKey,
    /// Checks of new generations.
    pub checks: Checks,
    /// Events about jobs.
    pub events: EventSink,
    /// Counters, and what is shown of each job.
    pub metrics: Metrics,
    /// Whether this process does its part.
    pub health: Arc<Health>,
    /// Whether the store went back in time.
    pub restores: Restores,
    /// Lets passes in until the controller ends.
    pub gate: Gate,
    /// Who of the passes that are due goes next, by namespace and name.
    pub turns: Turns<(String, String)>,
    /// What passes and watches left.
    pub left: Left,
}

/// What passes and watches left in this process, of all jobs; nothing at first.
#[derive(Default)]
pub struct Left {
    locals: Mutex<HashMap<JobId, Local>>,
    jobs: Mutex<HashMap<(String, String), Known>>,
    conflicts: Mutex<HashSet<JobId>>,
    /// By job: the `resourceVersion` of the newest write of ours that the watch has not shown yet.
    written: Mutex<HashMap<(String, String), String>>,
    ended: Mutex<Ended>,
}

impl Context {
    /// What the last pass of a job left.
    pub fn take_local(&self, id: &JobId) -> Local {
        self.left.locals.lock().remove(id).unwrap_or_default()
    }

    /// Leaves something for the next pass.
    pub fn put_local(&self, id: &JobId, local: Local) {
        if !local.is_idle() {
            self.left.locals.lock().insert(id.clone(), local);
        }
    }

    /// Shows a job in the metrics.
    pub fn show(&self, job: &Job, desired: &Desired, status: StreamingJobStatus) {
        let mut shown = StreamingJob::new(&job.id.name, StreamingJobSpec::without_tasks());
        shown.metadata.generation = Some(job.generation);
        shown.spec.image = Some(desired.image.clone());
        shown.status = Some(status);
        self.metrics.board.update(&job.id, JobView::of(&shown));
        self.known(&job.id.namespace, &job.id.name, |known| known.is(&job.id));
    }

    /// The job is another installation's.
    pub fn scope_conflict(&self, id: &JobId) {
        let mut conflicts = self.left.conflicts.lock();
        conflicts.insert(id.clone());
        self.metrics.operator.scope_conflicts(conflicts.len());
        drop(conflicts);
        self.known(&id.namespace, &id.name, |known| known.is(id));
    }

    /// The job is ours after all.
    pub fn no_scope_conflict(&self, id: &JobId) {
        let mut conflicts = self.left.conflicts.lock();
        if conflicts.remove(id) {
            self.metrics.operator.scope_conflicts(conflicts.len());
        }
    }

    /// A watch said something; `scope` is its namespace, empty for all.
    pub fn heard(&self, kind: WatchKind, scope: &str) {
        self.metrics.operator.watch_heard(kind, self.clock.now().timestamp_millis() as f64 / 1000.0);
        self.health.heard(kind, scope, Instant::now());
    }

    /// A pass wrote a job, so the watch will show it once more.
    pub fn wrote(&self, stored: &ObjectMeta) {
        if let Some(version) = &stored.resource_version {
            self.left.written.lock().insert(name_of(stored), version.clone());
        }
    }

    /// Whether what the watch shows of a job is our own newest write: it carries the precondition of what was read before,
    /// so it hides nobody else's change, and the pass that wrote it has looked at it already.
    pub fn is_own_write(&self, shown: &ObjectMeta) -> bool {
        shown.resource_version.is_some() && self.left.written.lock().get(&name_of(shown)) == shown.resource_version.as_ref()
    }

    /// The watch has shown our newest write.
    pub fn forget_write(&self, shown: &ObjectMeta) {
        self.left.written.lock().remove(&name_of(shown));
    }

    /// Somebody else has changed a job: it goes before jobs to which nothing has happened.
    pub fn hurry_job(&self, shown: &ObjectMeta) {
        if !self.is_own_write(shown) {
            self.turns.hurry(&name_of(shown));
        }
    }

    /// A pod has changed: its job goes first as well.
    pub fn hurry_owner(&self, pod: &Pod) {
        if let (Some(owner), Some(namespace)) = (controller(&pod.metadata), &pod.metadata.namespace) {
            self.turns.hurry(&(namespace.clone(), owner.name.clone()));
        }
    }

    /// A pod was removed. Where its last state proves its end, nobody else has that proof any more.
    pub fn removed(&self, pod: &Pod) {
        self.left.ended.lock().removed(pod, self.clock.now());
    }

    /// Pods of a job that were removed after their end, since the last time of asking.
    pub fn take_ended(&self, id: &JobId) -> Vec<Pod> {
        self.left.ended.lock().take(&id.uid)
    }

    /// A job was read or written just now. Versions of one job only rise, unless the store goes back.
    pub fn saw(&self, id: &JobId, object: &DynamicObject) {
        let Some(version) = object.metadata.resource_version.as_deref() else { return };
        let before = self.known(&id.namespace, &id.name, |known| {
            let before = std::mem::replace(&mut known.version, version.into());
            let is_same = known.uid.as_deref() == Some(&id.uid);
            known.is(id);
            is_same.then_some(before)
        });
        if before.is_some_and(|before| went_back(&before, version)) {
            self.went_back();
        }
    }

    /// The store went back in time.
    pub fn went_back(&self) {
        tracing::error!("the API server's store is behind what it was, as after a restored backup: all jobs are looked at anew");
        self.restores.found(self.clock.now());
    }

    /// The job is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.left.written.lock().remove(&(namespace.to_owned(), name.to_owned()));
        let known = self.left.jobs.lock().remove(&(namespace.to_owned(), name.to_owned()));
        if let Some(uid) = known.and_then(|known| known.uid) {
            let id = JobId { namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.into() };
            self.left.locals.lock().remove(&id);
            self.left.ended.lock().take(&id.uid);
            self.metrics.board.remove(&id);
            self.checks.forget(&id);
            self.no_scope_conflict(&id);
        }
    }

    /// Whether this process knows the sealed record of a generation to be there.
    pub fn is_recorded(&self, id: &JobId, generation: i64) -> bool {
        self.known(&id.namespace, &id.name, |known| {
            known.is(id);
            known.recorded == generation
        })
    }

    /// The sealed record of a generation is there, or cannot be made now.
    pub fn recorded(&self, id: &JobId, generation: i64) {
        self.known(&id.namespace, &id.name, |known| {
            known.is(id);
            known.recorded = generation;
        });
    }

    /// Counts a failed pass; how many there were in a row.
    pub fn count_failure(&self, namespace: &str, name: &str) -> u32 {
        self.known(namespace, name, |known| {
            known.failures = known.failures.saturating_add(1);
            known.failures
        })
    }

    /// A pass went through.
    pub fn clear_failures(&self, namespace: &str, name: &str) {
        if let Some(known) = self.left.jobs.lock().get_mut(&(namespace.to_owned(), name.to_owned())) {
            known.failures = 0;
        }
    }

    fn known<T>(&self, namespace: &str, name: &str, change: impl FnOnce(&mut Known) -> T) -> T {
        change(self.left.jobs.lock().entry((namespace.to_owned(), name.to_owned())).or_default())
    }
}

fn name_of(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// What is known of a name; small, since there is one per job.
#[derive(Default)]
struct Known {
    /// UID of the job that has it.
    uid: Option<Box<str>>,
    /// Failed passes in a row.
    failures: u32,
    /// The version that was seen last; empty before.
    version: Box<str>,
    /// The newest generation whose record was looked at.
    recorded: i64,
}

impl Known {
    /// The name is this job's.
    fn is(&mut self, id: &JobId) {
        if self.uid.as_deref() != Some(&id.uid) {
            self.uid = Some(id.uid.as_str().into());
            self.recorded = 0;
        }
    }
}
