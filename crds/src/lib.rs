//! The language of jobs: the `StreamingJob` resource, option tables and validation.

pub mod conf;
pub mod duration;
pub mod finding;
pub mod options;
pub mod policy;
pub mod resource;

pub use resource::{OutputMode, QuerySpec, SinkSpec, SourceSpec, StreamingJob, StreamingJobSpec, TaskSpec, TriggerSpec};
