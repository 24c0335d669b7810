//! A query's checkpoint in Spark's layout, and Weir's own files beside it.
//!
//! `claim` takes the checkpoint for one epoch, `fence` and `log` are the
//! writing discipline that everything shares, `entries` the files' texts,
//! `checksum` what an
//! entry vouches for itself with, `numbered` and `shape` what the names of the files tell,
//! `owner` and `recovery` the pure decisions, `query` the handle that the
//! driver works with, `inspect` what `weir checkpoint show` prints.

pub mod checksum;
pub mod claim;
pub mod copy;
pub mod entries;
pub mod fence;
pub mod inspect;
pub mod log;
pub mod numbered;
pub mod owner;
pub mod query;
pub mod recovery;
pub mod shape;

pub use claim::{Claim, Claimant, claim};
pub use entries::{CommitEntry, OffsetEntry};
pub use fence::Fence;
pub use log::{Appended, FencedLog};
pub use owner::Owner;
pub use query::{BindSink, BoundSink, QueryLog, Recorded};
pub use recovery::Recovery;
