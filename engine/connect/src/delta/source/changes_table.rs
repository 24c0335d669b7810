//! The change data feed between two versions as a table (`readChangeFeed` of a static table and of `weir sql`).
//!
//! What each version did to rows, read as the stream of it reads it (`feed`, `read`). Columns are the table's at opening. An
//! end that is given is fixed; without one each scan goes to the version that is the newest then. Versions that are not in the
//! log any more, that did not record their changes, or whose columns do not fit are refused; nothing is passed by.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use deltalake_core::datafusion::catalog::TableProvider;
use tokio::runtime::Handle;
use weir_core::storage::Storage;
use weir_core::{Error, Result};
use weir_crds::options::ParsedOptions;

use super::feed::{self, Grouped};
use super::log::{CommitLog, Expect};
use super::options::{self, Loss, Starting};
use super::read::{Piece, TableScan};
use super::starting;
use super::table::SourceTable;
use crate::blocking_table::{BlockingTable, Readers, Rows};
use crate::delta::location::TableLocation;
use crate::delta::provider::{at_time, commit_times};
use crate::source::Scan;

/// Opens the feed that the options of a static table name; `conf` holds the session's settings.
pub async fn open_changes(parsed: &ParsedOptions, storage: &Storage, conf: &BTreeMap<String, String>) -> Result<Arc<dyn TableProvider>> {
    if let Some(name) = ["versionAsOf", "timestampAsOf"].into_iter().find(|name| parsed.is_given(name)) {
        return Err(illegal(&format!("readChangeFeed and {name} exclude each other; give startingVersion and endingVersion")));
    }
    let begin = match options::starting(parsed, conf)? {
        Starting::Snapshot | Starting::Latest => {
            return Err(Error::config(
                "DELTA_NO_START_FOR_CDC_READ",
                "No startingVersion or startingTimestamp provided for CDC read: a table of changes begins at a version; set startingVersion, for example to 0",
            ));
        }
        begin => begin,
    };
    let table = Arc::new(SourceTable::open(TableLocation::in_folder(&storage.open(&parsed.str("path"))?)).await?);
    let first = starting::resolve(begin, &table).await?.mark.version;
    let last = ending(parsed, conf, &table).await?;
    if last.is_some_and(|last| last < first) {
        return Err(Error::config(
            "DELTA_INVALID_CDC_RANGE",
            format!(
                "CDC range from start {first} to end {} was invalid. End cannot be before start; change endingVersion or endingTimestamp of the table {}",
                last.unwrap_or_default(),
                table.location.url()
            ),
        ));
    }
    table.check_columns_at(first).await?;
    feed::check_version(first, &table).await?;
    Ok(BlockingTable::of(Versions { schema: feed::schema(&table.schema), table, first, last }))
}

/// The last version that is read; `None` is the newest. A version that is not there yet is none that could be read.
async fn ending(parsed: &ParsedOptions, conf: &BTreeMap<String, String>, table: &SourceTable) -> Result<Option<u64>> {
    let version = parsed.opt_i64("endingVersion").and_then(|version| u64::try_from(version).ok());
    let time = parsed.opt_str("endingTimestamp");
    match (version, time) {
        (Some(_), Some(_)) => Err(illegal("endingVersion and endingTimestamp exclude each other; give one of them")),
        (Some(version), None) => Ok(Some(version.min(table.version()))),
        (None, Some(text)) => {
            let wanted = options::time_of("endingTimestamp", &text, conf)?;
            let found = at_time(&commit_times(&table.location).await?, wanted);
            let missing = || {
                let text = format!(
                    "the Delta table {} has no version as old as endingTimestamp '{text}'; give a later time",
                    table.location.url()
                );
                Error::config("DELTA_TIMESTAMP_NOT_FOUND", text)
            };
            found.map(Some).ok_or_else(missing)
        }
        (None, None) => Ok(None),
    }
}

fn illegal(text: &str) -> Error {
    Error::config("DELTA_ILLEGAL_OPTION", text.to_owned())
}

/// The table, and what every scan needs.
struct Versions {
    table: Arc<SourceTable>,
    schema: SchemaRef,
    first: u64,
    last: Option<u64>,
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Versions({:?}, {} to {:?})", self.table, self.first, self.last)
    }
}

impl Rows for Versions {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Version after version. The kernel reads files where it is called.
    fn readers<'a>(&'a self, scan: &'a Scan, runtime: &Handle) -> Result<Readers<'a>> {
        let pieces = runtime.block_on(self.pieces())?;
        let scan = Arc::new(TableScan::new(&self.table, &self.schema, Loss::Fail, scan)?);
        Ok(Box::new(scan.readers(pieces).into_iter().map(Ok)))
    }
}

impl Versions {
    async fn pieces(&self) -> Result<Vec<Piece>> {
        let mut log = CommitLog::new(Arc::clone(&self.table), Loss::Fail);
        let mut grouped = Grouped::default();
        let mut version = self.first;
        while self.last.is_none_or(|last| version <= last) {
            let found = match version <= self.table.version() {
                true => log.commit(version, Expect::Certainly).await?,
                // Perhaps written since the table was opened.
                false => log.read(version).await?,
            };
            let Some(commit) = found else { break };
            self.table.check_commit(&commit)?;
            feed::check_commit(&commit, &self.table)?;
            grouped.take(&commit);
            version = commit.version + 1;
            log.forget_below(version);
        }
        Ok(grouped.into_groups().into_iter().map(Piece::Changes).collect())
    }
}
