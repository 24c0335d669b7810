//! What connectors and SQL agree on about columns, beyond names and types.
//!
//! It travels as metadata of Arrow fields, so that this crate needs no Arrow.

/// Key of a column that `*` leaves out and that has to be named, as Spark's metadata columns.
pub const HIDDEN_KEY: &str = "weir.hidden";
