//! What wakes a pass: watches of metadata, timers of the plan, a check that is done, a jump of the clock.
//!
//! Watches may be late, doubled or silent: a pass reads everything anew. The one
//! thing that a watch alone can tell is the last state of a pod that was removed.
//! A write of ours, shown by the watch, wakes nobody: its pass knows it. Changes
//! that a watch shows go before looks at jobs to which nothing has happened.
//! Each job has one pass at a time and one pending wake-up. A pass that fails or
//! panics is tried again with a growing pause and delays no other job.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::Api;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::{BroadcastStream, WatchStream};

use crate::context::Context;
use crate::metrics::{ReconcileResult, WatchKind};
use crate::names::{JobId, LABEL_MANAGED_BY, MANAGED_BY};
use crate::rbac::Scope;
use crate::reconcile::{Next, PassError, panicked, reconcile};
use crate::slim::{JobMeta, Slim};
use crate::telemetry;

/// The first pause after a failed pass.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause after failed passes.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Passes that a watch did not ask for let that many others go first. More than there are jobs.
const PATIENCE: u64 = 1 << 32;

mod heard;

use heard::heard_of;

/// What else asks for passes.
#[derive(Clone)]
pub struct Wakers {
    /// Jobs whose check is done.
    pub checked: broadcast::Sender<JobId>,
    /// Counts jumps of the clock: every job is looked at after one.
    pub jumps: watch::Receiver<u64>,
}

/// Why a pass gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// It failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// It panicked; the defect is ours, and other jobs are not to suffer.
    #[error("the pass panicked: {0}")]
    Panicked(String),
}

/// Runs controllers over the scope until `stop` resolves, then lets passes under way end.
pub async fn run(context: Arc<Context>, wakers: Wakers, stop: impl Future<Output = ()> + Send) {
    let namespaces: Vec<Option<String>> = match &context.settings.scope {
        Scope::Cluster => vec![None],
        Scope::Namespaces(names) => names.iter().cloned().map(Some).collect(),
    };
    let controllers = namespaces.into_iter().map(|namespace| run_over(Arc::clone(&context), wakers.clone(), namespace));
    tokio::select! {
        _ = futures::future::join_all(controllers) => {}
        () = async {
            stop.await;
            context.gate.close().await;
        } => {}
    }
}

async fn run_over(context: Arc<Context>, wakers: Wakers, namespace: Option<String>) {
    let jobs = api::<JobMeta>(&context, WatchKind::StreamingJob, namespace.as_deref());
    let pods = api::<Slim<Pod>>(&context, WatchKind::Pod, namespace.as_deref());
    let everything = watcher::Config::default().timeout(context.settings.watch_seconds).any_semantic();
    let ours = everything.clone().labels(&format!("{LABEL_MANAGED_BY}={MANAGED_BY}"));
    let (reader, writer) = reflector::store::<JobMeta>();
    let scope = namespace.as_deref().unwrap_or_default();
    let (hurrying, writing) = (Arc::clone(&context), Arc::clone(&context));
    let jobs = watcher(jobs, everything).inspect_ok(move |event| {
        if let watcher::Event::Apply(job) = event {
            hurrying.hurry_job(&job.metadata);
        }
    });
    let jobs = watched(&context, WatchKind::StreamingJob, scope, jobs).reflect(writer).touched_objects();
    let jobs = jobs.try_filter(move |job| {
        let is_own = writing.is_own_write(&job.metadata);
        if is_own {
            writing.forget_write(&job.metadata);
        }
        std::future::ready(!is_own)
    });
    let mourner = Arc::clone(&context);
    let pods = watcher(pods, ours).inspect_ok(move |event| match event {
        watcher::Event::Delete(Slim(pod)) => {
            mourner.removed(pod);
            mourner.hurry_owner(pod);
        }
        watcher::Event::Apply(Slim(pod)) => mourner.hurry_owner(pod),
        watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::InitDone => {}
    });
    let pods = watched(&context, WatchKind::Pod, scope, pods).touched_objects();
    let (missed, all_missed) = watch::channel(0_u64);
    let checked = BroadcastStream::new(wakers.checked.subscribe())
        .filter_map(move |id| {
            if id.is_err() {
                // Verdicts came faster than they were taken: nobody knows whose, so all jobs are looked at.
                missed.send_modify(|count| *count += 1);
            }
            std::future::ready(id.ok())
        })
        .map(|id: JobId| ObjectRef::<JobMeta>::new(&id.name).within(&id.namespace));
    let jumps = WatchStream::from_changes(wakers.jumps.clone()).map(drop);
    let all_missed = WatchStream::from_changes(all_missed).map(drop);
    Controller::for_stream(jobs, reader)
        // Whose turn it is is decided here: what the controller itself holds back, it lets go in no order at all.
        .with_config(Config::default().concurrency(0))
        .owns_stream(pods)
        .reconcile_on(checked)
        .reconcile_all_on(jumps)
        .reconcile_all_on(all_missed)
        .run(one, retry, context)
        .for_each(|_| std::future::ready(()))
        .await;
}

/// The API of a watch; its answers are heard of.
fn api<K>(context: &Arc<Context>, kind: WatchKind, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = kube::core::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    let (hearing, restored, scope) = (Arc::clone(context), Arc::clone(context), namespace.unwrap_or_default().to_owned());
    let client = heard_of(context.cluster.client(), move || hearing.heard(kind, &scope), move || restored.went_back());
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// A watch that is counted and begun again after errors; of metadata, names and owners stay.
fn watched<K, S>(
    context: &Arc<Context>,
    kind: WatchKind,
    scope: &str,
    events: S,
) -> impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + use<K, S>
where
    S: Stream<Item = watcher::Result<watcher::Event<K>>> + Send,
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let (seen, failed, scope) = (Arc::clone(context), Arc::clone(context), scope.to_owned());
    events
        .inspect_ok(move |event| match event {
            watcher::Event::InitDone => seen.health.synced(kind, &scope, Instant::now()),
            _ => seen.heard(kind, &scope),
        })
        .inspect_err(move |error| {
            tracing::warn!(kind = kind.as_str(), %error, "the watch failed and is begun again");
            failed.metrics.operator.watch_failed(kind);
        })
        .default_backoff()
        .modify(|object| {
            let metadata = object.meta_mut();
            metadata.managed_fields = None;
            metadata.annotations = None;
            metadata.labels = None;
            metadata.finalizers = None;
        })
}

async fn one(job: Arc<JobMeta>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let (namespace, name) = place(&job);
    drop(job);
    let _turn = context.turns.take((namespace.clone(), name.clone()), PATIENCE).await;
    let Some(_inside) = context.gate.enter() else { return Ok(Action::await_change()) };
    let began = Instant::now();
    // Boxed once its turn has come, as all that follows is: thousands may wait, and a pass is large.
    let outcome = AssertUnwindSafe(Box::pin(reconcile(&context, &namespace, &name))).catch_unwind().await;
    let result = match outcome {
        Ok(Ok(next)) => {
            context.clear_failures(&namespace, &name);
            Ok(match next {
                Next::Never => Action::await_change(),
                Next::Again => Action::requeue(Duration::from_millis(1)),
                Next::Within(within) => Action::requeue(within.max(Duration::from_millis(1))),
            })
        }
        Ok(Err(error)) => Err(ReconcileError::Pass(error)),
        Err(panic) => {
            let words = words_of(panic.as_ref());
            Box::pin(tell_panic(&context, &namespace, &name, &words)).await;
            Err(ReconcileError::Panicked(words))
        }
    };
    let ended = match &result {
        Ok(_) => ReconcileResult::Ok,
        Err(ReconcileError::Pass(error)) if error.is_conflict() => ReconcileResult::Conflict,
        Err(ReconcileError::Pass(_)) => ReconcileResult::Error,
        Err(ReconcileError::Panicked(_)) => ReconcileResult::Panic,
    };
    context.metrics.operator.reconciled(ended, began.elapsed());
    result
}

/// Shows a panic at its job. What makes a pass panic may do so here too, so nothing is expected of it.
async fn tell_panic(context: &Context, namespace: &str, name: &str, words: &str) {
    let told = AssertUnwindSafe(panicked(context, namespace, name, words)).catch_unwind().await;
    if let Ok(Err(error)) = told {
        tracing::warn!(namespace, job = name, %error, "a panic could not be shown at its job");
    }
}

/// When to try a failed pass again: soon after a conflict, else after a pause that doubles, with jitter.
fn retry(job: Arc<JobMeta>, error: &ReconcileError, context: Arc<Context>) -> Action {
    let (namespace, name) = place(&job);
    if matches!(error, ReconcileError::Pass(pass) if pass.is_conflict()) {
        return Action::requeue(Duration::from_millis(20));
    }
    let failures = context.count_failure(&namespace, &name);
    telemetry::job_span(&namespace, &name).in_scope(|| tracing::warn!(failures, %error, "the pass failed and is tried again"));
    Action::requeue(pause(failures, rand::random::<f64>()))
}

fn pause(failures: u32, jitter: f64) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10));
    doubled.min(LONGEST_PAUSE).mul_f64(1.0 + 0.2 * jitter)
}

fn place(job: &JobMeta) -> (String, String) {
    (job.metadata.namespace.clone().unwrap_or_default(), job.metadata.name.clone().unwrap_or_default())
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of what an asynchronous function keeps.
    fn kept_by<A, B, F>(_: fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_look_that_waits_for_its_turn_is_small() {
        // Every job of a fleet waits at once when an operator begins.
        let bytes = kept_by(one);
        assert!(bytes <= 1024, "{bytes} bytes");
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let pauses: Vec<Duration> = [1, 2, 3, 7, 100].map(|failures| pause(failures, 0.0)).to_vec();
        let expected = [500, 1000, 2000, 30_000, 30_000].map(Duration::from_millis);
        assert_eq!(pauses, expected);
        assert!(pause(100, 0.999) < LONGEST_PAUSE.mul_f64(1.2));
    }
}
