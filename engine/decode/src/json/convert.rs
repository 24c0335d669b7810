//! JSON values to columns of given types.
//!
//! Source: org.apache.spark.sql.catalyst.json.JacksonParser with partial
//! results on. A value that does not fit is a `Fault::Value`, passed up to the
//! nearest object, where it leaves its field null (or at an earlier value of
//! the same name) and makes the result partial. A fault may leave a column
//! longer than before; whoever catches it cuts the column back.

use super::lexer::{Fault, Lexer, NumberForm, digits_in_word, number_in_word};
use crate::column::{Bytes, Column, Kind, StructColumn};
use crate::number::{parse_decimal, parse_double};
use crate::options::{JsonOptions, Origin};
use base64::Engine as _;

/// Whether all parts of a value fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quality {
    Clean,
    Partial,
}

impl Quality {
    pub(super) fn and(self, other: Self) -> Self {
        if other == Self::Partial { other } else { self }
    }
}

/// A field of the root object as it was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub start: usize,
    pub end: usize,
    pub field: Option<usize>,
}

/// What a conversion needs beside the text.
#[derive(Debug)]
pub(super) struct Context<'o> {
    pub options: &'o JsonOptions,
    pub scratch: &'o mut Vec<u8>,
    /// Fields of the root object in order, for the template.
    pub trace: &'o mut Vec<Step>,
    /// The first fault that was caught.
    pub cause: Option<&'static str>,
}

/// Appends one value; the two commonest kinds without a call.
#[inline(always)]
pub(super) fn append_fast(column: &mut Column, lexer: &mut Lexer<'_>, context: &mut Context<'_>) -> Result<Quality, Fault> {
    match (&mut column.kind, lexer.peek()) {
        (Kind::Int64(values), Some(b'-' | b'0'..=b'9')) => {
            values.push(integer(lexer)?);
            column.validity.push_valid();
            Ok(Quality::Clean)
        }
        (Kind::Text(out), Some(b'"')) => {
            let span = lexer.string()?;
            if span.escaped {
                super::lexer::unescape(&lexer.bytes[span.start..span.end], &mut out.data);
                out.end_value();
            } else {
                out.push_range(lexer.bytes, span.start, span.end);
            }
            column.validity.push_valid();
            Ok(Quality::Clean)
        }
        _ => append(column, lexer, context),
    }
}

/// Appends one value.
pub(super) fn append(column: &mut Column, lexer: &mut Lexer<'_>, context: &mut Context<'_>) -> Result<Quality, Fault> {
    let first = lexer.value_start()?;
    if first == b'n' {
        lexer.literal(b"null")?;
        column.append_null();
        return Ok(Quality::Clean);
    }
    let mut quality = Quality::Clean;
    match &mut column.kind {
        Kind::Int64(values) => values.push(integer(lexer)?),
        Kind::Int32(values) => values.push(narrow(integer(lexer)?)?),
        Kind::Int16(values) => values.push(narrow(integer(lexer)?)?),
        Kind::Int8(values) => {
            // Jackson takes a byte as signed or unsigned.
            let value = integer(lexer)?;
            let byte: i8 = narrow(value).or_else(|fault| u8::try_from(value).map(|byte| byte as i8).map_err(|_| fault))?;
            values.push(byte);
        }
        Kind::Float64(values) => values.push(double(first, lexer, context)?),
        Kind::Float32(values) => values.push(float(first, lexer, context)?),
        Kind::Text(out) => text(first, out, lexer, context)?,
        Kind::Boolean(bits) => match first {
            b't' => {
                lexer.literal(b"true")?;
                bits.append(true);
            }
            b'f' => {
                lexer.literal(b"false")?;
                bits.append(false);
            }
            _ => return Err(Fault::Value("not a boolean")),
        },
        Kind::Timestamp(values) => values.push(match first {
            quote if lexer.is_quote(quote) => {
                let span = lexer.string()?;
                let text = lexer.text(span, context.scratch);
                context.options.formats.timestamp(text).ok_or(Fault::Value("not a timestamp"))?
            }
            // Whole seconds.
            _ => integer(lexer)?.checked_mul(1_000_000).ok_or(Fault::Value("not a timestamp"))?,
        }),
        Kind::TimestampNtz(values) => {
            let text = quoted(first, lexer, context.scratch)?;
            let value = context.options.formats.timestamp_ntz(text);
            values.push(value.ok_or(Fault::Value("not a timestamp without time zone"))?);
        }
        Kind::Date(values) => {
            let text = quoted(first, lexer, context.scratch)?;
            let value = context.options.formats.date(text);
            values.push(value.ok_or(Fault::Value("not a date"))?);
        }
        Kind::Decimal { values, precision, scale } => {
            let value = if lexer.is_quote(first) {
                parse_decimal(quoted(first, lexer, context.scratch)?, *precision, *scale)
            } else {
                parse_decimal(number(lexer)?.raw, *precision, *scale)
            };
            values.push(value.ok_or(Fault::Value("not a decimal of that precision"))?);
        }
        Kind::Binary(out) => {
            let text = quoted(first, lexer, context.scratch)?;
            let decoded = base64::engine::general_purpose::STANDARD.decode_vec(text, &mut out.data).map_err(|_| Fault::Value("not base64"));
            if decoded.is_err() {
                out.abandon_value();
            }
            decoded?;
            out.end_value();
        }
        Kind::Null => {
            lexer.skip_value()?;
            column.append_null();
            return Ok(Quality::Clean);
        }
        Kind::List { offsets, items } => {
            if first != b'[' {
                return Err(Fault::Value("not an array"));
            }
            lexer.open()?;
            if !lexer.close(b']')? {
                loop {
                    quality = quality.and(append(items, lexer, context)?);
                    if !lexer.more(b']')? {
                        break;
                    }
                }
            }
            offsets.push(items.len() as i32);
        }
        Kind::Map { offsets, keys, values } => {
            if first != b'{' {
                return Err(Fault::Value("not an object"));
            }
            lexer.open()?;
            if !lexer.close(b'}')? {
                loop {
                    let span = lexer.name()?;
                    keys.push(lexer.text(span, context.scratch));
                    quality = quality.and(append(values, lexer, context)?);
                    if !lexer.more(b'}')? {
                        break;
                    }
                }
            }
            offsets.push(values.len() as i32);
        }
        Kind::Struct(inner) => {
            if first != b'{' {
                return Err(Fault::Value("not an object"));
            }
            let row = column.validity.len();
            quality = append_object::<false>(inner, row, lexer, context)?;
        }
    }
    column.validity.push_valid();
    Ok(quality)
}

/// Appends one object to the fields of a struct; the position is at its brace.
pub(super) fn append_object<const ROOT: bool>(
    target: &mut StructColumn,
    row: usize,
    lexer: &mut Lexer<'_>,
    context: &mut Context<'_>,
) -> Result<Quality, Fault> {
    let mut quality = Quality::Clean;
    target.seen.fill(0);
    let mut expected = 0;
    lexer.open()?;
    if !lexer.close(b'}')? {
        loop {
            let name = lexer.name()?;
            lexer.skip_blank()?;
            let start = lexer.pos;
            let field = target.find(lexer.text(name, context.scratch), expected);
            match field {
                None => lexer.skip_value()?,
                Some(index) => {
                    expected = index + 1;
                    quality = quality.and(append_field(target, index, row, lexer, context)?);
                }
            }
            if ROOT {
                context.trace.push(Step { start, end: lexer.pos, field });
            }
            if !lexer.more(b'}')? {
                break;
            }
        }
    }
    for (field, seen) in target.fields.iter_mut().zip(&target.seen) {
        if *seen == 0 {
            field.append_null();
        }
    }
    Ok(quality)
}

/// The last good value of a repeated name stays.
fn append_field(
    target: &mut StructColumn,
    index: usize,
    row: usize,
    lexer: &mut Lexer<'_>,
    context: &mut Context<'_>,
) -> Result<Quality, Fault> {
    let column = &mut target.fields[index];
    let start = lexer.pos;
    let depth = lexer.depth;
    let earlier = target.seen[index];
    if earlier != 0 {
        column.truncate(row);
    }
    match append(column, lexer, context) {
        Ok(quality) => {
            target.seen[index] = start + 1;
            Ok(quality)
        }
        Err(Fault::Value(cause)) => {
            context.cause.get_or_insert(cause);
            column.truncate(row);
            lexer.depth = depth;
            if earlier != 0 {
                lexer.pos = earlier - 1;
                append(column, lexer, context)?;
            }
            lexer.pos = start;
            lexer.skip_value()?;
            Ok(Quality::Partial)
        }
        Err(syntax) => Err(syntax),
    }
}

#[inline]
fn narrow<T: TryFrom<i64>>(value: i64) -> Result<T, Fault> {
    T::try_from(value).map_err(|_| Fault::Value("an integer out of range"))
}

/// A number that is not a string, a word or a container.
fn number<'a>(lexer: &mut Lexer<'a>) -> Result<super::lexer::Number<'a>, Fault> {
    match lexer.peek() {
        Some(b'{' | b'[' | b't' | b'f') => Err(Fault::Value("not a number")),
        Some(quote) if lexer.is_quote(quote) => Err(Fault::Value("not a number")),
        _ => lexer.number(),
    }
}

#[inline(always)]
fn integer(lexer: &mut Lexer<'_>) -> Result<i64, Fault> {
    let bytes = &lexer.bytes[lexer.pos..];
    let negative = bytes.first() == Some(&b'-');
    let start = usize::from(negative);
    let (value, digits) = leading_digits(&bytes[start..]);
    let end = start + digits;
    let plain = (1..=18).contains(&digits) && (digits == 1 || bytes[start] != b'0') && !matches!(bytes.get(end), Some(b'.' | b'e' | b'E'));
    if plain {
        lexer.pos += end;
        let value = value.cast_signed();
        return Ok(if negative { -value } else { value });
    }
    slow_integer(lexer)
}

/// The number of the digits at the start, if they are at most 18, and how many they are.
#[inline(always)]
fn leading_digits(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0u64;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>)
        && at <= 8
    {
        const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
        let word = u64::from_le_bytes(*chunk);
        let count = digits_in_word(word);
        if count == 0 {
            return (value, at);
        }
        value = value * POWERS[count] + number_in_word(word, count);
        at += count;
        if count < 8 {
            return (value, at);
        }
    }
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}

/// Large ones, and the difference between what is no integer and no number.
#[cold]
fn slow_integer(lexer: &mut Lexer<'_>) -> Result<i64, Fault> {
    let number = number(lexer)?;
    if number.form != NumberForm::Integer {
        return Err(Fault::Value("not an integer"));
    }
    let text = std::str::from_utf8(number.raw).map_err(|_| Fault::Value("not an integer"))?;
    text.parse().map_err(|_| Fault::Value("an integer out of range"))
}

/// Names that a string may use for what is not finite.
fn non_finite(text: &[u8]) -> Option<f64> {
    match text {
        b"NaN" => Some(f64::NAN),
        b"+INF" | b"+Infinity" | b"Infinity" => Some(f64::INFINITY),
        b"-INF" | b"-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

#[inline]
fn double(first: u8, lexer: &mut Lexer<'_>, context: &mut Context<'_>) -> Result<f64, Fault> {
    if lexer.is_quote(first) {
        let text = quoted(first, lexer, context.scratch)?;
        return non_finite(text).filter(|_| context.options.leniency.non_numeric_numbers).ok_or(Fault::Value("not a number"));
    }
    let number = number(lexer)?;
    match number.form {
        NumberForm::NonFinite(value) => Ok(value),
        // An integer zero has no sign.
        NumberForm::Integer if number.raw == b"-0" => Ok(0.0),
        _ => parse_double(number.raw).ok_or(Fault::Value("not a number")),
    }
}

fn float(first: u8, lexer: &mut Lexer<'_>, context: &mut Context<'_>) -> Result<f32, Fault> {
    let start = lexer.pos;
    let wide = double(first, lexer, context)?;
    if !wide.is_finite() || lexer.is_quote(first) {
        return Ok(wide as f32);
    }
    // Parsed again so that the value is rounded once.
    let text = std::str::from_utf8(&lexer.bytes[start..lexer.pos]).unwrap_or("");
    Ok(text.parse().unwrap_or(wide as f32) + 0.0)
}

/// The text of a string that is not empty: empty strings are no value of any
/// type but STRING and BINARY, and bad base64 does not arise from them.
#[inline]
fn quoted<'t, 'a: 't>(first: u8, lexer: &mut Lexer<'a>, scratch: &'t mut Vec<u8>) -> Result<&'t [u8], Fault> {
    if !lexer.is_quote(first) {
        return Err(Fault::Value("not a string of the wanted form"));
    }
    let span = lexer.string()?;
    Ok(lexer.text(span, scratch))
}

#[inline]
fn text(first: u8, out: &mut Bytes, lexer: &mut Lexer<'_>, context: &mut Context<'_>) -> Result<(), Fault> {
    if lexer.is_quote(first) {
        let span = lexer.string()?;
        if span.escaped {
            super::lexer::unescape(&lexer.bytes[span.start..span.end], &mut out.data);
            out.end_value();
        } else {
            out.push_range(lexer.bytes, span.start, span.end);
        }
        return Ok(());
    }
    let start = lexer.pos;
    let walked = match context.options.origin {
        Origin::File => lexer.skip_value().map(|()| {
            out.data.extend_from_slice(&lexer.bytes[start..lexer.pos]);
        }),
        Origin::Column => lexer.rewrite_value(&mut out.data),
    };
    if walked.is_err() {
        out.abandon_value();
    }
    walked?;
    out.end_value();
    Ok(())
}
