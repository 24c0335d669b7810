//! Real services for tests: an Apache Kafka broker, an S3 store, PySpark as the judge of outputs, memory limits, guarded child processes.
//!
//! Invariants:
//! - Every service listens on loopback at a port reserved for this process, and keeps its data in a scratch folder of this process.
//! - Every child dies with the test process, however that ends, and is ended by its process id.
//! - Waiting is on events with a deadline ([`eventually`], [`process::Output::wait_for`]); nothing rests on a sleep being long enough.
//! - A failed test leaves the service's log behind and says where.
//!
//! The crate does not know Weir's own crates, so that any of them can use it in its tests. Linux only.

pub mod certificates;
pub mod cgroup;
pub mod judge;
pub mod kafka;
pub mod length;
pub mod ports;
pub mod process;
pub mod scratch;
pub mod setup;
mod spawner;
pub mod store;
pub mod wait;

pub use length::Length;
pub use wait::eventually;

/// A name that no other test uses: `prefix-` and twelve hexadecimal digits.
pub fn unique_name(prefix: &str) -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!("{prefix}-{}", &id[..12])
}
