//! One row per setting.
//!
//! Defaults are those of Spark 4.3 unless the row says otherwise. Keys are case-sensitive, as in Spark.

use crate::duration::TimeUnit;
use crate::options::{Effect, Kind};

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct ConfRow {
    /// Key.
    pub name: &'static str,
    /// What values look like.
    pub kind: Kind,
    /// Value when it is left out; empty: none.
    pub default: &'static str,
    /// What it means, with unit.
    pub doc: &'static str,
    /// Whether its value is kept in the offset log and wins over the session on a restart.
    pub pinned: bool,
    /// What giving it does.
    pub effect: Effect,
}

const fn row(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> ConfRow {
    ConfRow { name, kind, default, doc, pinned: false, effect: Effect::Obeyed }
}

impl ConfRow {
    const fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }

    const fn refused(mut self, why: &'static str) -> Self {
        self.effect = Effect::Refused(why);
        self
    }

    const fn ignored(mut self, why: &'static str) -> Self {
        self.effect = Effect::Ignored(why);
        self
    }
}

const POSITIVE: Kind = Kind::Int { min: 1, max: i32::MAX as i64 };
const FROM_ZERO: Kind = Kind::Int { min: 0, max: i32::MAX as i64 };
const MILLIS: Kind = Kind::Time(TimeUnit::Milliseconds);
const STATELESS: &str = "no operator of this version keeps state; it is kept in the offset log for Spark";

const ROWS: &[ConfRow] = &[
    row(
        "spark.sql.ansi.enabled",
        Kind::Bool,
        "true",
        "Whether overflow, bad casts and the like are errors; false gives null, as Spark before 4.",
    ),
    row("spark.sql.session.timeZone", Kind::TimeZone, "UTC", "Time zone of timestamps without one."),
    row("spark.sql.caseSensitive", Kind::Bool, "false", "Whether names of columns compare with case."),
    row("spark.sql.shuffle.partitions", POSITIVE, "200", "Partitions of stateful operators; fixed by the first start of a query.").pinned(),
    row(
        "spark.sql.timestampType",
        Kind::Choice(&["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"]),
        "TIMESTAMP_LTZ",
        "What TIMESTAMP means in DDL and SQL.",
    ),
    row("spark.sql.mapKeyDedupPolicy", Kind::Choice(&["EXCEPTION", "LAST_WIN"]), "EXCEPTION", "What a repeated key of a map does."),
    row(
        "spark.sql.legacy.timeParserPolicy",
        Kind::Choice(&["CORRECTED", "EXCEPTION"]),
        "CORRECTED",
        "How texts that only old parsers read are treated: null or error. LEGACY is not available.",
    ),
    row("spark.sql.columnNameOfCorruptRecord", Kind::NonEmpty, "_corrupt_record", "Default of the option columnNameOfCorruptRecord."),
    row(
        "spark.sql.jsonGenerator.ignoreNullFields",
        Kind::Bool,
        "true",
        "Default of the option ignoreNullFields of to_json and JSON files.",
    ),
    row(
        "spark.sql.sources.partitionColumnTypeInference.enabled",
        Kind::Bool,
        "true",
        "Whether the types of partition folders are inferred; false: strings.",
    ),
    row("spark.sql.files.ignoreMissingFiles", Kind::Bool, "false", "Whether files that vanished are skipped."),
    row("spark.sql.files.ignoreCorruptFiles", Kind::Bool, "false", "Whether files that cannot be read are skipped."),
    row("spark.sql.files.maxRecordsPerFile", Kind::Int { min: 0, max: i64::MAX }, "0", "Most rows in one written file; 0: no limit."),
    row(
        "spark.sql.parquet.compression.codec",
        Kind::Choice(&["none", "uncompressed", "snappy", "gzip", "zstd", "lz4_raw"]),
        "snappy",
        "Codec of written Parquet files; of Delta tables too, where it is set.",
    ),
    row("spark.sql.streaming.minBatchesToRetain", POSITIVE, "100", "Batches whose offsets and commits are kept."),
    row("spark.sql.streaming.pollingDelay", MILLIS, "10", "Wait before looking for data again when there was none (bare: milliseconds)."),
    row("spark.sql.streaming.noDataProgressEventInterval", MILLIS, "10000", "Least time between two idle reports (bare: milliseconds)."),
    row("spark.sql.streaming.noDataMicroBatches.enabled", Kind::Bool, "true", "Whether batches without data run to move state along."),
    row("spark.sql.streaming.numRecentProgressUpdates", POSITIVE, "100", "Progress records kept in memory; one less is kept, as in Spark."),
    row("spark.sql.streaming.stopTimeout", MILLIS, "0", "Spark's bound on stop().").ignored("the field spec.stopTimeout bounds a stop"),
    row("spark.sql.streaming.stopActiveRunOnRestart", Kind::Bool, "true", "Whether a second start stops the first.")
        .ignored("the supervisor never lets two runs overlap"),
    row("spark.sql.streaming.schemaInference", Kind::Bool, "false", "Whether file sources without schema infer one at their start."),
    row(
        "spark.sql.streaming.multipleWatermarkPolicy",
        Kind::Choice(&["min", "max"]),
        "min",
        "Which watermark counts where there are several.",
    )
    .pinned(),
    row("spark.sql.streaming.fileSource.log.compactInterval", POSITIVE, "10", "Entries of the log of seen files between compactions."),
    row("spark.sql.streaming.fileSource.log.cleanupDelay", MILLIS, "10m", "How long compacted entries of that log are kept."),
    row("spark.sql.streaming.fileSource.log.deletion", Kind::Bool, "true", "Whether compacted entries of that log are deleted."),
    row("spark.sql.streaming.fileSource.cleaner.numThreads", FROM_ZERO, "1", "Threads that archive or delete files; 0: the stream itself."),
    row("spark.sql.streaming.fileSource.schema.forceNullable", Kind::Bool, "true", "Whether all columns of a file source are nullable."),
    row("spark.sql.streaming.fileSink.log.compactInterval", POSITIVE, "10", "Entries of a file sink's log between compactions."),
    row("spark.sql.streaming.fileSink.log.cleanupDelay", MILLIS, "10m", "How long compacted entries of that log are kept."),
    row("spark.sql.streaming.fileSink.log.deletion", Kind::Bool, "true", "Whether compacted entries of that log are deleted."),
    row(
        "spark.sql.streaming.offsetLog.formatVersion",
        Kind::Int { min: 1, max: 1 },
        "1",
        "Version of the offset log that new checkpoints are written in.",
    ),
    row("spark.sql.streaming.checkpointLocation", Kind::Path, "", "Refused.").refused("is written as the field spec.checkpointRoot"),
    row(
        "spark.sql.streaming.stateStore.providerClass",
        Kind::NonEmpty,
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
        "State store of stateful operators.",
    )
    .pinned()
    .ignored(STATELESS),
    row("spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion", POSITIVE, "2", "Format of state.").pinned().ignored(STATELESS),
    row("spark.sql.streaming.aggregation.stateFormatVersion", POSITIVE, "2", "Format of state.").pinned().ignored(STATELESS),
    row("spark.sql.streaming.join.stateFormatVersion", POSITIVE, "2", "Format of state.").pinned().ignored(STATELESS),
    row("spark.sql.streaming.stateStore.compression.codec", Kind::NonEmpty, "lz4", "Codec of state files.").pinned().ignored(STATELESS),
    row("spark.sql.streaming.stateStore.rocksdb.formatVersion", POSITIVE, "5", "Format of state files.").pinned().ignored(STATELESS),
    row("spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion", POSITIVE, "2", "Format of state files.").pinned().ignored(STATELESS),
    row("spark.sql.streaming.statefulOperator.useStrictDistribution", Kind::Bool, "true", "Distribution of stateful operators.")
        .pinned()
        .ignored(STATELESS),
    row(
        "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
        Kind::Bool,
        "false",
        "Whether a filter that is false removes a stream.",
    )
    .pinned()
    .ignored(STATELESS),
    row("spark.sql.streaming.stateStore.encodingFormat", Kind::Choice(&["unsaferow", "avro"]), "unsaferow", "Format of state.")
        .pinned()
        .ignored(STATELESS),
    row("spark.sql.streaming.stateStore.rowChecksum.enabled", Kind::Bool, "false", "Checksums of state rows.").pinned().ignored(STATELESS),
    row("spark.sql.function.protobufExtensions.enabled", Kind::Bool, "false", "Extensions in from_protobuf.")
        .pinned()
        .ignored("there is no from_protobuf; it is kept in the offset log for Spark"),
    row("spark.sql.streaming.queryEvolution.enableSourceEvolution", Kind::Bool, "false", "Named sources in the offset log.")
        .pinned()
        .ignored(STATELESS),
    row("spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled", Kind::Bool, "true", "Nullability of stateful operators.")
        .pinned()
        .ignored(STATELESS),
    row("spark.sql.dropDuplicates.deterministicKeyOrder.enabled", Kind::Bool, "true", "Order of the keys of dropDuplicates.")
        .pinned()
        .ignored(STATELESS),
    row(
        "weir.checkpoint.fsync",
        Kind::Bool,
        "true",
        "Whether checkpoints on local disks are forced to the disk; false only for tests and machines that may be lost.",
    ),
    row(
        "weir.batch.maxRows",
        Kind::Int { min: 1, max: 16_777_216 },
        "8192",
        "Most rows of a slice: a batch of any size is read, transformed and written in slices of this size, with one commit.",
    ),
    row(
        "weir.memory.limit",
        Kind::Bytes,
        "",
        "Memory that the buffers of a task share. Default: by the memory limit of the container, or of the machine.",
    ),
    row("weir.lanes", Kind::Int { min: 1, max: 1024 }, "", "Threads that run partitions. Default: the number of cores."),
];

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static ConfRow> {
    ROWS.iter()
}

/// The row of a key.
pub(super) fn find(name: &str) -> Option<&'static ConfRow> {
    ROWS.iter().find(|row| row.name == name)
}
