//! The options of the Delta sink and of a Delta table that is read.
//!
//! Spark's names, case-insensitive (`DeltaOptions`). What a streaming append
//! does not need is refused with the reason instead of being ignored as Spark
//! does. Decides only; opens nothing.

use std::collections::BTreeMap;

use weir_core::{Error, Result};

use crate::open::UpsertBy;

/// How the sink writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkOptions {
    /// The table's location as the user wrote it.
    pub path: String,
    /// What happens to columns that the table lacks.
    pub evolution: SchemaEvolution,
    /// `userMetadata` of every commit.
    pub user_metadata: Option<String>,
    /// Rows after which a file is closed; 0 is no limit.
    pub max_records_per_file: u64,
    /// How pages are compressed.
    pub compression: Compression,
    /// How rows are merged, by the sink's fields `upsertKeys` and `upsertOrderBy`; else they are appended.
    pub upsert: Option<UpsertBy>,
}

/// What happens to columns that the table lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaEvolution {
    /// They are refused.
    Refuse,
    /// `mergeSchema`: they are added to the table as nullable columns.
    AddColumns,
}

/// Page compression of the data files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// zstd, level 1: the default. Half the bytes of snappy at about its speed.
    Zstd,
    /// snappy, for readers that lack zstd.
    Snappy,
    /// gzip.
    Gzip,
    /// lz4, without Hadoop's frames.
    Lz4Raw,
    /// None.
    Uncompressed,
}

impl Compression {
    /// The part of the file name before `.parquet`.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Zstd => ".zstd",
            Self::Snappy => ".snappy",
            Self::Gzip => ".gz",
            Self::Lz4Raw => ".lz4raw",
            Self::Uncompressed => "",
        }
    }
}

/// Which version of a table is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadVersion {
    /// The newest, looked up anew at each scan.
    Newest,
    /// `versionAsOf`.
    Version(u64),
    /// `timestampAsOf`, milliseconds since the epoch.
    Timestamp(i64),
}

/// What Spark compresses all Parquet files with, those of Delta tables too.
const CODEC: &str = "spark.sql.parquet.compression.codec";
const AUTO_MERGE: &str = "spark.databricks.delta.schema.autoMerge.enabled";

const REFUSED: &[(&str, &str)] = &[
    (
        "overwriteSchema",
        "a stream appends and never replaces the table's schema; write to a new table, or use `mergeSchema` to add columns",
    ),
    ("replaceWhere", "a stream appends and replaces no rows"),
    ("partitionOverwriteMode", "a stream appends and replaces no partitions"),
    ("txnAppId", "the query id is the transaction identifier of a stream"),
    ("txnVersion", "the batch id is the transaction version of a stream"),
    ("dataChange", "a stream writes data"),
    ("optimizeWrite", "files are sized by the table property `delta.targetFileSize`"),
    ("autoCompact", "compact the table with OPTIMIZE"),
];

impl SinkOptions {
    /// Parses the options of a sink; `conf` holds the session's settings.
    pub fn parse(options: &BTreeMap<String, String>, conf: &BTreeMap<String, String>) -> Result<Self> {
        let mut parsed = Self {
            path: String::new(),
            evolution: SchemaEvolution::Refuse,
            user_metadata: None,
            max_records_per_file: 0,
            compression: Compression::Zstd,
            upsert: None,
        };
        if let Some(text) = conf.get(CODEC) {
            parsed.compression = compression(CODEC, text)?;
        }
        if let Some(text) = conf.get(AUTO_MERGE) {
            parsed.evolution = evolution(AUTO_MERGE, text)?;
        }
        for (name, value) in options {
            match name.to_ascii_lowercase().as_str() {
                "path" => parsed.path.clone_from(value),
                "mergeschema" => parsed.evolution = evolution(name, value)?,
                "usermetadata" => parsed.user_metadata = Some(value.clone()),
                "maxrecordsperfile" => parsed.max_records_per_file = number(name, value)?,
                "compression" => parsed.compression = compression(name, value)?,
                "checkpointlocation" => {}
                _ => refuse(name, value)?,
            }
        }
        if parsed.path.trim().is_empty() {
            return Err(Error::config(
                "DELTA_MISSING_PATH",
                "the Delta sink has no `path`; name the table's folder, for example path: s3://lake/bronze/readings",
            ));
        }
        Ok(parsed)
    }
}

/// Parses `versionAsOf` and `timestampAsOf`; other options are refused.
pub fn read_version(options: &BTreeMap<String, String>) -> Result<ReadVersion> {
    let mut version = ReadVersion::Newest;
    for (name, value) in options {
        let found = match name.to_ascii_lowercase().as_str() {
            "path" | "readchangefeed" | "readchangedata" => continue,
            "startingversion" | "startingtimestamp" | "endingversion" | "endingtimestamp" => {
                let text = format!(
                    "the option `{name}` of a static table bounds its change data feed; set readChangeFeed: \"true\", or use `versionAsOf`"
                );
                return Err(Error::config("DELTA_ILLEGAL_OPTION", text));
            }
            "versionasof" => ReadVersion::Version(number(name, value)?),
            "timestampasof" => ReadVersion::Timestamp(timestamp(name, value)?),
            _ => return Err(unknown(name, "`path`, `versionAsOf`, `timestampAsOf`")),
        };
        if version != ReadVersion::Newest {
            return Err(Error::config(
                "DELTA_ONEOF_IN_TIMETRAVEL",
                "`versionAsOf` and `timestampAsOf` exclude each other; give one of them",
            ));
        }
        version = found;
    }
    Ok(version)
}

fn refuse(name: &str, value: &str) -> Result<()> {
    match REFUSED.iter().find(|(refused, _)| refused.eq_ignore_ascii_case(name)) {
        // Set to what happens anyway, it asks for nothing.
        Some(_) if value.eq_ignore_ascii_case("false") && !name.eq_ignore_ascii_case("dataChange") => Ok(()),
        Some((refused, reason)) => Err(Error::config(
            "DELTA_ILLEGAL_OPTION",
            format!("the option `{refused}` cannot be used by the Delta sink: {reason}; remove it"),
        )),
        None => Err(unknown(name, "`path`, `mergeSchema`, `userMetadata`, `maxRecordsPerFile`, `compression`")),
    }
}

fn unknown(name: &str, known: &str) -> Error {
    Error::config("DELTA_UNKNOWN_OPTION", format!("Delta has no option `{name}` here; known are {known}"))
}

fn evolution(name: &str, value: &str) -> Result<SchemaEvolution> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(SchemaEvolution::AddColumns),
        "false" => Ok(SchemaEvolution::Refuse),
        _ => Err(illegal(name, value, "must be 'true' or 'false'")),
    }
}

fn number(name: &str, value: &str) -> Result<u64> {
    value.trim().parse().map_err(|_| illegal(name, value, "must be a whole number, 0 or more"))
}

fn compression(name: &str, value: &str) -> Result<Compression> {
    match value.trim().to_ascii_lowercase().as_str() {
        "zstd" => Ok(Compression::Zstd),
        "snappy" => Ok(Compression::Snappy),
        "gzip" => Ok(Compression::Gzip),
        "lz4_raw" => Ok(Compression::Lz4Raw),
        "none" | "uncompressed" => Ok(Compression::Uncompressed),
        _ => Err(illegal(name, value, "must be one of none, uncompressed, snappy, gzip, zstd, lz4_raw")),
    }
}

fn timestamp(name: &str, value: &str) -> Result<i64> {
    instant(value, Some).ok_or_else(|| illegal(name, value, "must be a date or time such as 2024-06-01 or 2024-06-01T10:00:00Z (UTC)"))
}

/// Milliseconds since the epoch of a date or time; `to_instant` turns the microseconds of one without a zone into those of UTC.
pub fn instant(value: &str, to_instant: impl FnOnce(i64) -> Option<i64>) -> Option<i64> {
    let text = value.trim();
    if let Ok(at) = chrono::DateTime::parse_from_rfc3339(text) {
        return Some(at.timestamp_millis());
    }
    let midnight = chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().and_then(|d| d.and_hms_opt(0, 0, 0));
    let local = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"]
        .iter()
        .find_map(|format| chrono::NaiveDateTime::parse_from_str(text, format).ok())
        .or(midnight)?;
    to_instant(local.and_utc().timestamp_micros()).map(|micros| micros.div_euclid(1000))
}

fn illegal(name: &str, value: &str, must: &str) -> Error {
    Error::config("DELTA_ILLEGAL_OPTION", format!("invalid value '{value}' for option '{name}', {must}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn names_are_case_insensitive_and_the_conf_is_the_default() {
        let none = map(&[]);
        let parsed = SinkOptions::parse(&map(&[("PATH", "/t"), ("MergeSchema", "TRUE")]), &none).unwrap();
        assert_eq!((parsed.path.as_str(), parsed.evolution), ("/t", SchemaEvolution::AddColumns));
        let conf = map(&[(AUTO_MERGE, "true")]);
        assert_eq!(SinkOptions::parse(&map(&[("path", "/t")]), &conf).unwrap().evolution, SchemaEvolution::AddColumns);
        let off = SinkOptions::parse(&map(&[("path", "/t"), ("mergeSchema", "false")]), &conf).unwrap();
        assert_eq!(off.evolution, SchemaEvolution::Refuse);
    }

    #[test]
    fn every_codec_of_the_option_table_is_written() {
        let codecs = weir_crds::options::Format::Delta.rows(weir_crds::options::Role::Sink).find(|row| row.name == "compression").unwrap();
        let weir_crds::options::Kind::Choice(words) = codecs.kind else { panic!("{codecs:?}") };
        let of = |option: Option<&str>, conf: Option<&str>| {
            let options: Vec<_> = std::iter::once(("path", "/t")).chain(option.map(|word| ("compression", word))).collect();
            let conf: Vec<_> = conf.map(|word| (CODEC, word)).into_iter().collect();
            SinkOptions::parse(&map(&options), &map(&conf)).unwrap().compression
        };
        assert!(words.iter().all(|word| of(Some(*word), None) == of(None, Some(*word))));
        assert_eq!(of(None, None), of(codecs.default, None));
        assert_eq!(of(Some("gzip"), Some("snappy")), Compression::Gzip);
        assert!(SinkOptions::parse(&map(&[("path", "/t"), ("compression", "lzo")]), &map(&[])).is_err());
    }

    #[test]
    fn refusals_say_why() {
        let none = map(&[]);
        for (options, part) in [
            (map(&[]), "no `path`"),
            (map(&[("path", "/t"), ("overwriteSchema", "true")]), "never replaces the table's schema"),
            (map(&[("path", "/t"), ("mergeSchemas", "true")]), "no option `mergeSchemas`"),
            (map(&[("path", "/t"), ("mergeSchema", "yes")]), "must be 'true' or 'false'"),
        ] {
            let error = SinkOptions::parse(&options, &none).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        SinkOptions::parse(&map(&[("path", "/t"), ("overwriteSchema", "false")]), &none).unwrap();
    }

    #[test]
    fn versions_to_read() {
        assert_eq!(read_version(&map(&[("versionAsOf", "3")])).unwrap(), ReadVersion::Version(3));
        assert_eq!(read_version(&map(&[("timestampAsOf", "1970-01-02")])).unwrap(), ReadVersion::Timestamp(86_400_000));
        assert_eq!(read_version(&map(&[])).unwrap(), ReadVersion::Newest);
        assert!(read_version(&map(&[("versionAsOf", "3"), ("timestampAsOf", "1970-01-02")])).is_err());
        assert!(read_version(&map(&[("versionAsOf", "-1")])).is_err());
        assert_eq!(read_version(&map(&[("readChangeFeed", "false")])).unwrap(), ReadVersion::Newest);
        assert!(read_version(&map(&[("endingVersion", "1")])).unwrap_err().message().contains("readChangeFeed"));
    }
}
