//! The actions of one batch's commit.
//!
//! Shapes are those of Spark's Delta sink: operation `STREAMING UPDATE` with
//! outputMode, queryId and epochId, a `txn` action with the query's id and the
//! batch, metadata in the same commit when the table is created or columns are
//! added. A merge by key says `MERGE`, as Spark's does, with the same queryId
//! and epochId, and removes what it replaces. Decides only; `sink` writes them.

use std::collections::{BTreeMap, HashMap};

use deltalake_core::kernel::StructType;
use weir_core::{Error, Result};

use super::action::{Action, Add, Cdc, CommitInfo, DomainMetadata, Format, MetaData, ROW_TRACKING, Txn};
use super::layout::{InUse, Layout};
use super::location::encode_uri;
use super::schema;
use super::state::TableState;
use super::upsert::Merged;
use super::{features, identity, mapping};
use crate::sink::{BatchId, WrittenFile};

/// What a commit is made of, beside the table.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    /// Query and batch.
    pub id: &'a BatchId,
    /// Under which the batch is recorded.
    pub app_id: &'a str,
    /// Its files and what they do.
    pub change: Change<'a>,
    /// This commit's own id.
    pub txn_id: &'a str,
    /// `userMetadata`, if the manifest sets it.
    pub user_metadata: Option<&'a str>,
    /// Now, milliseconds since the epoch.
    pub now_ms: i64,
    /// The id of a table that this commit creates.
    pub new_table_id: &'a str,
    /// Rows that got numbers of the table's identity columns.
    pub numbered: u64,
}

/// What a batch does to the table.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Its files are added.
    Append(&'a [WrittenFile]),
    /// Its rows replace those with the same keys.
    Merge(&'a Merged),
}

impl Change<'_> {
    /// The files that it adds.
    pub fn added(&self) -> &[WrittenFile] {
        match self {
            Self::Append(files) => files,
            Self::Merge(merged) => &merged.added,
        }
    }
}

/// The log entry's actions, on top of `table` or as the first of a new one.
pub fn actions(batch: &Batch<'_>, table: Option<&TableState>, layout: &Layout) -> Result<Vec<Action>> {
    let raises = batch.numbered > 0 && !layout.rules.identity.is_empty();
    let mut actions = vec![Action::CommitInfo(info(batch, table, raises))];
    match table {
        None => {
            actions.push(Action::MetaData(MetaData {
                id: batch.new_table_id.to_owned(),
                name: None,
                description: None,
                format: Format { provider: "parquet".into(), options: BTreeMap::new() },
                schema_string: schema_string(&layout.table)?,
                partition_columns: layout.partition_columns.clone(),
                configuration: BTreeMap::new(),
                created_time: Some(batch.now_ms),
            }));
            actions.push(Action::Protocol(features::protocol_for(schema::has_timestamp_ntz(&layout.table))));
        }
        Some(table) if raises || !layout.added.is_empty() => {
            let schema = identity::raised(&layout.table, &layout.rules.identity, if raises { batch.numbered } else { 0 })?;
            let mut metadata = MetaData { schema_string: schema_string(&schema)?, ..table.metadata.clone() };
            metadata.configuration.extend(layout.max_column_id.map(|max| (mapping::MAX_ID.to_owned(), max.to_string())));
            actions.push(Action::MetaData(metadata));
        }
        Some(_) => {}
    }
    let version = i64::try_from(batch.id.batch)
        .map_err(|e| Error::config("DELTA_COMMIT_FAILED", format!("the batch id {} is too large", batch.id.batch)).with_source(e))?;
    actions.push(Action::Txn(Txn { app_id: batch.app_id.to_owned(), version, last_updated: Some(batch.now_ms) }));
    if let Change::Merge(merged) = batch.change {
        actions.extend(merged.removed.iter().cloned().map(Action::Remove));
        actions.extend(merged.changes.iter().map(|file| Action::Cdc(cdc(file))));
    }
    let version = table.map_or(0, |table| table.version + 1);
    let mut row_ids = RowIds::of(table);
    for file in batch.change.added() {
        let base_row_id = row_ids.as_mut().map(|ids| ids.take(file.rows)).transpose()?;
        actions.push(Action::Add(add(file, base_row_id.map(|id| (id, version)))));
    }
    actions.extend(row_ids.filter(|_| !batch.change.added().is_empty()).map(|ids| Action::DomainMetadata(ids.domain())));
    Ok(actions)
}

fn schema_string(schema: &StructType) -> Result<String> {
    serde_json::to_string(schema)
        .map_err(|e| Error::config("DELTA_INVALID_SCHEMA", "the table's schema could not be written as JSON").with_source(e))
}

fn cdc(file: &WrittenFile) -> Cdc {
    Cdc {
        path: encode_uri(&file.path),
        partition_values: file.partition_values.iter().cloned().collect(),
        size: file.size,
        data_change: false,
    }
}

/// Row ids of a table that tracks rows.
struct RowIds {
    newest: i64,
}

impl RowIds {
    fn of(table: Option<&TableState>) -> Option<Self> {
        let table = table.filter(|table| features::has(&table.protocol, features::ROW_TRACKING))?;
        Some(Self { newest: table.counts.row_id.unwrap_or(-1) })
    }

    /// The id of the first of some rows.
    fn take(&mut self, rows: u64) -> Result<i64> {
        let exhausted = || Error::config("DELTA_COMMIT_FAILED", "the table has no row ids left; write to another table");
        let first = self.newest.checked_add(1).ok_or_else(exhausted)?;
        self.newest = i64::try_from(rows).ok().and_then(|rows| self.newest.checked_add(rows)).ok_or_else(exhausted)?;
        Ok(first)
    }

    fn domain(&self) -> DomainMetadata {
        let configuration = format!("{{\"rowIdHighWaterMark\":{},\"domainName\":\"{ROW_TRACKING}\"}}", self.newest);
        DomainMetadata { domain: ROW_TRACKING.to_owned(), configuration, removed: false }
    }
}

fn add(file: &WrittenFile, row_id: Option<(i64, u64)>) -> Add {
    Add {
        path: encode_uri(&file.path),
        partition_values: file.partition_values.iter().cloned().collect(),
        size: file.size,
        modification_time: file.modification_time_ms,
        data_change: true,
        stats: file.stats.clone(),
        base_row_id: row_id.map(|(id, _)| id),
        default_row_commit_version: row_id.map(|(_, version)| version),
    }
}

/// Each version is later than the one before, whatever the clock says.
fn in_commit_timestamp(now_ms: i64, table: Option<&TableState>) -> Option<i64> {
    let table = table.filter(|table| {
        let is_on = |value: &String| value.trim().eq_ignore_ascii_case("true");
        features::has(&table.protocol, features::IN_COMMIT_TIMESTAMP)
            && table.metadata.configuration.get("delta.enableInCommitTimestamps").is_some_and(is_on)
    })?;
    Some(table.counts.in_commit_timestamp.map_or(now_ms, |before| now_ms.max(before.saturating_add(1))))
}

fn info(batch: &Batch<'_>, table: Option<&TableState>, raises: bool) -> CommitInfo {
    let (operation, mut operation_parameters, operation_metrics) = match batch.change {
        Change::Append(files) => ("STREAMING UPDATE", BTreeMap::from([("outputMode", "Append".to_owned())]), append_metrics(files)),
        Change::Merge(merged) => ("MERGE", merged.parameters(), merged.metrics()),
    };
    operation_parameters.insert("queryId", batch.id.query_id.to_string());
    operation_parameters.insert("epochId", batch.id.batch.to_string());
    let is_blind_append = matches!(batch.change, Change::Append(_));
    let in_commit_timestamp = in_commit_timestamp(batch.now_ms, table);
    CommitInfo {
        in_commit_timestamp,
        timestamp: in_commit_timestamp.unwrap_or(batch.now_ms),
        user_metadata: batch.user_metadata.map(str::to_owned),
        operation,
        operation_parameters,
        read_version: table.map(|table| table.version),
        isolation_level: if is_blind_append { "WriteSerializable" } else { "Serializable" },
        is_blind_append,
        operation_metrics,
        // So that Spark's writers see that only the mark was raised.
        tags: raises.then(|| ("delta.identity.schemaUpdate", "true".to_owned())).into_iter().collect(),
        engine_info: concat!("Weir/", env!("CARGO_PKG_VERSION")).to_owned(),
        txn_id: batch.txn_id.to_owned(),
    }
}

fn append_metrics(files: &[WrittenFile]) -> BTreeMap<&'static str, String> {
    let sum = |of: fn(&WrittenFile) -> u64| files.iter().map(of).sum::<u64>().to_string();
    BTreeMap::from([
        ("numRemovedFiles", "0".to_owned()),
        ("numAddedFiles", files.len().to_string()),
        ("numOutputRows", sum(|file| file.rows)),
        ("numOutputBytes", sum(|file| file.size)),
    ])
}

/// How the record of a query and what was seen of the log decide an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Not there yet: write it.
    Write,
    /// An attempt of this very call took effect.
    Own,
    /// Another process committed the batch: the own files are superfluous.
    Other,
    /// The batch is there, by whom is not known: the own files must stay.
    Unknown,
}

/// Decides an attempt on batch `batch`.
///
/// `tried` says whether an earlier attempt of the same call may have reached
/// the store; `followed` whether every commit since was seen; `own_seen`
/// whether one of those was the call's own.
pub fn decide(recorded: Option<u64>, batch: u64, tried: Tried, followed: bool, own_seen: bool) -> Decision {
    match recorded {
        _ if own_seen => Decision::Own,
        Some(recorded) if recorded >= batch => match tried {
            Tried::Never => Decision::Other,
            Tried::Before if followed => Decision::Other,
            Tried::Before => Decision::Unknown,
        },
        _ => Decision::Write,
    }
}

/// Whether an attempt of the call may have reached the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// No.
    Never,
    /// Yes.
    Before,
}

/// Layouts under which the writers of uncommitted batches write.
pub type LayoutsInUse = HashMap<u64, InUse>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_files_are_superfluous_only_when_that_is_certain() {
        use Decision::{Other, Own, Unknown, Write};
        for (recorded, tried, followed, own_seen, expected) in [
            (None, Tried::Never, true, false, Write),
            (Some(4), Tried::Before, false, false, Write),
            (Some(5), Tried::Never, true, false, Other),
            (Some(6), Tried::Never, false, false, Other),
            (Some(5), Tried::Before, true, true, Own),
            (Some(6), Tried::Before, true, true, Own),
            (Some(5), Tried::Before, true, false, Other),
            (Some(5), Tried::Before, false, false, Unknown),
        ] {
            assert_eq!(decide(recorded, 5, tried, followed, own_seen), expected, "{recorded:?} {tried:?} {followed} {own_seen}");
        }
    }
}
