//! The nearest-rank percentile of durations.

use std::time::Duration;

/// The smallest sample that at least `percent` of all samples do not exceed; zero without samples.
pub fn percentile(samples: &[Duration], percent: usize) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}
