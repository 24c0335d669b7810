//! The right to write: held while this process leads.
//!
//! Judged on the monotonic clock right before each call, so that a process
//! that was frozen and thawed sends nothing on the strength of a lease that
//! has lapsed. What was sent before is caught by `resourceVersion`, name and UID.

use tokio::sync::watch;
use tokio::time::Instant;

use crate::lease::Leadership;

/// Whether this process may write.
#[derive(Clone)]
pub enum Authority {
    /// Always: it is the only one, or no election was asked for.
    Alone,
    /// While it leads.
    Elected(watch::Receiver<Leadership>),
}

impl Authority {
    /// Whether it may write now.
    pub fn holds(&self) -> bool {
        match self {
            Authority::Alone => true,
            Authority::Elected(leadership) => leadership.borrow().leads_at(Instant::now()),
        }
    }
}
