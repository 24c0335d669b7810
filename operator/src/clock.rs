//! Time as an argument: the system's clock, or one that a test moves.
//!
//! Decisions take their time from here and nowhere else. Waiting is left to
//! the controller's queue, which asks again after a jump of the clock.

use chrono::{DateTime, Utc};

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> DateTime<Utc>;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}
