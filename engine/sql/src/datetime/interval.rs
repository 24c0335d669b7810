//! Intervals from their fields: `make_dt_interval`, `make_ym_interval`,
//! `make_interval`.
//!
//! Missing trailing fields are zero. What does not fit is an error, for
//! `make_interval` in legacy mode NULL.

use std::sync::Arc;

use arrow::array::IntervalMonthDayNanoArray;
use arrow::datatypes::{DataType, Decimal128Type, DurationMicrosecondType, Int32Type, IntervalMonthDayNanoType, IntervalYearMonthType};
use datafusion::common::Result;
use weir_core::Error;

use crate::error::spark_error;
use crate::planned::{Arg, Planned, Session, at, each, primitive, some, wrong_count};
use crate::types::{calendar_interval, day_time_interval, year_month_interval};
use crate::udf::Rows;

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    match (name, args.len()) {
        ("make_dt_interval", count @ 0..=4) => Some(Ok(day_time(count))),
        ("make_ym_interval", count @ 0..=2) => Some(Ok(year_month(count))),
        ("make_interval", count @ 0..=7) => Some(Ok(calendar(count, session.clone()))),
        ("make_dt_interval", count) => Some(Err(wrong_count(name, "[0, 4]", count))),
        ("make_ym_interval", count) => Some(Err(wrong_count(name, "[0, 2]", count))),
        ("make_interval", count) => Some(Err(wrong_count(name, "[0, 7]", count))),
        _ => None,
    }
}

/// Integers, and seconds with a fraction as the last of `full` arguments.
fn types(count: usize, full: usize) -> Vec<DataType> {
    (0..count).map(|index| if index + 1 == full { DataType::Decimal128(18, 6) } else { DataType::Int32 }).collect()
}

/// The integers of a row, with microseconds of the seconds last.
fn fields<const N: usize>(rows: &Rows<'_>, row: usize, seconds_last: bool) -> Result<Option<[i64; N]>> {
    let mut values = [0i64; N];
    for (index, value) in values.iter_mut().enumerate().take(rows.args.len()) {
        *value = if seconds_last && index + 1 == N {
            let micros = some!(at(primitive::<Decimal128Type>(rows, index)?, row));
            i64::try_from(micros).map_err(|_| overflow())?
        } else {
            i64::from(some!(at(primitive::<Int32Type>(rows, index)?, row)))
        };
    }
    Ok(Some(values))
}

fn overflow() -> datafusion::common::DataFusionError {
    spark_error("INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", "integer overflow while building an interval")
}

fn day_time(count: usize) -> Planned {
    let mut planned = Planned::new(types(count, 4), day_time_interval(), |rows: Rows<'_>| {
        each::<DurationMicrosecondType>(rows.len, &day_time_interval(), |row| {
            let [days, hours, minutes, micros] = some!(fields::<4>(&rows, row, true)?);
            let minutes = (days * 24 + hours) * 60 + minutes;
            minutes.checked_mul(60_000_000).and_then(|v| v.checked_add(micros)).map(Some).ok_or_else(overflow)
        })
    });
    planned.may_fail = true;
    planned
}

fn year_month(count: usize) -> Planned {
    let mut planned = Planned::new(types(count, usize::MAX), year_month_interval(), |rows: Rows<'_>| {
        each::<IntervalYearMonthType>(rows.len, &year_month_interval(), |row| {
            let [years, months] = some!(fields::<2>(&rows, row, false)?);
            i32::try_from(years * 12 + months).map(Some).map_err(|_| overflow())
        })
    });
    planned.may_fail = true;
    planned
}

fn calendar(count: usize, session: Session) -> Planned {
    let failing = session.clone();
    Planned::new(types(count, 7), calendar_interval(), move |rows: Rows<'_>| {
        let mut out = Vec::with_capacity(rows.len);
        for row in 0..rows.len {
            let value = fields::<7>(&rows, row, true)?.map(|[years, months, weeks, days, hours, minutes, micros]| {
                let months = i32::try_from(years * 12 + months).ok()?;
                let days = i32::try_from(weeks * 7 + days).ok()?;
                let nanos = ((hours * 60 + minutes) * 60_000_000).checked_add(micros)?.checked_mul(1_000)?;
                Some(IntervalMonthDayNanoType::make_value(months, days, nanos))
            });
            out.push(match value {
                Some(None) if session.ansi => return Err(overflow()),
                other => other.flatten(),
            });
        }
        Ok(Arc::new(IntervalMonthDayNanoArray::from(out)))
    })
    .failing(&failing)
}
