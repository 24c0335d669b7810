//! Moving wall clocks between zones: `from_utc_timestamp`, `to_utc_timestamp`,
//! `convert_timezone`, and `current_timezone`.
//!
//! A zone that does not exist is an error in both modes.

use std::collections::HashMap;

use arrow::array::StringArray;
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use datafusion::common::Result;
use weir_core::Error;
use weir_decode::time::Zone;

use crate::error::spark_error;
use crate::planned::{Arg, Planned, Session, at, each, each_text, primitive, some, strings, text_at, wrong_count};
use crate::types::{timestamp, timestamp_ntz};
use crate::udf::Rows;

pub(super) fn plan(name: &str, args: &[Arg], session: &Session) -> Option<Result<Planned, Error>> {
    Some(match (name, args.len()) {
        ("from_utc_timestamp", 2) => Ok(shifted(|zone, micros| Some(zone.to_local(micros)))),
        ("to_utc_timestamp", 2) => Ok(shifted(Zone::to_instant)),
        ("convert_timezone", count @ (2 | 3)) => Ok(convert(count, session.zone)),
        ("current_timezone", 0) => {
            let id = session.zone.to_string();
            let key = id.clone();
            Ok(Planned::new([], DataType::Utf8, move |rows: Rows<'_>| each_text(rows.len, |_| Ok(Some(id.clone())))).keyed(key))
        }
        ("from_utc_timestamp" | "to_utc_timestamp", count) => Err(wrong_count(name, "2", count)),
        ("convert_timezone", count) => Err(wrong_count(name, "[2, 3]", count)),
        ("current_timezone", count) => Err(wrong_count(name, "0", count)),
        _ => return None,
    })
}

/// The zones of a column of ids, each parsed once per batch.
#[derive(Default)]
struct Zones<'a>(HashMap<&'a str, Option<Zone>>);

impl<'a> Zones<'a> {
    fn at(&mut self, ids: &'a StringArray, row: usize) -> Result<Option<&Zone>> {
        let id = some!(text_at(ids, row));
        let zone = self.0.entry(id).or_insert_with(|| Zone::parse(id));
        zone.as_ref().map(Some).ok_or_else(|| {
            spark_error(
                "INVALID_TIMEZONE",
                format!("the timezone `{id}` is invalid; write a region such as Europe/Berlin or an offset such as +02:00"),
            )
        })
    }
}

fn shifted(shift: fn(&Zone, i64) -> Option<i64>) -> Planned {
    let mut planned = Planned::new([timestamp(), DataType::Utf8], timestamp(), move |rows: Rows<'_>| {
        let (instants, ids) = (primitive::<TimestampMicrosecondType>(&rows, 0)?, strings(&rows, 1)?);
        let mut zones = Zones::default();
        each::<TimestampMicrosecondType>(rows.len, &timestamp(), |row| {
            let micros = some!(at(instants, row));
            Ok(shift(some!(zones.at(ids, row)?), micros))
        })
    });
    planned.may_fail = true;
    planned
}

/// Local time of the source zone to local time of the target zone.
fn convert(count: usize, session: Zone) -> Planned {
    let mut args = vec![DataType::Utf8; count - 1];
    args.push(timestamp_ntz());
    let key = session.to_string();
    let mut planned = Planned::new(args, timestamp_ntz(), move |rows: Rows<'_>| {
        let locals = primitive::<TimestampMicrosecondType>(&rows, count - 1)?;
        let (mut sources, mut targets) = (Zones::default(), Zones::default());
        let target_ids = strings(&rows, count - 2)?;
        each::<TimestampMicrosecondType>(rows.len, &timestamp_ntz(), |row| {
            let local = some!(at(locals, row));
            let source = if count == 3 { some!(sources.at(strings(&rows, 0)?, row)?) } else { &session };
            let target = some!(targets.at(target_ids, row)?);
            Ok(source.to_instant(local).map(|instant| target.to_local(instant)))
        })
    })
    .keyed(key);
    planned.may_fail = true;
    planned
}
