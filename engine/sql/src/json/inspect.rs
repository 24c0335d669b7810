//! Looking into JSON text: `get_json_object`, `json_array_length`,
//! `json_object_keys`, and one field of `json_tuple`.
//!
//! Text that is not JSON gives NULL, never an error.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ListBuilder, StringBuilder};
use arrow::datatypes::{DataType, Int32Type};
use weir_core::Error;

use super::path::{self, Step};
use crate::planned::{Arg, Planned, Session, each, each_text, some, strings, text_at, wrong_count};
use crate::types::{list_field, list_of};
use crate::udf::Rows;

pub(super) fn plan(name: &str, args: &[Arg], _session: &Session) -> Option<Result<Planned, Error>> {
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
        (super::TUPLE_FIELD, [_, _]) => Ok(tuple_field()),
        ("get_json_object", _) => Err(wrong_count(name, "2", args.len())),
        ("json_array_length" | "json_object_keys", _) => Err(wrong_count(name, "1", args.len())),
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

/// The last value of a top-level key that is not null.
fn tuple_field() -> Planned {
    Planned::new([DataType::Utf8, DataType::Utf8], DataType::Utf8, |rows: Rows<'_>| {
        let (texts, keys) = (strings(&rows, 0)?, strings(&rows, 1)?);
        each_text(rows.len, |row| {
            let (text, key) = some!(text_at(texts, row).zip(text_at(keys, row)));
            let fields = path::top_level(text).unwrap_or_default();
            Ok(fields.into_iter().rev().find(|(name, value)| name == key && value.is_some()).and_then(|(_, value)| value))
        })
    })
}
