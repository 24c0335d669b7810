//! Events: what is told to people as it happens.
//!
//! The one table of reasons. Their kinds, the events that an operator sends,
//! the local runner's lines and `docs/events.md` come from here; the house
//! rules check that each reason is used. Reasons are promised to alerts and
//! scripts: new ones may come, none changes its meaning.

use std::fmt;

/// The two kinds of Kubernetes events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// All is as it should be.
    Normal,
    /// Somebody may want to look.
    Warning,
}

impl EventKind {
    /// As in `type` of an event.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Normal => "Normal",
            EventKind::Warning => "Warning",
        }
    }
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub reason: EventReason,
    /// For people; at most 1 KiB.
    pub note: String,
}

impl Event {
    /// Normal or warning.
    pub fn kind(&self) -> EventKind {
        self.reason.kind()
    }
}

macro_rules! reasons {
    ($($kind:ident $name:ident $meaning:literal;)+) => {
        /// What has happened, in a word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventReason {
            $(#[doc = $meaning] $name,)+
        }

        impl EventReason {
            /// All of them: normal ones first, then by name.
            pub const ALL: [EventReason; [$(EventReason::$name),+].len()] = [$(EventReason::$name),+];

            /// As in `reason` of an event.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(EventReason::$name => stringify!($name),)+
                }
            }

            /// Normal or warning.
            pub fn kind(self) -> EventKind {
                match self {
                    $(EventReason::$name => EventKind::$kind,)+
                }
            }

            /// When it is told.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(EventReason::$name => $meaning,)+
                }
            }
        }
    };
}

reasons! {
    Normal BackoffReset "Consecutive failures went back to zero: a run was ready for `stableAfter`, or an edit or a person began anew.";
    Normal Resumed "The job is no longer suspended.";
    Normal RunAdopted "A pod whose creation was never answered was found and is taken over.";
    Normal RunCompleted "All tasks ended by themselves, as `availableNow` and `once` do.";
    Normal RunReady "Every query of the run has its checkpoint and its sources have answered: it streams.";
    Normal RunStarted "A run began.";
    Normal RunStopped "A run was stopped: on request, or to make room for its successor.";
    Normal SchemaChanged "A task starts again, because the schema of its source changed.";
    Normal SpecUpdateApplied "A new generation is in force; the note says what it disrupts.";
    Normal Suspended "`spec.suspend` is set, and no run is alive.";
    Warning AnnotationIgnored "The value of an annotation means nothing; the note says what it may be.";
    Warning BacklogExceeded "A rule of `health.rules` is exceeded.";
    Warning CheckpointIncompatible "A task refused its checkpoint or sink (exit 21); the note names the remedy.";
    Warning ConfirmationIgnored "`weir.dev/confirm-terminated` or `weir.dev/discard-memory` names no epoch that waits for it; the note names the right one.";
    Warning CrashLooping "Runs fail one after the other; they go on with the maximum delay.";
    Warning CreateContainerConfigError "The kubelet cannot make the container, such as where a Secret or ConfigMap is missing.";
    Warning FallingBehind "Input comes faster than it is processed.";
    Warning FencedOut "A task found a newer epoch in its checkpoint; it starts again above it, or the job gives way.";
    Warning FinalizerBlocked "A finalizer or a pod keeps the job; the note names it and the way out.";
    Warning GenerationLost "The record of the generation in force is gone and the newest generation is not accepted; what runs goes on.";
    Warning ImagePullFailed "The image cannot be pulled.";
    Warning InternalError "Looking at the job fails by a defect of the operator; other jobs go on.";
    Warning OwnershipConflict "A pod or ConfigMap of somebody else has a name that the job needs, or a pod claims to be the job's and has no epoch.";
    Warning PodUnschedulable "No node takes the pod.";
    Warning PreviousRunUnconfirmed "A pod is out of reach and nothing proves that it is over; the note says what to do.";
    Warning ProgressStale "No batch was committed for `health.staleAfter` though input is there, or a task is silent.";
    Warning ReleaseRefused "The API server refuses to take the gate `weir.dev/remembered` from a pod, so no node gets it; the note has its words.";
    Warning RunDisrupted "An attempt was ended by the cluster (eviction, a lost node, preemption); it does not count as a failure.";
    Warning RunFailed "A run failed; the note has the task, its exit, the failures in a row and the next start.";
    Warning RunForceReplaced "A pod that nothing proves to be over was given up, behind a fence or on a person's word.";
    Warning RunNowIgnored "`weir.dev/run-now` came while it could have no effect.";
    Warning ScopeConflict "Another installation looks after the job.";
    Warning SpecInvalid "A generation was refused and the last good one goes on, or the API server refuses a pod that is made of it.";
    Warning StartDeadlineExceeded "A run was not ready within `startDeadline`.";
    Warning StatusUnreadable "What the status remembers cannot be read, is gone, or is not kept by the API server.";
    Warning TaskFailed "A task failed and is not retried in this run.";
    Warning TaskRetrying "A task failed and will be retried; its siblings go on.";
    Warning TickSkipped "A tick of the schedule began no run; the note says why.";
}

impl fmt::Display for EventReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The reference page.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Events\n\nGenerated by `make codegen` from `supervisor/src/events.rs`. `kubectl get events.events.k8s.io` shows them beside the job that they \
         regard; `weir run` prints them as lines. A reason keeps its meaning; new ones may come.\n\n| type | reason | when |\n|---|---|---|\n",
    );
    for reason in EventReason::ALL {
        page.push_str(&format!("| {} | `{reason}` | {} |\n", reason.kind().as_str(), reason.meaning()));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(EventReason::ALL.is_sorted_by_key(|reason| (reason.kind() == EventKind::Warning, reason.as_str())));
    }
}
