//! The recorder: every version of every job and pod of a namespace, as watched.
//!
//! Watches bypass any fault layer, since the recorder has a client of its own.
//! Versions that come twice are kept once. A watch that had to start over may
//! have missed versions; what it saw is still judged.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_testkit::wait::GENEROUS;

use super::judge::{epochs_of_pods, judge_versions};
use super::{Invariant, Violation};

/// The resource of a job, for clients that do without its type.
pub fn job_resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("weir.dev", "v1alpha1", "StreamingJob"), "streamingjobs")
}

/// Records until it is dropped.
pub struct Recorder {
    seen: Arc<Seen>,
    tasks: Vec<JoinHandle<()>>,
}

struct Seen {
    jobs: Mutex<Vec<Value>>,
    pods: Mutex<Vec<Pod>>,
    known: Mutex<HashSet<(String, String)>>,
    synced: watch::Sender<usize>,
    count: watch::Sender<usize>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Recorder {
    /// Records this namespace from now on; what exists already is recorded once it is returned.
    pub async fn start(client: Client, namespace: &str) -> Result<Self> {
        let seen = Arc::new(Seen {
            jobs: Mutex::default(),
            pods: Mutex::default(),
            known: Mutex::default(),
            synced: watch::Sender::new(0),
            count: watch::Sender::new(0),
        });
        let jobs: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &job_resource());
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let tasks = vec![tokio::spawn(follow_jobs(jobs, Arc::clone(&seen))), tokio::spawn(follow_pods(pods, Arc::clone(&seen)))];
        let recorder = Self { seen, tasks };
        let mut synced = recorder.seen.synced.subscribe();
        if tokio::time::timeout(GENEROUS, synced.wait_for(|count| *count >= 2)).await.is_err() {
            bail!("the pods and jobs of {namespace} cannot be listed; is the resource definition there?");
        }
        Ok(recorder)
    }

    /// All versions of jobs, in the order seen.
    pub fn jobs(&self) -> Vec<Value> {
        self.seen.jobs.lock().clone()
    }

    /// All versions of pods, in the order seen.
    pub fn pods(&self) -> Vec<Pod> {
        self.seen.pods.lock().clone()
    }

    /// Marked as changed by whatever happens to a job or pod of the namespace.
    pub fn changes(&self) -> watch::Receiver<usize> {
        self.seen.count.subscribe()
    }

    /// Waits until what is recorded answers; an error that names `what` after a generous deadline.
    pub async fn wait_for<T>(&self, what: &str, ask: impl FnMut(&[Value]) -> Option<T>) -> Result<T> {
        self.wait_within(GENEROUS, what, ask).await
    }

    /// The same with a deadline of the test's own.
    pub async fn wait_within<T>(&self, deadline: Duration, what: &str, mut ask: impl FnMut(&[Value]) -> Option<T>) -> Result<T> {
        let mut count = self.seen.count.subscribe();
        let answered = async {
            loop {
                count.mark_unchanged();
                if let Some(answer) = ask(&self.seen.jobs.lock()) {
                    return answer;
                }
                // The sender lives in `self`.
                let _ = count.changed().await;
            }
        };
        match tokio::time::timeout(deadline, answered).await {
            Ok(answer) => Ok(answer),
            Err(_) => bail!("waited {deadline:?} in vain for {what}; the last version: {:#?}", self.seen.jobs.lock().last()),
        }
    }

    /// I2, I4, I5, I6, I9 and I10 over all that was seen.
    pub fn check(&self) -> Result<(), Vec<String>> {
        self.check_except(&[])
    }

    /// The same without what the test broke on purpose.
    pub fn check_except(&self, broken_on_purpose: &[Invariant]) -> Result<(), Vec<String>> {
        let mut wrong = judge_versions(&self.seen.jobs.lock());
        wrong.extend(epochs_of_pods(self.seen.pods.lock().iter()));
        wrong.retain(|violation| !broken_on_purpose.contains(&violation.invariant));
        if wrong.is_empty() { Ok(()) } else { Err(wrong.iter().map(Violation::to_string).collect()) }
    }
}

impl Seen {
    fn is_new(&self, uid: Option<String>, version: Option<String>) -> bool {
        self.known.lock().insert((uid.unwrap_or_default(), version.unwrap_or_default()))
    }
}

async fn follow_jobs(api: Api<DynamicObject>, seen: Arc<Seen>) {
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(job) | Event::InitApply(job)) => {
                if seen.is_new(job.uid(), job.resource_version()) {
                    seen.jobs.lock().push(serde_json::to_value(&job).expect("an object from JSON is JSON"));
                }
            }
            Ok(Event::InitDone) => seen.synced.send_modify(|count| *count += 1),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the watch of jobs is interrupted"),
        }
        seen.count.send_modify(|count| *count += 1);
    }
}

async fn follow_pods(api: Api<Pod>, seen: Arc<Seen>) {
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                if seen.is_new(pod.uid(), pod.resource_version()) {
                    seen.pods.lock().push(pod);
                }
            }
            Ok(Event::InitDone) => seen.synced.send_modify(|count| *count += 1),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the watch of pods is interrupted"),
        }
        seen.count.send_modify(|count| *count += 1);
    }
}
