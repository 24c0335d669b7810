//! The language of jobs: the `StreamingJob` resource, option tables and validation.

pub mod duration;
pub mod policy;
pub mod resource;

pub use resource::{OutputMode, QuerySpec, SinkSpec, SourceSpec, StreamingJob, StreamingJobSpec, TaskSpec, TriggerSpec};
