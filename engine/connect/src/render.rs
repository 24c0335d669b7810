//! Values as Spark's `CAST(x AS STRING)` and `show()` print them.
//!
//! Used where rows become text outside JSON: the console, CSV and text files,
//! partition folders. Instants print in the session's zone with trailing zeros
//! of the fraction cut; nested values as `[a, b]`, `{k -> v}`, `{a, b}`.
//! `show()` differs in bytes (hex) and in that null is `NULL` at the top.

use std::fmt::Write as _;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalUnit, IntervalYearMonthType, TimeUnit, TimestampMicrosecondType,
};
use weir_decode::interval::{self, Unit};
use weir_decode::number::{write_decimal, write_double, write_float};
use weir_decode::time::{Civil, DateTime, Zone};

/// What the text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `CAST(x AS STRING)`.
    Cast,
    /// `show()`.
    Show,
}

/// Appends the text of one value; null is `null` inside nested values and when
/// the caller did not look, `NULL` for `show()`.
pub fn render(array: &dyn Array, row: usize, zone: &Zone, purpose: Purpose, out: &mut String) {
    if array.is_null(row) {
        out.push_str(if purpose == Purpose::Show { "NULL" } else { "null" });
        return;
    }
    match array.data_type() {
        DataType::Boolean => push(out, array.as_boolean().value(row)),
        DataType::Int8 => push(out, array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => push(out, array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => push(out, array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => push(out, array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => write_float(array.as_primitive::<Float32Type>().value(row), out),
        DataType::Float64 => write_double(array.as_primitive::<Float64Type>().value(row), out),
        DataType::Decimal128(_, scale) => write_decimal(array.as_primitive::<Decimal128Type>().value(row), *scale, out),
        DataType::Utf8 => out.push_str(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => out.push_str(array.as_string::<i64>().value(row)),
        DataType::Utf8View => out.push_str(array.as_string_view().value(row)),
        DataType::Binary => binary(array.as_binary::<i32>().value(row), purpose, out),
        DataType::Date32 => date(array.as_primitive::<Date32Type>().value(row), out),
        DataType::Timestamp(TimeUnit::Microsecond, zone_of_type) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            timestamp(if zone_of_type.is_some() { zone.to_local(micros) } else { micros }, out);
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            out.push_str(&interval::format(array.as_primitive::<DurationMicrosecondType>().value(row), Unit::Day, Unit::Second))
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            out.push_str(&interval::format(array.as_primitive::<IntervalYearMonthType>().value(row).into(), Unit::Year, Unit::Month))
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            out.push('[');
            for at in 0..items.len() {
                separate(at, out);
                render(&items, at, zone, purpose, out);
            }
            out.push(']');
        }
        DataType::Struct(_) => {
            out.push('{');
            for (at, column) in array.as_struct().columns().iter().enumerate() {
                separate(at, out);
                render(column, row, zone, purpose, out);
            }
            out.push('}');
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            out.push('{');
            for at in 0..entries.len() {
                separate(at, out);
                render(entries.column(0), at, zone, purpose, out);
                out.push_str(" -> ");
                render(entries.column(1), at, zone, purpose, out);
            }
            out.push('}');
        }
        _ => {
            // Types that Spark has not reach no sink; Arrow's own text serves.
            if let Ok(text) = arrow::util::display::array_value_to_string(array, row) {
                out.push_str(&text);
            }
        }
    }
}

fn push(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{value}");
}

fn separate(at: usize, out: &mut String) {
    if at > 0 {
        out.push_str(", ");
    }
}

fn binary(bytes: &[u8], purpose: Purpose, out: &mut String) {
    match purpose {
        Purpose::Cast => out.push_str(&String::from_utf8_lossy(bytes)),
        Purpose::Show => {
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            let _ = write!(out, "[{}]", hex.join(" "));
        }
    }
}

fn date(days: i32, out: &mut String) {
    let date = Civil::from_days(days);
    year(date.year, out);
    let _ = write!(out, "-{:02}-{:02}", date.month, date.day);
}

/// Java's `uuuu`: four digits, a sign before more of them.
fn year(year: i32, out: &mut String) {
    let _ = match year {
        0..=9999 => write!(out, "{year:04}"),
        10_000.. => write!(out, "+{year}"),
        _ => write!(out, "-{:04}", year.unsigned_abs()),
    };
}

fn timestamp(local_micros: i64, out: &mut String) {
    let local = DateTime::from_local_micros(local_micros);
    date(local.days, out);
    let _ = write!(out, " {:02}:{:02}:{:02}", local.hour(), local.minute(), local.second());
    if local.micros() > 0 {
        let fraction = format!("{:06}", local.micros());
        let _ = write!(out, ".{}", fraction.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, Date32Array, Float64Array, ListArray, StringArray, TimestampMicrosecondArray};
    use arrow::datatypes::Int32Type;

    fn text(array: &dyn Array, row: usize, purpose: Purpose) -> String {
        let mut out = String::new();
        render(array, row, &Zone::UTC, purpose, &mut out);
        out
    }

    #[test]
    fn values_print_as_in_spark() {
        let times = TimestampMicrosecondArray::from(vec![0, 1_500_000, -1]).with_timezone("UTC");
        assert_eq!(text(&times, 0, Purpose::Cast), "1970-01-01 00:00:00");
        assert_eq!(text(&times, 1, Purpose::Cast), "1970-01-01 00:00:01.5");
        assert_eq!(text(&times, 2, Purpose::Cast), "1969-12-31 23:59:59.999999");
        assert_eq!(text(&Date32Array::from(vec![-719_529]), 0, Purpose::Cast), "-0001-12-31");
        assert_eq!(text(&Date32Array::from(vec![2_932_897]), 0, Purpose::Cast), "+10000-01-01");
        assert_eq!(text(&Float64Array::from(vec![1e10]), 0, Purpose::Cast), "1.0E10");
        assert_eq!(text(&BinaryArray::from(vec![&b"ab"[..]]), 0, Purpose::Show), "[61 62]");
        assert_eq!(text(&StringArray::from(vec![None::<&str>]), 0, Purpose::Show), "NULL");
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None])]);
        assert_eq!(text(&list, 0, Purpose::Cast), "[1, null]");
    }
}
