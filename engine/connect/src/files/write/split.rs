//! Rows to partition folders.
//!
//! `k=v/l=w` with Hive's escapes; values are the column's text as Spark casts
//! it to a string, null and empty become `__HIVE_DEFAULT_PARTITION__`. Rows keep
//! their order inside a folder.

use std::collections::HashMap;

use arrow::array::{Array, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::record_batch::RecordBatch;
use weir_core::{Error, Result};
use weir_decode::time::Zone;

use crate::files::partitions;
use crate::render::{Purpose, render};

/// How rows are split.
#[derive(Clone, Debug)]
pub struct Partitioner {
    /// Names and indexes of the partition columns.
    columns: Vec<(String, usize)>,
    /// Indexes of the columns inside files.
    data: Vec<usize>,
    zone: Zone,
}

/// The rows of one folder.
#[derive(Debug)]
pub struct Part {
    /// The folder below the sink's, empty without partitions.
    pub folder: String,
    /// Its values.
    pub values: Vec<(String, Option<String>)>,
    /// The rows, without partition columns.
    pub rows: RecordBatch,
}

impl Partitioner {
    /// Splits by `columns`; `data` go into the files.
    pub fn new(columns: Vec<(String, usize)>, data: Vec<usize>, zone: Zone) -> Self {
        Self { columns, data, zone }
    }

    /// Whether there are partition columns.
    pub fn is_partitioned(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The parts of a slice, in order of first appearance.
    pub fn split(&self, slice: &RecordBatch) -> Result<Vec<Part>> {
        let data = slice.project(&self.data).map_err(failed)?;
        if self.columns.is_empty() {
            return Ok(if slice.num_rows() == 0 {
                Vec::new()
            } else {
                vec![Part { folder: String::new(), values: Vec::new(), rows: data }]
            });
        }
        let mut known: HashMap<Vec<Option<String>>, usize> = HashMap::new();
        let mut groups: Vec<(Vec<Option<String>>, Vec<u32>)> = Vec::new();
        for row in 0..slice.num_rows() {
            let key: Vec<Option<String>> = self.columns.iter().map(|(_, at)| self.text(slice.column(*at).as_ref(), row)).collect();
            let group = match known.get(&key) {
                Some(group) => *group,
                None => {
                    known.insert(key.clone(), groups.len());
                    groups.push((key, Vec::new()));
                    groups.len() - 1
                }
            };
            groups[group].1.push(u32::try_from(row).unwrap_or(u32::MAX));
        }
        let part = |(key, rows): (Vec<Option<String>>, Vec<u32>)| {
            let values: Vec<(String, Option<String>)> = self.columns.iter().map(|(name, _)| name.clone()).zip(key).collect();
            let folders: Vec<String> = values.iter().map(|(name, value)| partitions::folder(name, value.as_deref())).collect();
            let rows = if rows.len() == data.num_rows() {
                data.clone()
            } else {
                take_record_batch(&data, &UInt32Array::from(rows)).map_err(failed)?
            };
            Ok(Part { folder: folders.join("/"), values, rows })
        };
        groups.into_iter().map(part).collect()
    }

    fn text(&self, column: &dyn Array, row: usize) -> Option<String> {
        if column.is_null(row) {
            return None;
        }
        let mut text = String::new();
        render(column, row, &self.zone, Purpose::Cast, &mut text);
        Some(text).filter(|text| !text.is_empty())
    }
}

fn failed(error: arrow::error::ArrowError) -> Error {
    Error::config("INTERNAL_ERROR", format!("could not split rows into partitions: {error}"))
}
