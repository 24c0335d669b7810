//! Delta Lake: the fenced sink, and tables for reading.
//!
//! The sink writes Parquet files and log entries itself, through Weir's
//! storage, because exactly once needs one rule that no library has: the
//! record of the query is read from the very version that a commit is based
//! on, in every attempt (`sink`). Whole snapshots, log checkpoints, clean-up
//! and reading are the Delta library's and its kernel's.
//!
//! `commit`, `layout`, `schema`, `features`, `options` decide; `state`,
//! `file`, `writer`, `sink`, `maintain`, `provider` do.

mod action;
mod commit;
mod conform;
mod features;
mod file;
mod layout;
mod location;
mod maintain;
pub mod memory;
mod options;
mod partition;
mod provider;
mod schema;
mod sink;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;
use weir_core::{Error, Result};

pub use location::TableLocation;
pub use options::SinkOptions;
pub use provider::open_table;
pub use sink::DeltaSink;

use crate::open::SinkContext;
use crate::sink::Sink;

/// Opens the Delta sink for a query's output schema.
pub async fn open_sink(
    options: &BTreeMap<String, String>,
    schema: SchemaRef,
    partition_by: &[String],
    context: &SinkContext,
) -> Result<Box<dyn Sink>> {
    let options = SinkOptions::parse(options, &context.conf)?;
    let location = TableLocation::in_folder(&context.storage.open(&options.path)?);
    Ok(Box::new(DeltaSink::open(location, options, schema, partition_by.to_vec(), context.query_id).await?))
}

/// Refuses output modes that the sink does not have; `mode` as Spark spells it.
pub fn check_output_mode(mode: &str) -> Result<()> {
    if mode.eq_ignore_ascii_case("append") {
        return Ok(());
    }
    let remedy = if mode.eq_ignore_ascii_case("complete") {
        "replacing the table in each batch needs aggregation state, which Weir does not keep yet; use Append"
    } else {
        "use Append"
    };
    Err(Error::config("DELTA_UNSUPPORTED_OUTPUT_MODE", format!("the Delta sink does not support the output mode {mode}; {remedy}")))
}
