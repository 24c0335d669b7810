//! Moving dates and timestamps and measuring between them: `date_add`,
//! `add_months`, `months_between`, `timestampadd`, `timestampdiff`, …
//!
//! `dateadd` and `datediff` have a form with a unit, which arrives as a
//! constant string before the other two arguments.

use arrow::datatypes::{DataType, Date32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::Result;
use weir_core::Error;
use weir_decode::time::civil::iso_weekday;

use super::calendar;
use crate::error::spark_error;
use crate::planned::{Arg, Planned, Session, at, each, primitive, some, strings, text_at, wrong_count};
use crate::types::{timestamp, timestamp_ntz};
use crate::udf::Rows;

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    Some(match (name, args) {
        ("date_add" | "dateadd", [_, _]) => Ok(add_days(1)),
        ("date_sub", [_, _]) => Ok(add_days(-1)),
        ("date_diff" | "datediff", [_, _]) => Ok(Planned::new([DataType::Date32, DataType::Date32], DataType::Int32, |rows: Rows<'_>| {
            let (end, start) = (primitive::<Date32Type>(&rows, 0)?, primitive::<Date32Type>(&rows, 1)?);
            each::<Int32Type>(rows.len, &DataType::Int32, |row| Ok(at(end, row).zip(at(start, row)).map(|(a, b)| a.wrapping_sub(b))))
        })),
        ("add_months", [_, _]) => Ok(add_months(session)),
        ("months_between", [_, _] | [_, _, _]) => Ok(months_between(args.len(), session)),
        ("last_day", [_]) => Ok(Planned::new([DataType::Date32], DataType::Date32, |rows: Rows<'_>| {
            let dates = primitive::<Date32Type>(&rows, 0)?;
            each::<Date32Type>(rows.len, &DataType::Date32, |row| Ok(at(dates, row).map(calendar::last_day)))
        })),
        ("next_day", [_, _]) => Ok(next_day(session)),
        ("timestampadd" | "dateadd" | "date_add", [unit, _, source]) => timestamp_add(unit, source, session),
        ("timestampdiff" | "timediff" | "datediff" | "date_diff", [unit, start, end]) => timestamp_diff(unit, start, end, session),
        ("date_add" | "dateadd" | "date_sub" | "date_diff" | "datediff" | "add_months" | "next_day", _) => {
            Err(wrong_count(name, "2", args.len()))
        }
        ("months_between", _) => Err(wrong_count(name, "[2, 3]", args.len())),
        ("last_day", _) => Err(wrong_count(name, "1", args.len())),
        ("timestampadd" | "timestampdiff" | "timediff", _) => Err(wrong_count(name, "3", args.len())),
        _ => return None,
    })
}

fn add_days(sign: i32) -> Planned {
    Planned::new([DataType::Date32, DataType::Int32], DataType::Date32, move |rows: Rows<'_>| {
        let (dates, days) = (primitive::<Date32Type>(&rows, 0)?, primitive::<Int32Type>(&rows, 1)?);
        each::<Date32Type>(rows.len, &DataType::Date32, |row| {
            Ok(at(dates, row).zip(at(days, row)).map(|(date, days)| date.wrapping_add(days.wrapping_mul(sign))))
        })
    })
    .keyed(format!("{sign}"))
}

fn out_of_range() -> datafusion::common::DataFusionError {
    spark_error("DATETIME_OVERFLOW", "datetime operation overflow: the result is beyond the calendar's range")
}

fn add_months(session: &Session) -> Planned {
    Planned::new([DataType::Date32, DataType::Int32], DataType::Date32, |rows: Rows<'_>| {
        let (dates, months) = (primitive::<Date32Type>(&rows, 0)?, primitive::<Int32Type>(&rows, 1)?);
        each::<Date32Type>(rows.len, &DataType::Date32, |row| {
            let (date, months) = some!(at(dates, row).zip(at(months, row)));
            calendar::date_add_months(date, months).map(Some).ok_or_else(out_of_range)
        })
    })
    .failing(session)
}

fn months_between(count: usize, session: &Session) -> Planned {
    let mut args = vec![timestamp(), timestamp()];
    args.resize(count, DataType::Boolean);
    let zone = session.zone;
    let key = zone.to_string();
    Planned::new(args, DataType::Float64, move |rows: Rows<'_>| {
        let (end, start) = (primitive::<TimestampMicrosecondType>(&rows, 0)?, primitive::<TimestampMicrosecondType>(&rows, 1)?);
        let round = rows.args.get(2).map(arrow::array::AsArray::as_boolean);
        each::<Float64Type>(rows.len, &DataType::Float64, |row| {
            let (end, start) = some!(at(end, row).zip(at(start, row)));
            let rounded = match round {
                Some(flags) if arrow::array::Array::is_null(flags, row) => return Ok(None),
                Some(flags) => flags.value(row),
                None => true,
            };
            let months = calendar::months_between(zone.to_local(end), zone.to_local(start));
            Ok(Some(if rounded { (months * 1e8).round() / 1e8 } else { months }))
        })
    })
    .keyed(key)
}

fn next_day(session: &Session) -> Planned {
    let session = session.clone();
    let failing = session.clone();
    Planned::new([DataType::Date32, DataType::Utf8], DataType::Date32, move |rows: Rows<'_>| {
        let (dates, names) = (primitive::<Date32Type>(&rows, 0)?, strings(&rows, 1)?);
        each::<Date32Type>(rows.len, &DataType::Date32, |row| {
            let (date, name) = some!(at(dates, row).zip(text_at(names, row)));
            let Some(weekday) = weekday(name) else {
                return session
                    .invalid("ILLEGAL_DAY_OF_WEEK", || format!("Illegal input for day of week: {name}; write a name such as Mon"));
            };
            let ahead = (weekday + 6 - iso_weekday(date)) % 7 + 1;
            Ok(Some(date.wrapping_add(ahead as i32)))
        })
    })
    .failing(&failing)
}

/// 1 for Monday, by two letters, three or the whole name.
fn weekday(name: &str) -> Option<u32> {
    const NAMES: [&str; 7] = ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"];
    let name = name.trim().to_ascii_uppercase();
    let fits = |full: &&str| name == *full || name == full[..2] || name == full[..3];
    NAMES.iter().position(fits).map(|index| index as u32 + 1)
}

/// A unit of `timestampadd` and `timestampdiff`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Micros(i64),
    Days(i64),
    Months(i32),
}

fn step(unit: &Arg) -> Result<Step, Error> {
    let name = unit.text().unwrap_or_default();
    Ok(match name.to_ascii_uppercase().as_str() {
        "MICROSECOND" => Step::Micros(1),
        "MILLISECOND" => Step::Micros(1_000),
        "SECOND" => Step::Micros(1_000_000),
        "MINUTE" => Step::Micros(60_000_000),
        "HOUR" => Step::Micros(3_600_000_000),
        "DAY" | "DAYOFYEAR" => Step::Days(1),
        "WEEK" => Step::Days(7),
        "MONTH" => Step::Months(1),
        "QUARTER" => Step::Months(3),
        "YEAR" => Step::Months(12),
        _ => {
            return Err(Error::config(
                "INVALID_PARAMETER_VALUE.DATETIME_UNIT",
                format!(
                    "`{name}` is not a unit; write YEAR, QUARTER, MONTH, WEEK, DAY, DAYOFYEAR, HOUR, MINUTE, SECOND, MILLISECOND or MICROSECOND"
                ),
            ));
        }
    })
}

/// Timestamps without zone stay so, everything else becomes an instant.
fn moment(source: &Arg) -> DataType {
    if matches!(source.data_type, DataType::Timestamp(_, None)) { timestamp_ntz() } else { timestamp() }
}

fn timestamp_add(unit: &Arg, source: &Arg, session: &Session) -> Result<Planned, Error> {
    let step = step(unit)?;
    let result = moment(source);
    let zone = if result == timestamp() { session.zone } else { weir_decode::time::Zone::UTC };
    let key = format!("{step:?} {zone}");
    let kind = result.clone();
    let kernel = move |rows: Rows<'_>| {
        let (amounts, instants) = (primitive::<Int64Type>(&rows, 1)?, primitive::<TimestampMicrosecondType>(&rows, 2)?);
        each::<TimestampMicrosecondType>(rows.len, &kind, |row| {
            let (amount, micros) = some!(at(amounts, row).zip(at(instants, row)));
            let moved = match step {
                Step::Micros(size) => amount.checked_mul(size).and_then(|rest| micros.checked_add(rest)),
                Step::Days(size) => amount.checked_mul(size).and_then(|days| calendar::timestamp_add(micros, 0, days, 0, &zone)),
                Step::Months(size) => i32::try_from(amount)
                    .ok()
                    .and_then(|amount| amount.checked_mul(size))
                    .and_then(|months| calendar::timestamp_add(micros, months, 0, 0, &zone)),
            };
            moved.map(Some).ok_or_else(out_of_range)
        })
    };
    let mut planned = Planned::new([DataType::Utf8, DataType::Int64, result.clone()], result, kernel).keyed(key);
    planned.may_fail = true;
    Ok(planned)
}

fn timestamp_diff(unit: &Arg, start: &Arg, end: &Arg, session: &Session) -> Result<Planned, Error> {
    let step = step(unit)?;
    let ntz = moment(start) == timestamp_ntz() && moment(end) == timestamp_ntz();
    let wanted = if ntz { timestamp_ntz() } else { timestamp() };
    let zone = if ntz { weir_decode::time::Zone::UTC } else { session.zone };
    let key = format!("{step:?} {zone}");
    let kernel = move |rows: Rows<'_>| {
        let (start, end) = (primitive::<TimestampMicrosecondType>(&rows, 1)?, primitive::<TimestampMicrosecondType>(&rows, 2)?);
        each::<Int64Type>(rows.len, &DataType::Int64, |row| {
            let (start, end) = some!(at(start, row).zip(at(end, row)));
            let (start, end) = (zone.to_local(start), zone.to_local(end));
            Ok(Some(match step {
                Step::Micros(size) => end.wrapping_sub(start) / size,
                Step::Days(size) => end.wrapping_sub(start) / (size * 86_400_000_000),
                Step::Months(size) => calendar::months_until(start, end) / i64::from(size),
            }))
        })
    };
    Ok(Planned::new([DataType::Utf8, wanted.clone(), wanted], DataType::Int64, kernel).keyed(key))
}
