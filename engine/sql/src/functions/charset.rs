//! Bytes and strings: character sets, base64, hex, and whether bytes are a text at all.
//!
//! A string of Weir is always UTF-8; what may not be is binary, which Spark lets stand for a string.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, StringArray};
use arrow::datatypes::DataType;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use datafusion::common::{Result as DfResult, ScalarValue};
use weir_core::Error;

use super::args;
use crate::analyzer::{Analyzer, Typed, coerce};
use crate::error::spark_error;
use crate::udf::{Rows, downcast};

type Result<T> = std::result::Result<T, Error>;

/// Builds a call.
pub fn build(a: &Analyzer, name: &str, list: Vec<Typed>) -> Result<Typed> {
    match name {
        "encode" | "decode" => {
            let encode = name == "encode";
            let first = if encode { DataType::Utf8 } else { DataType::Binary };
            let result = if encode { DataType::Binary } else { DataType::Utf8 };
            let list = args::to_types(a, list, &[first, DataType::Utf8])?;
            Ok(a.call(name, "", result, &list, move |rows: Rows| if encode { encoded(rows.args) } else { decoded(rows.args) }).may_fail())
        }
        "base64" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[DataType::Binary])?;
            Ok(a.call(name, "", DataType::Utf8, &list, |rows: Rows| {
                let bytes: &BinaryArray = downcast(&rows.args[0])?;
                Ok(Arc::new(bytes.iter().map(|b| b.map(chunked_base64)).collect::<StringArray>()) as ArrayRef)
            }))
        }
        "unbase64" => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[DataType::Utf8])?;
            let ansi = a.conf.ansi;
            Ok(a.call(name, "", DataType::Binary, &list, move |rows: Rows| unbase64(&rows.args[0], ansi)).may_fail())
        }
        "to_binary" | "try_to_binary" => to_binary(a, name, list),
        "is_valid_utf8" | "make_valid_utf8" | "validate_utf8" | "try_validate_utf8" => utf8(a, name, list),
        "hex" => {
            args::count(name, &list, 1, 1)?;
            let ty = match &list[0].ty {
                DataType::Binary => DataType::Binary,
                DataType::Utf8 => DataType::Utf8,
                t if coerce::is_numeric(t) => DataType::Int64,
                _ => DataType::Utf8,
            };
            let list = args::to_types(a, list, &[ty])?;
            Ok(a.call(name, "", DataType::Utf8, &list, |rows: Rows| hex(&rows.args[0])))
        }
        _ => {
            args::count(name, &list, 1, 1)?;
            let list = args::to_types(a, list, &[DataType::Utf8])?;
            Ok(a.call(name, "", DataType::Binary, &list, |rows: Rows| {
                let strings: &StringArray = downcast(&rows.args[0])?;
                Ok(Arc::new(strings.iter().map(|s| s.and_then(unhex)).collect::<BinaryArray>()) as ArrayRef)
            }))
        }
    }
}

/// The forms that `to_binary` reads.
#[derive(Clone, Copy, Debug)]
enum BinaryForm {
    Hex,
    Utf8,
    Base64,
}

fn to_binary(a: &Analyzer, name: &str, mut list: Vec<Typed>) -> Result<Typed> {
    args::count(name, &list, 1, 2)?;
    let form = match list.get(1) {
        None => BinaryForm::Hex,
        Some(form) if form.value().is_none() => {
            let shown = &form.name;
            let text = format!("the format of {name} must be a constant, but is \"{shown}\"; write 'hex', 'utf-8' or 'base64'");
            return Err(Error::config("DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", text));
        }
        Some(form) if form.value().is_some_and(ScalarValue::is_null) => return a.cast(Typed::null(), &DataType::Binary),
        Some(form) => match form.text().unwrap_or_default().to_ascii_lowercase().as_str() {
            "hex" => BinaryForm::Hex,
            "utf-8" | "utf8" => BinaryForm::Utf8,
            "base64" => BinaryForm::Base64,
            _ => {
                let text = format!("{name} has no format {}; write 'hex', 'utf-8' or 'base64'", form.name);
                return Err(Error::config("DATATYPE_MISMATCH.INVALID_ARG_VALUE", text));
            }
        },
    };
    list.truncate(1);
    let list = args::to_types(a, list, &[DataType::Utf8])?;
    let fails = name == "to_binary";
    let call = a.call(name, format!("{form:?}"), DataType::Binary, &list, move |rows: Rows| {
        let strings: &StringArray = downcast(&rows.args[0])?;
        let bytes = strings.iter().map(|s| {
            let Some(s) = s else { return Ok(None) };
            let read = match form {
                BinaryForm::Hex => unhex(s),
                BinaryForm::Utf8 => Some(s.as_bytes().to_vec()),
                BinaryForm::Base64 => decode_base64(s),
            };
            if read.is_none() && fails {
                let text = format!("the value '{s}' cannot be read as {form:?}; use try_to_binary to get NULL");
                return Err(spark_error("CONVERSION_INVALID_INPUT", text));
            }
            Ok(read)
        });
        let bytes = bytes.collect::<DfResult<Vec<Option<Vec<u8>>>>>()?;
        Ok(Arc::new(bytes.iter().map(Option::as_deref).collect::<BinaryArray>()) as ArrayRef)
    });
    Ok(if fails { call.may_fail() } else { call })
}

fn utf8(a: &Analyzer, name: &str, list: Vec<Typed>) -> Result<Typed> {
    args::count(name, &list, 1, 1)?;
    let list = match list[0].ty {
        DataType::Binary => list,
        _ => args::to_types(a, args::to_types(a, list, &[DataType::Utf8])?, &[DataType::Binary])?,
    };
    let result = if name == "is_valid_utf8" { DataType::Boolean } else { DataType::Utf8 };
    let kind = name.to_owned();
    let call = a.call(name, "", result, &list, move |rows: Rows| {
        let bytes: &BinaryArray = downcast(&rows.args[0])?;
        if kind == "is_valid_utf8" {
            let valid = bytes.iter().map(|b| b.map(|b| std::str::from_utf8(b).is_ok()));
            return Ok(Arc::new(valid.collect::<BooleanArray>()) as ArrayRef);
        }
        let texts = bytes.iter().map(|b| match b.map(std::str::from_utf8) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text.to_owned())),
            Some(Err(_)) if kind == "make_valid_utf8" => Ok(b.map(|b| String::from_utf8_lossy(b).into_owned())),
            Some(Err(_)) if kind == "try_validate_utf8" => Ok(None),
            Some(Err(error)) => {
                let text = format!("invalid UTF-8 at byte {}; use make_valid_utf8 or try_validate_utf8", error.valid_up_to());
                Err(spark_error("INVALID_UTF8_STRING", text))
            }
        });
        Ok(Arc::new(texts.collect::<DfResult<StringArray>>()?) as ArrayRef)
    });
    Ok(if name == "validate_utf8" { call.may_fail() } else { call })
}

fn unknown_charset(charset: &str) -> datafusion::common::DataFusionError {
    spark_error(
        "INVALID_PARAMETER_VALUE.CHARSET",
        format!("the charset '{charset}' is unknown; use one of UTF-8, US-ASCII, ISO-8859-1, UTF-16, UTF-16BE, UTF-16LE, UTF-32"),
    )
}

fn encoded(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (strings, charsets): (&StringArray, &StringArray) = (downcast(&args[0])?, downcast(&args[1])?);
    let mut out: Vec<Option<Vec<u8>>> = Vec::with_capacity(strings.len());
    for (s, charset) in strings.iter().zip(charsets) {
        let (Some(s), Some(charset)) = (s, charset) else {
            out.push(None);
            continue;
        };
        let narrow =
            |limit: u32| s.chars().map(|c| u8::try_from(u32::from(c)).ok().filter(|_| u32::from(c) < limit).unwrap_or(b'?')).collect();
        out.push(Some(match charset.to_ascii_uppercase().as_str() {
            "UTF-8" => s.as_bytes().to_vec(),
            "US-ASCII" => narrow(128),
            "ISO-8859-1" => narrow(256),
            "UTF-16" => [0xFE, 0xFF].into_iter().chain(s.encode_utf16().flat_map(u16::to_be_bytes)).collect(),
            "UTF-16BE" => s.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            "UTF-16LE" => s.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "UTF-32" => s.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
            _ => return Err(unknown_charset(charset)),
        }));
    }
    Ok(Arc::new(out.iter().map(|b| b.as_deref()).collect::<BinaryArray>()))
}

fn decoded(args: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (bytes, charsets): (&BinaryArray, &StringArray) = (downcast(&args[0])?, downcast(&args[1])?);
    let mut out: Vec<Option<String>> = Vec::with_capacity(bytes.len());
    for (b, charset) in bytes.iter().zip(charsets) {
        let (Some(b), Some(charset)) = (b, charset) else {
            out.push(None);
            continue;
        };
        let malformed = || spark_error("MALFORMED_CHARACTER_CODING", format!("the bytes are no {charset} text"));
        let wide = |big: bool, b: &[u8]| {
            let units: Vec<u16> =
                b.chunks_exact(2).map(|p| if big { u16::from_be_bytes([p[0], p[1]]) } else { u16::from_le_bytes([p[0], p[1]]) }).collect();
            String::from_utf16(&units).ok()
        };
        out.push(Some(match charset.to_ascii_uppercase().as_str() {
            "UTF-8" => std::str::from_utf8(b).map_err(|_| malformed())?.to_owned(),
            "US-ASCII" if b.is_ascii() => String::from_utf8_lossy(b).into_owned(),
            "US-ASCII" => return Err(malformed()),
            "ISO-8859-1" => b.iter().map(|b| char::from(*b)).collect(),
            "UTF-16" => match b {
                [0xFF, 0xFE, rest @ ..] => wide(false, rest),
                [0xFE, 0xFF, rest @ ..] => wide(true, rest),
                all => wide(true, all),
            }
            .ok_or_else(malformed)?,
            "UTF-16BE" => wide(true, b).ok_or_else(malformed)?,
            "UTF-16LE" => wide(false, b).ok_or_else(malformed)?,
            "UTF-32" => b
                .chunks_exact(4)
                .map(|p| char::from_u32(u32::from_be_bytes([p[0], p[1], p[2], p[3]])))
                .collect::<Option<String>>()
                .ok_or_else(malformed)?,
            _ => return Err(unknown_charset(charset)),
        }));
    }
    Ok(Arc::new(StringArray::from(out)))
}

/// Base64 in lines of 76 characters, as Spark writes it.
fn chunked_base64(bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    if text.len() <= 76 {
        return text;
    }
    let lines: Vec<&str> = text.as_bytes().chunks(76).map(|l| std::str::from_utf8(l).unwrap_or_default()).collect();
    lines.join("\r\n")
}

fn unbase64(array: &ArrayRef, _ansi: bool) -> DfResult<ArrayRef> {
    let strings: &StringArray = downcast(array)?;
    let mut out: Vec<Option<Vec<u8>>> = Vec::with_capacity(strings.len());
    for s in strings {
        out.push(match s {
            None => None,
            Some(s) => Some(decode_base64(s).ok_or_else(|| {
                spark_error("CONVERSION_INVALID_INPUT", format!("the value '{s}' is no BASE64; use try_to_binary to get NULL"))
            })?),
        });
    }
    Ok(Arc::new(out.iter().map(|b| b.as_deref()).collect::<BinaryArray>()))
}

/// Base64 with whitespace ignored.
pub fn decode_base64(s: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(s.len() / 4 * 3);
    let (mut word, mut bits, mut padding) = (0_u32, 0_u32, false);
    for b in s.bytes() {
        let digit = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => {
                padding = true;
                continue;
            }
            b if b.is_ascii_whitespace() => continue,
            _ => return None,
        };
        if padding {
            return None;
        }
        word = (word << 6) | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from((word >> bits) & 0xff).ok()?);
        }
    }
    (bits != 6).then_some(out)
}

fn hex(array: &ArrayRef) -> DfResult<ArrayRef> {
    let upper = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02X}")).collect::<String>();
    Ok(Arc::new(match array.data_type() {
        DataType::Binary => downcast::<BinaryArray>(array)?.iter().map(|b| b.map(upper)).collect::<StringArray>(),
        DataType::Int64 => downcast::<Int64Array>(array)?.iter().map(|v| v.map(|v| format!("{v:X}"))).collect(),
        _ => downcast::<StringArray>(array)?.iter().map(|s| s.map(|s| upper(s.as_bytes()))).collect(),
    }))
}

fn unhex(s: &str) -> Option<Vec<u8>> {
    let padded = if s.len() % 2 == 1 { format!("0{s}") } else { s.to_owned() };
    padded
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            std::str::from_utf8(pair).ok().filter(|p| p.bytes().all(|b| b.is_ascii_hexdigit())).and_then(|p| u8::from_str_radix(p, 16).ok())
        })
        .collect()
}
