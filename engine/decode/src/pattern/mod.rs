//! Spark's date and time patterns: java.time.format.DateTimeFormatter under
//! the restrictions of Spark 3 and later.
//!
//! A pattern is compiled once, for parsing or for formatting, and refused at
//! that moment if Spark refuses it. Resolution is strict; missing date fields
//! become 1970-01-01, missing time fields zero. Text is English. Source:
//! org.apache.spark.sql.catalyst.util.{TimestampFormatter,
//! DateTimeFormatterHelper} and the JDK's DateTimeFormatterBuilder.

mod compile;
mod names;
mod read;
mod write;

use crate::error::DecodeError;
use crate::time::{DateTime, Zone};

/// What a pattern is for: some letters only format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Text to fields; a run of `S` takes 1 to that many digits.
    Parse,
    /// Fields to text.
    Format,
}

/// A calendar or clock field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Year,
    YearOfEra,
    Month,
    Day,
    DayOfYear,
    Hour24,
    ClockHour24,
    Hour12,
    ClockHour12,
    Minute,
    Second,
    Quarter,
    AlignedWeekday,
}

/// How a number shows its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Normal,
    ExceedsPad,
    Never,
}

/// Short or full name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Short,
    Full,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Literal(String),
    /// Digits; `reserved` are those that fixed-width neighbours need.
    Number {
        field: Field,
        min: u32,
        max: u32,
        sign: Sign,
        reserved: u32,
    },
    /// Two digits of the century 2000 to 2099.
    TwoDigitYear {
        field: Field,
        reserved: u32,
    },
    Fraction {
        min: u32,
        max: u32,
    },
    Month(Style),
    Weekday(Style),
    Quarter(Style),
    AmPm,
    Era(Style),
    ZoneId,
    ZoneName(Style),
    /// `+HHmm` shapes of x, X and Z; `zero` is the text of no offset.
    Offset {
        shape: OffsetShape,
        zero: &'static str,
    },
    /// `GMT+8` or `GMT+08:00`.
    LocalizedOffset(Style),
    Optional(Vec<Item>),
}

/// Which parts of an offset are written, and with colons or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetShape {
    pub minutes: Minutes,
    pub seconds: bool,
    pub colon: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Minutes {
    IfNonZero,
    Always,
}

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct DatePattern {
    text: String,
    items: Vec<Item>,
}

/// What a parse found: a local date and time and, if the text named one, its zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// Local date and time.
    pub local: DateTime,
    /// The zone in the text.
    pub zone: Option<Zone>,
}

impl DatePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION` for
    /// what only Spark 2 understood, `INVALID_DATETIME_PATTERN.*` otherwise.
    pub fn parse(pattern: &str, purpose: Purpose) -> Result<Self, DecodeError> {
        let items = compile::compile(pattern, purpose)?;
        Ok(Self { text: pattern.to_owned(), items })
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reads the whole text; nothing if it does not fit.
    pub fn read(&self, text: &str) -> Option<Parsed> {
        read::read(&self.items, text)
    }

    /// Reads an instant; text without a zone is local time of `zone`.
    pub fn read_instant(&self, text: &str, zone: &Zone) -> Option<i64> {
        let parsed = self.read(text)?;
        parsed.zone.as_ref().unwrap_or(zone).to_instant(parsed.local.to_local_micros()?)
    }

    /// Reads local microseconds; a zone in the text is refused unless allowed.
    pub fn read_local(&self, text: &str, allow_zone: bool) -> Option<i64> {
        let parsed = self.read(text)?;
        if parsed.zone.is_some() && !allow_zone {
            return None;
        }
        parsed.local.to_local_micros()
    }

    /// Reads a day number.
    pub fn read_days(&self, text: &str) -> Option<i32> {
        self.read(text).map(|parsed| parsed.local.days)
    }

    /// Writes an instant as local time of `zone`.
    ///
    /// # Errors
    /// A field that the value cannot have, which is a defect of the pattern.
    pub fn format_instant(&self, micros: i64, zone: &Zone) -> Result<String, DecodeError> {
        let local = DateTime::from_local_micros(zone.to_local(micros));
        self.write(local, Some((micros, zone)))
    }

    /// Writes a local date and time.
    ///
    /// # Errors
    /// A zone letter in the pattern: local time has no zone.
    pub fn format_local(&self, micros: i64) -> Result<String, DecodeError> {
        self.write(DateTime::from_local_micros(micros), None)
    }

    /// Writes a day number.
    ///
    /// # Errors
    /// A time or zone letter in the pattern: a date has neither.
    pub fn format_days(&self, days: i32) -> Result<String, DecodeError> {
        self.write(DateTime { days, micros_of_day: 0 }, None)
    }

    fn write(&self, local: DateTime, zone: Option<(i64, &Zone)>) -> Result<String, DecodeError> {
        let mut out = String::with_capacity(self.text.len() + 8);
        write::write(&self.items, local, zone, &mut out).map_err(|missing| {
            DecodeError::new(
                "INVALID_DATETIME_PATTERN",
                format!("The pattern `{}` asks for {missing}, which the value does not have.", self.text),
            )
        })?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests;
