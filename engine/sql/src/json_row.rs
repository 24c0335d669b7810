//! A row as one line of JSON, as Spark's `to_json` writes it.
//!
//! Null fields are left out, timestamps are `yyyy-MM-dd'T'HH:mm:ss.SSSXXX` in
//! the session's zone, dates `yyyy-MM-dd`, binary base64, decimals and doubles
//! numbers (NaN and infinities strings), intervals their literal.

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use crate::cast::{format_date, format_decimal, format_double, format_float, to_strings};
use crate::conf::SqlConf;
use crate::error::from_datafusion;
use crate::interval::MICROS_PER_DAY;
use crate::types::SPARK_TYPE_KEY;
use crate::udf::downcast;
use crate::zone::SessionZone;

/// One row of a batch as a JSON object.
pub fn row_to_json(batch: &RecordBatch, row: usize, conf: &SqlConf) -> Result<String, weir_core::Error> {
    let zone = conf.zone()?;
    let mut out = String::from("{");
    let schema = batch.schema();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        write_member(&mut out, field, column, row, zone).map_err(from_datafusion)?;
    }
    out.push('}');
    Ok(out)
}

fn write_member(out: &mut String, field: &Field, column: &ArrayRef, row: usize, zone: SessionZone) -> Result<()> {
    if column.is_null(row) || column.data_type() == &DataType::Null {
        return Ok(());
    }
    if !out.ends_with('{') {
        out.push(',');
    }
    write_string(out, field.name());
    out.push(':');
    write_value(out, column, row, zone, field.metadata().get(SPARK_TYPE_KEY).map(String::as_str))
}

/// A JSON string with Jackson's escapes.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn write_value(out: &mut String, array: &ArrayRef, row: usize, zone: SessionZone, units: Option<&str>) -> Result<()> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        out.push_str("null");
        return Ok(());
    }
    match array.data_type() {
        DataType::Boolean => out.push_str(if downcast::<BooleanArray>(array)?.value(row) { "true" } else { "false" }),
        DataType::Int8 => out.push_str(&downcast::<Int8Array>(array)?.value(row).to_string()),
        DataType::Int16 => out.push_str(&downcast::<Int16Array>(array)?.value(row).to_string()),
        DataType::Int32 => out.push_str(&downcast::<Int32Array>(array)?.value(row).to_string()),
        DataType::Int64 => out.push_str(&downcast::<Int64Array>(array)?.value(row).to_string()),
        DataType::Float32 => {
            let v = downcast::<Float32Array>(array)?.value(row);
            write_float(out, v.is_finite(), &format_float(v));
        }
        DataType::Float64 => {
            let v = downcast::<Float64Array>(array)?.value(row);
            write_float(out, v.is_finite(), &format_double(v));
        }
        DataType::Decimal128(_, scale) => {
            out.push_str(&format_decimal(downcast::<Decimal128Array>(array)?.value(row), *scale));
        }
        DataType::Utf8 => write_string(out, downcast::<StringArray>(array)?.value(row)),
        DataType::Binary => write_string(out, &base64(downcast::<BinaryArray>(array)?.value(row))),
        DataType::Date32 => write_string(out, &format_date(downcast::<Date32Array>(array)?.value(row))),
        DataType::Timestamp(_, instant) => {
            let micros = downcast::<TimestampMicrosecondArray>(array)?.value(row);
            let zone = instant.is_some().then_some(zone);
            write_string(out, &iso_timestamp(micros, zone));
        }
        DataType::List(_) => {
            let items = downcast::<ListArray>(array)?.value(row);
            out.push('[');
            for index in 0..items.len() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, &items, index, zone, None)?;
            }
            out.push(']');
        }
        DataType::Map(..) => {
            let entries = downcast::<MapArray>(array)?.value(row);
            let keys = to_strings(entries.column(0), zone, None)?;
            out.push('{');
            for index in 0..entries.len() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, keys.value(index));
                out.push(':');
                write_value(out, entries.column(1), index, zone, None)?;
            }
            out.push('}');
        }
        DataType::Struct(fields) => {
            let parts: &StructArray = downcast(array)?;
            let mut inner = String::from("{");
            for (field, column) in fields.iter().zip(parts.columns()) {
                write_member(&mut inner, field, column, row, zone)?;
            }
            inner.push('}');
            out.push_str(&inner);
        }
        _ => {
            let text = to_strings(&array.slice(row, 1), zone, units)?;
            write_string(out, text.value(0));
        }
    }
    Ok(())
}

fn write_float(out: &mut String, finite: bool, text: &str) {
    if finite {
        out.push_str(text);
    } else {
        write_string(out, text);
    }
}

/// `2024-06-01T10:11:12.123Z`; without a zone for a wall clock reading.
pub fn iso_timestamp(micros: i64, zone: Option<SessionZone>) -> String {
    let local = zone.map_or(micros, |z| z.to_local(micros));
    let millis = local.div_euclid(1000);
    let of_day = millis.rem_euclid(MICROS_PER_DAY / 1000);
    let days = i32::try_from(millis.div_euclid(MICROS_PER_DAY / 1000)).unwrap_or(i32::MAX);
    let mut out = format!(
        "{}T{:02}:{:02}:{:02}.{:03}",
        format_date(days),
        of_day / 3_600_000,
        of_day / 60_000 % 60,
        of_day / 1000 % 60,
        of_day % 1000
    );
    if let Some(zone) = zone {
        match zone.offset_at(micros) {
            0 => out.push('Z'),
            offset => {
                let (sign, abs) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
                out.push_str(&format!("{sign}{:02}:{:02}", abs / 3600, abs / 60 % 60));
            }
        }
    }
    out
}

/// Base64 with padding and without line breaks.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |w, b| (w << 8) | u32::from(*b)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            if index <= chunk.len() {
                let digit = usize::try_from((word >> (18 - 6 * index)) & 63).unwrap_or(0);
                out.push(char::from(ALPHABET[digit]));
            } else {
                out.push('=');
            }
        }
    }
    out
}
