//! What becomes of a job whose state cannot be written: a full disk, one that is read-only.
//!
//! Ending a task is safe without a record of it, starting one is not: its epoch has to be durable first (protocol.md
//! section 3). So the tasks that run go on, nothing is started, and the state is written again with growing pauses. When
//! no task is left and patience is used up, the runner ends instead of looking alive. Decides only; the clock is passed in.

use std::time::Duration;

use chrono::{DateTime, Utc};
use weir_core::{Error, ErrorClass, Result};
use weir_supervisor::Lifetime;

/// The first pause before a state is written again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often a trouble that stays the same is told.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// How long a runner without a task tries to write its state.
fn patience(lifetime: &Lifetime) -> Duration {
    match lifetime {
        Lifetime::OneRun { .. } => Duration::from_secs(60),
        Lifetime::AsTriggered => Duration::from_secs(600),
    }
}

/// Whether the state is written, and since when it is not.
#[derive(Debug)]
pub struct Writing {
    patience: Duration,
    trouble: Option<Trouble>,
}

#[derive(Debug)]
struct Trouble {
    words: String,
    tries: u32,
    again_at: DateTime<Utc>,
    told_at: DateTime<Utc>,
    /// Since when no task runs.
    idle_since: Option<DateTime<Utc>>,
}

/// What is to be said of the state.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing new.
    None,
    /// It cannot be written.
    Trouble(String),
    /// It is written again.
    Over,
}

impl Writing {
    /// Of a runner that has just opened its state.
    pub fn new(lifetime: &Lifetime) -> Self {
        Self { patience: patience(lifetime), trouble: None }
    }

    /// Whether the state may be written now: always but in a pause after a failure.
    pub fn is_due(&self, now: DateTime<Utc>) -> bool {
        // A clock that went back does not prolong a pause.
        let in_pause =
            |trouble: &Trouble| now < trouble.again_at && (trouble.again_at - now).to_std().is_ok_and(|left| left <= LONGEST_PAUSE);
        !self.trouble.as_ref().is_some_and(in_pause)
    }

    /// When it is tried again, while it cannot be written.
    pub fn again_at(&self) -> Option<DateTime<Utc>> {
        self.trouble.as_ref().map(|trouble| trouble.again_at)
    }

    /// Takes what came of writing it. An error that no retry heals is the job's end.
    pub fn settle(&mut self, written: Result<()>, now: DateTime<Utc>) -> Result<News> {
        let Err(error) = written else {
            return Ok(if self.trouble.take().is_some() { News::Over } else { News::None });
        };
        if error.class() != ErrorClass::Retryable {
            return Err(error);
        }
        let words = error.to_string();
        let before = self.trouble.take();
        let tries = before.as_ref().map_or(1, |trouble| trouble.tries.saturating_add(1));
        let pause = FIRST_PAUSE.saturating_mul(1 << (tries - 1).min(8)).min(LONGEST_PAUSE);
        let is_told = |trouble: &Trouble| trouble.words == words && (now - trouble.told_at).to_std().is_ok_and(|past| past < TELL_EVERY);
        let told_at = before.as_ref().filter(|trouble| is_told(trouble)).map(|trouble| trouble.told_at);
        let idle_since = before.and_then(|trouble| trouble.idle_since);
        self.trouble = Some(Trouble { words: words.clone(), tries, again_at: now + pause, told_at: told_at.unwrap_or(now), idle_since });
        Ok(if told_at.is_some() { News::None } else { News::Trouble(words) })
    }

    /// Fails when no task has been alive for so long that the runner only pretends to keep the job.
    pub fn bear(&mut self, job: &str, is_any_alive: bool, now: DateTime<Utc>) -> Result<()> {
        let Some(trouble) = &mut self.trouble else { return Ok(()) };
        if is_any_alive {
            trouble.idle_since = None;
            return Ok(());
        }
        let since = *trouble.idle_since.get_or_insert(now);
        if !(now - since).to_std().is_ok_and(|idle| idle >= self.patience) {
            return Ok(());
        }
        Err(Error::retryable(
            "STATE_NOT_WRITTEN",
            format!(
                "no task of job {job} runs, and none may be started, because its state could not be written for {} seconds: {}; {REMEDY}, \
                 and start it again",
                self.patience.as_secs(),
                trouble.words
            ),
        ))
    }
}

/// What helps.
pub const REMEDY: &str = "make room on that disk and see that it can be written to, or give --state-dir another folder";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn full() -> Result<()> {
        Err(Error::retryable("STATE_DIRECTORY", "could not write memory.json: No space left on device"))
    }

    #[test]
    fn a_state_that_cannot_be_written_is_tried_again_in_growing_pauses_and_told_once_a_minute() {
        let mut writing = Writing::new(&Lifetime::AsTriggered);
        let mut now = DateTime::UNIX_EPOCH;
        let (mut pauses, mut told) = (Vec::new(), Vec::new());
        while now < DateTime::UNIX_EPOCH + Duration::from_secs(80) {
            let news = writing.settle(full(), now).unwrap();
            let again = writing.again_at().unwrap();
            assert!(!writing.is_due(now) && writing.is_due(again), "{writing:?}");
            assert!(writing.is_due(now - Duration::from_secs(3600)), "a clock that went back");
            if let News::Trouble(words) = &news {
                assert!(words.contains("No space left"), "{words}");
            }
            told.push(news != News::None);
            pauses.push((again - now).num_seconds());
            now = again;
        }
        assert_eq!(pauses[..6], [1, 2, 4, 8, 10, 10]);
        assert_eq!(told.iter().filter(|told| **told).count(), 2, "{told:?}");
        assert_eq!(writing.settle(Ok(()), now).unwrap(), News::Over);
        assert!(writing.is_due(now) && writing.again_at().is_none() && writing.settle(Ok(()), now).unwrap() == News::None);
        let damage = writing.settle(Err(Error::incompatible("STATE_DAMAGED", "no")), now).unwrap_err();
        assert_eq!(damage.class(), ErrorClass::Incompatible);
    }

    #[test]
    fn a_runner_that_can_start_nothing_ends_and_one_with_a_task_goes_on() {
        let at = |seconds: u64| DateTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut writing = Writing::new(&Lifetime::OneRun { token: String::new() });
        writing.bear("j", false, at(0)).unwrap();
        writing.settle(full(), at(0)).unwrap();
        writing.bear("j", true, at(500)).unwrap();
        writing.bear("j", false, at(500)).unwrap();
        writing.settle(full(), at(510)).unwrap();
        writing.bear("j", false, at(559)).unwrap();
        let error = writing.bear("j", false, at(560)).unwrap_err();
        assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, "STATE_NOT_WRITTEN"));
        assert!(error.message().contains("job j") && error.message().contains("No space left") && error.message().contains("--state-dir"));
        writing.settle(Ok(()), at(561)).unwrap();
        writing.bear("j", false, at(9_000)).unwrap();
    }
}
