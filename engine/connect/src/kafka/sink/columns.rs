//! Which columns of a query's output become a Kafka record, and how they are read.
//!
//! The rules are Spark's `KafkaWriter`: `value` is required, `key`, `topic`,
//! `headers` and `partition` are taken when they are there, other columns are
//! left out; types are checked when the sink is opened. A batch is then read
//! row by row without further checks of types.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Schema, SchemaRef};
use rdkafka::message::{Header, OwnedHeaders};
use weir_core::{Error, Result};
use weir_decode::spark_type::spark_type_name;

/// Spark's condition for columns that do not fit.
const CONDITION: &str = "_LEGACY_ERROR_TEMP_3080";

/// Where the parts of a record are in the query's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordColumns {
    value: usize,
    key: Option<usize>,
    topic: Option<usize>,
    headers: Option<usize>,
    partition: Option<usize>,
}

/// Whether the sink's options name the topic of all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicOption {
    /// `topic` is set and goes before the column.
    Given,
    /// Each row names its topic.
    Absent,
}

impl RecordColumns {
    /// Finds and checks the columns.
    pub fn find(schema: &SchemaRef, topic_option: TopicOption) -> Result<Self> {
        let at = |name: &str| schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name));
        let topic = match (at("topic"), topic_option) {
            (_, TopicOption::Given) => None,
            (Some(index), TopicOption::Absent) => Some(index),
            (None, TopicOption::Absent) => {
                return Err(refused(
                    "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic.".to_owned(),
                ));
            }
        };
        let columns = Self {
            value: at("value").ok_or_else(|| refused("Required attribute 'value' not found".to_owned()))?,
            key: at("key"),
            topic,
            headers: at("headers"),
            partition: at("partition"),
        };
        check(schema, Some(columns.value), is_text_or_bytes, "string or binary")?;
        check(schema, columns.key, is_text_or_bytes, "string or binary")?;
        check(schema, columns.topic, is_text, "string")?;
        check(schema, columns.headers, is_headers, "array<struct<key:string,value:binary>>")?;
        check(schema, columns.partition, |found| *found == DataType::Int32, "int")?;
        Ok(columns)
    }

    /// The columns of a slice, ready to be read.
    pub fn of(&self, slice: &RecordBatch) -> Result<Records> {
        let bytes = |index: usize| as_type(slice.column(index), &DataType::LargeBinary);
        let headers = match self.headers {
            Some(index) => Some(Headers::new(slice.column(index))?),
            None => None,
        };
        Ok(Records {
            value: bytes(self.value)?,
            key: self.key.map(bytes).transpose()?,
            topic: self.topic.map(|index| as_type(slice.column(index), &DataType::LargeUtf8)).transpose()?,
            headers,
            partition: self.partition.map(|index| slice.column(index).clone()),
        })
    }
}

/// The records of one slice.
pub struct Records {
    value: ArrayRef,
    key: Option<ArrayRef>,
    topic: Option<ArrayRef>,
    headers: Option<Headers>,
    partition: Option<ArrayRef>,
}

impl Records {
    /// The value; null is a tombstone.
    pub fn value(&self, row: usize) -> Option<&[u8]> {
        bytes_at(&self.value, row)
    }

    /// The key.
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        bytes_at(self.key.as_ref()?, row)
    }

    /// The topic that the row names; `None` when it is null or there is no column.
    pub fn topic(&self, row: usize) -> Option<&str> {
        let column = self.topic.as_ref()?;
        column.is_valid(row).then(|| column.as_string::<i64>().value(row))
    }

    /// The partition that the row names. Kafka's own client takes none below 0 (`ProducerRecord`); this one would choose.
    pub fn partition(&self, row: usize) -> Result<Option<i32>> {
        let Some(column) = self.partition.as_ref().filter(|column| column.is_valid(row)) else { return Ok(None) };
        match column.as_primitive::<Int32Type>().value(row) {
            partition @ 0.. => Ok(Some(partition)),
            partition => {
                let text = format!("a row names the partition {partition}; give a number from 0 on, or NULL where the key shall choose");
                Err(Error::config("KAFKA_INVALID_PARTITION", text))
            }
        }
    }

    /// The headers.
    pub fn headers(&self, row: usize) -> Result<Option<OwnedHeaders>> {
        self.headers.as_ref().map_or(Ok(None), |headers| headers.of(row))
    }
}

struct Headers {
    list: ArrayRef,
    /// Which headers are there at all.
    present: Option<NullBuffer>,
    keys: ArrayRef,
    values: ArrayRef,
}

impl Headers {
    fn new(column: &ArrayRef) -> Result<Self> {
        let entries = column.as_list::<i32>().values().as_struct();
        let keys = as_type(entries.column(0), &DataType::LargeUtf8)?;
        let values = as_type(entries.column(1), &DataType::LargeBinary)?;
        Ok(Self { list: column.clone(), present: entries.nulls().cloned(), keys, values })
    }

    fn of(&self, row: usize) -> Result<Option<OwnedHeaders>> {
        let list = self.list.as_list::<i32>();
        if list.is_null(row) {
            return Ok(None);
        }
        let ends = list.value_offsets();
        let (start, end) = (ends[row] as usize, ends[row + 1] as usize);
        let keys = self.keys.as_string::<i64>();
        let has_key = |entry: usize| self.present.as_ref().is_none_or(|present| present.is_valid(entry)) && keys.is_valid(entry);
        if !(start..end).all(has_key) {
            let text = "a row has a header that is NULL or whose key is; give each header a key, or leave it out of the array";
            return Err(Error::config("KAFKA_INVALID_HEADER", text));
        }
        let add =
            |headers: OwnedHeaders, entry: usize| headers.insert(Header { key: keys.value(entry), value: bytes_at(&self.values, entry) });
        Ok(Some((start..end).fold(OwnedHeaders::new_with_capacity(end - start), add)))
    }
}

fn bytes_at(column: &ArrayRef, row: usize) -> Option<&[u8]> {
    column.is_valid(row).then(|| column.as_binary::<i64>().value(row))
}

fn as_type(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    cast(column, wanted)
        .map_err(|e| Error::config("INVALID_SINK_COLUMN", "a column of the Kafka sink cannot be read as text or bytes").with_source(e))
}

fn check(schema: &Schema, index: Option<usize>, fits: impl Fn(&DataType) -> bool, wanted: &str) -> Result<()> {
    let Some(index) = index else { return Ok(()) };
    let field = schema.field(index);
    if fits(field.data_type()) {
        return Ok(());
    }
    let name = field.name().to_ascii_lowercase();
    let found = spark_type_name(field.data_type());
    Err(refused(format!("{name} attribute unsupported type {found}. {name} must be a(n) {wanted}")))
}

fn refused(what: String) -> Error {
    Error::config(CONDITION, format!("{what}; change the columns of the query that writes to the Kafka sink"))
}

fn is_text(found: &DataType) -> bool {
    matches!(found, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(found: &DataType) -> bool {
    matches!(found, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn is_text_or_bytes(found: &DataType) -> bool {
    is_text(found) || is_bytes(found)
}

fn is_headers(found: &DataType) -> bool {
    let DataType::List(item) = found else { return false };
    let DataType::Struct(fields) = item.data_type() else { return false };
    matches!(&fields[..], [key, value] if key.name() == "key" && value.name() == "value" && is_text(key.data_type()) && is_bytes(value.data_type()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{BinaryArray, Int32Array, ListArray, StringArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Field, Fields};
    use rdkafka::message::Headers as _;

    use super::*;
    use crate::kafka::rows::header_fields;

    fn message(fields: Vec<(&str, DataType)>, option: TopicOption) -> String {
        let schema = Arc::new(Schema::new(fields.into_iter().map(|(name, found)| Field::new(name, found, true)).collect::<Vec<_>>()));
        RecordColumns::find(&schema, option).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn rows_with_a_partition_or_headers_that_no_client_takes_are_refused() {
        let present = NullBuffer::from(vec![true, true, false, true]);
        let fields: Fields = vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)].into();
        let keys: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("c"), Some("d")]));
        let values: ArrayRef = Arc::new(BinaryArray::from(vec![None, Some(&b"x"[..]), None, Some(b"y")]));
        let entries = StructArray::new(fields.clone(), vec![keys, values], Some(present));
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields), true));
        // One header a row, the last row has none.
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([1, 1, 1, 1, 0]), Arc::new(entries), None);
        let partitions: ArrayRef = Arc::new(Int32Array::from(vec![Some(0), Some(-1), None, Some(7), Some(i32::MIN)]));
        let column: ArrayRef = Arc::new(lists);
        let slice = RecordBatch::try_from_iter([("value", keys_of(5)), ("headers", column), ("partition", partitions)]).unwrap();
        let records = RecordColumns::find(&slice.schema(), TopicOption::Given).unwrap().of(&slice).unwrap();
        let partition = |row: usize| records.partition(row).map_err(|error| error.condition().to_owned());
        let refused = || Err("KAFKA_INVALID_PARTITION".to_owned());
        assert_eq!([0, 1, 2, 3, 4].map(partition), [Ok(Some(0)), refused(), Ok(None), Ok(Some(7)), refused()]);
        let headers = |row: usize| {
            let found = records.headers(row).map_err(|error| error.condition().to_owned());
            found.map(|headers| headers.map(|headers| headers.count()))
        };
        let refused = || Err("KAFKA_INVALID_HEADER".to_owned());
        assert_eq!([0, 1, 2, 3, 4].map(headers), [Ok(Some(1)), refused(), refused(), Ok(Some(1)), Ok(Some(0))]);
    }

    fn keys_of(count: usize) -> ArrayRef {
        Arc::new(StringArray::from(vec!["v"; count]))
    }

    #[test]
    fn columns_are_checked_as_spark_checks_them() {
        use DataType::{Binary, Int32, Utf8};
        let struct_of = |name: &str, found: DataType| DataType::Struct(vec![Field::new(name, found, true)].into());
        let headers = DataType::List(Arc::new(Field::new_list_field(DataType::Struct(header_fields()), true)));
        assert_eq!(message(vec![("value", Utf8), ("other", Int32)], TopicOption::Given), "");
        assert_eq!(
            message(
                vec![("value", Binary), ("key", Utf8), ("topic", Utf8), ("partition", Int32), ("headers", headers)],
                TopicOption::Absent
            ),
            ""
        );
        let refusals = [
            (message(vec![("value", Utf8)], TopicOption::Absent), "topic option required when no 'topic' attribute is present"),
            (message(vec![("key", Utf8)], TopicOption::Given), "Required attribute 'value' not found"),
            (
                message(vec![("value", Int32)], TopicOption::Given),
                "value attribute unsupported type int. value must be a(n) string or binary",
            ),
            (message(vec![("value", struct_of("a", Int32))], TopicOption::Given), "value attribute unsupported type struct<a:int>."),
            (
                message(vec![("value", Utf8), ("partition", Utf8)], TopicOption::Given),
                "partition attribute unsupported type string. partition must be a(n) int",
            ),
        ];
        for (found, expected) in refusals {
            assert!(found.starts_with("[_LEGACY_ERROR_TEMP_3080]") && found.contains(expected), "{found}");
        }
    }
}
