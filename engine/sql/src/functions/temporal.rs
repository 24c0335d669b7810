//! Arithmetic on dates, timestamps and intervals.
//!
//! Months and days are added to local time, smaller units to the instant; the
//! calendar arithmetic itself is in `datetime::calendar`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, DurationMicrosecondArray, Float64Array, IntervalMonthDayNanoArray, IntervalYearMonthArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::Result as DfResult;
use weir_core::Error;
use weir_decode::time::Zone;

use super::arithmetic::Op;
use crate::analyzer::coerce::{is_datetime, is_integral, is_interval, is_numeric};
use crate::analyzer::{Analyzer, Typed};
use crate::datetime::calendar::{date_add_months, timestamp_add};
use crate::error::spark_error;
use crate::types::{day_time_interval, timestamp};
use crate::udf::{Rows, downcast};
use weir_decode::interval::{MICROS_PER_DAY, Unit, type_name, units_of};

type Result<T> = std::result::Result<T, Error>;

/// The operator if one side is a date, a timestamp or an interval.
pub fn arithmetic(a: &Analyzer, op: Op, l: &Typed, r: &Typed) -> Option<Result<Typed>> {
    let temporal = |t: &Typed| is_datetime(&t.ty) || is_interval(&t.ty);
    if !temporal(l) && !temporal(r) {
        return None;
    }
    let (l, r) = (l.clone(), r.clone());
    Some(match op {
        Op::Add if !temporal(&l) || (is_interval(&l.ty) && is_datetime(&r.ty)) => add(a, op, r, l),
        Op::Add => add(a, op, l, r),
        Op::Sub if is_datetime(&l.ty) && (is_datetime(&r.ty) || r.ty == DataType::Utf8) => difference(a, l, r),
        Op::Sub => add(a, op, l, r),
        Op::Mul if is_interval(&r.ty) => scale(a, op, r, l),
        Op::Mul | Op::Div if is_interval(&l.ty) => scale(a, op, l, r),
        _ => Err(mismatch(&l, &r)),
    })
}

fn mismatch(l: &Typed, r: &Typed) -> Error {
    Error::config(
        "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES",
        format!(
            "the operator does not take {} and {} together; CAST one of them",
            crate::types::quoted_type(&l.ty),
            crate::types::quoted_type(&r.ty)
        ),
    )
}

fn overflow() -> datafusion::common::DataFusionError {
    spark_error("DATETIME_OVERFLOW", "the date or timestamp is out of range")
}

fn symbol(op: Op) -> &'static str {
    if op == Op::Add { "+" } else { "-" }
}

/// `l ± r` where `l` is a date, a timestamp or an interval.
fn add(a: &Analyzer, op: Op, l: Typed, r: Typed) -> Result<Typed> {
    let negative = op == Op::Sub;
    let shown = format!("{} {} {}", l.name, symbol(op), r.name);
    match (&l.ty, &r.ty) {
        (DataType::Date32, t) if is_integral(t) => {
            let name = if negative { "date_sub" } else { "date_add" };
            a.build_function(name, vec![l, r])
        }
        (DataType::Date32, DataType::Interval(IntervalUnit::YearMonth)) => Ok(a
            .call("date_add_months", negative.to_string(), DataType::Date32, &[l, r], move |rows: Rows| {
                let (d, m): (&Date32Array, &IntervalYearMonthArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
                let mut out = Vec::with_capacity(d.len());
                for (d, m) in d.iter().zip(m) {
                    out.push(match (d, m) {
                        (Some(d), Some(m)) => Some(date_add_months(d, if negative { m.saturating_neg() } else { m }).ok_or_else(overflow)?),
                        _ => None,
                    });
                }
                Ok(Arc::new(Date32Array::from(out)) as ArrayRef)
            })
            .named(shown)
            .may_fail()),
        (DataType::Date32, DataType::Duration(_)) => {
            let days_only = r.spark_type.as_deref().and_then(units_of).is_some_and(|(_, last)| last == Unit::Day);
            if days_only {
                return Ok(a
                    .call("date_add_days", negative.to_string(), DataType::Date32, &[l, r], move |rows: Rows| {
                        let (d, i): (&Date32Array, &DurationMicrosecondArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
                        Ok(Arc::new(
                            d.iter()
                                .zip(i)
                                .map(|(d, i)| {
                                    let days = i32::try_from(i? / MICROS_PER_DAY).ok()?;
                                    d?.checked_add(if negative { days.checked_neg()? } else { days })
                                })
                                .collect::<Date32Array>(),
                        ) as ArrayRef)
                    })
                    .named(shown));
            }
            let l = a.cast(l, &timestamp())?;
            shift(a, l, r, negative, shown)
        }
        (DataType::Date32, DataType::Interval(_)) => {
            let l = a.cast(l, &timestamp())?;
            shift(a, l, r, negative, shown)
        }
        (DataType::Timestamp(..), t) if is_interval(t) => shift(a, l, r, negative, shown),
        (DataType::Duration(_), DataType::Duration(_))
        | (DataType::Interval(IntervalUnit::YearMonth), DataType::Interval(IntervalUnit::YearMonth)) => {
            let units = common_units(&l, &r);
            let ty = l.ty.clone();
            let ansi = a.conf.ansi;
            let call = a.call(symbol(op), ansi.to_string(), ty.clone(), &[l, r], move |rows: Rows| {
                let wide = rows.args.iter().map(to_i64).collect::<DfResult<Vec<_>>>()?;
                let mut out = Vec::with_capacity(rows.len);
                for (l, r) in wide[0].iter().zip(&wide[1]) {
                    out.push(match (l, r) {
                        (Some(l), Some(r)) => {
                            let value = if negative { l.checked_sub(*r) } else { l.checked_add(*r) };
                            Some(value.ok_or_else(interval_overflow)?)
                        }
                        _ => None,
                    });
                }
                from_i64(out, &ty)
            });
            Ok(call.named(format!("({shown})")).with_spark_type(units).may_fail())
        }
        _ => Err(mismatch(&l, &r)),
    }
}

fn interval_overflow() -> datafusion::common::DataFusionError {
    spark_error("INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION", "an interval is out of range")
}

fn to_i64(array: &ArrayRef) -> DfResult<Vec<Option<i64>>> {
    Ok(match array.data_type() {
        DataType::Duration(_) => downcast::<DurationMicrosecondArray>(array)?.iter().collect(),
        _ => downcast::<IntervalYearMonthArray>(array)?.iter().map(|v| v.map(i64::from)).collect(),
    })
}

fn from_i64(values: Vec<Option<i64>>, ty: &DataType) -> DfResult<ArrayRef> {
    Ok(match ty {
        DataType::Duration(_) => Arc::new(DurationMicrosecondArray::from(values)),
        _ => {
            let mut out = Vec::with_capacity(values.len());
            for value in values {
                out.push(match value {
                    Some(v) => Some(i32::try_from(v).map_err(|_| interval_overflow())?),
                    None => None,
                });
            }
            Arc::new(IntervalYearMonthArray::from(out))
        }
    })
}

/// The units that hold both intervals.
fn common_units(l: &Typed, r: &Typed) -> String {
    let units = |t: &Typed| {
        t.spark_type.as_deref().and_then(units_of).unwrap_or(if t.ty == day_time_interval() {
            (Unit::Day, Unit::Second)
        } else {
            (Unit::Year, Unit::Month)
        })
    };
    let ((a, b), (c, d)) = (units(l), units(r));
    type_name(a.min(c), b.max(d))
}

/// A timestamp moved by an interval.
fn shift(a: &Analyzer, l: Typed, r: Typed, negative: bool, shown: String) -> Result<Typed> {
    let ty = l.ty.clone();
    let zone = match &ty {
        DataType::Timestamp(_, Some(_)) => Zone::parse(&a.conf.time_zone).unwrap_or(Zone::UTC),
        _ => Zone::UTC,
    };
    let key = format!("{negative}|{}", a.conf.time_zone);
    let target = ty.clone();
    Ok(a.call("timestamp_shift", key, ty, &[l, r], move |rows: Rows| {
        let times: &TimestampMicrosecondArray = downcast(&rows.args[0])?;
        let sign = if negative { -1 } else { 1 };
        let moves: Vec<Option<(i32, i64, i64)>> = match rows.args[1].data_type() {
            DataType::Duration(_) => downcast::<DurationMicrosecondArray>(&rows.args[1])?.iter().map(|v| v.map(|v| (0, 0, v))).collect(),
            DataType::Interval(IntervalUnit::YearMonth) => {
                downcast::<IntervalYearMonthArray>(&rows.args[1])?.iter().map(|v| v.map(|v| (v, 0, 0))).collect()
            }
            _ => downcast::<IntervalMonthDayNanoArray>(&rows.args[1])?
                .iter()
                .map(|v| v.map(|v| (v.months, i64::from(v.days), v.nanoseconds / 1000)))
                .collect(),
        };
        let mut out = Vec::with_capacity(rows.len);
        for (time, by) in times.iter().zip(moves) {
            out.push(match (time, by) {
                (Some(time), Some((months, days, rest))) => Some(
                    timestamp_add(
                        time,
                        months.saturating_mul(sign),
                        days.saturating_mul(i64::from(sign)),
                        rest.saturating_mul(i64::from(sign)),
                        &zone,
                    )
                    .ok_or_else(overflow)?,
                ),
                _ => None,
            });
        }
        let out = TimestampMicrosecondArray::from(out);
        Ok(match &target {
            DataType::Timestamp(_, Some(_)) => Arc::new(out.with_timezone("UTC")) as ArrayRef,
            _ => Arc::new(out),
        })
    })
    .named(shown)
    .may_fail())
}

/// Between two dates in days, between timestamps in microseconds.
fn difference(a: &Analyzer, l: Typed, r: Typed) -> Result<Typed> {
    let shown = format!("({} - {})", l.name, r.name);
    if l.ty == DataType::Date32 && matches!(r.ty, DataType::Date32 | DataType::Utf8) {
        let r = a.cast(r, &DataType::Date32)?;
        return Ok(a
            .call("date_difference", "", day_time_interval(), &[l, r], |rows: Rows| {
                let (l, r): (&Date32Array, &Date32Array) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
                Ok(Arc::new(
                    l.iter()
                        .zip(r)
                        .map(|(l, r)| (i64::from(l?) - i64::from(r?)).checked_mul(MICROS_PER_DAY))
                        .collect::<DurationMicrosecondArray>(),
                ) as ArrayRef)
            })
            .named(shown)
            .with_spark_type("interval day"));
    }
    let ty = match (&l.ty, &r.ty) {
        (DataType::Timestamp(_, None), DataType::Timestamp(_, None)) => l.ty.clone(),
        _ => timestamp(),
    };
    let (l, r) = (a.cast(l, &ty)?, a.cast(r, &ty)?);
    Ok(a.call("timestamp_difference", "", day_time_interval(), &[l, r], |rows: Rows| {
        let (l, r): (&TimestampMicrosecondArray, &TimestampMicrosecondArray) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
        Ok(Arc::new(l.iter().zip(r).map(|(l, r)| l?.checked_sub(r?)).collect::<DurationMicrosecondArray>()) as ArrayRef)
    })
    .named(shown)
    .with_spark_type("interval day to second"))
}

/// An interval times or divided by a number.
fn scale(a: &Analyzer, op: Op, interval: Typed, number: Typed) -> Result<Typed> {
    let shown = format!("({} {} {})", interval.name, if op == Op::Mul { "*" } else { "/" }, number.name);
    if !is_numeric(&number.ty) && !matches!(number.ty, DataType::Utf8 | DataType::Null)
        || matches!(interval.ty, DataType::Interval(IntervalUnit::MonthDayNano))
    {
        return Err(mismatch(&interval, &number));
    }
    let whole = is_integral(&number.ty) && op == Op::Mul;
    let number = a.cast(number, &DataType::Float64)?;
    let ty = interval.ty.clone();
    let units = if ty == day_time_interval() { "interval day to second" } else { "interval year to month" };
    let target = ty.clone();
    Ok(a.call("interval_scale", format!("{op:?}{whole}"), ty, &[interval, number], move |rows: Rows| {
        let values = to_i64(&rows.args[0])?;
        let factors: &Float64Array = downcast(&rows.args[1])?;
        let mut out = Vec::with_capacity(rows.len);
        for (value, factor) in values.into_iter().zip(factors) {
            let (Some(value), Some(factor)) = (value, factor) else {
                out.push(None);
                continue;
            };
            if op == Op::Div && factor == 0.0 {
                return Err(spark_error("INTERVAL_DIVIDED_BY_ZERO", "an interval was divided by zero; use try_divide to get NULL"));
            }
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            let made = if whole {
                value.checked_mul(factor as i64).ok_or_else(interval_overflow)?
            } else {
                let made = if op == Op::Mul { value as f64 * factor } else { value as f64 / factor };
                made.round() as i64
            };
            out.push(Some(made));
        }
        from_i64(out, &target)
    })
    .named(shown)
    .with_spark_type(units)
    .may_fail())
}
