//! Records that a source could not parse, as rows of the one table that all bad records go to.
//!
//! A source hands out what it set apart as `BadRows`: why, the text, and the
//! place in a file or topic. Which query, batch and time they belong to is the
//! runtime's to say (`Stamp`); with it they are rows of `schema`, which is the
//! same for every query, so that many may write to one Delta table. The time is
//! the batch's: a batch that is run again makes the same rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use weir_core::{Error, Result};

/// The columns of bad records.
pub fn schema() -> SchemaRef {
    let column = |name: &str, data_type: DataType| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        column("time", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        column("query", DataType::Utf8),
        column("query_id", DataType::Utf8),
        column("batch_id", DataType::Int64),
        column("source", DataType::Utf8),
        column("reason", DataType::Utf8),
        column("record", DataType::Utf8),
        column("file_path", DataType::Utf8),
        column("record_number", DataType::Int64),
        column("byte_offset", DataType::Int64),
        column("topic", DataType::Utf8),
        column("partition", DataType::Int32),
        column("offset", DataType::Int64),
    ]))
}

/// Bad records of one source, as many in each array.
#[derive(Clone, Debug, PartialEq)]
pub struct BadRows {
    /// Why the record does not fit.
    pub reason: StringArray,
    /// The record's text; bytes that are not UTF-8 are replaced.
    pub record: StringArray,
    /// Where it stands.
    pub place: Places,
}

/// Where bad records stand.
#[derive(Clone, Debug, PartialEq)]
pub enum Places {
    /// In files.
    Files {
        /// The file.
        path: StringArray,
        /// The record's number in it from 1: its line, unless records span lines.
        number: Int64Array,
        /// Bytes of the file before it, once decompressed.
        byte: Int64Array,
    },
    /// In partitions of topics.
    Topics {
        /// The topic.
        topic: StringArray,
        /// The partition.
        partition: Int32Array,
        /// The offset.
        offset: Int64Array,
    },
}

/// What bad records have in common that one source met in one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The batch's time, ms since the epoch.
    pub time_ms: i64,
    /// The query's name.
    pub query: String,
    /// Its id.
    pub query_id: uuid::Uuid,
    /// The batch.
    pub batch: u64,
    /// The source's name in the manifest.
    pub source: String,
}

impl BadRows {
    /// The rows of `schema`.
    ///
    /// # Errors
    /// Arrays of different lengths.
    pub fn stamped(self, stamp: &Stamp) -> Result<RecordBatch> {
        let rows = self.reason.len();
        let text = |value: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows))) };
        let nulls = |data_type: &DataType| new_null_array(data_type, rows);
        let time = TimestampMicrosecondArray::from(vec![stamp.time_ms.saturating_mul(1000); rows]).with_timezone("UTC");
        let batch = i64::try_from(stamp.batch).unwrap_or(i64::MAX);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(time),
            text(&stamp.query),
            text(&stamp.query_id.to_string()),
            Arc::new(Int64Array::from(vec![batch; rows])),
            text(&stamp.source),
            Arc::new(self.reason),
            Arc::new(self.record),
        ];
        match self.place {
            Places::Files { path, number, byte } => {
                columns.extend([Arc::new(path) as ArrayRef, Arc::new(number), Arc::new(byte)]);
                columns.extend([nulls(&DataType::Utf8), nulls(&DataType::Int32), nulls(&DataType::Int64)]);
            }
            Places::Topics { topic, partition, offset } => {
                columns.extend([nulls(&DataType::Utf8), nulls(&DataType::Int64), nulls(&DataType::Int64)]);
                columns.extend([Arc::new(topic) as ArrayRef, Arc::new(partition), Arc::new(offset)]);
            }
        }
        RecordBatch::try_new(schema(), columns)
            .map_err(|e| Error::retryable("INTERNAL_ERROR", "bad records do not fit their table").with_source(e))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::render::{Purpose, render};
    use weir_decode::time::Zone;

    #[test]
    fn a_row_tells_when_where_and_why() {
        let stamp =
            Stamp { time_ms: 1_700_000_000_123, query: "q".into(), query_id: uuid::Uuid::from_u128(7), batch: 4, source: "events".into() };
        let text = |value: &str| StringArray::from(vec![value]);
        let number = |value: i64| Int64Array::from(vec![value]);
        let file = Places::Files { path: text("file:/a.json"), number: number(3), byte: number(17) };
        let topic = Places::Topics { topic: text("t"), partition: Int32Array::from(vec![2]), offset: number(9) };
        let shown = |place: Places| {
            let rows = BadRows { reason: text("no object"), record: text("x"), place }.stamped(&stamp).unwrap();
            let cell = |column: &ArrayRef| {
                let mut out = String::new();
                render(column.as_ref(), 0, &Zone::UTC, Purpose::Show, &mut out);
                out
            };
            rows.columns().iter().map(cell).collect::<Vec<_>>().join("|")
        };
        let common = "2023-11-14 22:13:20.123|q|00000000-0000-0000-0000-000000000007|4|events|no object|x";
        assert_eq!(shown(file), format!("{common}|file:/a.json|3|17|NULL|NULL|NULL"));
        assert_eq!(shown(topic), format!("{common}|NULL|NULL|NULL|t|2|9"));
    }
}
