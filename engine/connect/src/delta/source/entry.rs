//! One entry of a table's log as a stream reads it.
//!
//! Keeps the files that bring data, in the order of the log, and what decides
//! whether they may be read: removed data, metadata, protocol. Files that an
//! OPTIMIZE rewrote bring none. Decides (`readable`); reads no table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use serde::Deserialize;
use serde_json::Value;
use weir_core::{Error, Result};

use super::options::Changes;
use crate::delta::action::{MetaData, Protocol, lines_of};

/// A data file of the table.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// As the log has it: relative, percent-encoded.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written, milliseconds since the epoch.
    pub modified_ms: i64,
    /// What reading it needs beside.
    pub facts: FileFacts,
}

/// What is known of a file, by where it was found.
#[derive(Clone, Debug)]
pub enum FileFacts {
    /// In an entry of the log.
    Logged {
        /// Partition values by physical name.
        partition_values: BTreeMap<String, Option<String>>,
        /// The deletion vector's descriptor.
        deletion_vector: Option<Value>,
    },
    /// In a snapshot: a row of the kernel's scan.
    Scanned {
        /// The rows that were found with it.
        rows: Arc<RecordBatch>,
        /// Which of them it is.
        row: usize,
    },
}

/// A commit.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The version that it made.
    pub version: u64,
    /// When, milliseconds since the epoch, where it says so.
    pub time_ms: Option<i64>,
    /// What it was, as Delta prints it.
    pub operation: Option<String>,
    /// New metadata.
    pub metadata: Option<MetaData>,
    /// A new protocol.
    pub protocol: Option<Protocol>,
    /// Files with new data.
    pub added: Vec<DataFile>,
    /// The first file whose data went.
    pub removed: Option<String>,
    /// Files that say what it did to rows, for a change data feed: its change files, or else all that it added and removed.
    pub changes: Vec<DataFile>,
    has_change_files: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    commit_info: Option<Info>,
    meta_data: Option<MetaData>,
    protocol: Option<Protocol>,
    add: Option<Added>,
    remove: Option<Removed>,
    cdc: Option<Added>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    timestamp: Option<i64>,
    in_commit_timestamp: Option<i64>,
    operation: Option<String>,
    operation_parameters: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Added {
    path: String,
    #[serde(default)]
    partition_values: BTreeMap<String, Option<String>>,
    #[serde(default)]
    size: u64,
    #[serde(default)]
    modification_time: i64,
    data_change: bool,
    deletion_vector: Option<Value>,
}

impl Added {
    fn into_file(self) -> DataFile {
        DataFile {
            path: self.path,
            size: self.size,
            modified_ms: self.modification_time,
            facts: FileFacts::Logged { partition_values: self.partition_values, deletion_vector: self.deletion_vector },
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Removed {
    path: String,
    /// Absent in entries of old writers, for which it was true.
    #[serde(default = "yes")]
    data_change: bool,
    #[serde(default)]
    size: u64,
}

fn yes() -> bool {
    true
}

impl Commit {
    /// Reads the entry of a version; `name` is for the error.
    pub fn parse(version: u64, name: &str, body: &[u8]) -> Result<Self> {
        let mut commit = Self {
            version,
            time_ms: None,
            operation: None,
            metadata: None,
            protocol: None,
            added: Vec::new(),
            removed: None,
            changes: Vec::new(),
            has_change_files: false,
        };
        for line in lines_of(name, body)? {
            commit.take(line?);
        }
        Ok(commit)
    }

    fn take(&mut self, line: Line) {
        if let Some(info) = line.commit_info {
            self.time_ms = info.in_commit_timestamp.or(info.timestamp);
            self.operation = info.operation.map(|operation| {
                let parameters: Vec<String> =
                    info.operation_parameters.iter().flatten().map(|(name, value)| format!("{name} -> {value}")).collect();
                format!("{operation} (Map({}))", parameters.join(", "))
            });
        }
        self.metadata = line.meta_data.or(self.metadata.take());
        self.protocol = line.protocol.or(self.protocol.take());
        if let Some(add) = line.add.filter(|add| add.data_change) {
            let file = add.into_file();
            self.note_change(&file);
            self.added.push(file);
        }
        if let Some(remove) = line.remove.filter(|remove| remove.data_change) {
            let facts = FileFacts::Logged { partition_values: BTreeMap::new(), deletion_vector: None };
            self.note_change(&DataFile { path: remove.path.clone(), size: remove.size, modified_ms: 0, facts });
            self.removed.get_or_insert(remove.path);
        }
        if let Some(file) = line.cdc.map(Added::into_file) {
            if !std::mem::replace(&mut self.has_change_files, true) {
                self.changes.clear();
            }
            self.changes.push(file);
        }
    }

    fn note_change(&mut self, file: &DataFile) {
        if !self.has_change_files {
            self.changes.push(file.clone());
        }
    }

    /// The files that a stream reads of this commit, or Delta's refusal of what it did to data read before
    /// (`validateCommitAndDecideSkipping`).
    pub fn readable(&self, changes: Changes, url: &str) -> Result<&[DataFile]> {
        let Some(removed) = &self.removed else { return Ok(&self.added) };
        let version = self.version;
        match (changes, self.added.is_empty()) {
            (Changes::SkipCommits, _) => Ok(&[]),
            (Changes::ReadAgain, _) | (Changes::IgnoreDeletes, true) => Ok(&self.added),
            (Changes::Refuse, true) => Err(Error::config(
                "DELTA_SOURCE_IGNORE_DELETE",
                format!(
                    "Detected deleted data (for example {removed}) from streaming source at version {version}. This is currently not supported. If you'd like to ignore deletes, set the option 'ignoreDeletes' to 'true'. The source table can be found at path {url}."
                ),
            )),
            (Changes::Refuse | Changes::IgnoreDeletes, false) => {
                let example = match &self.operation {
                    Some(operation) => format!("{operation}, which replaced {removed}"),
                    None => removed.clone(),
                };
                Err(Error::config(
                    "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
                    format!(
                        "Detected a data update (for example {example}) in the source table at version {version}. This is currently not supported. If this is going to happen regularly and you are okay to skip changes, set the option 'skipChangeCommits' to 'true'. If you would like the data update to be reflected, please restart this query with a new checkpointLocation and a new checkpointResetNonce. The source table can be found at path {url}."
                    ),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn commit(lines: &[&str]) -> Commit {
        Commit::parse(5, "00000000000000000005.json", lines.join("\n").as_bytes()).unwrap()
    }

    const ADD: &str = r#"{"add":{"path":"k=1/b.parquet","partitionValues":{"k":"1","m":null},"size":9,"modificationTime":7,"dataChange":true,"stats":"{}","deletionVector":{"storageType":"u","pathOrInlineDv":"x","offset":1,"sizeInBytes":2,"cardinality":1}}}"#;
    const REMOVE: &str = r#"{"remove":{"path":"a.parquet","dataChange":true,"deletionTimestamp":1}}"#;
    const INFO: &str = r#"{"commitInfo":{"timestamp":42,"operation":"UPDATE","operationParameters":{"predicate":"[\"(k = x)\"]"}}}"#;

    #[test]
    fn an_entry_keeps_what_brings_data() {
        let read = commit(&[INFO, ADD, "", r#"{"txn":{"appId":"a","version":1}}"#]);
        assert_eq!((read.time_ms, read.operation.as_deref()), (Some(42), Some(r#"UPDATE (Map(predicate -> "[\"(k = x)\"]"))"#)));
        assert_eq!((read.added.len(), read.added[0].size, read.added[0].modified_ms, read.removed), (1, 9, 7, None));
        let FileFacts::Logged { partition_values, deletion_vector } = &read.added[0].facts else { panic!("{:?}", read.added) };
        assert_eq!(partition_values["m"], None);
        assert!(deletion_vector.is_some());
        let optimize = commit(&[&ADD.replace("true", "false"), &REMOVE.replace("true", "false")]);
        assert!(optimize.added.is_empty() && optimize.removed.is_none());
        let damaged = |body: &[u8]| Commit::parse(5, "5.json", body).unwrap_err().to_string();
        assert!(damaged(b"{\"add\":").contains("the log entry 5.json is damaged: line 1 cannot be read"));
        assert!(damaged(b"").contains("5.json is damaged: it is empty") && damaged(b" \n").contains("it is empty"));
    }

    #[test]
    fn removed_data_is_refused_or_tolerated_as_the_options_say() {
        let (delete, update) = (commit(&[REMOVE]), commit(&[INFO, REMOVE, ADD]));
        let count = |commit: &Commit, changes| commit.readable(changes, "file:/src").map(<[DataFile]>::len).map_err(|e| e.to_string());
        let gone = count(&delete, Changes::Refuse).unwrap_err();
        assert!(
            gone.starts_with(
                "[DELTA_SOURCE_IGNORE_DELETE] Detected deleted data (for example a.parquet) from streaming source at version 5"
            ),
            "{gone}"
        );
        for changes in [Changes::Refuse, Changes::IgnoreDeletes] {
            let changed = count(&update, changes).unwrap_err();
            assert!(
                changed.contains("(for example UPDATE (Map(predicate -> ")
                    && changed.contains("replaced a.parquet) in the source table at version 5"),
                "{changed}"
            );
        }
        assert_eq!(count(&delete, Changes::IgnoreDeletes), Ok(0));
        for (changes, files) in [(Changes::ReadAgain, 1), (Changes::SkipCommits, 0)] {
            assert_eq!((count(&delete, changes), count(&update, changes)), (Ok(0), Ok(files)));
        }
        assert_eq!(count(&commit(&[ADD]), Changes::SkipCommits), Ok(1));
    }
}
