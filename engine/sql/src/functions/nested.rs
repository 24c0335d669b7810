//! Kernels over arrays and structs that the analyzer itself uses.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int32Array, Int64Array, ListArray, MapArray, StructArray, UInt32Array, make_array, new_empty_array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};

use crate::error::spark_error;
use crate::udf::downcast;

/// A field of a struct, null where the struct is.
pub fn struct_field(array: &ArrayRef, index: usize) -> Result<ArrayRef> {
    let parts: &StructArray = downcast(array)?;
    with_nulls_of(parts.column(index), parts.nulls())
}

/// The array with the rows of the other nulls turned null too.
pub fn with_nulls_of(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(nulls) = nulls.filter(|n| n.null_count() > 0) else { return Ok(Arc::clone(array)) };
    if array.data_type() == &DataType::Null {
        return Ok(Arc::clone(array));
    }
    let both = NullBuffer::union(array.nulls(), Some(nulls));
    Ok(make_array(array.to_data().into_builder().nulls(both).build()?))
}

/// A field of the structs in lists.
pub fn list_struct_field(array: &ArrayRef, index: usize) -> Result<ArrayRef> {
    let list: &ListArray = downcast(array)?;
    let values = struct_field(list.values(), index)?;
    let field = crate::types::list_field(values.data_type().clone());
    Ok(Arc::new(ListArray::try_new(field, list.offsets().clone(), values, list.nulls().cloned())?))
}

/// `list[index]`, counted from zero.
pub fn list_item(args: &[ArrayRef], ansi: bool) -> Result<ArrayRef> {
    let list: &ListArray = downcast(&args[0])?;
    let indexes: &Int64Array = downcast(&args[1])?;
    let mut rows = Vec::with_capacity(list.len());
    for row in 0..list.len() {
        if list.is_null(row) || indexes.is_null(row) {
            rows.push(None);
            continue;
        }
        let (index, length) = (indexes.value(row), list.value_length(row));
        if index < 0 || index >= i64::from(length) {
            if ansi {
                return Err(spark_error(
                    "INVALID_ARRAY_INDEX",
                    format!("the index {index} is out of bounds, the array has {length} elements; use get() to get NULL"),
                ));
            }
            rows.push(None);
            continue;
        }
        rows.push(u32::try_from(i64::from(list.value_offsets()[row]) + index).ok());
    }
    Ok(take(list.values(), &UInt32Array::from(rows), None)?)
}

/// Lists with null instead of no list turned into empty lists.
pub fn empty_for_null(array: &ArrayRef) -> Result<ArrayRef> {
    let list: &ListArray = downcast(array)?;
    let lengths = (0..list.len()).map(|row| if list.is_null(row) { 0 } else { usize::try_from(list.value_length(row)).unwrap_or(0) });
    let mut indexes = Vec::new();
    for row in 0..list.len() {
        if list.is_valid(row) {
            let start = list.value_offsets()[row];
            indexes.extend((start..start + list.value_length(row)).map(|i| u32::try_from(i).unwrap_or(0)));
        }
    }
    let values = take(list.values(), &UInt32Array::from(indexes), None)?;
    let field = crate::types::list_field(values.data_type().clone());
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, None)?))
}

fn list_fields(target: &DataType) -> Result<arrow::datatypes::Fields> {
    if let DataType::List(item) = target
        && let DataType::Struct(fields) = item.data_type()
    {
        return Ok(fields.clone());
    }
    Err(DataFusionError::Internal(format!("a generator cannot make {target}")))
}

/// An array or a map as the rows of explode or posexplode.
pub fn exploded(array: &ArrayRef, with_position: bool, target: &DataType) -> Result<ArrayRef> {
    let fields = list_fields(target)?;
    let (offsets, nulls, mut columns): (OffsetBuffer<i32>, Option<NullBuffer>, Vec<ArrayRef>) = match array.data_type() {
        DataType::Map(..) => {
            let map: &MapArray = downcast(array)?;
            (map.offsets().clone(), map.nulls().cloned(), vec![Arc::clone(map.keys()), Arc::clone(map.values())])
        }
        _ => {
            let list: &ListArray = downcast(array)?;
            (list.offsets().clone(), list.nulls().cloned(), vec![Arc::clone(list.values())])
        }
    };
    let length = columns[0].len();
    if with_position {
        let mut positions = vec![0_i32; length];
        for row in offsets.windows(2) {
            let (start, end) = (usize::try_from(row[0]).unwrap_or(0), usize::try_from(row[1]).unwrap_or(0));
            for (position, slot) in (0_i32..).zip(&mut positions[start..end]) {
                *slot = position;
            }
        }
        columns.insert(0, Arc::new(Int32Array::from(positions)));
    }
    let rows = StructArray::try_new(fields, columns, None)?;
    let DataType::List(item) = target else {
        return Err(DataFusionError::Internal(format!("a generator cannot make {target}")));
    };
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, Arc::new(rows), nulls)?))
}

/// Cells of several columns, row-major, as rows of `width` columns.
pub fn stacked(cells: &[ArrayRef], len: usize, width: usize, target: &DataType) -> Result<ArrayRef> {
    let fields = list_fields(target)?;
    let DataType::List(item) = target else {
        return Err(DataFusionError::Internal(format!("a generator cannot make {target}")));
    };
    let height = cells.len() / width.max(1);
    if cells.is_empty() || len == 0 {
        let offsets = OffsetBuffer::from_lengths(vec![0; len]);
        let values = new_empty_array(item.data_type());
        return Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, None)?));
    }
    let mut columns = Vec::with_capacity(width);
    for column in 0..width {
        let parts: Vec<&dyn Array> = (0..height).map(|row| cells[row * width + column].as_ref()).collect();
        let all = concat(&parts)?;
        // `all` has height blocks of len rows; the result wants len blocks of height.
        let order: Vec<u32> =
            (0..len).flat_map(|row| (0..height).map(move |block| u32::try_from(block * len + row).unwrap_or(0))).collect();
        columns.push(take(&all, &UInt32Array::from(order), None)?);
    }
    let rows = StructArray::try_new(fields, columns, None)?;
    let offsets = OffsetBuffer::from_lengths(vec![height; len]);
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, Arc::new(rows), None)?))
}

/// Any array as the canonical type of its Spark type.
pub fn to_canonical(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), target) {
        (DataType::List(_), DataType::List(field)) => {
            let list: &ListArray = downcast(array)?;
            let values = to_canonical(list.values(), field.data_type())?;
            Ok(Arc::new(ListArray::try_new(Arc::clone(field), list.offsets().clone(), values, list.nulls().cloned())?))
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let map: &MapArray = downcast(array)?;
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(DataFusionError::Internal("a map has entries".to_owned()));
            };
            let keys = to_canonical(map.keys(), fields[0].data_type())?;
            let values = to_canonical(map.values(), fields[1].data_type())?;
            let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), map.offsets().clone(), pairs, map.nulls().cloned(), *sorted)?))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let parts: &StructArray = downcast(array)?;
            if fields.is_empty() {
                return Ok(Arc::new(StructArray::new_empty_fields(parts.len(), parts.nulls().cloned())));
            }
            let columns = parts.columns().iter().zip(fields).map(|(c, f)| to_canonical(c, f.data_type())).collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?))
        }
        (DataType::Null, _) => Ok(new_null_array(target, array.len())),
        (DataType::LargeList(_) | DataType::ListView(_) | DataType::LargeListView(_) | DataType::FixedSizeList(..), DataType::List(_)) => {
            let (DataType::LargeList(inner)
            | DataType::ListView(inner)
            | DataType::LargeListView(inner)
            | DataType::FixedSizeList(inner, _)) = array.data_type()
            else {
                return Err(DataFusionError::Internal("a list was expected".to_owned()));
            };
            let list = arrow::compute::cast(array, &DataType::List(Arc::clone(inner)))?;
            to_canonical(&list, target)
        }
        _ => Ok(arrow::compute::cast(array, target)?),
    }
}
