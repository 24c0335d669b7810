//! Casts between arrays, between maps and between structs, element by element.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::{Cast, cast_array, unsupported};
use crate::udf::downcast;

/// Casts a nested array to a nested type of the same shape.
pub fn cast_nested(array: &ArrayRef, to: &DataType, cast: Cast) -> Result<ArrayRef> {
    match (array.data_type(), to) {
        (DataType::List(_), DataType::List(field)) => {
            let list: &ListArray = downcast(array)?;
            let values = cast_array(list.values(), field.data_type(), cast, None)?;
            Ok(Arc::new(ListArray::try_new(Arc::clone(field), list.offsets().clone(), values, list.nulls().cloned())?))
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let map: &MapArray = downcast(array)?;
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(unsupported(array.data_type(), to));
            };
            let keys = cast_array(map.keys(), fields[0].data_type(), cast, None)?;
            let values = cast_array(map.values(), fields[1].data_type(), cast, None)?;
            let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), map.offsets().clone(), pairs, map.nulls().cloned(), *sorted)?))
        }
        (DataType::Struct(from), DataType::Struct(fields)) if from.len() == fields.len() => {
            let parts: &StructArray = downcast(array)?;
            let columns = parts
                .columns()
                .iter()
                .zip(fields)
                .map(|(column, field)| cast_array(column, field.data_type(), cast, None))
                .collect::<Result<Vec<_>>>()?;
            if fields.is_empty() {
                return Ok(Arc::new(StructArray::new_empty_fields(parts.len(), parts.nulls().cloned())));
            }
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?))
        }
        (from, to) => Err(unsupported(from, to)),
    }
}
