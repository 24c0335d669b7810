//! Delta Lake: the fenced sink, tables for reading, and the streaming source.
//!
//! The sink writes Parquet files and log entries itself, through Weir's
//! storage, because exactly once needs one rule that no library has: the
//! record of the query is read from the very version that a commit is based
//! on, in every attempt (`sink`). Whole snapshots, log checkpoints, clean-up
//! and reading are the Delta library's and its kernel's.
//!
//! `commit`, `layout`, `schema`, `rules`, `identity`, `length`, `mapping`, `features`, `options` decide; `state`,
//! `file`, `enforce`, `writer`, `sink`, `maintain`, `provider` do; `damage` finds what is wrong with a log. `upsert` merges a batch by
//! key instead of appending it. The source is `source`.

mod action;
mod commit;
mod conform;
mod damage;
mod enforce;
mod features;
mod file;
mod identity;
mod layout;
mod length;
mod location;
mod maintain;
mod mapping;
pub mod memory;
mod options;
mod partition;
mod provider;
mod rules;
mod schema;
mod sink;
mod small_files;
mod source;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod upsert;
mod writer;

use std::sync::Arc;

use weir_core::{Error, Result};

pub use location::TableLocation;
pub use options::SinkOptions;
pub use provider::open_table;
pub use sink::{DeltaSink, SinkColumns};
pub use source::{DeltaSourceOptions, PreparedDelta, damage as source_damage, lies_before, open_changes};

use crate::open::{SinkContext, SinkSettings};
use crate::sink::Sink;

/// Opens the Delta sink for a query's output schema.
pub async fn open_sink(settings: &SinkSettings<'_>, context: &SinkContext) -> Result<Box<dyn Sink>> {
    let (options, location) = place(settings)?;
    Ok(Box::new(DeltaSink::open(location, options, columns(settings), context.transaction_id()).await?))
}

/// What is wrong with a sink as far as options and columns tell.
pub fn check_sink(settings: &SinkSettings<'_>) -> Result<()> {
    let (options, location) = place(settings)?;
    DeltaSink::check(&location, &options, columns(settings))
}

/// What is wrong with the sink for the table that is there, if it is on this machine: what the task would say when it
/// opens the sink. Asks no service.
pub async fn check_table(settings: &SinkSettings<'_>) -> Result<()> {
    let (options, location) = place(settings)?;
    if location.url().scheme() != "file" {
        return Ok(());
    }
    // Whose record is asked for does not matter: none is looked at.
    DeltaSink::open(location, options, columns(settings), uuid::Uuid::nil()).await.map(drop)
}

fn columns(settings: &SinkSettings<'_>) -> SinkColumns {
    SinkColumns {
        query: Arc::clone(settings.schema),
        partition_by: settings.partition_by.to_vec(),
        expressions: Arc::clone(settings.expressions),
    }
}

fn place(settings: &SinkSettings<'_>) -> Result<(SinkOptions, TableLocation)> {
    let options = SinkOptions { upsert: settings.upsert.cloned(), ..SinkOptions::parse(settings.options, settings.conf)? };
    let folder = settings.storage.open(&options.path)?;
    folder.refuse_file("the sink's option path")?;
    Ok((options, TableLocation::in_folder(&folder)))
}

/// Refuses output modes that the sink does not have; `mode` as Spark spells it.
pub fn check_output_mode(mode: &str) -> Result<()> {
    if mode.eq_ignore_ascii_case("append") {
        return Ok(());
    }
    let remedy = if mode.eq_ignore_ascii_case("complete") {
        "replacing the table in each batch needs aggregation state, which Weir does not keep yet; use Append"
    } else {
        "use Append, or name the columns that identify a row in the sink's field upsertKeys"
    };
    Err(Error::config("DELTA_UNSUPPORTED_OUTPUT_MODE", format!("the Delta sink does not support the output mode {mode}; {remedy}")))
}
