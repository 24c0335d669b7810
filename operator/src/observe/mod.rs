//! From what the API server and the tasks say to the supervisor's words.
//!
//! Pure: objects and answers that were read elsewhere go in, facts come out.
//! `node` judges a pod's node, `pod` how far a pod is, `exit` how it ended.
//! What these facts mean for the job is decided by the supervisor alone.

pub mod exit;
pub mod node;
pub mod pod;

pub use node::{NodeState, Vanished, node_state, vanished};
pub use pod::{Answers, has_ended, instance, phase, unknown_instance};

use weir_supervisor::Timestamp;

/// A time of the API, which is not in the future: clocks of nodes may run ahead of ours.
fn timestamp(time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time, now: Timestamp) -> Timestamp {
    let at = Timestamp::from_timestamp(time.0.as_second(), time.0.subsec_nanosecond().unsigned_abs());
    at.map_or(now, |at| at.min(now))
}
