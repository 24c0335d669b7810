//! Text to typed values by Spark's rules for data sources.
//!
//! `Formats` holds the session zone and the patterns of one reader; the
//! conversions are those that CSV columns, partition values and quoted JSON
//! values need. They return nothing for text that does not fit: the caller's
//! mode decides what that means.

use crate::column::{Column, Kind};
use crate::error::DecodeError;
use crate::number::{parse_decimal, parse_double};
use crate::pattern::{DatePattern, Purpose};
use crate::time::iso::trim;
use crate::time::{Zone, parse_date, parse_timestamp, parse_timestamp_ntz};

/// The zone and the patterns of a reader. No pattern means the ISO forms.
#[derive(Clone, Debug)]
pub struct Formats {
    /// Zone of timestamps that name none.
    pub zone: Zone,
    /// `timestampFormat`.
    pub timestamp: Option<DatePattern>,
    /// `timestampNTZFormat`.
    pub timestamp_ntz: Option<DatePattern>,
    /// `dateFormat`.
    pub date: Option<DatePattern>,
}

impl Formats {
    /// ISO forms in the given zone.
    pub fn iso(zone: Zone) -> Self {
        Self { zone, timestamp: None, timestamp_ntz: None, date: None }
    }

    /// Compiles the patterns that options carry.
    ///
    /// # Errors
    /// A pattern that Spark refuses.
    pub fn new(zone: Zone, timestamp: Option<&str>, timestamp_ntz: Option<&str>, date: Option<&str>) -> Result<Self, DecodeError> {
        let compile = |text: Option<&str>| text.map(|pattern| DatePattern::parse(pattern, Purpose::Parse)).transpose();
        Ok(Self { zone, timestamp: compile(timestamp)?, timestamp_ntz: compile(timestamp_ntz)?, date: compile(date)? })
    }

    /// Microseconds of an instant.
    #[inline]
    pub fn timestamp(&self, text: &[u8]) -> Option<i64> {
        match &self.timestamp {
            Some(pattern) => pattern.read_instant(std::str::from_utf8(text).ok()?, &self.zone),
            None => parse_timestamp(text, &self.zone).or_else(|| {
                // Spark 1.5 wrote zones as GMT+01:00.
                let text = std::str::from_utf8(text).ok()?;
                let cleaned = text.contains("GMT").then(|| text.replacen("GMT", "", 1))?;
                parse_timestamp(cleaned.as_bytes(), &self.zone)
            }),
        }
    }

    /// Local microseconds.
    pub fn timestamp_ntz(&self, text: &[u8]) -> Option<i64> {
        match &self.timestamp_ntz {
            Some(pattern) => pattern.read_local(std::str::from_utf8(text).ok()?, false),
            None => parse_timestamp_ntz(text, false),
        }
    }

    /// Days.
    pub fn date(&self, text: &[u8]) -> Option<i32> {
        match &self.date {
            Some(pattern) => pattern.read_days(std::str::from_utf8(text).ok()?),
            None => parse_date(text),
        }
    }
}

impl Column {
    /// Appends the value of a CSV field or partition value: false, and nothing
    /// appended, if the text does not fit the column's type. Null values are
    /// the caller's business (`append_null`), for CSV by `nullValue`.
    pub fn append_text(&mut self, text: &str, formats: &Formats) -> bool {
        let bytes = text.as_bytes();
        let appended = match &mut self.kind {
            Kind::Boolean(bits) => {
                let value =
                    if text.eq_ignore_ascii_case("true") { Some(true) } else { text.eq_ignore_ascii_case("false").then_some(false) };
                value.map(|value| bits.append(value))
            }
            Kind::Int8(values) => text.parse().ok().map(|value| values.push(value)),
            Kind::Int16(values) => text.parse().ok().map(|value| values.push(value)),
            Kind::Int32(values) => text.parse().ok().map(|value| values.push(value)),
            Kind::Int64(values) => text.parse().ok().map(|value| values.push(value)),
            Kind::Float32(values) => java_double(text).map(|value| {
                // Parsed again so that the value is rounded once.
                let narrow = trim_type_suffix(text).parse().unwrap_or(value as f32);
                values.push(narrow);
            }),
            Kind::Float64(values) => java_double(text).map(|value| values.push(value)),
            Kind::Decimal { values, precision, scale } => parse_decimal(bytes, *precision, *scale).map(|value| values.push(value)),
            Kind::Date(values) => formats.date(bytes).map(|value| values.push(value)),
            Kind::Timestamp(values) => formats.timestamp(bytes).map(|value| values.push(value)),
            Kind::TimestampNtz(values) => formats.timestamp_ntz(bytes).map(|value| values.push(value)),
            Kind::Text(out) | Kind::Binary(out) => {
                out.push(bytes);
                Some(())
            }
            Kind::Null | Kind::List { .. } | Kind::Map { .. } | Kind::Struct(_) => None,
        };
        if appended.is_some() {
            self.validity.push_valid();
        }
        appended.is_some()
    }
}

/// Without blanks and the `f` or `d` that Java's parser takes.
fn trim_type_suffix(text: &str) -> &str {
    let text = std::str::from_utf8(trim(text.as_bytes())).unwrap_or("");
    text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text)
}

/// `java.lang.Double.parseDouble` and Spark's names for what is not finite.
fn java_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => return Some(f64::NAN),
        "Inf" | "+Inf" | "Infinity" | "+Infinity" => return Some(f64::INFINITY),
        "-Inf" | "-Infinity" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    let body = trim_type_suffix(text);
    let numeric = body.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    numeric.then(|| parse_double(body.as_bytes())).flatten()
}
