//! Text to dates and timestamps: `to_timestamp`, `to_date`, `unix_timestamp`.
//!
//! Without a pattern these are casts, which the caller of the kernel makes.
//! Source: ParseToTimestamp, ParseToDate, ToTimestamp of Spark's catalyst.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Date32Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::Result;
use weir_core::Error;
use weir_decode::DecodeError;
use weir_decode::pattern::{DatePattern, Purpose};

use super::calendar;
use crate::cast::{Cast, CastMode, cast_array};
use crate::planned::{Arg, Planned, Session, at, each, planning, primitive, running, some, strings, text_at, wrong_count};
use crate::types::{timestamp, timestamp_ntz};
use crate::udf::Rows;

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    let target = match name {
        "to_timestamp" | "to_timestamp_ltz" | "try_to_timestamp" => timestamp(),
        "to_timestamp_ntz" => timestamp_ntz(),
        "to_date" | "try_to_date" => DataType::Date32,
        "unix_timestamp" | "to_unix_timestamp" => DataType::Int64,
        _ => return None,
    };
    let mut session = session.clone();
    if name.starts_with("try_") {
        session.ansi = false;
        session.cast = Cast { mode: CastMode::Try, ..session.cast };
    }
    Some(match args {
        [source] if target == DataType::Int64 => unix(source, None, session),
        [source, pattern] if target == DataType::Int64 => unix(source, Some(pattern), session),
        [source] => Ok(cast_only(source, &target, session)),
        [source, pattern] => with_pattern(source, pattern, target, session),
        _ => Err(wrong_count(name, "[1, 2]", args.len())),
    })
}

/// Casts in the mode of the function, which may be that of `try_`.
fn cast_only(source: &Arg, target: &DataType, session: Session) -> Planned {
    let (from, to) = (source.data_type.clone(), target.clone());
    let key = format!("{from:?} {:?}", session.cast.mode);
    let failing = session.clone();
    Planned::new([from], target.clone(), move |rows: Rows<'_>| cast_array(&rows.args[0], &to, session.cast, None))
        .failing(&failing)
        .keyed(key)
}

fn with_pattern(source: &Arg, pattern: &Arg, target: DataType, session: Session) -> Result<Planned, Error> {
    if matches!(source.data_type, DataType::Date32 | DataType::Timestamp(..)) {
        let mut planned = cast_only(source, &target, session);
        planned.args.push(DataType::Utf8);
        return Ok(planned);
    }
    let patterns = Patterns::new(pattern, Purpose::Parse)?;
    let key = format!("{patterns:?} {} {}", session.zone, session.ansi);
    let result = target.clone();
    let failing = session.clone();
    let kernel = move |rows: Rows<'_>| -> Result<ArrayRef> {
        let texts = strings(&rows, 0)?;
        let mut patterns = patterns.reader(&rows, 1)?;
        let mut micros = |row: usize| -> Result<Option<i64>> {
            let text = some!(text_at(texts, row));
            let pattern = some!(patterns.at(row)?);
            let read = match &target {
                DataType::Timestamp(_, None) => pattern.read_local(text, true),
                _ => pattern.read_instant(text, &session.zone),
            };
            match read {
                Some(micros) => Ok(Some(micros)),
                None => session.invalid("CANNOT_PARSE_TIMESTAMP", || cannot_parse(text, pattern)),
            }
        };
        if target == DataType::Date32 {
            return each::<Date32Type>(rows.len, &target, |row| {
                Ok(micros(row)?.map(|micros| calendar::timestamp_to_date(micros, &session.zone)))
            });
        }
        each::<TimestampMicrosecondType>(rows.len, &target, micros)
    };
    Ok(Planned::new([DataType::Utf8, DataType::Utf8], result, kernel).failing(&failing).keyed(key))
}

fn cannot_parse(text: &str, pattern: &DatePattern) -> String {
    format!(
        "Text '{text}' could not be parsed with the pattern '{}'. Use `try_to_timestamp` to tolerate invalid input and return NULL",
        pattern.as_str()
    )
}

/// Seconds since the epoch.
fn unix(source: &Arg, pattern: Option<&Arg>, session: Session) -> Result<Planned, Error> {
    let mut args = match &source.data_type {
        DataType::Date32 | DataType::Timestamp(..) => vec![timestamp()],
        _ => vec![DataType::Utf8],
    };
    args.extend(pattern.map(|_| DataType::Utf8));
    if args[0] != DataType::Utf8 {
        let kernel = |rows: Rows<'_>| {
            let instants = primitive::<TimestampMicrosecondType>(&rows, 0)?;
            each::<Int64Type>(rows.len, &DataType::Int64, |row| Ok(at(instants, row).map(|micros| micros / 1_000_000)))
        };
        return Ok(Planned::new(args, DataType::Int64, kernel));
    }
    let default = Arg { data_type: DataType::Utf8, value: Some("yyyy-MM-dd HH:mm:ss".into()) };
    let patterns = Patterns::new(pattern.unwrap_or(&default), Purpose::Parse)?;
    let key = format!("{patterns:?} {} {}", session.zone, session.ansi);
    let failing = session.clone();
    let kernel = move |rows: Rows<'_>| {
        let texts = strings(&rows, 0)?;
        let mut patterns = patterns.reader(&rows, 1)?;
        each::<Int64Type>(rows.len, &DataType::Int64, |row| {
            let text = some!(text_at(texts, row));
            let pattern = some!(patterns.at(row)?);
            match pattern.read_instant(text, &session.zone) {
                Some(micros) => Ok(Some(micros / 1_000_000)),
                None => session.invalid("CANNOT_PARSE_TIMESTAMP", || cannot_parse(text, pattern)),
            }
        })
    };
    Ok(Planned::new(args, DataType::Int64, kernel).failing(&failing).keyed(key))
}

/// A pattern argument: one for all rows, none, or one per row.
#[derive(Clone, Debug)]
pub(super) enum Patterns {
    Constant(Box<DatePattern>),
    Null,
    PerRow(Purpose),
}

impl Patterns {
    pub(super) fn new(arg: &Arg, purpose: Purpose) -> Result<Self, Error> {
        if arg.is_null() {
            return Ok(Self::Null);
        }
        match arg.text() {
            Some(text) => DatePattern::parse(text, purpose).map(|p| Self::Constant(Box::new(p))).map_err(|e| planning(&e)),
            None => Ok(Self::PerRow(purpose)),
        }
    }

    /// Reads the patterns of a batch; `index` is the argument with the texts.
    pub(super) fn reader<'a>(&'a self, rows: &Rows<'a>, index: usize) -> Result<PatternReader<'a>> {
        Ok(match self {
            Self::Constant(pattern) => PatternReader::Constant(pattern),
            Self::Null => PatternReader::Null,
            Self::PerRow(purpose) => PatternReader::PerRow { texts: strings(rows, index)?, purpose: *purpose, known: HashMap::new() },
        })
    }
}

pub(super) enum PatternReader<'a> {
    Constant(&'a DatePattern),
    Null,
    PerRow { texts: &'a arrow::array::StringArray, purpose: Purpose, known: HashMap<&'a str, Result<DatePattern, DecodeError>> },
}

impl PatternReader<'_> {
    pub(super) fn at(&mut self, row: usize) -> Result<Option<&DatePattern>> {
        match self {
            Self::Constant(pattern) => Ok(Some(pattern)),
            Self::Null => Ok(None),
            Self::PerRow { texts, purpose, known } => {
                let text = some!(text_at(texts, row));
                let compiled = known.entry(text).or_insert_with(|| DatePattern::parse(text, *purpose));
                compiled.as_ref().map(Some).map_err(running)
            }
        }
    }
}
