//! The hidden column `_metadata` of file sources and tables.
//!
//! Fields as in Spark (`FileFormat.BASE_METADATA_FIELDS`, and `row_index` of
//! `ParquetFileFormat`). A file is read as one block, so its block is the whole
//! file. The figures are asked of the store when the file is opened, and only
//! where a query names the column. A column of the data with this name wins.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use object_store::ObjectMeta;
use weir_core::columns::HIDDEN_KEY;

use super::FormatOptions;

/// The column's name.
pub const NAME: &str = "_metadata";

/// The column of a format.
pub fn field(format: &FormatOptions) -> Field {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![
        Field::new("file_path", DataType::Utf8, true),
        Field::new("file_name", DataType::Utf8, true),
        Field::new("file_size", DataType::Int64, true),
        Field::new("file_block_start", DataType::Int64, true),
        Field::new("file_block_length", DataType::Int64, true),
        Field::new("file_modification_time", time, true),
    ];
    if matches!(format, FormatOptions::Parquet(_)) {
        fields.push(Field::new("row_index", DataType::Int64, true));
    }
    let hidden = HashMap::from([(HIDDEN_KEY.to_owned(), "true".to_owned())]);
    Field::new(NAME, DataType::Struct(Fields::from(fields)), true).with_metadata(hidden)
}

/// What is the same for all rows of a file.
#[derive(Clone, Debug)]
pub struct FileFacts {
    path: String,
    name: String,
    size: i64,
    modified_us: i64,
}

impl FileFacts {
    /// From the file's URI and what the store says of it.
    pub fn new(uri: &str, meta: &ObjectMeta) -> Self {
        let name = uri.rsplit('/').next().unwrap_or(uri).to_owned();
        // Hadoop's paths write no authority where there is none.
        let path =
            uri.strip_prefix("file://").filter(|rest| rest.starts_with('/')).map_or_else(|| uri.to_owned(), |rest| format!("file:{rest}"));
        let size = i64::try_from(meta.size).unwrap_or(i64::MAX);
        // Spark's times of files are whole milliseconds.
        Self { path, name, size, modified_us: meta.last_modified.timestamp_millis() * 1000 }
    }

    /// The column for some rows of the file, the first of which is number `first_row`.
    pub fn column(&self, field: &Field, first_row: i64, rows: usize) -> ArrayRef {
        let DataType::Struct(fields) = field.data_type() else { unreachable!("the column is a struct") };
        let number = |value: i64| Arc::new(Int64Array::from_value(value, rows)) as ArrayRef;
        let text = |value: &str| Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows))) as ArrayRef;
        let columns = fields.iter().map(|field| match field.name().as_str() {
            "file_path" => text(&self.path),
            "file_name" => text(&self.name),
            "file_block_start" => number(0),
            "file_modification_time" => Arc::new(TimestampMicrosecondArray::from_value(self.modified_us, rows).with_timezone("UTC")),
            "row_index" => Arc::new(Int64Array::from_iter_values(first_row..first_row.saturating_add(rows as i64))),
            _ => number(self.size),
        });
        Arc::new(StructArray::new(fields.clone(), columns.collect(), None))
    }
}
