//! Points in time and the little arithmetic that the rules need.
//!
//! Time is always an argument: nothing here or elsewhere in the crate reads a
//! clock. All arithmetic saturates, so a nonsensical clock can make a rule
//! late but can never make it panic.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

/// An absolute point in time, UTC.
pub type Timestamp = DateTime<Utc>;

/// `start + wait`, saturating at the end of representable time.
pub fn after(start: Timestamp, wait: Duration) -> Timestamp {
    TimeDelta::from_std(wait).ok().and_then(|delta| start.checked_add_signed(delta)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// How long ago `since` was; zero when the clock has gone back behind it.
pub fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    (now - since).to_std().unwrap_or(Duration::ZERO)
}

/// `2026-11-30T01:02:03Z`, the form that Kubernetes prints.
pub fn rfc3339(at: Timestamp) -> String {
    at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}
