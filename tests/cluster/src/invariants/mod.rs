//! What must hold in every test of the operator, whatever it disturbs.
//!
//! A [`Recorder`] watches the pods and jobs of a namespace and keeps every
//! version; [`Recorder::check`] judges them afterwards. [`one_run`] judges
//! processes and stores. Pure functions do the judging, so each has a test; a
//! test that breaks an invariant on purpose (a wiped status) says which.

mod judge;
mod kstatus;
mod recorder;

use std::fmt;

pub use judge::{Version, condition, epochs_of_pods, judge_versions};
pub use kstatus::{Kstatus, kstatus};
pub use recorder::{Recorder, job_resource};

use crate::kubelet::Overlap;
use crate::standin::Store;

/// The invariants by the names that the design gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invariant {
    /// No two processes of a task at once, each batch once, epochs of commits never down.
    I1,
    /// Epochs only rise, and no two pods of a job share one.
    I2,
    /// `observedGeneration` never goes down and never runs ahead.
    I4,
    /// `lastTransitionTime` changes exactly with `status`.
    I5,
    /// kstatus says Current only of a job that is well or intentionally idle.
    I6,
    /// The status has at most 32 KiB.
    I9,
    /// Twelve conditions; Reconciling and Stalled are never both True.
    I10,
}

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.what)
    }
}

/// I1: no overlap of processes, and stores in which each batch took effect once.
pub fn one_run<'a>(overlaps: &[Overlap], stores: impl IntoIterator<Item = &'a Store>) -> Result<(), Vec<String>> {
    let mut wrong: Vec<String> = overlaps.iter().map(|overlap| format!("I1: {overlap}")).collect();
    wrong.extend(stores.into_iter().flat_map(|store| store.verify()).map(|what| format!("I1: {what}")));
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}
