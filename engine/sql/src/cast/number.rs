//! Casts to integers, floats and booleans.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, IntervalYearMonthArray, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::Result;

use super::decimal::{format_decimal, pow10};
use super::parse::{Fraction, double_from_string, integer_from_string};
use super::{Cast, CastMode, format_double, unsupported};
use crate::udf::downcast;

/// One value on its way to a number.
enum Number {
    Integer(i128),
    Float(f64),
    Decimal(i128, i8),
    Malformed(String),
}

impl Number {
    fn shown(&self) -> String {
        match self {
            Self::Integer(v) => v.to_string(),
            Self::Float(v) => format_double(*v),
            Self::Decimal(v, scale) => format_decimal(*v, *scale),
            Self::Malformed(text) => text.clone(),
        }
    }
}

fn numbers(array: &ArrayRef, to: &DataType, cast: Cast) -> Result<Vec<Option<Number>>> {
    macro_rules! integers {
        ($kind:ty) => {
            downcast::<$kind>(array)?.iter().map(|v| v.map(|v| Number::Integer(i128::from(v)))).collect()
        };
    }
    let to_float = matches!(to, DataType::Float32 | DataType::Float64);
    Ok(match array.data_type() {
        DataType::Int8 => integers!(Int8Array),
        DataType::Int16 => integers!(Int16Array),
        DataType::Int32 => integers!(Int32Array),
        DataType::Int64 => integers!(Int64Array),
        DataType::Boolean => integers!(BooleanArray),
        DataType::Float32 => downcast::<Float32Array>(array)?.iter().map(|v| v.map(|v| Number::Float(f64::from(v)))).collect(),
        DataType::Float64 => downcast::<Float64Array>(array)?.iter().map(|v| v.map(Number::Float)).collect(),
        DataType::Decimal128(_, scale) => {
            downcast::<Decimal128Array>(array)?.iter().map(|v| v.map(|v| Number::Decimal(v, *scale))).collect()
        }
        DataType::Timestamp(_, Some(_)) => downcast::<TimestampMicrosecondArray>(array)?
            .iter()
            .map(|v| {
                v.map(|v| {
                    if to_float {
                        #[allow(clippy::cast_precision_loss)]
                        Number::Float(v as f64 / 1_000_000.0)
                    } else {
                        Number::Integer(i128::from(v.div_euclid(1_000_000)))
                    }
                })
            })
            .collect(),
        // Legacy mode gives null; ANSI mode does not allow this cast at all.
        DataType::Date32 => downcast::<Date32Array>(array)?.iter().map(|_| None).collect(),
        DataType::Duration(_) => integers!(DurationMicrosecondArray),
        DataType::Interval(IntervalUnit::YearMonth) => integers!(IntervalYearMonthArray),
        DataType::Utf8 => {
            let fraction = if cast.mode == CastMode::Legacy { Fraction::Cut } else { Fraction::Malformed };
            downcast::<StringArray>(array)?
                .iter()
                .map(|s| {
                    s.map(|s| {
                        let read = if to_float {
                            double_from_string(s).map(Number::Float)
                        } else {
                            integer_from_string(s, fraction).map(|v| Number::Integer(i128::from(v)))
                        };
                        read.unwrap_or_else(|| Number::Malformed(s.to_owned()))
                    })
                })
                .collect()
        }
        other => return Err(unsupported(other, to)),
    })
}

/// Casts to an integer or a float.
pub fn to_number(array: &ArrayRef, to: &DataType, cast: Cast) -> Result<ArrayRef> {
    let from = array.data_type().clone();
    let values = numbers(array, to, cast)?;
    macro_rules! integral {
        ($native:ty, $kind:ty) => {{
            let mut out: Vec<Option<$native>> = Vec::with_capacity(values.len());
            for value in values {
                out.push(match value {
                    None => None,
                    Some(number) => {
                        let (exact, wrapped) = integer(&number);
                        match exact.and_then(|v| <$native>::try_from(v).ok()) {
                            Some(v) => Some(v),
                            None if matches!(number, Number::Malformed(_)) || from == DataType::Utf8 => {
                                cast.invalid(&number.shown(), &from, to)?
                            }
                            None => cast.overflow(&number.shown(), &from, to, Some(narrow(wrapped, &number) as $native))?,
                        }
                    }
                });
            }
            Arc::new(<$kind>::from(out)) as ArrayRef
        }};
    }
    #[allow(clippy::cast_possible_truncation)]
    Ok(match to {
        DataType::Int8 => integral!(i8, Int8Array),
        DataType::Int16 => integral!(i16, Int16Array),
        DataType::Int32 => {
            // Floats saturate at the ends of int in legacy mode.
            if matches!(from, DataType::Float32 | DataType::Float64) && cast.mode == CastMode::Legacy {
                Arc::new(values.into_iter().map(|v| v.map(|v| if let Number::Float(f) = v { f as i32 } else { 0 })).collect::<Int32Array>())
            } else {
                integral!(i32, Int32Array)
            }
        }
        DataType::Int64 => integral!(i64, Int64Array),
        _ => {
            let mut out: Vec<Option<f64>> = Vec::with_capacity(values.len());
            for value in values {
                #[allow(clippy::cast_precision_loss)]
                let float = match value {
                    None => None,
                    Some(Number::Integer(v)) => Some(v as f64),
                    Some(Number::Float(v)) => Some(v),
                    Some(Number::Decimal(v, scale)) => format_decimal(v, scale).parse().ok(),
                    Some(Number::Malformed(text)) => cast.invalid(&text, &from, to)?,
                };
                out.push(float);
            }
            if *to == DataType::Float32 {
                Arc::new(out.into_iter().map(|v| v.map(|v| v as f32)).collect::<Float32Array>())
            } else {
                Arc::new(Float64Array::from(out))
            }
        }
    })
}

/// The exact integer, and the one to wrap around.
fn integer(number: &Number) -> (Option<i128>, i128) {
    match number {
        Number::Integer(v) => (Some(*v), *v),
        Number::Float(v) if v.is_nan() => (None, 0),
        #[allow(clippy::cast_possible_truncation)]
        Number::Float(v) => (v.is_finite().then_some(*v as i128), *v as i128),
        Number::Decimal(v, scale) => {
            let whole = v / pow10(u32::try_from(*scale).unwrap_or(0));
            (Some(whole), whole)
        }
        Number::Malformed(_) => (None, 0),
    }
}

/// Java narrows floats through int or long with saturation before it cuts bits.
#[allow(clippy::cast_possible_truncation)]
fn narrow(wrapped: i128, number: &Number) -> i64 {
    match number {
        Number::Float(v) if v.abs() < 9.3e18 => {
            if v.abs() > 2_147_483_647.0 {
                *v as i64
            } else {
                i64::from(*v as i32)
            }
        }
        Number::Float(v) => *v as i64,
        _ => wrapped as i64,
    }
}

/// Casts numbers and timestamps to boolean: everything but zero is true.
pub fn to_boolean(array: &ArrayRef) -> Result<ArrayRef> {
    let cast = Cast { mode: CastMode::Legacy, zone: weir_decode::time::Zone::UTC };
    let values = numbers(array, &DataType::Int64, cast)?;
    Ok(Arc::new(
        values
            .into_iter()
            .map(|v| {
                v.map(|v| match v {
                    Number::Integer(v) | Number::Decimal(v, _) => v != 0,
                    Number::Float(v) => v != 0.0,
                    Number::Malformed(_) => false,
                })
            })
            .collect::<BooleanArray>(),
    ))
}

/// Casts integers to their big-endian bytes.
pub fn to_binary(array: &ArrayRef) -> Result<ArrayRef> {
    macro_rules! bytes {
        ($kind:ty) => {
            downcast::<$kind>(array)?.iter().map(|v| v.map(|v| v.to_be_bytes())).collect::<BinaryArray>()
        };
    }
    Ok(Arc::new(match array.data_type() {
        DataType::Int8 => bytes!(Int8Array),
        DataType::Int16 => bytes!(Int16Array),
        DataType::Int32 => bytes!(Int32Array),
        DataType::Int64 => bytes!(Int64Array),
        other => return Err(unsupported(other, &DataType::Binary)),
    }))
}
