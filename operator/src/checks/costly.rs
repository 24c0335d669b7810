//! Manifests whose check used up a limit, and when each is checked again.
//!
//! What was checked is known by its digest, so such a manifest waits also when
//! it comes back after another, and a changed one does not. Its job is
//! remembered too: until a check of it ends by itself, it is checked in a place
//! of its own and delays no other. In this process only: a new leader tries
//! each once more, in that place, because the status shows what was in the way;
//! what was accepted is in its ConfigMap and never checked again. Pure: the time
//! is given.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use weir_supervisor::text::{MESSAGE_BYTES, cut};
use weir_supervisor::time::{Timestamp, after, rfc3339};

use crate::names::JobId;

/// The pause after the first time.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);
/// Manifests that are remembered.
const MOST: usize = 1024;

/// All that are known.
#[derive(Debug, Default)]
pub struct Costly {
    manifests: HashMap<String, Wait>,
    jobs: HashSet<JobId>,
}

/// How long a manifest is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Checks in a row that used up a limit.
    times: u32,
    /// What happened, when it is checked again, and what to do; for people.
    pub message: String,
    /// When it is checked again.
    pub retry_at: Timestamp,
}

impl Costly {
    /// A check used up a limit.
    pub fn exceeded(&mut self, job: &JobId, digest: &str, what: &str, now: Timestamp) -> Wait {
        self.jobs.insert(job.clone());
        let times = self.manifests.get(digest).map_or(0, |known| known.times).saturating_add(1);
        let retry_at = after(now, pause(times));
        let message = format!(
            "{what}; it is checked again at {} or as soon as the manifest changes: make it smaller, such as by dividing the job in two",
            rfc3339(retry_at)
        );
        let wait = Wait { times, message: cut(&message, MESSAGE_BYTES), retry_at };
        if self.manifests.len() >= MOST && !self.manifests.contains_key(digest) {
            self.drop_one();
        }
        self.manifests.insert(digest.to_owned(), wait.clone());
        wait
    }

    /// A check ended by itself, whatever it found.
    pub fn ended(&mut self, job: &JobId, digest: &str) {
        self.jobs.remove(job);
        self.manifests.remove(digest);
    }

    /// Whether a manifest is not to be checked yet.
    pub fn waits(&self, digest: &str, now: Timestamp) -> Option<Wait> {
        self.manifests.get(digest).filter(|wait| wait.retry_at > now).cloned()
    }

    /// Whether the last check of a job used up a limit.
    pub fn is_costly(&self, job: &JobId) -> bool {
        self.jobs.contains(job)
    }

    /// The job is gone, or needs no check any more. Its manifest is kept: a job of its name may come with it.
    pub fn forget(&mut self, job: &JobId) {
        self.jobs.remove(job);
    }

    fn drop_one(&mut self) {
        let next = self.manifests.iter().min_by_key(|(_, wait)| wait.retry_at).map(|(digest, _)| digest.clone());
        next.and_then(|digest| self.manifests.remove(&digest));
    }
}

/// The pause after so many checks in a row that used up a limit.
fn pause(times: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << times.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> JobId {
        JobId { namespace: "n".to_owned(), name: name.to_owned(), uid: name.to_owned() }
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let pauses = [1, 2, 3, 5, 6, 100].map(|times| pause(times).as_secs());
        assert_eq!(pauses, [60, 120, 240, 960, 1800, 1800]);
    }

    #[test]
    fn a_manifest_waits_longer_each_time_and_a_changed_one_does_not() {
        let (mut costly, mut now) = (Costly::default(), Timestamp::UNIX_EPOCH);
        for seconds in [60, 120, 240] {
            let wait = costly.exceeded(&job("j"), "one", "the check did not end", now);
            assert_eq!(wait.retry_at, after(now, Duration::from_secs(seconds)));
            assert!(wait.message.contains(&rfc3339(wait.retry_at)) && wait.message.starts_with("the check did not end"));
            assert_eq!(costly.waits("one", now), Some(wait.clone()));
            assert_eq!((costly.waits("two", now), costly.is_costly(&job("j")), costly.is_costly(&job("k"))), (None, true, false));
            now = wait.retry_at;
            assert_eq!(costly.waits("one", now), None, "it is time");
        }
        // The changed one ends by itself; the first, which comes back, has not been forgotten.
        costly.ended(&job("j"), "two");
        assert!(!costly.is_costly(&job("j")));
        assert_eq!(costly.exceeded(&job("j"), "one", "", now).retry_at, after(now, Duration::from_secs(480)));
        costly.ended(&job("j"), "one");
        assert_eq!(costly.exceeded(&job("j"), "one", "", now).retry_at, after(now, FIRST_PAUSE));
        costly.forget(&job("j"));
        assert!(!costly.is_costly(&job("j")) && costly.waits("one", now).is_some());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_who_is_due_first_is_forgotten() {
        let mut costly = Costly::default();
        for number in 0..MOST + 2 {
            let now = after(Timestamp::UNIX_EPOCH, Duration::from_secs(number as u64));
            costly.exceeded(&job("j"), &number.to_string(), "", now);
        }
        assert_eq!(costly.manifests.len(), MOST);
        let known = |digest: &str| costly.manifests.contains_key(digest);
        assert!(!known("0") && !known("1") && known("2") && known(&(MOST + 1).to_string()));
    }
}
