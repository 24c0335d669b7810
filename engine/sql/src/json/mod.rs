//! Spark's JSON and CSV functions.
//!
//! Decoding and writing are weir-decode's; this folder reads the constant
//! schema and options of a call, and owns JSON paths and schema inference.

mod from;
mod infer;
mod inspect;
mod path;
mod to;

use arrow::array::{Array, AsArray};
use datafusion::common::ScalarValue;
use weir_core::Error;

use crate::conf::SqlConf;
use crate::planned::{Arg, Planned, Session};

/// The functions of this family, in lower case.
pub const NAMES: [&str; 9] = [
    "from_csv",
    "from_json",
    "get_json_object",
    "json_array_length",
    "json_object_keys",
    "schema_of_csv",
    "schema_of_json",
    "to_csv",
    "to_json",
];

/// One column of the generator `json_tuple`; SQL cannot call it.
pub const TUPLE_FIELD: &str = "__json_tuple_field";

/// Plans a call of one of `NAMES` or of `TUPLE_FIELD`; none for other names.
pub fn plan(name: &str, args: &[Arg], conf: &SqlConf) -> Option<Result<Planned, Error>> {
    let session = match Session::new(conf) {
        Ok(session) => session,
        Err(error) => return Some(Err(error)),
    };
    [from::plan, to::plan, inspect::plan, infer::plan].iter().find_map(|family| family(name, args, &session))
}

/// Builds the call of one of `NAMES` for the analyzer.
pub(crate) fn build(
    analyzer: &crate::analyzer::Analyzer<'_>,
    name: &str,
    args: Vec<crate::analyzer::Typed>,
) -> Result<crate::analyzer::Typed, Error> {
    crate::planned::build(analyzer, plan, name, args)
}

/// The name-value pairs of a constant map argument.
fn options(name: &str, arg: Option<&Arg>) -> Result<Vec<(String, String)>, Error> {
    let Some(arg) = arg else { return Ok(Vec::new()) };
    let invalid = || {
        Error::config(
            "INVALID_OPTIONS.NON_MAP_FUNCTION",
            format!("the options of `{name}` must be a constant map of strings: write map('mode', 'FAILFAST')"),
        )
    };
    let Some(ScalarValue::Map(map)) = &arg.value else { return Err(invalid()) };
    let entries = map.value(0);
    let keys = entries.column(0).as_string_opt::<i32>().ok_or_else(invalid)?;
    let values = entries.column(1).as_string_opt::<i32>().ok_or_else(invalid)?;
    Ok((0..entries.len()).map(|row| (keys.value(row).to_owned(), values.value(row).to_owned())).collect())
}

/// Pairs as the decoders take them.
fn borrowed(pairs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

#[cfg(test)]
mod tests;
