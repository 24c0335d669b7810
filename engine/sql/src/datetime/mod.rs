//! Spark's date and time functions.
//!
//! Calendar arithmetic, zones and patterns are those of weir-decode; this
//! folder decides argument types, result types and what ANSI mode makes an
//! error. Functions that read the clock are not here. `calendar` holds the
//! arithmetic that operators on intervals share.

pub mod calendar;
mod extract;
mod format;
mod interval;
mod make;
mod parse;
mod shift;
mod trunc;
mod window;
mod zones;

use weir_core::Error;

use crate::conf::SqlConf;
use crate::planned::{Arg, Planned, Session};

/// The functions of this family, in lower case.
pub const NAMES: [&str; 65] = [
    "add_months",
    "convert_timezone",
    "current_timezone",
    "date_add",
    "date_diff",
    "date_format",
    "date_from_unix_date",
    "date_part",
    "date_sub",
    "date_trunc",
    "dateadd",
    "datediff",
    "datepart",
    "day",
    "dayname",
    "dayofmonth",
    "dayofweek",
    "dayofyear",
    "extract",
    "from_unixtime",
    "from_utc_timestamp",
    "hour",
    "last_day",
    "make_date",
    "make_dt_interval",
    "make_interval",
    "make_timestamp",
    "make_timestamp_ltz",
    "make_timestamp_ntz",
    "make_ym_interval",
    "minute",
    "month",
    "monthname",
    "months_between",
    "next_day",
    "quarter",
    "second",
    "timediff",
    "timestamp_micros",
    "timestamp_millis",
    "timestamp_seconds",
    "timestampadd",
    "timestampdiff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "to_timestamp_ntz",
    "to_unix_timestamp",
    "to_utc_timestamp",
    "trunc",
    "try_make_timestamp",
    "try_make_timestamp_ltz",
    "try_make_timestamp_ntz",
    "try_to_date",
    "try_to_timestamp",
    "unix_date",
    "unix_micros",
    "unix_millis",
    "unix_seconds",
    "unix_timestamp",
    "weekday",
    "weekofyear",
    "window",
    "window_time",
    "year",
];

/// Plans a call of one of `NAMES`; none for other names.
pub fn plan(name: &str, args: &[Arg], conf: &SqlConf) -> Option<Result<Planned, Error>> {
    let session = match Session::new(conf) {
        Ok(session) => session,
        Err(error) => return Some(Err(error)),
    };
    [parse::plan, format::plan, extract::plan, shift::plan, trunc::plan, make::plan, interval::plan, zones::plan, window::plan]
        .iter()
        .find_map(|family| family(name, args, &session))
}

/// Builds the call of one of `NAMES` for the analyzer.
pub(crate) fn build(
    analyzer: &crate::analyzer::Analyzer<'_>,
    name: &str,
    args: Vec<crate::analyzer::Typed>,
) -> Result<crate::analyzer::Typed, Error> {
    if name == "unix_timestamp" && args.is_empty() {
        // The seconds of the batch's clock, which the analyzer has.
        return crate::planned::build(analyzer, plan, name, vec![analyzer.now()]);
    }
    crate::planned::build(analyzer, plan, name, args)
}

#[cfg(test)]
mod tests;
