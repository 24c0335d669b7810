//! Which columns of a query's output become a Kafka record, and how they are read.
//!
//! The rules are Spark's `KafkaWriter`: `value` is required, `key`, `topic`,
//! `headers` and `partition` are taken when they are there, other columns are
//! left out; types are checked when the sink is opened. A batch is then read
//! row by row without further checks of types.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
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

    /// The partition that the row names.
    pub fn partition(&self, row: usize) -> Option<i32> {
        let column = self.partition.as_ref()?;
        column.is_valid(row).then(|| column.as_primitive::<Int32Type>().value(row))
    }

    /// The headers.
    pub fn headers(&self, row: usize) -> Option<OwnedHeaders> {
        self.headers.as_ref()?.of(row)
    }
}

struct Headers {
    list: ArrayRef,
    keys: ArrayRef,
    values: ArrayRef,
}

impl Headers {
    fn new(column: &ArrayRef) -> Result<Self> {
        let entries = column.as_list::<i32>().values().as_struct();
        let keys = as_type(entries.column(0), &DataType::LargeUtf8)?;
        let values = as_type(entries.column(1), &DataType::LargeBinary)?;
        Ok(Self { list: column.clone(), keys, values })
    }

    fn of(&self, row: usize) -> Option<OwnedHeaders> {
        let list = self.list.as_list::<i32>();
        if list.is_null(row) {
            return None;
        }
        let ends = list.value_offsets();
        let (start, end) = (ends[row] as usize, ends[row + 1] as usize);
        let keys = self.keys.as_string::<i64>();
        let add =
            |headers: OwnedHeaders, entry: usize| headers.insert(Header { key: keys.value(entry), value: bytes_at(&self.values, entry) });
        Some((start..end).fold(OwnedHeaders::new_with_capacity(end - start), add))
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

    use arrow::datatypes::Field;

    use super::*;
    use crate::kafka::rows::header_fields;

    fn message(fields: Vec<(&str, DataType)>, option: TopicOption) -> String {
        let schema = Arc::new(Schema::new(fields.into_iter().map(|(name, found)| Field::new(name, found, true)).collect::<Vec<_>>()));
        RecordColumns::find(&schema, option).map_or_else(|error| error.to_string(), |_| String::new())
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
