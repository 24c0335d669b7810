//! JSON records to columns as Spark's JacksonParser reads them.
//!
//! `lexer` knows the grammar and the accepted deviations, `convert` the rules
//! from JSON values to typed columns, `template` the fast way for records
//! shaped like one before, `decoder` the modes and the rows. Recursion follows
//! the schema only; skipped values are walked with a fixed stack, and nesting
//! beyond 1 000 levels is malformed.

mod convert;
mod decoder;
mod encode;
pub(crate) mod lexer;
mod template;
mod walk;
mod write;

pub use decoder::{Counts, JsonDecoder};
pub use encode::{JsonWriteOptions, JsonWriter, NullFields};
pub use lexer::{Fault, Lexer, Number, NumberForm, Span};
pub use write::write_string;

#[cfg(test)]
mod tests;
