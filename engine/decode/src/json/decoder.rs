//! Records to rows under a mode.
//!
//! One `push` is one record; what it appends is complete or nothing. The
//! corrupt-record column, if the schema has one of type STRING, holds the text
//! of records that did not fit. Source: JacksonParser.parse and
//! FailureSafeParser of Spark's catalyst.

use super::convert::{self, Context, Quality, Step};
use super::lexer::{Fault, Lexer};
use super::template::Template;
use crate::column::{Column, Kind};
use crate::error::DecodeError;
use crate::options::{JsonOptions, Origin, ParseMode};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use std::borrow::Cow;
use std::sync::Arc;

/// Text that a decoder takes before it must be flushed: text columns have
/// 32-bit offsets, and numbers written anew may grow threefold.
const MAX_PENDING: usize = 700 << 20;
const MAX_TEMPLATES: usize = 4;

/// What happened to the records since the counts were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records pushed.
    pub records: u64,
    /// Records that did not fit, whatever the mode made of them.
    pub malformed: u64,
    /// Records left out by DROPMALFORMED.
    pub dropped: u64,
    /// Records read by the shape of an earlier one.
    pub template_hits: u64,
}

/// JSON records to Arrow columns.
#[derive(Debug)]
pub struct JsonDecoder {
    options: JsonOptions,
    schema: SchemaRef,
    root: Column,
    corrupt: Option<(usize, Column)>,
    counts: Counts,
    /// Why the last record was left out, if it was.
    dropped: Option<&'static str>,
    pending: usize,
    templates: Vec<Template>,
    scratch: Vec<u8>,
    trace: Vec<Step>,
}

/// What is known of a record's bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Unknown,
}

/// What decoding a record found out beside its rows.
#[derive(Default)]
struct Notes {
    cause: Option<&'static str>,
    beyond_ascii: bool,
}

/// What a record became.
enum Outcome {
    Rows(Quality),
    Blank,
}

impl JsonDecoder {
    /// A decoder of objects into the rows of a schema; every field becomes nullable.
    ///
    /// # Errors
    /// A column type that JSON cannot be decoded into, or a corrupt-record
    /// column that is not STRING.
    pub fn new(schema: SchemaRef, options: JsonOptions) -> Result<Self, DecodeError> {
        Self::of_type(&DataType::Struct(schema.fields().clone()), options)
    }

    /// A decoder into one column: of structs, as `new`, or of arrays or maps.
    ///
    /// # Errors
    /// As `new`.
    pub fn of_type(data_type: &DataType, options: JsonOptions) -> Result<Self, DecodeError> {
        let full = crate::column::nullable(data_type);
        let mut corrupt = None;
        let (schema, root) = match &full {
            DataType::Struct(fields) => {
                let name = &options.corrupt_record_column;
                let at = fields.iter().position(|field| field.name() == name);
                if let Some(at) = at {
                    if *fields[at].data_type() != DataType::Utf8 {
                        return Err(DecodeError::new(
                            "INVALID_CORRUPT_RECORD_TYPE",
                            format!("The column `{name}` for corrupt records must be a nullable STRING."),
                        ));
                    }
                    corrupt = Some((at, Column::new(&DataType::Utf8)?));
                }
                let data: Fields =
                    (fields.iter().enumerate()).filter(|(index, _)| Some(*index) != at).map(|(_, field)| field.clone()).collect();
                (Schema::new(fields.clone()), Column::new(&DataType::Struct(data))?)
            }
            other => {
                let field = Field::new("value", other.clone(), true);
                (Schema::new(vec![field]), Column::new(other)?)
            }
        };
        Ok(Self {
            options,
            schema: Arc::new(schema),
            root,
            corrupt,
            counts: Counts::default(),
            dropped: None,
            pending: 0,
            templates: Vec::new(),
            scratch: Vec::new(),
            trace: Vec::new(),
        })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows since the last flush.
    pub fn rows(&self) -> usize {
        self.root.len()
    }

    /// Bytes held by the columns since the last flush.
    pub fn memory(&self) -> usize {
        self.root.memory() + self.corrupt.as_ref().map_or(0, |(_, column)| column.memory())
    }

    /// The counts since they were last taken.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Why the record that was pushed last was left out by DROPMALFORMED; none if it was not.
    pub fn take_dropped(&mut self) -> Option<&'static str> {
        self.dropped.take()
    }

    /// The counts since they were last taken.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Decodes one record; none (a tombstone, a NULL) is a null row.
    ///
    /// # Errors
    /// A malformed record under FAILFAST, or more text than a batch can hold;
    /// the columns are as before.
    pub fn push(&mut self, record: Option<&[u8]>) -> Result<(), DecodeError> {
        let Some(record) = record else {
            self.counts.records += 1;
            self.root.append_null();
            if let Some((_, column)) = &mut self.corrupt {
                column.append_null();
            }
            return Ok(());
        };
        self.reserve(record.len())?;
        self.push_bytes(record, Encoding::Unknown)
    }

    /// Decodes one record that is known to be UTF-8.
    ///
    /// # Errors
    /// As `push`.
    #[inline]
    pub fn push_str(&mut self, record: &str) -> Result<(), DecodeError> {
        self.reserve(record.len())?;
        self.push_bytes(record.as_bytes(), Encoding::Utf8)
    }

    #[inline]
    fn push_bytes(&mut self, record: &[u8], encoding: Encoding) -> Result<(), DecodeError> {
        self.dropped = None;
        let row = self.root.len();
        let mut notes = Notes::default();
        let outcome = self.decode(record, &mut notes);
        // Bytes beyond ASCII are possible in strings only, unless names without
        // quotes or comments are accepted.
        let unchecked = notes.beyond_ascii || self.options.leniency.comments || self.options.leniency.unquoted_field_names;
        if encoding == Encoding::Unknown && unchecked && simdutf8::basic::from_utf8(record).is_err() {
            self.root.truncate(row);
            return match self.options.origin {
                Origin::Column => self.push_bytes(String::from_utf8_lossy(record).as_bytes(), Encoding::Utf8),
                Origin::File => self.malformed(record, "invalid UTF-8", row),
            };
        }
        match outcome {
            Ok(Outcome::Rows(Quality::Clean)) => {
                if let Some((_, column)) = &mut self.corrupt {
                    (row..self.root.len()).for_each(|_| column.append_null());
                }
                Ok(())
            }
            Ok(Outcome::Rows(Quality::Partial)) => self.partial(record, notes.cause, row),
            Ok(Outcome::Blank) => {
                if self.options.origin == Origin::Column {
                    self.root.append_null();
                    if let Some((_, column)) = &mut self.corrupt {
                        column.append_null();
                    }
                }
                Ok(())
            }
            Err(Fault::Syntax(cause) | Fault::Value(cause)) => self.malformed(record, cause, row),
        }
    }

    /// The rows since the last flush.
    ///
    /// # Errors
    /// Values that Arrow refuses, which the decoder does not produce.
    pub fn flush(&mut self) -> Result<RecordBatch, DecodeError> {
        let rows = self.rows();
        let array = self.root.finish()?;
        let mut columns: Vec<ArrayRef> = match array.as_any().downcast_ref::<StructArray>() {
            Some(root) => root.columns().to_vec(),
            None => vec![array],
        };
        if let Some((at, column)) = &mut self.corrupt {
            columns.insert(*at, column.finish()?);
        }
        self.pending = 0;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| DecodeError::new("INTERNAL_ERROR", error.to_string()))
    }

    /// The rows since the last flush as one column, nulls where the record was
    /// null or blank or could not become an array or map.
    ///
    /// # Errors
    /// As `flush`.
    pub fn flush_column(&mut self) -> Result<ArrayRef, DecodeError> {
        self.pending = 0;
        let array = self.root.finish()?;
        let Some((at, column)) = &mut self.corrupt else { return Ok(array) };
        let text = column.finish()?;
        let Some(root) = array.as_any().downcast_ref::<StructArray>() else { return Ok(array) };
        let mut columns = root.columns().to_vec();
        columns.insert(*at, text);
        let nulls = arrow::array::Array::nulls(root).cloned();
        Ok(Arc::new(StructArray::new(self.schema.fields().clone(), columns, nulls)))
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), DecodeError> {
        if self.pending + bytes > MAX_PENDING && self.pending > 0 || bytes > MAX_PENDING {
            return Err(DecodeError::new(
                "DECODER_BATCH_TOO_LARGE",
                format!("More than {MAX_PENDING} bytes of JSON in one batch; make batches smaller."),
            ));
        }
        self.pending += bytes;
        self.counts.records += 1;
        Ok(())
    }

    #[inline]
    fn decode(&mut self, record: &[u8], notes: &mut Notes) -> Result<Outcome, Fault> {
        let mut lexer = Lexer::new(record, self.options.leniency);
        let row = self.root.len();
        if let (Kind::Struct(target), Some(template)) = (&mut self.root.kind, self.templates.first()) {
            let mut context = Context { options: &self.options, scratch: &mut self.scratch, trace: &mut self.trace, cause: None };
            if template.apply(target, row, &mut lexer, &mut context) {
                self.root.validity.push_valid();
                self.counts.template_hits += 1;
                notes.beyond_ascii = lexer.beyond_ascii;
                return Ok(Outcome::Rows(Quality::Clean));
            }
        }
        let outcome = self.decode_any(&mut lexer, notes);
        notes.beyond_ascii = lexer.beyond_ascii;
        outcome
    }

    /// Decodes a record of any shape, and remembers its shape if it is clean.
    fn decode_any(&mut self, lexer: &mut Lexer<'_>, notes: &mut Notes) -> Result<Outcome, Fault> {
        let mut context = Context { options: &self.options, scratch: &mut self.scratch, trace: &mut self.trace, cause: None };
        let row = self.root.len();
        let is_struct = matches!(self.root.kind, Kind::Struct(_));
        lexer.skip_blank()?;
        let Some(first) = lexer.peek() else { return Ok(Outcome::Blank) };
        let quality = match first {
            b'{' if is_struct => {
                let Kind::Struct(target) = &mut self.root.kind else {
                    return Err(Fault::Value("not an object"));
                };
                context.trace.clear();
                let quality = convert::append_object::<true>(target, row, lexer, &mut context)?;
                if quality == Quality::Clean {
                    let fields = target.fields.len();
                    remember(&mut self.templates, Template::learn(lexer.bytes, lexer.pos, context.trace, fields));
                }
                self.root.validity.push_valid();
                quality
            }
            b'[' if is_struct && self.options.origin == Origin::File => rows_of_array(&mut self.root, lexer, &mut context)?,
            b'{' if !is_struct => object_or_element(&mut self.root, lexer, &mut context)?,
            b'[' if !is_struct => convert::append(&mut self.root, lexer, &mut context)?,
            _ => return Err(Fault::Value("the record is not an object")),
        };
        notes.cause = context.cause;
        Ok(Outcome::Rows(quality))
    }

    /// Rows are there, but some of their values did not fit.
    fn partial(&mut self, record: &[u8], cause: Option<&'static str>, row: usize) -> Result<(), DecodeError> {
        if self.options.mode != ParseMode::Permissive {
            return self.malformed(record, cause.unwrap_or("a value does not fit"), row);
        }
        self.counts.malformed += 1;
        let rows = row..self.root.len();
        self.corrupt_text(record, rows.len());
        Ok(())
    }

    fn malformed(&mut self, record: &[u8], cause: &'static str, row: usize) -> Result<(), DecodeError> {
        self.root.truncate(row);
        self.counts.malformed += 1;
        match self.options.mode {
            ParseMode::FailFast => Err(DecodeError::bad_record(record, cause)),
            ParseMode::DropMalformed => {
                self.counts.dropped += 1;
                self.dropped = Some(cause);
                Ok(())
            }
            ParseMode::Permissive => {
                if let Kind::Struct(inner) = &mut self.root.kind {
                    inner.fields.iter_mut().for_each(Column::append_null);
                    self.root.validity.push_valid();
                } else {
                    self.root.append_null();
                }
                self.corrupt_text(record, 1);
                Ok(())
            }
        }
    }

    fn corrupt_text(&mut self, record: &[u8], rows: usize) {
        let Some((_, column)) = &mut self.corrupt else { return };
        let text: Cow<'_, str> = String::from_utf8_lossy(record);
        for _ in 0..rows {
            if let Kind::Text(out) = &mut column.kind {
                out.push(text.as_bytes());
                column.validity.push_valid();
            }
        }
    }
}

/// Puts a shape first; the least recently learnt makes room.
fn remember(templates: &mut Vec<Template>, learnt: Option<Template>) {
    let Some(template) = learnt else { return };
    match templates.iter().position(|known| *known == template) {
        Some(at) => templates[..=at].rotate_right(1),
        None => {
            templates.truncate(MAX_TEMPLATES - 1);
            templates.insert(0, template);
        }
    }
}

/// A top-level array: one row per object in it.
fn rows_of_array(root: &mut Column, lexer: &mut Lexer<'_>, context: &mut Context<'_>) -> Result<Quality, Fault> {
    let mut quality = Quality::Clean;
    lexer.open()?;
    if lexer.close(b']')? {
        return Ok(quality);
    }
    loop {
        if lexer.value_start()? == b'n' {
            return Err(Fault::Value("an element of the top-level array is null"));
        }
        quality = quality.and(convert::append(root, lexer, context)?);
        if !lexer.more(b']')? {
            return Ok(quality);
        }
    }
}

/// An object for a map, or for an array of structs, where it counts as the
/// only element.
fn object_or_element(root: &mut Column, lexer: &mut Lexer<'_>, context: &mut Context<'_>) -> Result<Quality, Fault> {
    let Kind::List { offsets, items } = &mut root.kind else {
        return convert::append(root, lexer, context);
    };
    if !matches!(items.kind, Kind::Struct(_)) {
        return Err(Fault::Value("not an array"));
    }
    let quality = convert::append(items, lexer, context)?;
    offsets.push(items.len() as i32);
    root.validity.push_valid();
    Ok(quality)
}
