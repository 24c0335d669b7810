//! Dates and timestamps: reading, printing, casting.
//!
//! Spark's lenient forms: `yyyy[-[m]m[-[d]d]]`, then `T` or a space, then
//! `[h]h[:[m]m[:[s]s[.fraction]]]` and an optional zone. Fractions beyond
//! microseconds are cut off. A time alone is today's.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::DataType;
use chrono::{Datelike, NaiveDate};
use datafusion::common::Result;

use super::parse::trimmed;
use super::{Cast, CastMode, rescale, unsupported};
use crate::error::spark_error;
use crate::udf::downcast;
use weir_decode::interval::MICROS_PER_DAY;
use weir_decode::time::Zone;

const EPOCH_FROM_CE: i32 = 719_163;

/// Days since 1970-01-01 of a calendar date.
pub fn days_from_ymd(year: i32, month: u32, day: u32) -> Option<i32> {
    NaiveDate::from_ymd_opt(year, month, day).map(|d| d.num_days_from_ce() - EPOCH_FROM_CE)
}

/// `yyyy-MM-dd`.
pub fn format_date(days: i32) -> String {
    match days.checked_add(EPOCH_FROM_CE).and_then(NaiveDate::from_num_days_from_ce_opt) {
        Some(d) if d.year() > 9999 => format!("+{}-{:02}-{:02}", d.year(), d.month(), d.day()),
        Some(d) if d.year() < 0 => format!("-{:04}-{:02}-{:02}", -d.year(), d.month(), d.day()),
        Some(d) => format!("{:04}-{:02}-{:02}", d.year(), d.month(), d.day()),
        None => days.to_string(),
    }
}

/// `yyyy-MM-dd HH:mm:ss[.ffffff]` of a wall clock reading.
pub fn format_timestamp(local: i64) -> String {
    let days = local.div_euclid(MICROS_PER_DAY);
    let micros = local.rem_euclid(MICROS_PER_DAY);
    let seconds = micros / 1_000_000;
    let mut out = format!(
        "{} {:02}:{:02}:{:02}",
        format_date(i32::try_from(days).unwrap_or(i32::MAX)),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    let fraction = micros % 1_000_000;
    if fraction != 0 {
        out.push_str(format!(".{fraction:06}").trim_end_matches('0'));
    }
    out
}

/// The instant of a wall clock reading; at the ends of the range the reading itself.
fn instant(zone: Zone, local: i64) -> i64 {
    zone.to_instant(local).unwrap_or(local)
}

/// Midnight of a date.
pub fn days_to_micros(days: i32) -> i64 {
    i64::from(days).saturating_mul(MICROS_PER_DAY)
}

/// What a text says, before it is an instant.
struct Read {
    /// `None` for a time without a date.
    days: Option<i32>,
    micros: i64,
    zone: Option<Zone>,
}

fn digits(text: &[u8], at: &mut usize, most: usize) -> Option<(i64, usize)> {
    let start = *at;
    let mut value: i64 = 0;
    while *at < text.len() && text[*at].is_ascii_digit() && *at - start < most {
        value = value * 10 + i64::from(text[*at] - b'0');
        *at += 1;
    }
    (*at > start).then_some((value, *at - start))
}

fn read(text: &str, zone_allowed: bool) -> Option<Read> {
    let text = trimmed(text);
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut days = None;
    let time_only = bytes.first() == Some(&b'T') || bytes.iter().take(3).position(|b| *b == b':').is_some_and(|p| p > 0);
    if !time_only {
        let negative = match bytes.first() {
            Some(b'-') => {
                at += 1;
                true
            }
            Some(b'+') => {
                at += 1;
                false
            }
            _ => false,
        };
        let (year, length) = digits(bytes, &mut at, 7)?;
        if length < 4 {
            return None;
        }
        let year = i32::try_from(if negative { -year } else { year }).ok()?;
        let (mut month, mut day) = (1, 1);
        if bytes.get(at) == Some(&b'-') {
            at += 1;
            month = u32::try_from(digits(bytes, &mut at, 2)?.0).ok()?;
            if bytes.get(at) == Some(&b'-') {
                at += 1;
                day = u32::try_from(digits(bytes, &mut at, 2)?.0).ok()?;
            } else if at < bytes.len() {
                return None;
            }
        } else if at < bytes.len() {
            return None;
        }
        days = Some(days_from_ymd(year, month, day)?);
        match bytes.get(at) {
            None => return Some(Read { days, micros: 0, zone: None }),
            Some(b' ' | b'T') => at += 1,
            Some(_) => return None,
        }
        if at == bytes.len() {
            return Some(Read { days, micros: 0, zone: None });
        }
    } else if bytes.first() == Some(&b'T') {
        at += 1;
    }
    let mut parts = [0_i64; 3];
    let mut micros = 0;
    for (index, part) in parts.iter_mut().enumerate() {
        let (value, _) = digits(bytes, &mut at, 2)?;
        if bytes.get(at).is_some_and(u8::is_ascii_digit) || value > [23, 59, 59][index] {
            return None;
        }
        *part = value;
        if index < 2 {
            if bytes.get(at) == Some(&b':') {
                at += 1;
                continue;
            }
            break;
        }
        if bytes.get(at) == Some(&b'.') {
            at += 1;
            let mut factor = 100_000;
            while let Some(b) = bytes.get(at).filter(|b| b.is_ascii_digit()) {
                micros += i64::from(b - b'0') * factor;
                factor /= 10;
                at += 1;
            }
        }
    }
    let micros = ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1_000_000 + micros;
    let rest = text.get(at..)?.trim();
    let zone = if rest.is_empty() {
        None
    } else if zone_allowed {
        Some(Zone::parse(rest)?)
    } else {
        return None;
    };
    Some(Read { days, micros, zone })
}

/// Reads a date; a time after it is ignored.
pub fn date_from_string(text: &str, zone: Zone, now: i64) -> Option<i32> {
    if let Some(special) = special_instant(text, zone, now) {
        return i32::try_from(zone.to_local(special).div_euclid(MICROS_PER_DAY)).ok();
    }
    let trim = trimmed(text);
    let date = match trim.get(4..).and_then(|rest| rest.find([' ', 'T'])) {
        Some(end) => &trim[..4 + end],
        None => trim,
    };
    if date.contains(':') {
        return None;
    }
    read(date, false)?.days
}

/// Reads an instant; a text without a zone is in the session's.
pub fn timestamp_from_string(text: &str, zone: Zone, now: i64) -> Option<i64> {
    if let Some(special) = special_instant(text, zone, now) {
        return Some(special);
    }
    let read = read(text, true)?;
    let zone = read.zone.unwrap_or(zone);
    let days = match read.days {
        Some(days) => i64::from(days),
        None => zone.to_local(now).div_euclid(MICROS_PER_DAY),
    };
    zone.to_instant(days.checked_mul(MICROS_PER_DAY)?.checked_add(read.micros)?)
}

/// Reads a wall clock reading; a zone after it is ignored.
pub fn timestamp_ntz_from_string(text: &str, zone: Zone, now: i64) -> Option<i64> {
    if let Some(special) = special_instant(text, zone, now) {
        return Some(zone.to_local(special));
    }
    let read = read(text, true)?;
    i64::from(read.days?).checked_mul(MICROS_PER_DAY)?.checked_add(read.micros)
}

/// `now`, `today`, `yesterday`, `tomorrow`, `epoch`, which literals may say.
pub fn special_instant(text: &str, zone: Zone, now: i64) -> Option<i64> {
    let midnight = |shift: i64| {
        let day = zone.to_local(now).div_euclid(MICROS_PER_DAY) + shift;
        instant(zone, day.saturating_mul(MICROS_PER_DAY))
    };
    Some(match trimmed(text).to_ascii_lowercase().as_str() {
        "epoch" => 0,
        "now" => now,
        "today" => midnight(0),
        "yesterday" => midnight(-1),
        "tomorrow" => midnight(1),
        _ => return None,
    })
}

fn is_special(text: &str) -> bool {
    special_instant(text, Zone::UTC, 0).is_some()
}

/// Casts to date, timestamp or timestamp_ntz. Words like `today` are for
/// literals only, which the analyzer has resolved before.
pub fn to_datetime(array: &ArrayRef, to: &DataType, cast: Cast) -> Result<ArrayRef> {
    let from = array.data_type().clone();
    if *to == DataType::Date32 {
        return Ok(Arc::new(match &from {
            DataType::Utf8 => {
                let mut out = Vec::with_capacity(array.len());
                for s in downcast::<StringArray>(array)? {
                    out.push(match s {
                        None => None,
                        Some(s) => match date_from_string(s, cast.zone, 0).filter(|_| !is_special(s)) {
                            Some(v) => Some(v),
                            None => cast.invalid(s, &from, to)?,
                        },
                    });
                }
                Date32Array::from(out)
            }
            DataType::Timestamp(_, zone) => {
                let zone = if zone.is_some() { cast.zone } else { Zone::UTC };
                downcast::<TimestampMicrosecondArray>(array)?
                    .iter()
                    .map(|v| v.and_then(|v| i32::try_from(zone.to_local(v).div_euclid(MICROS_PER_DAY)).ok()))
                    .collect()
            }
            other => return Err(unsupported(other, to)),
        }));
    }
    let instants = matches!(to, DataType::Timestamp(_, Some(_)));
    let values: Vec<Option<i64>> = match &from {
        DataType::Utf8 => {
            let mut out = Vec::with_capacity(array.len());
            for s in downcast::<StringArray>(array)? {
                out.push(match s {
                    None => None,
                    Some(s) => {
                        let value =
                            if instants { timestamp_from_string(s, cast.zone, 0) } else { timestamp_ntz_from_string(s, cast.zone, 0) };
                        match value.filter(|_| !is_special(s)) {
                            Some(v) => Some(v),
                            None => cast.invalid(s, &from, to)?,
                        }
                    }
                });
            }
            out
        }
        DataType::Date32 => downcast::<Date32Array>(array)?
            .iter()
            .map(|v| v.map(|v| if instants { instant(cast.zone, days_to_micros(v)) } else { days_to_micros(v) }))
            .collect(),
        DataType::Timestamp(_, Some(_)) => {
            downcast::<TimestampMicrosecondArray>(array)?.iter().map(|v| v.map(|v| cast.zone.to_local(v))).collect()
        }
        DataType::Timestamp(_, None) => {
            downcast::<TimestampMicrosecondArray>(array)?.iter().map(|v| v.map(|v| instant(cast.zone, v))).collect()
        }
        _ if instants => seconds(array, to, cast)?,
        other => return Err(unsupported(other, to)),
    };
    let values = TimestampMicrosecondArray::from(values);
    Ok(Arc::new(if instants { values.with_timezone("UTC") } else { values }))
}

/// Numbers are seconds since the epoch.
fn seconds(array: &ArrayRef, to: &DataType, cast: Cast) -> Result<Vec<Option<i64>>> {
    let from = array.data_type().clone();
    macro_rules! integers {
        ($kind:ty) => {
            downcast::<$kind>(array)?.iter().map(|v| v.map(|v| i64::from(v).saturating_mul(1_000_000))).collect()
        };
    }
    let float = |v: f64| -> Result<Option<i64>> {
        if v.is_finite() {
            #[allow(clippy::cast_possible_truncation)]
            return Ok(Some((v * 1_000_000.0) as i64));
        }
        if cast.mode == CastMode::Ansi {
            return Err(spark_error(
                "CAST_INVALID_INPUT",
                format!("the value {} cannot be cast to {}", super::format_double(v), crate::types::quoted_type(to)),
            ));
        }
        Ok(None)
    };
    Ok(match &from {
        DataType::Int8 => integers!(Int8Array),
        DataType::Int16 => integers!(Int16Array),
        DataType::Int32 => integers!(Int32Array),
        DataType::Int64 => integers!(Int64Array),
        DataType::Boolean => downcast::<BooleanArray>(array)?.iter().map(|v| v.map(i64::from)).collect(),
        DataType::Float32 => {
            downcast::<Float32Array>(array)?.iter().map(|v| v.map_or(Ok(None), |v| float(f64::from(v)))).collect::<Result<_>>()?
        }
        DataType::Float64 => downcast::<Float64Array>(array)?.iter().map(|v| v.map_or(Ok(None), float)).collect::<Result<_>>()?,
        DataType::Decimal128(_, scale) => downcast::<Decimal128Array>(array)?
            .iter()
            .map(|v| v.and_then(|v| rescale(v, *scale, 6)).and_then(|v| i64::try_from(v).ok()))
            .collect(),
        other => return Err(unsupported(other, to)),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_sparks_forms() {
        let utc = Zone::UTC;
        let at = |s: &str| timestamp_from_string(s, utc, 0).map(format_timestamp);
        assert_eq!(at("2024-06-01 10:11:12.123456789").unwrap(), "2024-06-01 10:11:12.123456");
        assert_eq!(at("2024-06-01T10:11:12+02:00").unwrap(), "2024-06-01 08:11:12");
        assert_eq!(at("2024-06-01 10:11").unwrap(), "2024-06-01 10:11:00");
        assert_eq!(at("2024-06-01 10:11:12 Europe/Berlin").unwrap(), "2024-06-01 08:11:12");
        assert_eq!(at("2024-06-01 25:00:00"), None);
        assert_eq!(date_from_string("2024-06-01T10:00", utc, 0).map(format_date).unwrap(), "2024-06-01");
        assert_eq!(date_from_string("20240601", utc, 0), None);
        assert_eq!(date_from_string("06/01/2024", utc, 0), None);
        assert_eq!(date_from_string("2024-02-30", utc, 0), None);
        assert_eq!(date_from_string("0001-01-01", utc, 0).map(format_date).unwrap(), "0001-01-01");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = timestamp_from_string(&text, Zone::UTC, 0);
            let _ = date_from_string(&text, Zone::UTC, 0);
        }

        #[test]
        fn text_and_back(micros in -62_135_596_800_000_000_i64..253_402_300_799_999_999) {
            let text = format_timestamp(micros);
            proptest::prop_assert_eq!(timestamp_from_string(&text, Zone::UTC, 0), Some(micros));
        }
    }
}
