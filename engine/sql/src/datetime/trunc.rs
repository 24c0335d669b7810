//! Rounding down to a unit: `trunc` of dates, `date_trunc` of timestamps.
//!
//! A unit that Spark does not know gives NULL, in both modes.

use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use weir_core::Error;
use weir_decode::time::civil::{MICROS_PER_DAY, iso_weekday};
use weir_decode::time::{Civil, Zone};

use crate::planned::{Arg, Planned, Session, at, each, primitive, some, strings, text_at, wrong_count};
use crate::types::timestamp;
use crate::udf::Rows;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Micros(i64),
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

fn level(name: &str) -> Option<Level> {
    Some(match name.to_ascii_uppercase().as_str() {
        "MICROSECOND" => Level::Micros(1),
        "MILLISECOND" => Level::Micros(1_000),
        "SECOND" => Level::Micros(1_000_000),
        "MINUTE" => Level::Micros(60_000_000),
        "HOUR" => Level::Micros(3_600_000_000),
        "DAY" | "DD" => Level::Day,
        "WEEK" => Level::Week,
        "MON" | "MONTH" | "MM" => Level::Month,
        "QUARTER" => Level::Quarter,
        "YEAR" | "YYYY" | "YY" => Level::Year,
        _ => return None,
    })
}

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    match (name, args) {
        ("trunc", [_, _]) => Some(Ok(trunc())),
        ("date_trunc", [_, _]) => Some(Ok(date_trunc(session.zone))),
        ("trunc" | "date_trunc", _) => Some(Err(wrong_count(name, "2", args.len()))),
        _ => None,
    }
}

fn date_to(level: Level, days: i32) -> Option<i32> {
    let date = Civil::from_days(days);
    let first = |month| Civil { month, day: 1, ..date }.to_days();
    Some(match level {
        Level::Micros(_) | Level::Day => return None,
        Level::Week => days.wrapping_add(1 - iso_weekday(days) as i32),
        Level::Month => first(date.month),
        Level::Quarter => first((date.month - 1) / 3 * 3 + 1),
        Level::Year => first(1),
    })
}

fn trunc() -> Planned {
    Planned::new([DataType::Date32, DataType::Utf8], DataType::Date32, |rows: Rows<'_>| {
        let (dates, units) = (primitive::<Date32Type>(&rows, 0)?, strings(&rows, 1)?);
        each::<Date32Type>(rows.len, &DataType::Date32, |row| {
            let (date, unit) = some!(at(dates, row).zip(text_at(units, row)));
            Ok(level(unit).and_then(|level| date_to(level, date)))
        })
    })
}

fn date_trunc(zone: Zone) -> Planned {
    let key = zone.to_string();
    Planned::new([DataType::Utf8, timestamp()], timestamp(), move |rows: Rows<'_>| {
        let (units, instants) = (strings(&rows, 0)?, primitive::<TimestampMicrosecondType>(&rows, 1)?);
        each::<TimestampMicrosecondType>(rows.len, &timestamp(), |row| {
            let (unit, micros) = some!(text_at(units, row).zip(at(instants, row)));
            Ok(level(unit).and_then(|level| {
                let local = zone.to_local(micros);
                if let Level::Micros(size) = level {
                    return micros.checked_sub(local.rem_euclid(size));
                }
                let days = local.div_euclid(MICROS_PER_DAY) as i32;
                let days = if level == Level::Day { days } else { date_to(level, days)? };
                zone.to_instant(i64::from(days).checked_mul(MICROS_PER_DAY)?)
            }))
        })
    })
    .keyed(key)
}
