//! Mathematical functions, bits and bases.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use weir_core::Error;

use super::args;
use crate::analyzer::{Analyzer, Typed, coerce};
use crate::error::spark_error;
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// The functions of this file.
pub const NAMES: &[&str] = &[
    "sqrt",
    "cbrt",
    "exp",
    "expm1",
    "ln",
    "log",
    "log10",
    "log2",
    "log1p",
    "pow",
    "power",
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "atan2",
    "hypot",
    "degrees",
    "radians",
    "pi",
    "e",
    "rint",
    "sign",
    "signum",
    "ceil",
    "ceiling",
    "floor",
    "round",
    "bround",
    "factorial",
    "width_bucket",
    "bin",
    "conv",
    "shiftleft",
    "shiftright",
    "shiftrightunsigned",
    "bit_count",
    "bit_get",
    "getbit",
    "&",
    "|",
    "^",
    "~",
];

/// Floats with one zero and one NaN.
pub fn normalize(array: &ArrayRef) -> DfResult<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float32 => {
            let values: &Float32Array = downcast(array)?;
            Arc::new(values.unary::<_, arrow::datatypes::Float32Type>(|v| if v.is_nan() { f32::NAN } else { v + 0.0 }))
        }
        _ => {
            let values: &Float64Array = downcast(array)?;
            Arc::new(values.unary::<_, arrow::datatypes::Float64Type>(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }))
        }
    })
}

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    if let Some(f) = unary(name) {
        return one(a, name, list, move |v| Some(f(v)));
    }
    match name {
        "ln" => one(a, name, list, |v| (v > 0.0).then(|| v.ln())),
        "log10" => one(a, name, list, |v| (v > 0.0).then(|| v.log10())),
        "log2" => one(a, name, list, |v| (v > 0.0).then(|| v.log2())),
        "log1p" => one(a, name, list, |v| (v > -1.0).then(|| v.ln_1p())),
        "log" if list.len() == 1 => Ok(one(a, "ln", list, |v| (v > 0.0).then(|| v.ln()))?),
        "log" => two(a, name, list, |b, v| (b > 0.0 && v > 0.0).then(|| log_base(b, v))),
        "pow" | "power" => two(a, name, list, |b, e| Some(java_pow(b, e))),
        "atan2" => two(a, name, list, |y, x| Some(y.atan2(x))),
        "hypot" => two(a, name, list, |x, y| Some(x.hypot(y))),
        "pi" => constant(name, list, std::f64::consts::PI),
        "e" => constant(name, list, std::f64::consts::E),
        "ceil" | "ceiling" | "floor" | "round" | "bround" => super::round::rounding(a, name, list),
        "factorial" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[DataType::Int32])?;
            Ok(a.call(name, "", DataType::Int64, &list, |rows: Rows| {
                let values: &Int32Array = downcast(&rows.args[0])?;
                Ok(Arc::new(
                    values
                        .iter()
                        .map(|v| v.filter(|v| (0..=20).contains(v)).map(|v| (1..=i64::from(v)).product::<i64>()))
                        .collect::<Int64Array>(),
                ) as ArrayRef)
            }))
        }
        "width_bucket" => {
            args::count(name, &list, 4, 4)?;
            let double = DataType::Float64;
            let list = args::to_types(a, list, &[double.clone(), double.clone(), double, DataType::Int64])?;
            Ok(a.call(name, "", DataType::Int64, &list, |rows: Rows| width_bucket(rows.args)))
        }
        "bin" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[DataType::Int64])?;
            Ok(a.call(name, "", DataType::Utf8, &list, |rows: Rows| {
                let values: &Int64Array = downcast(&rows.args[0])?;
                Ok(Arc::new(values.iter().map(|v| v.map(|v| format!("{v:b}"))).collect::<StringArray>()) as ArrayRef)
            }))
        }
        "conv" => {
            args::count(name, &list, 3, 3)?;
            let list = args::to_types(a, list, &[DataType::Utf8, DataType::Int32, DataType::Int32])?;
            Ok(a.call(name, "", DataType::Utf8, &list, |rows: Rows| conv(rows.args)))
        }
        "shiftleft" | "shiftright" | "shiftrightunsigned" => {
            args::count(name, &list, 2, 2)?;
            if list[0].ty != DataType::Int64 {
                list[0] = a.cast(list[0].clone(), &DataType::Int32)?;
            }
            list[1] = a.cast(list[1].clone(), &DataType::Int32)?;
            let kind = name.to_owned();
            let ty = list[0].ty.clone();
            Ok(a.call(name, "", ty, &list, move |rows: Rows| shift(&kind, rows.args)))
        }
        "bit_count" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[DataType::Int64])?;
            Ok(a.call(name, "", DataType::Int32, &list, |rows: Rows| {
                let values: &Int64Array = downcast(&rows.args[0])?;
                Ok(Arc::new(values.iter().map(|v| v.and_then(|v| i32::try_from(v.count_ones()).ok())).collect::<Int32Array>()) as ArrayRef)
            }))
        }
        "bit_get" | "getbit" => {
            args::count(name, &list, 2, 2)?;
            let list = args::to_types(a, list, &[DataType::Int64, DataType::Int32])?;
            Ok(a.call(name, "", DataType::Int8, &list, |rows: Rows| {
                let (v, p): (&Int64Array, &Int32Array) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
                let mut out = Vec::with_capacity(rows.len);
                for (v, p) in v.iter().zip(p) {
                    out.push(match (v, p) {
                        (Some(v), Some(p)) if (0..64).contains(&p) => Some(i8::from(v >> p & 1 == 1)),
                        (Some(_), Some(p)) => {
                            return Err(spark_error(
                                "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE",
                                format!("the bit position {p} is not between 0 and 63"),
                            ));
                        }
                        _ => None,
                    });
                }
                Ok(Arc::new(Int8Array::from(out)) as ArrayRef)
            })
            .may_fail())
        }
        _ => bits(a, name, list),
    }
}

fn unary(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "sqrt" => f64::sqrt,
        "cbrt" => f64::cbrt,
        "exp" => super::strict::exp,
        "expm1" => f64::exp_m1,
        "sin" => f64::sin,
        "cos" => f64::cos,
        "tan" => f64::tan,
        "cot" => |v| 1.0 / v.tan(),
        "sec" => |v| 1.0 / v.cos(),
        "csc" => |v| 1.0 / v.sin(),
        "asin" => f64::asin,
        "acos" => f64::acos,
        "atan" => f64::atan,
        "sinh" => f64::sinh,
        "cosh" => f64::cosh,
        "tanh" => f64::tanh,
        "asinh" => f64::asinh,
        "acosh" => f64::acosh,
        "atanh" => f64::atanh,
        "degrees" => f64::to_degrees,
        "radians" => f64::to_radians,
        "rint" => f64::round_ties_even,
        "sign" | "signum" => |v| if v == 0.0 || v.is_nan() { v } else { v.signum() },
        _ => return None,
    })
}

fn log_base(base: f64, v: f64) -> f64 {
    // Exact where both logarithms are, as Java's division of natural logarithms mostly is.
    let quotient = v.ln() / base.ln();
    let rounded = quotient.round();
    if (quotient - rounded).abs() < 1e-14 && java_pow(base, rounded) == v { rounded } else { quotient }
}

/// Java's pow: a power of NaN exponent is NaN also for base 1.
fn java_pow(base: f64, exponent: f64) -> f64 {
    if exponent.is_nan() || (base.abs() == 1.0 && exponent.is_infinite()) { f64::NAN } else { base.powf(exponent) }
}

fn one(a: &Analyzer, name: &str, list: Vec<Typed>, f: impl Fn(f64) -> Option<f64> + Send + Sync + 'static) -> Result<Typed> {
    args::count(name, &list, 1, 1)?;
    let list = args::to_types(a, list, &[DataType::Float64])?;
    Ok(a.call(name, "", DataType::Float64, &list, move |rows: Rows| {
        let values: &Float64Array = downcast(&rows.args[0])?;
        Ok(Arc::new(values.iter().map(|v| v.and_then(&f)).collect::<Float64Array>()) as ArrayRef)
    }))
}

fn two(a: &Analyzer, name: &str, list: Vec<Typed>, f: fn(f64, f64) -> Option<f64>) -> Result<Typed> {
    args::count(name, &list, 2, 2)?;
    let list = args::all_to(a, list, &DataType::Float64)?;
    Ok(a.call(name, "", DataType::Float64, &list, move |rows: Rows| {
        let (l, r): (&Float64Array, &Float64Array) = (downcast(&rows.args[0])?, downcast(&rows.args[1])?);
        Ok(Arc::new(l.iter().zip(r).map(|(l, r)| f(l?, r?)).collect::<Float64Array>()) as ArrayRef)
    }))
}

fn constant(name: &str, list: Vec<Typed>, value: f64) -> Result<Typed> {
    args::count(name, &list, 0, 0)?;
    Ok(Typed::literal(datafusion::common::ScalarValue::Float64(Some(value)), name))
}

fn width_bucket(columns: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (v, low, high): (&Float64Array, &Float64Array, &Float64Array) =
        (downcast(&columns[0])?, downcast(&columns[1])?, downcast(&columns[2])?);
    let count: &Int64Array = downcast(&columns[3])?;
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    Ok(Arc::new(
        (0..v.len())
            .map(|row| {
                if columns.iter().any(|c| c.is_null(row)) {
                    return None;
                }
                let (v, low, high, count) = (v.value(row), low.value(row), high.value(row), count.value(row));
                if count <= 0 || count == i64::MAX || v.is_nan() || low == high || !low.is_finite() || !high.is_finite() {
                    return None;
                }
                let (lower, upper) = (low.min(high), low.max(high));
                let bucket = if low < high {
                    if v < lower {
                        0
                    } else if v >= upper {
                        count + 1
                    } else {
                        (count as f64 * (v - lower) / (upper - lower)) as i64 + 1
                    }
                } else if v > upper {
                    0
                } else if v <= lower {
                    count + 1
                } else {
                    (count as f64 * (upper - v) / (upper - lower)) as i64 + 1
                };
                Some(bucket)
            })
            .collect::<Int64Array>(),
    ))
}

fn conv(columns: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (s, from, to): (&StringArray, &Int32Array, &Int32Array) = (downcast(&columns[0])?, downcast(&columns[1])?, downcast(&columns[2])?);
    Ok(Arc::new(
        (0..s.len())
            .map(|row| {
                if columns.iter().any(|c| c.is_null(row)) {
                    return None;
                }
                let from = u32::try_from(from.value(row)).ok().filter(|b| (2..=36).contains(b))?;
                let signed = to.value(row) < 0;
                let to = u64::from(to.value(row).unsigned_abs());
                if !(2..=36).contains(&to) {
                    return None;
                }
                let text = s.value(row).trim();
                let (negative, digits) = match text.strip_prefix('-') {
                    Some(rest) => (true, rest),
                    None => (false, text),
                };
                let digits: String = digits.chars().take_while(|c| c.is_digit(from)).collect();
                if digits.is_empty() {
                    return Some("0".to_owned());
                }
                let mut value = u64::from_str_radix(&digits, from).unwrap_or(u64::MAX);
                if negative {
                    value = value.wrapping_neg();
                }
                let minus = signed && value.cast_signed() < 0;
                if minus {
                    value = value.wrapping_neg();
                }
                let mut out = Vec::new();
                loop {
                    out.push(char::from_digit(u32::try_from(value % to).ok()?, 36)?.to_ascii_uppercase());
                    value /= to;
                    if value == 0 {
                        break;
                    }
                }
                if minus {
                    out.push('-');
                }
                Some(out.into_iter().rev().collect::<String>())
            })
            .collect::<StringArray>(),
    ))
}

fn shift(kind: &str, columns: &[ArrayRef]) -> DfResult<ArrayRef> {
    let by: &Int32Array = downcast(&columns[1])?;
    if let Some(values) = columns[0].as_any().downcast_ref::<Int64Array>() {
        return Ok(Arc::new(
            values
                .iter()
                .zip(by)
                .map(|(v, n)| {
                    let (v, n) = (v?, n?.cast_unsigned() & 63);
                    Some(match kind {
                        "shiftleft" => v.wrapping_shl(n),
                        "shiftright" => v >> n,
                        _ => (v.cast_unsigned() >> n).cast_signed(),
                    })
                })
                .collect::<Int64Array>(),
        ));
    }
    let values: &Int32Array = downcast(&columns[0])?;
    Ok(Arc::new(
        values
            .iter()
            .zip(by)
            .map(|(v, n)| {
                let (v, n) = (v?, n?.cast_unsigned() & 31);
                Some(match kind {
                    "shiftleft" => v.wrapping_shl(n),
                    "shiftright" => v >> n,
                    _ => (v.cast_unsigned() >> n).cast_signed(),
                })
            })
            .collect::<Int32Array>(),
    ))
}

fn bits(a: &Analyzer, name: &str, list: Vec<Typed>) -> Result<Typed> {
    if name == "~" {
        args::count(name, &list, 1, 1)?;
        let value = &list[0];
        if !coerce::is_integral(&value.ty) {
            return Err(args::wrong_type(name, value, "an integer"));
        }
        let shown = format!("~{}", value.name);
        let ty = value.ty.clone();
        return Ok(a
            .call(name, "", ty.clone(), &list, move |rows: Rows| {
                let wide = arrow::compute::cast(&rows.args[0], &DataType::Int64)?;
                let values: &Int64Array = downcast(&wide)?;
                let out: ArrayRef = Arc::new(values.unary::<_, arrow::datatypes::Int64Type>(|v| !v));
                Ok(arrow::compute::cast(&out, &ty)?)
            })
            .named(shown));
    }
    args::count(name, &list, 2, 2)?;
    let shown = format!("({} {name} {})", list[0].name, list[1].name);
    let ty = coerce::wider(&list[0].ty, &list[1].ty, a.conf.ansi)
        .map(|t| if t == DataType::Null { DataType::Int32 } else { t })
        .filter(coerce::is_integral)
        .ok_or_else(|| args::wrong_type(name, &list[0], "integers"))?;
    let list = args::all_to(a, list, &ty)?;
    let kind = name.to_owned();
    Ok(a.call(name, "", ty.clone(), &list, move |rows: Rows| {
        let wide = rows.args.iter().map(|c| arrow::compute::cast(c, &DataType::Int64)).collect::<std::result::Result<Vec<_>, _>>()?;
        let (l, r): (&Int64Array, &Int64Array) = (downcast(&wide[0])?, downcast(&wide[1])?);
        let out: ArrayRef = Arc::new(
            l.iter()
                .zip(r)
                .map(|(l, r)| {
                    let (l, r) = (l?, r?);
                    Some(match kind.as_str() {
                        "&" => l & r,
                        "|" => l | r,
                        _ => l ^ r,
                    })
                })
                .collect::<Int64Array>(),
        );
        Ok(arrow::compute::cast(&out, &ty)?)
    })
    .named(shown))
}
