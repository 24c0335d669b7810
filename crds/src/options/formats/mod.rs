//! The formats and their tables of options.
//!
//! A format is known exactly when it is a variant of [`Format`]; which roles it can play is
//! decided here, once. Formats of Spark that Weir has not are refused with a sentence.

mod delta;
mod files;
mod generated;
mod kafka;
mod text_formats;

use super::row::{OptionRow, Role};
use crate::finding::Finding;

/// A format, as Spark's `format(...)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Rows by the clock.
    Rate,
    /// Rows by the batch.
    RateMicroBatch,
    /// Files with a JSON record per line.
    Json,
    /// Files with separated values.
    Csv,
    /// Files of lines.
    Text,
    /// Parquet files.
    Parquet,
    /// Kafka topics.
    Kafka,
    /// A Delta table.
    Delta,
    /// Prints rows.
    Console,
    /// Drops rows.
    Noop,
}

/// All formats in the order of the reference page.
pub const FORMATS: [Format; 10] = [
    Format::Rate,
    Format::RateMicroBatch,
    Format::Json,
    Format::Csv,
    Format::Text,
    Format::Parquet,
    Format::Kafka,
    Format::Delta,
    Format::Console,
    Format::Noop,
];

impl Format {
    /// The name in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::Rate => "rate",
            Format::RateMicroBatch => "rate-micro-batch",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Text => "text",
            Format::Parquet => "parquet",
            Format::Kafka => "kafka",
            Format::Delta => "delta",
            Format::Console => "console",
            Format::Noop => "noop",
        }
    }

    /// Whether it can play a role.
    pub fn can_be(self, role: Role) -> bool {
        match self {
            Format::Rate | Format::RateMicroBatch => role == Role::Source,
            Format::Console | Format::Noop => role == Role::Sink,
            Format::Json | Format::Csv | Format::Text | Format::Parquet | Format::Kafka | Format::Delta => true,
        }
    }

    /// Whether it is a folder of plain files.
    pub fn is_files(self) -> bool {
        matches!(self, Format::Json | Format::Csv | Format::Text | Format::Parquet)
    }

    /// Whether a sink of this format takes a temporary checkpoint when none is given, as in Spark.
    pub fn takes_temporary_checkpoint(self) -> bool {
        matches!(self, Format::Console | Format::Noop)
    }

    /// Finds the format of a name for a role, without regard to case.
    pub fn find(name: &str, role: Role) -> Result<Format, Finding> {
        let allowed = || FORMATS.iter().filter(|format| format.can_be(role)).map(|format| format.as_str());
        let refusal = |message: String| {
            Finding::error("unknown-format", "format", message).found(name).allowed(allowed()).nearest_of(name, allowed())
        };
        match FORMATS.iter().find(|format| format.as_str().eq_ignore_ascii_case(name)) {
            Some(format) if format.can_be(role) => Ok(*format),
            Some(format) => {
                let mut finding = refusal(format!("`{}` cannot be a {}", format.as_str(), role.as_str()));
                finding.nearest = None;
                Err(finding)
            }
            None => match name.to_ascii_lowercase().as_str() {
                "socket" => Err(refusal("`socket` cannot be replayed, so no batch could take effect once".to_owned())),
                "memory" | "foreach" | "foreachbatch" => {
                    Err(refusal(format!("`{name}` lives inside a Spark application; Weir has no such {}", role.as_str())))
                }
                "orc" | "avro" | "xml" | "binaryfile" | "jdbc" | "cloudfiles" | "iceberg" | "hudi" | "kinesis" | "eventhubs" => {
                    Err(refusal(format!("`{name}` is not available as a {} in this version", role.as_str())))
                }
                _ => Err(refusal(format!("`{name}` is not a format"))),
            },
        }
    }

    /// The rows of a role: first the format's own, then what file formats share.
    pub fn rows(self, role: Role) -> impl Iterator<Item = &'static OptionRow> {
        let (own, shared): (&'static [OptionRow], &'static [OptionRow]) = match self {
            Format::Rate => (generated::RATE_ROWS, &[]),
            Format::RateMicroBatch => (generated::RATE_MICRO_BATCH_ROWS, &[]),
            Format::Console => (generated::CONSOLE_ROWS, &[]),
            Format::Noop => (generated::NOOP_ROWS, &[]),
            Format::Json => (text_formats::JSON_ROWS, files::FILE_ROWS),
            Format::Csv => (text_formats::CSV_ROWS, files::FILE_ROWS),
            Format::Text => (text_formats::TEXT_ROWS, files::FILE_ROWS),
            Format::Parquet => (text_formats::PARQUET_ROWS, files::FILE_ROWS),
            Format::Kafka => (kafka::KAFKA_ROWS, &[]),
            Format::Delta => (delta::DELTA_ROWS, &[]),
        };
        shared.iter().chain(own).filter(move |row| row.roles.contains(&role))
    }
}
