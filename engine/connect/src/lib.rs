//! Sources and sinks behind two traits.
//!
//! Each connector is a folder: its options come parsed from `weir-crds`, its
//! log discipline from `weir-core`, its rows are Arrow batches with Spark's
//! types. Connectors know neither SQL nor the checkpoint's paths; they are
//! handed their log folders.

pub mod bad_records;
mod blocking_table;
pub mod console;
pub mod delta;
pub mod expressions;
pub mod files;
pub mod kafka;
pub mod noop;
pub mod open;
pub mod options;
mod passage;
pub mod rate;
pub mod registry;
pub mod render;
pub mod sink;
pub mod source;
pub mod source_logs;
pub mod tables;
#[cfg(test)]
mod testing;

pub use sink::{BatchId, Committed, Delivery, OutputRows, Sink, SinkIdentity, SinkWriter, Standing, Steps, Written, WrittenFile};
pub use source::{
    AvailableNow, Backlog, Outage, PartitionReader, PlannedRange, PreparedSource, ReadCounters, ReadLimits, RecordColumns, Scan, Source,
};
