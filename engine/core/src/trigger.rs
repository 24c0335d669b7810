//! When the next trigger fires: Spark's `ProcessingTimeExecutor` arithmetic.
//!
//! Ticks are multiples of the interval since the epoch, not since the start.
//! The first trigger fires at once; an overrun skips the missed ticks and goes
//! on at once. Pure: the clock is an argument.

use std::time::Duration;

/// The four micro-batch triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Interval zero is the default trigger: the next batch starts at once,
    /// and an idle query polls.
    ProcessingTime(Duration),
    /// All that is there now, in batches under the limits; then the end.
    AvailableNow,
    /// All that is there now in one batch; then the end.
    Once,
}

impl Trigger {
    /// True for triggers after which the query ends by itself.
    pub fn ends_by_itself(self) -> bool {
        matches!(self, Self::AvailableNow | Self::Once)
    }
}

/// How long to wait after a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Now,
    /// Until this time, ms since the epoch.
    Until(i64),
}

/// The wait after a trigger that started at `started_ms` and ended at
/// `ended_ms`; `ran` says whether it executed a batch, `polling_ms` is
/// `spark.sql.streaming.pollingDelay`.
pub fn wait_after(interval: Duration, started_ms: i64, ended_ms: i64, ran: bool, polling_ms: i64) -> Wait {
    let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
    let until = match (interval, ran) {
        (0, true) => return Wait::Now,
        (0, false) => ended_ms.saturating_add(polling_ms),
        _ => next_tick(interval, started_ms),
    };
    if until <= ended_ms { Wait::Now } else { Wait::Until(until) }
}

/// The first multiple of the interval after `now_ms`.
fn next_tick(interval_ms: i64, now_ms: i64) -> i64 {
    now_ms.div_euclid(interval_ms).saturating_mul(interval_ms).saturating_add(interval_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn ticks_are_aligned_and_missed_ones_skipped() {
        assert_eq!(wait_after(SECOND, 35_027, 35_500, true, 10), Wait::Until(36_000));
        assert_eq!(wait_after(SECOND, 35_027, 38_484, true, 10), Wait::Now);
        assert_eq!(wait_after(SECOND, 36_000, 36_001, false, 10), Wait::Until(37_000));
        assert_eq!(wait_after(Duration::ZERO, 5, 7, true, 10), Wait::Now);
        assert_eq!(wait_after(Duration::ZERO, 5, 7, false, 10), Wait::Until(17));
    }

    proptest! {
        #[test]
        fn a_wait_is_never_longer_than_the_interval(interval in 1u64..100_000, start in 0i64..1_000_000_000, took in 0i64..200_000) {
            let end = start + took;
            match wait_after(Duration::from_millis(interval), start, end, true, 10) {
                Wait::Now => prop_assert!(took as u64 > 0),
                Wait::Until(until) => {
                    prop_assert_eq!(until % interval as i64, 0);
                    prop_assert!(until > end && until - end <= interval as i64);
                }
            }
        }
    }
}
