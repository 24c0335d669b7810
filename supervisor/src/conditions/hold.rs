//! Conditions of a job of which nothing may be decided, and what earlier ones are worth.
//!
//! A job is held where deciding would break a promise: its memory is not kept,
//! is lost, that of a later version or past reading, or the pass itself fails. Nothing is
//! ordered, nobody looks, and the conditions say so; the remedy is in the
//! message. What was shown to people is the truth about transitions, also after
//! the memory was lost.

use weir_crds::resource::CONDITION_TYPES;

use super::{Condition, ConditionStatus, Reason, Verdict, settle, table};
use crate::events::{Event, EventReason};
use crate::text::{NOTE_BYTES, cut};
use crate::time::Timestamp;

/// Why nothing may be decided about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// What is stored does not contain the memory.
    StatusNotKept,
    /// The memory is that of a later version.
    StatusTooNew {
        /// `status.epoch`, which the way out names.
        epoch: u64,
        /// Whether the way out was already written when this came.
        early: bool,
        /// What is known of the version.
        why: String,
    },
    /// The memory is there, and no reader takes it.
    MemoryUnreadable {
        /// `status.epoch`, which the way out names.
        epoch: u64,
        /// Whether the way out was already written when this came.
        early: bool,
        /// Why.
        why: String,
    },
    /// The memory is gone or damaged, the job has run, and no fence makes harmless what may be forgotten.
    MemoryLost {
        /// `status.epoch`, which the way out names.
        epoch: u64,
        /// Whether the way out was already written when this came.
        early: bool,
        /// What became of it.
        why: String,
    },
    /// What is in force is not kept any more, and the newest generation is not accepted.
    GenerationLost {
        /// The generation in force.
        generation: i64,
        /// Why the newest one is refused; none while that is not known.
        refusal: Option<String>,
    },
    /// Looking at the job fails by a defect of the shell.
    InternalError {
        /// What the defect says of itself.
        words: String,
    },
}

impl Hold {
    /// The reason of `Stalled` and `Ready`.
    pub fn reason(&self) -> Reason {
        match self {
            Hold::StatusNotKept => Reason::StatusNotKept,
            Hold::StatusTooNew { .. } => Reason::StatusTooNew,
            Hold::MemoryUnreadable { .. } => Reason::StatusUnreadable,
            Hold::MemoryLost { .. } => Reason::MemoryLost,
            Hold::GenerationLost { .. } => Reason::GenerationLost,
            Hold::InternalError { .. } => Reason::InternalError,
        }
    }

    /// What is wrong, and the remedy.
    pub fn message(&self) -> String {
        match self {
            Hold::StatusNotKept => "the API server drops status.memory, so nothing may be started: the served resource definition is \
                                    older than this operator; apply the output of `weir-operator crd`"
                .to_owned(),
            Hold::StatusTooNew { epoch, early, why } => format!("{why}. Run that version again, or {}", way_out(*epoch, *early)),
            Hold::MemoryUnreadable { epoch, early, why } => format!(
                "status.memory cannot be read ({why}), so nothing is started or stopped: it was not written by Weir. Restore it, \
                 or {}",
                way_out(*epoch, *early)
            ),
            Hold::MemoryLost { epoch, early, why } => format!(
                "{why} although this job has run, so a pod that vanished unseen may be forgotten and nothing is started or stopped. Once no \
                 process of the job is alive but in its pods, {}",
                way_out(*epoch, *early)
            ),
            Hold::GenerationLost { generation, refusal: None } => format!(
                "the ConfigMap of generation {generation}, which is in force, is gone or does not bear the seal of this operator, and the \
                 newest generation is not accepted yet, so nothing is started or stopped: this ends with its check"
            ),
            Hold::GenerationLost { generation, refusal: Some(why) } => format!(
                "the ConfigMap of generation {generation}, which is in force, is gone or does not bear the seal of this operator, and the \
                 newest generation is refused, so nothing is started or stopped: mend the manifest ({why})"
            ),
            Hold::InternalError { words } => {
                format!("looking at this job fails by a defect of the operator, other jobs go on: {words}")
            }
        }
    }

    /// The epoch that a human's word for this hold names, and whether that word was written before it came; none where no
    /// word helps.
    pub fn word(&mut self) -> Option<(u64, &mut bool)> {
        match self {
            Hold::StatusTooNew { epoch, early, .. }
            | Hold::MemoryUnreadable { epoch, early, .. }
            | Hold::MemoryLost { epoch, early, .. } => Some((*epoch, early)),
            Hold::StatusNotKept | Hold::GenerationLost { .. } | Hold::InternalError { .. } => None,
        }
    }

    /// Whether conditions show this very hold, and say that its way out had been written before it came.
    pub fn is_shown(&self, conditions: &[Condition]) -> Option<bool> {
        let is_it =
            |shown: &&Condition| shown.kind == "Stalled" && shown.status == ConditionStatus::True && shown.reason == self.reason().as_str();
        conditions.iter().find(is_it).map(|shown| shown.message.contains(EARLY))
    }

    fn event(&self) -> Event {
        let reason = match self {
            Hold::StatusNotKept | Hold::StatusTooNew { .. } | Hold::MemoryUnreadable { .. } | Hold::MemoryLost { .. } => {
                EventReason::StatusUnreadable
            }
            Hold::GenerationLost { .. } => EventReason::GenerationLost,
            Hold::InternalError { .. } => EventReason::InternalError,
        };
        Event { reason, note: cut(&self.message(), NOTE_BYTES) }
    }
}

/// What a hold says of a word that was there before it.
const EARLY: &str = "which was there before and so is no answer to this";

fn way_out(epoch: u64, early: bool) -> String {
    let verb = if early { format!("remove that annotation, {EARLY}, and then annotate") } else { "annotate".to_owned() };
    format!(
        "{verb} weir.dev/discard-memory: \"{epoch}\" to go on without counters and timers, above every epoch that can be found; a deletion \
         stops the pods and waits for that word too, or for weir.dev/skip-graceful-stop: \"true\""
    )
}

/// The conditions of a job that is held, and the warning where that is new.
pub fn held(known: &[Condition], hold: &Hold, generation: i64, now: Timestamp) -> (Vec<Condition>, Option<Event>) {
    let core = table::held(hold.reason(), hold.message());
    let unknown = || Verdict::unknown(hold.reason(), "");
    let mut verdicts = vec![core.ready, core.reconciling, core.stalled, unknown(), core.running];
    verdicts.resize_with(CONDITION_TYPES.len(), unknown);
    let was_held = hold.is_shown(known).is_some();
    let settled = CONDITION_TYPES.into_iter().zip(verdicts).map(|(kind, verdict)| settle(kind, verdict, known, generation, now));
    (settled.collect(), (!was_held).then(|| hold.event()))
}

/// What is known of earlier conditions: those that are shown, with the finer times of the memory where it says the same.
pub fn recalled(shown: &[Condition], remembered: &[Condition]) -> Vec<Condition> {
    let find = |all: &[Condition], kind: &str| all.iter().find(|condition| condition.kind == kind).cloned();
    let known = CONDITION_TYPES.into_iter().filter_map(|kind| match (find(shown, kind), find(remembered, kind)) {
        (Some(shown), Some(remembered)) if is_same(&shown, &remembered) => Some(remembered),
        (shown, remembered) => shown.or(remembered),
    });
    known.collect()
}

/// Whether a condition is shown as it is remembered; what is shown has whole seconds.
fn is_same(shown: &Condition, remembered: &Condition) -> bool {
    shown.status == remembered.status && shown.last_transition_time.timestamp() == remembered.last_transition_time.timestamp()
}
