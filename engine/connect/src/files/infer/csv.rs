//! Names and types of CSV columns (Spark's `CSVInferSchema`).
//!
//! Names come from the header of the first file, else `_c0`, `_c1`, ...; all
//! columns are strings unless `inferSchema` is on, which finds the narrowest of
//! int, bigint, double, date, timestamp, boolean and string for all values.

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::files::read::csv::CsvOptions;
use crate::files::read::csv::options::Header;
use crate::files::read::csv::tokens::{Field as Token, Fields};
use crate::files::read::frame::Framing;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Null,
    Int,
    Long,
    Double,
    Date,
    Timestamp,
    Boolean,
    Text,
}

/// What records have been so far.
pub struct Inferred<'a> {
    options: &'a CsvOptions,
    names: Option<Vec<String>>,
    types: Vec<Type>,
    tokens: Fields,
    header_pending: bool,
}

impl<'a> Inferred<'a> {
    /// Nothing seen.
    pub fn new(options: &'a CsvOptions) -> Self {
        Self { options, names: None, types: Vec::new(), tokens: Fields::default(), header_pending: false }
    }

    /// The next record is the first of a file.
    pub fn begin_file(&mut self) {
        self.header_pending = self.options.header == Header::First;
    }

    /// Looks at a record.
    pub fn add(&mut self, record: &[u8]) {
        let record = String::from_utf8_lossy(record);
        let comment = self.options.rules.quotes.comment;
        let blank = match self.options.framing {
            Framing::Quoted(_) => record.is_empty(),
            _ => record.chars().all(|c| c <= ' '),
        };
        if blank || comment.is_some_and(|comment| record.as_bytes().first() == Some(&comment)) {
            return;
        }
        self.tokens.split(&record, &self.options.rules);
        if self.names.is_none() {
            let header = self.header_pending;
            let name = |at: usize| match self.tokens.get(at) {
                Some(Token::Bare(text) | Token::Quoted(text)) if header && !text.is_empty() => text.to_owned(),
                _ => format!("_c{at}"),
            };
            let names: Vec<String> = (0..self.tokens.count()).map(name).collect();
            self.types = vec![Type::Null; names.len()];
            self.names = Some(unique(names));
        }
        if std::mem::take(&mut self.header_pending) || !self.options.infer_types {
            return;
        }
        for at in 0..self.types.len() {
            let text = match self.tokens.get(at) {
                Some(Token::Bare(text) | Token::Quoted(text)) if !text.is_empty() && text != self.options.null_value => text.to_owned(),
                _ => continue,
            };
            self.types[at] = widen(self.types[at], self.type_of(&text));
        }
    }

    fn type_of(&self, text: &str) -> Type {
        let special = &self.options.special;
        if text.parse::<i32>().is_ok() {
            Type::Int
        } else if text.parse::<i64>().is_ok() {
            Type::Long
        } else if text.parse::<f64>().is_ok_and(|value| value.is_finite())
            || [&special.nan, &special.positive, &special.negative].iter().any(|s| *s == text)
        {
            Type::Double
        } else if text.len() >= 8 && !text.contains(':') && self.options.formats.date(text.as_bytes()).is_some() {
            Type::Date
        } else if text.len() >= 8 && self.options.formats.timestamp(text.as_bytes()).is_some() {
            Type::Timestamp
        } else if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            Type::Boolean
        } else {
            Type::Text
        }
    }

    /// The columns of all records so far.
    pub fn fields(&self) -> Vec<Field> {
        let names = self.names.clone().unwrap_or_default();
        names.into_iter().zip(&self.types).map(|(name, found)| Field::new(name, data_type(*found), true)).collect()
    }
}

/// Columns of the same name get their position appended, as in Spark.
fn unique(names: Vec<String>) -> Vec<String> {
    let lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    let twice = |at: usize| lower.iter().filter(|name| **name == lower[at]).count() > 1;
    names.iter().enumerate().map(|(at, name)| if twice(at) { format!("{name}{at}") } else { name.clone() }).collect()
}

fn widen(a: Type, b: Type) -> Type {
    use Type::{Date, Double, Int, Long, Null, Text, Timestamp};
    match (a, b) {
        (a, b) if a == b => a,
        (Null, other) | (other, Null) => other,
        (Int, Long) | (Long, Int) => Long,
        (Int | Long, Double) | (Double, Int | Long) => Double,
        (Date, Timestamp) | (Timestamp, Date) => Timestamp,
        _ => Text,
    }
}

fn data_type(found: Type) -> DataType {
    match found {
        Type::Int => DataType::Int32,
        Type::Long => DataType::Int64,
        Type::Double => DataType::Float64,
        Type::Date => DataType::Date32,
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Type::Boolean => DataType::Boolean,
        Type::Null | Type::Text => DataType::Utf8,
    }
}
