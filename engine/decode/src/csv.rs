//! CSV records to rows under a mode, and rows to CSV records.
//!
//! Fields are split by csv-core with Spark's defaults (comma, double quote,
//! backslash as escape); values follow `Column::append_text`. A field that
//! does not fit is null and a record with too few or too many fields keeps
//! those that are there; both count as malformed. Source: UnivocityParser and
//! UnivocityGenerator of Spark's catalyst.

use crate::column::{Column, Kind, nullable};
use crate::error::DecodeError;
use crate::json::Counts;
use crate::options::{ParseMode, parse_mode};
use crate::text::Formats;
use crate::time::Zone;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use csv_core::ReadRecordResult;
use std::sync::Arc;

/// Options of a CSV reader.
#[derive(Clone, Debug)]
pub struct CsvOptions {
    /// `sep`.
    pub separator: u8,
    /// `quote`; none reads quotes as text.
    pub quote: Option<u8>,
    /// `escape`.
    pub escape: Option<u8>,
    /// `comment`: lines that begin with it are skipped by the file source.
    pub comment: Option<u8>,
    /// `nullValue`.
    pub null_value: String,
    /// `nanValue`.
    pub nan_value: String,
    /// `positiveInf`.
    pub positive_inf: String,
    /// `negativeInf`.
    pub negative_inf: String,
    /// `ignoreLeadingWhiteSpace`.
    pub ignore_leading_white_space: bool,
    /// `ignoreTrailingWhiteSpace`.
    pub ignore_trailing_white_space: bool,
    /// `mode`.
    pub mode: ParseMode,
    /// `columnNameOfCorruptRecord`; filled only if the schema has the column.
    pub corrupt_record_column: String,
    /// Zone and patterns.
    pub formats: Formats,
}

impl CsvOptions {
    /// Spark's defaults.
    pub fn new(zone: Zone) -> Self {
        Self {
            separator: b',',
            quote: Some(b'"'),
            escape: Some(b'\\'),
            comment: None,
            null_value: String::new(),
            nan_value: "NaN".to_owned(),
            positive_inf: "Inf".to_owned(),
            negative_inf: "-Inf".to_owned(),
            ignore_leading_white_space: false,
            ignore_trailing_white_space: false,
            mode: ParseMode::Permissive,
            corrupt_record_column: "_corrupt_record".to_owned(),
            formats: Formats::iso(zone),
        }
    }

    /// Reads the options it knows from name-value pairs; others are ignored.
    ///
    /// # Errors
    /// A value that the option cannot have.
    pub fn parse<'a>(session_zone: Zone, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, DecodeError> {
        let mut options = Self::new(session_zone);
        let (mut timestamp, mut timestamp_ntz, mut date) = (None, None, None);
        for (name, value) in pairs {
            let flag = || match value.to_ascii_lowercase().as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(DecodeError::option(name, value, "true or false")),
            };
            let byte = || match value {
                "\\t" => Ok(Some(b'\t')),
                "\\\\" => Ok(Some(b'\\')),
                "" | "\u{0}" => Ok(None),
                one if one.len() == 1 => Ok(one.bytes().next()),
                _ => Err(DecodeError::option(name, value, "one ASCII character")),
            };
            match name.to_ascii_lowercase().as_str() {
                "sep" | "delimiter" => {
                    options.separator = byte()?.ok_or_else(|| DecodeError::option(name, value, "one ASCII character"))?;
                }
                "quote" => options.quote = byte()?,
                "escape" => options.escape = byte()?,
                "comment" => options.comment = byte()?,
                "nullvalue" => options.null_value = value.to_owned(),
                "nanvalue" => options.nan_value = value.to_owned(),
                "positiveinf" => options.positive_inf = value.to_owned(),
                "negativeinf" => options.negative_inf = value.to_owned(),
                "ignoreleadingwhitespace" => options.ignore_leading_white_space = flag()?,
                "ignoretrailingwhitespace" => options.ignore_trailing_white_space = flag()?,
                "mode" => options.mode = parse_mode(value),
                "columnnameofcorruptrecord" => options.corrupt_record_column = value.to_owned(),
                "timestampformat" => timestamp = Some(value),
                "timestampntzformat" => timestamp_ntz = Some(value),
                "dateformat" => date = Some(value),
                "timezone" => {
                    options.formats.zone = Zone::parse(value).ok_or_else(|| DecodeError::option(name, value, "a time zone id"))?;
                }
                _ => {}
            }
        }
        options.formats = Formats::new(options.formats.zone, timestamp, timestamp_ntz, date)?;
        Ok(options)
    }
}

/// CSV records to Arrow columns.
#[derive(Debug)]
pub struct CsvDecoder {
    options: CsvOptions,
    schema: SchemaRef,
    columns: Vec<Column>,
    corrupt: Option<usize>,
    rows: usize,
    counts: Counts,
    /// Why the last record was left out, if it was.
    dropped: Option<&'static str>,
    fields: Fields,
    nulls: Vec<bool>,
}

/// One record split into fields.
#[derive(Debug, Default)]
struct Fields {
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl CsvDecoder {
    /// A decoder into the rows of a schema; every field becomes nullable.
    ///
    /// # Errors
    /// A column type that CSV cannot hold.
    pub fn new(schema: &SchemaRef, options: CsvOptions) -> Result<Self, DecodeError> {
        let full = nullable(&DataType::Struct(schema.fields().clone()));
        let DataType::Struct(fields) = full else {
            return Err(DecodeError::new("INTERNAL_ERROR", "a schema is a struct"));
        };
        let columns = fields.iter().map(|field| Column::new(field.data_type())).collect::<Result<Vec<_>, _>>()?;
        let nested =
            columns.iter().position(|c| matches!(c.kind, Kind::List { .. } | Kind::Map { .. } | Kind::Struct(_) | Kind::Binary(_)));
        if let Some(at) = nested {
            return Err(DecodeError::new(
                "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
                format!("The CSV datasource doesn't support the column `{}` of the type {}.", fields[at].name(), fields[at].data_type()),
            ));
        }
        let corrupt = fields.iter().position(|field| *field.name() == options.corrupt_record_column);
        Ok(Self {
            options,
            schema: Arc::new(Schema::new(fields)),
            columns,
            corrupt,
            rows: 0,
            counts: Counts::default(),
            dropped: None,
            fields: Fields::default(),
            nulls: Vec::new(),
        })
    }

    /// Rows since the last flush.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes held by the columns since the last flush.
    pub fn memory(&self) -> usize {
        self.columns.iter().map(Column::memory).sum()
    }

    /// The counts since they were last taken.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Why the record that was pushed last was left out by DROPMALFORMED; none if it was not.
    pub fn take_dropped(&mut self) -> Option<&'static str> {
        self.dropped.take()
    }

    /// A row of nulls for a record that is null.
    pub fn push_null(&mut self) {
        self.counts.records += 1;
        self.columns.iter_mut().for_each(Column::append_null);
        self.rows += 1;
        self.nulls.push(true);
    }

    /// Decodes one record without its line end; quoted line ends are text.
    ///
    /// # Errors
    /// A malformed record under FAILFAST; the columns are as before.
    pub fn push(&mut self, record: &str) -> Result<(), DecodeError> {
        self.counts.records += 1;
        self.dropped = None;
        let mut reader = csv_core::ReaderBuilder::new();
        reader.delimiter(self.options.separator).double_quote(true).escape(self.options.escape);
        match self.options.quote {
            Some(quote) => reader.quote(quote),
            None => reader.quoting(false),
        };
        self.fields.split(&mut reader.build(), record.as_bytes());
        let row = self.rows;
        let wanted = self.columns.len() - usize::from(self.corrupt.is_some());
        let mut cause = (self.fields.count != wanted).then_some("the number of fields is not that of the schema");
        let mut at = 0;
        for (index, column) in self.columns.iter_mut().enumerate() {
            if Some(index) == self.corrupt {
                continue;
            }
            if !append(column, self.fields.get(at), &self.options) {
                column.append_null();
                cause = cause.or(Some("a field does not fit its type"));
            }
            at += 1;
        }
        if let Some(cause) = cause {
            self.counts.malformed += 1;
            if self.options.mode != ParseMode::Permissive {
                self.columns.iter_mut().for_each(|column| column.truncate(row));
                if self.options.mode == ParseMode::FailFast {
                    return Err(DecodeError::bad_record(record.as_bytes(), cause));
                }
                self.counts.dropped += 1;
                self.dropped = Some(cause);
                return Ok(());
            }
        }
        if let Some(column) = self.corrupt.map(|index| &mut self.columns[index])
            && (cause.is_none() || !column.append_text(record, &self.options.formats))
        {
            column.append_null();
        }
        self.rows += 1;
        self.nulls.push(false);
        Ok(())
    }

    /// The rows since the last flush.
    ///
    /// # Errors
    /// Values that Arrow refuses, which the decoder does not produce.
    pub fn flush(&mut self) -> Result<RecordBatch, DecodeError> {
        let columns = self.columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        self.nulls.clear();
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| DecodeError::new("INTERNAL_ERROR", error.to_string()))
    }

    /// The rows since the last flush as one column, null where `push_null` was called.
    ///
    /// # Errors
    /// As `flush`.
    pub fn flush_column(&mut self) -> Result<ArrayRef, DecodeError> {
        let valid: Vec<bool> = self.nulls.iter().map(|null| !null).collect();
        let batch = self.flush()?;
        Ok(Arc::new(StructArray::new(batch.schema().fields().clone(), batch.columns().to_vec(), Some(valid.into()))))
    }
}

/// False, and nothing appended, if the field does not fit.
fn append(column: &mut Column, field: Option<&[u8]>, options: &CsvOptions) -> bool {
    let Some(text) = field.and_then(|bytes| std::str::from_utf8(bytes).ok()) else {
        column.append_null();
        return true;
    };
    let text = if options.ignore_leading_white_space { text.trim_start() } else { text };
    let text = if options.ignore_trailing_white_space { text.trim_end() } else { text };
    if text == options.null_value {
        column.append_null();
        return true;
    }
    let text = match column.kind {
        Kind::Float32(_) | Kind::Float64(_) if text == options.nan_value => "NaN",
        Kind::Float32(_) | Kind::Float64(_) if text == options.positive_inf => "Infinity",
        Kind::Float32(_) | Kind::Float64(_) if text == options.negative_inf => "-Infinity",
        _ => text,
    };
    column.append_text(text, &options.formats)
}

impl Fields {
    fn split(&mut self, reader: &mut csv_core::Reader, record: &[u8]) {
        self.text.resize(record.len().max(64), 0);
        self.ends.resize(self.ends.len().max(16), 0);
        let (mut input, mut written, mut count) = (record, 0, 0);
        loop {
            let (result, read, out, ends) = reader.read_record(input, &mut self.text[written..], &mut self.ends[count..]);
            input = &input[read..];
            written += out;
            count += ends;
            match result {
                ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                // An empty input tells csv-core that the record is over.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record | ReadRecordResult::End => break,
            }
        }
        self.count = count;
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        if index >= self.count {
            return None;
        }
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.text.get(start..self.ends[index])
    }
}

/// Appends one record without its line end: fields are quoted where they hold
/// the separator, a quote or a line end, and empty ones are `""`; nulls are empty.
pub fn write_record<'f>(fields: impl IntoIterator<Item = Option<&'f str>>, separator: char, out: &mut String) {
    for (index, field) in fields.into_iter().enumerate() {
        if index > 0 {
            out.push(separator);
        }
        let Some(text) = field else { continue };
        let special = |c: char| c == separator || matches!(c, '"' | '\n' | '\r');
        if text.is_empty() || text.contains(special) {
            out.push('"');
            for c in text.chars() {
                if matches!(c, '"' | '\\') {
                    out.push('\\');
                }
                out.push(c);
            }
            out.push('"');
        } else {
            out.push_str(text);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::datatypes::Field;
    use arrow::util::display::array_value_to_string;

    fn rows(mode: ParseMode, records: &[&str]) -> Vec<String> {
        let fields = [("a", DataType::Int32), ("b", DataType::Utf8), ("_corrupt_record", DataType::Utf8)];
        let fields: Vec<Field> = fields.into_iter().map(|(n, t)| Field::new(n, t, true)).collect();
        let mut options = CsvOptions::new(Zone::UTC);
        options.mode = mode;
        let mut decoder = CsvDecoder::new(&Arc::new(Schema::new(fields)), options).unwrap();
        records.iter().for_each(|record| decoder.push(record).unwrap());
        let batch = decoder.flush().unwrap();
        let cell = |c: &ArrayRef, row| if c.is_null(row) { "NULL".into() } else { array_value_to_string(c, row).unwrap() };
        (0..batch.num_rows()).map(|row| batch.columns().iter().map(|c| cell(c, row)).collect::<Vec<_>>().join("|")).collect()
    }

    #[test]
    fn fields_follow_spark() {
        let found = rows(ParseMode::Permissive, &["1,abc", "x,abc", r#"1,"a,b""#, r#"2,"say \"hi\"""#, "3", "4,d,e", ",", "5,"]);
        let expected =
            ["1|abc|NULL", "NULL|abc|x,abc", "1|a,b|NULL", "2|say \"hi\"|NULL", "3|NULL|3", "4|d|4,d,e", "NULL|NULL|NULL", "5|NULL|NULL"];
        assert_eq!(found, expected);
        assert_eq!(rows(ParseMode::DropMalformed, &["1,a", "x,a"]), ["1|a|NULL"]);
    }

    #[test]
    fn records_are_quoted_where_needed() {
        let mut out = String::new();
        write_record([Some("1"), Some("x,y"), None, Some(""), Some("a\"b")], ',', &mut out);
        assert_eq!(out, r#"1,"x,y",,"","a\"b""#);
    }
}
