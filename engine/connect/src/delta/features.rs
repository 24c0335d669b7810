//! Which tables the sink may append to.
//!
//! A writer must know every writer feature that a table names, and must keep
//! the rules that the table's metadata sets (Delta protocol, "Writer Version
//! Requirements"). A plain append fulfils many features without doing
//! anything; those that would need SQL, generated values or another file
//! layout are refused with the remedy. Decides only.

use deltalake_core::kernel::{MetadataValue, StructType};
use weir_core::{Error, Result};

use super::action::{MetaData, Protocol};

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
];

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
    protocol.writer_features.iter().flatten().any(|feature| feature == "timestampNtz")
}

/// Refuses tables that a plain append would damage.
pub fn check_writable(url: &str, protocol: &Protocol, metadata: &MetaData, schema: &StructType) -> Result<()> {
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
    check_configuration(url, metadata)?;
    check_columns(url, schema)
}

/// Refuses tables that take appended rows but no merge, which removes rows and writes others again.
pub fn check_mergeable(url: &str, metadata: &MetaData) -> Result<()> {
    let is_on = |name: &str| metadata.configuration.get(name).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    if is_on("delta.appendOnly") {
        return Err(Error::config(
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
            format!(
                "cannot merge by upsertKeys into the Delta table {url}: it is append-only (delta.appendOnly); remove upsertKeys, or run ALTER TABLE ... UNSET TBLPROPERTIES ('delta.appendOnly')"
            ),
        ));
    }
    if is_on("delta.enableChangeDataFeed") {
        return Err(Error::config(
            "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
            format!(
                "cannot merge by upsertKeys into the Delta table {url}: its change data feed is on (delta.enableChangeDataFeed), and Weir does not write change files; turn it off with ALTER TABLE ... SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false'), or remove upsertKeys"
            ),
        ));
    }
    Ok(())
}

fn check_configuration(url: &str, metadata: &MetaData) -> Result<()> {
    for (name, value) in &metadata.configuration {
        if name == "delta.columnMapping.mode" && !value.eq_ignore_ascii_case("none") {
            return Err(refused(url, &format!("it uses column mapping ({value})"), "write to a table without column mapping"));
        }
    }
    Ok(())
}

fn check_columns(url: &str, schema: &StructType) -> Result<()> {
    for field in schema.fields() {
        let named = |key: &str| field.metadata.get(key).filter(|value| **value != MetadataValue::String(String::new()));
        if named("delta.identity.start").is_some() {
            return Err(refused(url, &format!("the column `{}` is an identity column", field.name()), "write to a table without one"));
        }
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
    use deltalake_core::kernel::{DataType, StructField};
    use std::collections::BTreeMap;

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
    fn only_tables_that_an_append_keeps_whole_are_written() {
        let schema = StructType::try_new([StructField::nullable("k", DataType::STRING)]).unwrap();
        let plain = protocol_for(false);
        let with = |features: &[&str]| Protocol {
            min_reader_version: 3,
            min_writer_version: 7,
            reader_features: None,
            writer_features: Some(features.iter().map(|f| (*f).to_owned()).collect()),
        };
        check_writable("t", &plain, &metadata(&[("delta.appendOnly", "true")]), &schema).unwrap();
        check_writable("t", &with(&["deletionVectors", "timestampNtz"]), &metadata(&[]), &schema).unwrap();
        check_writable("t", &protocol_for(true), &metadata(&[]), &schema).unwrap();
        let said = |protocol: &Protocol, metadata: &MetaData, schema: &StructType| {
            check_writable("t", protocol, metadata, schema).unwrap_err().to_string()
        };
        assert!(said(&with(&["rowTracking"]), &metadata(&[]), &schema).contains("rowTracking"));
        assert!(said(&plain, &metadata(&[("delta.columnMapping.mode", "name")]), &schema).contains("column mapping"));
        let merging = |name: &str| check_mergeable("t", &metadata(&[(name, "true")])).unwrap_err();
        assert_eq!(merging("delta.appendOnly").condition(), "DELTA_CANNOT_MODIFY_APPEND_ONLY");
        assert!(merging("delta.enableChangeDataFeed").to_string().contains("change data feed"));
        check_mergeable("t", &metadata(&[("delta.appendOnly", "false"), ("delta.enableDeletionVectors", "true")])).unwrap();
        let identity = StructField::nullable("i", DataType::LONG).with_metadata([("delta.identity.start", MetadataValue::Number(1))]);
        assert!(said(&plain, &metadata(&[]), &StructType::try_new([identity]).unwrap()).contains("`i` is an identity column"));
    }
}
