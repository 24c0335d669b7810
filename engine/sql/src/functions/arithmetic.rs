//! `+ - * / % div`, negation, and the `try_` forms, with Spark's result types.
//!
//! Integers stay in their type and overflow is an error in ANSI mode, wraps in
//! legacy mode and is null in `try_` functions. Decimals follow Spark's
//! precision rules; intermediate values use 256 bits.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array};
use arrow::datatypes::{DataType, i256};
use datafusion::common::{Result as DfResult, ScalarValue};
use weir_core::Error;

use super::args;
use crate::analyzer::coerce::{self, adjusted, decimal_for, is_decimal, is_float, is_integral, is_numeric};
use crate::analyzer::{Analyzer, Typed};
use crate::error::spark_error;
use crate::types::quoted_type;
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// What happens to results that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// An error.
    Fail,
    /// Wrap-around for integers, null for decimals and division by zero.
    Wrap,
    /// Null.
    Null,
}

impl Overflow {
    /// Of a function with or without `try_`.
    pub fn of(is_try: bool, is_ansi: bool) -> Self {
        match (is_try, is_ansi) {
            (true, _) => Self::Null,
            (false, true) => Self::Fail,
            (false, false) => Self::Wrap,
        }
    }
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `div`
    IntDiv,
    /// `%`
    Rem,
    /// `pmod`
    Pmod,
}

impl Op {
    fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::IntDiv => "div",
            Self::Rem => "%",
            Self::Pmod => "pmod",
        }
    }
}

/// The functions of this file.
pub const NAMES: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "%",
    "div",
    "mod",
    "pmod",
    "try_add",
    "try_subtract",
    "try_multiply",
    "try_divide",
    "try_mod",
    "negative",
    "positive",
    "abs",
];

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    if matches!(name, "negative" | "positive" | "abs") {
        args::count(name, &list, 1, 1)?;
        let arg = list.swap_remove(0);
        return match name {
            "negative" => a.negate(arg),
            "abs" => a.absolute(arg),
            _ => {
                let shown = format!("(+ {})", arg.name);
                let arg = number(a, "positive", arg)?;
                Ok(arg.named(format!("\u{0}{shown}")))
            }
        };
    }
    args::count(name, &list, 2, 2)?;
    let (op, try_form) = match name {
        "+" => (Op::Add, false),
        "-" => (Op::Sub, false),
        "*" => (Op::Mul, false),
        "/" => (Op::Div, false),
        "%" | "mod" => (Op::Rem, false),
        "div" => (Op::IntDiv, false),
        "pmod" => (Op::Pmod, false),
        "try_add" => (Op::Add, true),
        "try_subtract" => (Op::Sub, true),
        "try_multiply" => (Op::Mul, true),
        "try_mod" => (Op::Rem, true),
        _ => (Op::Div, true),
    };
    let overflow = Overflow::of(try_form, a.conf.ansi);
    let r = list.swap_remove(1);
    let l = list.swap_remove(0);
    let shown =
        if name == "mod" { format!("\u{0}mod({}, {})", l.name, r.name) } else { format!("({} {} {})", l.name, op.symbol(), r.name) };
    if let Some(done) = crate::functions::temporal::arithmetic(a, op, &l, &r) {
        return done;
    }
    Ok(arithmetic(a, op, overflow, l, r)?.named(shown))
}

fn number(a: &Analyzer, name: &str, arg: Typed) -> Result<Typed> {
    match &arg.ty {
        t if is_numeric(t) || coerce::is_interval(t) => Ok(arg),
        DataType::Utf8 | DataType::Null => a.cast(arg, &DataType::Float64),
        _ => Err(args::wrong_type(name, &arg, "a number")),
    }
}

impl Analyzer<'_> {
    /// `-value`.
    pub fn negate(&self, value: Typed) -> Result<Typed> {
        let name = format!("(- {})", value.name);
        let value = number(self, "-", value)?;
        self.sign_change("negative", value, name, |v| v < 0, true)
    }

    fn absolute(&self, value: Typed) -> Result<Typed> {
        let name = format!("abs({})", value.name);
        let value = number(self, "abs", value)?;
        self.sign_change("abs", value, name, |_| true, false)
    }

    fn sign_change(&self, function: &str, value: Typed, name: String, _keep: fn(i64) -> bool, always: bool) -> Result<Typed> {
        let ansi = self.conf.ansi;
        let ty = value.ty.clone();
        let spark_type = value.spark_type.clone();
        let mut typed =
            self.call(function, ansi.to_string(), ty.clone(), &[value], move |rows: Rows| change_sign(&rows.args[0], always, ansi));
        if ansi && is_integral(&ty) {
            typed = typed.may_fail();
        }
        typed.spark_type = spark_type;
        Ok(typed.named(name))
    }
}

fn change_sign(array: &ArrayRef, always: bool, ansi: bool) -> DfResult<ArrayRef> {
    macro_rules! integers {
        ($kind:ty) => {{
            let mut out = Vec::with_capacity(array.len());
            for v in downcast::<$kind>(array)?.iter() {
                out.push(match v {
                    Some(v) if always || v < 0 => match v.checked_neg() {
                        Some(v) => Some(v),
                        None if ansi => {
                            return Err(spark_error(
                                "ARITHMETIC_OVERFLOW",
                                format!("overflow of -({v}); use try_ functions or a wider type"),
                            ));
                        }
                        None => Some(v),
                    },
                    other => other,
                });
            }
            Arc::new(out.into_iter().collect::<$kind>()) as ArrayRef
        }};
    }
    Ok(match array.data_type() {
        DataType::Int8 => integers!(Int8Array),
        DataType::Int16 => integers!(Int16Array),
        DataType::Int32 => integers!(Int32Array),
        DataType::Int64 => integers!(Int64Array),
        DataType::Float32 => {
            let values: &Float32Array = downcast(array)?;
            Arc::new(values.unary::<_, arrow::datatypes::Float32Type>(|v| if always { -v } else { v.abs() }))
        }
        DataType::Float64 => {
            let values: &Float64Array = downcast(array)?;
            Arc::new(values.unary::<_, arrow::datatypes::Float64Type>(|v| if always { -v } else { v.abs() }))
        }
        DataType::Decimal128(p, s) => {
            let values: &Decimal128Array = downcast(array)?;
            Arc::new(
                values
                    .unary::<_, arrow::datatypes::Decimal128Type>(|v| if always { -v } else { v.abs() })
                    .with_precision_and_scale(*p, *s)?,
            )
        }
        DataType::Duration(_) => integers!(arrow::array::DurationMicrosecondArray),
        DataType::Interval(_) => integers!(arrow::array::IntervalYearMonthArray),
        other => return Err(crate::cast::unsupported(other, other)),
    })
}

/// The operator after coercion.
fn arithmetic(a: &Analyzer, op: Op, overflow: Overflow, l: Typed, r: Typed) -> Result<Typed> {
    let (l, r) = promoted(a, op, l, r)?;
    // Spark looks at the divisor first, and at the left side of every other operator; beside a NULL the other side is not evaluated.
    let divides = matches!(op, Op::Div | Op::IntDiv | Op::Rem | Op::Pmod);
    let (first, second) = if divides { (r.clone(), l.clone()) } else { (l.clone(), r.clone()) };
    let is_null = l.is_null() || r.is_null();
    let value = evaluated(a, op, overflow, l, r)?;
    if is_null {
        let null = ScalarValue::try_from(&value.ty).map_err(crate::error::from_planning)?;
        return Ok(Typed::literal(null, value.name));
    }
    a.where_known(&first, &second, value)
}

fn evaluated(a: &Analyzer, op: Op, overflow: Overflow, l: Typed, r: Typed) -> Result<Typed> {
    if is_decimal(&l.ty) && is_decimal(&r.ty) {
        return decimals(a, op, overflow, l, r);
    }
    let result = if op == Op::IntDiv { DataType::Int64 } else { l.ty.clone() };
    let key = format!("{op:?}{overflow:?}");
    let fails = overflow == Overflow::Fail && (is_integral(&l.ty) || matches!(op, Op::Div | Op::Rem | Op::IntDiv | Op::Pmod));
    let typed = a.call(op.symbol(), key, result, &[l, r], move |rows: Rows| primitive(op, overflow, rows.args));
    Ok(if fails { typed.may_fail() } else { typed })
}

/// Both sides brought to types that the operator has.
fn promoted(a: &Analyzer, op: Op, l: Typed, r: Typed) -> Result<(Typed, Typed)> {
    let mismatch = |l: &Typed, r: &Typed| {
        Error::config(
            "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES",
            format!(
                "cannot resolve \"({} {} {})\": the left and right operands have incompatible types ({} and {}); CAST one of them",
                l.name,
                op.symbol(),
                r.name,
                quoted_type(&l.ty),
                quoted_type(&r.ty)
            ),
        )
    };
    let wrong = |l: &Typed, r: &Typed| {
        Error::config(
            "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE",
            format!(
                "cannot resolve \"({} {} {})\": the operator requires a number or an interval, not {}; CAST it",
                l.name,
                op.symbol(),
                r.name,
                quoted_type(&l.ty)
            ),
        )
    };
    let (mut l, mut r) = (l, r);
    // Strings.
    if l.ty == DataType::Utf8 || r.ty == DataType::Utf8 {
        if a.conf.ansi {
            match (l.ty == DataType::Utf8, r.ty == DataType::Utf8) {
                (true, true) => return Err(wrong(&l, &r)),
                (true, false) => {
                    let to = if r.ty == DataType::Null {
                        DataType::Float64
                    } else {
                        coerce::string_follows(&r.ty).ok_or_else(|| mismatch(&l, &r))?
                    };
                    l = a.cast(l, &to)?;
                }
                _ => {
                    let to = if l.ty == DataType::Null {
                        DataType::Float64
                    } else {
                        coerce::string_follows(&l.ty).ok_or_else(|| mismatch(&l, &r))?
                    };
                    r = a.cast(r, &to)?;
                }
            }
        } else {
            l = a.cast(l, &DataType::Float64)?;
            r = a.cast(r, &DataType::Float64)?;
        }
    }
    match (&l.ty, &r.ty) {
        (DataType::Null, DataType::Null) => {
            let ty = if op == Op::IntDiv { DataType::Int64 } else { DataType::Float64 };
            return Ok((a.cast(l, &ty)?, a.cast(r, &ty)?));
        }
        (DataType::Null, other) if is_numeric(other) => l = a.cast(l, &other.clone())?,
        (other, DataType::Null) if is_numeric(other) => r = a.cast(r, &other.clone())?,
        _ => {}
    }
    if !is_numeric(&l.ty) || !is_numeric(&r.ty) {
        return Err(if l.ty == r.ty { wrong(&l, &r) } else { mismatch(&l, &r) });
    }
    if is_decimal(&l.ty) != is_decimal(&r.ty) {
        let (decimal, other) = if is_decimal(&l.ty) { (&l, &r) } else { (&r, &l) };
        if is_float(&other.ty) {
            let _ = decimal;
            return Ok((a.cast(l, &DataType::Float64)?, a.cast(r, &DataType::Float64)?));
        }
        let to = |side: &Typed| -> DataType {
            match side.integer() {
                // A literal needs only the digits that it has.
                Some(v) => DataType::Decimal128(u8::try_from(v.unsigned_abs().max(1).ilog10() + 1).unwrap_or(19), 0),
                None => {
                    let (p, s) = decimal_for(&side.ty).unwrap_or((20, 0));
                    DataType::Decimal128(p, s)
                }
            }
        };
        if is_decimal(&l.ty) {
            let ty = to(&r);
            r = a.cast(r, &ty)?;
        } else {
            let ty = to(&l);
            l = a.cast(l, &ty)?;
        }
        return Ok((l, r));
    }
    if is_decimal(&l.ty) {
        return Ok((l, r));
    }
    let ty = match op {
        Op::Div => DataType::Float64,
        Op::IntDiv if is_integral(&l.ty) && is_integral(&r.ty) => DataType::Int64,
        Op::IntDiv => return Err(wrong(&l, &r)),
        _ => coerce::tightest(&l.ty, &r.ty, a.conf.ansi).ok_or_else(|| mismatch(&l, &r))?,
    };
    Ok((a.cast(l, &ty)?, a.cast(r, &ty)?))
}

fn zero_divisor(op: Op) -> datafusion::common::DataFusionError {
    let condition = if matches!(op, Op::Rem | Op::Pmod) { "REMAINDER_BY_ZERO" } else { "DIVIDE_BY_ZERO" };
    spark_error(condition, "division by zero; use try_divide or nullif(divisor, 0) to get NULL")
}

fn overflowed(op: Op, ty: &DataType, l: &str, r: &str) -> datafusion::common::DataFusionError {
    let condition = match ty {
        DataType::Int8 | DataType::Int16 => "BINARY_ARITHMETIC_OVERFLOW",
        _ => "ARITHMETIC_OVERFLOW",
    };
    spark_error(condition, format!("{l} {} {r} caused an overflow; use a wider type or a try_ function", op.symbol()))
}

fn primitive(op: Op, overflow: Overflow, args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let ty = args[0].data_type().clone();
    macro_rules! integers {
        ($native:ty, $kind:ty) => {{
            let (l, r): (&$kind, &$kind) = (downcast(&args[0])?, downcast(&args[1])?);
            let mut out: Vec<Option<$native>> = Vec::with_capacity(l.len());
            for (l, r) in l.iter().zip(r.iter()) {
                let (Some(l), Some(r)) = (l, r) else {
                    out.push(None);
                    continue;
                };
                let divides = matches!(op, Op::Div | Op::IntDiv | Op::Rem | Op::Pmod);
                if divides && r == 0 {
                    if overflow == Overflow::Fail {
                        return Err(zero_divisor(op));
                    }
                    out.push(None);
                    continue;
                }
                let (exact, wrapped) = match op {
                    Op::Add => (l.checked_add(r), l.wrapping_add(r)),
                    Op::Sub => (l.checked_sub(r), l.wrapping_sub(r)),
                    Op::Mul => (l.checked_mul(r), l.wrapping_mul(r)),
                    Op::Div | Op::IntDiv => (l.checked_div(r), l.wrapping_div(r)),
                    Op::Rem => (Some(l.wrapping_rem(r)), 0),
                    Op::Pmod => {
                        let rest = l.wrapping_rem(r);
                        (Some(if rest < 0 { rest.wrapping_add(r).wrapping_rem(r) } else { rest }), 0)
                    }
                };
                out.push(match (exact, overflow) {
                    (Some(v), _) => Some(v),
                    (None, Overflow::Fail) => return Err(overflowed(op, &ty, &l.to_string(), &r.to_string())),
                    (None, Overflow::Wrap) => Some(wrapped),
                    (None, Overflow::Null) => None,
                });
            }
            Ok(Arc::new(<$kind>::from(out)) as ArrayRef)
        }};
    }
    macro_rules! floats {
        ($kind:ty) => {{
            let (l, r): (&$kind, &$kind) = (downcast(&args[0])?, downcast(&args[1])?);
            let mut out = Vec::with_capacity(l.len());
            for (l, r) in l.iter().zip(r.iter()) {
                let (Some(l), Some(r)) = (l, r) else {
                    out.push(None);
                    continue;
                };
                if matches!(op, Op::Div | Op::IntDiv | Op::Rem | Op::Pmod) && r == 0.0 {
                    if overflow == Overflow::Fail {
                        return Err(zero_divisor(op));
                    }
                    out.push(None);
                    continue;
                }
                out.push(Some(match op {
                    Op::Add => l + r,
                    Op::Sub => l - r,
                    Op::Mul => l * r,
                    Op::Div | Op::IntDiv => l / r,
                    Op::Rem => l % r,
                    Op::Pmod => {
                        let rest = l % r;
                        if rest < 0.0 { (rest + r) % r } else { rest }
                    }
                }));
            }
            Ok(Arc::new(<$kind>::from(out)) as ArrayRef)
        }};
    }
    match &ty {
        DataType::Int8 => integers!(i8, Int8Array),
        DataType::Int16 => integers!(i16, Int16Array),
        DataType::Int32 => integers!(i32, Int32Array),
        DataType::Int64 => integers!(i64, Int64Array),
        DataType::Float32 => floats!(Float32Array),
        _ => floats!(Float64Array),
    }
}

/// Spark's result type of an operator on decimals.
fn decimal_result(op: Op, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> DataType {
    let (p1, s1, p2, s2) = (i32::from(p1), i32::from(s1), i32::from(p2), i32::from(s2));
    match op {
        Op::Add | Op::Sub => {
            let scale = s1.max(s2);
            adjusted((p1 - s1).max(p2 - s2) + scale + 1, scale)
        }
        Op::Mul => adjusted(p1 + p2 + 1, s1 + s2),
        Op::Div => {
            let whole = p1 - s1 + s2;
            let scale = 6.max(s1 + p2 + 1);
            adjusted(whole + scale, scale)
        }
        Op::Rem | Op::Pmod => {
            let scale = s1.max(s2);
            adjusted((p1 - s1).min(p2 - s2) + scale, scale)
        }
        Op::IntDiv => DataType::Int64,
    }
}

fn decimals(a: &Analyzer, op: Op, overflow: Overflow, l: Typed, r: Typed) -> Result<Typed> {
    let (Some(lt), Some(rt)) = (decimal_for(&l.ty), decimal_for(&r.ty)) else {
        return Err(args::wrong_type(op.symbol(), &l, "a decimal"));
    };
    let result = decimal_result(op, lt, rt);
    let key = format!("{op:?}{overflow:?}{lt:?}{rt:?}");
    let target = result.clone();
    let typed = a.call(op.symbol(), key, result, &[l, r], move |rows: Rows| decimal_kernel(op, overflow, rows.args, lt.1, rt.1, &target));
    Ok(if overflow == Overflow::Fail { typed.may_fail() } else { typed })
}

fn power(exponent: i32) -> Option<i256> {
    u32::try_from(exponent).ok().and_then(|e| i256::from_i128(10).checked_pow(e))
}

/// Divides and rounds half up.
fn divide_rounded(l: i256, r: i256) -> Option<i256> {
    let quotient = l.checked_div(r)?;
    let rest = l.checked_rem(r)?.checked_abs()?;
    let up = rest.checked_mul(i256::from_i128(2))? >= r.checked_abs()?;
    if !up {
        return Some(quotient);
    }
    let negative = (l < i256::ZERO) != (r < i256::ZERO);
    if negative { quotient.checked_sub(i256::ONE) } else { quotient.checked_add(i256::ONE) }
}

fn decimal_value(op: Op, l: i128, r: i128, s1: i32, s2: i32, scale: i32) -> Option<i256> {
    let (l, r) = (i256::from_i128(l), i256::from_i128(r));
    let common = s1.max(s2);
    let aligned = || Some((l.checked_mul(power(common - s1)?)?, r.checked_mul(power(common - s2)?)?));
    let (value, at) = match op {
        Op::Add => {
            let (l, r) = aligned()?;
            (l.checked_add(r)?, common)
        }
        Op::Sub => {
            let (l, r) = aligned()?;
            (l.checked_sub(r)?, common)
        }
        Op::Mul => (l.checked_mul(r)?, s1 + s2),
        Op::Div => {
            // l / 10^s1 / (r / 10^s2), with `scale` digits.
            let shift = scale + s2 - s1;
            let l = if shift >= 0 { l.checked_mul(power(shift)?)? } else { l.checked_div(power(-shift)?)? };
            return divide_rounded(l, r);
        }
        Op::IntDiv => {
            let (l, r) = aligned()?;
            return l.checked_div(r);
        }
        Op::Rem => {
            let (l, r) = aligned()?;
            (l.checked_rem(r)?, common)
        }
        Op::Pmod => {
            let (l, r) = aligned()?;
            let rest = l.checked_rem(r)?;
            (if rest < i256::ZERO { rest.checked_add(r)?.checked_rem(r)? } else { rest }, common)
        }
    };
    match scale - at {
        0 => Some(value),
        up if up > 0 => value.checked_mul(power(up)?),
        down => divide_rounded(value, power(-down)?),
    }
}

fn decimal_kernel(op: Op, overflow: Overflow, args: &[ArrayRef], s1: i8, s2: i8, target: &DataType) -> DfResult<ArrayRef> {
    let (l, r): (&Decimal128Array, &Decimal128Array) = (downcast(&args[0])?, downcast(&args[1])?);
    let (precision, scale) = match target {
        DataType::Decimal128(p, s) => (*p, *s),
        _ => (19, 0),
    };
    let limit = power(i32::from(precision)).unwrap_or(i256::MAX);
    let mut out: Vec<Option<i128>> = Vec::with_capacity(l.len());
    for (l, r) in l.iter().zip(r.iter()) {
        let (Some(l), Some(r)) = (l, r) else {
            out.push(None);
            continue;
        };
        if r == 0 && matches!(op, Op::Div | Op::IntDiv | Op::Rem | Op::Pmod) {
            if overflow == Overflow::Fail {
                return Err(zero_divisor(op));
            }
            out.push(None);
            continue;
        }
        let value = decimal_value(op, l, r, i32::from(s1), i32::from(s2), i32::from(scale))
            .filter(|v| v.checked_abs().is_some_and(|v| v < limit))
            .and_then(i256::to_i128);
        if value.is_none() && overflow == Overflow::Fail {
            return Err(if op == Op::IntDiv {
                overflowed(op, &DataType::Int64, &l.to_string(), &r.to_string())
            } else {
                spark_error(
                    "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
                    format!(
                        "{} {} {} cannot be represented as decimal({precision},{scale}); use a try_ function to get NULL",
                        crate::cast::format_decimal(l, s1),
                        op.symbol(),
                        crate::cast::format_decimal(r, s2)
                    ),
                )
            });
        }
        out.push(value);
    }
    if target == &DataType::Int64 {
        return Ok(Arc::new(out.into_iter().map(|v| v.and_then(|v| i64::try_from(v).ok())).collect::<Int64Array>()));
    }
    Ok(Arc::new(Decimal128Array::from(out).with_precision_and_scale(precision, scale)?))
}
