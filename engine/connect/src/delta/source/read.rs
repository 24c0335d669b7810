//! The rows of data files, through the kernel: partition values, column
//! mapping and deletion vectors are its business.
//!
//! A scan is made once for the columns that the query wants. Each file's facts
//! (from the log, or from a snapshot) go through the kernel's own replay, which
//! adds what makes its rows those of the table. One reader reads some files one
//! after the other on its lane's thread. Changes of a feed are pieces like
//! files (`feed`).

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, StringArray, new_null_array};
use arrow::compute::{cast, concat_batches, filter_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use delta_kernel::engine::arrow_data::{ArrowEngineData, EngineDataArrowExt as _};
use delta_kernel::scan::state::{ScanFile, transform_to_logical};
use delta_kernel::scan::{Scan as KernelScan, ScanBuilder, StatsOptions, scan_row_schema};
use delta_kernel::{DeltaResult, EngineData, FileDataReadResultIterator, FileMeta};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use serde_json::json;
use weir_core::{Error, Result};

use super::entry::{DataFile, FileFacts};
use super::feed::{self, Changes, Inserted};
use super::options::Loss;
use super::table::SourceTable;
use crate::delta::state::flatten;
use crate::files::read::internal;
use crate::passage::Passage;
use crate::source::{PartitionReader, ReadCounters, Scan};

/// The most partitions of one batch; a lane reads several.
const MAX_PARTITIONS: usize = 32;
/// Rows that small batches of the kernel are put together to.
const SLICE_ROWS: usize = 8192;

/// What the readers of one query share.
pub struct TableScan {
    table: Arc<SourceTable>,
    loss: Loss,
    scan: KernelScan,
    /// The table's columns that are read from files.
    columns: Vec<String>,
    schema: SchemaRef,
    max_rows: usize,
    max_bytes: usize,
}

impl TableScan {
    /// A scan of some columns.
    pub fn new(table: &Arc<SourceTable>, of: &SchemaRef, loss: Loss, scan: &Scan) -> Result<Self> {
        let schema = Arc::new(of.project(&scan.columns).map_err(|e| internal("project the Delta source's columns", e))?);
        let stored = schema.fields().iter().map(|field| field.name().as_str()).filter(|name| table.schema.index_of(name).is_ok());
        let mut names: Vec<&str> = stored.collect();
        let partition_by = table.columns.partition_by();
        let is_stored = |name: &str| !partition_by.iter().any(|column| column == name);
        if !names.iter().any(|name| is_stored(name)) {
            // Only what is in a file says how many rows it has.
            names.extend(table.schema.fields().iter().map(|field| field.name().as_str()).find(|name| is_stored(name)));
        }
        let unreadable = |e: delta_kernel::Error| {
            Error::config(
                "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
                format!("the Delta table {} cannot be read; it may need a newer version of Weir", table.location.url()),
            )
            .with_source(e)
        };
        let wanted = table.snapshot.schema().project(&names).map_err(unreadable)?;
        let builder = ScanBuilder::new(Arc::clone(&table.snapshot)).with_schema(wanted).with_stats(StatsOptions::none());
        let scan_of_kernel = builder.build().map_err(unreadable)?;
        Ok(Self {
            table: Arc::clone(table),
            loss,
            scan: scan_of_kernel,
            columns: names.iter().map(|name| (*name).to_owned()).collect(),
            schema,
            max_rows: scan.max_rows.max(1),
            max_bytes: scan.max_bytes.max(1),
        })
    }

    /// Files as what is read of them; `inserted` where they are the beginning of a change feed.
    pub async fn resolved(self: &Arc<Self>, files: Vec<DataFile>, inserted: Option<Inserted>) -> Result<Vec<Piece>> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let scan = Arc::clone(self);
        let resolved = tokio::task::spawn_blocking(move || scan.resolve(&files)).await;
        let files = flatten(&self.table.location, "read the files of", Some(self.table.version()), resolved).await?;
        Ok(files.into_iter().map(|file| Piece::File(Box::new(file), inserted)).collect())
    }

    /// Readers of pieces, which keep their order.
    pub fn readers(self: &Arc<Self>, pieces: Vec<Piece>) -> Vec<Box<dyn PartitionReader>> {
        let mut pieces = VecDeque::from(pieces);
        let per_partition = pieces.len().div_ceil(MAX_PARTITIONS).max(1);
        let mut readers: Vec<Box<dyn PartitionReader>> = Vec::new();
        while !pieces.is_empty() {
            let part: VecDeque<Piece> = pieces.drain(..per_partition.min(pieces.len())).collect();
            readers.push(Box::new(FilePartition::new(Arc::clone(self), part)));
        }
        readers
    }

    /// What the kernel makes of the files' facts.
    fn resolve(&self, files: &[DataFile]) -> DeltaResult<Vec<ScanFile>> {
        let engine = self.table.engine.as_ref();
        let mut rows: Vec<Box<dyn EngineData>> = Vec::new();
        let mut logged = Vec::new();
        for file in files {
            match &file.facts {
                FileFacts::Logged { partition_values, deletion_vector } => logged.push(
                    json!({
                        "path": file.path, "size": file.size, "modificationTime": file.modified_ms, "deletionVector": deletion_vector,
                        "fileConstantValues": {"partitionValues": partition_values},
                    })
                    .to_string(),
                ),
                FileFacts::Scanned { rows: found, row } => {
                    self.flush(&mut logged, &mut rows)?;
                    rows.push(Box::new(ArrowEngineData::new(found.slice(*row, 1))));
                }
            }
        }
        self.flush(&mut logged, &mut rows)?;
        let mut resolved = Vec::with_capacity(files.len());
        for found in self.scan.scan_metadata_from(engine, self.table.version(), rows, None)? {
            resolved = found?.visit_scan_files(resolved, |all: &mut Vec<ScanFile>, file| all.push(file))?;
        }
        if resolved.len() != files.len() {
            return Err(delta_kernel::Error::generic(format!("{} of {} files were resolved", resolved.len(), files.len())));
        }
        Ok(resolved)
    }

    fn flush(&self, logged: &mut Vec<String>, rows: &mut Vec<Box<dyn EngineData>>) -> DeltaResult<()> {
        if logged.is_empty() {
            return Ok(());
        }
        let texts: ArrayRef = Arc::new(StringArray::from(std::mem::take(logged)));
        let batch = RecordBatch::try_from_iter([("json", texts)])?;
        let handler = self.table.engine.json_handler();
        rows.push(handler.parse_json(Box::new(ArrowEngineData::new(batch)), scan_row_schema())?);
        Ok(())
    }

    fn open(&self, piece: Piece) -> DeltaResult<Open> {
        match piece {
            Piece::File(file, inserted) => Ok(Open::File(Box::new(self.open_file(*file)?), inserted)),
            Piece::Changes(changes) => {
                let batches = feed::read(&self.table.engine, self.scan.table_root().clone(), &changes, &self.columns)?;
                Ok(Open::Changes(changes, batches))
            }
        }
    }

    fn open_file(&self, file: ScanFile) -> DeltaResult<OpenFile> {
        let engine = self.table.engine.as_ref();
        let root = self.scan.table_root();
        let kept = file.dv_info.get_selection_vector(engine, root)?;
        let size = u64::try_from(file.size).unwrap_or_default();
        let meta = FileMeta { location: root.join(&file.path)?, last_modified: file.modification_time, size };
        let batches = engine.parquet_handler().read_parquet_files(&[meta], Arc::clone(self.scan.physical_schema()), None)?;
        Ok(OpenFile { file, batches, kept, row: 0 })
    }

    /// Physical rows as rows of the table, without deleted ones.
    fn logical(&self, open: &mut OpenFile, physical: Box<dyn EngineData>) -> DeltaResult<RecordBatch> {
        let rows = physical.len();
        let (from, to) = (self.scan.physical_schema(), self.scan.logical_schema());
        let engine = self.table.engine.as_ref();
        let batch = transform_to_logical(engine, physical, from, to, open.file.transform.clone()).try_into_record_batch()?;
        let begin = open.row;
        open.row += rows;
        let Some(kept) = &open.kept else { return Ok(batch) };
        // What lies behind the vector's end was not deleted.
        let kept: BooleanArray = (begin..begin + rows).map(|row| Some(kept.get(row).copied().unwrap_or(true))).collect();
        Ok(filter_record_batch(&batch, &kept)?)
    }

    /// The wanted columns in the types that the source promised; null where an older version has none.
    fn promised(&self, batch: &RecordBatch, inserted: Option<Inserted>) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let columns = self.schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
            Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
            Some(column) => cast(column, field.data_type()).map_err(|e| internal("type the rows of a Delta table", e)),
            None => {
                let own = inserted.and_then(|inserted| inserted.column(field.name(), rows));
                Ok(own.unwrap_or_else(|| new_null_array(field.data_type(), rows)))
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns.collect::<Result<_>>()?, &options)
            .map_err(|e| internal("assemble the rows of a Delta table", e))
    }

    /// The error of a file that could not be read; none where it is gone and may be.
    async fn explain(&self, piece: &Named, error: delta_kernel::Error) -> Option<Error> {
        let mut gone = None;
        for path in &piece.paths {
            if self.is_gone(path).await {
                gone = Some(path);
                break;
            }
        }
        let Some(path) = gone else {
            let action = format!("read {} of", piece.name);
            return flatten::<()>(&self.table.location, &action, Some(self.table.version()), Ok(Err(error))).await.err();
        };
        let text = format!(
            "File does not exist: {path} of the Delta table {}. It was planned into a batch and is gone, for example by VACUUM; restore it, use a new checkpointLocation with a new checkpointResetNonce, or set the option failOnDataLoss to false",
            self.table.location.url()
        );
        match self.loss {
            Loss::Fail => Some(Error::incompatible("FAILED_READ_FILE.FILE_NOT_EXIST", text).with_source(error)),
            Loss::Warn => {
                tracing::warn!("{text}; the query goes on, because failOnDataLoss is false");
                None
            }
        }
    }

    async fn is_gone(&self, path: &str) -> bool {
        let Some(path) = self.scan.table_root().join(path).ok().and_then(|url| Path::from_url_path(url.path()).ok()) else { return false };
        matches!(self.table.location.store().head(&path).await, Err(object_store::Error::NotFound { .. }))
    }
}

/// What is read one after the other.
#[derive(Clone)]
pub enum Piece {
    /// A data file; as inserts where it is the beginning of a change feed.
    File(Box<ScanFile>, Option<Inserted>),
    /// Changes of some versions.
    Changes(Changes),
}

/// What errors say of a piece.
struct Named {
    name: String,
    /// Files that it needs.
    paths: Vec<String>,
}

impl Named {
    fn file(file: &ScanFile) -> Self {
        Self { name: format!("the file {}", file.path), paths: vec![file.path.clone()] }
    }

    fn changes(changes: &Changes) -> Self {
        Self { name: format!("the changes of the versions {} to {}", changes.first, changes.last), paths: changes.paths.clone() }
    }
}

impl Piece {
    fn bytes(&self) -> u64 {
        match self {
            Self::File(file, _) => u64::try_from(file.size).unwrap_or_default(),
            Self::Changes(changes) => changes.bytes,
        }
    }

    fn named(&self) -> Named {
        match self {
            Self::File(file, _) => Named::file(file),
            Self::Changes(changes) => Named::changes(changes),
        }
    }
}

/// What is being read.
enum Open {
    File(Box<OpenFile>, Option<Inserted>),
    Changes(Changes, feed::Batches),
}

impl Open {
    fn named(&self) -> Named {
        match self {
            Self::File(open, _) => Named::file(&open.file),
            Self::Changes(changes, _) => Named::changes(changes),
        }
    }

    fn inserted(&self) -> Option<Inserted> {
        match self {
            Self::File(_, inserted) => *inserted,
            Self::Changes(..) => None,
        }
    }

    /// The next rows under the table's names.
    fn next(&mut self, scan: &TableScan) -> Option<DeltaResult<RecordBatch>> {
        match self {
            Self::File(open, _) => Some(open.batches.next()?.and_then(|physical| scan.logical(open, physical))),
            Self::Changes(_, batches) => batches.next(),
        }
    }
}

struct OpenFile {
    file: ScanFile,
    batches: FileDataReadResultIterator,
    /// Rows that are not deleted, where some are.
    kept: Option<Vec<bool>>,
    row: usize,
}

/// Some files of a batch.
struct FilePartition {
    scan: Arc<TableScan>,
    files: VecDeque<Piece>,
    open: Option<Open>,
    slices: VecDeque<RecordBatch>,
    bytes: u64,
    passage: Passage,
}

impl FilePartition {
    fn new(scan: Arc<TableScan>, files: VecDeque<Piece>) -> Self {
        Self { scan, files, open: None, slices: VecDeque::new(), bytes: 0, passage: Passage::default() }
    }

    /// Rows of the open file, as many as make a slice; none at its end.
    fn gather(&mut self) -> DeltaResult<Vec<RecordBatch>> {
        let Some(open) = &mut self.open else { return Ok(Vec::new()) };
        let (mut gathered, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while rows < self.scan.max_rows.min(SLICE_ROWS) && bytes < self.scan.max_bytes {
            let Some(batch) = open.next(&self.scan) else { break };
            let batch = batch?;
            if batch.num_rows() > 0 {
                rows += batch.num_rows();
                bytes += batch.get_array_memory_size();
                gathered.push(batch);
            }
        }
        Ok(gathered)
    }

    fn cut(&mut self, gathered: &[RecordBatch]) -> Result<()> {
        let inserted = self.open.as_ref().and_then(Open::inserted);
        let whole = match gathered {
            [one] => self.scan.promised(one, inserted)?,
            several => {
                let several = several.iter().map(|batch| self.scan.promised(batch, inserted)).collect::<Result<Vec<_>>>()?;
                concat_batches(&self.scan.schema, &several).map_err(|e| internal("put rows of a Delta table together", e))?
            }
        };
        let mut at = 0;
        while at < whole.num_rows() {
            let rows = self.scan.max_rows.min(whole.num_rows() - at);
            self.slices.push_back(whole.slice(at, rows));
            at += rows;
        }
        Ok(())
    }
}

#[async_trait]
impl PartitionReader for FilePartition {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(slice) = self.slices.pop_front() {
                let left = self.passage.hand_out(slice);
                if left.num_rows() > 0 {
                    return Ok(Some(left));
                }
                continue;
            }
            if self.open.is_none() {
                let Some(file) = self.files.pop_front() else { return Ok(None) };
                self.passage.begin_file();
                let (piece, size) = (file.named(), file.bytes());
                match self.scan.open(file) {
                    Ok(open) => {
                        self.bytes += size;
                        self.open = Some(open);
                    }
                    Err(error) => match self.scan.explain(&piece, error).await {
                        Some(error) => return Err(error),
                        None => continue,
                    },
                }
            }
            match self.gather() {
                Ok(gathered) if gathered.is_empty() => self.open = None,
                Ok(gathered) => self.cut(&gathered)?,
                Err(error) => {
                    let piece = self.open.take().map(|open| open.named());
                    let Some(piece) = piece else { continue };
                    if let Some(error) = self.scan.explain(&piece, error).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn counters(&self) -> ReadCounters {
        ReadCounters { malformed_records: 0, bytes: self.bytes }
    }

    fn name(&self) -> String {
        let of = |piece: &Piece| match piece {
            Piece::File(file, _) if file.dv_info.has_vector() => format!("{} without {:?}", file.path, file.dv_info),
            Piece::File(file, _) => file.path.clone(),
            Piece::Changes(changes) => Named::changes(changes).name,
        };
        self.files.iter().map(of).collect::<Vec<_>>().join(" ")
    }

    fn position(&self) -> u64 {
        self.passage.position(self.open.is_some())
    }

    fn skip_to(&mut self, position: u64) {
        self.passage.skip_to(position);
        self.passage.drop_read(&mut self.files);
    }
}
