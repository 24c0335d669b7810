//! Leader election over a `coordination.k8s.io/v1` Lease.
//!
//! A candidate never compares the record's times with a clock of its own: it
//! measures, on its monotonic clock, how long the record has not changed. A
//! leader counts its time from *before* it sent the renewal that succeeded and
//! stops after `renewDeadline`; another takes over `leaseDuration` after it
//! *saw* that renewal. So the two never overlap while the clocks run at speeds
//! that differ by less than the two durations do; where they stand, and whether
//! they jump, does not matter. The one-run protocol does not rest on this: it
//! only spares two operators from doing the same work.
//!
//! [`decide`](decide()) is the rule, [`Elector`] the candidate without I/O,
//! [`LeaseHolder`] runs it, [`while_leading`] runs what a leader does.

mod api;
mod decide;
mod elector;
mod holder;
mod lead;
#[cfg(test)]
mod tests;

pub use api::{KubeLease, LeaseApi, LeaseError};
pub use decide::{Durations, DurationsError, Identity, LeaseAction, Seen, Sight, decide, next_spec};
pub use elector::{Answer, Call, Elector, Step};
pub use holder::{Leadership, LeaseHolder};
pub use lead::while_leading;
