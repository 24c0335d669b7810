//! The process table: which process of which task ran from when to when.
//!
//! Truth lives here and not in the API: times are those of the processes. A
//! record is written before its process starts and completed right after its
//! end is observed, so an overlap can be seen too early by a moment, never missed.

use std::fmt;
use std::time::SystemTime;

use tokio::sync::watch;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessExit {
    /// The exit code as a pod's status shows it: 128 + signal for a killed process.
    pub code: i32,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRecord {
    /// Namespace of its pod.
    pub namespace: String,
    /// UID of the job, from the pod's controller.
    pub job_uid: String,
    /// Name of the job.
    pub job: String,
    /// Name of the task.
    pub task: String,
    /// The epoch in its environment.
    pub epoch: Option<u64>,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod.
    pub pod_uid: String,
    /// Name of the container.
    pub container: String,
    /// The node that it runs on.
    pub node: String,
    /// The process id; 0 until it is known.
    pub pid: u32,
    /// When it was started.
    pub started_at: SystemTime,
    /// When it ended.
    pub ended_at: Option<SystemTime>,
    /// How it ended.
    pub exit: Option<ProcessExit>,
}

impl ProcessRecord {
    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        self.ended_at.is_none()
    }
}

/// Two processes of one task that lived at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The one that started first.
    pub first: ProcessRecord,
    /// The other.
    pub second: ProcessRecord,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = (&self.first, &self.second);
        write!(
            f,
            "task {} of {}: epoch {:?} (pid {}) still lived when epoch {:?} (pid {}) started",
            first.task, first.job, first.epoch, first.pid, second.epoch, second.pid
        )
    }
}

/// The pairs of one job's processes that overlap, per task and container.
pub fn overlaps(records: &[ProcessRecord], job_uid: &str) -> Vec<Overlap> {
    let mut own: Vec<&ProcessRecord> = records.iter().filter(|record| record.job_uid == job_uid).collect();
    own.sort_by_key(|record| record.started_at);
    let mut found = Vec::new();
    for (at, first) in own.iter().enumerate() {
        let same = own[at + 1..].iter().filter(|second| second.task == first.task && second.container == first.container);
        let during = same.filter(|second| first.ended_at.is_none_or(|end| second.started_at < end));
        found.extend(during.map(|second| Overlap { first: (*first).clone(), second: (*second).clone() }));
    }
    found
}

/// The table, with its changes as events.
#[derive(Debug)]
pub(super) struct Table {
    records: watch::Sender<Vec<ProcessRecord>>,
}

impl Table {
    pub fn new() -> Self {
        Self { records: watch::Sender::new(Vec::new()) }
    }

    pub fn all(&self) -> Vec<ProcessRecord> {
        self.records.borrow().clone()
    }

    pub fn subscribe(&self) -> watch::Receiver<Vec<ProcessRecord>> {
        self.records.subscribe()
    }

    /// Adds a record; its place.
    pub fn add(&self, record: ProcessRecord) -> usize {
        let mut place = 0;
        self.records.send_modify(|records| {
            place = records.len();
            records.push(record);
        });
        place
    }

    pub fn update(&self, place: usize, change: impl FnOnce(&mut ProcessRecord)) {
        self.records.send_modify(|records| change(&mut records[place]));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn record(task: &str, start: u64, end: Option<u64>) -> ProcessRecord {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        ProcessRecord {
            namespace: "n".into(),
            job_uid: "u".into(),
            job: "j".into(),
            task: task.into(),
            epoch: Some(start),
            pod: format!("j--{task}"),
            pod_uid: "p".into(),
            container: "engine".into(),
            node: "node-1".into(),
            pid: 1,
            started_at: at(start),
            ended_at: end.map(at),
            exit: None,
        }
    }

    #[test]
    fn a_successor_may_start_when_its_predecessor_ended() {
        let records = [record("a", 0, Some(5)), record("a", 5, None), record("b", 1, None)];
        assert!(overlaps(&records, "u").is_empty());
        let late = [record("a", 0, Some(6)), record("a", 5, None)];
        assert_eq!(overlaps(&late, "u").len(), 1);
        assert!(overlaps(&late, "other").is_empty());
    }

    proptest! {
        #[test]
        fn overlaps_are_pairs_that_share_a_moment(spans in proptest::collection::vec((0u64..20, proptest::option::of(1u64..10)), 0..6)) {
            let records: Vec<_> = spans.iter().map(|(start, length)| record("a", *start, length.map(|length| start + length))).collect();
            let mut expected = 0;
            for (at, (start, length)) in spans.iter().enumerate() {
                for (other, other_length) in &spans[at + 1..] {
                    let end = |start: u64, length: Option<u64>| length.map_or(u64::MAX, |length| start + length);
                    expected += usize::from(*start < end(*other, *other_length) && *other < end(*start, *length));
                }
            }
            prop_assert_eq!(overlaps(&records, "u").len(), expected);
        }
    }
}
