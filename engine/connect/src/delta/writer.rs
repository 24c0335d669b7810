//! One lane's part of a batch in a Delta table.
//!
//! A file per partition value, at most `LANE_FILES` open and `LANE_BYTES` in
//! memory; what is beyond is flushed, then closed, least recently used first.
//! Files are closed at the target size too. Nothing is visible before the
//! commit; files of a part that is aborted or fails are deleted, best effort.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use chrono::Utc;
use weir_core::{Error, Result};

use super::enforce::Enforcer;
use super::file::{DataFile, FinishedFile};
use super::layout::{InUse, Layout};
use super::location::TableLocation;
use super::mapping;
use super::memory::{LANE_BYTES, LANE_FILES, Share};
use super::options::Compression;
use super::partition::{self, Values};
use crate::sink::{SinkWriter, Written, WrittenFile};

/// What every writer of a sink shares.
#[derive(Clone, Debug)]
pub struct WriterSettings {
    /// Bytes at which a file is closed.
    pub target_file_size: u64,
    /// Rows at which a file is closed; 0 is no limit.
    pub max_records_per_file: u64,
    /// Page compression.
    pub compression: Compression,
    /// The folder of the files in the table's, and how their names begin.
    pub prefix: (&'static str, &'static str),
}

/// Data files.
pub const DATA: (&str, &str) = ("", "part");

/// The writer of one lane.
pub struct DeltaWriter {
    location: TableLocation,
    layout: Arc<Layout>,
    enforcer: Enforcer,
    settings: WriterSettings,
    lane: usize,
    /// Open files, least recently used first.
    open: Vec<(Values, DataFile)>,
    done: Vec<WrittenFile>,
    rows: u64,
    share: Share,
}

impl DeltaWriter {
    /// A writer without rows.
    pub fn new(location: TableLocation, in_use: InUse, settings: WriterSettings, lane: usize) -> Self {
        let layout = Arc::clone(&in_use.layout);
        let enforcer = Enforcer::new(in_use);
        Self { location, layout, enforcer, settings, lane, open: Vec::new(), done: Vec::new(), rows: 0, share: Share::default() }
    }

    async fn write_part(&mut self, values: Values, rows: RecordBatch) -> Result<()> {
        let mut file = match self.open.iter().position(|(open, _)| *open == values) {
            Some(index) => self.open.remove(index).1,
            None => self.create(&values, &rows)?,
        };
        let mut rest = rows;
        loop {
            let fits = self.rows_that_fit(&file, rest.num_rows());
            let written = file.write(&rest.slice(0, fits)).await;
            if let Err(error) = written {
                file.abort().await;
                return Err(error);
            }
            if !self.is_full(&file) {
                self.open.push((values, file));
                return Ok(());
            }
            self.close(values.clone(), file).await?;
            rest = rest.slice(fits, rest.num_rows() - fits);
            if rest.num_rows() == 0 {
                return Ok(());
            }
            file = self.create(&values, &rest)?;
        }
    }

    fn rows_that_fit(&self, file: &DataFile, rows: usize) -> usize {
        match self.settings.max_records_per_file {
            0 => rows,
            limit => usize::try_from(limit - file.rows()).map_or(rows, |room| room.min(rows)),
        }
    }

    fn is_full(&self, file: &DataFile) -> bool {
        let limit = self.settings.max_records_per_file;
        file.size() >= self.settings.target_file_size || (limit > 0 && file.rows() >= limit)
    }

    fn create(&self, values: &Values, sample: &RecordBatch) -> Result<DataFile> {
        let folder = partition::folder(&self.layout.physical_partitions, values);
        let extension = self.settings.compression.extension();
        let (parent, begin) = self.settings.prefix;
        let name = format!("{parent}{folder}{begin}-{:05}-{}.c000{extension}.parquet", self.lane, uuid::Uuid::new_v4());
        let path = self.location.path_of(&name)?;
        DataFile::create(Arc::clone(self.location.store()), path, name, Arc::clone(&self.layout.file), self.settings.compression, sample)
    }

    async fn close(&mut self, values: Values, file: DataFile) -> Result<()> {
        let FinishedFile { name, size, rows, stats } = file.finish().await?;
        let partition_values = self.layout.physical_partitions.iter().cloned().zip(values).collect();
        let modification_time_ms = Utc::now().timestamp_millis();
        self.done.push(WrittenFile { path: name, size, rows, modification_time_ms, partition_values, stats: Some(stats) });
        Ok(())
    }

    /// Brings memory and open files below their bounds.
    async fn bound(&mut self) -> Result<()> {
        while self.open.len() > LANE_FILES {
            let (values, file) = self.open.remove(0);
            self.close(values, file).await?;
        }
        while self.memory() > LANE_BYTES {
            // Flushing keeps files large; it helps only while a row group holds something.
            let largest = self.open.iter_mut().map(|(_, file)| file).max_by_key(|file| file.unflushed());
            match largest {
                Some(file) if file.unflushed() > LANE_BYTES / (2 * LANE_FILES) => file.flush().await?,
                Some(_) => {
                    let (values, file) = self.open.remove(0);
                    self.close(values, file).await?;
                }
                None => break,
            }
        }
        let held = self.memory();
        self.share.set(held);
        Ok(())
    }

    fn memory(&self) -> usize {
        self.open.iter().map(|(_, file)| file.memory()).sum()
    }
}

#[async_trait]
impl SinkWriter for DeltaWriter {
    async fn write(&mut self, slice: RecordBatch) -> Result<()> {
        if slice.num_rows() == 0 {
            return Ok(());
        }
        self.rows += slice.num_rows() as u64;
        let rows = self.enforcer.rows(&slice).await?;
        let failed = |error| Error::retryable("TASK_WRITE_FAILED", "the rows could not be put into files").with_source(error);
        if self.layout.partition_indexes.is_empty() {
            let rows = mapping::relabelled(&rows, &self.layout.file).map_err(failed)?;
            self.write_part(Values::new(), rows).await?;
            return self.bound().await;
        }
        for (values, part) in partition::split(&rows, &self.layout.partition_indexes).map_err(failed)? {
            let part =
                part.project(&self.layout.file_indexes).and_then(|part| mapping::relabelled(&part, &self.layout.file)).map_err(failed)?;
            self.write_part(values, part).await?;
            self.bound().await?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<Written> {
        while let Some((values, file)) = self.open.pop() {
            if let Err(error) = self.close(values, file).await {
                self.abort().await;
                return Err(error);
            }
        }
        Ok(Written { rows: self.rows, files: std::mem::take(&mut self.done), shown: Vec::new() })
    }

    async fn abort(mut self: Box<Self>) {
        for (_, file) in std::mem::take(&mut self.open) {
            file.abort().await;
        }
        let left = self.location.delete_quietly(self.done.iter().map(|file| file.path.clone()).collect()).await;
        if left > 0 {
            tracing::warn!(table = %self.location.url(), files = left, "files of an aborted batch could not be deleted; VACUUM removes them");
        }
    }
}
