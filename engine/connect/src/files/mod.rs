//! Folders of files as streams, tables and sinks: json, csv, text, parquet.
//!
//! The source keeps Spark's source log, the sink Spark's `_spark_metadata` log,
//! so that checkpoints and folders can move between Spark and Weir. `location`,
//! `listing` and `partitions` say which files there are, `select` and `seen`
//! which come next, `read` makes rows of them. Logs are written under the fence
//! only; nothing here knows the checkpoint's paths.

pub mod clean;
pub mod compactible;
pub mod infer;
pub mod listing;
pub mod location;
pub mod options;
pub mod partitions;
pub mod read;
pub mod schema;
pub mod seen;
pub mod select;
pub mod sink;
pub mod sink_log;
pub mod source;
pub mod source_log;
pub mod table;
pub mod uri;
pub mod widen;
pub mod write;

pub use sink::{FileSink, Plan as FileSinkPlan};
pub use source::{FileStream, FileStreamSource};
pub use table::FileTable;
