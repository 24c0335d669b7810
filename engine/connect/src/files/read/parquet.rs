//! Parquet files to rows, one row group at a time.
//!
//! Only the wanted columns are fetched. Columns are found by name without case
//! and made fit for the declared type as far as Spark's reader widens
//! (`widen`); a column that the file lacks is null, one that does not fit is an
//! error that names it.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, ObjectStoreExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStream, ParquetRecordBatchStreamBuilder};
use parquet::basic::{LogicalType, TimeUnit as ParquetUnit, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use weir_core::{Error, Result};
use weir_decode::spark_type::spark_type_name;

use super::{FileReader, FileScan, FileTask, corrupt_file, internal, read_failed};
use crate::files::widen::{int96_as_instants, widen};
use crate::source::ReadCounters;

/// An object that parquet reads ranges of.
pub struct ObjectReader {
    store: Arc<dyn ObjectStore>,
    path: Path,
    size: u64,
    bytes_read: u64,
}

impl ObjectReader {
    /// Looks the object up.
    pub async fn open(store: &Arc<dyn ObjectStore>, path: &Path, uri: &str) -> Result<Self> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = store.get_opts(path, options).await.map_err(|e| read_failed(uri, e))?;
        Ok(Self { store: store.clone(), path: path.clone(), size: found.meta.size, bytes_read: 0 })
    }
}

fn external(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for ObjectReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        self.bytes_read += range.end - range.start;
        async move { self.store.get_range(&self.path, range).await.map_err(external) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        self.bytes_read += ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        async move { self.store.get_ranges(&self.path, &ranges).await.map_err(external) }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let size = self.size;
        async move { ParquetMetaDataReader::new().load_and_finish(self, size).await.map(Arc::new) }.boxed()
    }
}

/// The error of reading parquet: of the store, or of the bytes.
pub fn parquet_failed(uri: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<object_store::Error>() {
            Ok(store) => read_failed(uri, *store),
            Err(other) => corrupt_file(uri, other),
        },
        other => corrupt_file(uri, other),
    }
}

/// Begins to read a file's footer.
pub async fn builder(store: &Arc<dyn ObjectStore>, path: &Path, uri: &str) -> Result<ParquetRecordBatchStreamBuilder<ObjectReader>> {
    let mut reader = ObjectReader::open(store, path, uri).await?;
    // Types come from parquet's own schema, so that all writers' files read alike.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let footer = ArrowReaderMetadata::load_async(&mut reader, options).await.map_err(|e| parquet_failed(uri, e))?;
    let columns = footer.parquet_schema().columns();
    let has_int96 = columns.iter().any(|column| column.physical_type() == PhysicalType::INT96);
    let has_nanos =
        columns.iter().any(|column| matches!(column.logical_type_ref(), Some(LogicalType::Timestamp(of)) if of.unit == ParquetUnit::NANOS));
    if !has_int96 || has_nanos {
        return Ok(ParquetRecordBatchStreamBuilder::new_with_metadata(reader, footer));
    }
    let fields = footer.schema().fields().iter().map(|field| field.as_ref().clone().with_data_type(int96_as_instants(field.data_type())));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    let footer = ArrowReaderMetadata::try_new(footer.metadata().clone(), options).map_err(|e| parquet_failed(uri, e))?;
    Ok(ParquetRecordBatchStreamBuilder::new_with_metadata(reader, footer))
}

struct ParquetReader {
    stream: ParquetRecordBatchStream<ObjectReader>,
    wanted: SchemaRef,
    /// For each wanted column its place in the batches of the file.
    places: Vec<Option<usize>>,
    bytes: u64,
    uri: String,
}

/// Opens a file.
pub async fn open(scan: &Arc<FileScan>, store: &Arc<dyn ObjectStore>, task: &FileTask) -> Result<Box<dyn FileReader>> {
    let uri = task.uri.as_str();
    let builder = builder(store, &task.path, uri).await?;
    let file = builder.schema().clone();
    let roots: Vec<Option<usize>> = scan.wanted.fields().iter().map(|field| find(&file, field.name())).collect();
    let mut selected: Vec<usize> = roots.iter().flatten().copied().collect();
    selected.sort_unstable();
    selected.dedup();
    let places = roots.iter().map(|root| root.and_then(|root| selected.iter().position(|at| *at == root))).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), selected.iter().copied());
    let groups = builder.metadata().row_groups();
    let rows: i64 = groups.iter().map(|group| group.num_rows()).sum();
    let total: i64 = groups.iter().map(|group| group.total_byte_size()).sum();
    // Wide rows make short slices.
    let row_bytes = usize::try_from(total / rows.max(1)).unwrap_or(1).max(1);
    let batch_rows = (scan.max_bytes / row_bytes).clamp(1, scan.max_rows);
    let bytes = groups.iter().map(|group| u64::try_from(group.compressed_size()).unwrap_or(0)).sum();
    let stream = builder.with_projection(mask).with_batch_size(batch_rows).build().map_err(|e| parquet_failed(uri, e))?;
    Ok(Box::new(ParquetReader { stream, wanted: scan.wanted.clone(), places, bytes, uri: task.uri.clone() }))
}

fn find(schema: &Schema, name: &str) -> Option<usize> {
    let exact = schema.fields().iter().position(|field| field.name() == name);
    exact.or_else(|| schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name)))
}

#[async_trait]
impl FileReader for ParquetReader {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.stream.next().await else { return Ok(None) };
        let batch = batch.map_err(|e| parquet_failed(&self.uri, e))?;
        let rows = batch.num_rows();
        let columns: Result<Vec<ArrayRef>> = self
            .wanted
            .fields()
            .iter()
            .zip(&self.places)
            .map(|(field, place)| match place {
                None => Ok(new_null_array(field.data_type(), rows)),
                Some(at) => {
                    let array = batch.column(*at);
                    widen(array, field.data_type()).ok_or_else(|| {
                        Error::config(
                            "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH",
                            format!(
                                "Encountered error while reading file {}. Data type mismatches when reading Parquet column `{}`. Expected type {}, actual type {}; correct the schema of the source",
                                self.uri,
                                field.name(),
                                spark_type_name(field.data_type()),
                                spark_type_name(array.data_type())
                            ),
                        )
                    })
                }
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.wanted.clone(), columns?, &options).map(Some).map_err(|e| internal("build parquet rows", e))
    }

    fn counters(&self) -> ReadCounters {
        ReadCounters { malformed_records: 0, bytes: self.bytes }
    }
}
