//! The micro-batch runtime: queries, lanes, listeners, HTTP, metrics, exit.
//!
//! `resolve` turns a manifest's job into query definitions, `task` runs all
//! queries of one task, `query` holds the life of one query, `http` shows it.
//! The runtime decides nothing about retries or restarts; it says how an
//! attempt ended and the supervisor decides.

pub mod environment;
pub mod event_time;
pub mod expressions;
pub mod http;
pub mod lanes;
pub mod memory;
pub mod metrics;
pub mod places;
pub mod query;
pub mod resolve;
pub mod task;

pub use environment::{Clock, SystemClock, TaskEnvironment};
pub use task::Task;
