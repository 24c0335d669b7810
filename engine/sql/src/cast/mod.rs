//! Spark's CAST, between any two types that Spark can cast.
//!
//! Three modes: ANSI fails on what does not fit, legacy turns it into null or
//! wraps around as Java does, try turns every failure into null. The kernels
//! work on whole arrays of the canonical types of `types`.

pub mod allowed;
mod datetime;
mod decimal;
mod nested;
mod number;
mod parse;
mod text;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, BooleanArray, StringArray, new_null_array};
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::{DataFusionError, Result};

use crate::error::spark_error;
use crate::types::spark_type_name;
use crate::udf::downcast;
use weir_decode::time::Zone;

pub use datetime::{
    date_from_string, days_to_micros, format_date, format_timestamp, special_instant, timestamp_from_string, timestamp_ntz_from_string,
};
pub use decimal::{Read, decimal_from_text, fits, format_decimal, pow10, rescale};
pub use parse::{boolean_from_string, double_from_string, integer_from_string};
pub use text::{format_double, format_float, to_strings};

/// What happens to values that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CastMode {
    /// An error.
    Ansi,
    /// Null or wrap-around.
    Legacy,
    /// Null.
    Try,
}

/// The settings of a cast.
#[derive(Clone, Copy, Debug)]
pub struct Cast {
    /// What happens to values that do not fit.
    pub mode: CastMode,
    /// The session's zone.
    pub zone: Zone,
}

impl Cast {
    /// Null, or the error of a value that cannot be read.
    pub fn invalid<T>(self, value: &str, from: &DataType, to: &DataType) -> Result<Option<T>> {
        if self.mode == CastMode::Ansi {
            return Err(spark_error(
                "CAST_INVALID_INPUT",
                format!(
                    "the value '{value}' of the type {} cannot be cast to {} because it is malformed; \
                     correct the value, or use try_cast to get NULL",
                    crate::types::quoted_type(from),
                    crate::types::quoted_type(to)
                ),
            ));
        }
        Ok(None)
    }

    /// The error of a number that is too large, or what `legacy` gives.
    pub fn overflow<T>(self, value: &str, from: &DataType, to: &DataType, legacy: Option<T>) -> Result<Option<T>> {
        match self.mode {
            CastMode::Ansi => Err(spark_error(
                "CAST_OVERFLOW",
                format!(
                    "the value {value} of the type {} cannot be cast to {} due to an overflow; use try_cast to get NULL",
                    crate::types::quoted_type(from),
                    crate::types::quoted_type(to)
                ),
            )),
            CastMode::Legacy => Ok(legacy),
            CastMode::Try => Ok(None),
        }
    }
}

/// Casts an array; units are those of an interval's Spark type name.
pub fn cast_array(array: &ArrayRef, to: &DataType, cast: Cast, units: Option<&str>) -> Result<ArrayRef> {
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    if from == &DataType::Null {
        return Ok(new_null_array(to, array.len()));
    }
    match (from, to) {
        (_, DataType::Utf8) => Ok(Arc::new(text::to_strings(array, cast.zone, units)?)),
        (DataType::List(_) | DataType::Map(..) | DataType::Struct(_), _) => nested::cast_nested(array, to, cast),
        (DataType::Utf8, DataType::Binary) => {
            let strings: &StringArray = downcast(array)?;
            Ok(Arc::new(strings.iter().map(|s| s.map(str::as_bytes)).collect::<BinaryArray>()))
        }
        (DataType::Utf8, DataType::Boolean) => {
            let strings: &StringArray = downcast(array)?;
            let mut out = Vec::with_capacity(strings.len());
            for s in strings {
                out.push(match s {
                    None => None,
                    Some(s) => match parse::boolean_from_string(s) {
                        Some(b) => Some(b),
                        None => cast.invalid(s, from, to)?,
                    },
                });
            }
            Ok(Arc::new(BooleanArray::from(out)))
        }
        (_, DataType::Decimal128(p, s)) => decimal::to_decimal(array, *p, *s, cast),
        (_, DataType::Date32) | (_, DataType::Timestamp(..)) => datetime::to_datetime(array, to, cast),
        (_, DataType::Duration(_) | DataType::Interval(_)) => to_interval(array, to, cast, units),
        (_, DataType::Boolean) => number::to_boolean(array),
        (_, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Float32 | DataType::Float64) => {
            number::to_number(array, to, cast)
        }
        (_, DataType::Binary) => number::to_binary(array),
        _ => Err(unsupported(from, to)),
    }
}

/// The error of a pair of types that has no cast.
pub fn unsupported(from: &DataType, to: &DataType) -> DataFusionError {
    spark_error("DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", format!("cannot cast {} to {}", spark_type_name(from), spark_type_name(to)))
}

fn to_interval(array: &ArrayRef, to: &DataType, cast: Cast, units: Option<&str>) -> Result<ArrayRef> {
    let from = array.data_type();
    if let DataType::Utf8 = from {
        let strings: &StringArray = downcast(array)?;
        let (first, last) = units.and_then(weir_decode::interval::units_of).unwrap_or(match to {
            DataType::Interval(IntervalUnit::YearMonth) => (weir_decode::interval::Unit::Year, weir_decode::interval::Unit::Month),
            _ => (weir_decode::interval::Unit::Day, weir_decode::interval::Unit::Second),
        });
        let mut out = Vec::with_capacity(strings.len());
        for s in strings {
            out.push(match s {
                None => None,
                Some(s) => match parse::interval_from_string(s, first, last) {
                    Some(v) => Some(v),
                    None if cast.mode == CastMode::Try => None,
                    None => {
                        return Err(spark_error(
                            "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING_WITH_NOTICE",
                            format!("`{s}` does not have the form of {}", weir_decode::interval::format(0, first, last)),
                        ));
                    }
                },
            });
        }
        return Ok(match to {
            DataType::Interval(IntervalUnit::YearMonth) => {
                Arc::new(out.into_iter().map(|v| v.and_then(|v| i32::try_from(v).ok())).collect::<arrow::array::IntervalYearMonthArray>())
            }
            DataType::Duration(_) => Arc::new(arrow::array::DurationMicrosecondArray::from(out)),
            _ => return Err(unsupported(from, to)),
        });
    }
    Err(unsupported(from, to))
}
