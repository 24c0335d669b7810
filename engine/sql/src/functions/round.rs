//! `round`, `bround`, `ceil`, `floor`.
//!
//! Decimals get Spark's result type; floats are rounded on their shortest
//! decimal form, as Spark does through BigDecimal.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use weir_core::Error;

use super::args;
use crate::analyzer::{Analyzer, Typed, coerce};
use crate::cast::{fits, pow10, rescale};
use crate::error::spark_error;
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// More places than any number has, on either side of its point.
const MOST_PLACES: i32 = 400;

/// How a number is brought to fewer digits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    HalfUp,
    HalfEven,
    Up,
    Down,
}

/// Builds a call.
pub fn rounding(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    args::count(name, &list, 1, 2)?;
    let way = match name {
        "ceil" | "ceiling" => Way::Up,
        "floor" => Way::Down,
        "round" => Way::HalfUp,
        _ => Way::HalfEven,
    };
    let whole = matches!(way, Way::Up | Way::Down);
    let scaled = list.len() == 2;
    let places = match list.get(1) {
        None => 0,
        Some(places) => places.integer().and_then(|p| i32::try_from(p).ok()).ok_or_else(|| {
            Error::config("DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", format!("the scale of {name} must be an integer literal"))
        })?,
    };
    let digits = places.clamp(-MOST_PLACES, MOST_PLACES);
    let mut value = list.swap_remove(0);
    if matches!(value.ty, DataType::Utf8 | DataType::Null) {
        value = a.cast(value, &DataType::Float64)?;
    }
    if !coerce::is_numeric(&value.ty) {
        return Err(args::wrong_type(name, &value, "a number"));
    }
    let shown = match (whole, scaled) {
        (true, false) => format!("\u{0}{}({})", name.to_uppercase(), value.name),
        (true, true) => format!("\u{0}{name}({}, {places})", value.name),
        _ => format!("\u{0}{name}({}, {places})", value.name),
    };
    // With a scale, ceil and floor work on decimals only.
    if whole && scaled && !coerce::is_decimal(&value.ty) {
        let (p, s) = coerce::decimal_for(&value.ty).unwrap_or((30, 15));
        value = a.cast(value, &DataType::Decimal128(p, s))?;
    }
    let ty = value.ty.clone();
    let result = match &ty {
        DataType::Decimal128(p, s) => {
            let (p, s) = (i32::from(*p), i32::from(*s));
            if whole && !scaled {
                coerce::bounded(if s == 0 { p } else { p - s + 1 }, 0)
            } else if digits < 0 {
                coerce::bounded((p - s + 1).max(-digits + 1), 0)
            } else {
                let kept = digits.min(s);
                coerce::bounded(p - s + kept + 1, kept)
            }
        }
        _ if whole => DataType::Int64,
        t => t.clone(),
    };
    let ansi = a.conf.ansi;
    let target = result.clone();
    let key = format!("{digits}|{ansi}");
    let call = a.call(name, key, result, &[value], move |rows: Rows| rounded(&rows.args[0], way, digits, &target, ansi));
    let call = if ansi && coerce::is_integral(&ty) && digits < 0 { call.may_fail() } else { call };
    Ok(call.named(shown))
}

fn divide(value: i128, divisor: i128, way: Way) -> i128 {
    let (quotient, rest) = (value.div_euclid(divisor), value.rem_euclid(divisor));
    let up = match way {
        Way::Down => false,
        Way::Up => rest > 0,
        // From here on the euclidean rest decides; half up means away from zero.
        Way::HalfUp => rest > divisor - rest || (rest == divisor - rest && value > 0),
        Way::HalfEven => rest > divisor - rest || (rest == divisor - rest && quotient % 2 != 0),
    };
    if up { quotient + 1 } else { quotient }
}

fn rounded(array: &ArrayRef, way: Way, places: i32, target: &DataType, ansi: bool) -> DfResult<ArrayRef> {
    macro_rules! integers {
        ($kind:ty, $native:ty) => {{
            let values: &$kind = downcast(array)?;
            if places >= 0 && target == array.data_type() {
                return Ok(Arc::clone(array));
            }
            let divisor = pow10(u32::try_from(-places).unwrap_or(0).min(38));
            let mut out: Vec<Option<$native>> = Vec::with_capacity(values.len());
            for v in values.iter() {
                out.push(match v {
                    None => None,
                    Some(v) if places >= 0 => Some(v),
                    Some(v) => {
                        let value = divide(i128::from(v), divisor, way) * divisor;
                        match <$native>::try_from(value) {
                            Ok(v) => Some(v),
                            Err(_) if ansi => return Err(spark_error("ARITHMETIC_OVERFLOW", format!("rounding {v} caused an overflow"))),
                            #[allow(clippy::cast_possible_truncation)]
                            Err(_) => Some(value as $native),
                        }
                    }
                });
            }
            let out: ArrayRef = Arc::new(<$kind>::from(out));
            Ok(if out.data_type() == target { out } else { arrow::compute::cast(&out, target)? })
        }};
    }
    match array.data_type() {
        DataType::Int8 => integers!(Int8Array, i8),
        DataType::Int16 => integers!(Int16Array, i16),
        DataType::Int32 => integers!(Int32Array, i32),
        DataType::Int64 => integers!(Int64Array, i64),
        DataType::Decimal128(_, scale) => {
            let values: &Decimal128Array = downcast(array)?;
            let DataType::Decimal128(precision, wanted) = target else {
                return Err(crate::cast::unsupported(array.data_type(), target));
            };
            let drop = i32::from(*scale) - places;
            let out: Vec<Option<i128>> = values
                .iter()
                .map(|v| {
                    v.and_then(|v| {
                        if drop <= 0 {
                            return rescale(v, *scale, *wanted);
                        }
                        let divisor = pow10(u32::try_from(drop).unwrap_or(38).min(38));
                        let kept = divide(v, divisor, way);
                        let at = i8::try_from(places).unwrap_or(0);
                        if places < 0 { kept.checked_mul(pow10(u32::try_from(-places).unwrap_or(0))) } else { rescale(kept, at, *wanted) }
                    })
                    .filter(|v| fits(*v, *precision))
                })
                .collect();
            Ok(Arc::new(Decimal128Array::from(out).with_precision_and_scale(*precision, *wanted)?))
        }
        DataType::Float32 => {
            let values: &Float32Array = downcast(array)?;
            if target == &DataType::Int64 {
                #[allow(clippy::cast_possible_truncation)]
                return Ok(Arc::new(
                    values
                        .iter()
                        .map(|v| v.map(|v| if way == Way::Up { v.ceil() as i64 } else { v.floor() as i64 }))
                        .collect::<Int64Array>(),
                ));
            }
            #[allow(clippy::cast_possible_truncation)]
            Ok(Arc::new(
                values
                    .iter()
                    .map(|v| v.map(|v| round_text(f64::from(v), &crate::cast::format_float(v), way, places) as f32))
                    .collect::<Float32Array>(),
            ))
        }
        _ => {
            let values: &Float64Array = downcast(array)?;
            if target == &DataType::Int64 {
                #[allow(clippy::cast_possible_truncation)]
                return Ok(Arc::new(
                    values
                        .iter()
                        .map(|v| v.map(|v| if way == Way::Up { v.ceil() as i64 } else { v.floor() as i64 }))
                        .collect::<Int64Array>(),
                ));
            }
            Ok(Arc::new(
                values.iter().map(|v| v.map(|v| round_text(v, &crate::cast::format_double(v), way, places))).collect::<Float64Array>(),
            ))
        }
    }
}

/// Rounds the shortest decimal form of a float, as Spark does through BigDecimal.
fn round_text(value: f64, text: &str, way: Way, places: i32) -> f64 {
    if !value.is_finite() {
        return value;
    }
    let (mantissa, exponent) = text.split_once('E').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let negative = mantissa.starts_with('-');
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = if fraction == "0" { "" } else { fraction };
    let Ok(digits) = format!("{whole}{fraction}").parse::<i128>() else { return value };
    let scale = i32::try_from(fraction.len()).unwrap_or(0) - exponent;
    let drop = scale - places;
    if drop <= 0 {
        return value;
    }
    let signed = if negative { -digits } else { digits };
    let kept = if drop > 37 { 0 } else { divide(signed, pow10(u32::try_from(drop).unwrap_or(37)), way) };
    format!("{kept}e{}", -places).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_the_printed_form() {
        assert_eq!(round_text(1.005, "1.005", Way::HalfUp, 2), 1.01);
        assert_eq!(divide(-25, 10, Way::HalfUp), -3);
        assert_eq!(divide(25, 10, Way::HalfEven), 2);
        assert_eq!(divide(35, 10, Way::HalfEven), 4);
        assert_eq!(divide(-12, 10, Way::Up), -1);
    }
}
