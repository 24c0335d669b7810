//! Which tables the sink may append to.
//!
//! A writer must know every writer feature that a table names, and must keep
//! the rules that the table's metadata sets (Delta protocol, "Writer Version
//! Requirements"). A plain append fulfils many features without doing
//! anything; rules for rows are `rules`, names of columns `mapping`, and what
//! is left is refused with the remedy. Decides only.

use std::collections::BTreeMap;

use deltalake_core::kernel::StructType;
use weir_core::{Error, Result};

use super::action::{MetaData, Protocol};
use super::schema::same_name;

/// Features that a plain append respects: either it does nothing that they
/// govern, or their rules are checked in the metadata below.
const RESPECTED: &[&str] = &[
    "appendOnly",
    "invariants",
    "checkConstraints",
    "changeDataFeed",
    "generatedColumns",
    "columnMapping",
    "identityColumns",
    "deletionVectors",
    "timestampNtz",
    "domainMetadata",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "allowColumnDefaults",
    "typeWidening",
    "typeWidening-preview",
    IN_COMMIT_TIMESTAMP,
    ROW_TRACKING,
    CLUSTERING,
];

/// Each version says itself when it was made.
pub const IN_COMMIT_TIMESTAMP: &str = "inCommitTimestamp";
/// Each row has an id.
pub const ROW_TRACKING: &str = "rowTracking";
const CLUSTERING: &str = "clustering";

/// Whether a writer has to know a feature of the table.
pub fn has(protocol: &Protocol, feature: &str) -> bool {
    protocol.writer_features.iter().flatten().any(|known| known == feature)
}

/// The protocol of a table that the sink creates.
pub fn protocol_for(with_timestamp_ntz: bool) -> Protocol {
    if !with_timestamp_ntz {
        return Protocol { min_reader_version: 1, min_writer_version: 2, reader_features: None, writer_features: None };
    }
    let named = |features: &[&str]| Some(features.iter().map(|f| (*f).to_owned()).collect());
    Protocol {
        min_reader_version: 3,
        min_writer_version: 7,
        reader_features: named(&["timestampNtz"]),
        writer_features: named(&["appendOnly", "invariants", "timestampNtz"]),
    }
}

/// Whether the protocol lets a column be a timestamp without time zone.
pub fn allows_timestamp_ntz(protocol: &Protocol) -> bool {
    has(protocol, "timestampNtz")
}

/// Refuses tables that a plain append would damage.
pub fn check_writable(url: &str, protocol: &Protocol, metadata: &MetaData) -> Result<()> {
    if protocol.min_writer_version > 7 || protocol.min_reader_version > 3 {
        return Err(refused(
            url,
            &format!(
                "its protocol (reader {}, writer {}) is newer than this version of Weir knows",
                protocol.min_reader_version, protocol.min_writer_version
            ),
            "use a newer version of Weir",
        ));
    }
    let unknown: Vec<&str> = protocol.writer_features.iter().flatten().map(String::as_str).filter(|f| !RESPECTED.contains(f)).collect();
    if !unknown.is_empty() {
        return Err(refused(
            url,
            &format!("it has the table features {}, which Weir does not write", unknown.join(", ")),
            "write to another table, or drop them with ALTER TABLE ... DROP FEATURE",
        ));
    }
    if metadata.format.provider != "parquet" {
        return Err(refused(url, &format!("its files are {}", metadata.format.provider), "write to a Parquet table"));
    }
    let chosen = |name: &&&str| metadata.configuration.contains_key(**name);
    match CHOSEN_STATISTICS.iter().find(chosen) {
        Some(name) if has(protocol, CLUSTERING) => Err(refused(
            url,
            &format!("it is clustered and its statistics are chosen by {name}, which Weir does not follow"),
            "run ALTER TABLE ... UNSET TBLPROPERTIES, or write to another table",
        )),
        _ => Ok(()),
    }
}

/// Properties that say which columns have statistics; clustering relies on those of its columns.
const CHOSEN_STATISTICS: &[&str] = &["delta.dataSkippingNumIndexedCols", "delta.dataSkippingStatsColumns"];

/// Whether each commit has to tell what it did to rows.
pub fn has_change_feed(configuration: &BTreeMap<String, String>) -> bool {
    is_on(configuration, "delta.enableChangeDataFeed")
}

/// Columns that the change data feed itself gives to its rows.
const CHANGE_COLUMNS: &[&str] = &["_change_type", "_commit_version", "_commit_timestamp"];

/// Refuses columns that a table with a change data feed keeps for itself.
pub fn check_change_feed(url: &str, configuration: &BTreeMap<String, String>, schema: &StructType) -> Result<()> {
    let reserved = |name: &&String| CHANGE_COLUMNS.iter().any(|column| same_name(column, name));
    let taken: Vec<String> = schema.field_names().filter(reserved).map(|name| format!("`{name}`")).collect();
    if taken.is_empty() || !has_change_feed(configuration) {
        return Ok(());
    }
    Err(Error::config(
        "DELTA_RESERVED_CDC_COLUMNS_ON_WRITE",
        format!(
            "cannot write to the Delta table {url}: the columns {} are those of its change data feed; give them other names with AS, or run ALTER TABLE ... SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')",
            taken.join(", ")
        ),
    ))
}

fn is_on(configuration: &BTreeMap<String, String>, name: &str) -> bool {
    configuration.get(name).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

/// Refuses tables that take appended rows but no merge, which removes rows and writes others again.
pub fn check_mergeable(url: &str, protocol: &Protocol, metadata: &MetaData) -> Result<()> {
    if is_on(&metadata.configuration, "delta.appendOnly") {
        return Err(Error::config(
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
            format!(
                "cannot merge by upsertKeys into the Delta table {url}: it is append-only (delta.appendOnly); remove upsertKeys, or run ALTER TABLE ... UNSET TBLPROPERTIES ('delta.appendOnly')"
            ),
        ));
    }
    // Where the feature is only supported, rows that are written again get new ids, as in any table.
    if has(protocol, ROW_TRACKING) && is_on(&metadata.configuration, "delta.enableRowTracking") {
        return Err(Error::config(
            "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
            format!(
                "cannot merge by upsertKeys into the Delta table {url}: it tracks rows (delta.enableRowTracking), whose ids a merge has to keep, which Weir's does not; merge into a table without it, remove upsertKeys, or run ALTER TABLE ... SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')"
            ),
        ));
    }
    Ok(())
}

fn refused(url: &str, why: &str, remedy: &str) -> Error {
    Error::config("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", format!("cannot append to the Delta table {url}: {why}; {remedy}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::delta::action::Format;

    fn metadata(configuration: &[(&str, &str)]) -> MetaData {
        MetaData {
            id: "id".into(),
            name: None,
            description: None,
            format: Format { provider: "parquet".into(), options: BTreeMap::new() },
            schema_string: String::new(),
            partition_columns: vec![],
            configuration: configuration.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            created_time: None,
        }
    }

    #[test]
    fn a_change_feed_keeps_its_columns_for_itself() {
        use deltalake_core::kernel::{DataType, StructField};
        let schema = |name: &str| StructType::try_new([StructField::nullable(name, DataType::STRING)]).unwrap();
        let on = BTreeMap::from([("delta.enableChangeDataFeed".to_owned(), "true".to_owned())]);
        for name in ["_change_type", "_COMMIT_VERSION", "_commit_timestamp"] {
            let error = check_change_feed("t", &on, &schema(name)).unwrap_err();
            assert_eq!(error.condition(), "DELTA_RESERVED_CDC_COLUMNS_ON_WRITE");
            assert!(error.message().contains(&format!("`{name}`")), "{error}");
            check_change_feed("t", &BTreeMap::new(), &schema(name)).unwrap();
        }
        check_change_feed("t", &on, &schema("change_type")).unwrap();
    }

    #[test]
    fn only_tables_that_an_append_keeps_whole_are_written() {
        let plain = protocol_for(false);
        let with = |features: &[&str]| Protocol {
            min_reader_version: 3,
            min_writer_version: 7,
            reader_features: None,
            writer_features: Some(features.iter().map(|f| (*f).to_owned()).collect()),
        };
        check_writable("t", &plain, &metadata(&[("delta.appendOnly", "true"), ("delta.columnMapping.mode", "name")])).unwrap();
        for features in [&["deletionVectors", "timestampNtz"], &["rowTracking", "inCommitTimestamp"], &["clustering", "domainMetadata"]] {
            check_writable("t", &with(features), &metadata(&[])).unwrap();
        }
        check_writable("t", &protocol_for(true), &metadata(&[])).unwrap();
        let said = |protocol: &Protocol, metadata: &MetaData| check_writable("t", protocol, metadata).unwrap_err().to_string();
        assert!(said(&with(&["icebergCompatV2"]), &metadata(&[])).contains("icebergCompatV2"));
        let chosen = metadata(&[("delta.dataSkippingStatsColumns", "v")]);
        assert!(said(&with(&["clustering"]), &chosen).contains("delta.dataSkippingStatsColumns"));
        check_writable("t", &plain, &chosen).unwrap();
        let merging = |name: &str, value: &str| check_mergeable("t", &plain, &metadata(&[(name, value)])).unwrap_err();
        assert_eq!(merging("delta.appendOnly", "true").condition(), "DELTA_CANNOT_MODIFY_APPEND_ONLY");
        let tracked = |on: &str| check_mergeable("t", &with(&["rowTracking"]), &metadata(&[("delta.enableRowTracking", on)]));
        assert!(tracked("true").unwrap_err().to_string().contains("tracks rows"));
        tracked("false").unwrap();
        check_mergeable("t", &plain, &metadata(&[("delta.columnMapping.mode", "id")])).unwrap();
        check_mergeable("t", &plain, &metadata(&[("delta.appendOnly", "false"), ("delta.enableDeletionVectors", "true")])).unwrap();
    }
}
