//! The grammar of references to container images: what a container runtime can pull.
//!
//! One grammar for `spec.image` of a manifest and for the images that an
//! installation is told. The resource definition bounds the length only: a
//! pattern there would keep the status of a job that was stored before it from
//! being written.

use std::net::Ipv6Addr;

/// What may be written, for people.
pub const GRAMMAR: &str =
    "an image is [REGISTRY[:PORT]/]NAME[:TAG][@DIGEST] without blanks, the name in lower case, such as registry.example.com/weir:0.1.0";

/// Longest repository with its registry, longest tag, and longest label of a host's name.
const REPOSITORY_LENGTH: usize = 255;
const TAG_LENGTH: usize = 128;
const LABEL_LENGTH: usize = 63;

/// Whether a text names an image.
pub fn is_reference(text: &str) -> bool {
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
        None => text.split('.').all(is_label),
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

/// A part of a host's name.
fn is_label(text: &str) -> bool {
    let is_end = |end: Option<char>| end.is_some_and(|letter| letter.is_ascii_alphanumeric());
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    text.len() <= LABEL_LENGTH && text.chars().all(is_allowed) && is_end(text.chars().next()) && is_end(text.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(is_reference(good), "{good}");
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
            assert!(!is_reference(bad), "{bad}");
        }
    }
}
