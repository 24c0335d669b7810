//! The change data feed: what each version did to the rows (`readChangeFeed`).
//!
//! Rows are those of the table with `_change_type`, `_commit_version` and
//! `_commit_timestamp`. The kernel reads them, from change files where the
//! version has some, else from the files that it added and removed. A version
//! is always read whole. A first snapshot is a feed of inserts. Each version
//! must have recorded its changes, from where the stream begins.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use delta_kernel::engine::arrow_data::EngineDataArrowExt as _;
use delta_kernel::table_changes::TableChanges;
use delta_kernel::{DeltaResult, Engine};
use url::Url;
use weir_core::{Error, Result};

use super::entry::Commit;
use super::table::SourceTable;
use crate::delta::action::MetaData;
use crate::delta::provider::commit_times;
use crate::delta::state::{facts_of, kernel_snapshot};

const ENABLED: &str = "delta.enableChangeDataFeed";
const CHANGE_TYPE: &str = "_change_type";
const COMMIT_VERSION: &str = "_commit_version";
const COMMIT_TIMESTAMP: &str = "_commit_timestamp";

/// Versions that are read at one go.
const VERSIONS_AT_ONCE: u64 = 16;

static FIELDS: LazyLock<[Field; 3]> = LazyLock::new(|| {
    [
        Field::new(CHANGE_TYPE, DataType::Utf8, true),
        Field::new(COMMIT_VERSION, DataType::Int64, true),
        Field::new(COMMIT_TIMESTAMP, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
    ]
});

/// The table's columns and those of the feed.
pub fn schema(table: &SchemaRef) -> SchemaRef {
    let fields = table.fields().iter().map(|field| field.as_ref().clone()).chain(FIELDS.iter().cloned());
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Changes of versions that follow on each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The first version.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// The sizes of the files that are read.
    pub bytes: u64,
    /// Their paths as the log has them.
    pub paths: Vec<String>,
}

/// The changes of versions in order, cut where columns may change; versions without changes are passed by.
#[derive(Debug, Default)]
pub struct Grouped {
    groups: Vec<Changes>,
    /// Whether the next version may not join the last group.
    cut: bool,
}

impl Grouped {
    /// Takes a commit.
    pub fn take(&mut self, commit: &Commit) {
        self.cut |= commit.metadata.is_some();
        if commit.changes.is_empty() {
            return;
        }
        let bytes: u64 = commit.changes.iter().map(|file| file.size).sum();
        let paths = commit.changes.iter().map(|file| file.path.clone());
        match self.groups.last_mut().filter(|group| !self.cut && commit.version - group.first < VERSIONS_AT_ONCE) {
            Some(group) => {
                group.last = commit.version;
                group.bytes += bytes;
                group.paths.extend(paths);
            }
            None => self.groups.push(Changes { first: commit.version, last: commit.version, bytes, paths: paths.collect() }),
        }
        self.cut = false;
    }

    /// The groups.
    pub fn into_groups(self) -> Vec<Changes> {
        self.groups
    }
}

/// Rows of changes, batch by batch.
pub type Batches = Box<dyn Iterator<Item = DeltaResult<RecordBatch>> + Send>;

/// Reads changes with the feed's own columns and those of the columns `names` that their last version has.
pub fn read(engine: &Arc<dyn Engine>, root: Url, changes: &Changes, names: &[String]) -> DeltaResult<Batches> {
    let feed = TableChanges::try_new(root, engine.as_ref(), changes.first, Some(changes.last))?;
    // The kernel takes change files for files with a type of change in them, whether it is wanted or not.
    let own = FIELDS.iter().map(|field| field.name());
    let known: Vec<&str> = names.iter().chain(own).map(String::as_str).filter(|name| feed.schema().field(name).is_some()).collect();
    let wanted = feed.schema().project(&known)?;
    let scan = feed.into_scan_builder().with_schema(wanted).build()?;
    let rows = scan.execute(Arc::clone(engine))?;
    Ok(Box::new(rows.map(|rows| rows?.try_into_record_batch().map_err(Into::into))))
}

/// The feed's own columns of rows that a first snapshot has.
#[derive(Clone, Copy, Debug)]
pub struct Inserted {
    version: u64,
    time_ms: i64,
}

impl Inserted {
    /// As of a version.
    pub async fn at(table: &SourceTable, version: u64) -> Result<Self> {
        let times = commit_times(&table.location).await?;
        let time_ms = times.iter().find(|(of, _)| *of == version).map_or(0, |(_, at)| *at);
        Ok(Self { version, time_ms })
    }

    /// One of the columns.
    pub fn column(self, name: &str, rows: usize) -> Option<ArrayRef> {
        let version = i64::try_from(self.version).unwrap_or(i64::MAX);
        match name {
            CHANGE_TYPE => Some(Arc::new(StringArray::from_iter_values(std::iter::repeat_n("insert", rows)))),
            COMMIT_VERSION => Some(Arc::new(Int64Array::from_value(version, rows))),
            COMMIT_TIMESTAMP => {
                let times = TimestampMicrosecondArray::from_value(self.time_ms.saturating_mul(1_000), rows);
                Some(Arc::new(times.with_timezone("UTC")))
            }
            _ => None,
        }
    }
}

/// Refuses a commit that ends the recording of changes.
pub fn check_commit(commit: &Commit, table: &SourceTable) -> Result<()> {
    match &commit.metadata {
        Some(metadata) => check_recorded(metadata, commit.version, table),
        None => Ok(()),
    }
}

/// Refuses to begin at a version that did not record its changes.
pub async fn check_version(version: u64, table: &SourceTable) -> Result<()> {
    let version = version.min(table.version());
    let snapshot = kernel_snapshot(&table.location, Some(version)).await?;
    check_recorded(&facts_of(&table.location, &snapshot)?.0, version, table)
}

fn check_recorded(metadata: &MetaData, version: u64, table: &SourceTable) -> Result<()> {
    if metadata.configuration.get(ENABLED).is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
        return Ok(());
    }
    Err(Error::config(
        "DELTA_MISSING_CHANGE_DATA",
        format!(
            "Error getting change data of the Delta table {}: change data was not recorded for version [{version}]. If it was enabled later, begin there: DESCRIBE HISTORY tells the version for startingVersion. Otherwise run ALTER TABLE ... SET TBLPROPERTIES (delta.enableChangeDataFeed=true)",
            table.location.url()
        ),
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn commit(version: u64, lines: &[&str]) -> Commit {
        Commit::parse(version, "x.json", lines.join("\n").as_bytes()).unwrap()
    }

    const ADD: &str = r#"{"add":{"path":"a","size":9,"modificationTime":7,"dataChange":true}}"#;
    const REMOVE: &str = r#"{"remove":{"path":"r","size":4,"dataChange":true}}"#;
    const CDC: &str = r#"{"cdc":{"path":"_change_data/c","size":2,"dataChange":false}}"#;
    const META: &str = r#"{"metaData":{"id":"i","format":{"provider":"parquet"},"schemaString":"{}","partitionColumns":[]}}"#;

    #[test]
    fn change_files_stand_for_all_that_a_version_did() {
        let paths = |lines: &[&str]| commit(1, lines).changes.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&[ADD, REMOVE]), ["a", "r"]);
        assert_eq!(paths(&[ADD, CDC, REMOVE]), ["_change_data/c"]);
        assert!(paths(&[&ADD.replace("true", "false"), &REMOVE.replace("true", "false")]).is_empty());
    }

    #[test]
    fn versions_are_read_together_until_columns_may_change() {
        let mut grouped = Grouped::default();
        for (version, lines) in
            [(3, vec![ADD]), (4, vec![]), (5, vec![CDC]), (6, vec![META]), (7, vec![ADD]), (8, vec![META, ADD]), (30, vec![REMOVE])]
        {
            let lines = if lines.is_empty() { vec![r#"{"commitInfo":{}}"#] } else { lines };
            grouped.take(&commit(version, &lines));
        }
        let groups = grouped.into_groups();
        assert_eq!(
            groups.iter().map(|group| (group.first, group.last, group.bytes)).collect::<Vec<_>>(),
            [(3, 5, 11), (7, 7, 9), (8, 8, 9), (30, 30, 4)]
        );
        assert_eq!(groups[0].paths, ["a", "_change_data/c"]);
    }
}
