//! Options of sources, static tables and sinks: tables, parser, rules and reference page.
//!
//! An option exists exactly when it has a row in [`formats`]; the parser, the errors for
//! unknown options and [`reference_markdown`] read the same rows. `kafka.*` is translated by
//! [`kafka_client`] into librdkafka's settings.
//! Nothing here opens a file or a connection.

mod archive;
pub mod eventhubs;
pub mod formats;
pub mod kafka_client;
mod kind;
mod offsets;
mod parse;
mod parsed;
mod reference;
mod row;
mod rules;

pub use formats::{FORMATS, Format};
pub use kind::{Kind, Offsets, Value};
pub use parse::{Completeness, Parsed, parse, parse_sink, parse_source, parse_table};
pub use parsed::ParsedOptions;
pub use reference::reference_markdown;
pub use row::{Effect, OptionRow, Role};
