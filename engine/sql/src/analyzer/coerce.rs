//! Common types of several expressions, by Spark's two sets of rules.
//!
//! `tightest` loses nothing, `wider` also brings decimals, strings and nested
//! types together. ANSI mode lets a string follow the other side, legacy mode
//! turns the other side into a string.

use arrow::datatypes::DataType;

use crate::types::{MAX_PRECISION, list_of, map_of, map_types, struct_of, timestamp, timestamp_ntz};

/// Integral, fractional, decimal.
pub fn is_numeric(ty: &DataType) -> bool {
    is_integral(ty) || is_float(ty) || is_decimal(ty)
}

/// tinyint to bigint.
pub fn is_integral(ty: &DataType) -> bool {
    matches!(ty, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64)
}

/// float and double.
pub fn is_float(ty: &DataType) -> bool {
    matches!(ty, DataType::Float32 | DataType::Float64)
}

/// decimal.
pub fn is_decimal(ty: &DataType) -> bool {
    matches!(ty, DataType::Decimal128(..))
}

/// date, timestamp, timestamp_ntz.
pub fn is_datetime(ty: &DataType) -> bool {
    matches!(ty, DataType::Date32 | DataType::Timestamp(..))
}

/// Any interval.
pub fn is_interval(ty: &DataType) -> bool {
    matches!(ty, DataType::Duration(_) | DataType::Interval(_))
}

/// The decimal that holds every value of an integral type.
pub fn decimal_for(ty: &DataType) -> Option<(u8, i8)> {
    Some(match ty {
        DataType::Int8 => (3, 0),
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (20, 0),
        DataType::Float32 => (14, 7),
        DataType::Float64 => (30, 15),
        DataType::Decimal128(p, s) => (*p, *s),
        _ => return None,
    })
}

/// A decimal with its precision brought down to 38, fraction digits given up last.
pub fn adjusted(precision: i32, scale: i32) -> DataType {
    let max = i32::from(MAX_PRECISION);
    if precision <= max {
        return decimal(precision, scale);
    }
    let whole = precision - scale;
    let scale = (max - whole).max(scale.min(6));
    decimal(max, scale)
}

/// A decimal cut at 38 without giving digits from one side to the other.
pub fn bounded(precision: i32, scale: i32) -> DataType {
    let max = i32::from(MAX_PRECISION);
    decimal(precision.min(max), scale.min(max))
}

fn decimal(precision: i32, scale: i32) -> DataType {
    DataType::Decimal128(u8::try_from(precision.max(1)).unwrap_or(MAX_PRECISION), i8::try_from(scale).unwrap_or(0))
}

fn wider_decimal(a: (u8, i8), b: (u8, i8)) -> DataType {
    let scale = i32::from(a.1.max(b.1));
    let whole = (i32::from(a.0) - i32::from(a.1)).max(i32::from(b.0) - i32::from(b.1));
    if whole + scale > i32::from(MAX_PRECISION) {
        return adjusted(whole + scale, scale);
    }
    bounded(whole + scale, scale)
}

fn rank(ty: &DataType) -> Option<u8> {
    Some(match ty {
        DataType::Int8 => 0,
        DataType::Int16 => 1,
        DataType::Int32 => 2,
        DataType::Int64 => 3,
        DataType::Float32 => 4,
        DataType::Float64 => 5,
        _ => return None,
    })
}

/// The type that both fit into without loss, if there is one.
pub fn tightest(a: &DataType, b: &DataType, ansi: bool) -> Option<DataType> {
    if a == b {
        return Some(a.clone());
    }
    match (a, b) {
        (DataType::Null, other) | (other, DataType::Null) => return Some(other.clone()),
        (DataType::Date32, DataType::Timestamp(_, zone)) | (DataType::Timestamp(_, zone), DataType::Date32) => {
            return Some(if zone.is_some() { timestamp() } else { timestamp_ntz() });
        }
        (DataType::Timestamp(..), DataType::Timestamp(..)) => return Some(timestamp()),
        _ => {}
    }
    let (x, y) = (rank(a)?, rank(b)?);
    if ansi && x.max(y) == 4 && x.min(y) >= 2 {
        return Some(DataType::Float64);
    }
    Some(if x > y { a.clone() } else { b.clone() })
}

/// The type that an operator or function brings both sides to, if there is one.
pub fn wider(a: &DataType, b: &DataType, ansi: bool) -> Option<DataType> {
    if let Some(found) = tightest(a, b, ansi) {
        return Some(found);
    }
    match (a, b) {
        (DataType::Decimal128(p, s), DataType::Decimal128(q, t)) => Some(wider_decimal((*p, *s), (*q, *t))),
        (DataType::Decimal128(p, s), other) | (other, DataType::Decimal128(p, s)) if is_integral(other) => {
            Some(wider_decimal((*p, *s), decimal_for(other)?))
        }
        (DataType::Decimal128(..), other) | (other, DataType::Decimal128(..)) if is_float(other) => Some(DataType::Float64),
        (DataType::Utf8, other) | (other, DataType::Utf8) => {
            if ansi {
                string_follows(other)
            } else if matches!(other, DataType::List(_) | DataType::Map(..) | DataType::Struct(_) | DataType::Boolean | DataType::Binary) {
                None
            } else {
                Some(DataType::Utf8)
            }
        }
        (DataType::List(x), DataType::List(y)) => Some(list_of(wider(x.data_type(), y.data_type(), ansi)?)),
        (DataType::Map(..), DataType::Map(..)) => {
            let ((k1, v1), (k2, v2)) = (map_types(a)?, map_types(b)?);
            Some(map_of(wider(k1, k2, ansi)?, wider(v1, v2, ansi)?))
        }
        (DataType::Struct(x), DataType::Struct(y)) if x.len() == y.len() => {
            let fields: Option<Vec<_>> = x
                .iter()
                .zip(y)
                .map(|(x, y)| {
                    if !x.name().eq_ignore_ascii_case(y.name()) {
                        return None;
                    }
                    Some((x.name().clone(), wider(x.data_type(), y.data_type(), ansi)?))
                })
                .collect();
            Some(struct_of(fields?))
        }
        _ => None,
    }
}

/// ANSI: what a string turns into beside a value of another type.
pub fn string_follows(other: &DataType) -> Option<DataType> {
    match other {
        t if is_integral(t) => Some(DataType::Int64),
        t if is_float(t) || is_decimal(t) => Some(DataType::Float64),
        DataType::Boolean | DataType::Binary | DataType::Date32 | DataType::Timestamp(..) => Some(other.clone()),
        _ => None,
    }
}

/// The common type of all, if there is one. Strings last, so that the order
/// of the arguments does not matter.
pub fn common<'a>(types: impl IntoIterator<Item = &'a DataType>, ansi: bool) -> Option<DataType> {
    let (strings, others): (Vec<_>, Vec<_>) = types.into_iter().partition(|t| **t == DataType::Utf8);
    others.into_iter().chain(strings).try_fold(DataType::Null, |found, next| wider(&found, next, ansi))
}

/// The type that a comparison brings both sides to.
pub fn for_comparison(a: &DataType, b: &DataType, ansi: bool) -> Option<DataType> {
    if ansi {
        return wider(a, b, true);
    }
    match (a, b) {
        (DataType::Utf8, DataType::Utf8) => Some(DataType::Utf8),
        (DataType::Utf8, DataType::Decimal128(..)) | (DataType::Decimal128(..), DataType::Utf8) => Some(DataType::Float64),
        (DataType::Utf8, other) | (other, DataType::Utf8)
            if is_numeric(other) || is_datetime(other) || matches!(other, DataType::Boolean | DataType::Binary) =>
        {
            Some(other.clone())
        }
        _ => wider(a, b, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_follow_in_ansi_mode_only() {
        assert_eq!(wider(&DataType::Utf8, &DataType::Int32, true), Some(DataType::Int64));
        assert_eq!(wider(&DataType::Utf8, &DataType::Int32, false), Some(DataType::Utf8));
    }

    #[test]
    fn decimals_widen() {
        assert_eq!(wider(&DataType::Decimal128(3, 1), &DataType::Int32, true), Some(DataType::Decimal128(11, 1)));
        assert_eq!(adjusted(40, 20), DataType::Decimal128(38, 18));
    }
}
