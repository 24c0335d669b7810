//! The language of jobs: the `StreamingJob` resource, option tables and validation.

pub mod duration;
pub mod policy;
