//! Keys and order values as bytes: equal values have equal bytes, greater ones
//! greater bytes.
//!
//! Equality is Spark's: NaN equals NaN, -0.0 equals 0.0. A null order value is
//! the least. A key with a null in it has no bytes: it equals none.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use weir_core::{Error, Result};

/// Encodes the key columns, and the order column if there is one.
pub struct Encoder {
    keys: RowConverter,
    key_columns: usize,
    order: Option<RowConverter>,
}

/// A slice's keys and order values.
pub struct Encoded {
    keys: Rows,
    /// Where no key column is null.
    complete: Option<NullBuffer>,
    orders: Option<Rows>,
}

impl Encoder {
    /// For fields of which the first `key_columns` are the key and the rest the order.
    pub fn new(fields: &[FieldRef], key_columns: usize) -> Result<Self> {
        let converter = |fields: &[FieldRef]| converter(fields.iter().map(|field| field.data_type().clone()));
        let (keys, order) = fields.split_at(key_columns);
        let order = if order.is_empty() { None } else { Some(converter(order)?) };
        Ok(Self { keys: converter(keys)?, key_columns, order })
    }

    /// Encodes a slice's columns, in the order of the fields.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Encoded> {
        let columns: Vec<ArrayRef> = columns.iter().map(normalized).collect();
        let (keys, order) = columns.split_at(self.key_columns);
        let complete = keys.iter().fold(None, |nulls, column| NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref()));
        let orders = self.order.as_ref().map(|converter| converter.convert_columns(order)).transpose().map_err(unencoded)?;
        Ok(Encoded { keys: self.keys.convert_columns(keys).map_err(unencoded)?, complete, orders })
    }
}

impl Encoded {
    /// The key of a row; `None` where a part of it is null.
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        let complete = self.complete.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        complete.then(|| self.keys.row(row).data())
    }

    /// The order value of a row; empty without an order column.
    pub fn order(&self, row: usize) -> &[u8] {
        self.orders.as_ref().map_or(&[], |orders| orders.row(row).data())
    }
}

/// A converter for columns of the types.
pub fn converter(types: impl Iterator<Item = DataType>) -> Result<RowConverter> {
    RowConverter::new(types.map(SortField::new).collect()).map_err(unencoded)
}

/// One value for all that Spark takes as equal.
pub fn normalized(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let same = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(same))
        }
        DataType::Float64 => {
            let same = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(same))
        }
        _ => Arc::clone(column),
    }
}

/// The error of rows that cannot be compared.
pub fn unencoded(error: ArrowError) -> Error {
    Error::retryable("TASK_WRITE_FAILED", "the rows' keys could not be compared").with_source(error)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{Float64Array, Int32Array, StringArray};
    use arrow::datatypes::Field;

    #[test]
    fn equality_and_order_are_sparks() {
        let fields: Vec<FieldRef> = [("k", DataType::Float64), ("s", DataType::Utf8), ("o", DataType::Int32)]
            .map(|(name, of)| Arc::new(Field::new(name, of, true)))
            .into();
        let odd_nan = f64::from_bits(f64::NAN.to_bits() | 1);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(odd_nan), None, Some(0.0)])),
            Arc::new(StringArray::from(vec![Some("a"), Some("a"), Some("a"), Some("a"), Some("a"), None])),
            Arc::new(Int32Array::from(vec![Some(-1), None, Some(2), Some(2), None, Some(10)])),
        ];
        let encoded = Encoder::new(&fields, 2).unwrap().encode(&columns).unwrap();
        assert_eq!(encoded.key(0), encoded.key(1));
        assert_eq!(encoded.key(2), encoded.key(3));
        assert!(encoded.key(0) != encoded.key(2) && encoded.key(0).is_some());
        assert_eq!((encoded.key(4), encoded.key(5)), (None, None));
        assert!(encoded.order(1) < encoded.order(0) && encoded.order(0) < encoded.order(2) && encoded.order(2) < encoded.order(5));
        let unordered = Encoder::new(&fields[..2], 2).unwrap().encode(&columns[..2]).unwrap();
        assert!(unordered.order(0).is_empty());
    }
}
