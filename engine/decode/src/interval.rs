//! Intervals: units, parsing and printing as Spark does.
//!
//! A day-time interval is a number of microseconds, a year-month interval a
//! number of months; which units it shows is part of its Spark type name, which
//! a field carries where Arrow's type alone does not tell it.

use arrow::datatypes::{DataType, Field, IntervalUnit};

use crate::spark_type::SPARK_TYPE_KEY;

/// Microseconds of a day.
pub const MICROS_PER_DAY: i64 = 86_400_000_000;

/// A unit of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// Twelve months.
    Year,
    /// A month.
    Month,
    /// Seven days.
    Week,
    /// 24 hours.
    Day,
    /// An hour.
    Hour,
    /// A minute.
    Minute,
    /// A second.
    Second,
    /// A thousandth.
    Millisecond,
    /// A millionth.
    Microsecond,
}

impl Unit {
    /// Reads a unit in singular or plural.
    pub fn parse(text: &str) -> Option<Self> {
        let lower = text.trim().to_ascii_lowercase();
        Some(match lower.strip_suffix('s').unwrap_or(&lower) {
            "year" | "yr" => Self::Year,
            "month" | "mon" => Self::Month,
            "week" => Self::Week,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "minute" | "min" => Self::Minute,
            "second" | "sec" => Self::Second,
            "millisecond" => Self::Millisecond,
            "microsecond" => Self::Microsecond,
            _ => return None,
        })
    }

    /// The name in upper case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Year => "YEAR",
            Self::Month => "MONTH",
            Self::Week => "WEEK",
            Self::Day => "DAY",
            Self::Hour => "HOUR",
            Self::Minute => "MINUTE",
            Self::Second => "SECOND",
            Self::Millisecond => "MILLISECOND",
            Self::Microsecond => "MICROSECOND",
        }
    }

    /// Years and months, not days and below.
    pub fn is_year_month(self) -> bool {
        matches!(self, Self::Year | Self::Month)
    }

    /// The unit that Spark's types know for it.
    pub fn canonical(self) -> Self {
        match self {
            Self::Week => Self::Day,
            Self::Millisecond | Self::Microsecond => Self::Second,
            other => other,
        }
    }

    /// Months or microseconds of one unit.
    pub fn size(self) -> i64 {
        match self {
            Self::Year => 12,
            Self::Month => 1,
            Self::Week => 7 * MICROS_PER_DAY,
            Self::Day => MICROS_PER_DAY,
            Self::Hour => 3_600_000_000,
            Self::Minute => 60_000_000,
            Self::Second => 1_000_000,
            Self::Millisecond => 1_000,
            Self::Microsecond => 1,
        }
    }
}

/// `interval day`, `interval day to second`.
pub fn type_name(first: Unit, last: Unit) -> String {
    if first == last {
        format!("interval {}", first.name().to_ascii_lowercase())
    } else {
        format!("interval {} to {}", first.name().to_ascii_lowercase(), last.name().to_ascii_lowercase())
    }
}

/// The units of a type name written by `type_name`.
pub fn units_of(type_name: &str) -> Option<(Unit, Unit)> {
    let units = type_name.strip_prefix("interval ")?;
    match units.split_once(" to ") {
        Some((first, last)) => Some((Unit::parse(first)?, Unit::parse(last)?)),
        None => {
            let unit = Unit::parse(units)?;
            Some((unit, unit))
        }
    }
}

fn signed(text: &str) -> (i64, &str) {
    let text = text.trim();
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// A count of one unit; seconds may have a fraction.
pub fn parse_single(text: &str, unit: Unit) -> Option<i64> {
    let (sign, digits) = signed(text);
    if let Some((whole, fraction)) = digits.split_once('.') {
        if unit != Unit::Second || fraction.is_empty() || fraction.len() > 9 {
            return None;
        }
        let micros = micros_of_fraction(fraction)?;
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        return whole.checked_mul(1_000_000)?.checked_add(micros)?.checked_mul(sign);
    }
    digits.parse::<i64>().ok()?.checked_mul(unit.size())?.checked_mul(sign)
}

fn micros_of_fraction(fraction: &str) -> Option<i64> {
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let padded: String = fraction.chars().chain("000000".chars()).take(6).collect();
    padded.parse().ok()
}

/// `'1-2'` as year to month, `'1 02:03:04.5'` as day to second and its parts.
pub fn parse_range(text: &str, first: Unit, last: Unit) -> Option<i64> {
    let (sign, rest) = signed(text);
    if first == Unit::Year && last == Unit::Month {
        let (years, months) = rest.split_once('-')?;
        let months: i64 = months.parse().ok().filter(|m| (0..12).contains(m))?;
        return years.parse::<i64>().ok()?.checked_mul(12)?.checked_add(months)?.checked_mul(sign);
    }
    let all = [Unit::Day, Unit::Hour, Unit::Minute, Unit::Second];
    let units: Vec<Unit> = all.into_iter().filter(|u| *u >= first && *u <= last).collect();
    if units.is_empty() || !all.contains(&first) {
        return None;
    }
    let parts: Vec<&str> = rest.split([' ', ':']).collect();
    if parts.len() != units.len() {
        return None;
    }
    let mut total: i64 = 0;
    for (part, unit) in parts.into_iter().zip(units) {
        if part.starts_with(['-', '+']) {
            return None;
        }
        total = total.checked_add(parse_single(part, unit)?)?;
    }
    total.checked_mul(sign)
}

/// `'1 year 2 days 3 hours'` as months, days, microseconds.
pub fn parse_calendar(text: &str) -> Option<(i32, i32, i64)> {
    let lower = text.trim().to_ascii_lowercase();
    let lower = lower.strip_prefix("interval").unwrap_or(&lower).trim().to_owned();
    let words: Vec<&str> = lower.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return None;
    }
    let (mut months, mut days, mut micros) = (0_i32, 0_i32, 0_i64);
    for pair in words.chunks(2) {
        let unit = Unit::parse(pair[1])?;
        match unit {
            Unit::Year | Unit::Month => {
                let add = parse_single(pair[0], unit)?;
                months = months.checked_add(i32::try_from(add).ok()?)?;
            }
            Unit::Week | Unit::Day => {
                let add = parse_single(pair[0], unit)? / MICROS_PER_DAY;
                days = days.checked_add(i32::try_from(add).ok()?)?;
            }
            _ => micros = micros.checked_add(parse_single(pair[0], unit)?)?,
        }
    }
    Some((months, days, micros))
}

/// A duration with a fixed length, such as a window's size: `'10 minutes'`.
pub fn parse_duration(text: &str) -> Option<i64> {
    let (months, days, micros) = parse_calendar(text)?;
    if months != 0 {
        return None;
    }
    i64::from(days).checked_mul(MICROS_PER_DAY)?.checked_add(micros)
}

/// `INTERVAL '1 02:03:04' DAY TO SECOND`.
pub fn format(value: i64, first: Unit, last: Unit) -> String {
    let units = if first == last { first.name().to_owned() } else { format!("{} TO {}", first.name(), last.name()) };
    format!("INTERVAL '{}' {units}", body(value, first, last))
}

/// An interval of a column, in the units that its field names; without a name in all units of its kind.
pub fn text_of(field: &Field, value: i64) -> String {
    let named = field.metadata().get(SPARK_TYPE_KEY).and_then(|name| units_of(name));
    let (first, last) = named.unwrap_or(match field.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => (Unit::Year, Unit::Month),
        _ => (Unit::Day, Unit::Second),
    });
    format(value, first, last)
}

fn body(value: i64, first: Unit, last: Unit) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let abs = value.unsigned_abs();
    if first.is_year_month() {
        return match (first, last) {
            (Unit::Year, Unit::Month) => format!("{sign}{}-{}", abs / 12, abs % 12),
            (Unit::Year, _) => format!("{sign}{}", abs / 12),
            _ => format!("{sign}{abs}"),
        };
    }
    let mut rest = abs;
    let mut out = String::from(sign);
    for unit in [Unit::Day, Unit::Hour, Unit::Minute, Unit::Second] {
        if unit < first || unit > last {
            continue;
        }
        let size = unit.size().unsigned_abs();
        let count = rest / size;
        rest %= size;
        if unit != first {
            out.push(if unit == Unit::Hour { ' ' } else { ':' });
            out.push_str(&format!("{count:02}"));
        } else if unit == Unit::Second {
            out.push_str(&format!("{count:02}"));
        } else {
            out.push_str(&count.to_string());
        }
        if unit == Unit::Second && rest > 0 {
            out.push_str(format!(".{rest:06}").trim_end_matches('0'));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints_ranges() {
        let value = parse_range("1 02:03:04.5", Unit::Day, Unit::Second);
        assert_eq!(value, Some(93_784_500_000));
        assert_eq!(format(93_784_500_000, Unit::Day, Unit::Second), "INTERVAL '1 02:03:04.5' DAY TO SECOND");
        assert_eq!(parse_duration("10 minutes"), Some(600_000_000));
        assert_eq!(format(5_400_000_000, Unit::Minute, Unit::Minute), "INTERVAL '90' MINUTE");
        assert_eq!(parse_range("1-2", Unit::Year, Unit::Month), Some(14));
        let months = Field::new("m", DataType::Interval(IntervalUnit::YearMonth), true);
        assert_eq!(text_of(&months, -14), "INTERVAL '-1-2' YEAR TO MONTH");
        let named = months.with_metadata([(SPARK_TYPE_KEY.to_owned(), "interval month".to_owned())].into());
        assert_eq!(text_of(&named, -14), "INTERVAL '-14' MONTH");
    }
}
