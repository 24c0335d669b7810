//! CSV records to rows, as Spark's `UnivocityParser` and its failure modes do.
//!
//! Columns go by position in the data schema. A field that does not fit its
//! type is null and makes the record malformed; so does a wrong number of
//! fields, but only while every column is read (a scan of fewer columns does
//! not look at the others, as Spark's column pruning; one that reads the
//! corrupt-record column reads all). Lines without text and
//! comments are no records.

pub mod options;
pub mod tokens;

use arrow::array::{ArrayRef, StringBuilder};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use weir_core::{Error, Result};
use weir_decode::spark_type::spark_field_type_name;
use weir_decode::{Column, ParseMode};

pub use options::CsvOptions;
use options::{Header, HeaderNames};
use tokens::{Field, Fields};

use super::frame::Framing;
use super::text::{Fate, RowDecoder};
use super::{corrupt_file, decode_failed, internal};

/// Decodes the records of one file.
pub struct CsvDecoder {
    options: CsvOptions,
    /// Names of all data columns by position.
    names: Vec<String>,
    wanted: SchemaRef,
    columns: Vec<Wanted>,
    fields: Fields,
    rows: usize,
    bytes: usize,
    malformed: u64,
    header_pending: bool,
    check_count: bool,
    uri: String,
}

enum Wanted {
    Value { at: usize, column: Column, is_float: bool },
    Corrupt(StringBuilder),
}

/// Whether a record is as its schema says.
enum Quality {
    Good,
    Malformed(String),
}

impl CsvDecoder {
    /// A decoder of `wanted` columns out of `data`.
    pub fn new(options: &CsvOptions, data: &SchemaRef, wanted: &SchemaRef, uri: &str) -> Result<Self> {
        let is_corrupt = |name: &str| name == options.corrupt_column;
        let names: Vec<String> = data.fields().iter().map(|f| f.name().clone()).filter(|name| !is_corrupt(name)).collect();
        let mut columns = Vec::new();
        for field in wanted.fields() {
            if is_corrupt(field.name()) && *field.data_type() == DataType::Utf8 {
                columns.push(Wanted::Corrupt(StringBuilder::new()));
                continue;
            }
            let at = names.iter().position(|name| name == field.name()).unwrap_or(usize::MAX);
            if field.data_type().is_nested() {
                let kind = spark_field_type_name(field);
                let text = format!("The CSV datasource doesn't support the column `{}` of the type \"{kind}\".", field.name());
                return Err(Error::config("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", text));
            }
            let column = Column::new(field.data_type()).map_err(|e| decode_failed(&e, uri))?;
            let is_float = matches!(field.data_type(), DataType::Float32 | DataType::Float64);
            columns.push(Wanted::Value { at, column, is_float });
        }
        let values = columns.iter().filter(|column| matches!(column, Wanted::Value { .. })).count();
        Ok(Self {
            check_count: values == names.len() || values < columns.len(),
            header_pending: options.header == Header::First,
            options: options.clone(),
            names,
            wanted: wanted.clone(),
            columns,
            fields: Fields::default(),
            rows: 0,
            bytes: 0,
            malformed: 0,
            uri: uri.to_owned(),
        })
    }

    fn is_record(&self, record: &str) -> bool {
        let comment = self.options.rules.quotes.comment;
        if comment.is_some_and(|comment| record.as_bytes().first() == Some(&comment)) {
            return false;
        }
        match self.options.framing {
            Framing::Quoted(_) => !record.is_empty(),
            _ => record.chars().any(|c| c > ' '),
        }
    }

    fn check_header(&self, record: &str) -> Result<()> {
        if self.options.names == HeaderNames::Ignored {
            return Ok(());
        }
        let header: Vec<&str> = (0..self.fields.count())
            .filter_map(|at| match self.fields.get(at) {
                Some(Field::Bare(text) | Field::Quoted(text)) => Some(text),
                _ => None,
            })
            .collect();
        let same = header.len() == self.names.len() && header.iter().zip(&self.names).all(|(a, b)| a.eq_ignore_ascii_case(b));
        if same {
            return Ok(());
        }
        Err(corrupt_file(
            &self.uri,
            format!(
                "CSV header does not conform to the schema. Header: {record} Schema: {}; correct the schema or set the option enforceSchema to true",
                self.names.join(", ")
            ),
        ))
    }

    /// The text of a field, or none for null.
    fn value(&self, at: usize) -> Option<&str> {
        let text = match self.fields.get(at)? {
            Field::Skipped => return None,
            Field::Bare("") => self.options.null_value.as_str(),
            Field::Quoted("") => self.options.empty_value.as_str(),
            Field::Bare(text) | Field::Quoted(text) => text,
        };
        (text != self.options.null_value).then_some(text)
    }

    fn append(&mut self) -> Quality {
        let count = self.fields.count();
        let mut quality = Quality::Good;
        if self.check_count && count != self.names.len() {
            quality = Quality::Malformed(format!("it has {count} fields, the schema has {}", self.names.len()));
        }
        if self.fields.broken {
            quality = Quality::Malformed("it has a quote inside a quoted field".to_owned());
        }
        let mut columns = std::mem::take(&mut self.columns);
        let mut bytes = 0;
        for wanted in &mut columns {
            let Wanted::Value { at, column, is_float } = wanted else { continue };
            let Some(text) = self.value(*at) else {
                column.append_null();
                continue;
            };
            bytes += text.len() + 8;
            let text = if *is_float { self.special(text) } else { text };
            let too_long = self.options.max_chars.is_some_and(|most| text.chars().count() > most);
            if too_long || !column.append_text(text, &self.options.formats) {
                column.append_null();
                if matches!(quality, Quality::Good) {
                    let name = self.names.get(*at).map_or("", String::as_str);
                    quality = Quality::Malformed(format!("the value '{text}' does not fit the column {name}"));
                }
            }
        }
        self.columns = columns;
        self.bytes += bytes;
        quality
    }

    fn special<'a>(&self, text: &'a str) -> &'a str {
        let special = &self.options.special;
        match text {
            text if text == special.nan => "NaN",
            text if text == special.positive => "Infinity",
            text if text == special.negative => "-Infinity",
            text => text,
        }
    }

    fn push_text(&mut self, record: &str) -> Result<Fate> {
        if !self.is_record(record) {
            return Ok(Fate::Taken);
        }
        self.fields.split(record, &self.options.rules);
        if self.fields.count() > self.options.max_columns {
            let most = self.options.max_columns;
            return Err(corrupt_file(&self.uri, format!("a record has more than {most} columns; raise the option maxColumns")));
        }
        if self.header_pending {
            self.header_pending = false;
            return self.check_header(record).map(|()| Fate::Taken);
        }
        let quality = self.append();
        let malformed = match quality {
            Quality::Good => false,
            Quality::Malformed(why) => {
                self.malformed += 1;
                match self.options.mode {
                    ParseMode::Permissive => true,
                    ParseMode::DropMalformed => {
                        self.truncate();
                        return Ok(Fate::Dropped(why.into()));
                    }
                    ParseMode::FailFast => {
                        self.truncate();
                        return Err(malformed_record(record, &why, &self.uri));
                    }
                }
            }
        };
        for wanted in &mut self.columns {
            if let Wanted::Corrupt(text) = wanted {
                text.append_option(malformed.then_some(record));
            }
        }
        self.rows += 1;
        Ok(Fate::Taken)
    }

    fn truncate(&mut self) {
        let rows = self.rows;
        for wanted in &mut self.columns {
            if let Wanted::Value { column, .. } = wanted {
                column.truncate(rows);
            }
        }
    }
}

/// The error of a malformed record under FAILFAST.
fn malformed_record(record: &str, why: &str, uri: &str) -> Error {
    let shown: String = record.chars().take(200).collect();
    Error::config(
        "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
        format!(
            "Malformed record `{shown}` in {uri}: {why}. The parse mode is FAILFAST; to read bad values as NULL, set the option mode to PERMISSIVE."
        ),
    )
}

impl RowDecoder for CsvDecoder {
    fn push(&mut self, record: &[u8]) -> Result<Fate> {
        match std::str::from_utf8(record) {
            Ok(text) => self.push_text(text),
            Err(_) => self.push_text(&String::from_utf8_lossy(record)),
        }
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
        let uri = &self.uri;
        let columns: Result<Vec<ArrayRef>> = self
            .columns
            .iter_mut()
            .map(|wanted| match wanted {
                Wanted::Value { column, .. } => column.finish().map_err(|e| decode_failed(&e, uri)),
                Wanted::Corrupt(text) => Ok(std::sync::Arc::new(text.finish()) as ArrayRef),
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.wanted.clone(), columns?, &options).map_err(|e| internal("build CSV rows", e))
    }

    fn malformed(&self) -> u64 {
        self.malformed
    }
}
