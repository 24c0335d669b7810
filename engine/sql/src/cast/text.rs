//! Any value to a string, as Spark's CAST prints it.

use std::fmt::Write;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, IntervalYearMonthArray, ListArray, MapArray, StringArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::Result;

use super::{format_date, format_decimal, format_timestamp, unsupported};
use crate::udf::downcast;
use weir_decode::interval::{self, Unit};
use weir_decode::time::Zone;

/// The array as strings; `units` names the interval type of the values.
pub fn to_strings(array: &ArrayRef, zone: Zone, units: Option<&str>) -> Result<StringArray> {
    let from = array.data_type();
    Ok(match from {
        DataType::Utf8 => downcast::<StringArray>(array)?.clone(),
        DataType::Null => StringArray::new_null(array.len()),
        DataType::Boolean => downcast::<BooleanArray>(array)?.iter().map(|v| v.map(|b| if b { "true" } else { "false" })).collect(),
        DataType::Int8 => downcast::<Int8Array>(array)?.iter().map(|v| v.map(|v| v.to_string())).collect(),
        DataType::Int16 => downcast::<Int16Array>(array)?.iter().map(|v| v.map(|v| v.to_string())).collect(),
        DataType::Int32 => downcast::<Int32Array>(array)?.iter().map(|v| v.map(|v| v.to_string())).collect(),
        DataType::Int64 => downcast::<Int64Array>(array)?.iter().map(|v| v.map(|v| v.to_string())).collect(),
        DataType::Float32 => downcast::<Float32Array>(array)?.iter().map(|v| v.map(format_float)).collect(),
        DataType::Float64 => downcast::<Float64Array>(array)?.iter().map(|v| v.map(format_double)).collect(),
        DataType::Decimal128(_, scale) => {
            downcast::<Decimal128Array>(array)?.iter().map(|v| v.map(|v| format_decimal(v, *scale))).collect()
        }
        DataType::Date32 => downcast::<Date32Array>(array)?.iter().map(|v| v.map(format_date)).collect(),
        DataType::Timestamp(_, Some(_)) => {
            downcast::<TimestampMicrosecondArray>(array)?.iter().map(|v| v.map(|v| format_timestamp(zone.to_local(v)))).collect()
        }
        DataType::Timestamp(_, None) => downcast::<TimestampMicrosecondArray>(array)?.iter().map(|v| v.map(format_timestamp)).collect(),
        DataType::Binary => return Ok(binary_to_strings(downcast::<BinaryArray>(array)?)),
        DataType::Duration(_) => {
            let (first, last) = units.and_then(interval::units_of).unwrap_or((Unit::Day, Unit::Second));
            downcast::<DurationMicrosecondArray>(array)?.iter().map(|v| v.map(|v| interval::format(v, first, last))).collect()
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            let (first, last) = units.and_then(interval::units_of).unwrap_or((Unit::Year, Unit::Month));
            downcast::<IntervalYearMonthArray>(array)?.iter().map(|v| v.map(|v| interval::format(i64::from(v), first, last))).collect()
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => downcast::<IntervalMonthDayNanoArray>(array)?
            .iter()
            .map(|v| v.map(|v| format_calendar(v.months, v.days, v.nanoseconds / 1000)))
            .collect(),
        DataType::List(_) => {
            let list: &ListArray = downcast(array)?;
            (0..list.len())
                .map(|row| {
                    if list.is_null(row) {
                        return Ok(None);
                    }
                    let items = to_strings(&list.value(row), zone, None)?;
                    let items: Vec<_> = items.iter().map(|s| s.unwrap_or("null")).collect();
                    Ok(Some(format!("[{}]", items.join(", "))))
                })
                .collect::<Result<_>>()?
        }
        DataType::Map(..) => {
            let map: &MapArray = downcast(array)?;
            (0..map.len())
                .map(|row| {
                    if map.is_null(row) {
                        return Ok(None);
                    }
                    let entries = map.value(row);
                    let keys = to_strings(entries.column(0), zone, None)?;
                    let values = to_strings(entries.column(1), zone, None)?;
                    let pairs: Vec<_> = keys
                        .iter()
                        .zip(values.iter())
                        .map(|(k, v)| format!("{} -> {}", k.unwrap_or("null"), v.unwrap_or("null")))
                        .collect();
                    Ok(Some(format!("{{{}}}", pairs.join(", "))))
                })
                .collect::<Result<_>>()?
        }
        DataType::Struct(_) => {
            let fields: &StructArray = downcast(array)?;
            let columns: Vec<StringArray> = fields.columns().iter().map(|c| to_strings(c, zone, None)).collect::<Result<_>>()?;
            (0..fields.len())
                .map(|row| {
                    if fields.is_null(row) {
                        return None;
                    }
                    let parts: Vec<_> = columns.iter().map(|c| if c.is_null(row) { "null" } else { c.value(row) }).collect();
                    Some(format!("{{{}}}", parts.join(", ")))
                })
                .collect()
        }
        other => return Err(unsupported(other, &DataType::Utf8)),
    })
}

/// `1 years 2 months 3 days 4 hours`.
fn format_calendar(months: i32, days: i32, micros: i64) -> String {
    let mut parts = Vec::new();
    let mut push = |count: i64, unit: &str| {
        if count != 0 {
            parts.push(format!("{count} {unit}"));
        }
    };
    push(i64::from(months / 12), "years");
    push(i64::from(months % 12), "months");
    push(i64::from(days), "days");
    push(micros / 3_600_000_000, "hours");
    push(micros / 60_000_000 % 60, "minutes");
    let rest = micros % 60_000_000;
    if rest != 0 {
        let sign = if rest < 0 { "-" } else { "" };
        let abs = rest.unsigned_abs();
        let fraction = format!(".{:06}", abs % 1_000_000);
        parts.push(format!("{sign}{}{} seconds", abs / 1_000_000, fraction.trim_end_matches('0').trim_end_matches('.')));
    }
    if parts.is_empty() { "0 seconds".to_owned() } else { parts.join(" ") }
}

/// A double as `Double.toString` prints it.
pub fn format_double(v: f64) -> String {
    if v.is_nan() {
        return "NaN".to_owned();
    }
    if v.is_infinite() {
        return if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    java_float(format!("{:e}", v.abs()), v.is_sign_negative(), v == 0.0)
}

/// A float as `Float.toString` prints it.
pub fn format_float(v: f32) -> String {
    if v.is_nan() {
        return "NaN".to_owned();
    }
    if v.is_infinite() {
        return if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    java_float(format!("{:e}", v.abs()), v.is_sign_negative(), v == 0.0)
}

/// Shortest digits in Java's layout: plain from 1e-3 to 1e7, else `d.dE±x`.
fn java_float(scientific: String, negative: bool, zero: bool) -> String {
    let mut out = String::with_capacity(24);
    if negative {
        out.push('-');
    }
    if zero {
        out.push_str("0.0");
        return out;
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if (-3..7).contains(&exponent) {
        if exponent < 0 {
            out.push_str("0.");
            out.push_str(&"0".repeat(usize::try_from(-exponent - 1).unwrap_or(0)));
            out.push_str(&digits);
        } else {
            let whole = usize::try_from(exponent).unwrap_or(0) + 1;
            if digits.len() > whole {
                out.push_str(&digits[..whole]);
                out.push('.');
                out.push_str(&digits[whole..]);
            } else {
                out.push_str(&digits);
                out.push_str(&"0".repeat(whole - digits.len()));
                out.push_str(".0");
            }
        }
    } else {
        let fraction = if digits.len() > 1 { &digits[1..] } else { "0" };
        let _ = write!(out, "{}.{fraction}E{exponent}", &digits[..1]);
    }
    out
}

/// Valid text keeps its bytes where they are; only what is not is written anew, with U+FFFD as Java has it.
fn binary_to_strings(array: &BinaryArray) -> StringArray {
    StringArray::try_from_binary(array.clone())
        .unwrap_or_else(|_| array.iter().map(|value| value.map(|bytes| String::from_utf8_lossy(bytes))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_doubles_as_java_does() {
        for (v, text) in [
            (1.0, "1.0"),
            (1.0e8, "1.0E8"),
            (1.0e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (-0.0, "-0.0"),
            (1.717_236_672_5e9, "1.7172366725E9"),
            (123.456, "123.456"),
        ] {
            assert_eq!(format_double(v), text);
        }
        assert_eq!(format_float(1.1), "1.1");
    }

    #[test]
    fn bytes_become_text_and_what_is_no_text_is_replaced() {
        let valid = BinaryArray::from_opt_vec(vec![Some("ä".as_bytes()), None, Some(b""), Some(b"b")]);
        assert_eq!(binary_to_strings(&valid).iter().collect::<Vec<_>>(), [Some("ä"), None, Some(""), Some("b")]);
        // Two halves of a character beside each other are no character.
        let halves = BinaryArray::from_vec(vec![&"ä".as_bytes()[..1], &"ä".as_bytes()[1..], b"c"]);
        assert_eq!(binary_to_strings(&halves).iter().collect::<Vec<_>>(), [Some("\u{fffd}"), Some("\u{fffd}"), Some("c")]);
    }
}
