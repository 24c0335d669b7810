//! Events of a job in the API server (`events.k8s.io/v1`), best effort.
//!
//! One recorder for the process, fed by a bounded queue: the newest events are
//! kept, the oldest dropped and counted, and the reconciler never waits. An
//! event is only published under a reason of the closed list below, which is
//! also what the documentation lists. A namespace that is being removed answers
//! 403 or 404; that is logged once, at debug, and changes nothing.

use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event as Published, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_supervisor::text::NOTE_BYTES;
use weir_supervisor::{Event, EventKind};

use crate::names::{JobId, MANAGER};

/// Events that wait for the API server, at most.
pub const QUEUE_LENGTH: usize = 1024;

/// Reasons of normal events.
pub const NORMAL_REASONS: [&str; 10] = [
    "BackoffReset",
    "Resumed",
    "RunAdopted",
    "RunCompleted",
    "RunReady",
    "RunStarted",
    "RunStopped",
    "SchemaChanged",
    "SpecUpdateApplied",
    "Suspended",
];

/// Reasons of warnings.
pub const WARNING_REASONS: [&str; 24] = [
    "AnnotationIgnored",
    "BacklogExceeded",
    "CheckpointIncompatible",
    "ConfirmationIgnored",
    "CrashLooping",
    "FallingBehind",
    "FencedOut",
    "FinalizerBlocked",
    "ImagePullFailed",
    "OwnershipConflict",
    "PodUnschedulable",
    "PreviousRunUnconfirmed",
    "ProgressStale",
    "RunDisrupted",
    "RunFailed",
    "RunForceReplaced",
    "RunNowIgnored",
    "ScopeConflict",
    "SpecInvalid",
    "StartDeadlineExceeded",
    "StatusUnreadable",
    "TaskFailed",
    "TaskRetrying",
    "TickSkipped",
];

/// Where events go. Cheap to clone; all clones share one queue and one recorder.
#[derive(Clone)]
pub struct EventSink {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<VecDeque<(Published, ObjectReference)>>,
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
        let known = match event.kind {
            EventKind::Normal => NORMAL_REASONS.contains(&event.reason),
            EventKind::Warning => WARNING_REASONS.contains(&event.reason),
        };
        if !known {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(reason = event.reason, "an event with a reason outside the published list is left out");
            return;
        }
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
    while let Some(shared) = shared.upgrade() {
        let next = shared.queue.lock().pop_front();
        match next {
            Some((event, regarding)) => {
                if let Err(error) = recorder.publish(&event, &regarding).await {
                    shared.note_failure(&error, &event, &regarding);
                }
            }
            // The worker's own handle is the last one: nobody will publish any more.
            None if Arc::strong_count(&shared) == 1 => return,
            None => shared.filled.notified().await,
        }
    }
}

impl Shared {
    fn note_failure(&self, error: &kube::Error, event: &Published, regarding: &ObjectReference) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let name = regarding.name.as_deref().unwrap_or_default();
        let namespace = regarding.namespace.as_deref().unwrap_or_default();
        match error {
            kube::Error::Api(status) if matches!(status.code, 403 | 404) => {
                if !self.refused_before.swap(true, Ordering::Relaxed) {
                    tracing::debug!(%error, namespace, job = name, reason = event.reason, "events are refused; further refusals are not logged");
                }
            }
            _ => tracing::debug!(%error, namespace, job = name, reason = event.reason, "an event was not published"),
        }
    }
}

fn published(event: &Event) -> Published {
    let note = cut(&event.note, NOTE_BYTES).to_owned();
    Published {
        type_: match event.kind {
            EventKind::Normal => EventType::Normal,
            EventKind::Warning => EventType::Warning,
        },
        reason: event.reason.to_owned(),
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
