//! What a command line may say: each value is read once, at the door.
//!
//! Names are those that the API server accepts, an image is a reference that a
//! container runtime can pull, durations lie between bounds in which they mean
//! something. A refusal says what is allowed.

use std::net::Ipv6Addr;
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
/// Longest repository with its registry, and longest tag.
const REPOSITORY_LENGTH: usize = 255;
const TAG_LENGTH: usize = 128;

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

/// A reference to an image.
pub fn image(text: &str) -> Result<String, String> {
    if is_image(text) {
        return Ok(text.to_owned());
    }
    Err("an image is [REGISTRY[:PORT]/]NAME[:TAG][@DIGEST] without blanks, the name in lower case, such as registry.example.com/weir:0.1.0"
        .to_owned())
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

fn is_image(text: &str) -> bool {
    let (tagged, digest) = text.split_once('@').map_or((text, None), |(tagged, digest)| (tagged, Some(digest)));
    // A colon before the last slash is that of a port.
    let (repository, tag) = match tagged.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (tagged, None),
    };
    let path = match repository.split_once('/') {
        Some((registry, path)) if registry.contains(['.', ':']) || registry == "localhost" => is_registry(registry).then_some(path),
        _ => Some(repository),
    };
    repository.len() <= REPOSITORY_LENGTH
        && path.is_some_and(|path| path.split('/').all(is_component))
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
}

fn is_registry(text: &str) -> bool {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => is_host(host) && port.parse::<u16>().is_ok(),
        _ => is_host(text),
    }
}

fn is_host(text: &str) -> bool {
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => text.split('.').all(|label| is_label(&label.to_ascii_lowercase())),
    }
}

/// Letters and digits with separators between them: one dot, one or two underscores, any number of hyphens.
fn is_component(text: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let separators = text.split(is_word).filter(|separator| !separator.is_empty());
    let is_separator = |separator: &str| matches!(separator, "." | "_" | "__") || separator.chars().all(|letter| letter == '-');
    text.starts_with(is_word) && text.ends_with(is_word) && separators.into_iter().all(is_separator)
}

fn is_tag(text: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.len() <= TAG_LENGTH && text.starts_with(is_word) && text.chars().all(|letter| is_word(letter) || ".-".contains(letter))
}

fn is_digest(text: &str) -> bool {
    const SHORTEST: usize = 32;
    let Some((algorithm, value)) = text.split_once(':') else { return false };
    let is_algorithm = algorithm.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && algorithm.chars().all(|letter| letter.is_ascii_alphanumeric() || "+._-".contains(letter));
    is_algorithm && value.len() >= SHORTEST && value.chars().all(|letter| letter.is_ascii_hexdigit())
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
    fn images_are_references() {
        let digest = format!("sha256:{}", "0f".repeat(32));
        let with_digest = [format!("weir@{digest}"), format!("localhost:5000/a/weir:1@{digest}")];
        for good in [
            "weir",
            "weir:0.1.0",
            "library/weir",
            "ghcr.io/weir/weir-operator:v1_2.3-rc",
            "localhost/weir",
            "10.0.0.1:5000/a__b/c.d--e:T",
            "[fd00::1]:5000/weir",
            "[::1]/weir",
        ]
        .into_iter()
        .chain(with_digest.iter().map(String::as_str))
        {
            assert_eq!(image(good).as_deref(), Ok(good));
        }
        let long = "a".repeat(256);
        for bad in [
            "",
            " ",
            "weir ",
            "we ir",
            "Weir",
            "weir:",
            "weir:a b",
            "weir:-x",
            "/weir",
            "weir/",
            "a//b",
            "weir@sha256:12",
            "weir@",
            "a._b",
            "x:y:z",
        ]
        .into_iter()
        .chain(["http://weir", "host.io:port/weir", "[::x]/weir", "weir\n", "${IMAGE}", long.as_str()])
        {
            assert!(image(bad).unwrap_err().contains("[REGISTRY[:PORT]/]NAME"), "{bad}");
        }
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
