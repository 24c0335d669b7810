//! Files written again without some of their rows.
//!
//! One writer takes the remaining rows of all files, so that what was small
//! becomes one file per partition. Rows are whole: columns that a file lacks
//! are written as null, in the table's types and layout of now. Memory is the
//! writer's and one slice.

use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use weir_core::{Error, Result};

use super::super::layout::{InUse, Layout};
use super::super::location::TableLocation;
use super::super::writer::{DeltaWriter, WriterSettings};
use super::read::{self, TableFile};
use crate::sink::{SinkWriter, Written};

/// A file and the rows that do not stay, ascending.
pub struct Rewrite<'a> {
    /// The file.
    pub file: &'a TableFile,
    /// The rows to leave out.
    pub without: Vec<u64>,
}

/// Writes what remains of the files; `whole` is the layout of the table's whole rows.
pub async fn rewrite(location: &TableLocation, whole: &Arc<Layout>, settings: &WriterSettings, files: &[Rewrite<'_>]) -> Result<Written> {
    let mut writer = DeltaWriter::new(location.clone(), InUse::new(Arc::clone(whole)), settings.clone(), 0);
    for file in files {
        if let Err(error) = copy(location, whole, file, &mut writer).await {
            Box::new(writer).abort().await;
            return Err(error);
        }
    }
    Box::new(writer).finish().await
}

async fn copy(location: &TableLocation, whole: &Layout, file: &Rewrite<'_>, writer: &mut DeltaWriter) -> Result<()> {
    let mut rows = read::open(location, file.file, whole.written.fields(), whole).await?;
    let mut without = file.without.as_slice();
    let failed = |error| Error::retryable("TASK_WRITE_FAILED", "the rows of a data file could not be copied").with_source(error);
    while let Some(slice) = rows.next().await? {
        let end = slice.first_row + slice.rows as u64;
        let (here, rest) = without.split_at(without.partition_point(|row| *row < end));
        without = rest;
        let options = RecordBatchOptions::new().with_row_count(Some(slice.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&whole.written), slice.columns, &options).map_err(failed)?;
        if here.is_empty() {
            writer.write(batch).await?;
            continue;
        }
        let mut stays = vec![true; slice.rows];
        for row in here {
            if let Some(stays) = usize::try_from(row - slice.first_row).ok().and_then(|row| stays.get_mut(row)) {
                *stays = false;
            }
        }
        writer.write(filter_record_batch(&batch, &BooleanArray::from(stays)).map_err(failed)?).await?;
    }
    Ok(())
}
