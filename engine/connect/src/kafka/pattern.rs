//! `subscribePattern`: a Java regular expression over topic names.
//!
//! Spark asks whether the pattern is found anywhere in the name, so an
//! unanchored pattern matches a part. Rust's `regex` runs the same syntax in
//! bounded time, but has no look-around, back references, possessive
//! quantifiers or atomic groups: those are refused by name, never approximated.

use regex::Regex;
use weir_core::{Error, Result};

/// A compiled topic pattern and the text it came from.
#[derive(Clone, Debug)]
pub struct TopicPattern {
    text: String,
    regex: Regex,
}

impl TopicPattern {
    /// Compiles a pattern.
    pub fn parse(text: &str) -> Result<Self> {
        let refused = |why: String| {
            Error::config(
                "INVALID_OPTION_VALUE",
                format!("the Kafka option subscribePattern is '{text}': {why}; write the pattern without it"),
            )
        };
        if let Some(construct) = unsupported(text) {
            return Err(refused(format!("{construct} of Java's regular expressions are not supported")));
        }
        let regex = Regex::new(&translate(text)).map_err(|e| refused(e.to_string()))?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// Whether a topic belongs to the subscription.
    pub fn matches(&self, topic: &str) -> bool {
        self.regex.is_match(topic)
    }

    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The first construct that only a backtracking engine has.
fn unsupported(text: &str) -> Option<&'static str> {
    for (found, what) in [
        ("(?=", "look-ahead groups"),
        ("(?!", "look-ahead groups"),
        ("(?<=", "look-behind groups"),
        ("(?<!", "look-behind groups"),
        ("(?>", "atomic groups"),
    ] {
        if unescaped(text, found) {
            return Some(what);
        }
    }
    if ["*+", "++", "?+", "}+"].iter().any(|possessive| unescaped(text, possessive)) {
        return Some("possessive quantifiers");
    }
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            match characters.next() {
                Some('1'..='9' | 'k') => return Some("back references"),
                Some('G') => return Some("the boundary \\G"),
                _ => {}
            }
        }
    }
    None
}

/// Whether `found` occurs with no backslash before it and outside of a character class.
fn unescaped(text: &str, found: &str) -> bool {
    let mut escaped = false;
    let mut in_class = false;
    for (at, character) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        if !in_class && text[at..].starts_with(found) {
            return true;
        }
        match character {
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
    }
    false
}

/// `\Q...\E` becomes escaped text; `\Z` is the end.
fn translate(text: &str) -> String {
    let mut translated = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\Q") {
        translated.push_str(&rest[..at].replace("\\Z", "\\z"));
        let quoted = &rest[at + 2..];
        let (literal, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        translated.push_str(&regex::escape(literal));
        rest = after;
    }
    translated.push_str(&rest.replace("\\Z", "\\z"));
    translated
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_pattern_is_found_anywhere_in_the_name() {
        let matches = |pattern: &str, topic: &str| TopicPattern::parse(pattern).unwrap().matches(topic);
        assert!(matches("p-.*", "p-a") && matches("p-", "xp-a") && matches("", "t"));
        assert!(!matches("^p-", "xp-a") && matches("\\Qa.b\\E", "a.b") && !matches("\\Qa.b\\E$", "aXb"));
        assert!(matches("[a-z&&[^b]]", "c") && matches("(?i)ABC", "abc") && matches("a[*+]b", "a+b"));
    }

    #[test]
    fn what_only_java_has_is_refused_by_name() {
        for (pattern, word) in [
            ("(?!x)t", "look-ahead"),
            ("(?<=x)t", "look-behind"),
            ("(a)\\1", "back references"),
            ("a*+", "possessive"),
            ("(?>a)", "atomic"),
        ] {
            let error = TopicPattern::parse(pattern).unwrap_err();
            assert!(error.message().contains(word) && error.message().contains("subscribePattern"), "{error}");
        }
        assert!(TopicPattern::parse("(").is_err());
    }
}
