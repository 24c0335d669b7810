//! `to_json` and `to_csv`: values to text.
//!
//! Intervals are written by the decoder crate, which looks up Spark's name of
//! their type from the field.

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Date32Type, Field, TimestampMicrosecondType};
use datafusion::common::Result;
use std::sync::Arc;
use weir_core::Error;
use weir_decode::json::{JsonWriteOptions, JsonWriter};
use weir_decode::{CsvOptions, csv};

use super::{borrowed, options};
use crate::cast::cast_array;
use crate::planned::{Arg, Planned, Session, planning, running, wrong_count};
use crate::udf::Rows;

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    Some(match (name, args) {
        ("to_json", [source] | [source, _]) => to_json(source, args, session),
        ("to_csv", [source] | [source, _]) => to_csv(source, args, session),
        ("to_json" | "to_csv", _) => Err(wrong_count(name, "[1, 2]", args.len())),
        _ => return None,
    })
}

fn to_json(source: &Arg, args: &[Arg], session: &Session) -> Result<Planned, Error> {
    if !matches!(source.data_type, DataType::Struct(_) | DataType::List(_) | DataType::Map(..)) {
        return Err(Error::config(
            "DATATYPE_MISMATCH.INVALID_JSON_SCHEMA",
            "`to_json` takes a struct, an array or a map; put the value into one: to_json(named_struct('value', x))",
        ));
    }
    let pairs = options("to_json", args.get(1))?;
    let write = JsonWriteOptions::parse(session.zone, borrowed(&pairs)).map_err(|e| planning(&e))?;
    let key = format!("{pairs:?} {}", session.zone);
    let kernel = move |rows: Rows<'_>| -> Result<ArrayRef> {
        let array = &rows.args[0];
        let field = Field::new("value", array.data_type().clone(), true);
        let writer = JsonWriter::new(&field, array, &write).map_err(|e| running(&e))?;
        let mut out = StringBuilder::with_capacity(rows.len, rows.len * 64);
        let mut buffer = Vec::new();
        for row in 0..rows.len {
            if array.is_null(row) {
                out.append_null();
                continue;
            }
            buffer.clear();
            writer.write(row, &mut buffer).map_err(|e| running(&e))?;
            out.append_value(String::from_utf8_lossy(&buffer));
        }
        Ok(Arc::new(out.finish()))
    };
    let types: Vec<DataType> = args.iter().map(|arg| arg.data_type.clone()).collect();
    Ok(Planned::new(types, DataType::Utf8, kernel).keyed(key))
}

fn to_csv(source: &Arg, args: &[Arg], session: &Session) -> Result<Planned, Error> {
    if !matches!(source.data_type, DataType::Struct(_)) {
        return Err(Error::config("DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE", "`to_csv` takes a struct: write to_csv(named_struct(…))"));
    }
    let pairs = options("to_csv", args.get(1))?;
    let read = CsvOptions::parse(session.zone, borrowed(&pairs).filter(|(name, _)| !name.to_ascii_lowercase().ends_with("format")))
        .map_err(|e| planning(&e))?;
    let write = JsonWriteOptions::parse(session.zone, borrowed(&pairs)).map_err(|e| planning(&e))?;
    let key = format!("{pairs:?} {}", session.zone);
    let cast = session.cast;
    let kernel = move |rows: Rows<'_>| -> Result<ArrayRef> {
        let structs = rows.args[0].as_struct();
        let columns = structs.columns().iter().map(|column| cells(column, &write, cast)).collect::<Result<Vec<_>>>()?;
        let mut out = StringBuilder::with_capacity(rows.len, rows.len * 32);
        let mut buffer = String::new();
        for row in 0..rows.len {
            if structs.is_null(row) {
                out.append_null();
                continue;
            }
            buffer.clear();
            let null = (!read.null_value.is_empty()).then_some(read.null_value.as_str());
            let fields = columns.iter().map(|column| if column.is_null(row) { null } else { Some(column.value(row)) });
            csv::write_record(fields, char::from(read.separator), &mut buffer);
            out.append_value(&buffer);
        }
        Ok(Arc::new(out.finish()))
    };
    let types: Vec<DataType> = args.iter().map(|arg| arg.data_type.clone()).collect();
    Ok(Planned::new(types, DataType::Utf8, kernel).keyed(key))
}

/// A column's values as the fields of CSV records.
fn cells(column: &ArrayRef, write: &JsonWriteOptions, cast: crate::cast::Cast) -> Result<StringArray> {
    let formatted = |text: std::result::Result<String, weir_decode::DecodeError>| text.map(Some).map_err(|e| running(&e));
    let rows = 0..column.len();
    match column.data_type() {
        DataType::Date32 => {
            let dates = column.as_primitive::<Date32Type>();
            rows.map(|row| if dates.is_null(row) { Ok(None) } else { formatted(write.date.format_days(dates.value(row))) }).collect()
        }
        DataType::Timestamp(_, zone) => {
            let instants = column.as_primitive::<TimestampMicrosecondType>();
            rows.map(|row| {
                if instants.is_null(row) {
                    return Ok(None);
                }
                formatted(match zone {
                    Some(_) => write.timestamp.format_instant(instants.value(row), &write.zone),
                    None => write.timestamp_ntz.format_local(instants.value(row)),
                })
            })
            .collect()
        }
        _ => Ok(cast_array(column, &DataType::Utf8, cast, None)?.as_string::<i32>().clone()),
    }
}
