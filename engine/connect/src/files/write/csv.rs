//! CSV records as Spark writes them (`UnivocityGenerator`).
//!
//! Values are trimmed by default; those with the separator, a line end, a quote
//! or a leading `#` are quoted, escapes inside quotes doubled; empty text is
//! `""` and null is nothing. A record without any text is left out.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Date32Type, TimestampMicrosecondType};
use arrow::record_batch::RecordBatch;
use weir_core::{Error, Result};
use weir_decode::DecodeError;
use weir_decode::pattern::{DatePattern, Purpose as PatternPurpose};
use weir_decode::time::Zone;

use super::encode::Lines;
use crate::files::read::csv::options::{character, unescape};
use crate::files::read::options::option_error;
use crate::options::Options;
use crate::render::{Purpose, render};

/// Options of the CSV writer.
#[derive(Clone, Debug)]
pub struct CsvWriteOptions {
    separator: String,
    quote: Option<char>,
    escape: Option<char>,
    escape_escape: Option<char>,
    comment: Option<char>,
    header: bool,
    quoting: Quoting,
    trim_leading: bool,
    trim_trailing: bool,
    null_value: String,
    empty_value: String,
    timestamp: DatePattern,
    timestamp_ntz: DatePattern,
    date: DatePattern,
    zone: Zone,
}

/// Which values are quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quoting {
    All,
    Needed,
    /// `escapeQuotes` off: a quote alone is no reason.
    NeededExceptQuotes,
}

impl CsvWriteOptions {
    /// Reads the options.
    pub fn parse(options: &Options, session_zone: Zone) -> Result<Self> {
        let one = |name: &str, default: Option<char>| character(options, name, default).map(|byte| byte.map(char::from));
        let quote = one("quote", Some('"'))?;
        let escape = one("escape", Some('\\'))?;
        let escape_escape = match options.get("charToEscapeQuoteEscaping") {
            Some(_) => one("charToEscapeQuoteEscaping", None)?,
            None if quote == escape => None,
            None => escape,
        };
        let quoting = match (options.flag("quoteAll", false)?, options.flag("escapeQuotes", true)?) {
            (true, _) => Quoting::All,
            (false, true) => Quoting::Needed,
            (false, false) => Quoting::NeededExceptQuotes,
        };
        let pattern = |name: &str, default: &str| {
            DatePattern::parse(options.get(name).unwrap_or(default), PatternPurpose::Format).map_err(|e| option_error(&e))
        };
        let zone = match options.get("timeZone") {
            None => session_zone,
            Some(text) => Zone::parse(text).ok_or_else(|| crate::options::invalid("timeZone", text, "must be a time zone"))?,
        };
        Ok(Self {
            separator: unescape(options.first(&["sep", "delimiter"]).unwrap_or(",")),
            quote,
            escape,
            escape_escape,
            comment: one("comment", Some('#'))?,
            header: options.flag("header", false)?,
            quoting,
            trim_leading: options.flag("ignoreLeadingWhiteSpace", true)?,
            trim_trailing: options.flag("ignoreTrailingWhiteSpace", true)?,
            null_value: options.get("nullValue").unwrap_or("").to_owned(),
            empty_value: options.get("emptyValue").unwrap_or("\"\"").to_owned(),
            timestamp: pattern("timestampFormat", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]")?,
            timestamp_ntz: pattern("timestampNTZFormat", "yyyy-MM-dd'T'HH:mm:ss[.SSS]")?,
            date: pattern("dateFormat", "yyyy-MM-dd")?,
            zone,
        })
    }

    /// The text of a value before quoting; none for null.
    fn text(&self, column: &ArrayRef, row: usize) -> Result<Option<String>, DecodeError> {
        if column.is_null(row) {
            return Ok(None);
        }
        let text = match column.data_type() {
            DataType::Timestamp(_, Some(_)) => {
                self.timestamp.format_instant(column.as_primitive::<TimestampMicrosecondType>().value(row), &self.zone)?
            }
            DataType::Timestamp(_, None) => {
                self.timestamp_ntz.format_local(column.as_primitive::<TimestampMicrosecondType>().value(row))?
            }
            DataType::Date32 => self.date.format_days(column.as_primitive::<Date32Type>().value(row))?,
            _ => {
                let mut text = String::new();
                render(column.as_ref(), row, &self.zone, Purpose::Show, &mut text);
                text
            }
        };
        Ok(Some(text))
    }

    fn record<'t>(&self, values: impl Iterator<Item = Option<&'t str>>, out: &mut String) {
        for (at, value) in values.enumerate() {
            if at > 0 {
                out.push_str(&self.separator);
            }
            self.value(value, out);
        }
    }

    fn value(&self, value: Option<&str>, out: &mut String) {
        let Some(text) = value else {
            match self.quoting {
                Quoting::All if self.null_value.is_empty() => out.push_str(&self.empty_value),
                Quoting::All => self.quoted(&self.null_value, out),
                _ => out.push_str(&self.null_value),
            }
            return;
        };
        let blank = |c: char| c <= ' ';
        let text = if self.trim_leading { text.trim_start_matches(blank) } else { text };
        let text = if self.trim_trailing { text.trim_end_matches(blank) } else { text };
        if text.is_empty() {
            out.push_str(&self.empty_value);
        } else if self.needs_quotes(text) {
            self.quoted(text, out);
        } else {
            out.push_str(text);
        }
    }

    fn needs_quotes(&self, text: &str) -> bool {
        let special = || {
            text.contains(&self.separator) || text.contains(['\n', '\r']) || text.chars().next() == self.comment && self.comment.is_some()
        };
        let has_quote = || self.quote.is_some_and(|quote| text.contains(quote));
        match self.quoting {
            Quoting::All => true,
            Quoting::Needed => special() || has_quote(),
            Quoting::NeededExceptQuotes => special(),
        }
    }

    fn quoted(&self, text: &str, out: &mut String) {
        let Some(quote) = self.quote else {
            out.push_str(text);
            return;
        };
        out.push(quote);
        for c in text.chars() {
            if c == quote {
                out.extend(self.escape);
            } else if Some(c) == self.escape {
                out.extend(self.escape_escape);
            }
            out.push(c);
        }
        out.push(quote);
    }
}

/// Writes the records of one file.
pub struct CsvWriter {
    options: CsvWriteOptions,
    separator: String,
    header_pending: bool,
}

impl CsvWriter {
    /// A writer at the beginning of a file.
    pub fn new(options: &CsvWriteOptions, line_separator: &str) -> Self {
        Self { header_pending: options.header, options: options.clone(), separator: line_separator.to_owned() }
    }
}

impl Lines for CsvWriter {
    fn append(&mut self, rows: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let mut text = String::new();
        if std::mem::take(&mut self.header_pending) {
            let schema = rows.schema();
            self.options.record(schema.fields().iter().map(|field| Some(field.name().as_str())), &mut text);
            text.push_str(&self.separator);
        }
        for row in 0..rows.num_rows() {
            let values: Result<Vec<Option<String>>, DecodeError> =
                rows.columns().iter().map(|column| self.options.text(column, row)).collect();
            let values = values.map_err(|e| Error::config(e.condition().to_owned(), e.message().to_owned()))?;
            let before = text.len();
            self.options.record(values.iter().map(Option::as_deref), &mut text);
            if text.len() > before {
                text.push_str(&self.separator);
            }
        }
        out.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn write(options: &[(&str, &str)], values: &[Option<&str>]) -> String {
        let options = CsvWriteOptions::parse(&Options::new(options.iter().copied()), Zone::UTC).unwrap();
        let mut out = String::new();
        options.record(values.iter().copied(), &mut out);
        out
    }

    // Each line was written by Spark 4.2.
    #[test]
    fn values_are_quoted_as_in_spark() {
        assert_eq!(write(&[], &[Some("a,b"), Some("x\"y")]), r#""a,b","x\"y""#);
        assert_eq!(write(&[], &[Some(" lead"), Some("trail ")]), "lead,trail");
        assert_eq!(write(&[], &[Some(""), Some("n")]), "\"\",n");
        assert_eq!(write(&[], &[None, Some("\n")]), ",\"\"");
        assert_eq!(write(&[], &[Some("q\""), Some("back\\slash")]), "\"q\\\"\",back\\slash");
        assert_eq!(write(&[], &[Some("#c"), Some("it's")]), "\"#c\",it's");
        assert_eq!(write(&[], &[Some("a\\\"b"), Some("\\")]), r#""a\\\"b",\"#);
        assert_eq!(write(&[("escape", "\"")], &[Some("x\"y"), Some("a\\\"b")]), r#""x""y","a\""b""#);
        assert_eq!(write(&[("escapeQuotes", "false")], &[Some("x\"y"), Some("a,b")]), r#"x"y,"a,b""#);
        assert_eq!(write(&[("quoteAll", "true")], &[None, Some("back\\slash")]), r#""","back\\slash""#);
        let kept =
            [("ignoreLeadingWhiteSpace", "false"), ("ignoreTrailingWhiteSpace", "false"), ("nullValue", "NULL"), ("emptyValue", "E")];
        assert_eq!(write(&kept, &[None, Some("\n"), Some(""), Some(" a ")]), "NULL,\"\n\",E, a ");
    }
}
