//! Events of a job in the API server (`events.k8s.io/v1`), best effort.
//!
//! One recorder for the process, fed by a bounded queue: the newest events are
//! kept, the oldest dropped and counted, and the reconciler never waits. The
//! events of a job go out one after the other, those of different jobs side by
//! side, each within a time limit, so that an answer that never comes delays
//! nobody else. Reasons are the supervisor's. A namespace that is being removed
//! answers 403 or 404; that is logged once, at debug, and changes nothing.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event as Published, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_supervisor::text::NOTE_BYTES;
use weir_supervisor::{Event, EventKind};

use crate::names::{JobId, MANAGER};

/// Events that wait for the API server, at most.
pub const QUEUE_LENGTH: usize = 1024;
/// How long the API server may take for one event; after that its answer is not waited for.
pub const PUBLISH_TIMEOUT: Duration = Duration::from_secs(30);
/// Jobs whose events are published side by side.
const SIDE_BY_SIDE: usize = 64;

/// Where events go. Cheap to clone; all clones share one queue and one recorder.
#[derive(Clone)]
pub struct EventSink {
    shared: Arc<Shared>,
}

/// An event and the job that it is about.
type Waiting = (Published, ObjectReference);

#[derive(Default)]
struct Shared {
    queue: Mutex<VecDeque<Waiting>>,
    filled: Notify,
    dropped: AtomicU64,
    failed: AtomicU64,
    refused_before: AtomicBool,
}

impl EventSink {
    /// A sink with its worker, which ends when the last clone is dropped. `instance` names this process.
    pub fn start(client: kube::Client, instance: &str) -> Self {
        let reporter = Reporter { controller: format!("weir.dev/{MANAGER}"), instance: Some(cut(instance, 128).to_owned()) };
        let recorder = Recorder::new(client, reporter);
        let sink = Self::unattended();
        tokio::spawn(deliver(Arc::downgrade(&sink.shared), recorder));
        sink
    }

    fn unattended() -> Self {
        Self { shared: Arc::default() }
    }

    /// Queues an event about a job; never waits and never fails.
    pub fn publish(&self, job: &JobId, event: &Event) {
        let mut queue = self.shared.queue.lock();
        if queue.len() >= QUEUE_LENGTH {
            queue.pop_front();
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
        queue.push_back((published(event), reference(job)));
        drop(queue);
        self.shared.filled.notify_one();
    }

    /// Events that were left out: the queue was full, or the reason unknown.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Events that the API server did not take.
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }
}

impl Drop for EventSink {
    fn drop(&mut self) {
        // The worker looks whether anybody is left to feed it.
        self.shared.filled.notify_one();
    }
}

async fn deliver(shared: std::sync::Weak<Shared>, recorder: Recorder) {
    let mut under_way = FuturesUnordered::new();
    let mut busy: HashSet<String> = HashSet::new();
    while let Some(shared) = shared.upgrade() {
        while busy.len() < SIDE_BY_SIDE
            && let Some((event, regarding)) = shared.next(&busy)
        {
            let job = key(&regarding).to_owned();
            busy.insert(job.clone());
            let recorder = &recorder;
            under_way.push(async move {
                let result = tokio::time::timeout(PUBLISH_TIMEOUT, recorder.publish(&event, &regarding)).await;
                (job, event, regarding, result)
            });
        }
        // The worker's own handle is the last one: nobody will publish any more.
        if under_way.is_empty() && Arc::strong_count(&shared) == 1 {
            return;
        }
        tokio::select! {
            Some((job, event, regarding, result)) = under_way.next() => {
                busy.remove(&job);
                match result {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => shared.note_failure(&error, &event, &regarding),
                    Err(_) => shared.note_silence(&event, &regarding),
                }
            }
            () = shared.filled.notified() => {}
        }
    }
}

/// The job that an event is about.
fn key(regarding: &ObjectReference) -> &str {
    regarding.uid.as_deref().unwrap_or_default()
}

impl Shared {
    /// The oldest event about a job none of whose events is under way.
    fn next(&self, busy: &HashSet<String>) -> Option<Waiting> {
        let mut queue = self.queue.lock();
        let at = queue.iter().position(|(_, regarding)| !busy.contains(key(regarding)))?;
        queue.remove(at)
    }

    fn note_silence(&self, event: &Published, regarding: &ObjectReference) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let name = regarding.name.as_deref().unwrap_or_default();
        let namespace = regarding.namespace.as_deref().unwrap_or_default();
        tracing::warn!(namespace, job = name, reason = event.reason.as_str(), "the API server did not answer to an event in time");
    }

    fn note_failure(&self, error: &kube::Error, event: &Published, regarding: &ObjectReference) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let name = regarding.name.as_deref().unwrap_or_default();
        let namespace = regarding.namespace.as_deref().unwrap_or_default();
        match error {
            kube::Error::Api(status) if matches!(status.code, 403 | 404) => {
                if !self.refused_before.swap(true, Ordering::Relaxed) {
                    tracing::debug!(%error, namespace, job = name, reason = event.reason.as_str(), "events are refused; further refusals are not logged");
                }
            }
            _ => tracing::debug!(%error, namespace, job = name, reason = event.reason.as_str(), "an event was not published"),
        }
    }
}

fn published(event: &Event) -> Published {
    let note = cut(&event.note, NOTE_BYTES).to_owned();
    Published {
        type_: match event.kind() {
            EventKind::Normal => EventType::Normal,
            EventKind::Warning => EventType::Warning,
        },
        reason: event.reason.as_str().to_owned(),
        // The recorder folds events of one action and reason into the first one, text included. A different text is a
        // different event, or the last failure would be shown with the words of the first.
        action: format!("Supervise-{:016x}", digest(&note)),
        note: Some(note).filter(|note| !note.is_empty()),
        secondary: None,
    }
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn reference(job: &JobId) -> ObjectReference {
    ObjectReference {
        api_version: Some("weir.dev/v1alpha1".to_owned()),
        kind: Some("StreamingJob".to_owned()),
        name: Some(job.name.clone()),
        namespace: Some(job.namespace.clone()),
        uid: Some(job.uid.clone()),
        // The recorder adds an event to an earlier one of the very same reference, so this must not change with each write.
        resource_version: None,
        field_path: None,
    }
}

/// At most this many bytes, whole characters only.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests;
