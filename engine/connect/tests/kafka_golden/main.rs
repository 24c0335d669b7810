//! The Kafka connector against a real broker: the executed Spark cases, reading, faults, the sink.
//!
//! One broker serves the whole binary; tests that take it away start their own.
#![allow(clippy::unwrap_used)]

mod driver;
mod exactly_once;
mod faults;
mod golden;
mod reading;
mod scene;
mod security;
mod sink;
mod sink_golden;
mod spark;
