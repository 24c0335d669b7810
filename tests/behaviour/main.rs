//! Weir as its users meet it: the real binary, real Kafka, real disks, with
//! PySpark as the outside judge.
//!
//! One test binary, so that it is linked once. Every test has a folder of its
//! own, waits on events and ends its processes by id.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod support;

mod bad_records;
mod bad_records_apart;
mod checkpoint_damage;
mod cluster;
mod crash;
mod delta_source;
mod examples;
mod faults;
mod golden;
mod http;
mod inputs;
mod interchange;
mod jobs;
mod kafka_security;
mod local_runner;
mod memory;
mod object_store;
mod ownership;
mod refusals;
mod soak;
mod tables_by_name;
mod transactions;
