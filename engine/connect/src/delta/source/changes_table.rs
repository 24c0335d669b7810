//! The change data feed between two versions as a table (`readChangeFeed` of a static table and of `weir sql`).
//!
//! What each version did to rows, read as the stream of it reads it (`feed`, `read`). Columns are the table's at opening. An
//! end that is given is fixed; without one each scan goes to the version that is the newest then. Versions that are not in the
//! log any more, that did not record their changes, or whose columns do not fit are refused; nothing is passed by.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use deltalake_core::datafusion::catalog::{Session, TableProvider};
use deltalake_core::datafusion::common::{DataFusionError, Result as DfResult};
use deltalake_core::datafusion::execution::{SendableRecordBatchStream, TaskContext};
use deltalake_core::datafusion::logical_expr::{Expr, TableType};
use deltalake_core::datafusion::physical_plan::ExecutionPlan;
use deltalake_core::datafusion::physical_plan::stream::RecordBatchReceiverStream;
use deltalake_core::datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use weir_core::storage::Storage;
use weir_core::{Error, Result};
use weir_crds::options::ParsedOptions;

use super::feed::{self, Grouped};
use super::log::{CommitLog, Expect};
use super::options::{self, Loss, Starting};
use super::read::{Piece, TableScan};
use super::starting;
use super::table::SourceTable;
use crate::delta::location::TableLocation;
use crate::delta::provider::{at_time, commit_times};
use crate::source::Scan;

/// Soft bound of a batch's bytes.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Batches that wait for who reads the table.
const BATCHES_AHEAD: usize = 2;

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
    Ok(Arc::new(ChangesTable { schema: feed::schema(&table.schema), versions: Arc::new(Versions { table, first, last }) }))
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

/// The table.
#[derive(Debug)]
struct ChangesTable {
    versions: Arc<Versions>,
    schema: SchemaRef,
}

/// What every scan needs.
struct Versions {
    table: Arc<SourceTable>,
    first: u64,
    last: Option<u64>,
}

impl fmt::Debug for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Versions({:?}, {} to {:?})", self.table, self.first, self.last)
    }
}

#[async_trait]
impl TableProvider for ChangesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = Arc::new(self.schema.project(&columns)?);
        let all = AllVersions { versions: Arc::clone(&self.versions), of: Arc::clone(&self.schema), columns, schema: Arc::clone(&schema) };
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(all)], None, [], false, limit)?))
    }
}

/// The one partition of a scan.
#[derive(Debug)]
struct AllVersions {
    versions: Arc<Versions>,
    of: SchemaRef,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl PartitionStream for AllVersions {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let scan = Scan { columns: self.columns.clone(), max_rows: context.session_config().batch_size(), max_bytes: BATCH_BYTES };
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), BATCHES_AHEAD);
        let (versions, of, out) = (Arc::clone(&self.versions), Arc::clone(&self.of), builder.tx());
        // The kernel reads files where it is called.
        builder.spawn_blocking(move || versions.read(&of, &scan, &out).map_err(|error| DataFusionError::External(Box::new(error))));
        builder.build()
    }
}

impl Versions {
    /// Reads version after version until all are read or nobody takes the rows any more.
    fn read(&self, of: &SchemaRef, scan: &Scan, out: &Sender<DfResult<RecordBatch>>) -> Result<()> {
        let runtime = Handle::try_current()
            .map_err(|e| Error::retryable("INTERNAL_ERROR", "a table of changes was read outside of the runtime").with_source(e))?;
        let pieces = runtime.block_on(self.pieces())?;
        let scan = Arc::new(TableScan::new(&self.table, of, Loss::Fail, scan)?);
        for mut reader in scan.readers(pieces) {
            while let Some(rows) = runtime.block_on(reader.next())? {
                if out.blocking_send(Ok(rows)).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

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
