//! Dates and timestamps from their fields: `make_date`, `make_timestamp`, …
//!
//! Fields out of their range are an error in ANSI mode, NULL in legacy mode and
//! under `try_`. Sixty seconds without a fraction are the next minute.

use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, TimestampMicrosecondType};
use datafusion::common::Result;
use weir_core::Error;
use weir_decode::time::{Civil, DateTime, Zone};

use crate::error::spark_error;
use crate::planned::{Arg, Planned, Session, at, each, primitive, some, strings, text_at, wrong_count};
use crate::types::{timestamp, timestamp_ntz};
use crate::udf::Rows;

const OUT_OF_BOUNDS: &str = "DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION";

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    let mut session = session.clone();
    let bare = match name.strip_prefix("try_") {
        Some(bare) => {
            session.ansi = false;
            bare
        }
        None => name,
    };
    match (bare, args.len()) {
        ("make_date", 3) => Some(Ok(make_date(session))),
        ("make_timestamp" | "make_timestamp_ltz", 6 | 7) => Some(Ok(make_timestamp(timestamp(), args.len(), session))),
        ("make_timestamp_ntz", 6) => Some(Ok(make_timestamp(timestamp_ntz(), 6, session))),
        ("make_date", count) => Some(Err(wrong_count(name, "3", count))),
        ("make_timestamp" | "make_timestamp_ltz", count) => Some(Err(wrong_count(name, "[6, 7]", count))),
        ("make_timestamp_ntz", count) => Some(Err(wrong_count(name, "6", count))),
        _ => None,
    }
}

fn bounds(what: &str) -> String {
    format!("Invalid value for {what}; use `try_make_timestamp` or `try_make_date` to tolerate it and return NULL instead")
}

fn make_date(session: Session) -> Planned {
    let failing = session.clone();
    Planned::new(vec![DataType::Int32; 3], DataType::Date32, move |rows: Rows<'_>| {
        let fields = [0, 1, 2].map(|index| primitive::<Int32Type>(&rows, index));
        let [years, months, days] = fields;
        let (years, months, days) = (years?, months?, days?);
        each::<Date32Type>(rows.len, &DataType::Date32, |row| {
            let ((year, month), day) = some!(at(years, row).zip(at(months, row)).zip(at(days, row)));
            match date(year, month, day) {
                Some(date) => Ok(Some(date.to_days())),
                None => session.invalid(OUT_OF_BOUNDS, || bounds(&format!("a date: year {year}, month {month}, day {day}"))),
            }
        })
    })
    .failing(&failing)
}

fn date(year: i32, month: i32, day: i32) -> Option<Civil> {
    Civil::new(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)
}

/// Local microseconds of the fields.
fn local(fields: [i32; 5], seconds: i128) -> Option<i64> {
    let [year, month, day, hour, minute] = fields;
    let unsigned = |value: i32| u32::try_from(value).ok();
    let micros = u32::try_from(seconds).ok()?;
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    let minute_later = whole == 60 && rest == 0;
    let second = if minute_later { 0 } else { whole };
    let time = DateTime::new(date(year, month, day)?, unsigned(hour)?, unsigned(minute)?, second, rest)?;
    time.to_local_micros()?.checked_add(if minute_later { 60_000_000 } else { 0 })
}

fn make_timestamp(result: DataType, count: usize, session: Session) -> Planned {
    let mut args = vec![DataType::Int32; 5];
    args.push(DataType::Decimal128(16, 6));
    args.resize(count, DataType::Utf8);
    let kind = result.clone();
    let failing = session.clone();
    let key = format!("{} {}", session.zone, session.ansi);
    let kernel = move |rows: Rows<'_>| {
        let fields = [0, 1, 2, 3, 4].map(|index| primitive::<Int32Type>(&rows, index));
        let [a, b, c, d, e] = fields;
        let fields = [a?, b?, c?, d?, e?];
        let seconds = primitive::<Decimal128Type>(&rows, 5)?;
        let zones = if rows.args.len() > 6 { Some(strings(&rows, 6)?) } else { None };
        each::<TimestampMicrosecondType>(rows.len, &kind, |row| {
            let mut values = [0; 5];
            for (value, array) in values.iter_mut().zip(fields) {
                *value = some!(at(array, row));
            }
            let seconds = some!(at(seconds, row));
            if (60_000_001..61_000_000).contains(&seconds) {
                return session.invalid("INVALID_FRACTION_OF_SECOND", || {
                    "Valid range for seconds is [0, 60] (inclusive), and 60 has no fraction".to_owned()
                });
            }
            let named: Result<Option<Zone>> = match zones {
                None => Ok(None),
                Some(zones) => {
                    let id = some!(text_at(zones, row));
                    Zone::parse(id).map(Some).ok_or_else(|| spark_error("INVALID_TIMEZONE", format!("`{id}` is not a time zone")))
                }
            };
            let named = named?;
            let micros = local(values, seconds).and_then(|local| match (&kind, &named) {
                (DataType::Timestamp(_, None), _) => Some(local),
                (_, Some(zone)) => zone.to_instant(local),
                (_, None) => session.zone.to_instant(local),
            });
            match micros {
                Some(micros) => Ok(Some(micros)),
                None => session.invalid(OUT_OF_BOUNDS, || bounds(&format!("a timestamp: {values:?}"))),
            }
        })
    };
    Planned::new(args, result, kernel).failing(&failing).keyed(key)
}
