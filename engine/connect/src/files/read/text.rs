//! The text formats: frame, decode, slice.
//!
//! One reader for json, csv and text; the formats differ in their frame and in
//! the decoder of a record. A slice ends when the decoder holds as many rows or
//! bytes as the scan allows, so a file of any size is read in bounded memory.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringBuilder};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use async_trait::async_trait;
use object_store::ObjectStore;
use weir_core::{Error, Result};
use weir_decode::JsonDecoder;

use super::bad_records::BadRecords;
use super::bytes::ByteStream;
use super::csv::CsvDecoder;
use super::frame::{Framer, Framing};
use super::options::FormatOptions;
use super::{FileReader, FileScan, FileTask, corrupt_file, decode_failed, internal};
use crate::bad_records::BadRows;
use crate::files::schema::FileSchema;
use crate::source::ReadCounters;

/// What became of a record.
pub enum Fate {
    /// None, one or more rows.
    Taken,
    /// It did not fit and was left out, for this reason.
    Dropped(Cow<'static, str>),
}

/// Records to rows of the wanted columns.
pub trait RowDecoder: Send {
    /// Decodes one record.
    fn push(&mut self, record: &[u8]) -> Result<Fate>;

    /// Rows since the last flush.
    fn rows(&self) -> usize;

    /// Bytes held since the last flush, about.
    fn memory(&self) -> usize;

    /// The rows since the last flush.
    fn flush(&mut self) -> Result<RecordBatch>;

    /// Malformed records so far.
    fn malformed(&self) -> u64;
}

/// The rows of a decoder that decodes more columns than are wanted.
struct SomeColumns {
    decoder: Box<dyn RowDecoder>,
    columns: Vec<usize>,
}

impl SomeColumns {
    fn new(decoder: Box<dyn RowDecoder>, decoded: &SchemaRef, wanted: &SchemaRef) -> Result<Self> {
        let columns = wanted.fields().iter().map(|field| decoded.index_of(field.name())).collect::<std::result::Result<_, _>>();
        Ok(Self { decoder, columns: columns.map_err(|e| internal("find the wanted columns of a file", e))? })
    }
}

impl RowDecoder for SomeColumns {
    fn push(&mut self, record: &[u8]) -> Result<Fate> {
        self.decoder.push(record)
    }

    fn rows(&self) -> usize {
        self.decoder.rows()
    }

    fn memory(&self) -> usize {
        self.decoder.memory()
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        self.decoder.flush()?.project(&self.columns).map_err(|e| internal("take the wanted columns of a file", e))
    }

    fn malformed(&self) -> u64 {
        self.decoder.malformed()
    }
}

/// Opens a file of a text format.
pub async fn open(
    scan: &Arc<FileScan>,
    format: &FormatOptions,
    schema: &FileSchema,
    store: &Arc<dyn ObjectStore>,
    task: &FileTask,
) -> Result<Box<dyn FileReader>> {
    let bytes = ByteStream::open(store, &task.path, &task.uri).await?;
    let uri = task.uri.as_str();
    // Whether a record is corrupt must not depend on which other columns a query happens to read.
    let wants_corrupt = format.corrupt_record_column().is_some_and(|name| scan.wanted.field_with_name(name).is_ok());
    let bad_records = scan.settings.sets_malformed_apart().then(BadRecords::default);
    let decoded = if wants_corrupt || bad_records.is_some() { &schema.data } else { &scan.wanted };
    let decoder: Box<dyn RowDecoder> = match format {
        FormatOptions::Json(options) => {
            let decoder = JsonDecoder::new(decoded.clone(), options.clone()).map_err(|e| decode_failed(&e, uri))?;
            Box::new(JsonRows { decoder, wanted: decoded.clone(), malformed: 0, uri: task.uri.clone() })
        }
        FormatOptions::Csv(options) => Box::new(CsvDecoder::new(options, &schema.data, decoded, uri)?),
        FormatOptions::Text(_) | FormatOptions::Parquet(_) => Box::new(TextRows::new(decoded)),
    };
    let decoder = if decoded == &scan.wanted { decoder } else { Box::new(SomeColumns::new(decoder, decoded, &scan.wanted)?) };
    let framing = format.framing();
    let empty_is_a_record = matches!(format, FormatOptions::Text(_)) && framing == Framing::Whole;
    Ok(Box::new(TextReader {
        bytes,
        framer: Framer::new(framing),
        decoder,
        bad_records,
        max_rows: scan.max_rows,
        max_bytes: scan.max_bytes,
        rest: None,
        state: if empty_is_a_record { State::WholeFile } else { State::Reading },
        uri: task.uri.clone(),
    }))
}

enum State {
    Reading,
    /// `wholetext`: an empty file is one empty row.
    WholeFile,
    Ended,
    /// The file cannot be read on. The records before that place are handed out first: they count where corrupt files are passed by.
    Failed(Error),
}

struct TextReader {
    bytes: ByteStream,
    framer: Framer,
    decoder: Box<dyn RowDecoder>,
    /// Where records go that are set apart.
    bad_records: Option<BadRecords>,
    max_rows: usize,
    max_bytes: usize,
    /// Rows that were decoded and not handed out.
    rest: Option<RecordBatch>,
    state: State,
    uri: String,
}

impl TextReader {
    fn is_full(&self) -> bool {
        let rows = self.decoder.rows();
        let set_apart = self.bad_records.as_ref().map_or(0, BadRecords::bytes);
        set_apart >= self.max_bytes || rows >= self.max_rows || (rows > 0 && self.decoder.memory() >= self.max_bytes)
    }

    /// A record may be many rows (an array in JSON): what is too much waits.
    fn slice(&mut self, batch: RecordBatch) -> RecordBatch {
        let taken = batch.num_rows().min(self.max_rows);
        if taken < batch.num_rows() {
            self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
        }
        batch.slice(0, taken)
    }

    /// Decodes what the frame holds; true when the slice is full.
    fn decode_framed(&mut self) -> Result<bool> {
        loop {
            if self.is_full() {
                return Ok(true);
            }
            match self.framer.next_record() {
                Some(record) => {
                    if matches!(self.state, State::WholeFile) {
                        self.state = State::Reading;
                    }
                    if let (Fate::Dropped(why), Some(bad)) = (self.decoder.push(record.bytes)?, &mut self.bad_records) {
                        bad.push(&self.uri, &record, &why);
                    }
                }
                None => return Ok(false),
            }
        }
    }
}

#[async_trait]
impl FileReader for TextReader {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.rest.take() {
                return Ok(Some(self.slice(batch)));
            }
            if self.decode_framed()? {
                self.rest = Some(self.decoder.flush()?);
                continue;
            }
            if matches!(self.state, State::Ended | State::Failed(_)) {
                if self.decoder.rows() > 0 {
                    self.rest = Some(self.decoder.flush()?);
                    continue;
                }
                return match std::mem::replace(&mut self.state, State::Ended) {
                    State::Failed(error) => Err(error),
                    _ => Ok(None),
                };
            }
            if self.framer.is_overfull() {
                self.state = State::Failed(corrupt_file(&self.uri, "a record is larger than 256 MiB"));
                continue;
            }
            match self.bytes.read_more(self.framer.fill()).await {
                Ok(true) => {}
                Ok(false) => {
                    self.framer.end();
                    if self.decode_framed()? {
                        continue;
                    }
                    if matches!(self.state, State::WholeFile) {
                        self.decoder.push(b"")?;
                    }
                    self.state = State::Ended;
                }
                Err(error) => self.state = State::Failed(error),
            }
        }
    }

    fn counters(&self) -> ReadCounters {
        ReadCounters { malformed_records: self.decoder.malformed(), bytes: self.bytes.bytes_read() }
    }

    fn take_bad_records(&mut self) -> Option<BadRows> {
        self.bad_records.as_mut().and_then(BadRecords::take)
    }
}

struct JsonRows {
    decoder: JsonDecoder,
    wanted: SchemaRef,
    malformed: u64,
    uri: String,
}

impl RowDecoder for JsonRows {
    fn push(&mut self, record: &[u8]) -> Result<Fate> {
        self.decoder.push(Some(record)).map_err(|e| decode_failed(&e, &self.uri))?;
        Ok(self.decoder.take_dropped().map_or(Fate::Taken, |why| Fate::Dropped(why.into())))
    }

    fn rows(&self) -> usize {
        self.decoder.rows()
    }

    fn memory(&self) -> usize {
        self.decoder.memory()
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        self.malformed += self.decoder.take_counts().malformed;
        let batch = self.decoder.flush().map_err(|e| decode_failed(&e, &self.uri))?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.wanted.clone(), batch.columns().to_vec(), &options)
            .map_err(|e| internal("build JSON rows", e))
    }

    fn malformed(&self) -> u64 {
        self.malformed + self.decoder.counts().malformed
    }
}

struct TextRows {
    wanted: SchemaRef,
    values: Vec<StringBuilder>,
    rows: usize,
    bytes: usize,
}

impl TextRows {
    fn new(wanted: &SchemaRef) -> Self {
        let values = wanted.fields().iter().map(|_| StringBuilder::new()).collect();
        Self { wanted: wanted.clone(), values, rows: 0, bytes: 0 }
    }
}

impl RowDecoder for TextRows {
    fn push(&mut self, record: &[u8]) -> Result<Fate> {
        for value in &mut self.values {
            value.append_value(String::from_utf8_lossy(record));
        }
        self.bytes += record.len() + 4;
        self.rows += 1;
        Ok(Fate::Taken)
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn memory(&self) -> usize {
        self.bytes
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let columns: Vec<ArrayRef> = self.values.iter_mut().map(|value| Arc::new(value.finish()) as ArrayRef).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.wanted.clone(), columns, &options).map_err(|e| internal("build text rows", e))
    }

    fn malformed(&self) -> u64 {
        0
    }
}
