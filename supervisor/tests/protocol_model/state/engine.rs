//! The half of the state that lives outside the API server: processes, the
//! checkpoint that they share, and the sink.
//!
//! A batch is a range of input positions, so that a batch that is lost,
//! repeated or planned in two ways shows in the sink.

use super::{Node, Pod};

/// The process of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pub job: u8,
    pub epoch: u8,
    pub node: Node,
    pub step: Step,
    pub batch: u8,
    pub start: u8,
    /// End of the planned batch; 0 while there is no plan.
    pub end: u8,
    pub facts: Facts,
    /// SIGTERM has reached it.
    pub stop: bool,
    /// Its pod was given up on a stated path: node lost under `ReplaceWhenFenced`, a human.
    pub given_up: bool,
    /// The highest epoch seen, for the exit report.
    pub report: u8,
}

/// What recovery has read, as numbers of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Facts {
    pub recorded: u8,
    pub planned: u8,
    pub committed: u8,
}

/// The next thing that a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    NotStarted,
    Owner,
    Epoch,
    Recheck,
    ReadSink,
    List,
    CleanUp,
    Look,
    Plan,
    PlanTaken,
    LookAgain,
    Execute,
    Commit,
    CommitTaken,
    Ended,
}

/// The most batches and epochs that any bound has.
pub const ROOM: usize = 8;

/// The files of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Checkpoint {
    /// Job UIDs of `_weir/owner/<n>`.
    pub owners: Vec<u8>,
    /// Instance by epoch of `_weir/epochs`; 0: no such file.
    pub epochs: [u8; ROOM],
    /// Epochs of `_weir/released`, as bits.
    pub released: u8,
    /// `offsets/<n>`: start and end.
    pub offsets: [Option<(u8, u8)>; ROOM],
    /// `commits/<n>`, as bits.
    pub commits: u8,
}

/// A batch that took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Effect {
    pub batch: u8,
    pub start: u8,
    pub end: u8,
    pub epoch: u8,
}

impl Process {
    pub fn new(pod: &Pod) -> Process {
        Process { job: pod.job, epoch: pod.epoch, node: pod.node, step: Step::NotStarted, ..Process::gone() }
    }

    /// The one form of a process that nothing depends on any more.
    pub fn gone() -> Process {
        let (batch, start, end, report) = (0, 0, 0, 0);
        let (stop, given_up) = (false, false);
        let facts = Facts::default();
        Process { job: 0, epoch: 0, node: Node::Second, step: Step::Ended, batch, start, end, facts, stop, given_up, report }
    }

    pub fn is_running(&self) -> bool {
        !matches!(self.step, Step::NotStarted | Step::Ended)
    }
}

impl Checkpoint {
    pub fn highest_claim(&self) -> u8 {
        self.epochs.iter().rposition(|instance| *instance != 0).unwrap_or(0) as u8
    }

    pub fn planned(&self) -> u8 {
        self.offsets.iter().rposition(Option::is_some).map_or(0, |newest| newest as u8 + 1)
    }

    pub fn committed(&self) -> u8 {
        (u8::BITS - self.commits.leading_zeros()) as u8
    }
}
