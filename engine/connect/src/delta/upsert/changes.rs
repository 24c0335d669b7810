//! The change files of a merge, for tables whose change data feed is on.
//!
//! As Spark's `MERGE` writes them: each replaced row of the table is
//! `update_preimage` (`delete` where the table had the key several times), each
//! row of the batch `update_postimage` or `insert`. A merge that replaces
//! nothing needs none: its files say it all.

use std::sync::Arc;

use arrow::array::{Array, StringArray};
use arrow::compute::filter_record_batch;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use weir_core::{Error, Result};

use super::super::layout::{InUse, Layout};
use super::super::location::TableLocation;
use super::super::writer::{DeltaWriter, WriterSettings};
use super::read::{self, TableFile};
use crate::sink::{SinkWriter, WrittenFile};

/// Where change files are, and how they begin.
const PREFIX: (&str, &str) = ("_change_data/", "cdc");

/// A file and what becomes of its rows; rows are ascending.
pub enum Told<'a> {
    /// A file of the table.
    Table {
        /// The file.
        file: &'a TableFile,
        /// Rows that are replaced.
        replaced: &'a [u64],
        /// Those of them that have no successor.
        deleted: &'a [u64],
    },
    /// A file of the batch.
    Batch {
        /// The file.
        file: &'a TableFile,
        /// Rows that are left out.
        dropped: &'a [u64],
        /// Rows that replace one of the table.
        updated: &'a [u64],
    },
}

impl Told<'_> {
    fn file(&self) -> &TableFile {
        match self {
            Self::Table { file, .. } | Self::Batch { file, .. } => file,
        }
    }

    /// What becomes of a row; `None` is nothing.
    fn of(&self, row: u64) -> Option<&'static str> {
        let among = |rows: &[u64]| rows.binary_search(&row).is_ok();
        match self {
            Self::Table { replaced, .. } if !among(replaced) => None,
            Self::Table { deleted, .. } if among(deleted) => Some("delete"),
            Self::Table { .. } => Some("update_preimage"),
            Self::Batch { dropped, .. } if among(dropped) => None,
            Self::Batch { updated, .. } if among(updated) => Some("update_postimage"),
            Self::Batch { .. } => Some("insert"),
        }
    }
}

/// Writes the change files; `layout` is that of whole rows with the type of change as the last column.
pub async fn write(
    location: &TableLocation,
    layout: &Arc<Layout>,
    settings: &WriterSettings,
    told: &[Told<'_>],
) -> Result<Vec<WrittenFile>> {
    let settings = WriterSettings { prefix: PREFIX, ..settings.clone() };
    let mut writer = DeltaWriter::new(location.clone(), InUse::new(Arc::clone(layout)), settings, 0);
    for told in told {
        if let Err(error) = tell(location, layout, told, &mut writer).await {
            Box::new(writer).abort().await;
            return Err(error);
        }
    }
    Ok(Box::new(writer).finish().await?.files)
}

async fn tell(location: &TableLocation, layout: &Layout, told: &Told<'_>, writer: &mut DeltaWriter) -> Result<()> {
    let fields = layout.written.fields();
    let mut rows = read::open(location, told.file(), &fields[..fields.len() - 1], layout).await?;
    let failed = |error| Error::retryable("TASK_WRITE_FAILED", "the changes of a merge could not be written").with_source(error);
    while let Some(slice) = rows.next().await? {
        let types: StringArray = (slice.first_row..).take(slice.rows).map(|row| told.of(row)).collect();
        if types.null_count() == slice.rows {
            continue;
        }
        let kept = arrow::compute::is_not_null(&types).map_err(failed)?;
        let mut columns = slice.columns;
        columns.push(Arc::new(types));
        let options = RecordBatchOptions::new().with_row_count(Some(slice.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&layout.written), columns, &options).map_err(failed)?;
        writer.write(filter_record_batch(&batch, &kept).map_err(failed)?).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_change() {
        let file = TableFile { name: String::new(), values: std::collections::BTreeMap::new() };
        let table = Told::Table { file: &file, replaced: &[1, 3, 5], deleted: &[5] };
        assert_eq!([0, 1, 5].map(|row| table.of(row)), [None, Some("update_preimage"), Some("delete")]);
        let batch = Told::Batch { file: &file, dropped: &[0], updated: &[2] };
        assert_eq!([0, 1, 2].map(|row| batch.of(row)), [None, Some("insert"), Some("update_postimage")]);
    }
}
