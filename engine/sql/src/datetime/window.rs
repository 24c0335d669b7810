//! Tumbling windows of one row: `window` and `window_time`.
//!
//! A sliding window makes several rows of one, which is the analyzer's
//! business; here it is refused. Source: TimeWindowing of Spark's catalyst.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use weir_core::Error;

use crate::planned::{Arg, Planned, Session, at, each, primitive, some, wrong_count};
use crate::types::{struct_of, timestamp, timestamp_ntz};
use crate::udf::Rows;
use weir_decode::interval::parse_duration;

pub(super) fn plan(name: &str, args: &[Arg], _session: &Session) -> Option<Result<Planned, Error>> {
    match (name, args) {
        ("window", [source, rest @ ..]) if (1..=3).contains(&rest.len()) => Some(window(source, rest)),
        ("window_time", [source]) => Some(window_time(source)),
        ("window", _) => Some(Err(wrong_count(name, "[2, 4]", args.len()))),
        ("window_time", _) => Some(Err(wrong_count(name, "1", args.len()))),
        _ => None,
    }
}

/// The start of the window of `size` that holds `micros`; windows begin at
/// `offset` after the epoch.
pub fn window_start(micros: i64, size: i64, offset: i64) -> Option<i64> {
    micros.checked_sub(micros.checked_sub(offset)?.rem_euclid(size))
}

fn duration(arg: &Arg) -> Result<i64, Error> {
    let text = arg.text().ok_or_else(|| {
        Error::config("DATATYPE_MISMATCH.NON_FOLDABLE_INPUT", "the durations of `window` must be constant strings such as '10 minutes'")
    })?;
    parse_duration(text).ok_or_else(|| {
        Error::config("INVALID_INTERVAL_FORMAT", format!("`{text}` is not an interval without months; write it as '10 minutes'"))
    })
}

fn window(source: &Arg, rest: &[Arg]) -> Result<Planned, Error> {
    let size = duration(&rest[0])?;
    let slide = rest.get(1).map_or(Ok(size), duration)?;
    let offset = rest.get(2).map_or(Ok(0), duration)?;
    if size <= 0 || slide <= 0 || offset.abs() >= slide {
        return Err(Error::config(
            "DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION",
            "the window and slide durations must be positive and the start time shorter than the slide",
        ));
    }
    if slide != size {
        return Err(Error::config(
            "WEIR_UNSUPPORTED_SLIDING_WINDOW",
            "a sliding window is possible only in GROUP BY; leave the slide duration out or make it the window's",
        ));
    }
    let moment = if matches!(source.data_type, DataType::Timestamp(_, None)) { timestamp_ntz() } else { timestamp() };
    let result = struct_of([("start", moment.clone()), ("end", moment.clone())]);
    let kind = result.clone();
    let mut args = vec![moment.clone()];
    args.resize(rest.len() + 1, DataType::Utf8);
    let kernel = move |rows: Rows<'_>| -> datafusion::common::Result<ArrayRef> {
        let instants = primitive::<TimestampMicrosecondType>(&rows, 0)?;
        let edge = |shift: i64| {
            each::<TimestampMicrosecondType>(rows.len, &moment, |row| {
                Ok(window_start(some!(at(instants, row)), size, offset).and_then(|start| start.checked_add(shift)))
            })
        };
        let DataType::Struct(fields) = &kind else {
            return Err(datafusion::common::DataFusionError::Internal("a window is a struct".into()));
        };
        Ok(Arc::new(StructArray::new(fields.clone(), vec![edge(0)?, edge(size)?], instants.nulls().cloned())))
    };
    Ok(Planned::new(args, result, kernel).keyed(format!("{size} {offset}")))
}

/// The last microsecond of a window.
fn window_time(source: &Arg) -> Result<Planned, Error> {
    let end = match &source.data_type {
        DataType::Struct(fields) if fields.len() == 2 && fields[1].name() == "end" => fields[1].data_type().clone(),
        other => {
            return Err(Error::config(
                "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
                format!("`window_time` takes the struct that `window` gives, not {other}"),
            ));
        }
    };
    let result = end.clone();
    Ok(Planned::new([source.data_type.clone()], end, move |rows: Rows<'_>| {
        let window = rows.args[0].as_struct();
        let ends = window.column(1).as_primitive::<TimestampMicrosecondType>();
        each::<TimestampMicrosecondType>(rows.len, &result, |row| {
            Ok(if window.is_null(row) { None } else { at(ends, row).and_then(|end| end.checked_sub(1)) })
        })
    }))
}
