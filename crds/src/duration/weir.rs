//! Weir's own duration: `1m30s`, as `^([0-9]{1,5}(h|m|s|ms)){1,4}$`.
//!
//! The pattern is also what the API server checks, and a subset of what CEL's `duration()`
//! reads, so rules such as `initialDelay <= maxDelay` compare the same values everywhere.
//! The text is kept as written, so that a manifest and the object read back are the same;
//! comparison and hashing are by value (`60s` equals `1m`).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The pattern of a Weir duration, as the CRD carries it.
pub const DURATION_PATTERN: &str = "^([0-9]{1,5}(h|m|s|ms)){1,4}$";

/// A length of time in Weir's notation. Resolution: one millisecond.
#[derive(Clone)]
pub struct WeirDuration {
    text: String,
    millis: u64,
}

/// Why a text is not a Weir duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a duration: write one to four numbers of at most five digits, each with h, m, s or ms, for example 90s or 1m30s")]
pub struct DurationError {
    text: String,
}

impl WeirDuration {
    /// A whole number of seconds, written in the largest units that fit.
    pub fn from_secs(seconds: u32) -> Self {
        Self::from_millis(u64::from(seconds) * 1000)
    }

    /// A number of milliseconds, written in the largest units that fit.
    pub fn from_millis(millis: u64) -> Self {
        let parts = [(3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
        let mut rest = millis;
        let mut text = String::new();
        for (size, unit) in parts {
            if rest >= size {
                text.push_str(&format!("{}{unit}", rest / size));
                rest %= size;
            }
        }
        if text.is_empty() {
            text.push_str("0s");
        }
        Self { text, millis }
    }

    /// The value.
    pub fn as_duration(&self) -> Duration {
        Duration::from_millis(self.millis)
    }

    /// The value in milliseconds.
    pub fn as_millis(&self) -> u64 {
        self.millis
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for WeirDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || DurationError { text: text.chars().take(64).collect() };
        let mut rest = text;
        let mut millis = 0u64;
        let mut parts = 0;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 || digits > 5 || parts == 4 {
                return Err(error());
            }
            let (number, tail) = rest.split_at(digits);
            let (size, unit) = if tail.starts_with("ms") {
                (1, 2)
            } else if tail.starts_with('s') {
                (1000, 1)
            } else if tail.starts_with('m') {
                (60_000, 1)
            } else if tail.starts_with('h') {
                (3_600_000, 1)
            } else {
                return Err(error());
            };
            let number: u64 = number.parse().map_err(|_| error())?;
            millis += number * size;
            rest = &tail[unit..];
            parts += 1;
        }
        if parts == 0 {
            return Err(error());
        }
        Ok(Self { text: text.to_owned(), millis })
    }
}

impl PartialEq for WeirDuration {
    fn eq(&self, other: &Self) -> bool {
        self.millis == other.millis
    }
}

impl Eq for WeirDuration {}

impl PartialOrd for WeirDuration {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WeirDuration {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.millis.cmp(&other.millis)
    }
}

impl Hash for WeirDuration {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.millis.hash(state);
    }
}

impl fmt::Debug for WeirDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for WeirDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for WeirDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for WeirDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for WeirDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WeirDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": DURATION_PATTERN,
            "maxLength": 28,
            "x-weir-type": "duration",
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_documented_forms() {
        for (text, millis) in [("0s", 0), ("10s", 10_000), ("1m30s", 90_000), ("500ms", 500), ("1h1m1s1ms", 3_661_001), ("30s1m", 90_000)] {
            assert_eq!(text.parse::<WeirDuration>().unwrap().as_millis(), millis, "{text}");
        }
        for text in ["", "10", "s", "1d", "-1s", "1 s", "100000s", "1s1s1s1s1s", "1.5s", "١s"] {
            assert!(text.parse::<WeirDuration>().is_err(), "{text}");
        }
    }

    #[test]
    fn compares_by_value_and_keeps_the_text() {
        let minute: WeirDuration = "60s".parse().unwrap();
        assert_eq!(minute, "1m".parse().unwrap());
        assert_eq!(minute.to_string(), "60s");
        assert!(minute < "61s".parse().unwrap());
    }

    proptest! {
        #[test]
        fn agrees_with_the_published_pattern(text in "[0-9hms. -]{0,16}") {
            let pattern = regex::Regex::new(DURATION_PATTERN).unwrap();
            prop_assert_eq!(text.parse::<WeirDuration>().is_ok(), pattern.is_match(&text));
        }

        #[test]
        fn canonical_text_reads_back(millis in 0u64..99_999 * 3_600_000) {
            let written = WeirDuration::from_millis(millis);
            prop_assert_eq!(written.as_str().parse::<WeirDuration>().unwrap().as_millis(), millis);
        }

        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = text.parse::<WeirDuration>();
        }
    }
}
