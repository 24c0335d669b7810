//! Printing and reading numbers: format_string, to_char, to_number, format_number.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, StringArray,
};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use weir_core::Error;

use super::args;
use super::bounds::{Budget, MOST_BYTES};
use crate::analyzer::{Analyzer, Typed, coerce, unsupported};
use crate::cast::{format_decimal, format_double, rescale, to_strings};
use crate::error::spark_error;
use crate::udf::{Rows, downcast};
use weir_decode::time::Zone;

type Result<T> = std::result::Result<T, Error>;

/// Builds a call of `format_string`, `printf`, `to_char`, `to_varchar`,
/// `to_number`, `try_to_number` or `format_number`.
pub fn build(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    match name {
        "format_string" | "printf" => {
            args::count(name, &list, 1, usize::MAX)?;
            list[0] = a.cast(list[0].clone(), &DataType::Utf8)?;
            let zone = a.zone()?;
            Ok(a.call(name, "", DataType::Utf8, &list, move |rows: Rows| format_rows(rows.args, zone)).may_fail())
        }
        "format_number" => {
            args::count(name, &list, 2, 2)?;
            if list[1].ty == DataType::Utf8 {
                return Err(unsupported("format_number with a pattern", "give the number of decimal places, or use to_char"));
            }
            // A double would not tell all digits of a BIGINT.
            match coerce::decimal_for(&list[0].ty) {
                Some((precision, scale)) => list[0] = a.cast(list[0].clone(), &DataType::Decimal128(precision, scale))?,
                None if coerce::is_decimal(&list[0].ty) => {}
                None => list[0] = a.cast(list[0].clone(), &DataType::Float64)?,
            }
            list[1] = a.cast(list[1].clone(), &DataType::Int32)?;
            Ok(a.call(name, "", DataType::Utf8, &list, |rows: Rows| {
                let digits: &Int32Array = downcast(&rows.args[1])?;
                Ok(Arc::new(
                    (0..rows.len)
                        .map(|row| {
                            let value = cell(&rows.args[0], row)?;
                            let digits = usize::try_from(digits.is_valid(row).then(|| digits.value(row))?).ok()?;
                            Some(grouped(&fixed_to_even(&value, digits)))
                        })
                        .collect::<StringArray>(),
                ) as ArrayRef)
            }))
        }
        _ => {
            args::count(name, &list, 2, 2)?;
            let format = list[1].text().map(str::to_owned).ok_or_else(|| {
                Error::config("DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", format!("the format of {name} must be a string literal"))
            })?;
            if matches!(name, "to_char" | "to_varchar") && coerce::is_datetime(&list[0].ty) {
                return a.build_function("date_format", list);
            }
            let picture = Picture::parse(&format)?;
            let (precision, scale) = picture.digits();
            let decimal = DataType::Decimal128(precision, scale);
            let value = list.swap_remove(0);
            if name.ends_with("to_number") {
                let value = a.cast(value, &DataType::Utf8)?;
                let try_form = name.starts_with("try_");
                return Ok(a
                    .call(name, format.clone(), decimal, &[value], move |rows: Rows| {
                        let texts: &StringArray = downcast(&rows.args[0])?;
                        let mut out = Vec::with_capacity(texts.len());
                        for text in texts {
                            out.push(match text {
                                None => None,
                                Some(text) => match picture.read(text) {
                                    Some(v) => Some(v),
                                    None if try_form => None,
                                    None => {
                                        return Err(spark_error(
                                            "INVALID_FORMAT.MISMATCH_INPUT",
                                            format!("the input '{text}' does not match the format '{format}'"),
                                        ));
                                    }
                                },
                            });
                        }
                        Ok(Arc::new(Decimal128Array::from(out).with_precision_and_scale(precision, scale)?) as ArrayRef)
                    })
                    .may_fail());
            }
            let value = match &value.ty {
                DataType::Decimal128(..) => value,
                DataType::Float32 | DataType::Float64 | DataType::Utf8 => a.cast(value, &DataType::Decimal128(38, scale))?,
                t => {
                    let (p, s) = coerce::decimal_for(t).unwrap_or((20, 0));
                    a.cast(value, &DataType::Decimal128(p, s))?
                }
            };
            let own = match &value.ty {
                DataType::Decimal128(_, s) => *s,
                _ => 0,
            };
            Ok(a.call(name, format, DataType::Utf8, &[value], move |rows: Rows| {
                let values: &Decimal128Array = downcast(&rows.args[0])?;
                Ok(Arc::new(values.iter().map(|v| v.map(|v| picture.print(v, own))).collect::<StringArray>()) as ArrayRef)
            }))
        }
    }
}

/// A value to be printed.
enum Cell {
    Integer(i64),
    Float(f64),
    Decimal(i128, i8),
    Text(String),
}

fn cell(array: &ArrayRef, row: usize) -> Option<Cell> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return None;
    }
    let any = array.as_any();
    macro_rules! as_integer {
        ($kind:ty) => {
            if let Some(values) = any.downcast_ref::<$kind>() {
                return Some(Cell::Integer(i64::from(values.value(row))));
            }
        };
    }
    as_integer!(Int8Array);
    as_integer!(Int16Array);
    as_integer!(Int32Array);
    as_integer!(Int64Array);
    if let Some(values) = any.downcast_ref::<Float64Array>() {
        return Some(Cell::Float(values.value(row)));
    }
    if let Some(values) = any.downcast_ref::<Float32Array>() {
        return Some(Cell::Float(f64::from(values.value(row))));
    }
    if let (Some(values), DataType::Decimal128(_, scale)) = (any.downcast_ref::<Decimal128Array>(), array.data_type()) {
        return Some(Cell::Decimal(values.value(row), *scale));
    }
    let text = to_strings(&array.slice(row, 1), Zone::UTC, None).ok()?;
    Some(Cell::Text(text.value(0).to_owned()))
}

/// Fixed digits after the point, rounded half up on the shortest decimal form, as Java does.
fn fixed(value: &Cell, digits: usize) -> String {
    let (unscaled, scale) = match value {
        Cell::Integer(v) => (i128::from(*v), 0),
        Cell::Decimal(v, s) => (*v, *s),
        Cell::Float(v) => match crate::cast::decimal_from_text(&format_double(*v), 38, 17) {
            crate::cast::Read::Value(v) => (v, 17),
            _ => return format!("{v:.places$}", places = digits.min(340)),
        },
        Cell::Text(text) => return text.clone(),
    };
    let wanted = i8::try_from(digits).unwrap_or(17);
    match rescale(unscaled, scale, wanted) {
        Some(v) => format_decimal(v, wanted),
        None => format_decimal(unscaled, scale),
    }
}

/// Fixed digits after the point, ties of the exact value rounded to the even digit, as `java.text.DecimalFormat` does.
fn fixed_to_even(value: &Cell, digits: usize) -> String {
    // No double has more digits that tell anything, and Java shows no more.
    let digits = digits.min(340);
    match value {
        Cell::Float(v) => format!("{v:.digits$}"),
        Cell::Decimal(unscaled, scale) if digits < usize::try_from(*scale).unwrap_or(0) => {
            let wanted = i8::try_from(digits).unwrap_or(*scale);
            let power = 10_i128.pow(u32::from(scale.abs_diff(wanted)));
            let (quotient, rest) = (unscaled / power, (unscaled % power).unsigned_abs());
            let up = rest > power.unsigned_abs() / 2 || (rest == power.unsigned_abs() / 2 && quotient % 2 != 0);
            format_decimal(quotient + if up { unscaled.signum() } else { 0 }, wanted)
        }
        Cell::Decimal(unscaled, scale) => {
            let has = usize::try_from(*scale).unwrap_or(0);
            let point = if has == 0 && digits > 0 { "." } else { "" };
            format!("{}{point}{}", format_decimal(*unscaled, *scale), "0".repeat(digits - has))
        }
        _ => fixed(value, digits),
    }
}

/// Thousands separators in the whole part.
fn grouped(text: &str) -> String {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut out = String::from(sign);
    for (index, c) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

fn format_rows(columns: &[ArrayRef], zone: Zone) -> DfResult<ArrayRef> {
    let formats: &StringArray = downcast(&columns[0])?;
    let _ = zone;
    let mut budget = Budget::new("format_string");
    let mut out = Vec::with_capacity(formats.len());
    for row in 0..formats.len() {
        if formats.is_null(row) {
            out.push(None);
            continue;
        }
        let text = java_format(formats.value(row), &columns[1..], row)?;
        budget.bytes(text.len())?;
        out.push(Some(text));
    }
    Ok(Arc::new(StringArray::from(out)))
}

fn java_format(format: &str, values: &[ArrayRef], row: usize) -> DfResult<String> {
    let bad = |what: &str| spark_error("INVALID_PARAMETER_VALUE.PATTERN", format!("the format string '{format}' is invalid: {what}"));
    let mut out = String::new();
    let mut next = 0;
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let (mut left, mut zero, mut plus, mut comma) = (false, false, false, false);
        let mut digits = String::new();
        let mut index = None;
        let (mut width, mut precision) = (0_usize, None);
        loop {
            match chars.peek() {
                Some('-') if digits.is_empty() => left = true,
                Some('0') if digits.is_empty() => zero = true,
                Some('+') => plus = true,
                Some(',') => comma = true,
                Some(d) if d.is_ascii_digit() => digits.push(*d),
                Some('$') => {
                    index = digits.parse::<usize>().ok();
                    digits.clear();
                }
                Some('.') => {
                    width = digits.parse().unwrap_or(0);
                    digits.clear();
                    chars.next();
                    while let Some(d) = chars.peek().filter(|d| d.is_ascii_digit()) {
                        digits.push(*d);
                        chars.next();
                    }
                    precision = digits.parse::<usize>().ok();
                    digits.clear();
                    break;
                }
                _ => break,
            }
            chars.next();
        }
        if !digits.is_empty() {
            width = digits.parse().unwrap_or(0);
        }
        let conversion = chars.next().ok_or_else(|| bad("it ends after %"))?;
        if conversion == '%' || conversion == 'n' {
            out.push(if conversion == '%' { '%' } else { '\n' });
            continue;
        }
        if width > MOST_BYTES || precision.is_some_and(|digits| digits > usize::from(u16::MAX)) {
            return Err(bad("its width or precision is too large"));
        }
        let position = match index {
            Some(i) if i > 0 => i - 1,
            _ => {
                next += 1;
                next - 1
            }
        };
        let array = values.get(position).ok_or_else(|| bad("there are too few arguments"))?;
        let value = cell(array, row);
        let mut text = match (conversion.to_ascii_lowercase(), &value) {
            (_, None) => "null".to_owned(),
            ('s', Some(value)) => {
                let text = match value {
                    Cell::Integer(v) => v.to_string(),
                    Cell::Float(v) => format_double(*v),
                    Cell::Decimal(v, s) => format_decimal(*v, *s),
                    Cell::Text(t) => t.clone(),
                };
                match precision {
                    Some(p) => text.chars().take(p).collect(),
                    None => text,
                }
            }
            ('d', Some(Cell::Integer(v))) => v.to_string(),
            ('x', Some(Cell::Integer(v))) => format!("{v:x}"),
            ('o', Some(Cell::Integer(v))) => format!("{v:o}"),
            ('c', Some(Cell::Integer(v))) => u32::try_from(*v).ok().and_then(char::from_u32).map(String::from).unwrap_or_default(),
            ('c' | 'b', Some(Cell::Text(t))) => t.clone(),
            ('f', Some(value @ (Cell::Float(_) | Cell::Decimal(..)))) => match value {
                Cell::Float(v) if !v.is_finite() => format_double(*v),
                value => fixed(value, precision.unwrap_or(6)),
            },
            ('e', Some(Cell::Float(v))) => {
                let text = format!("{v:.*e}", precision.unwrap_or(6));
                let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let exponent: i32 = exponent.parse().unwrap_or(0);
                format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
            }
            (c, Some(_)) => return Err(bad(&format!("%{c} does not fit the type of argument {}", position + 1))),
        };
        if comma && value.is_some() {
            text = grouped(&text);
        }
        if plus && !text.starts_with('-') && value.is_some() {
            text.insert(0, '+');
        }
        if conversion.is_ascii_uppercase() {
            text = text.to_uppercase();
        }
        let length = text.chars().count();
        if length < width {
            let fill = width - length;
            if left {
                text.push_str(&" ".repeat(fill));
            } else if zero {
                let at = usize::from(text.starts_with(['-', '+']));
                text.insert_str(at, &"0".repeat(fill));
            } else {
                text.insert_str(0, &" ".repeat(fill));
            }
        }
        let _ = write!(out, "{text}");
    }
    Ok(out)
}

/// A number format of `to_char` and `to_number`: `9`, `0`, `,`, `.`, `$`, `S`, `MI`, `PR`.
#[derive(Clone, Debug)]
struct Picture {
    whole: Vec<char>,
    fraction: Vec<char>,
    dollar: bool,
    sign_first: bool,
    sign_last: bool,
    minus_only: bool,
    brackets: bool,
}

impl Picture {
    fn parse(format: &str) -> Result<Self> {
        let bad = || {
            Error::config(
                "INVALID_FORMAT.UNEXPECTED_TOKEN",
                format!("'{format}' is no number format; use 9, 0, ',', '.', '$', 'S', 'MI', 'PR'"),
            )
        };
        let mut rest = format.to_uppercase();
        let mut picture = Self {
            whole: vec![],
            fraction: vec![],
            dollar: false,
            sign_first: false,
            sign_last: false,
            minus_only: false,
            brackets: false,
        };
        for (token, minus_only) in [("MI", true), ("S", false)] {
            if let Some(shorter) = rest.strip_prefix(token) {
                picture.sign_first = true;
                picture.minus_only = minus_only;
                rest = shorter.to_owned();
            }
        }
        if let Some(shorter) = rest.strip_suffix("PR") {
            picture.brackets = true;
            rest = shorter.to_owned();
        }
        for (token, minus_only) in [("MI", true), ("S", false)] {
            if let Some(shorter) = rest.strip_suffix(token) {
                picture.sign_last = true;
                picture.minus_only = minus_only;
                rest = shorter.to_owned();
            }
        }
        if let Some(shorter) = rest.strip_prefix('$') {
            picture.dollar = true;
            rest = shorter.to_owned();
        }
        let (whole, fraction) = match rest.split_once(['.', 'D']) {
            Some((w, f)) => (w.to_owned(), f.to_owned()),
            None => (rest, String::new()),
        };
        picture.whole = whole.chars().map(|c| if c == 'G' { ',' } else { c }).collect();
        picture.fraction = fraction.chars().collect();
        let digits = picture.whole.iter().filter(|c| matches!(c, '0' | '9')).count();
        let clean = picture.whole.iter().all(|c| matches!(c, '0' | '9' | ',')) && picture.fraction.iter().all(|c| matches!(c, '0' | '9'));
        if !clean || digits + picture.fraction.len() == 0 || digits + picture.fraction.len() > 38 {
            return Err(bad());
        }
        Ok(picture)
    }

    fn digits(&self) -> (u8, i8) {
        let whole = self.whole.iter().filter(|c| **c != ',').count();
        (u8::try_from(whole + self.fraction.len()).unwrap_or(38), i8::try_from(self.fraction.len()).unwrap_or(0))
    }

    fn print(&self, value: i128, scale: i8) -> String {
        let (precision, wanted) = self.digits();
        let rounded = rescale(value.abs(), scale, wanted).unwrap_or(i128::MAX);
        let too_large = rounded.to_string().len() > usize::from(precision);
        let text = format_decimal(rounded, wanted);
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let whole = if whole == "0" { "" } else { whole };
        let mut source: Vec<char> = whole.chars().collect();
        let mut out: Vec<char> = Vec::new();
        // From the right, as the format has more places than the number.
        let mut pending_comma = false;
        for (index, place) in self.whole.iter().enumerate().rev() {
            match place {
                ',' => pending_comma = true,
                place => {
                    let zero_before = self.whole[..=index].contains(&'0');
                    let digit =
                        if too_large { Some('#') } else { source.pop().or(if zero_before || *place == '0' { Some('0') } else { None }) };
                    if pending_comma {
                        out.push(if digit.is_some() { ',' } else { ' ' });
                        pending_comma = false;
                    }
                    out.push(digit.unwrap_or(' '));
                }
            }
        }
        let mut text: String = out.into_iter().rev().collect();
        if !self.fraction.is_empty() {
            text.push('.');
            if too_large {
                text.push_str(&"#".repeat(self.fraction.len()));
            } else {
                text.push_str(fraction);
            }
        }
        let blank = text.chars().take_while(|c| *c == ' ').count();
        let mut body = text[blank..].to_owned();
        if self.dollar {
            body.insert(0, '$');
        }
        let negative = value < 0;
        let plus = if self.minus_only { " " } else { "+" };
        let sign = if negative { "-" } else { plus };
        if self.sign_first {
            body.insert_str(0, sign);
        } else if self.sign_last {
            body.push_str(sign);
        } else if self.brackets {
            body = if negative { format!("<{body}>") } else { format!("{body} ") };
        } else if negative {
            body.insert(0, '-');
        }
        format!("{}{body}", " ".repeat(blank))
    }

    fn read(&self, text: &str) -> Option<i128> {
        let mut rest = text.trim();
        let mut negative = false;
        if self.brackets && rest.starts_with('<') {
            rest = rest.strip_prefix('<')?.strip_suffix('>')?;
            negative = true;
        }
        if self.sign_first
            && let Some(c) = rest.chars().next().filter(|c| matches!(c, '-' | '+'))
        {
            negative = c == '-';
            rest = &rest[1..];
        }
        if self.sign_last
            && let Some(c) = rest.chars().last().filter(|c| matches!(c, '-' | '+'))
        {
            negative = c == '-';
            rest = &rest[..rest.len() - 1];
        }
        if self.dollar {
            rest = rest.strip_prefix('$')?;
        }
        let (whole, fraction) = rest.split_once('.').unwrap_or((rest, ""));
        if fraction.len() > self.fraction.len() || (rest.contains('.') && self.fraction.is_empty()) {
            return None;
        }
        // Commas must stand where the format has them, counted from the right.
        let mut places = self.whole.iter().rev();
        let mut digits = String::new();
        for c in whole.chars().rev() {
            match (c, places.next()?) {
                (',', ',') => {}
                (d, '0' | '9') if d.is_ascii_digit() => digits.insert(0, d),
                _ => return None,
            }
        }
        if !fraction.bytes().all(|b| b.is_ascii_digit()) || (digits.is_empty() && fraction.is_empty()) {
            return None;
        }
        let padded = format!("{digits}{fraction:0<width$}", width = self.fraction.len());
        let value: i128 = padded.parse().ok()?;
        Some(if negative { -value } else { value })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ties_go_to_the_even_digit_as_the_exact_value_has_them() {
        let shown = |value: Cell, digits| grouped(&fixed_to_even(&value, digits));
        // What java.text.DecimalFormat prints.
        assert_eq!(shown(Cell::Decimal(125, 3), 2), "0.12");
        assert_eq!(shown(Cell::Decimal(-135, 3), 2), "-0.14");
        assert_eq!(shown(Cell::Decimal(12_345_678, 1), 0), "1,234,568");
        assert_eq!((shown(Cell::Float(0.125), 2), shown(Cell::Float(2.675), 2)), ("0.12".into(), "2.67".into()));
        assert_eq!(shown(Cell::Decimal(15, 1), 3), "1.500");
    }

    #[test]
    fn prints_with_a_picture() {
        let picture = Picture::parse("9,999.99").unwrap();
        assert_eq!(picture.print(12345, 1), "1,234.50");
        assert_eq!(picture.read("1,234.5"), Some(123_450));
        assert_eq!(picture.read("x"), None);
    }
}
