//! Timestamps to text and to and from numbers: `date_format`, `from_unixtime`,
//! `timestamp_seconds`, `unix_seconds` and their kin.
//!
//! Patterns that Spark refuses are refused when the call is planned.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::Result;
use weir_core::Error;
use weir_decode::pattern::Purpose;

use super::parse::Patterns;
use crate::error::spark_error;
use crate::planned::{Arg, Planned, Session, at, each, each_text, primitive, running, some, wrong_count};
use crate::types::timestamp;
use crate::udf::Rows;

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    let default = Arg { data_type: DataType::Utf8, value: Some("yyyy-MM-dd HH:mm:ss".into()) };
    Some(match (name, args) {
        ("date_format", [_, pattern]) => formatted(&timestamp(), pattern, args.len(), session),
        ("from_unixtime", [_]) => formatted(&DataType::Int64, &default, 1, session),
        ("from_unixtime", [_, pattern]) => formatted(&DataType::Int64, pattern, 2, session),
        ("timestamp_seconds", [source]) => Ok(from_seconds(source)),
        ("timestamp_millis", [_]) => Ok(scaled_up(1_000)),
        ("timestamp_micros", [_]) => Ok(scaled_up(1)),
        ("unix_seconds", [_]) => Ok(scaled_down(1_000_000)),
        ("unix_millis", [_]) => Ok(scaled_down(1_000)),
        ("unix_micros", [_]) => Ok(scaled_down(1)),
        ("unix_date", [_]) => Ok(Planned::new([DataType::Date32], DataType::Int32, |rows: Rows<'_>| {
            let dates = primitive::<Date32Type>(&rows, 0)?;
            each::<Int32Type>(rows.len, &DataType::Int32, |row| Ok(at(dates, row)))
        })),
        ("date_from_unix_date", [_]) => Ok(Planned::new([DataType::Int32], DataType::Date32, |rows: Rows<'_>| {
            let days = primitive::<Int32Type>(&rows, 0)?;
            each::<Date32Type>(rows.len, &DataType::Date32, |row| Ok(at(days, row)))
        })),
        ("date_format", _) => Err(wrong_count(name, "2", args.len())),
        ("from_unixtime", _) => Err(wrong_count(name, "[1, 2]", args.len())),
        (
            "timestamp_seconds"
            | "timestamp_millis"
            | "timestamp_micros"
            | "unix_seconds"
            | "unix_millis"
            | "unix_micros"
            | "unix_date"
            | "date_from_unix_date",
            _,
        ) => Err(wrong_count(name, "1", args.len())),
        _ => return None,
    })
}

/// Instants, or whole seconds, to text.
fn formatted(source: &DataType, pattern: &Arg, count: usize, session: &Session) -> Result<Planned, Error> {
    let patterns = Patterns::new(pattern, Purpose::Format)?;
    let key = format!("{patterns:?} {}", session.zone);
    let mut args = vec![source.clone()];
    args.resize(count, DataType::Utf8);
    let zone = session.zone;
    let seconds = *source == DataType::Int64;
    let kernel = move |rows: Rows<'_>| -> Result<ArrayRef> {
        let mut patterns = patterns.reader(&rows, 1)?;
        let instant = |row: usize| -> Result<Option<i64>> {
            if !seconds {
                return Ok(at(primitive::<TimestampMicrosecondType>(&rows, 0)?, row));
            }
            let value = some!(at(primitive::<Int64Type>(&rows, 0)?, row));
            value.checked_mul(1_000_000).map(Some).ok_or_else(overflow)
        };
        each_text(rows.len, |row| {
            let micros = some!(instant(row)?);
            let pattern = some!(patterns.at(row)?);
            pattern.format_instant(micros, &zone).map(Some).map_err(|e| running(&e))
        })
    };
    Ok(Planned::new(args, DataType::Utf8, kernel).keyed(key))
}

fn overflow() -> datafusion::common::DataFusionError {
    spark_error("ARITHMETIC_OVERFLOW", "long overflow; the value is no timestamp in microseconds")
}

fn from_seconds(source: &Arg) -> Planned {
    match &source.data_type {
        DataType::Float32 | DataType::Float64 => Planned::new([DataType::Float64], timestamp(), |rows: Rows<'_>| {
            let seconds = primitive::<Float64Type>(&rows, 0)?;
            each::<TimestampMicrosecondType>(rows.len, &timestamp(), |row| {
                Ok(at(seconds, row).filter(|value| value.is_finite()).map(|value| (value * 1e6) as i64))
            })
        }),
        DataType::Decimal128(precision, scale) => {
            let scale = u32::try_from(*scale).unwrap_or(0);
            let mut planned = Planned::new([DataType::Decimal128(*precision, scale as i8)], timestamp(), move |rows: Rows<'_>| {
                let seconds = primitive::<Decimal128Type>(&rows, 0)?;
                each::<TimestampMicrosecondType>(rows.len, &timestamp(), |row| {
                    let value = some!(at(seconds, row));
                    let micros = if scale <= 6 {
                        value.checked_mul(10i128.pow(6 - scale))
                    } else {
                        let unit = 10i128.pow(scale - 6);
                        (value % unit == 0).then_some(value / unit)
                    };
                    micros.and_then(|micros| i64::try_from(micros).ok()).map(Some).ok_or_else(overflow)
                })
            });
            planned.may_fail = true;
            planned
        }
        _ => scaled_up(1_000_000),
    }
}

/// Whole units to an instant.
fn scaled_up(factor: i64) -> Planned {
    let mut planned = Planned::new([DataType::Int64], timestamp(), move |rows: Rows<'_>| {
        let values = primitive::<Int64Type>(&rows, 0)?;
        each::<TimestampMicrosecondType>(rows.len, &timestamp(), |row| {
            let value = some!(at(values, row));
            value.checked_mul(factor).map(Some).ok_or_else(overflow)
        })
    });
    planned.may_fail = factor > 1;
    planned
}

/// An instant to whole units, rounded down.
fn scaled_down(factor: i64) -> Planned {
    Planned::new([timestamp()], DataType::Int64, move |rows: Rows<'_>| {
        let instants = primitive::<TimestampMicrosecondType>(&rows, 0)?;
        each::<Int64Type>(rows.len, &DataType::Int64, |row| Ok(at(instants, row).map(|micros| micros.div_euclid(factor))))
    })
}
