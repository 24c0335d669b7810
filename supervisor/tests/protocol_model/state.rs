//! Everything that the model remembers: API server, cluster, checkpoint, sink.
//!
//! Kept small on purpose. Times, phases before the end and messages are left
//! out: any step may come at any time, so a freeze is a step that comes late.
//! A `resourceVersion` is modelled by its only use: whether somebody has
//! written since it was read (`fresh`). What can no longer have an effect is
//! brought to one form by `normal`, so that equal futures are one state.

use crate::protocol::{Mutant, Protocol};

mod engine;

pub use engine::*;

/// How often each trouble may still come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Troubles {
    /// SIGKILL of a process.
    pub crashes: u8,
    /// An answer of the checkpoint's store or of the sink that is lost after the commit.
    pub lost_answers: u8,
    /// The first node stops answering.
    pub partitions: u8,
    /// Somebody deletes the pod with grace 0.
    pub force_deletes: u8,
    /// `weir.dev/confirm-terminated`.
    pub vouchers: u8,
    /// The status is wiped.
    pub wipes: u8,
    /// `suspend: true`.
    pub suspends: u8,
    /// The job is deleted and applied again.
    pub recreations: u8,
}

/// One state of the whole system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub job: Job,
    /// The one object of the slot's name.
    pub pod: Option<Pod>,
    /// Whether the first node does not answer.
    pub node_lost: bool,
    /// The epoch of the pod that was removed last, where its last state was an end (0: it was not).
    pub told_end: u8,
    pub operators: Vec<Operator>,
    /// By pod UID, from 1.
    pub processes: Vec<Process>,
    pub checkpoint: Checkpoint,
    /// Effects in the sink, in their order.
    pub sink: Vec<Effect>,
    pub left: Troubles,
    pub history: History,
}

/// The job object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job {
    pub uid: u8,
    pub suspend: bool,
    /// `weir.dev/confirm-terminated`.
    pub vouched: Option<u8>,
    pub status: Status,
}

/// What the operator wrote ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Status {
    pub counter: u8,
    pub slot: Slot,
}

/// The status's idea of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Slot {
    /// Nothing, or what was there has been accounted for.
    #[default]
    Free,
    /// A create was written ahead and has not been seen carried out.
    Ordered(u8),
    /// The pod of this epoch was seen.
    Seen { epoch: u8, node: Node },
}

impl Slot {
    pub fn epoch(self) -> Option<u8> {
        match self {
            Slot::Free => None,
            Slot::Ordered(epoch) | Slot::Seen { epoch, .. } => Some(epoch),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// The one that may be cut off.
    First,
    /// Where pods go while it is.
    Second,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    pub uid: u8,
    /// UID of the controller owner.
    pub job: u8,
    pub epoch: u8,
    pub node: Node,
    /// A deletion timestamp is set.
    pub deleting: bool,
    /// The terminal phase, with the highest epoch that the exit report names (0: none).
    pub end: Option<u8>,
}

/// One operator process: where it is between its calls, and what it believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// Knows nothing: idle, or just restarted.
    Idle,
    /// Has read the job.
    HasJob { job: Job, fresh: bool },
    /// Has read the pod too and decided; the status write comes next.
    Writing { next: Status, then: Option<Call>, fresh: bool },
    /// The status is written, or needed no write; the call comes next.
    Calling(Call),
}

/// A call that changes the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    Create { job: u8, epoch: u8 },
    Delete { uid: u8 },
    ForceDelete { uid: u8 },
}

/// What nobody in the system knows, kept for the properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct History {
    /// Epochs of the current job UID that a pod was created with, as bits.
    pub used: u8,
    /// The highest epoch of the current job UID that was ever reserved.
    pub reserved: u8,
    pub wiped: bool,
    /// It was wiped at a bad moment, or a human took the pod away after it: no operator can know what was reserved.
    pub excused: bool,
    /// Then the API server held no trace of the highest reserved epoch any more.
    pub forgotten: bool,
    /// Two pods had one epoch of one job UID while it was not forgotten.
    pub shared: bool,
    /// The same after it was forgotten.
    pub shared_forgotten: bool,
    /// A process refused a checkpoint as damaged, restored or another sink's; none ever is.
    pub refused: bool,
    /// A process was fenced (exit 22).
    pub fenced: bool,
    /// The epoch of the newest pod that was force-deleted on a lost node.
    pub replaced: u8,
}

impl State {
    pub fn new(operators: usize, left: Troubles) -> State {
        State {
            job: Job { uid: 1, suspend: false, vouched: None, status: Status::default() },
            pod: None,
            node_lost: false,
            told_end: 0,
            operators: vec![Operator::Idle; operators],
            processes: Vec::new(),
            checkpoint: Checkpoint::default(),
            sink: Vec::new(),
            left,
            history: History::default(),
        }
    }

    pub fn process(&mut self, uid: u8) -> &mut Process {
        &mut self.processes[usize::from(uid) - 1]
    }

    /// Somebody wrote the job: every `resourceVersion` read before is out of date.
    pub fn job_was_written(&mut self) {
        for operator in &mut self.operators {
            if let Operator::HasJob { fresh, .. } | Operator::Writing { fresh, .. } = operator {
                *fresh = false;
            }
        }
    }

    /// Brings states with equal futures to one form.
    pub fn normal(mut self, protocol: &Protocol) -> State {
        let here = self.pod.map(|pod| pod.uid);
        for operator in &mut self.operators {
            let doomed = match operator {
                Operator::Writing { fresh, .. } => !*fresh && protocol.mutant != Some(Mutant::NoPrecondition),
                Operator::Calling(Call::Delete { uid } | Call::ForceDelete { uid }) => {
                    here != Some(*uid) && protocol.mutant != Some(Mutant::DeleteByName)
                }
                _ => false,
            };
            if doomed {
                *operator = Operator::Idle;
            }
        }
        self.operators.sort_unstable();
        if self.job.status.slot.epoch() != Some(self.told_end) && self.pod.is_none_or(|pod| pod.epoch != self.told_end) {
            self.told_end = 0;
        }
        for (at, process) in self.processes.iter_mut().enumerate() {
            if process.step == Step::Ended && here != Some(at as u8 + 1) {
                *process = Process::gone();
            }
        }
        let label = self.pod.filter(|pod| pod.job == self.job.uid).map_or(0, |pod| pod.epoch);
        let remembered = self.job.status.counter.max(label);
        self.history.reserved = self.history.reserved.max(remembered);
        self.history.forgotten |= self.history.excused && remembered < self.history.reserved;
        self
    }
}
