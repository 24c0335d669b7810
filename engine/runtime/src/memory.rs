//! What the task may hold in memory, part by part, against its limit.
//!
//! Every buffer of the engine has a bound; this table adds the bounds up, so
//! that the sum can be logged at start beside the container's limit and a
//! too-small limit is seen before the kernel sees it. It measures nothing by
//! itself but the process's resident size.

use std::fs;

use crate::query::open::SLICE_BYTES;

/// One bounded part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// What it is.
    pub name: &'static str,
    /// Its bound.
    pub bytes: u64,
}

/// The bounds of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryBudget {
    parts: Vec<MemoryPart>,
}

/// Resident size of the process before any query: code, runtime, allocator.
const PROCESS_BYTES: u64 = 40 << 20;
/// What the plan makes of a slice besides the slice itself, at most.
const PLAN_FACTOR: u64 = 3;
/// What librdkafka may prefetch for one Kafka source, over all its handles.
const KAFKA_QUEUE_BYTES: u64 = 16 << 20;

/// What a task is made of, as far as memory is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskShape {
    /// Queries.
    pub queries: usize,
    /// Queries that join static tables.
    pub with_tables: usize,
    /// Queries with a place for bad records.
    pub with_bad_records: usize,
    /// Rows of the greatest batches that are merged by key, where they are bounded.
    pub merged_rows: u64,
    /// Kafka sources.
    pub kafka_sources: usize,
    /// Lanes of each query.
    pub lanes: usize,
}

impl MemoryBudget {
    /// The bounds of a task.
    pub fn new(shape: TaskShape) -> Self {
        let lanes = (shape.queries * shape.lanes) as u64;
        let slice = SLICE_BYTES as u64;
        let part = |name, bytes| MemoryPart { name, bytes };
        Self {
            parts: vec![
                part("process", PROCESS_BYTES),
                part("slices", lanes * slice),
                part("plans", lanes * slice * PLAN_FACTOR),
                part("static_tables", (shape.with_tables * shape.lanes * weir_sql::LANE_POOL_BYTES) as u64),
                part("sink_writers", lanes * weir_connect::delta::memory::LANE_BYTES as u64),
                part(
                    "bad_records",
                    (shape.with_bad_records * shape.lanes) as u64 * (slice + weir_connect::delta::memory::LANE_BYTES as u64),
                ),
                part("upsert_keys", shape.merged_rows.saturating_mul(weir_connect::delta::memory::MERGED_ROW_BYTES)),
                part("kafka_prefetch", shape.kafka_sources as u64 * KAFKA_QUEUE_BYTES),
            ],
        }
    }

    /// The parts.
    pub fn parts(&self) -> &[MemoryPart] {
        &self.parts
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }
}

/// The memory limit of the control group, where there is one.
pub fn container_limit() -> Option<u64> {
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok())
        // Version 1 says "no limit" with a number near the top of the range.
        .filter(|bytes| *bytes < 1 << 60)
}

/// Resident size of this process.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_parts() {
        let budget = MemoryBudget::new(TaskShape {
            queries: 2,
            with_tables: 1,
            with_bad_records: 1,
            merged_rows: 1 << 20,
            kafka_sources: 1,
            lanes: 2,
        });
        assert_eq!(budget.total(), (40 + 16 + 48 + 128 + 64 + 40 + 200 + 16) << 20);
        assert!(resident_bytes().is_some_and(|bytes| bytes > 0));
    }
}
