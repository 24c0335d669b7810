//! Spark's calendar intervals (`10 minutes`, `interval 1 hour 30 seconds`), as
//! `IntervalUtils.stringToInterval` reads them, and the two places where they mean a length of time.
//!
//! `processingTime` refuses months and years, because they have no fixed length
//! (`ProcessingTimeTrigger.convert`); a watermark's `delay` counts 31 days to a month
//! (`EventTimeWatermark.getDelayMs`). Both also take a Weir duration, and refuse a negative length.

use std::time::Duration;

use super::WeirDuration;

/// A calendar interval: months and days have no fixed length, so they are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SparkInterval {
    /// Years and months.
    pub months: i32,
    /// Weeks and days.
    pub days: i32,
    /// Everything below a day, in microseconds.
    pub micros: i64,
}

/// Why a text is not an interval, or not one that its field can take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntervalError {
    /// The text cannot be read.
    #[error(
        "[INVALID_INTERVAL_FORMAT.{condition}] Error parsing '{text}' to interval: {reason}; write for example 10 seconds, 5 minutes or 1m30s"
    )]
    Unreadable {
        /// Subclass of Spark's error condition.
        condition: &'static str,
        /// The text, shortened.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Months have no fixed length.
    #[error("`{0}` counts in months or years, whose length varies; write days, hours, minutes or seconds")]
    Months(String),
    /// A length below zero.
    #[error("`{0}` is negative, but the interval should not be negative; write zero or a positive length")]
    Negative(String),
}

const MICROS_PER_DAY: i64 = 86_400_000_000;
const DAYS_PER_MONTH: i64 = 31;

/// Reads `processingTime`.
pub fn parse_processing_time(text: &str) -> Result<Duration, IntervalError> {
    if let Ok(own) = text.parse::<WeirDuration>() {
        return Ok(own.as_duration());
    }
    let interval = parse_interval(text)?;
    if interval.months != 0 {
        return Err(IntervalError::Months(shortened(text)));
    }
    length(text, interval)
}

/// Reads a watermark's `delay`.
pub fn parse_delay(text: &str) -> Result<Duration, IntervalError> {
    if let Ok(own) = text.parse::<WeirDuration>() {
        return Ok(own.as_duration());
    }
    length(text, parse_interval(text)?)
}

fn length(text: &str, interval: SparkInterval) -> Result<Duration, IntervalError> {
    let days = i64::from(interval.months) * DAYS_PER_MONTH + i64::from(interval.days);
    let micros = days
        .checked_mul(MICROS_PER_DAY)
        .and_then(|micros| micros.checked_add(interval.micros))
        .ok_or_else(|| unreadable(text, Reason("ARITHMETIC_EXCEPTION", "it is too long to be counted in microseconds".to_owned())))?;
    let millis = micros.div_euclid(1000);
    u64::try_from(millis).map(Duration::from_millis).map_err(|_| IntervalError::Negative(shortened(text)))
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Subclass of Spark's error condition, and the reason in words.
struct Reason(&'static str, String);

fn unreadable(text: &str, Reason(condition, reason): Reason) -> IntervalError {
    IntervalError::Unreadable { condition, text: shortened(text), reason }
}

/// Reads a calendar interval.
pub(super) fn parse_interval(text: &str) -> Result<SparkInterval, IntervalError> {
    let lower = text.trim().to_ascii_lowercase();
    let body = match lower.strip_prefix("interval") {
        Some(rest) if rest.starts_with(char::is_whitespace) => rest,
        Some(_) => return Err(unreadable(text, Reason("INVALID_PREFIX", "a space is missing after `interval`".to_owned()))),
        None => lower.as_str(),
    };
    let mut words = Words { rest: body.trim_start() };
    let mut total = SparkInterval::default();
    let mut parts = 0;
    while !words.rest.is_empty() {
        let (negative, whole, fraction) = words.number().map_err(|reason| unreadable(text, reason))?;
        let unit = words.unit();
        let amount = Amount { negative, whole, fraction };
        total = amount.add_to(total, unit).map_err(|reason| unreadable(text, reason))?;
        parts += 1;
    }
    if parts == 0 {
        return Err(unreadable(text, Reason("INPUT_IS_EMPTY", "it is empty".to_owned())));
    }
    Ok(total)
}

struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// Sign, whole part and nanoseconds of the fraction.
    fn number(&mut self) -> Result<(bool, i64, Option<i64>), Reason> {
        let mut negative = false;
        if let Some(tail) = self.rest.strip_prefix(['+', '-']) {
            negative = self.rest.starts_with('-');
            self.rest = tail.trim_start();
        }
        let digits = self.digits();
        let mut fraction = None;
        if let Some(tail) = self.rest.strip_prefix('.') {
            self.rest = tail;
            let nanos = self.digits();
            if nanos.len() > 9 {
                return Err(Reason("INVALID_PRECISION", "a fraction has at most nine digits".to_owned()));
            }
            if digits.is_empty() && nanos.is_empty() {
                return Err(Reason("MISSING_NUMBER", "a number is missing".to_owned()));
            }
            fraction =
                Some(format!("{nanos:0<9}").parse().map_err(|_| Reason("INVALID_VALUE", "the fraction is not a number".to_owned()))?);
        } else if digits.is_empty() {
            let word: String = self.rest.split_whitespace().next().unwrap_or_default().chars().take(24).collect();
            return Err(Reason("UNRECOGNIZED_NUMBER", format!("`{word}` is not a number")));
        }
        let whole = if digits.is_empty() {
            0
        } else {
            digits.parse().map_err(|_| Reason("ARITHMETIC_EXCEPTION", "the number is too large".to_owned()))?
        };
        if !self.rest.starts_with(char::is_whitespace) {
            return Err(Reason("INVALID_VALUE", "a space and a unit must follow the number".to_owned()));
        }
        self.rest = self.rest.trim_start();
        Ok((negative, whole, fraction))
    }

    fn digits(&mut self) -> &'a str {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, tail) = self.rest.split_at(count);
        self.rest = tail;
        digits
    }

    fn unit(&mut self) -> &'a str {
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (unit, tail) = self.rest.split_at(end);
        self.rest = tail.trim_start();
        unit
    }
}

struct Amount {
    negative: bool,
    whole: i64,
    fraction: Option<i64>,
}

impl Amount {
    fn add_to(&self, mut total: SparkInterval, unit: &str) -> Result<SparkInterval, Reason> {
        let too_large = || Reason("ARITHMETIC_EXCEPTION", "the number is too large".to_owned());
        let unit = unit.strip_suffix('s').unwrap_or(unit);
        if self.fraction.is_some() && unit != "second" {
            return Err(Reason("INVALID_FRACTION", "only seconds can have a fraction".to_owned()));
        }
        let signed = if self.negative { -self.whole } else { self.whole };
        let as_int = |factor: i64| signed.checked_mul(factor).and_then(|value| i32::try_from(value).ok()).ok_or_else(too_large);
        let micros_each = match unit {
            "year" | "month" => {
                let months = as_int(if unit == "year" { 12 } else { 1 })?;
                total.months = total.months.checked_add(months).ok_or_else(too_large)?;
                return Ok(total);
            }
            "week" | "day" => {
                let days = as_int(if unit == "week" { 7 } else { 1 })?;
                total.days = total.days.checked_add(days).ok_or_else(too_large)?;
                return Ok(total);
            }
            "hour" => 3_600_000_000,
            "minute" => 60_000_000,
            "second" => 1_000_000,
            "millisecond" => 1000,
            "microsecond" => 1,
            "" => return Err(Reason("MISSING_UNIT", "a unit is missing".to_owned())),
            other => {
                let shown: String = other.chars().take(24).collect();
                return Err(Reason("INVALID_UNIT", format!("`{shown}` is not a unit")));
            }
        };
        let mut micros = signed.checked_mul(micros_each).ok_or_else(too_large)?;
        if let Some(nanos) = self.fraction {
            let part = nanos / 1000;
            micros = micros.checked_add(if self.negative { -part } else { part }).ok_or_else(too_large)?;
        }
        total.micros = total.micros.checked_add(micros).ok_or_else(too_large)?;
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_intervals_as_spark_does() {
        let ms = |text: &str| parse_processing_time(text).unwrap().as_millis();
        assert_eq!(ms("10 seconds"), 10_000);
        assert_eq!(ms("  INTERVAL 1 hour 30 Seconds "), 3_630_000);
        assert_eq!(ms("1.5 second"), 1500);
        assert_eq!(ms("2 days"), 172_800_000);
        assert_eq!(ms("1 minute -10 seconds"), 50_000);
        assert_eq!(ms("+ 3 milliseconds"), 3);
        assert_eq!(ms("0 seconds"), 0);
        assert_eq!(ms("10s"), 10_000);
    }

    #[test]
    fn a_delay_counts_thirty_one_days_to_a_month() {
        assert_eq!(parse_delay("1 month").unwrap().as_secs(), 31 * 86_400);
        assert!(matches!(parse_processing_time("1 month"), Err(IntervalError::Months(_))));
        assert!(matches!(parse_processing_time("-1 second"), Err(IntervalError::Negative(_))));
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("abc", "`abc` is not a number"),
            ("10", "a space and a unit"),
            ("10 parsecs", "`parsec` is not a unit"),
            ("1.5 minutes", "only seconds"),
            ("", "it is empty"),
            ("interval10 seconds", "after `interval`"),
            ("9999999999 years", "too large"),
        ] {
            let message = parse_processing_time(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = parse_processing_time(&text);
            let _ = parse_delay(&text);
        }

        #[test]
        fn never_panics_on_near_misses(text in "(interval )?([+-]? ?[0-9]{0,20}(\\.[0-9]{0,10})? ?(year|month|week|day|hour|minute|second)s? ?){0,4}") {
            let _ = parse_processing_time(&text);
            let _ = parse_delay(&text);
        }

        #[test]
        fn parts_add_up(hours in 0u64..1000, seconds in 0u64..100_000) {
            let text = format!("{hours} hours {seconds} seconds");
            prop_assert_eq!(parse_delay(&text).unwrap().as_secs(), hours * 3600 + seconds);
        }
    }
}
