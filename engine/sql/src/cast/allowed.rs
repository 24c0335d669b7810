//! Which casts exist, in ANSI and in legacy mode.

use arrow::datatypes::DataType;

use super::CastMode;
use crate::analyzer::coerce::{is_datetime, is_interval, is_numeric};
use crate::types::map_types;

/// Whether CAST between the two types is possible at all.
pub fn can_cast(from: &DataType, to: &DataType, mode: CastMode) -> bool {
    if from == to || from == &DataType::Null {
        return true;
    }
    let ansi = mode != CastMode::Legacy;
    match (from, to) {
        (_, DataType::Null) => false,
        (_, DataType::Utf8) => true,
        (DataType::Utf8, t) => is_numeric(t) || is_datetime(t) || matches!(t, DataType::Boolean | DataType::Binary) || is_interval(t),
        (DataType::Binary, _) => false,
        (f, DataType::Binary) => !ansi && matches!(f, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64),
        (f, t) if is_numeric(f) && is_numeric(t) => true,
        (DataType::Boolean, t) if is_numeric(t) => true,
        (f, DataType::Boolean) if is_numeric(f) => true,
        (f, DataType::Timestamp(_, Some(_))) if is_numeric(f) => true,
        (DataType::Boolean, DataType::Timestamp(_, Some(_))) => !ansi,
        (DataType::Timestamp(_, Some(_)), t) if is_numeric(t) => true,
        (DataType::Timestamp(_, Some(_)), DataType::Boolean) => !ansi,
        (DataType::Date32, t) if is_numeric(t) || *t == DataType::Boolean => !ansi,
        (f, t) if is_datetime(f) && is_datetime(t) => true,
        (DataType::List(f), DataType::List(t)) => can_cast(f.data_type(), t.data_type(), mode),
        (DataType::Map(..), DataType::Map(..)) => match (map_types(from), map_types(to)) {
            (Some((k1, v1)), Some((k2, v2))) => can_cast(k1, k2, mode) && can_cast(v1, v2, mode),
            _ => false,
        },
        (DataType::Struct(f), DataType::Struct(t)) => {
            f.len() == t.len() && f.iter().zip(t).all(|(f, t)| can_cast(f.data_type(), t.data_type(), mode))
        }
        _ => false,
    }
}

/// Whether a cast may fail or change values, so that it has to stay where it is.
pub fn may_fail(from: &DataType, to: &DataType, mode: CastMode) -> bool {
    if mode != CastMode::Ansi || from == to || from == &DataType::Null {
        return false;
    }
    match (from, to) {
        (_, DataType::Utf8 | DataType::Binary | DataType::Boolean) if *from != DataType::Utf8 => false,
        (DataType::Utf8, DataType::Binary) => false,
        (DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64, DataType::Float32 | DataType::Float64) => false,
        (DataType::Int8, DataType::Int16 | DataType::Int32 | DataType::Int64) => false,
        (DataType::Int16, DataType::Int32 | DataType::Int64) => false,
        (DataType::Int32, DataType::Int64) => false,
        (DataType::Float32, DataType::Float64) => false,
        (f, t) if is_datetime(f) && is_datetime(t) => false,
        _ => true,
    }
}
