//! The published backoff contract, for runs and for task retries alike.
//!
//! `delay(n) = min(maxDelay, initialDelay * multiplier^(n-1)) * (1 + jitter * u)`
//!
//! - `n` counts consecutive failures from 1; attempts are unlimited for runs.
//! - `u` in `[0, 1)` is drawn once, at the failure. The resulting absolute time
//!   is stored and never recomputed, so a restart of the supervisor neither
//!   shortens nor lengthens a wait.
//! - A stored time further ahead than `maxDelay * (1 + jitter)` can only come
//!   from a clock that went back or from a lowered `maxDelay`; it is clamped to
//!   `now + maxDelay`.
//!
//! The counter `n` is kept elsewhere (`memory`); when it grows and when it is
//! reset is the business of `decide`.

use std::time::Duration;

use weir_crds::policy::{RestartPolicy, TaskRetryPolicy};

use crate::time::{Timestamp, after};

/// The four numbers of the formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure, before jitter.
    pub initial_delay: Duration,
    /// Growth per further failure; an integer from 1 to 10.
    pub multiplier: u32,
    /// Upper bound of the delay, before jitter.
    pub max_delay: Duration,
    /// Width of the jitter: 20 adds up to a fifth.
    pub jitter_percent: u32,
}

impl Backoff {
    /// The numbers of `spec.restart`.
    pub fn between_runs(restart: &RestartPolicy) -> Backoff {
        Backoff {
            initial_delay: restart.initial_delay,
            multiplier: restart.multiplier,
            max_delay: restart.max_delay,
            jitter_percent: restart.jitter_percent,
        }
    }

    /// The numbers of `spec.taskRetry` with the jitter of `spec.restart`.
    pub fn of_tasks(retry: &TaskRetryPolicy, restart: &RestartPolicy) -> Backoff {
        Backoff {
            initial_delay: retry.initial_delay,
            multiplier: retry.multiplier,
            max_delay: retry.max_delay,
            jitter_percent: restart.jitter_percent,
        }
    }

    /// The delay after the `failures`-th consecutive failure (0 is taken as 1), in whole milliseconds.
    pub fn delay(&self, failures: u32, draw: f64) -> Duration {
        let base = u128::from(self.multiplier)
            .checked_pow(failures.saturating_sub(1))
            .and_then(|factor| factor.checked_mul(self.initial_delay.as_millis()))
            .map_or(self.max_delay.as_millis(), |grown| grown.min(self.max_delay.as_millis()));
        self.spread(base, draw)
    }

    /// The longest base delay with jitter: what a failure that no retry can heal waits.
    pub fn delay_at_maximum(&self, draw: f64) -> Duration {
        self.spread(self.max_delay.as_millis(), draw)
    }

    /// `maxDelay * (1 + jitter)`: no stored time may lie further ahead.
    pub fn longest(&self) -> Duration {
        self.spread(self.max_delay.as_millis(), 1.0)
    }

    /// `at`, or `now + maxDelay` when `at` lies further ahead than any delay can.
    pub fn clamp(&self, at: Timestamp, now: Timestamp) -> Timestamp {
        if at > after(now, self.longest()) { after(now, self.max_delay) } else { at }
    }

    fn spread(&self, base_millis: u128, draw: f64) -> Duration {
        let base = u64::try_from(base_millis).unwrap_or(u64::MAX);
        let jitter = base as f64 * f64::from(self.jitter_percent) / 100.0 * draw.clamp(0.0, 1.0);
        Duration::from_millis(base.saturating_add(jitter as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: Backoff =
        Backoff { initial_delay: Duration::from_secs(10), multiplier: 2, max_delay: Duration::from_secs(300), jitter_percent: 20 };

    #[test]
    fn the_delay_doubles_up_to_the_maximum() {
        let seconds: Vec<u64> = (1..=8).map(|n| PUBLISHED.delay(n, 0.0).as_secs()).collect();
        assert_eq!(seconds, [10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(PUBLISHED.delay(u32::MAX, 0.0).as_secs(), 300);
    }

    #[test]
    fn jitter_adds_at_most_its_percentage() {
        assert_eq!(PUBLISHED.delay(1, 0.5), Duration::from_millis(11_000));
        assert_eq!(PUBLISHED.longest(), Duration::from_secs(360));
    }

    #[test]
    fn a_time_that_no_delay_can_reach_is_clamped() {
        let now = Timestamp::UNIX_EPOCH;
        let possible = after(now, Duration::from_secs(360));
        assert_eq!(PUBLISHED.clamp(possible, now), possible);
        assert_eq!(PUBLISHED.clamp(after(possible, Duration::from_secs(1)), now), after(now, Duration::from_secs(300)));
    }
}
