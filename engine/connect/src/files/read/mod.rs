//! Files to slices of rows.
//!
//! A partition is a row of files read one after the other; `bytes` streams and
//! decompresses, `frame` finds the records, one decoder per text format makes
//! rows of them, `parquet` streams row groups. Partition values and `_metadata`
//! are added at the end. A slice ends at the row or byte bound of the scan, a file may end
//! in the middle of nothing; how a file is cut into slices never changes rows.

mod bad_records;
pub mod bytes;
pub mod csv;
pub mod frame;
pub mod metadata;
pub mod options;
pub(crate) mod parquet;
mod text;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use weir_core::columns::HIDDEN_KEY;
use weir_core::storage::failure;
use weir_core::{Error, Result};
use weir_decode::spark_type::spark_field_type_name;
use weir_decode::{Column, Formats};

pub use options::FormatOptions;

use self::metadata::FileFacts;
use super::partitions;
use super::schema::FileSchema;
use crate::bad_records::BadRows;
use crate::open::MalformedRecords;
use crate::options::Options;
use crate::passage::Passage;
use crate::source::{PartitionReader, ReadCounters, Scan};

/// One file to read.
#[derive(Clone, Debug)]
pub struct FileTask {
    /// In the store.
    pub path: Path,
    /// For errors.
    pub uri: String,
    /// Where its partition folders begin.
    pub root_depth: usize,
}

/// What all readers of a source share.
#[derive(Debug)]
pub struct ReadSettings {
    format: FormatOptions,
    schema: FileSchema,
    store: Arc<dyn ObjectStore>,
    missing: Missing,
    corrupt: Corrupt,
    malformed: MalformedRecords,
}

/// `ignoreMissingFiles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Fail,
    Skip,
}

/// `ignoreCorruptFiles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Corrupt {
    Fail,
    SkipRest,
}

/// What happens to files that cannot be read.
#[derive(Clone, Copy, Debug)]
pub struct Unreadable {
    missing: Missing,
    corrupt: Corrupt,
}

impl Unreadable {
    /// The options, or else the session's settings of the same names.
    pub fn parse(options: &Options, conf: &BTreeMap<String, String>) -> Result<Self> {
        let flag = |name: &str| options.flag(name, conf_flag(conf, &format!("spark.sql.files.{name}"))?);
        Ok(Self {
            missing: if flag("ignoreMissingFiles")? { Missing::Skip } else { Missing::Fail },
            corrupt: if flag("ignoreCorruptFiles")? { Corrupt::SkipRest } else { Corrupt::Fail },
        })
    }
}

impl ReadSettings {
    /// Settings of one source.
    pub fn new(format: FormatOptions, schema: FileSchema, store: Arc<dyn ObjectStore>, unreadable: Unreadable) -> Self {
        let malformed = MalformedRecords::ByMode;
        Self { format, schema, store, missing: unreadable.missing, corrupt: unreadable.corrupt, malformed }
    }

    /// The same settings for a format that was told what becomes of records that do not fit.
    #[must_use]
    pub fn with_malformed(self, malformed: MalformedRecords) -> Self {
        Self { malformed, ..self }
    }

    /// Whether records that do not fit are handed out apart.
    pub fn sets_malformed_apart(&self) -> bool {
        self.malformed == MalformedRecords::SetApart
    }
}

/// A Spark setting that is true or false and false by default.
pub fn conf_flag(conf: &BTreeMap<String, String>, name: &str) -> Result<bool> {
    match conf.get(name).map(|value| value.to_ascii_lowercase()).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(value) => Err(Error::config("INVALID_CONF_VALUE", format!("the setting {name} is '{value}'; it must be true or false"))),
    }
}

/// Reads one file.
#[async_trait]
pub trait FileReader: Send {
    /// The next rows: the wanted data columns, in order.
    async fn next(&mut self) -> Result<Option<RecordBatch>>;

    /// What was met so far.
    fn counters(&self) -> ReadCounters;

    /// Records that were set apart since they were last taken.
    fn take_bad_records(&mut self) -> Option<BadRows> {
        None
    }
}

/// How a column of the scan is made.
#[derive(Clone, Debug)]
enum Output {
    /// A column of the reader's batches.
    Data(usize),
    /// A value of the folder name.
    Partition(Field),
    /// `_metadata`.
    Metadata(Field),
}

/// What the readers of one scan share.
#[derive(Debug)]
pub struct FileScan {
    settings: Arc<ReadSettings>,
    /// Data columns to decode.
    pub wanted: SchemaRef,
    output: Vec<Output>,
    schema: SchemaRef,
    /// Most rows of a slice.
    pub max_rows: usize,
    /// Soft bound of a slice's bytes.
    pub max_bytes: usize,
}

impl FileScan {
    fn new(settings: &Arc<ReadSettings>, scan: &Scan) -> Result<Self> {
        let table = &settings.schema.table;
        let schema = Arc::new(table.project(&scan.columns).map_err(|e| internal("project the file source's schema", e))?);
        let mut wanted: Vec<Field> = Vec::new();
        let output = schema.fields().iter().map(|field| {
            if field.metadata().contains_key(HIDDEN_KEY) {
                return Output::Metadata(field.as_ref().clone());
            }
            if settings.schema.is_partition(field.name()) {
                return Output::Partition(field.as_ref().clone());
            }
            wanted.push(field.as_ref().clone());
            Output::Data(wanted.len() - 1)
        });
        let output = output.collect();
        let wanted = Arc::new(Schema::new(wanted));
        Ok(Self { settings: settings.clone(), wanted, output, schema, max_rows: scan.max_rows.max(1), max_bytes: scan.max_bytes.max(1) })
    }

    fn formats(&self) -> &Formats {
        self.settings.format.partition_formats()
    }

    fn wants_metadata(&self) -> bool {
        self.output.iter().any(|output| matches!(output, Output::Metadata(_)))
    }

    /// Adds the columns that are not in a file to its rows.
    fn assemble(&self, batch: RecordBatch, open: &OpenFile) -> Result<RecordBatch> {
        let OpenFile { values, task, .. } = open;
        let rows = batch.num_rows();
        let columns: Result<Vec<ArrayRef>> = self
            .output
            .iter()
            .map(|output| match output {
                Output::Data(at) => Ok(self.overridden(*at, values, task, rows)?.unwrap_or_else(|| batch.column(*at).clone())),
                Output::Partition(field) => {
                    let value = find_ignoring_case(values, field.name());
                    partition_column(field, value.and_then(Option::as_deref), rows, self.formats(), task)
                }
                Output::Metadata(field) => {
                    let facts = open.facts.as_ref().expect("a file's facts are asked for where they are wanted");
                    Ok(facts.column(field, open.rows, rows))
                }
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns?, &options).map_err(|e| internal("assemble rows", e))
    }

    /// A column that became a folder after the stream began.
    fn overridden(&self, at: usize, values: &BTreeMap<String, Option<String>>, task: &FileTask, rows: usize) -> Result<Option<ArrayRef>> {
        if values.is_empty() {
            return Ok(None);
        }
        let field = self.wanted.field(at);
        let value = find_ignoring_case(values, field.name());
        value.map(|value| partition_column(field, value.as_deref(), rows, self.formats(), task)).transpose()
    }
}

fn find_ignoring_case<'a, V>(values: &'a BTreeMap<String, V>, name: &str) -> Option<&'a V> {
    values.get(name).or_else(|| values.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

fn partition_column(field: &Field, value: Option<&str>, rows: usize, formats: &Formats, task: &FileTask) -> Result<ArrayRef> {
    let Some(value) = value else { return Ok(new_null_array(field.data_type(), rows)) };
    let mut column = Column::new(field.data_type()).map_err(|e| decode_failed(&e, &task.uri))?;
    if !column.append_text(value, formats) {
        return Err(Error::config(
            "INVALID_PARTITION_VALUE",
            format!(
                "Failed to cast value `{value}` to `{}` for partition column `{}` of {}; correct the folder or the column's type in the schema",
                spark_field_type_name(field),
                field.name(),
                task.uri
            ),
        ));
    }
    let one = column.finish().map_err(|e| decode_failed(&e, &task.uri))?;
    let indices = arrow::array::UInt32Array::from(vec![0u32; rows]);
    arrow::compute::take(&one, &indices, None).map_err(|e| internal("repeat a partition value", e))
}

/// Wraps an error of the decoder, which names no file.
pub fn decode_failed(error: &weir_decode::DecodeError, uri: &str) -> Error {
    Error::config(error.condition().to_owned(), format!("while reading {uri}: {}", error.message()))
}

/// An error that only a bug of Weir can bring about.
pub fn internal(action: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::config("INTERNAL_ERROR", format!("could not {action}: {error}"))
}

/// The columns in a parquet file's footer.
pub async fn parquet_footer(store: &Arc<dyn ObjectStore>, file: &super::listing::FoundFile) -> Result<SchemaRef> {
    Ok(parquet::builder(store, &file.path, &file.uri).await?.schema().clone())
}

/// Spreads files over at most `most` partitions, keeping their order.
pub fn partition_readers(
    settings: &Arc<ReadSettings>,
    tasks: Vec<FileTask>,
    scan: &Scan,
    most: usize,
) -> Result<Vec<Box<dyn PartitionReader>>> {
    let scan = Arc::new(FileScan::new(settings, scan)?);
    let per_partition = tasks.len().div_ceil(most.max(1)).max(1);
    let mut readers: Vec<Box<dyn PartitionReader>> = Vec::new();
    let mut tasks = VecDeque::from(tasks);
    while !tasks.is_empty() {
        let files: VecDeque<FileTask> = tasks.drain(..per_partition.min(tasks.len())).collect();
        readers.push(Box::new(FilePartition::new(scan.clone(), files)));
    }
    Ok(readers)
}

struct OpenFile {
    task: FileTask,
    values: BTreeMap<String, Option<String>>,
    reader: Box<dyn FileReader>,
    /// Where `_metadata` is wanted.
    facts: Option<FileFacts>,
    /// Rows read so far.
    rows: i64,
}

/// Some files of a batch.
struct FilePartition {
    scan: Arc<FileScan>,
    files: VecDeque<FileTask>,
    passage: Passage,
    open: Option<OpenFile>,
    /// Records set apart that nobody has taken yet.
    bad_records: Vec<BadRows>,
    done: ReadCounters,
}

impl FilePartition {
    fn new(scan: Arc<FileScan>, files: VecDeque<FileTask>) -> Self {
        Self { scan, files, passage: Passage::default(), open: None, bad_records: Vec::new(), done: ReadCounters::default() }
    }

    async fn open_next(&mut self) -> Result<bool> {
        while let Some(task) = self.files.pop_front() {
            self.passage.begin_file();
            match open_file(&self.scan, &task).await {
                Ok((reader, facts)) => {
                    let values = partitions::values_of(&task.path, task.root_depth).into_iter().collect();
                    self.open = Some(OpenFile { task, values, reader, facts, rows: 0 });
                    return Ok(true);
                }
                Err(error) if error.condition() == FILE_NOT_EXIST && self.scan.settings.missing == Missing::Skip => {
                    tracing::warn!(file = task.uri, "skipped a file that is gone");
                }
                Err(error) if is_corrupt(&error) && self.scan.settings.corrupt == Corrupt::SkipRest => {
                    tracing::warn!(file = task.uri, %error, "skipped a corrupt file");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    fn close(&mut self) {
        if let Some(mut open) = self.open.take() {
            self.bad_records.extend(open.reader.take_bad_records());
            add(&mut self.done, &open.reader.counters());
        }
    }
}

fn add(sum: &mut ReadCounters, more: &ReadCounters) {
    sum.malformed_records += more.malformed_records;
    sum.bytes += more.bytes;
}

/// Condition of a planned file that is gone.
pub const FILE_NOT_EXIST: &str = "FAILED_READ_FILE.FILE_NOT_EXIST";
/// Condition of a file whose bytes cannot be understood.
pub const CORRUPT_FILE: &str = "FAILED_READ_FILE.NO_HINT";

fn is_corrupt(error: &Error) -> bool {
    error.condition() == CORRUPT_FILE
}

/// The error of a file whose bytes cannot be understood.
pub fn corrupt_file(uri: &str, why: impl std::fmt::Display) -> Error {
    Error::config(
        CORRUPT_FILE,
        format!(
            "Encountered error while reading file {uri}: {why}; repair or remove the file, or set the option ignoreCorruptFiles to true"
        ),
    )
}

/// The error of an object that could not be read.
pub fn read_failed(uri: &str, error: object_store::Error) -> Error {
    match error {
        object_store::Error::NotFound { .. } => Error::config(
            FILE_NOT_EXIST,
            format!(
                "File does not exist: {uri}. It was planned into a batch and is gone; restore it, or set the option ignoreMissingFiles to true"
            ),
        ),
        error => failure("STORAGE_FAILURE", format!("could not read {uri}"), error),
    }
}

async fn open_file(scan: &Arc<FileScan>, task: &FileTask) -> Result<(Box<dyn FileReader>, Option<FileFacts>)> {
    let store = &scan.settings.store;
    let reader = match &scan.settings.format {
        FormatOptions::Parquet(_) => parquet::open(scan, store, task).await?,
        format => text::open(scan, format, &scan.settings.schema, store, task).await?,
    };
    if !scan.wants_metadata() {
        return Ok((reader, None));
    }
    let meta = store.head(&task.path).await.map_err(|error| read_failed(&task.uri, error))?;
    Ok((reader, Some(FileFacts::new(&task.uri, &meta))))
}

#[async_trait]
impl PartitionReader for FilePartition {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.open.is_none() && !self.open_next().await? {
                return Ok(None);
            }
            let Some(open) = &mut self.open else { continue };
            match open.reader.next().await {
                Ok(Some(batch)) => {
                    let rows = batch.num_rows() as i64;
                    let assembled = self.scan.assemble(batch, open)?;
                    open.rows += rows;
                    self.bad_records.extend(open.reader.take_bad_records());
                    let left = self.passage.hand_out(assembled);
                    if left.num_rows() > 0 || !self.bad_records.is_empty() {
                        return Ok(Some(left));
                    }
                    continue;
                }
                Ok(None) => {}
                Err(error) if is_corrupt(&error) && self.scan.settings.corrupt == Corrupt::SkipRest => {
                    tracing::warn!(file = open.task.uri, %error, "skipped the rest of a corrupt file");
                }
                Err(error) => return Err(error),
            }
            self.close();
            if !self.bad_records.is_empty() {
                return Ok(Some(RecordBatch::new_empty(self.scan.schema.clone())));
            }
        }
    }

    fn counters(&self) -> ReadCounters {
        let mut sum = self.done.clone();
        if let Some(open) = &self.open {
            add(&mut sum, &open.reader.counters());
        }
        sum
    }

    fn name(&self) -> String {
        let uris: Vec<&str> = self.files.iter().map(|task| task.uri.as_str()).collect();
        // The mode drops records by the columns that are read, and by their types.
        let (format, read, declared) = (&self.scan.settings.format, &self.scan.wanted, &self.scan.settings.schema.data);
        let apart = if self.scan.settings.sets_malformed_apart() { ", bad records apart" } else { "" };
        format!("{} as {format:?}, {read:?} of {declared:?}{apart}", uris.join(" "))
    }

    fn take_bad_records(&mut self) -> Vec<BadRows> {
        std::mem::take(&mut self.bad_records)
    }

    fn position(&self) -> u64 {
        self.passage.position(self.open.is_some())
    }

    fn skip_to(&mut self, position: u64) {
        self.passage.skip_to(position);
        // What was set apart took no effect with the rows, so all is read again for its sake.
        if !self.scan.settings.sets_malformed_apart() {
            self.passage.drop_read(&mut self.files);
        }
    }
}

#[cfg(test)]
mod tests;
