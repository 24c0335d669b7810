//! What a command line may say: each value is read once, at the door.
//!
//! Names are those that the API server accepts, an image is a reference that a
//! container runtime can pull, durations lie between bounds in which they mean
//! something. A refusal says what is allowed.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_crds::duration::WeirDuration;

use crate::lease::Durations;

/// Shortest and longest pace of polls.
const POLL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);
/// Shortest and longest time between two writes of progress.
const PROGRESS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// Shortest and longest lease; it is stored in whole seconds.
const LEASE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
/// Longest DNS label, and the API server's longest name of an object.
const LABEL_LENGTH: usize = 63;
const NAME_LENGTH: usize = 253;

/// The name of a namespace.
pub fn namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!("a namespace is 1 to {LABEL_LENGTH} lower-case letters, digits and hyphens, with a letter or digit at both ends"))
}

/// The name of a pod.
pub fn instance(text: &str) -> Result<String, String> {
    if text.len() <= NAME_LENGTH && text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    Err("the name of a pod is lower-case letters, digits, hyphens and dots, with a letter or digit beside each dot and at both ends"
        .to_owned())
}

/// A reference to an image, by the grammar that manifests are held to.
pub fn image(text: &str) -> Result<String, String> {
    if weir_crds::image::is_reference(text) {
        return Ok(text.to_owned());
    }
    Err(weir_crds::image::GRAMMAR.to_owned())
}

/// `--poll-interval`.
pub fn poll_interval(text: &str) -> Result<Duration, String> {
    within(text, &POLL)
}

/// `--progress-interval`.
pub fn progress_interval(text: &str) -> Result<Duration, String> {
    within(text, &PROGRESS)
}

/// `--lease-duration`.
pub fn lease(text: &str) -> Result<Durations, String> {
    Durations::of_lease(within(text, &LEASE)?).map_err(|error| error.to_string())
}

fn within(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let duration = text.parse::<WeirDuration>().map_err(|error| error.to_string())?.as_duration();
    if bounds.contains(&duration) {
        return Ok(duration);
    }
    Err(format!("it must be {:?} to {:?}, such as {:?}", bounds.start(), bounds.end(), bounds.start().max(&Duration::from_secs(10))))
}

fn is_label(text: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    let is_allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    text.len() <= LABEL_LENGTH && text.chars().all(is_allowed) && is_end(text.chars().next()) && is_end(text.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_api_server_accepts() {
        let longest = "a".repeat(63);
        for good in ["a", "weir-system", "0-9", longest.as_str()] {
            assert_eq!(namespace(good).as_deref(), Ok(good));
            assert_eq!(instance(good).as_deref(), Ok(good));
        }
        let too_long = "a".repeat(64);
        for bad in ["", "A B", "A", "a_b", "-a", "a-", "a/b", "ä", " a", too_long.as_str()] {
            assert!(namespace(bad).unwrap_err().contains("lower-case letters"), "{bad}");
            assert!(instance(bad).is_err(), "{bad}");
        }
        assert!(instance("pod.example-1").is_ok() && namespace("pod.example-1").is_err());
        assert!(instance("a..b").is_err() && instance(&["a"; 150].join(".")).is_err());
    }

    #[test]
    fn an_image_is_held_to_the_grammar_of_manifests() {
        assert_eq!(image("localhost:5000/a/weir:1").as_deref(), Ok("localhost:5000/a/weir:1"));
        assert!(image("Weir").unwrap_err().contains("[REGISTRY[:PORT]/]NAME"));
    }

    #[test]
    fn durations_have_bounds() {
        assert_eq!(poll_interval("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(progress_interval("1m30s"), Ok(Duration::from_secs(90)));
        assert!(lease("15s").is_ok());
        for refused in [poll_interval("0s"), poll_interval("99ms"), poll_interval("2h"), progress_interval("0s")] {
            assert!(refused.unwrap_err().contains("it must be"));
        }
        assert!(lease("0s").is_err() && lease("999ms").is_err() && lease("99999h").is_err());
        assert!(poll_interval("10").unwrap_err().contains("is not a duration"));
    }
}
