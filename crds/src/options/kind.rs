//! The types of option values: how a text is read, and how a bad one is refused.
//!
//! Where Spark has a text for a bad value (`FileStreamOptions`, `RateStreamProvider`), the
//! text here is the same. Reading is total: every text gives a value or a message.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::duration::{TimeUnit, parse_time_string};

/// Offsets to start or end at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offsets {
    /// The oldest record of every partition.
    Earliest,
    /// Behind the newest record of every partition.
    Latest,
    /// Per topic and partition; -2 is earliest, -1 is latest.
    Specific(BTreeMap<String, BTreeMap<i32, i64>>),
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text; choices are in the spelling of the table.
    Text(String),
    /// A yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A length of time.
    Time(Duration),
    /// Offsets.
    Offsets(Offsets),
    /// Topics with partitions.
    Partitions(BTreeMap<String, Vec<i32>>),
}

/// The type of an option.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// Any text but an empty one.
    NonEmpty,
    /// A folder, file or URL.
    Path,
    /// `true` or `false`.
    Bool,
    /// A whole number within bounds.
    Int { min: i64, max: i64 },
    /// A number within bounds.
    Float { min: f64, max: f64 },
    /// One of some words, without regard to case.
    Choice(&'static [&'static str]),
    /// A Spark time string.
    Time(TimeUnit),
    /// At most one character, or an escape such as `\t`.
    Character,
    /// One or more characters.
    Separator,
    /// A regular expression.
    Regex,
    /// A file name pattern.
    Glob,
    /// A list with commas.
    CommaList,
    /// `{"topic":[0,1]}`.
    Partitions,
    /// `earliest`, `latest` or `{"topic":{"0":23}}`.
    Offsets,
    /// `{"topic":{"0":1700000000000}}`.
    Timestamps,
    /// Milliseconds since 1970.
    EpochMillis,
    /// A whole number from 0, or a JSON object.
    Version,
    /// A whole number from 0, or `latest`.
    VersionOrLatest,
    /// `true`, `false` or a whole number.
    Truncate,
    /// A size such as `256m`; bare: bytes.
    Bytes,
    /// A size that is not 0.
    PositiveBytes,
    /// A time zone: `UTC`, an offset, or a region.
    TimeZone,
}

/// A whole number from 1.
pub const POSITIVE_INT: Kind = Kind::Int { min: 1, max: i32::MAX as i64 };
/// A whole number from 1 that may be large.
pub const POSITIVE_LONG: Kind = Kind::Int { min: 1, max: i64::MAX };
/// A whole number from 0.
pub const COUNT: Kind = Kind::Int { min: 0, max: i32::MAX as i64 };

impl Kind {
    /// The greatest value, where a text is a whole number beyond it.
    pub fn exceeded(&self, text: &str) -> Option<i64> {
        let Kind::Int { max, .. } = self else { return None };
        let digits = text.trim().trim_start_matches('+').trim_start_matches('0');
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // What has more digits than any number here is beyond all of them.
        (is_whole && digits.parse::<i64>().map_or(true, |value| value > *max)).then_some(*max)
    }

    /// Reads a text. The error completes the sentence "must be …".
    pub fn parse(&self, text: &str) -> Result<Value, String> {
        match self {
            Kind::Text => Ok(Value::Text(text.to_owned())),
            Kind::NonEmpty | Kind::Path | Kind::CommaList | Kind::Separator | Kind::Glob => {
                if text.trim().is_empty() && !matches!(self, Kind::Separator) || text.is_empty() {
                    Err(format!("must be {}, not empty", self.in_words()))
                } else {
                    Ok(Value::Text(text.to_owned()))
                }
            }
            Kind::Bool => match text.trim().to_ascii_lowercase().as_str() {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                _ => Err("must be 'true' or 'false'".to_owned()),
            },
            Kind::Int { min, max } => match text.trim().parse::<i64>() {
                Ok(value) if (*min..=*max).contains(&value) => Ok(Value::Int(value)),
                _ => Err(format!("must be {}", self.in_words())),
            },
            Kind::Float { min, max } => match text.trim().parse::<f64>() {
                Ok(value) if (*min..=*max).contains(&value) => Ok(Value::Float(value)),
                _ => Err(format!("must be {}", self.in_words())),
            },
            Kind::Choice(words) => words
                .iter()
                .find(|word| word.eq_ignore_ascii_case(text.trim()))
                .map(|word| Value::Text((*word).to_owned()))
                .ok_or_else(|| format!("must be one of {}", words.join(", "))),
            Kind::Time(unit) => parse_time_string(text, *unit).map(Value::Time),
            Kind::Character => character(text).map(Value::Text),
            Kind::Regex => match regex::Regex::new(text) {
                Ok(_) if !text.trim().is_empty() => Ok(Value::Text(text.to_owned())),
                Ok(_) => Err("must be a regular expression, not empty".to_owned()),
                Err(error) => {
                    let reason = error.to_string();
                    let reason = reason.lines().last().unwrap_or("").trim_start_matches("error: ").to_owned();
                    Err(format!("must be a regular expression: {reason}"))
                }
            },
            Kind::Partitions => super::offsets::parse_partitions(text).map(Value::Partitions),
            Kind::Offsets => super::offsets::parse_offsets(text).map(Value::Offsets),
            Kind::Timestamps => super::offsets::parse_timestamps(text).map(|map| Value::Offsets(Offsets::Specific(map))),
            Kind::EpochMillis => match text.trim().parse::<i64>() {
                Ok(value) if value >= 0 => Ok(Value::Int(value)),
                _ => Err(format!("must be {}", self.in_words())),
            },
            Kind::Version => match text.trim().parse::<i64>() {
                Ok(value) if value >= 0 => Ok(Value::Int(value)),
                _ => Err(format!("must be {}", self.in_words())),
            },
            Kind::VersionOrLatest if text.trim().eq_ignore_ascii_case("latest") => Ok(Value::Text("latest".to_owned())),
            Kind::VersionOrLatest => match text.trim().parse::<i64>() {
                Ok(value) if value >= 0 => Ok(Value::Int(value)),
                _ => Err(format!("must be {}", self.in_words())),
            },
            Kind::PositiveBytes => {
                bytes(text).filter(|size| *size > 0).map(Value::Int).ok_or_else(|| format!("must be {}", self.in_words()))
            }
            Kind::Bytes => bytes(text).map(Value::Int).ok_or_else(|| format!("must be {}", self.in_words())),
            Kind::TimeZone => {
                let zone = text.trim();
                let known = zone.chars().all(|c| c.is_ascii_alphanumeric() || "/_+-:".contains(c));
                if known && !zone.is_empty() && zone.len() <= 64 {
                    Ok(Value::Text(zone.to_owned()))
                } else {
                    Err(format!("must be {}", self.in_words()))
                }
            }
            Kind::Truncate => match text.trim().to_ascii_lowercase().as_str() {
                "true" => Ok(Value::Int(20)),
                "false" => Ok(Value::Int(0)),
                number => match number.parse::<i64>() {
                    Ok(value) if value >= 0 => Ok(Value::Int(value)),
                    _ => Err(format!("must be {}", self.in_words())),
                },
            },
        }
    }

    /// The type in words, as errors and the reference page say it.
    pub fn in_words(&self) -> String {
        const INT_MAX: i64 = i32::MAX as i64;
        match self {
            Kind::Text => "a string".to_owned(),
            Kind::NonEmpty => "a string".to_owned(),
            Kind::Path => "a folder, file or URL".to_owned(),
            Kind::Bool => "true or false".to_owned(),
            Kind::Int { min: 1, max: INT_MAX } => "a positive integer".to_owned(),
            Kind::Int { min: 1, max: i64::MAX } => "a positive integer (long)".to_owned(),
            Kind::Int { min, max: INT_MAX | i64::MAX } => format!("an integer greater than or equal to {min}"),
            Kind::Int { min, max } => format!("an integer from {min} to {max}"),
            Kind::Float { min, max } => format!("a positive float between {min} and {max}"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Time(TimeUnit::Milliseconds) => "a time such as 500ms, 15m or 7d (bare: milliseconds)".to_owned(),
            Kind::Time(TimeUnit::Seconds) => "a time such as 30s, 15m or 7d (bare: seconds)".to_owned(),
            Kind::Character => "at most one character".to_owned(),
            Kind::Separator => "one or more characters".to_owned(),
            Kind::Regex => "a regular expression".to_owned(),
            Kind::Glob => "a file name pattern".to_owned(),
            Kind::CommaList => "a list with commas".to_owned(),
            Kind::Partitions => r#"JSON such as {"topic":[0,1]}"#.to_owned(),
            Kind::Offsets => r#"earliest, latest, or JSON such as {"topic":{"0":23,"1":-2}}"#.to_owned(),
            Kind::Timestamps => r#"JSON such as {"topic":{"0":1700000000000}}"#.to_owned(),
            Kind::EpochMillis => "milliseconds since 1970, UTC".to_owned(),
            Kind::Version => "a version number from 0".to_owned(),
            Kind::VersionOrLatest => "a version number from 0, or latest".to_owned(),
            Kind::PositiveBytes => "a size such as 10g or 64m (bare: bytes), more than 0".to_owned(),
            Kind::Bytes => "a size such as 64m or 1g (bare: bytes)".to_owned(),
            Kind::TimeZone => "a time zone such as UTC, +02:00 or Europe/Berlin".to_owned(),
            Kind::Truncate => "true, false or a number of characters".to_owned(),
        }
    }

    /// Values that can be listed.
    pub fn allowed(&self) -> Vec<String> {
        match self {
            Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
            Kind::Bool => vec!["true".to_owned(), "false".to_owned()],
            _ => Vec::new(),
        }
    }
}

/// Reads a character as `CSVExprUtils.toChar` does; empty stands for "none".
fn character(text: &str) -> Result<String, String> {
    let unescaped = match text {
        "\\t" => "\t",
        "\\r" => "\r",
        "\\n" => "\n",
        "\\b" => "\u{8}",
        "\\f" => "\u{c}",
        "\\\"" => "\"",
        "\\'" => "'",
        "\\\\" => "\\",
        "\\u0000" | "\\0" => "\0",
        other => other,
    };
    if unescaped.chars().count() <= 1 { Ok(unescaped.to_owned()) } else { Err("must be at most one character".to_owned()) }
}

/// Reads a size as `JavaUtils.byteStringAs` does; units are powers of 1024.
fn bytes(text: &str) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(1 << shift)
}
