//! What all file formats share: which files are read and in which portions, where they are written.
//!
//! Texts for bad values are those of `FileStreamOptions`.

use crate::duration::TimeUnit;
use crate::options::kind::{COUNT, Kind, POSITIVE_INT, POSITIVE_LONG};
use crate::options::row::OptionRow;

const STREAM: &str = "org.apache.spark.sql.execution.streaming.FileStreamOptions";
const READER: &str = "org.apache.spark.sql.catalyst.FileSourceOptions";
const INDEX: &str = "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex";
const SINK: &str = "org.apache.spark.sql.execution.streaming.FileStreamSinkLog";

const NOT_FOR_STREAMS: &str = "is not allowed in file stream sources: remove it; which files are new is kept in the checkpoint (maxFileAge bounds how old a file may be)";

/// Options of every file format.
pub const FILE_ROWS: &[OptionRow] = &[
    OptionRow::new("path", Kind::Path, "Folder, file or pattern to read; folder to write. A URL or a local path.", READER)
        .required(),
    OptionRow::new("maxFilesPerTrigger", POSITIVE_INT, "Most new files in one batch. Default: all.", STREAM)
        .stream()
        .bad_value("Invalid value '{}' for option 'maxFilesPerTrigger', must be a positive integer"),
    OptionRow::new(
        "maxBytesPerTrigger",
        POSITIVE_LONG,
        "Bytes of new files in one batch: files are taken in order until the next would exceed it, at least one. Excludes maxFilesPerTrigger.",
        STREAM,
    )
    .stream()
    .bad_value("Invalid value '{}' for option 'maxBytesPerTrigger', must be a positive integer"),
    OptionRow::new(
        "latestFirst",
        Kind::Bool,
        "Whether the newest files come first; with a limit per trigger it turns maxFileAge off.",
        STREAM,
    )
    .stream()
    .default("false")
    .bad_value("Invalid value '{}' for option 'latestFirst', must be 'true' or 'false'"),
    OptionRow::new(
        "fileNameOnly",
        Kind::Bool,
        "Whether a file is known by its name alone instead of its whole path.",
        STREAM,
    )
    .stream()
    .default("false")
    .bad_value("Invalid value '{}' for option 'fileNameOnly', must be 'true' or 'false'"),
    OptionRow::new(
        "maxFileAge",
        Kind::Time(TimeUnit::Milliseconds),
        "Files that are older than the newest one seen by more than this are ignored.",
        STREAM,
    )
    .stream()
    .default("7d")
    .bad_value("Time must be specified as seconds (s), milliseconds (ms), microseconds (us), minutes (m or min), hour (h), or day (d). E.g. 50s, 100ms, or 250us."),
    OptionRow::new(
        "maxCachedFiles",
        COUNT,
        "Files of one listing that are kept for the following batches; 0 lists for every batch.",
        STREAM,
    )
    .stream()
    .default("10000")
    .bad_value("Invalid value '{}' for option 'maxCachedFiles', must be an integer greater than or equal to 0"),
    OptionRow::new(
        "discardCachedInputRatio",
        Kind::Float { min: 0.0, max: 1.0 },
        "A remainder of a listing below this part of the limit is dropped, and the folder listed anew.",
        STREAM,
    )
    .stream()
    .default("0.2")
    .bad_value("Invalid value '{}' for option 'discardCachedInputRatio', must be a positive float between 0 and 1"),
    OptionRow::new(
        "cleanSource",
        Kind::Choice(&["archive", "delete", "off"]),
        "What happens to the files of a batch when a later batch is planned.",
        STREAM,
    )
    .stream()
    .default("off")
    .bad_value("Invalid mode for clean source option Some({}). Must be one of ARCHIVE,DELETE,OFF"),
    OptionRow::new(
        "sourceArchiveDir",
        Kind::Path,
        "Folder that cleanSource=archive moves files to, under their whole original path; on the same file system, outside of the input.",
        STREAM,
    )
    .stream(),
    OptionRow::new("modifiedBefore", Kind::NonEmpty, "Only files modified before this local time, as 2026-01-31T12:00:00.", READER)
        .table(),
    OptionRow::new("modifiedAfter", Kind::NonEmpty, "Only files modified after this local time, as 2026-01-31T12:00:00.", READER)
        .table(),
    OptionRow::new("modifiedBefore", Kind::NonEmpty, "Refused for streams.", STREAM).stream().refused(NOT_FOR_STREAMS),
    OptionRow::new("modifiedAfter", Kind::NonEmpty, "Refused for streams.", STREAM).stream().refused(NOT_FOR_STREAMS),
    OptionRow::new("basePath", Kind::Path, "Folder from which partition folders count. Default: path.", INDEX).read(),
    OptionRow::new("pathGlobFilter", Kind::Glob, "Only files whose name matches, for example *.json.", INDEX).read(),
    OptionRow::new(
        "recursiveFileLookup",
        Kind::Bool,
        "Whether files in all folders below are read; turns partition folders off.",
        INDEX,
    )
    .read()
    .default("false"),
    OptionRow::new(
        "ignoreMissingFiles",
        Kind::Bool,
        "Whether a file that vanished is skipped. Default: spark.sql.files.ignoreMissingFiles.",
        READER,
    )
    .read(),
    OptionRow::new(
        "ignoreCorruptFiles",
        Kind::Bool,
        "Whether a file that cannot be read is skipped. Default: spark.sql.files.ignoreCorruptFiles.",
        READER,
    )
    .read(),
    OptionRow::new(
        "retention",
        Kind::Time(TimeUnit::Milliseconds),
        "Entries of the sink's log that are older are dropped when it is compacted. Default: kept for ever.",
        SINK,
    )
    .write(),
    OptionRow::new(
        "maxRecordsPerFile",
        Kind::Int { min: 0, max: i64::MAX },
        "Most rows in one file; 0: no limit.",
        "org.apache.spark.sql.execution.datasources.FileFormatWriter",
    )
    .write()
    .default("0"),
    OptionRow::new("checkpointLocation", Kind::Path, "Refused in options.", "org.apache.spark.sql.streaming.DataStreamWriter")
        .write()
        .refused("belongs to the query: write it as the query's field checkpointLocation"),
];
