//! `rate`, `rate-micro-batch`, `console` and `noop`: inputs and outputs without a system behind them.

use crate::duration::TimeUnit;
use crate::options::kind::{COUNT, Kind, POSITIVE_LONG};
use crate::options::row::OptionRow;

const RATE: &str = "org.apache.spark.sql.execution.streaming.sources.RateStreamProvider";
const RATE_MICRO_BATCH: &str = "org.apache.spark.sql.execution.streaming.sources.RatePerMicroBatchProvider";
const CONSOLE: &str = "org.apache.spark.sql.execution.streaming.ConsoleSinkProvider";

/// Options of `rate`.
pub const RATE_ROWS: &[OptionRow] = &[
    OptionRow::new("rowsPerSecond", POSITIVE_LONG, "Rows made per second.", RATE)
        .stream()
        .default("1")
        .bad_value("Invalid value '{}'. The option 'rowsPerSecond' must be positive"),
    OptionRow::new("rampUpTime", Kind::Time(TimeUnit::Seconds), "How long the rate grows evenly from 0 to rowsPerSecond.", RATE)
        .stream()
        .default("0s"),
    OptionRow::new(
        "numPartitions",
        Kind::Int { min: 1, max: i32::MAX as i64 },
        "Partitions of a batch. Default: the number of cores.",
        RATE,
    )
    .stream()
    .bad_value("Invalid value '{}'. The option 'numPartitions' must be positive"),
];

/// Options of `rate-micro-batch`.
pub const RATE_MICRO_BATCH_ROWS: &[OptionRow] = &[
    OptionRow::new("rowsPerBatch", POSITIVE_LONG, "Rows made per batch.", RATE_MICRO_BATCH)
        .stream()
        .required()
        .bad_value("Invalid value '{}'. The option 'rowsPerBatch' must be positive"),
    OptionRow::new(
        "numPartitions",
        Kind::Int { min: 1, max: i32::MAX as i64 },
        "Partitions of a batch. Default: the number of cores.",
        RATE_MICRO_BATCH,
    )
    .stream()
    .bad_value("Invalid value '{}'. The option 'numPartitions' must be positive"),
    OptionRow::new(
        "startTimestamp",
        Kind::Int { min: 0, max: i64::MAX },
        "Timestamp of the rows of the first batch, in milliseconds since 1970, UTC.",
        RATE_MICRO_BATCH,
    )
    .stream()
    .default("0")
    .bad_value("Invalid value '{}'. The option 'startTimestamp' must be non-negative"),
    OptionRow::new(
        "advanceMillisPerBatch",
        Kind::Int { min: 0, max: i32::MAX as i64 },
        "How far the timestamp moves from batch to batch, in milliseconds.",
        RATE_MICRO_BATCH,
    )
    .stream()
    .default("1000")
    .bad_value("Invalid value '{}'. The option 'advanceMillisPerBatch' must be non-negative"),
];

/// Options of `console`.
pub const CONSOLE_ROWS: &[OptionRow] = &[
    OptionRow::new("numRows", COUNT, "Rows printed per batch.", CONSOLE).write().default("20"),
    OptionRow::new(
        "truncate",
        Kind::Truncate,
        "Whether values are cut to 20 characters; a number is the length to cut to, 0 cuts nothing.",
        CONSOLE,
    )
    .write()
    .default("true"),
];

/// `noop` has no options.
pub const NOOP_ROWS: &[OptionRow] = &[];
