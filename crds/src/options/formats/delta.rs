//! `delta`: a table by path. Tables by name are written as the field `table` of a source or sink.

use crate::options::kind::Kind;
use crate::options::row::OptionRow;

const OPTIONS: &str = "org.apache.spark.sql.delta.DeltaOptions";
const TRAVEL: &str = "org.apache.spark.sql.delta.DeltaTimeTravelSpec";

const IDENTIFIERS: &str = "is set by Weir to the query's id and the batch, which is what makes a batch take effect once: remove it";

/// Options of `delta`.
pub const DELTA_ROWS: &[OptionRow] = &[
    OptionRow::new("path", Kind::Path, "Folder or URL of the table.", OPTIONS).required(),
    OptionRow::new("versionAsOf", Kind::Version, "Version to read. Default: the newest one at each batch.", TRAVEL).table(),
    OptionRow::new("timestampAsOf", Kind::NonEmpty, "Reads the version that was current at this time. Excludes versionAsOf.", TRAVEL)
        .table(),
    OptionRow::new("mergeSchema", Kind::Bool, "Whether new columns of the query are added to the table.", OPTIONS).write().default("false"),
    OptionRow::new(
        "overwriteSchema",
        Kind::Bool,
        "Whether a complete result replaces the schema too; only with output mode Complete.",
        OPTIONS,
    )
    .write()
    .default("false"),
    OptionRow::new("userMetadata", Kind::Text, "Text that each commit carries.", OPTIONS).write(),
    OptionRow::new("maxRecordsPerFile", Kind::Int { min: 0, max: i64::MAX }, "Most rows in one file; 0: no limit.", OPTIONS)
        .write()
        .default("0"),
    OptionRow::new(
        "compression",
        Kind::Choice(&["none", "uncompressed", "snappy", "gzip", "zstd", "lz4_raw"]),
        "Codec of the data files. Default: spark.sql.parquet.compression.codec where the job sets it, else zstd of level 1, half the bytes of Spark's snappy.",
        OPTIONS,
    )
    .write()
    .default("zstd"),
    OptionRow::new("txnAppId", Kind::Text, "Refused.", OPTIONS).write().refused(IDENTIFIERS),
    OptionRow::new("txnVersion", Kind::Text, "Refused.", OPTIONS).write().refused(IDENTIFIERS),
    OptionRow::new("replaceWhere", Kind::Text, "Refused for streams.", OPTIONS)
        .write()
        .refused("overwrites by a predicate, which a stream cannot do: remove it"),
    OptionRow::new("partitionOverwriteMode", Kind::Text, "Refused for streams.", OPTIONS)
        .write()
        .refused("overwrites partitions, which a stream cannot do: remove it"),
    OptionRow::new("checkpointLocation", Kind::Path, "Refused in options.", "org.apache.spark.sql.streaming.DataStreamWriter")
        .write()
        .refused("belongs to the query: write it as the query's field checkpointLocation"),
];
