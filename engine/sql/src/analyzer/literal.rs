//! Literals: numbers with suffixes, typed strings, intervals.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{DateTimeField, Expr as Sql, Interval, UnaryOperator, Value};
use weir_core::Error;

use super::{Result, Typed};
use crate::cast::{date_from_string, format_date, format_timestamp, timestamp_from_string, timestamp_ntz_from_string};
use crate::parser::wrong;
use crate::types::{MAX_PRECISION, calendar_interval, day_time_interval, year_month_interval};
use weir_decode::interval::{self, Unit};
use weir_decode::time::Zone;

/// A plain literal.
pub fn value(value: &Value) -> Result<Typed> {
    Ok(match value {
        Value::Number(text, long) => number(text, *long)?,
        Value::Boolean(b) => Typed::literal(ScalarValue::Boolean(Some(*b)), b.to_string()),
        Value::Null => Typed::null(),
        Value::HexStringLiteral(hex) => {
            let padded = if hex.len() % 2 == 1 { format!("0{hex}") } else { hex.clone() };
            let bytes: Option<Vec<u8>> = padded
                .as_bytes()
                .chunks(2)
                .map(|pair| std::str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok()))
                .collect();
            let bytes = bytes.ok_or_else(|| invalid_typed("X", hex))?;
            Typed::literal(ScalarValue::Binary(Some(bytes)), format!("X'{}'", padded.to_uppercase()))
        }
        other => match other.clone().into_string() {
            Some(text) => Typed::string(text),
            None => {
                return Err(wrong(&format!("`{other}` is no literal of Spark SQL")));
            }
        },
    })
}

fn number(text: &str, long: bool) -> Result<Typed> {
    let out_of_range = |ty: &str| {
        Error::config(
            "INVALID_NUMERIC_LITERAL_RANGE",
            format!("numeric literal {text} is outside the valid range for {ty}; write a smaller number, or CAST a string to DECIMAL"),
        )
    };
    if long {
        let v: i64 = text.parse().map_err(|_| out_of_range("bigint"))?;
        return Ok(Typed::literal(ScalarValue::Int64(Some(v)), text));
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let name = digits.to_owned();
    let double = || -> Result<Typed> {
        let v = digits.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| out_of_range("double"))?;
        Ok(Typed::literal(ScalarValue::Float64(Some(v)), crate::cast::format_double(v)))
    };
    match &text[digits.len()..] {
        "L" => {
            let v: i64 = digits.parse().map_err(|_| out_of_range("bigint"))?;
            return Ok(Typed::literal(ScalarValue::Int64(Some(v)), name));
        }
        "S" => {
            let v: i16 = digits.parse().map_err(|_| out_of_range("smallint"))?;
            return Ok(Typed::literal(ScalarValue::Int16(Some(v)), name));
        }
        "Y" => {
            let v: i8 = digits.parse().map_err(|_| out_of_range("tinyint"))?;
            return Ok(Typed::literal(ScalarValue::Int8(Some(v)), name));
        }
        "D" => return double(),
        "F" => {
            let v = digits.parse().ok().filter(|v: &f32| v.is_finite()).ok_or_else(|| out_of_range("float"))?;
            return Ok(Typed::literal(ScalarValue::Float32(Some(v)), crate::cast::format_float(v)));
        }
        "BD" => return decimal(digits),
        "" => {}
        _ => return Err(wrong(&format!("`{text}` is no number"))),
    }
    if digits.contains(['e', 'E']) {
        return double();
    }
    if digits.contains('.') {
        return decimal(digits);
    }
    if let Ok(v) = digits.parse::<i32>() {
        return Ok(Typed::int(v));
    }
    if let Ok(v) = digits.parse::<i64>() {
        return Ok(Typed::literal(ScalarValue::Int64(Some(v)), name));
    }
    decimal(digits)
}

fn decimal(text: &str) -> Result<Typed> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((m, e)) => (m, e.parse::<i32>().unwrap_or(if e.starts_with('-') { i32::MIN } else { i32::MAX })),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut scale = i32::try_from(fraction.len()).unwrap_or(i32::MAX).saturating_sub(exponent);
    let mut digits = format!("{whole}{fraction}").trim_start_matches('0').to_owned();
    if scale < 0 {
        digits.push_str(&"0".repeat(usize::try_from(scale.unsigned_abs()).unwrap_or(64).min(64)));
        scale = 0;
    }
    let precision = i32::try_from(digits.len()).unwrap_or(i32::MAX).max(scale).max(1);
    if precision > i32::from(MAX_PRECISION) {
        return Err(Error::config(
            "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION",
            format!("decimal literal {text} has {precision} digits; at most {MAX_PRECISION} are possible"),
        ));
    }
    let v: i128 = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(0) };
    let (precision, scale) = (u8::try_from(precision).unwrap_or(38), i8::try_from(scale).unwrap_or(0));
    Ok(Typed::literal(ScalarValue::Decimal128(Some(v), precision, scale), text))
}

/// The literal with its sign turned, where that is still a literal.
pub fn negated(typed: &Typed) -> Option<Typed> {
    let name = format!("-{}", typed.name);
    Some(match typed.value()? {
        ScalarValue::Int8(Some(v)) => Typed::literal(ScalarValue::Int8(Some(v.checked_neg()?)), name),
        ScalarValue::Int16(Some(v)) => Typed::literal(ScalarValue::Int16(Some(v.checked_neg()?)), name),
        ScalarValue::Int32(Some(v)) => Typed::literal(ScalarValue::Int32(Some(v.checked_neg()?)), name),
        ScalarValue::Int64(Some(2_147_483_648)) => Typed::int(i32::MIN),
        ScalarValue::Int64(Some(v)) => Typed::literal(ScalarValue::Int64(Some(v.checked_neg()?)), name),
        ScalarValue::Decimal128(Some(9_223_372_036_854_775_808), _, 0) => Typed::literal(ScalarValue::Int64(Some(i64::MIN)), name),
        ScalarValue::Decimal128(Some(v), p, s) => Typed::literal(ScalarValue::Decimal128(Some(-v), *p, *s), name),
        ScalarValue::Float32(Some(v)) => Typed::literal(ScalarValue::Float32(Some(-v)), name),
        ScalarValue::Float64(Some(v)) => Typed::literal(ScalarValue::Float64(Some(-v)), name),
        _ => return None,
    })
}

/// `DATE'..'`, `TIMESTAMP'..'`, `TIMESTAMP_NTZ'..'`.
pub fn typed_string(ty: &DataType, text: &str, zone: Zone, now: i64) -> Result<Typed> {
    Ok(match ty {
        DataType::Date32 => {
            let v = date_from_string(text, zone, now).ok_or_else(|| invalid_typed("DATE", text))?;
            Typed::literal(ScalarValue::Date32(Some(v)), format!("DATE '{}'", format_date(v)))
        }
        DataType::Timestamp(_, Some(_)) => {
            let v = timestamp_from_string(text, zone, now).ok_or_else(|| invalid_typed("TIMESTAMP", text))?;
            Typed::literal(
                ScalarValue::TimestampMicrosecond(Some(v), Some("UTC".into())),
                format!("TIMESTAMP '{}'", format_timestamp(zone.to_local(v))),
            )
        }
        DataType::Timestamp(_, None) => {
            let v = timestamp_ntz_from_string(text, zone, now).ok_or_else(|| invalid_typed("TIMESTAMP_NTZ", text))?;
            Typed::literal(ScalarValue::TimestampMicrosecond(Some(v), None), format!("TIMESTAMP_NTZ '{}'", format_timestamp(v)))
        }
        other => {
            return Err(Error::config(
                "UNSUPPORTED_TYPED_LITERAL",
                format!("literals of type {} do not exist; use CAST('{text}' AS ..)", crate::types::quoted_type(other)),
            ));
        }
    })
}

fn invalid_typed(ty: &str, text: &str) -> Error {
    Error::config("INVALID_TYPED_LITERAL", format!("the value of the typed literal {ty}'{text}' is invalid"))
}

fn unit(field: &DateTimeField) -> Result<Unit> {
    Unit::parse(&field.to_string()).ok_or_else(|| wrong(&format!("`{field}` is no unit of an interval")))
}

/// `INTERVAL '1' DAY`, `INTERVAL 90 MINUTES`, `INTERVAL '1 02:03' DAY TO MINUTE`, `INTERVAL '1 day 2 hours'`.
pub fn interval(literal: &Interval) -> Result<Typed> {
    // Spark has a condition for each way in which a literal is none, or does not fit.
    let bad = |text: &str| {
        let number = text.trim().trim_start_matches(['-', '+']);
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let in_days = literal.leading_field.as_ref().and_then(|field| unit(field).ok()).is_some_and(|unit| unit.canonical() == Unit::Day);
        let condition = match (&literal.leading_field, &literal.last_field) {
            (None, _) => "INVALID_TYPED_LITERAL",
            (Some(_), None) if text.contains(char::is_alphabetic) => "_LEGACY_ERROR_TEMP_0026",
            (Some(_), None) if in_days && number.parse::<i32>().is_ok() => "INTERVAL_ARITHMETIC_OVERFLOW.WITHOUT_SUGGESTION",
            (Some(_), None) if is_number => "INVALID_INTERVAL_FORMAT.ARITHMETIC_EXCEPTION",
            (Some(_), Some(_)) if !text.contains(char::is_alphabetic) => "INVALID_INTERVAL_FORMAT.INTERVAL_PARSING",
            _ => "INVALID_INTERVAL_FORMAT",
        };
        Error::config(
            condition,
            format!(
                "`{text}` is no interval, or out of the range of intervals; write INTERVAL '1' DAY or INTERVAL '1 02:03:04' DAY TO SECOND"
            ),
        )
    };
    let text = match literal.value.as_ref() {
        Sql::Value(v) => v.value.clone().into_string().unwrap_or_else(|| v.value.to_string()),
        Sql::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{expr}"),
        other => {
            return Err(Error::config(
                "PARSE_SYNTAX_ERROR",
                format!("an interval needs a literal, `{other}` is none; use make_dt_interval(..)"),
            ));
        }
    };
    let Some(leading) = &literal.leading_field else {
        let (months, days, micros) = interval::parse_calendar(&text).ok_or_else(|| bad(&text))?;
        let units: Vec<Unit> = text.split_whitespace().filter_map(Unit::parse).map(Unit::canonical).collect();
        // Spark gives an interval of one family the type of the units that are written.
        let literal = match (units.iter().min(), units.iter().max()) {
            (Some(first), Some(last)) if first.is_year_month() == last.is_year_month() => several_units(&text, *first, *last),
            _ => calendar_literal(months, days, micros),
        };
        return literal.ok_or_else(|| bad(&text));
    };
    let first = unit(leading)?;
    if let Some(last) = &literal.last_field {
        let last = unit(last)?;
        if first.is_year_month() != last.is_year_month() {
            return Err(Error::config(
                "_LEGACY_ERROR_TEMP_0029",
                format!("cannot mix year-month and day-time fields: INTERVAL {text}; add one interval after the other"),
            ));
        }
        if text.contains(char::is_alphabetic) {
            return several_units(&text, first, last).ok_or_else(|| bad(&text));
        }
        let value = interval::parse_range(&text, first, last).ok_or_else(|| {
            Error::config(
                "INVALID_INTERVAL_FORMAT.UNMATCHED_FORMAT_STRING",
                format!("`{text}` does not have the form of INTERVAL {} TO {}", first.name(), last.name()),
            )
        })?;
        return unit_literal(value, first, last).ok_or_else(|| bad(&text));
    }
    let value = interval::parse_single(&text, first).ok_or_else(|| bad(&text))?;
    unit_literal(value, first.canonical(), first.canonical()).ok_or_else(|| bad(&text))
}

/// `INTERVAL 1 DAY 2 HOURS`, if it fits into one family of intervals.
fn several_units(text: &str, first: Unit, last: Unit) -> Option<Typed> {
    let (months, days, micros) = interval::parse_calendar(text)?;
    if first.is_year_month() {
        return unit_literal(i64::from(months), first, last);
    }
    unit_literal(i64::from(days).checked_mul(interval::MICROS_PER_DAY)?.checked_add(micros)?, first, last)
}

/// A literal of a year-month or day-time interval, if it fits.
fn unit_literal(value: i64, first: Unit, last: Unit) -> Option<Typed> {
    let spark_type = interval::type_name(first, last);
    let scalar = if first.is_year_month() {
        ScalarValue::IntervalYearMonth(Some(i32::try_from(value).ok()?))
    } else {
        ScalarValue::DurationMicrosecond(Some(value))
    };
    let ty = if first.is_year_month() { year_month_interval() } else { day_time_interval() };
    debug_assert_eq!(scalar.data_type(), ty);
    Some(Typed::literal(scalar, interval::format(value, first, last)).with_spark_type(spark_type))
}

fn calendar_literal(months: i32, days: i32, micros: i64) -> Option<Typed> {
    // Spark gives an interval of one family the type of that family.
    if days == 0 && micros == 0 && months != 0 {
        return unit_literal(i64::from(months), Unit::Year, Unit::Month);
    }
    if months == 0 {
        return unit_literal(i64::from(days).checked_mul(interval::MICROS_PER_DAY)?.checked_add(micros)?, Unit::Day, Unit::Second);
    }
    let value = arrow::datatypes::IntervalMonthDayNanoType::make_value(months, days, micros.checked_mul(1000)?);
    let scalar = ScalarValue::IntervalMonthDayNano(Some(value));
    debug_assert_eq!(scalar.data_type(), calendar_interval());
    Some(Typed::literal(scalar, "INTERVAL"))
}
