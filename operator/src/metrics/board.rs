//! The jobs that metrics show, and what happened to them while this process looked.
//!
//! Times of starts and gaps are noticed when a view replaces an earlier one of
//! the same job: each is counted once, and a restart of the operator counts
//! nothing anew. A new leader therefore begins its histograms at zero.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::view::JobView;
use crate::names::JobId;

/// Upper bounds of the buckets in seconds, for starts and for gaps alike.
pub(super) const BUCKETS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];

/// A histogram that is small: there are two per job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Histogram {
    /// By bucket, the last one above all bounds; not cumulative.
    pub(super) counts: [u32; BUCKETS.len() + 1],
    pub(super) sum: f64,
}

impl Histogram {
    fn observe(&mut self, seconds: f64) {
        let bucket = BUCKETS.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS.len());
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
        self.sum += seconds;
    }
}

/// A job on the board.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) view: JobView,
    pub(super) run_start: Histogram,
    pub(super) gap: Histogram,
}

/// What a scrape reads: it does not hold up the controller.
pub(super) type Snapshot = Vec<(JobId, Arc<Entry>)>;

/// The jobs, by identity.
#[derive(Default)]
pub struct JobBoard {
    jobs: RwLock<BTreeMap<JobId, Arc<Entry>>>,
}

impl JobBoard {
    /// Puts a job on the board, or replaces what was known of it.
    pub fn update(&self, job: &JobId, view: JobView) {
        let mut jobs = self.jobs.write();
        match jobs.get_mut(job) {
            Some(entry) if entry.view == view => {}
            Some(entry) => Arc::make_mut(entry).replace(view),
            None => {
                jobs.insert(job.clone(), Arc::new(Entry { view, ..Entry::default() }));
            }
        }
    }

    /// Takes a job off.
    pub fn remove(&self, job: &JobId) {
        self.jobs.write().remove(job);
    }

    /// Takes all off: this process looks after none any more.
    pub fn clear(&self) {
        self.jobs.write().clear();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.jobs.read().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.jobs.read().is_empty()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.jobs.read().iter().map(|(job, entry)| (job.clone(), entry.clone())).collect()
    }
}

impl Entry {
    fn replace(&mut self, next: JobView) {
        let before = std::mem::replace(&mut self.view, next);
        let now = &self.view;
        let is_new_run = now.run_number.is_some() && now.run_number != before.run_number;
        if let (true, Some(end), Some(start)) = (is_new_run, now.last_run_finished, now.run_started) {
            self.gap.observe(seconds_between(end, start));
        }
        let became_ready = is_new_run || before.run_ready.is_none();
        if let (true, Some(start), Some(ready)) = (became_ready, now.run_started, now.run_ready) {
            self.run_start.observe(seconds_between(start, ready));
        }
    }
}

fn seconds_between(from: i64, to: i64) -> f64 {
    to.saturating_sub(from).max(0) as f64
}
