//! Whether the API server's store went back in time, as after a restored backup.
//!
//! A store that was restored has forgotten objects and epochs, and watches that
//! go on from a version that is yet to come say nothing. Versions of one kind
//! of object are numbers that only rise (Kubernetes 1.35 promises it), so a
//! fresh read below a version that was seen before is the proof. Lives as long
//! as the process: what it found holds for every leadership after it.

use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::watch;

/// What is known of restored stores; clones share it.
#[derive(Clone)]
pub struct Restores {
    found: watch::Sender<Option<DateTime<Utc>>>,
}

impl Default for Restores {
    fn default() -> Restores {
        Restores { found: watch::Sender::new(None) }
    }
}

impl Restores {
    /// The store was found to have gone back.
    pub fn found(&self, now: DateTime<Utc>) {
        self.found.send_replace(Some(now));
    }

    /// Waits for what is found from now on.
    pub fn subscribe(&self) -> watch::Receiver<Option<DateTime<Utc>>> {
        self.found.subscribe()
    }

    /// When epochs of this job may last have been given out that the store has forgotten; none where it forgot none.
    pub fn forgotten_at(&self, job: &ObjectMeta) -> Option<DateTime<Utc>> {
        let found = (*self.found.borrow())?;
        let created = job.creation_timestamp.as_ref().map_or(i64::MIN, |created| created.0.as_second());
        (created <= found.timestamp()).then_some(found)
    }
}

/// Whether a version read now proves that the store went back, given one that was seen before the read began.
pub fn went_back(seen: &str, read: &str) -> bool {
    match (seen.parse::<u64>(), read.parse::<u64>()) {
        (Ok(seen), Ok(read)) => read < seen,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_version_is_proof_and_what_is_no_number_proves_nothing() {
        assert!(went_back("1000", "999"));
        assert!(!went_back("999", "1000") && !went_back("7", "7"));
        assert!(!went_back("", "1") && !went_back("1", "opaque") && !went_back("0", "1"));
    }

    #[test]
    fn epochs_of_jobs_made_after_the_restore_are_all_remembered() {
        let restores = Restores::default();
        let made = |second: i64| ObjectMeta {
            creation_timestamp: k8s_openapi::jiff::Timestamp::from_second(second)
                .ok()
                .map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time),
            ..ObjectMeta::default()
        };
        assert_eq!(restores.forgotten_at(&made(100)), None);
        let at = DateTime::from_timestamp(200, 0);
        at.into_iter().for_each(|at| restores.found(at));
        assert_eq!((restores.forgotten_at(&made(100)), restores.forgotten_at(&made(201))), (at, None));
    }
}
