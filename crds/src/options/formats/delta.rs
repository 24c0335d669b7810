//! `delta`: a table by path. Tables by name are written as the field `table` of a source or sink.

use crate::options::kind::{Kind, POSITIVE_INT};
use crate::options::row::OptionRow;

const OPTIONS: &str = "org.apache.spark.sql.delta.DeltaOptions";
const TRAVEL: &str = "org.apache.spark.sql.delta.DeltaTimeTravelSpec";

const ENDLESS: &str = "ends a change data feed, which a stream does not: remove it, or read the feed as a static table";
const SCHEMA_LOG: &str = "tracks renamed and dropped columns, which Weir does not: remove it; added columns are followed without it";

const REPLACES: &str = "replaces rows of the table by a batch, which a stream cannot do: remove it; upsertKeys merges by key";

const IDENTIFIERS: &str = "is set by Weir to the query's id and the batch, which is what makes a batch take effect once: remove it";

/// Options of `delta`.
pub const DELTA_ROWS: &[OptionRow] = &[
    OptionRow::new("path", Kind::Path, "Folder or URL of the table.", OPTIONS).required(),
    OptionRow::new("versionAsOf", Kind::Version, "Version to read. Default: the newest one at each batch.", TRAVEL).table(),
    OptionRow::new("timestampAsOf", Kind::NonEmpty, "Reads the version that was current at this time. Excludes versionAsOf.", TRAVEL)
        .table(),
    OptionRow::new("maxFilesPerTrigger", POSITIVE_INT, "Most files of a batch. Without effect where only maxBytesPerTrigger is given.", OPTIONS)
        .stream()
        .default("1000"),
    OptionRow::new("maxBytesPerTrigger", Kind::PositiveBytes, "Bytes after which a batch takes no more files; it has at least one.", OPTIONS)
        .stream()
        .bad_value("Invalid value '{}' for option 'maxBytesPerTrigger', must be a size configuration such as '10g'"),
    OptionRow::new(
        "startingVersion",
        Kind::VersionOrLatest,
        "First version whose changes a new query reads; latest: only what comes. Default: all that the table holds, then its changes.",
        OPTIONS,
    )
    .stream()
    .bad_value("Invalid value '{}' for option 'startingVersion', must be greater than or equal to zero, or latest"),
    OptionRow::new(
        "startingTimestamp",
        Kind::NonEmpty,
        "A new query reads the changes from the first version at or after this time. Excludes startingVersion.",
        OPTIONS,
    )
    .stream(),
    OptionRow::new(
        "skipChangeCommits",
        Kind::Bool,
        "Whether commits that delete or change rows are passed by whole. Else they end the query.",
        OPTIONS,
    )
    .stream()
    .default("false"),
    OptionRow::new("ignoreDeletes", Kind::Bool, "Whether commits that only delete are passed by. Else they end the query.", OPTIONS)
        .stream()
        .default("false"),
    OptionRow::new(
        "ignoreChanges",
        Kind::Bool,
        "Whether files that an update wrote are read, with the rows in them that were read before; skipChangeCommits repeats none.",
        OPTIONS,
    )
    .stream()
    .default("false"),
    OptionRow::new("ignoreFileDeletion", Kind::Bool, "An older name for what ignoreChanges does.", OPTIONS).stream().default("false"),
    OptionRow::new("excludeRegex", Kind::Regex, "Files are left out whose path in the table this regular expression finds.", OPTIONS)
        .stream()
        .bad_value("Please recheck your syntax for 'excludeRegex': '{}' is not a regular expression"),
    OptionRow::new(
        "failOnDataLoss",
        Kind::Bool,
        "Whether the query fails when versions or files that it has not read are gone, for example by log retention or VACUUM.",
        OPTIONS,
    )
    .stream()
    .default("true"),
    OptionRow::new("withEventTimeOrder", Kind::Bool, "Order of the first snapshot by event time.", OPTIONS)
        .stream()
        .ignored("the order within the first snapshot matters to stateful queries only, which Weir does not have yet"),
    OptionRow::new(
        "readChangeFeed",
        Kind::Bool,
        "Whether the rows are what each version did: inserts, deletes, updates before and after, with _change_type, _commit_version, _commit_timestamp.",
        OPTIONS,
    )
    .alias(&["readChangeData"])
    .stream()
    .default("false"),
    OptionRow::new(
        "readChangeFeed",
        Kind::Bool,
        "Whether the rows are what the versions from startingVersion to endingVersion did, with _change_type, _commit_version, _commit_timestamp.",
        OPTIONS,
    )
    .alias(&["readChangeData"])
    .table()
    .default("false"),
    OptionRow::new("startingVersion", Kind::Version, "First version of a change data feed.", OPTIONS).table(),
    OptionRow::new("startingTimestamp", Kind::NonEmpty, "The feed begins with the first version at or after this time.", OPTIONS).table(),
    OptionRow::new("endingVersion", Kind::Version, "Last version of a change data feed. Default: the newest one at each batch.", OPTIONS)
        .table(),
    OptionRow::new("endingTimestamp", Kind::NonEmpty, "The feed ends with the last version at or before this time.", OPTIONS).table(),
    OptionRow::new("endingVersion", Kind::Text, "Refused.", OPTIONS).stream().refused(ENDLESS),
    OptionRow::new("endingTimestamp", Kind::Text, "Refused.", OPTIONS).stream().refused(ENDLESS),
    OptionRow::new("schemaTrackingLocation", Kind::Path, "Refused.", OPTIONS).alias(&["schemaLocation"]).stream().refused(SCHEMA_LOG),
    OptionRow::new("streamingSourceTrackingId", Kind::Text, "Refused.", OPTIONS).stream().refused(SCHEMA_LOG),
    OptionRow::new("allowSourceColumnDrop", Kind::Text, "Refused.", OPTIONS).stream().refused(SCHEMA_LOG),
    OptionRow::new("allowSourceColumnRename", Kind::Text, "Refused.", OPTIONS).stream().refused(SCHEMA_LOG),
    OptionRow::new("allowSourceColumnTypeChange", Kind::Text, "Refused.", OPTIONS).stream().refused(SCHEMA_LOG),
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
    OptionRow::new("replaceOn", Kind::Text, "Refused for streams.", OPTIONS).write().refused(REPLACES),
    OptionRow::new("replaceUsing", Kind::Text, "Refused for streams.", OPTIONS).write().refused(REPLACES),
    OptionRow::new("targetAlias", Kind::Text, "Refused for streams.", OPTIONS).write().refused(REPLACES),
    OptionRow::new("partitionOverwriteMode", Kind::Text, "Refused for streams.", OPTIONS)
        .write()
        .refused("overwrites partitions, which a stream cannot do: remove it"),
    OptionRow::new("dataChange", Kind::Bool, "Refused for streams.", OPTIONS)
        .write()
        .refused("would say that a commit only rearranges rows, which a stream's never does: readers of the table would miss them; remove it"),
    OptionRow::new("optimizeWrite", Kind::Bool, "Fewer and larger files by a shuffle before the write.", OPTIONS)
        .write()
        .ignored("there is no shuffle before the write; larger batches make larger files, and OPTIMIZE merges small ones"),
    OptionRow::new("writePartitionColumns", Kind::Bool, "Refused.", OPTIONS)
        .write()
        .refused("writes the partition columns into the files too, which Weir does not: remove it"),
    OptionRow::new("parquet.writer.version", Kind::Text, "Version of the Parquet pages.", OPTIONS)
        .write()
        .ignored("files have version 1 pages, as Spark's by default"),
    OptionRow::new("queryName", Kind::Text, "Refused in options.", "org.apache.spark.sql.streaming.DataStreamWriter")
        .write()
        .refused("belongs to the query: write it as the query's field name"),
    OptionRow::new("checkpointLocation", Kind::Path, "Refused in options.", "org.apache.spark.sql.streaming.DataStreamWriter")
        .write()
        .refused("belongs to the query: write it as the query's field checkpointLocation"),
];
