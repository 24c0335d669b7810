//! A slice of the query's rows as rows of the table.
//!
//! Columns are picked by the layout, nested fields are matched by name, and
//! values are cast with an error instead of null where one does not fit, as
//! Spark's store assignment does.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use weir_core::{Error, Result};

use super::layout::Layout;
use super::schema::same_name;

/// The layout's columns in the table's types; `None` for those that the query does not yield.
pub fn conform(layout: &Layout, slice: &RecordBatch) -> Result<Vec<Option<ArrayRef>>> {
    let columns = layout.sources.iter().zip(layout.written.fields()).map(|(source, field)| {
        let column = source.map(|source| to_type(slice.column(source), field.data_type()));
        column.transpose().map_err(|e| does_not_fit(field, e))
    });
    columns.collect()
}

fn does_not_fit(field: &Field, error: ArrowError) -> Error {
    Error::config(
        "TASK_WRITE_FAILED",
        format!(
            "a value of the column `{}` cannot be written as the table's {}; CAST or filter it in the query's SQL",
            field.name(),
            field.data_type()
        ),
    )
    .with_source(error)
}

/// An array with another type, an error where a value does not fit it.
pub fn to_type(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (DataType::Dictionary(_, value), _) => to_type(&cast(array, value)?, to),
        (DataType::Struct(_), DataType::Struct(fields)) => Ok(Arc::new(to_struct(array.as_struct(), fields)?)),
        (DataType::List(_), DataType::List(element)) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let values = to_type(&values, element.data_type())?;
            Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?))
        }
        (DataType::LargeList(element) | DataType::ListView(element) | DataType::FixedSizeList(element, _), DataType::List(_)) => {
            to_type(&cast(array, &DataType::List(Arc::clone(element)))?, to)
        }
        (DataType::Map(_, _), DataType::Map(entries, sorted)) => Ok(Arc::new(to_map(array.as_map(), entries, *sorted)?)),
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, DataType::Boolean) => string_to_boolean(array),
        _ => cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() }),
    }
}

fn to_struct(array: &StructArray, fields: &Fields) -> Result<StructArray, ArrowError> {
    let find = |name: &str| array.column_names().iter().position(|column| same_name(column, name));
    let columns = fields
        .iter()
        .map(|field| match find(field.name()) {
            Some(index) => to_type(array.column(index), field.data_type()),
            None => Ok(new_null_array(field.data_type(), array.len())),
        })
        .collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())
}

fn to_map(array: &MapArray, entries: &FieldRef, sorted: bool) -> Result<MapArray, ArrowError> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(ArrowError::CastError("a map without entries".into()));
    };
    let columns = vec![to_type(array.keys(), fields[0].data_type())?, to_type(array.values(), fields[1].data_type())?];
    let pairs = StructArray::try_new(fields.clone(), columns, None)?;
    MapArray::try_new(Arc::clone(entries), array.offsets().clone(), pairs, array.nulls().cloned(), sorted)
}

/// Arrow takes `on` and `off` for booleans too; Spark's list is this one.
fn string_to_boolean(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let texts = cast(array, &DataType::Utf8)?;
    let parsed: Result<arrow::array::BooleanArray, ArrowError> = texts
        .as_string::<i32>()
        .iter()
        .map(|text| match text.map(|text| text.trim().to_ascii_lowercase()).as_deref() {
            None => Ok(None),
            Some("t" | "true" | "y" | "yes" | "1") => Ok(Some(true)),
            Some("f" | "false" | "n" | "no" | "0") => Ok(Some(false)),
            Some(other) => Err(ArrowError::CastError(format!("'{other}' is no boolean"))),
        })
        .collect();
    Ok(Arc::new(parsed?))
}
