//! Running a plan: inputs in slots, the clock of the batch, observations.
//!
//! A lane owns one physical plan and everything in it that changes between two
//! runs: the slots that hold the input, the clock, the accumulators. They reach
//! the plan through the session's extension `LaneState` when it is planned.

mod barrier;
mod cache;
mod clock;
pub(crate) mod folding;
mod judge;
mod lane;
mod observe;
mod planner;
mod slot;

pub use barrier::BarrierNode;
pub(crate) use barrier::shielded;
pub use cache::StaticTable;
pub use clock::{BatchTime, batch_time_expr};
pub(crate) use judge::{Judges, judge_plans};
pub use lane::LANE_POOL_BYTES;
pub use lane::Lane;
pub(crate) use lane::{base_state, optimize};
pub use observe::{AggregateSpec, ObserveNode, ObservedPartial, Observer, merge_observed};
pub use slot::StreamTable;
