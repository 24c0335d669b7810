//! Decimals: reading, printing, changing scale, casting.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::parse::trimmed;
use super::{Cast, CastMode, format_double, format_float, unsupported};
use crate::error::spark_error;
use crate::udf::downcast;

/// Ten to a power that fits.
pub fn pow10(exponent: u32) -> i128 {
    10_i128.checked_pow(exponent).unwrap_or(i128::MAX)
}

/// Whether a value has at most so many digits.
pub fn fits(value: i128, precision: u8) -> bool {
    value.unsigned_abs() < pow10(u32::from(precision)).unsigned_abs()
}

/// The value at another scale, rounded half up; `None` where 38 digits are not enough.
pub fn rescale(value: i128, from: i8, to: i8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    if shift >= 0 {
        let power = u32::try_from(shift).ok()?;
        if power > 38 {
            return (value == 0).then_some(0);
        }
        return value.checked_mul(pow10(power));
    }
    let power = u32::try_from(-shift).ok()?;
    if power > 38 {
        return Some(0);
    }
    let divisor = pow10(power);
    let quotient = value / divisor;
    let rest = (value % divisor).unsigned_abs();
    let half = divisor.unsigned_abs() / 2;
    Some(if rest >= half { quotient + value.signum() } else { quotient })
}

/// Plain digits with the scale's fraction.
pub fn format_decimal(value: i128, scale: i8) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    let sign = if value < 0 { "-" } else { "" };
    let digits = value.unsigned_abs().to_string();
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let padded = if digits.len() <= scale { format!("{}{digits}", "0".repeat(scale + 1 - digits.len())) } else { digits };
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// What a text is as a decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// A value at the wanted scale.
    Value(i128),
    /// A number that has too many digits.
    TooLarge,
    /// No number.
    Malformed,
}

/// Reads `-12.5e3` at a scale, rounded half up.
pub fn decimal_from_text(text: &str, precision: u8, scale: i8) -> Read {
    let text = trimmed(text);
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((m, e)) => match e.parse::<i32>() {
            Ok(e) => (m, e),
            Err(_) => return Read::Malformed,
        },
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Read::Malformed;
    }
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    // The point stands after `point` digits; keep `scale` digits behind it.
    let leading = i64::try_from(whole.len() + fraction.len() - digits.len()).unwrap_or(0);
    let point = i64::try_from(whole.len()).unwrap_or(0) - leading + i64::from(exponent);
    let keep = point + i64::from(scale);
    if digits.is_empty() || keep < 0 {
        return Read::Value(0);
    }
    if keep > 39 {
        return Read::TooLarge;
    }
    let keep = usize::try_from(keep).unwrap_or(0);
    let mut value: i128 = 0;
    for index in 0..keep {
        let digit = digits.as_bytes().get(index).map_or(0, |b| i128::from(b - b'0'));
        value = match value.checked_mul(10).and_then(|v| v.checked_add(digit)) {
            Some(v) => v,
            None => return Read::TooLarge,
        };
    }
    if digits.as_bytes().get(keep).is_some_and(|b| *b >= b'5') {
        value += 1;
    }
    if !fits(value, precision) {
        return Read::TooLarge;
    }
    Read::Value(if negative { -value } else { value })
}

fn too_large(value: &str, precision: u8, scale: i8, cast: Cast) -> Result<Option<i128>> {
    if cast.mode == CastMode::Ansi {
        return Err(spark_error(
            "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
            format!("{value} cannot be represented as decimal({precision},{scale}); use a wider type, or try_cast to get NULL"),
        ));
    }
    Ok(None)
}

/// Casts to a decimal.
pub fn to_decimal(array: &ArrayRef, precision: u8, scale: i8, cast: Cast) -> Result<ArrayRef> {
    let from = array.data_type().clone();
    let to = DataType::Decimal128(precision, scale);
    let fit = |value: Option<i128>, shown: &dyn Fn() -> String| match value {
        Some(v) if fits(v, precision) => Ok(Some(v)),
        _ => too_large(&shown(), precision, scale, cast),
    };
    let mut out: Vec<Option<i128>> = Vec::with_capacity(array.len());
    macro_rules! integers {
        ($kind:ty) => {
            for v in downcast::<$kind>(array)?.iter() {
                out.push(match v {
                    None => None,
                    Some(v) => fit(rescale(i128::from(v), 0, scale), &|| v.to_string())?,
                });
            }
        };
    }
    match &from {
        DataType::Int8 => integers!(Int8Array),
        DataType::Int16 => integers!(Int16Array),
        DataType::Int32 => integers!(Int32Array),
        DataType::Int64 => integers!(Int64Array),
        DataType::Boolean => {
            for v in downcast::<BooleanArray>(array)? {
                out.push(match v {
                    None => None,
                    Some(v) => fit(rescale(i128::from(v), 0, scale), &|| v.to_string())?,
                });
            }
        }
        DataType::Decimal128(_, old) => {
            for v in downcast::<Decimal128Array>(array)? {
                out.push(match v {
                    None => None,
                    Some(v) => fit(rescale(v, *old, scale), &|| format_decimal(v, *old))?,
                });
            }
        }
        DataType::Timestamp(_, Some(_)) => {
            for v in downcast::<TimestampMicrosecondArray>(array)? {
                out.push(match v {
                    None => None,
                    Some(v) => fit(rescale(i128::from(v), 6, scale), &|| format_decimal(i128::from(v), 6))?,
                });
            }
        }
        DataType::Utf8 | DataType::Float32 | DataType::Float64 => {
            let texts: Vec<Option<String>> = match &from {
                DataType::Utf8 => downcast::<StringArray>(array)?.iter().map(|s| s.map(str::to_owned)).collect(),
                DataType::Float32 => downcast::<Float32Array>(array)?.iter().map(|v| v.map(format_float)).collect(),
                _ => downcast::<Float64Array>(array)?.iter().map(|v| v.map(format_double)).collect(),
            };
            for text in texts {
                out.push(match text {
                    None => None,
                    Some(text) => match decimal_from_text(&text, precision, scale) {
                        Read::Value(v) => Some(v),
                        Read::TooLarge => too_large(&text, precision, scale, cast)?,
                        Read::Malformed if from == DataType::Utf8 => cast.invalid(&text, &from, &to)?,
                        Read::Malformed => too_large(&text, precision, scale, cast)?,
                    },
                });
            }
        }
        other => return Err(unsupported(other, &to)),
    }
    Ok(Arc::new(Decimal128Array::from(out).with_precision_and_scale(precision, scale)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_half_up() {
        assert_eq!(decimal_from_text("1.005", 10, 2), Read::Value(101));
        assert_eq!(decimal_from_text("-1.005", 10, 2), Read::Value(-101));
        assert_eq!(decimal_from_text("1e2", 10, 2), Read::Value(10_000));
        assert_eq!(decimal_from_text("1234.5", 4, 1), Read::TooLarge);
        assert_eq!(decimal_from_text("1_0", 4, 1), Read::Malformed);
        assert_eq!(decimal_from_text("0.0004", 10, 2), Read::Value(0));
        assert_eq!(rescale(-25, 1, 0), Some(-3));
        assert_eq!(format_decimal(-5, 2), "-0.05");
    }

    proptest::proptest! {
        #[test]
        fn text_and_back(value in -1_000_000_000_i128..1_000_000_000, scale in 0_i8..9) {
            let text = format_decimal(value, scale);
            proptest::prop_assert_eq!(decimal_from_text(&text, 38, scale), Read::Value(value));
        }
    }
}
