//! A data file's rows, slice by slice, with the table's types.
//!
//! Columns are found by the names that the table's files have for them, in
//! tables mapped by id by their ids first; one that the file lacks is null, a
//! partition column has the value that the log gives the file. A slice knows the number
//! of its first row in the file, which is what deletion vectors and the merge
//! count by. At most one row group of the wanted columns is in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::error::ArrowError;
use futures::StreamExt;
use parquet::arrow::ProjectionMask;
use parquet::arrow::async_reader::ParquetRecordBatchStream;
use weir_core::{Error, Result};

use super::super::conform::to_type;
use super::super::layout::Layout;
use super::super::location::TableLocation;
use super::super::mapping::{file_id, relabel};
use super::super::schema::same_name;
use crate::files::read::parquet::{ObjectReader, builder, parquet_failed};

/// Bytes that a slice is cut for.
const SLICE_BYTES: usize = 4 << 20;
/// Rows of one slice at most.
const SLICE_ROWS: usize = 8_192;

/// A data file and what the log says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableFile {
    /// Name relative to the table's folder.
    pub name: String,
    /// Partition values by the columns' physical names.
    pub values: BTreeMap<String, Option<String>>,
}

/// Rows of a file that follow one another.
pub struct Slice {
    /// Number of the first one in the file.
    pub first_row: u64,
    /// How many.
    pub rows: usize,
    /// The wanted columns.
    pub columns: Vec<ArrayRef>,
}

/// Where a wanted column comes from.
enum Origin {
    /// A column of the file, by its index among the projected ones, and what it is there.
    File(usize, FieldRef),
    /// The same in every row.
    Constant(Option<String>),
}

/// The rows of an open file.
pub struct FileRows {
    stream: ParquetRecordBatchStream<ObjectReader>,
    wanted: Vec<(FieldRef, Origin)>,
    next_row: u64,
    uri: String,
}

/// Opens a file of a table with the layout for the columns `wanted`.
pub async fn open(location: &TableLocation, file: &TableFile, wanted: &[FieldRef], layout: &Layout) -> Result<FileRows> {
    let uri = format!("{}/{}", location.url(), file.name);
    let builder = builder(location.store(), &location.path_of(&file.name)?, &uri).await?;
    let mut roots: Vec<usize> = Vec::new();
    let mut sources = Vec::with_capacity(wanted.len());
    for (field, stored) in wanted.iter().zip(layout.stored(wanted)) {
        let from = match (value_of(&file.values, stored.name()), find(builder.schema().fields(), &stored, layout.by_id)) {
            (Some(value), _) => Origin::Constant(value.clone()),
            (None, None) => Origin::Constant(None),
            (None, Some(root)) => {
                roots.push(root);
                Origin::File(root, stored)
            }
        };
        sources.push((Arc::clone(field), from));
    }
    roots.sort_unstable();
    roots.dedup();
    let wanted = sources.into_iter().map(|(field, from)| match from {
        Origin::File(root, stored) => (field, Origin::File(roots.partition_point(|other| *other < root), stored)),
        constant @ Origin::Constant(_) => (field, constant),
    });
    let wanted = wanted.collect();
    let groups = builder.metadata().row_groups();
    let rows: i64 = groups.iter().map(|group| group.num_rows()).sum();
    let total: i64 = groups.iter().map(|group| group.total_byte_size()).sum();
    let row_bytes = usize::try_from(total / rows.max(1)).unwrap_or(1).max(1);
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots.iter().copied());
    let stream = builder.with_projection(mask).with_batch_size((SLICE_BYTES / row_bytes).clamp(1, SLICE_ROWS)).build();
    Ok(FileRows { stream: stream.map_err(|e| parquet_failed(&uri, e))?, wanted, next_row: 0, uri })
}

/// The column of a file.
fn find(file: &Fields, stored: &Field, by_id: bool) -> Option<usize> {
    let id = file_id(stored).filter(|_| by_id);
    let with_id = id.and_then(|id| file.iter().position(|column| file_id(column) == Some(id)));
    with_id.or_else(|| file.iter().position(|column| same_name(column.name(), stored.name())))
}

impl FileRows {
    /// The next rows; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Slice>> {
        let Some(batch) = self.stream.next().await else { return Ok(None) };
        let batch = batch.map_err(|e| parquet_failed(&self.uri, e))?;
        let rows = batch.num_rows();
        let columns = self.wanted.iter().map(|(field, from)| {
            let column = match from {
                Origin::File(at, stored) => {
                    to_type(batch.column(*at), stored.data_type()).and_then(|column| relabel(&column, field.data_type()))
                }
                Origin::Constant(value) => constant(value.as_deref(), field.data_type(), rows),
            };
            column.map_err(|error| {
                let text = format!(
                    "the column `{}` of the data file {} is not what the table's schema says; repair the table before it is merged into",
                    field.name(),
                    self.uri
                );
                Error::incompatible("FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH", text).with_source(error)
            })
        });
        let slice = Slice { first_row: self.next_row, rows, columns: columns.collect::<Result<_>>()? };
        self.next_row += rows as u64;
        Ok(Some(slice))
    }
}

/// The value of a partition column; `None` for other columns.
pub fn value_of<'a>(values: &'a BTreeMap<String, Option<String>>, column: &str) -> Option<&'a Option<String>> {
    values.get(column).or_else(|| values.iter().find(|(name, _)| same_name(name, column)).map(|(_, value)| value))
}

/// A partition value of the log as a column (Delta protocol, "Partition Value Serialization").
pub fn constant(text: Option<&str>, data_type: &DataType, rows: usize) -> Result<ArrayRef, ArrowError> {
    match text.filter(|text| !text.is_empty()) {
        None => Ok(new_null_array(data_type, rows)),
        Some(text) => {
            let texts = StringArray::from_iter_values(std::iter::repeat_n(text, rows));
            cast_with_options(&texts, data_type, &CastOptions { safe: false, ..CastOptions::default() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

    #[test]
    fn columns_are_found_by_id_only_where_the_table_says_so() {
        let field = |name: &str, id: Option<&str>| {
            let id = id.map(|id| (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_owned()));
            Field::new(name, DataType::Int32, true).with_metadata(id.into_iter().collect())
        };
        let file: Fields = vec![field("one", Some("2")), field("two", Some("1")), field("col-3", None)].into();
        let wanted = field("One", Some("1"));
        assert_eq!((find(&file, &wanted, false), find(&file, &wanted, true)), (Some(0), Some(1)));
        assert_eq!(find(&file, &field("col-3", Some("3")), true), Some(2), "a file without ids");
        assert_eq!(find(&file, &field("four", Some("4")), true), None);
    }
}
