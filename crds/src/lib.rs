//! The language of jobs: the `StreamingJob` resource, option tables and validation.

pub mod annotations;
pub mod checkpoint;
pub mod conf;
pub mod duration;
pub mod finding;
pub mod manifest;
pub mod options;
pub mod policy;
pub mod resource;

pub use resource::{OutputMode, QuerySpec, SinkSpec, SourceSpec, StreamingJob, StreamingJobSpec, TaskSpec, TriggerSpec};
