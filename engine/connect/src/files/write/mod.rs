//! Rows to files of one batch.
//!
//! A writer keeps one open file per partition folder it has seen lately. Each
//! file is encoded by `encode`, stored by `upload`, and complete but unlisted
//! until the batch is committed. Memory is bounded: so many files are open at
//! once and so many bytes are held by all; the largest or least recently used
//! file is finished early when a bound is reached, which only makes more files.

mod csv;
mod encode;
mod options;
mod split;
mod upload;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use object_store::path::Path;
use weir_core::storage::Folder;
use weir_core::{Error, Result, failpoint};

pub use options::{Compression, WriteFormat, WriteOptions};
pub use split::Partitioner;

use crate::sink::{SinkWriter, Written, WrittenFile};
use encode::Encoder;
use upload::Upload;

/// Bounds of one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Files open at once.
    pub open_files: usize,
    /// Bytes that all open files hold.
    pub held_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { open_files: 64, held_bytes: 32 * 1024 * 1024 }
    }
}

/// What all writers of a sink share.
#[derive(Debug)]
pub struct WriteSettings {
    /// The sink's folder.
    pub folder: Folder,
    /// The columns inside files.
    pub data: SchemaRef,
    /// How rows go to folders.
    pub partitioner: Partitioner,
    /// Format and its options.
    pub options: WriteOptions,
    /// Bounds.
    pub bounds: Bounds,
}

struct OpenFile {
    /// Folder below the sink's, empty without partitions.
    folder: String,
    values: Vec<(String, Option<String>)>,
    name: String,
    encoder: Box<dyn Encoder>,
    upload: Upload,
    rows: u64,
    last_used: u64,
}

impl OpenFile {
    fn held(&self) -> usize {
        self.encoder.held() + self.upload.held()
    }
}

/// One lane's writer.
pub struct FilesWriter {
    settings: Arc<WriteSettings>,
    lane: usize,
    open: Vec<OpenFile>,
    clock: u64,
    written: Written,
}

impl FilesWriter {
    /// A writer that has written nothing.
    pub fn new(settings: Arc<WriteSettings>, lane: usize) -> Self {
        Self { settings, lane, open: Vec::new(), clock: 0, written: Written::default() }
    }

    async fn file_for(&mut self, folder: String, values: Vec<(String, Option<String>)>) -> Result<usize> {
        if let Some(at) = self.open.iter().position(|file| file.folder == folder) {
            return Ok(at);
        }
        if self.open.len() >= self.settings.bounds.open_files {
            let oldest = self.open.iter().enumerate().min_by_key(|(_, file)| file.last_used).map(|(at, _)| at);
            if let Some(at) = oldest {
                self.close(at).await?;
            }
        }
        let name = self.settings.options.file_name(self.lane, &uuid::Uuid::new_v4(), self.settings.partitioner.is_partitioned());
        let path = path_below(&self.settings.folder, &folder, &name)?;
        self.open.push(OpenFile {
            encoder: encode::encoder(&self.settings.options, &self.settings.data)?,
            upload: Upload::new(&self.settings.folder, path),
            folder,
            values,
            name,
            rows: 0,
            last_used: self.clock,
        });
        Ok(self.open.len() - 1)
    }

    /// Finishes one file: durable, and visible to nobody who reads the log.
    async fn close(&mut self, at: usize) -> Result<()> {
        let mut file = self.open.swap_remove(at);
        failpoint::hit("sink.file.before")?;
        if let Err(error) = file.encoder.finish(file.upload.buffer()) {
            file.upload.abort().await;
            return Err(error);
        }
        let stored = file.upload.finish().await?;
        let path = if file.folder.is_empty() { file.name } else { format!("{}/{}", file.folder, file.name) };
        self.written.files.push(WrittenFile {
            path,
            size: stored.size,
            rows: file.rows,
            modification_time_ms: stored.modified_ms,
            partition_values: file.values,
            stats: None,
        });
        failpoint::hit("sink.file.after")
    }

    async fn keep_bounds(&mut self) -> Result<()> {
        while self.open.iter().map(OpenFile::held).sum::<usize>() > self.settings.bounds.held_bytes {
            let largest = self.open.iter().enumerate().max_by_key(|(_, file)| file.held()).map(|(at, _)| at);
            let Some(at) = largest else { return Ok(()) };
            let file = &mut self.open[at];
            let before = file.held();
            file.encoder.spill(file.upload.buffer())?;
            file.upload.flush().await?;
            if file.held() >= before {
                self.close(at).await?;
            }
        }
        Ok(())
    }
}

/// The object of a file in a folder of the sink; names are taken as they are,
/// because their escapes are part of them.
pub fn path_below(root: &Folder, folder: &str, name: &str) -> Result<Path> {
    let below = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    Path::parse(format!("{}/{below}", root.prefix()))
        .map_err(|e| Error::config("INVALID_LOCATION", format!("cannot write the file {below} below {}: {e}", root.url())))
}

#[async_trait]
impl SinkWriter for FilesWriter {
    async fn write(&mut self, slice: RecordBatch) -> Result<()> {
        let settings = self.settings.clone();
        for part in settings.partitioner.split(&slice)? {
            self.clock += 1;
            let rows = part.rows.num_rows() as u64;
            let at = self.file_for(part.folder, part.values).await?;
            let file = &mut self.open[at];
            file.last_used = self.clock;
            file.rows += rows;
            file.encoder.write(&part.rows, file.upload.buffer())?;
            file.upload.flush_full().await?;
            self.written.rows += rows;
        }
        self.keep_bounds().await
    }

    async fn finish(mut self: Box<Self>) -> Result<Written> {
        while !self.open.is_empty() {
            if let Err(error) = self.close(0).await {
                self.abort().await;
                return Err(error);
            }
        }
        Ok(std::mem::take(&mut self.written))
    }

    async fn abort(mut self: Box<Self>) {
        for file in self.open.drain(..) {
            file.upload.abort().await;
        }
        for file in &self.written.files {
            delete(&self.settings.folder, &file.path).await;
        }
    }
}

/// Deletes a file of this writer or batch; what cannot be deleted stays unlisted.
pub async fn delete(folder: &Folder, file: &str) {
    let Ok(path) = path_below(folder, "", file) else { return };
    let deleted = object_store::ObjectStoreExt::delete(folder.store().as_ref(), &path).await;
    match deleted {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
        Err(error) => tracing::warn!(file, %error, "could not delete a file that no batch lists"),
    }
}
