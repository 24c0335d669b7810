//! The one place in the tests that polls.
//!
//! [`eventually`] asks a question until the answer is there or the deadline has passed. Deadlines are generous and only bound a failure;
//! a passing test never waits for one. Use it where no event can be had (a file that appears, a state behind an HTTP interface).

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// A deadline that a healthy machine of two busy cores never reaches.
pub const GENEROUS: Duration = Duration::from_secs(120);

const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is `Some`; after `deadline` an error that names `what` was waited for.
pub fn eventually<T>(what: &str, deadline: Duration, mut ask: impl FnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + deadline;
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if Instant::now() >= end {
            bail!("waited {deadline:?} in vain for: {what}");
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_answer_counts() {
        let mut asked = 0;
        let answer = eventually("three", GENEROUS, || {
            asked += 1;
            (asked == 3).then_some(asked)
        });
        assert_eq!(answer.unwrap(), 3);
    }

    #[test]
    fn a_missed_deadline_names_what_was_waited_for() {
        let error = eventually("the moon", Duration::from_millis(1), || None::<()>).unwrap_err();
        assert!(error.to_string().contains("the moon"), "{error}");
    }
}
