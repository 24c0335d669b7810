//! The twelve conditions: always all, always in the same order.
//!
//! `lastTransitionTime` moves only when a status flips, never for a new reason
//! or message, so two idle passes give equal conditions. `Reconciling` and
//! `Stalled` are never true together. `Ready`, `Reconciling`, `Stalled` and
//! `Running` come from one *situation*; the others are decided by themselves.

use serde::{Deserialize, Serialize};

use crate::decide::next_run;
use crate::desired::Desired;
use crate::events::{Event, EventReason};
use crate::memory::{Memory, NextStart};
use crate::observed::Observed;
use crate::text::{MESSAGE_BYTES, NOTE_BYTES, cut};
use crate::time::Timestamp;

mod hold;
mod own;
mod reasons;
mod situation;
mod table;

pub use hold::{Hold, held, recalled};
pub use reasons::{CONDITIONS, Reason, reference_markdown};

/// True, False or Unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can tell.
    Unknown,
}

/// One condition, in the shape of the Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// One of `weir_crds`' condition types.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// CamelCase word, never empty.
    pub reason: String,
    /// For people; may be empty.
    #[serde(default)]
    pub message: String,
    /// When `status` last flipped.
    pub last_transition_time: Timestamp,
    /// The generation that it speaks of.
    #[serde(default)]
    pub observed_generation: i64,
}

/// A condition without its history.
struct Verdict {
    status: ConditionStatus,
    reason: Reason,
    message: String,
}

impl Verdict {
    fn new(status: ConditionStatus, reason: Reason, message: impl Into<String>) -> Verdict {
        Verdict { status, reason, message: cut(&message.into(), MESSAGE_BYTES) }
    }

    fn holds(reason: Reason, message: impl Into<String>) -> Verdict {
        Verdict::new(ConditionStatus::True, reason, message)
    }

    fn fails(reason: Reason, message: impl Into<String>) -> Verdict {
        Verdict::new(ConditionStatus::False, reason, message)
    }

    fn unknown(reason: Reason, message: impl Into<String>) -> Verdict {
        Verdict::new(ConditionStatus::Unknown, reason, message)
    }
}

/// The conditions and the events of those that flipped.
pub(crate) fn decide(desired: &Desired, observed: &Observed, memory: &Memory, now: Timestamp) -> (Vec<Condition>, Vec<Event>) {
    let look = Look { desired, observed, memory, now };
    let core = table::of(&look);
    let verdicts = [
        core.ready,
        core.reconciling,
        core.stalled,
        own::accepted(&look),
        core.running,
        own::progress_stale(&look),
        own::backing_off(&look),
        own::previous_run_terminated(&look),
        own::suspended(&look),
        own::degraded(&look),
        own::falling_behind(&look),
        own::backlog_exceeded(&look),
    ];
    let kinds = weir_crds::resource::CONDITION_TYPES;
    let mut events = Vec::new();
    let conditions = kinds.into_iter().zip(verdicts).map(|(kind, verdict)| {
        let old = memory.conditions.iter().find(|old| old.kind == kind);
        let changed = old.is_none_or(|old| old.status != verdict.status || old.reason != verdict.reason.as_str());
        events.extend(announce(kind, &verdict).filter(|_| changed));
        settle(kind, verdict, &memory.conditions, desired.newest_generation(), now)
    });
    (conditions.collect(), events)
}

/// A verdict with its history. A flip is never earlier than the one before, whatever the clock says.
fn settle(kind: &str, verdict: Verdict, known: &[Condition], generation: i64, now: Timestamp) -> Condition {
    debug_assert!(verdict.reason.is_of(kind, verdict.status), "no row for {kind} {:?} {}", verdict.status, verdict.reason);
    let old = known.iter().find(|old| old.kind == kind);
    let last_transition_time = match old {
        Some(old) if old.status == verdict.status => old.last_transition_time,
        Some(old) => now.max(old.last_transition_time),
        None => now,
    };
    Condition {
        kind: kind.to_owned(),
        status: verdict.status,
        reason: verdict.reason.as_str().to_owned(),
        message: verdict.message,
        last_transition_time,
        observed_generation: generation,
    }
}

/// Everything that a condition may look at.
struct Look<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    memory: &'a Memory,
    now: Timestamp,
}

impl Look<'_> {
    /// When and why the next run begins, if one will.
    fn next_run(&self) -> Option<NextStart> {
        next_run(self.desired, self.observed, self.memory)
    }
}

/// A warning for a condition that has just become bad; the ones that `decide` announces itself are left out.
fn announce(kind: &str, verdict: &Verdict) -> Option<Event> {
    if verdict.status != ConditionStatus::True {
        return None;
    }
    let reason = match (kind, verdict.reason) {
        ("Stalled", Reason::CrashLooping) => EventReason::CrashLooping,
        ("Stalled", Reason::ImagePullFailed) => EventReason::ImagePullFailed,
        ("Stalled", Reason::CreateContainerConfigError) => EventReason::CreateContainerConfigError,
        ("Stalled", Reason::Unschedulable) => EventReason::PodUnschedulable,
        ("Stalled", Reason::ReleaseRefused) => EventReason::ReleaseRefused,
        ("Stalled", Reason::StartDeadlineExceeded) => EventReason::StartDeadlineExceeded,
        ("Stalled", Reason::SpecInvalid) => EventReason::SpecInvalid,
        ("Stalled", Reason::CheckpointIncompatible) => EventReason::CheckpointIncompatible,
        ("Stalled", Reason::PreviousRunUnconfirmed) => EventReason::PreviousRunUnconfirmed,
        ("Stalled", Reason::OwnershipConflict) => EventReason::OwnershipConflict,
        ("Stalled", Reason::GenerationLost) => EventReason::GenerationLost,
        ("Stalled", Reason::FinalizerBlocked) => EventReason::FinalizerBlocked,
        ("ProgressStale", _) => EventReason::ProgressStale,
        ("FallingBehind", _) => EventReason::FallingBehind,
        ("BacklogExceeded", _) => EventReason::BacklogExceeded,
        _ => return None,
    };
    Some(Event { reason, note: cut(&verdict.message, NOTE_BYTES) })
}
