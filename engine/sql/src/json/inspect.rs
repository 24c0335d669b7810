//! Looking into JSON text: `get_json_object`, `json_array_length`,
//! `json_object_keys`, and the struct behind `json_tuple`.
//!
//! Text that is not JSON gives NULL, never an error.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListBuilder, StringBuilder, StructArray};
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::Result;
use weir_core::Error;

use super::path::{self, Step};
use crate::planned::{Arg, Planned, Session, each, each_text, some, strings, text_at, wrong_count};
use crate::types::{list_field, list_of, struct_of};
use crate::udf::Rows;

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    let _ = session;
    Some(match (name, args) {
        ("get_json_object", [_, _]) => Ok(get_json_object()),
        ("json_array_length", [_]) => Ok(Planned::new([DataType::Utf8], DataType::Int32, |rows: Rows<'_>| {
            let texts = strings(&rows, 0)?;
            each::<Int32Type>(rows.len, &DataType::Int32, |row| Ok(text_at(texts, row).and_then(path::array_length)))
        })),
        ("json_object_keys", [_]) => Ok(Planned::new([DataType::Utf8], list_of(DataType::Utf8), |rows: Rows<'_>| {
            let texts = strings(&rows, 0)?;
            let mut out = ListBuilder::new(StringBuilder::new()).with_field(list_field(DataType::Utf8));
            for row in 0..rows.len {
                let fields = text_at(texts, row).and_then(path::top_level);
                let valid = fields.is_some();
                for (name, _) in fields.unwrap_or_default() {
                    out.values().append_value(name);
                }
                out.append(valid);
            }
            Ok(Arc::new(out.finish()))
        })),
        ("json_tuple_struct", [_, _, ..]) => Ok(json_tuple(args.len())),
        ("get_json_object", _) => Err(wrong_count(name, "2", args.len())),
        ("json_array_length" | "json_object_keys", _) => Err(wrong_count(name, "1", args.len())),
        ("json_tuple_struct", _) => Err(wrong_count("json_tuple", "> 1", args.len())),
        _ => return None,
    })
}

fn get_json_object() -> Planned {
    Planned::new([DataType::Utf8, DataType::Utf8], DataType::Utf8, |rows: Rows<'_>| {
        let (texts, paths) = (strings(&rows, 0)?, strings(&rows, 1)?);
        let mut known: HashMap<&str, Option<Vec<Step>>> = HashMap::new();
        each_text(rows.len, |row| {
            let text = some!(text_at(texts, row));
            let path = some!(text_at(paths, row));
            let steps = known.entry(path).or_insert_with(|| path::parse(path));
            Ok(steps.as_ref().and_then(|steps| path::get(text, steps)))
        })
    })
}

/// `json_tuple(json, k0, k1, …)` as one struct of `c0`, `c1`, …; the last value of a key counts.
fn json_tuple(count: usize) -> Planned {
    let result = struct_of((0..count - 1).map(|index| (format!("c{index}"), DataType::Utf8)));
    let kind = result.clone();
    Planned::new(vec![DataType::Utf8; count], result, move |rows: Rows<'_>| -> Result<ArrayRef> {
        let texts = strings(&rows, 0)?;
        let keys = (1..count).map(|index| strings(&rows, index)).collect::<Result<Vec<_>>>()?;
        let mut columns: Vec<StringBuilder> = keys.iter().map(|_| StringBuilder::new()).collect();
        for row in 0..rows.len {
            let fields = text_at(texts, row).and_then(path::top_level).unwrap_or_default();
            for (column, key) in columns.iter_mut().zip(&keys) {
                let wanted = key.is_valid(row).then(|| key.value(row));
                let found = fields.iter().rev().find(|(name, value)| Some(name.as_str()) == wanted && value.is_some());
                column.append_option(found.and_then(|(_, value)| value.as_deref()));
            }
        }
        let DataType::Struct(fields) = &kind else {
            return Err(datafusion::common::DataFusionError::Internal("json_tuple is a struct".into()));
        };
        let columns = columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef).collect();
        Ok(Arc::new(StructArray::new(fields.clone(), columns, None)))
    })
}
