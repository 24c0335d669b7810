//! A query's checkpoint in Spark's layout, and Weir's own files beside it.
//!
//! `fence` and `log` are the writing discipline that everything shares.

pub mod fence;
pub mod log;

pub use fence::Fence;
pub use log::{Appended, FencedLog};
