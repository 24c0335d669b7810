//! Lengths of time as manifests write them, parsed once into typed values.
//!
//! Three notations meet in a manifest, each with its own parser:
//! Weir's own durations (`1m30s`, [`WeirDuration`]) in every field of Weir's, Spark's
//! calendar intervals (`10 minutes`, [`interval`]) in `processingTime` and a watermark's
//! `delay`, and Spark's time strings (`7d`, `500ms`, [`parse_time_string`]) in options and conf.
//!
//! Invariants: parsing never panics, overflow is an error, equality is by value, and a
//! value prints in the notation that it was written in. Nothing here looks at a clock.

mod interval;
mod time_string;
mod weir;

pub use interval::{IntervalError, SparkInterval, parse_delay, parse_processing_time};
pub use time_string::{TimeUnit, parse_time_string};
pub use weir::{DURATION_PATTERN, DurationError, WeirDuration};
