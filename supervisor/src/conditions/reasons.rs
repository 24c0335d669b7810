//! Reasons of conditions: the one table of what a job's status can say.
//!
//! A row has where the reason stands, what it means and what helps. Verdicts
//! take reasons from here only, `docs/conditions.md` is made from it, and the
//! house rules check that each one is given somewhere. Reasons are promised to
//! alerts and scripts: new ones may come, none changes its meaning.

use std::fmt;

use super::ConditionStatus::{self, False, True, Unknown};

/// What a true condition says, in the order in which conditions are written.
pub const CONDITIONS: [(&str, &str); 12] = [
    ("Ready", "the newest generation streams, or the job is idle on purpose"),
    ("Reconciling", "on the way, without human help"),
    ("Stalled", "a human should look; retries may go on"),
    ("Accepted", "the newest generation passed `weir check`"),
    ("Running", "a run is past its start"),
    ("ProgressStale", "no batch for `health.staleAfter` though input is there, or silence"),
    ("BackingOff", "waits for `nextRestartTime`"),
    ("PreviousRunTerminated", "what ran before is proven over"),
    ("Suspended", "`spec.suspend`, and nothing lives"),
    ("Degraded", "a task is down while the run lives"),
    ("FallingBehind", "input comes faster than it is processed"),
    ("BacklogExceeded", "a rule of `health.rules` is exceeded"),
];

/// The conditions that nobody can tell about a job that is held.
const OTHERS: &str = "Others";

macro_rules! reasons {
    ($($name:ident [$($kind:ident $status:ident),+] $meaning:literal $remedy:literal;)+) => {
        /// Why a condition is as it is, in a word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $(#[doc = $meaning] $name,)+
        }

        impl Reason {
            /// All of them, by name.
            pub const ALL: [Reason; [$(Reason::$name),+].len()] = [$(Reason::$name),+];

            /// As in `reason` of a condition.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$name => stringify!($name),)+
                }
            }

            /// What it means.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Reason::$name => $meaning,)+
                }
            }

            /// What helps; empty where nothing has to be done.
            pub fn remedy(self) -> &'static str {
                match self {
                    $(Reason::$name => $remedy,)+
                }
            }

            fn places(self) -> &'static [(&'static str, ConditionStatus)] {
                match self {
                    $(Reason::$name => &[$((stringify!($kind), $status)),+],)+
                }
            }
        }
    };
}

reasons! {
    ApplyingSpec [Reconciling True] "The newest generation is being checked." "";
    AtMaximumDelay [BackingOff True] "Runs failed until the delay reached `restart.maxDelay`, or a failure that no retry can mend waits that long." "See `Stalled` and the last run; an edit, `restartNonce` or `weir.dev/run-now` starts at once.";
    BackingOff [Ready False, Reconciling True, Running False] "The last run failed and the next waits for `nextRestartTime`." "`weir.dev/run-now` ends the wait.";
    BetweenRuns [Ready True, Running False] "A run ended well and the next begins after `restart.minInterval`." "";
    CheckUnavailable [Accepted Unknown] "The check itself could not be run, or its result not stored; it is tried again." "The message says why: memory or time of the check, or a ConfigMap that the API server refuses.";
    CheckpointIncompatible [Ready False, Stalled True] "A task refused its checkpoint or sink (exit 21)." "The message names the remedy.";
    CrashLooping [Ready False, Stalled True] "`restart.failureThreshold` runs failed in a row; they go on with their delays." "See the message and the log of the last run.";
    CreateContainerConfigError [Ready False, Stalled True] "The kubelet cannot make the container, mostly because a Secret or ConfigMap is missing." "Create what the message names.";
    EndpointUnreachable [ProgressStale True] "A task has not answered for `health.staleAfter`." "Look at its pod and at network policies between operator and pods.";
    Fenced [Ready False, Stalled True] "Another owner has the checkpoint." "Stop the other job; then change `restartNonce`, or take the checkpoint over with `weir.dev/adopt-checkpoint`.";
    FinalizerBlocked [Stalled True] "Something that should be gone is held: a pod by a finalizer, a pod that does not end, or one that vanished unseen." "Have the finalizer taken away that the message names, vouch with `weir.dev/confirm-terminated` for a pod that is out of reach, or set `weir.dev/skip-graceful-stop`.";
    GenerationLost [Ready False, Stalled True, Accepted False, Others Unknown] "The ConfigMap of the generation in force is gone or bears no seal, and the newest generation is not accepted, or might move a checkpoint." "Mend the manifest; the message says what the newest generation is refused for.";
    Idle [Reconciling False] "There is nothing to do." "";
    IdleNoInput [ProgressStale False] "There is no input." "";
    ImagePullFailed [Ready False, Stalled True] "The image cannot be pulled." "Correct the image's name, or give `podTemplate.imagePullSecrets`.";
    InputFasterThanProcessing [FallingBehind True] "Input came faster than it was processed for several batches in a row." "Give the task more CPU, split its input among tasks, or lower the limits per batch.";
    InternalError [Ready False, Stalled True, Others Unknown] "Looking at the job fails by a defect of the operator; other jobs go on, and this one is tried again at least every 36 s." "Report the message; an earlier operator may go on.";
    KeepingUp [FallingBehind False] "Processing is as fast as the input." "";
    LeftBehind [PreviousRunTerminated False] "A pod that may be alive was given up because a fence makes it harmless; the pod after it has not claimed its checkpoints yet." "Nothing: the claim ends it. So does `weir.dev/confirm-terminated` with the epoch that the message names, once that pod is known to be gone.";
    MemoryLost [Ready False, Stalled True, Others Unknown] "`status.memory` is gone or damaged though the job has run, so a pod that nothing proves to be over may be forgotten, and not every task of it is fenced." "Make sure that no process of the job is alive but in its pods, then set `weir.dev/discard-memory` to the epoch that the message names.";
    NoBatchCommitted [ProgressStale True] "No batch was committed for `health.staleAfter` though input is there." "Look at the query that the message names; after `health.failAfter` its task starts again.";
    NoPreviousRun [PreviousRunTerminated True] "There was no run before." "";
    NoRun [Running False] "There is no run." "";
    NoStall [Stalled False] "Nothing needs a human." "";
    NodeLost [Running Unknown] "The node of a task does not answer, or its pod vanished." "See `PreviousRunTerminated`.";
    NodeUnreachable [PreviousRunTerminated False] "The node of an earlier pod does not answer." "Recover or remove the node, or vouch with `weir.dev/confirm-terminated` that the process is gone.";
    NonRetryableExit [Ready False, Stalled True] "A task refused its configuration (exit 20)." "Correct the manifest as the message says.";
    NotBackingOff [BackingOff False] "No run is waited for." "";
    NotDegraded [Degraded False] "No task of a living run is down." "";
    NotRunning [ProgressStale False, FallingBehind Unknown, BacklogExceeded Unknown] "No run reports." "";
    NotSuspended [Suspended False] "`spec.suspend` is not set." "";
    NotYetObserved [Ready Unknown, Accepted Unknown] "Nobody has looked yet, or the newest generation is being checked." "";
    OwnershipConflict [Ready False, Stalled True, Accepted False] "A pod or ConfigMap of somebody else has a name that the job needs; it is left alone." "Remove it, or rename the job or the task.";
    Paused [Reconciling False] "`weir.dev/paused` is set: nothing but status is written." "Remove the annotation.";
    PodVanished [PreviousRunTerminated False] "A pod vanished without being seen to end, so its process may be alive." "Vouch with `weir.dev/confirm-terminated` that it is gone.";
    PreviousRunUnconfirmed [Ready False, Stalled True] "A pod is out of reach and nothing proves that it is over." "Recover or remove the node, or set `weir.dev/confirm-terminated` as the message says.";
    Progressing [ProgressStale False] "Batches are committed." "";
    ReferenceNotPermitted [Ready False, Stalled True, Accepted False] "`onChange: Restart` on a Secret, which this operator may not read." "Install with `--watch-secrets`, or write `onChange: Ignore`.";
    ReleaseRefused [Ready False, Stalled True] "The API server refuses to take the gate `weir.dev/remembered` from a pod, so no node gets it; that is tried again and is no failure of the task." "Allow the operator to patch pods: in its role, or in the policy or webhook that the message names.";
    RepeatedFailure [BackingOff True] "More than one run failed in a row." "See the last run.";
    RunFailed [BackingOff True] "A run failed." "See the last run.";
    RunStarting [Ready False, Running False] "A run is starting, or about to." "";
    SpecInvalid [Ready False, Stalled True, Accepted False] "The newest generation is refused; the last good one goes on." "Correct what the message names; `weir check` says the same.";
    Stalled [Reconciling False] "A human should look." "See `Stalled`.";
    StartDeadlineExceeded [Ready False, Stalled True] "A task was not ready within `startDeadline`." "See the task's log; raise `startDeadline` where starts take long.";
    StartingRun [Reconciling True] "A run is starting, or about to." "";
    StatusNotKept [Ready False, Stalled True, Others Unknown] "The API server drops `status.memory`: the served resource definition is older than the operator." "Apply the output of `weir-operator crd`.";
    StatusTooNew [Ready False, Stalled True, Others Unknown] "The status was written by a later Weir." "Run that version again, or set `weir.dev/discard-memory`.";
    StatusUnreadable [Ready False, Stalled True, Others Unknown] "No reader takes what `status.memory` holds." "Restore it, or set `weir.dev/discard-memory` to the epoch that the message names.";
    Stopping [Ready False, Running False, Suspended False] "A run is stopping: on request, or with its job." "";
    StoppingRun [Reconciling True] "A run is stopping: on request, or with its job." "";
    Streaming [Ready True, Running True] "Every query of the run has opened and streams." "";
    StreamingBacklogBytes [BacklogExceeded True] "The backlog in bytes was above a rule's limit over ten minutes." "Give the task more CPU, or raise the limit.";
    StreamingBacklogFiles [BacklogExceeded True] "The backlog in files was above a rule's limit over ten minutes." "Give the task more CPU, or raise the limit.";
    StreamingBacklogRecords [BacklogExceeded True] "The backlog in records was above a rule's limit over ten minutes." "Give the task more CPU, or raise the limit.";
    StreamingBacklogSeconds [BacklogExceeded True] "The backlog in seconds was above a rule's limit over ten minutes." "Give the task more CPU, or raise the limit.";
    Suspended [Ready True, Running False] "`spec.suspend` is set and nothing lives." "";
    SuspendedBySpec [Suspended True] "`spec.suspend` is set and nothing lives." "";
    TaskFailed [Ready False, Stalled True, Degraded True] "A task failed and is not retried in this run; its siblings go on." "See the task's row; `restartNonce` starts the run again.";
    TaskRetrying [Ready False, Reconciling True, Degraded True] "A task failed and will be retried; its siblings go on." "";
    TerminalPhaseObserved [PreviousRunTerminated True] "Every earlier pod was seen to end." "";
    Unschedulable [Ready False, Stalled True] "No node takes a pod." "The message has the scheduler's words.";
    Upgrading [Ready False] "A new generation is being checked, or a run is replaced by one." "";
    Valid [Accepted True] "The newest generation is in force." "";
    WaitingForTermination [Reconciling True, PreviousRunTerminated False] "Something from before is not over yet." "";
    WaitingForTrigger [Ready True] "Waits for `weir.dev/run-now` or the next tick of the schedule." "";
    WithinLimits [BacklogExceeded False] "No rule of `health.rules` is exceeded." "";
}

impl Reason {
    /// The reason of this name.
    pub fn named(text: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.as_str() == text)
    }

    /// Whether the table has it for a condition of this status.
    pub fn is_of(self, kind: &str, status: ConditionStatus) -> bool {
        self.places().iter().any(|(place, known)| *known == status && (*place == kind || *place == OTHERS))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The reference page.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Conditions\n\nGenerated by `make codegen` from `supervisor/src/conditions/reasons.rs`. All conditions are there from the first pass, in \
         this order; one that is not True says why. A reason keeps its meaning; new ones may come.\n\n| condition | True means | reasons when True \
         | when False | when Unknown |\n|---|---|---|---|---|\n",
    );
    for (kind, meaning) in CONDITIONS {
        let [holds, fails, unknown] = [True, False, Unknown].map(|status| listed(kind, status));
        page.push_str(&format!("| `{kind}` | {meaning} | {holds} | {fails} | {unknown} |\n"));
    }
    page.push_str("\n| reason | stands in | when | what helps |\n|---|---|---|---|\n");
    for reason in Reason::ALL {
        let places: Vec<String> = reason.places().iter().map(|place| placed(*place)).collect();
        page.push_str(&format!("| `{reason}` | {} | {} | {} |\n", places.join(", "), reason.meaning(), reason.remedy()));
    }
    page
}

/// The reasons of a condition with this status.
fn listed(kind: &str, status: ConditionStatus) -> String {
    let found = Reason::ALL.into_iter().filter(|reason| reason.places().contains(&(kind, status)));
    found.map(|reason| format!("`{reason}`")).collect::<Vec<_>>().join(", ")
}

fn placed((kind, status): (&str, ConditionStatus)) -> String {
    let kind = if kind == OTHERS { "every other condition".to_owned() } else { format!("`{kind}`") };
    match status {
        True => kind,
        False => format!("{kind} (False)"),
        Unknown => format!("{kind} (Unknown)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_crds::resource::CONDITION_TYPES;

    #[test]
    fn the_table_is_in_order_and_speaks_of_conditions_that_there_are() {
        assert_eq!(CONDITIONS.map(|(kind, _)| kind), CONDITION_TYPES);
        assert!(Reason::ALL.is_sorted_by_key(|reason| reason.as_str()));
        for reason in Reason::ALL {
            assert_eq!(Reason::named(reason.as_str()), Some(reason));
            for (kind, _) in reason.places() {
                assert!(CONDITION_TYPES.contains(kind) || *kind == OTHERS, "{reason}: {kind}");
            }
            let needs_a_human = reason.is_of("Stalled", True);
            assert!(!needs_a_human || !reason.remedy().is_empty(), "{reason} stalls a job and says no way out");
        }
    }

    #[test]
    fn a_reason_stands_where_its_row_says() {
        assert!(Reason::Streaming.is_of("Ready", True) && !Reason::Streaming.is_of("Ready", False));
        assert!(Reason::StatusTooNew.is_of("Degraded", Unknown) && !Reason::StatusTooNew.is_of("Degraded", True));
        assert_eq!(Reason::named("NoSuchReason"), None);
    }
}
