//! The actions of Delta's log that a stream reads and writes.
//!
//! Shapes and names are those of the Delta transaction log protocol
//! ("Actions"); one JSON object a line. Reading keeps only what decides a
//! commit (metadata, protocol, transaction identifiers, the commit's own id)
//! and skips everything else unparsed.

use std::collections::BTreeMap;

use deltalake_core::kernel::DeletionVectorDescriptor;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_core::{Error, Result};

use super::damage;

/// The `metaData` action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetaData {
    /// The table's id, a UUID.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub format: Format,
    /// The schema as Spark's JSON, as a string.
    pub schema_string: String,
    pub partition_columns: Vec<String>,
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    /// Milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
}

/// The files' format; Parquet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    pub provider: String,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// The `protocol` action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    pub min_reader_version: u32,
    pub min_writer_version: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<Vec<String>>,
}

/// The `txn` action: how far an application has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Txn {
    pub app_id: String,
    pub version: i64,
    /// Milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<i64>,
}

/// The `add` action of a new file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// Relative path, percent-encoded as a URI.
    pub path: String,
    pub partition_values: BTreeMap<String, Option<String>>,
    pub size: u64,
    pub modification_time: i64,
    pub data_change: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// The id of its first row, in tables that track rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_row_id: Option<i64>,
    /// The version that its rows came with, in tables that track rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_row_commit_version: Option<u64>,
}

/// The `cdc` action: a file that tells what a commit did to rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cdc {
    /// Relative path, percent-encoded as a URI.
    pub path: String,
    pub partition_values: BTreeMap<String, Option<String>>,
    pub size: u64,
    pub data_change: bool,
}

/// The `domainMetadata` action: a setting of a feature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainMetadata {
    /// Whose it is.
    pub domain: String,
    /// JSON in a string.
    pub configuration: String,
    /// Whether it is no more.
    pub removed: bool,
}

/// The `remove` action of a file that a merge replaces.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// As the file's `add` spells it.
    pub path: String,
    pub deletion_timestamp: i64,
    pub data_change: bool,
    pub extended_file_metadata: bool,
    pub partition_values: BTreeMap<String, Option<String>>,
    pub size: i64,
    /// Part of the file's identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVectorDescriptor>,
}

/// The provenance record, with the field order of Spark's writer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitInfo {
    /// When the version was made, in tables whose log says so itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_commit_timestamp: Option<i64>,
    pub timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_metadata: Option<String>,
    pub operation: &'static str,
    pub operation_parameters: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_version: Option<u64>,
    pub isolation_level: &'static str,
    pub is_blind_append: bool,
    pub operation_metrics: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<&'static str, String>,
    pub engine_info: String,
    /// This commit's own id: tells a lost response from another's commit.
    pub txn_id: String,
}

/// One line of a new log entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    CommitInfo(CommitInfo),
    MetaData(MetaData),
    Protocol(Protocol),
    Txn(Txn),
    DomainMetadata(DomainMetadata),
    Remove(Remove),
    Cdc(Cdc),
    Add(Add),
}

/// What one stored commit changes for a streaming append.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitFacts {
    /// `commitInfo.txnId`.
    pub txn_id: Option<String>,
    /// `commitInfo.inCommitTimestamp`.
    pub in_commit_timestamp: Option<i64>,
    /// The newest row id that was given, if the commit says so.
    pub row_ids: Option<i64>,
    /// New metadata.
    pub metadata: Option<MetaData>,
    /// New protocol.
    pub protocol: Option<Protocol>,
    /// Transaction identifiers, in log order.
    pub txns: Vec<Txn>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    commit_info: Option<StoredCommitInfo>,
    meta_data: Option<MetaData>,
    protocol: Option<Protocol>,
    txn: Option<Txn>,
    domain_metadata: Option<DomainMetadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCommitInfo {
    txn_id: Option<String>,
    in_commit_timestamp: Option<i64>,
}

/// The domain of the row ids.
pub const ROW_TRACKING: &str = "delta.rowTracking";

/// The newest row id that was given, from the domain's configuration.
pub fn newest_row_id(configuration: &str) -> Option<i64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Tracked {
        row_id_high_water_mark: i64,
    }
    serde_json::from_str::<Tracked>(configuration).ok().map(|tracked| tracked.row_id_high_water_mark)
}

/// The actions of a log entry, one a line; `file` is the entry's whole name, for errors. An empty entry is none: each
/// commit says at least that it was one.
pub fn lines_of<'e, T: DeserializeOwned>(file: &'e str, body: &'e [u8]) -> Result<impl Iterator<Item = Result<T>> + use<'e, T>> {
    let is_empty = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_whitespace);
    if is_empty(body) {
        return Err(damage::entry(file, "it is empty"));
    }
    let lines = body.split(|byte| *byte == b'\n').enumerate().filter(move |(_, line)| !is_empty(line));
    Ok(lines.map(move |(index, line)| {
        serde_json::from_slice(line).map_err(|error| damage::entry(file, &format!("line {} cannot be read ({error})", index + 1)))
    }))
}

/// Reads a commit's facts; `file` is the entry's whole name, for the error. An empty entry is none: each commit says at
/// least that it was one.
pub fn read_commit(file: &str, body: &[u8]) -> Result<CommitFacts> {
    let mut facts = CommitFacts::default();
    for line in lines_of::<Line>(file, body)? {
        let line = line?;
        if let Some(info) = line.commit_info {
            facts.txn_id = info.txn_id.or(facts.txn_id);
            facts.in_commit_timestamp = info.in_commit_timestamp.or(facts.in_commit_timestamp);
        }
        if let Some(tracked) = line.domain_metadata.filter(|domain| domain.domain == ROW_TRACKING && !domain.removed) {
            facts.row_ids = newest_row_id(&tracked.configuration).or(facts.row_ids);
        }
        facts.metadata = line.meta_data.or(facts.metadata);
        facts.protocol = line.protocol.or(facts.protocol);
        facts.txns.extend(line.txn);
    }
    Ok(facts)
}

/// The body of a log entry.
pub fn write_commit(actions: &[Action]) -> Result<Vec<u8>> {
    let mut body = Vec::with_capacity(actions.len() * 512);
    for action in actions {
        serde_json::to_writer(&mut body, action)
            .map_err(|e| Error::retryable("DELTA_COMMIT_FAILED", "a log action could not be written as JSON").with_source(e))?;
        body.push(b'\n');
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let txn = Txn { app_id: "q".into(), version: 7, last_updated: Some(1) };
        let protocol = Protocol { min_reader_version: 1, min_writer_version: 2, reader_features: None, writer_features: None };
        let add = Add {
            path: "a.parquet".into(),
            partition_values: BTreeMap::from([("k".to_owned(), None)]),
            size: 1,
            modification_time: 2,
            data_change: true,
            stats: None,
            base_row_id: None,
            default_row_commit_version: None,
        };
        let body = write_commit(&[Action::Protocol(protocol.clone()), Action::Txn(txn.clone()), Action::Add(add)]).unwrap();
        let text = String::from_utf8(body.clone()).unwrap();
        assert!(text.contains(r#""add":{"path":"a.parquet","partitionValues":{"k":null}"#), "{text}");
        let facts = read_commit("0", &body).unwrap();
        assert_eq!((facts.protocol, facts.txns, facts.txn_id), (Some(protocol), vec![txn], None));
    }

    #[test]
    fn a_damaged_entry_is_named() {
        let error = read_commit("00000000000000000003.json", b"{\"commitInfo\":{}}\n{\"add\":").unwrap_err();
        assert_eq!(error.class(), weir_core::ErrorClass::Incompatible);
        assert!(
            error.message().contains("the log entry 00000000000000000003.json is damaged: line 2") && error.message().contains("restore")
        );
        let error = read_commit("3.json", b"\n").unwrap_err();
        assert!(error.message().contains("3.json is damaged: it is empty"), "{error}");
    }
}
