//! Growing Arrow columns that can be cut back.
//!
//! A record that turns out to be bad must leave no trace, and a repeated key
//! replaces its first value; Arrow's builders only grow. Every column has one
//! validity entry per row; null rows hold a default value. Text is valid
//! UTF-8, which whoever appends guarantees.

use crate::error::DecodeError;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, ListArray, MapArray, NullArray, PrimitiveArray, StringArray, StructArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Field, FieldRef, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use std::collections::HashMap;
use std::sync::Arc;

/// A column under construction.
#[derive(Debug)]
pub struct Column {
    pub(crate) data_type: DataType,
    pub(crate) validity: Validity,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Boolean(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: i8,
    },
    Date(Vec<i32>),
    /// Instants.
    Timestamp(Vec<i64>),
    /// Local time.
    TimestampNtz(Vec<i64>),
    Text(Bytes),
    Binary(Bytes),
    List {
        offsets: Vec<i32>,
        items: Box<Column>,
    },
    Map {
        offsets: Vec<i32>,
        keys: Bytes,
        values: Box<Column>,
    },
    Struct(StructColumn),
}

/// Nulls, allocated at the first one.
#[derive(Debug, Default)]
pub(crate) struct Validity {
    len: usize,
    bits: Option<BooleanBufferBuilder>,
}

/// Variable-length values.
#[derive(Debug)]
pub(crate) struct Bytes {
    pub offsets: Vec<i32>,
    pub data: Vec<u8>,
}

/// The fields of a struct, found by name.
#[derive(Debug)]
pub(crate) struct StructColumn {
    pub fields: Vec<Column>,
    pub names: Vec<Box<[u8]>>,
    index: HashMap<Box<[u8]>, usize>,
    /// Per field: where its last good value of this row began, plus one.
    pub seen: Vec<usize>,
}

impl Validity {
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn push_valid(&mut self) {
        self.len += 1;
        if let Some(bits) = &mut self.bits {
            bits.append(true);
        }
    }

    pub fn push_null(&mut self) {
        let len = self.len;
        let bits = self.bits.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(len.max(1024));
            bits.append_n(len, true);
            bits
        });
        bits.append(false);
        self.len += 1;
    }

    fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            if let Some(bits) = &mut self.bits {
                bits.truncate(len);
            }
        }
    }

    fn finish(&mut self) -> Option<NullBuffer> {
        self.len = 0;
        self.bits.take().map(|mut bits| NullBuffer::new(bits.finish()))
    }
}

impl Bytes {
    fn new() -> Self {
        Self { offsets: vec![0], data: Vec::new() }
    }

    /// Ends the value whose bytes were pushed to `data`.
    #[inline]
    pub fn end_value(&mut self) {
        // The decoder refuses rows before two gibibytes are reached.
        self.offsets.push(self.data.len() as i32);
    }

    #[inline]
    pub fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.end_value();
    }

    /// Pushes `source[start..end]`. Short values are copied as a block of fixed
    /// size where the source goes on long enough, which spares a call.
    #[inline]
    pub fn push_range(&mut self, source: &[u8], start: usize, end: usize) {
        let length = end - start;
        match source.get(start..).and_then(<[u8]>::first_chunk::<64>) {
            Some(block) if length <= 64 => {
                let before = self.data.len();
                self.data.extend_from_slice(block);
                self.data.truncate(before + length);
            }
            _ => self.data.extend_from_slice(&source[start..end]),
        }
        self.end_value();
    }

    /// Drops bytes of a value that was not ended.
    pub fn abandon_value(&mut self) {
        let end = self.offsets.last().map_or(0, |end| *end as usize);
        self.data.truncate(end);
    }

    pub fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.abandon_value();
    }

    fn finish(&mut self) -> (OffsetBuffer<i32>, Buffer) {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        let data = std::mem::take(&mut self.data);
        // Room for a batch like the last one, unless that one was unusually large.
        self.offsets.reserve(offsets.len().min(1 << 16));
        self.data.reserve(data.len().min(4 << 20));
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(data))
    }
}

impl StructColumn {
    fn new(fields: &Fields) -> Result<Self, DecodeError> {
        let columns = fields.iter().map(|f| Column::new(f.data_type())).collect::<Result<_, _>>()?;
        let names: Vec<Box<[u8]>> = fields.iter().map(|f| f.name().as_bytes().into()).collect();
        let index = names.iter().cloned().enumerate().map(|(i, name)| (name, i)).collect();
        Ok(Self { fields: columns, seen: vec![0; names.len()], names, index })
    }

    /// The field of that name; `hint` is tried first.
    #[inline]
    pub fn find(&self, name: &[u8], hint: usize) -> Option<usize> {
        if self.names.get(hint).is_some_and(|candidate| **candidate == *name) {
            return Some(hint);
        }
        if self.names.len() <= 8 {
            return self.names.iter().position(|candidate| **candidate == *name);
        }
        self.index.get(name).copied()
    }
}

impl Column {
    /// An empty column.
    ///
    /// # Errors
    /// A type that text cannot be decoded into.
    pub fn new(data_type: &DataType) -> Result<Self, DecodeError> {
        let kind = match data_type {
            DataType::Null => Kind::Null,
            DataType::Boolean => Kind::Boolean(BooleanBufferBuilder::new(1024)),
            DataType::Int8 => Kind::Int8(Vec::new()),
            DataType::Int16 => Kind::Int16(Vec::new()),
            DataType::Int32 => Kind::Int32(Vec::new()),
            DataType::Int64 => Kind::Int64(Vec::new()),
            DataType::Float32 => Kind::Float32(Vec::new()),
            DataType::Float64 => Kind::Float64(Vec::new()),
            DataType::Decimal128(precision, scale) => Kind::Decimal { values: Vec::new(), precision: *precision, scale: *scale },
            DataType::Date32 => Kind::Date(Vec::new()),
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => Kind::Timestamp(Vec::new()),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Kind::TimestampNtz(Vec::new()),
            DataType::Utf8 => Kind::Text(Bytes::new()),
            DataType::Binary => Kind::Binary(Bytes::new()),
            DataType::List(item) => Kind::List { offsets: vec![0], items: Box::new(Self::new(item.data_type())?) },
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 && *fields[0].data_type() == DataType::Utf8 => {
                    Kind::Map { offsets: vec![0], keys: Bytes::new(), values: Box::new(Self::new(fields[1].data_type())?) }
                }
                _ => return Err(unsupported(data_type)),
            },
            DataType::Struct(fields) => Kind::Struct(StructColumn::new(fields)?),
            _ => return Err(unsupported(data_type)),
        };
        Ok(Self { data_type: nullable(data_type), validity: Validity::default(), kind })
    }

    /// The Arrow type; every nested field is nullable.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Rows so far.
    pub fn len(&self) -> usize {
        self.validity.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a null.
    pub fn append_null(&mut self) {
        match &mut self.kind {
            Kind::Null => {}
            Kind::Boolean(bits) => bits.append(false),
            Kind::Int8(values) => values.push(0),
            Kind::Int16(values) => values.push(0),
            Kind::Int32(values) | Kind::Date(values) => values.push(0),
            Kind::Int64(values) | Kind::Timestamp(values) | Kind::TimestampNtz(values) => {
                values.push(0);
            }
            Kind::Float32(values) => values.push(0.0),
            Kind::Float64(values) => values.push(0.0),
            Kind::Decimal { values, .. } => values.push(0),
            Kind::Text(bytes) | Kind::Binary(bytes) => bytes.end_value(),
            Kind::List { offsets, items } => offsets.push(items.len() as i32),
            Kind::Map { offsets, values, .. } => offsets.push(values.len() as i32),
            Kind::Struct(inner) => inner.fields.iter_mut().for_each(Column::append_null),
        }
        self.validity.push_null();
    }

    /// Cuts the column back to `len` rows, and away what a row in the making left.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.kind {
            Kind::Null => {}
            Kind::Boolean(bits) => bits.truncate(len),
            Kind::Int8(values) => values.truncate(len),
            Kind::Int16(values) => values.truncate(len),
            Kind::Int32(values) | Kind::Date(values) => values.truncate(len),
            Kind::Int64(values) | Kind::Timestamp(values) | Kind::TimestampNtz(values) => {
                values.truncate(len);
            }
            Kind::Float32(values) => values.truncate(len),
            Kind::Float64(values) => values.truncate(len),
            Kind::Decimal { values, .. } => values.truncate(len),
            Kind::Text(bytes) | Kind::Binary(bytes) => bytes.truncate(len),
            Kind::List { offsets, items } => {
                offsets.truncate(len + 1);
                items.truncate(offsets.last().map_or(0, |end| *end as usize));
            }
            Kind::Map { offsets, keys, values } => {
                offsets.truncate(len + 1);
                let entries = offsets.last().map_or(0, |end| *end as usize);
                keys.truncate(entries);
                values.truncate(entries);
            }
            Kind::Struct(inner) => inner.fields.iter_mut().for_each(|f| f.truncate(len)),
        }
        self.validity.truncate(len);
    }

    /// The array so far; the column starts again empty.
    ///
    /// # Errors
    /// Values that do not fit their type, which only a decimal can have.
    pub fn finish(&mut self) -> Result<ArrayRef, DecodeError> {
        let len = self.len();
        let nulls = self.validity.finish();
        let data_type = &self.data_type;
        Ok(match &mut self.kind {
            Kind::Null => Arc::new(NullArray::new(len)),
            Kind::Boolean(bits) => {
                let values: BooleanBuffer = bits.finish();
                Arc::new(BooleanArray::new(values, nulls))
            }
            Kind::Int8(values) => primitive::<Int8Type>(values, nulls, data_type),
            Kind::Int16(values) => primitive::<Int16Type>(values, nulls, data_type),
            Kind::Int32(values) => primitive::<Int32Type>(values, nulls, data_type),
            Kind::Int64(values) => primitive::<Int64Type>(values, nulls, data_type),
            Kind::Float32(values) => primitive::<Float32Type>(values, nulls, data_type),
            Kind::Float64(values) => primitive::<Float64Type>(values, nulls, data_type),
            Kind::Decimal { values, .. } => primitive::<Decimal128Type>(values, nulls, data_type),
            Kind::Date(values) => primitive::<Date32Type>(values, nulls, data_type),
            Kind::Timestamp(values) | Kind::TimestampNtz(values) => primitive::<TimestampMicrosecondType>(values, nulls, data_type),
            Kind::Text(bytes) => Arc::new(text_array(bytes, nulls)),
            Kind::Binary(bytes) => {
                let (offsets, data) = bytes.finish();
                Arc::new(BinaryArray::new(offsets, data, nulls))
            }
            Kind::List { offsets, items } => {
                let DataType::List(field) = data_type else { return Err(unsupported(data_type)) };
                Arc::new(ListArray::new(field.clone(), offset_buffer(offsets), items.finish()?, nulls))
            }
            Kind::Map { offsets, keys, values } => {
                let DataType::Map(entries_field, sorted) = data_type else {
                    return Err(unsupported(data_type));
                };
                let DataType::Struct(fields) = entries_field.data_type() else {
                    return Err(unsupported(data_type));
                };
                let columns: Vec<ArrayRef> = vec![Arc::new(text_array(keys, None)), values.finish()?];
                let entries = StructArray::new(fields.clone(), columns, None);
                let offsets = offset_buffer(offsets);
                Arc::new(MapArray::new(entries_field.clone(), offsets, entries, nulls, *sorted))
            }
            Kind::Struct(inner) => {
                let DataType::Struct(fields) = data_type else { return Err(unsupported(data_type)) };
                let columns: Vec<ArrayRef> = inner.fields.iter_mut().map(Column::finish).collect::<Result<_, _>>()?;
                if columns.is_empty() {
                    Arc::new(StructArray::new_empty_fields(len, nulls))
                } else {
                    Arc::new(StructArray::new(fields.clone(), columns, nulls))
                }
            }
        })
    }

    /// Bytes held by values.
    pub fn memory(&self) -> usize {
        match &self.kind {
            Kind::Null => 0,
            Kind::Boolean(bits) => bits.len() / 8,
            Kind::Int8(values) => values.len(),
            Kind::Int16(values) => values.len() * 2,
            Kind::Int32(values) | Kind::Date(values) => values.len() * 4,
            Kind::Float32(values) => values.len() * 4,
            Kind::Int64(values) | Kind::Timestamp(values) | Kind::TimestampNtz(values) => values.len() * 8,
            Kind::Float64(values) => values.len() * 8,
            Kind::Decimal { values, .. } => values.len() * 16,
            Kind::Text(bytes) | Kind::Binary(bytes) => bytes.data.len() + bytes.offsets.len() * 4,
            Kind::List { offsets, items } => offsets.len() * 4 + items.memory(),
            Kind::Map { offsets, keys, values } => (offsets.len() + keys.offsets.len()) * 4 + keys.data.len() + values.memory(),
            Kind::Struct(inner) => inner.fields.iter().map(Column::memory).sum(),
        }
    }
}

/// The type with every nested field nullable, as Spark reads files.
pub fn nullable(data_type: &DataType) -> DataType {
    let relax =
        |field: &FieldRef| -> FieldRef { Arc::new(Field::clone(field).with_data_type(nullable(field.data_type())).with_nullable(true)) };
    match data_type {
        DataType::List(item) => DataType::List(relax(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(relax).collect()),
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let key = Field::clone(&fields[0]).with_nullable(false);
                let inner = Fields::from(vec![Arc::new(key), relax(&fields[1])]);
                let entry = Field::clone(entries).with_data_type(DataType::Struct(inner)).with_nullable(false);
                DataType::Map(Arc::new(entry), *sorted)
            }
            _ => data_type.clone(),
        },
        other => other.clone(),
    }
}

fn primitive<T: ArrowPrimitiveType>(values: &mut Vec<T::Native>, nulls: Option<NullBuffer>, data_type: &DataType) -> ArrayRef {
    let next = Vec::with_capacity(values.len());
    let values = ScalarBuffer::from(std::mem::replace(values, next));
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(data_type.clone()))
}

fn offset_buffer(offsets: &mut Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])))
}

fn text_array(bytes: &mut Bytes, nulls: Option<NullBuffer>) -> StringArray {
    let (offsets, data) = bytes.finish();
    // SAFETY: offsets are those of whole values in order, and everything that
    // appends to a text column appends valid UTF-8 (see the module's header).
    unsafe { StringArray::new_unchecked(offsets, data, nulls) }
}

fn unsupported(data_type: &DataType) -> DecodeError {
    DecodeError::new(
        "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
        format!("Text cannot be decoded into a column of type {data_type}; declare another type."),
    )
}
