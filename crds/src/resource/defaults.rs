//! The default values of the resource's fields, one function each, as serde and the CRD need them.
//!
//! The schema writes what these return into the CRD, so the API server, the local runner and
//! the reference page show the same defaults.

use crate::duration::WeirDuration;

pub(super) fn ten_seconds() -> WeirDuration {
    WeirDuration::from_secs(10)
}

pub(super) fn one_minute() -> WeirDuration {
    WeirDuration::from_secs(60)
}

pub(super) fn five_minutes() -> WeirDuration {
    WeirDuration::from_secs(300)
}

pub(super) fn ten_minutes() -> WeirDuration {
    WeirDuration::from_secs(600)
}

pub(super) fn fifteen_minutes() -> WeirDuration {
    WeirDuration::from_secs(900)
}

pub(super) fn zero() -> WeirDuration {
    WeirDuration::from_secs(0)
}

pub(super) fn doubling() -> i32 {
    2
}

pub(super) fn jitter_percent() -> i32 {
    20
}

pub(super) fn failure_threshold() -> i32 {
    3
}

pub(super) fn max_retries() -> i32 {
    3
}

pub(super) fn falling_behind_batches() -> i32 {
    5
}

pub(super) fn utc() -> String {
    "UTC".to_owned()
}
