//! Text in, Arrow columns out, by Spark's rules.
//!
//! - [`JsonDecoder`]: JSON records to rows (file source, Kafka, `from_json`),
//!   with Spark's modes, partial results and corrupt-record column.
//! - [`JsonWriter`]: rows to JSON as `to_json` and the JSON sink write them.
//! - [`CsvDecoder`] and [`csv::write_record`]: CSV records to rows and back.
//! - [`Column`] with [`Column::append_text`] and [`Formats`]: text fields of CSV
//!   and partition values to typed columns.
//! - [`pattern::DatePattern`] and [`time`]: Java's date patterns as Spark 3 and
//!   later restrict them, and the ISO forms that casts read.
//! - [`interval`]: intervals read and written with Spark's units.
//! - [`spark_type`]: Spark's names of types.
//! - [`number`]: decimals and doubles as Java reads and writes them.
//!
//! The crate knows Arrow but neither DataFusion nor any source. Memory is
//! bounded by the caller through [`JsonDecoder::memory`].

pub mod column;
pub mod csv;
pub mod error;
pub mod interval;
pub mod json;
pub mod number;
pub mod options;
pub mod pattern;
pub mod records;
pub mod spark_type;
pub mod text;
pub mod time;

pub use column::Column;
pub use csv::{CsvDecoder, CsvOptions};
pub use error::DecodeError;
pub use json::{Counts, JsonDecoder, JsonWriteOptions, JsonWriter};
pub use options::{JsonOptions, Leniency, Origin, ParseMode};
pub use text::Formats;
