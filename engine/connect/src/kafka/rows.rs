//! Kafka records as Arrow columns with Spark's names and types.
//!
//! Owns the source's schema and a builder that copies records straight from
//! the client's memory into the columns that the query needs. Topic and
//! partition are the same for a whole slice and are made at its end.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, Int32Array, Int64Array, ListBuilder, RecordBatch, RecordBatchOptions, StringArray, StringBuilder,
    StructBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use weir_core::{Error, Result};

use super::drain::RecordView;
use super::offsets::TopicPartition;
use super::options::HeaderColumn;
use crate::source::RecordColumns;

/// `key`, `value`, `topic`, `partition`, `offset`, `timestamp`, `timestampType` and, when asked for, `headers`.
pub fn schema(headers: HeaderColumn) -> SchemaRef {
    let mut fields = vec![
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
        Field::new("topic", DataType::Utf8, true),
        Field::new("partition", DataType::Int32, true),
        Field::new("offset", DataType::Int64, true),
        Field::new("timestamp", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("timestampType", DataType::Int32, true),
    ];
    if headers == HeaderColumn::Included {
        fields.push(Field::new("headers", DataType::List(Arc::new(Field::new_list_field(DataType::Struct(header_fields()), true))), true));
    }
    Arc::new(Schema::new(fields))
}

/// Where a record and its place are in the schema.
pub const RECORD: RecordColumns = RecordColumns { value: 1, topic: 2, partition: 3, offset: 4 };

/// The fields of one header.
pub fn header_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)])
}

enum Column {
    Key(BinaryBuilder),
    Value(BinaryBuilder),
    Topic,
    Partition,
    Offset(Vec<i64>),
    Timestamp(Vec<i64>),
    TimestampType(Vec<i32>),
    Headers(Box<ListBuilder<StructBuilder>>),
}

/// Builds the slices of one partition's range.
pub struct RowBuilder {
    schema: SchemaRef,
    columns: Vec<Column>,
    partition: TopicPartition,
    rows: usize,
    bytes: usize,
}

impl RowBuilder {
    /// A builder for the columns of `projection`, indexes into the source's schema.
    pub fn new(schema: &SchemaRef, projection: &[usize], partition: TopicPartition) -> Result<Self> {
        let projected = schema
            .project(projection)
            .map_err(|e| Error::config("INVALID_PROJECTION", format!("the columns {projection:?} are not those of a Kafka source: {e}")))?;
        let columns = projected.fields().iter().map(|field| column(field.name())).collect();
        Ok(Self { schema: Arc::new(projected), columns, partition, rows: 0, bytes: 0 })
    }

    /// Rows in the slice so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of keys and values met in the slice so far, whether projected or not.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies a record.
    pub fn append(&mut self, record: &RecordView<'_>) {
        let (key, value) = (record.key(), record.value());
        self.bytes += key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        self.rows += 1;
        for column in &mut self.columns {
            match column {
                Column::Key(builder) => builder.append_option(key),
                Column::Value(builder) => builder.append_option(value),
                Column::Topic | Column::Partition => {}
                Column::Offset(values) => values.push(record.offset()),
                Column::Timestamp(values) => values.push(record.timestamp().0 * 1000),
                Column::TimestampType(values) => values.push(record.timestamp().1),
                Column::Headers(builder) => append_headers(builder, record),
            }
        }
    }

    /// The slice; the builder begins the next.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(|column| finish(column, rows, &self.partition)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options).map_err(|e| {
            Error::retryable("INTERNAL_ERROR", format!("records of {} do not fit the source's schema", self.partition)).with_source(e)
        })
    }
}

fn column(name: &str) -> Column {
    match name {
        "key" => Column::Key(BinaryBuilder::new()),
        "value" => Column::Value(BinaryBuilder::new()),
        "topic" => Column::Topic,
        "partition" => Column::Partition,
        "offset" => Column::Offset(Vec::new()),
        "timestamp" => Column::Timestamp(Vec::new()),
        "timestampType" => Column::TimestampType(Vec::new()),
        _ => Column::Headers(Box::new(ListBuilder::new(StructBuilder::new(
            header_fields(),
            vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())],
        )))),
    }
}

fn finish(column: &mut Column, rows: usize, partition: &TopicPartition) -> ArrayRef {
    match column {
        Column::Key(builder) | Column::Value(builder) => Arc::new(builder.finish()),
        Column::Topic => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(&*partition.topic, rows))),
        Column::Partition => Arc::new(Int32Array::from(vec![partition.partition; rows])),
        Column::Offset(values) => Arc::new(Int64Array::from(std::mem::take(values))),
        Column::Timestamp(values) => Arc::new(TimestampMicrosecondArray::from(std::mem::take(values)).with_timezone("UTC")),
        Column::TimestampType(values) => Arc::new(Int32Array::from(std::mem::take(values))),
        Column::Headers(builder) => Arc::new(builder.finish()),
    }
}

fn append_headers(builder: &mut ListBuilder<StructBuilder>, record: &RecordView<'_>) {
    let present = record.for_each_header(|name, value| {
        let entry = builder.values();
        if let Some(keys) = entry.field_builder::<StringBuilder>(0) {
            keys.append_value(String::from_utf8_lossy(name));
        }
        if let Some(values) = entry.field_builder::<BinaryBuilder>(1) {
            values.append_option(value);
        }
        entry.append(true);
    });
    builder.append(present);
}
