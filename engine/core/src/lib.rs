//! The heart of the engine, without Arrow, Kafka, SQL or threads: ids,
//! offsets, error classes, storage, the checkpoint protocol, progress records.
//!
//! Everything that touches a checkpoint path is here; sources and sinks get
//! handles. Decisions are pure functions over facts that were read before;
//! `storage` and the log wrappers are the thin shells that read and write.

pub mod checkpoint;
pub mod columns;
pub mod error;
pub mod failpoint;
pub mod offset;
pub mod progress;
pub mod storage;
pub mod trigger;

pub use error::{Error, ErrorClass, Result};
pub use offset::Offset;
