//! One Parquet data file, streamed into the table's store.
//!
//! Encoded pages leave memory in parts of a multipart upload; a file smaller
//! than one part is one put. Encodings follow engines.md 2.4: zstd(1), delta
//! encodings for integers, dates, timestamps and strings, and a dictionary
//! only where a sample of the column repeats itself. Nobody sees the file
//! until a commit names it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression as Codec, Encoding, GzipLevel, ZstdLevel};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use weir_core::{Error, Result, failpoint};

use super::options::Compression;
use super::stats;

/// Bytes of one part; object stores want at least 5 MiB.
const PART: usize = 5 << 20;
/// Rows that decide about a column's dictionary.
const SAMPLE: usize = 2_048;
/// Rows of one row group at most.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// A file being written.
pub struct DataFile {
    store: Arc<dyn ObjectStore>,
    path: Path,
    name: String,
    writer: ArrowWriter<Vec<u8>>,
    schema: SchemaRef,
    pending: Vec<u8>,
    upload: Option<Box<dyn MultipartUpload>>,
    has_nan: Vec<bool>,
    rows: u64,
    uploaded: u64,
}

/// A file that is whole in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedFile {
    /// Name relative to the table's folder.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Rows.
    pub rows: u64,
    /// Delta's statistics document.
    pub stats: String,
}

impl DataFile {
    /// Begins a file; `sample` is the first slice that will be written.
    pub fn create(
        store: Arc<dyn ObjectStore>,
        path: Path,
        name: String,
        schema: SchemaRef,
        compression: Compression,
        sample: &RecordBatch,
    ) -> Result<Self> {
        let options = ArrowWriterOptions::new().with_properties(properties(&schema, compression, sample)?).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&schema), options).map_err(|e| unwritten(&name, e))?;
        let has_nan = vec![false; schema.fields().len()];
        Ok(Self { store, path, name, writer, schema, pending: Vec::new(), upload: None, has_nan, rows: 0, uploaded: 0 })
    }

    /// Appends rows; they have the file's schema.
    pub async fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        for (seen, column) in self.has_nan.iter_mut().zip(rows.columns()) {
            *seen |= has_nan(column.as_ref());
        }
        self.writer.write(rows).map_err(|e| unwritten(&self.name, e))?;
        self.rows += rows.num_rows() as u64;
        self.drain().await
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes that the file will have, as far as they are known.
    pub fn size(&self) -> u64 {
        self.uploaded + (self.pending.len() + self.writer.in_progress_size()) as u64
    }

    /// Bytes held in memory.
    pub fn memory(&self) -> usize {
        self.pending.capacity() + self.writer.memory_size()
    }

    /// Bytes of the row group in progress; flushing gives them up.
    pub fn unflushed(&self) -> usize {
        self.writer.memory_size()
    }

    /// Ends the row group in progress.
    pub async fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(|e| unwritten(&self.name, e))?;
        self.drain().await
    }

    async fn drain(&mut self) -> Result<()> {
        let encoded = self.writer.inner_mut();
        if !encoded.is_empty() {
            self.pending.append(encoded);
        }
        if self.pending.len() < PART {
            return Ok(());
        }
        let part = std::mem::take(&mut self.pending);
        self.upload_part(part).await
    }

    async fn upload_part(&mut self, part: Vec<u8>) -> Result<()> {
        let size = part.len() as u64;
        if self.upload.is_none() {
            self.upload = Some(self.store.put_multipart(&self.path).await.map_err(|e| unstored(&self.name, e))?);
        }
        if let Some(upload) = &mut self.upload {
            upload.put_part(PutPayload::from_bytes(Bytes::from(part))).await.map_err(|e| unstored(&self.name, e))?;
        }
        self.uploaded += size;
        Ok(())
    }

    /// Ends the file and waits until it is durable; a failed one is dropped.
    pub async fn finish(mut self) -> Result<FinishedFile> {
        failpoint::hit("sink.file.before")?;
        let metadata = match self.complete().await {
            Ok(metadata) => metadata,
            Err(error) => {
                self.abort().await;
                return Err(error);
            }
        };
        failpoint::hit("sink.file.after")?;
        let stats = stats::document(&self.schema, &metadata, &self.has_nan);
        Ok(FinishedFile { name: self.name, size: self.uploaded, rows: self.rows, stats })
    }

    async fn complete(&mut self) -> Result<ParquetMetaData> {
        let metadata = self.writer.finish().map_err(|e| unwritten(&self.name, e))?;
        self.pending.append(self.writer.inner_mut());
        let last = std::mem::take(&mut self.pending);
        if self.upload.is_none() {
            self.uploaded = last.len() as u64;
            self.store.put(&self.path, PutPayload::from_bytes(Bytes::from(last))).await.map_err(|e| unstored(&self.name, e))?;
            return Ok(metadata);
        }
        self.upload_part(last).await?;
        if let Some(upload) = &mut self.upload {
            upload.complete().await.map_err(|e| unstored(&self.name, e))?;
        }
        self.upload = None;
        Ok(metadata)
    }

    /// Drops the file, best effort.
    pub async fn abort(mut self) {
        if let Some(mut upload) = self.upload.take()
            && let Err(error) = upload.abort().await
        {
            tracing::debug!(file = %self.name, %error, "an unfinished upload could not be aborted");
        }
    }
}

fn has_nan(column: &dyn Array) -> bool {
    match column.data_type() {
        DataType::Float32 => column.as_primitive::<Float32Type>().values().iter().any(|v| v.is_nan()),
        DataType::Float64 => column.as_primitive::<Float64Type>().values().iter().any(|v| v.is_nan()),
        _ => false,
    }
}

fn properties(schema: &SchemaRef, compression: Compression, sample: &RecordBatch) -> Result<WriterProperties> {
    let codec = match compression {
        Compression::Zstd => Codec::ZSTD(ZstdLevel::try_new(1).map_err(|e| unwritten("zstd level", e))?),
        Compression::Snappy => Codec::SNAPPY,
        Compression::Gzip => Codec::GZIP(GzipLevel::default()),
        Compression::Lz4Raw => Codec::LZ4_RAW,
        Compression::Uncompressed => Codec::UNCOMPRESSED,
    };
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("Weir version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(codec)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS));
    for (field, column) in schema.fields().iter().zip(sample.columns()) {
        let path = ColumnPath::from(field.name().as_str());
        let encoding = match field.data_type() {
            DataType::Utf8 | DataType::Binary => Encoding::DELTA_LENGTH_BYTE_ARRAY,
            DataType::Int32 | DataType::Int64 | DataType::Date32 | DataType::Timestamp(_, _) => Encoding::DELTA_BINARY_PACKED,
            _ => continue,
        };
        builder = builder.set_column_encoding(path.clone(), encoding).set_column_dictionary_enabled(path, repeats(column.as_ref()));
    }
    Ok(builder.build())
}

/// Whether a dictionary pays: strings with few distinct values in the sample.
fn repeats(column: &dyn Array) -> bool {
    let Some(texts) = column.as_string_opt::<i32>() else { return false };
    let sample = texts.len().min(SAMPLE);
    let distinct: HashSet<&str> = (0..sample).filter(|row| texts.is_valid(*row)).map(|row| texts.value(row)).collect();
    sample >= 64 && distinct.len() * 8 <= sample
}

fn unwritten(name: &str, error: parquet::errors::ParquetError) -> Error {
    Error::retryable("TASK_WRITE_FAILED", format!("could not encode the data file {name}")).with_source(error)
}

fn unstored(name: &str, error: object_store::Error) -> Error {
    Error::retryable("STORAGE_FAILURE", format!("could not write the data file {name}")).with_source(error)
}
