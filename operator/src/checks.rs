//! Checks of new generations, beside the passes.
//!
//! A bounded number runs at once, and each may take long; passes go on meanwhile
//! with the last good generation. A verdict is kept until its generation is
//! accepted or replaced, and its arrival asks for a pass. A check that could not
//! be run is tried again, and is never a verdict; what stood in its way is told
//! until it has been run. One that used up a limit waits longer each time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::broadcast;
use tracing::Instrument;
use weir_crds::resource::StreamingJobSpec;
use weir_supervisor::conditions::{Condition, Reason};
use weir_supervisor::time::{Timestamp, after};

use crate::accept::Refusal;
use crate::build;
use crate::check::{Checker, Lane, Verdict};
use crate::clock::Clock;
use crate::job::Job;
use crate::names::JobId;
use crate::telemetry;
use crate::token;

mod costly;
#[cfg(test)]
mod tests;

use costly::Costly;

/// When a check that could not be run is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// How far the check of a generation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// It runs, or waits for its turn.
    Running {
        /// Why it could not be run before.
        obstacle: Option<String>,
    },
    /// It passed.
    Passed,
    /// The manifest is refused.
    Refused(Refusal),
    /// It could not be run, or not to its end; tried again at this time.
    Unavailable {
        /// Why, for people.
        message: String,
        /// When to try again.
        retry_at: Timestamp,
    },
}

/// The checks of all jobs.
pub struct Checks {
    checker: Arc<Checker>,
    clock: Arc<dyn Clock>,
    known: Arc<Mutex<HashMap<JobId, (i64, CheckState)>>>,
    costly: Arc<Mutex<Costly>>,
    done: broadcast::Sender<JobId>,
}

impl Checks {
    /// Checks with a checker; `done` hears of every verdict.
    pub fn new(checker: Checker, clock: Arc<dyn Clock>, done: broadcast::Sender<JobId>) -> Checks {
        Checks { checker: Arc::new(checker), clock, known: Arc::default(), costly: Arc::default(), done }
    }

    /// How far the check of a job's newest generation is; begins it where it is not.
    pub fn state(&self, job: &Job, spec: &StreamingJobSpec, now: Timestamp) -> CheckState {
        let mut known = self.known.lock();
        let is_first = !known.contains_key(&job.id);
        let obstacle = match known.get(&job.id).filter(|(generation, _)| *generation == job.generation) {
            Some((_, CheckState::Unavailable { message, retry_at })) if *retry_at <= now => Some(message.clone()),
            Some((_, state)) => return state.clone(),
            None => None,
        };
        let document = build::job_document(&job.id.name, &job.id.namespace, spec, &BTreeMap::new()).to_string();
        let digest = token::short(&document, 0);
        let (waits, is_costly) = {
            let costly = self.costly.lock();
            (costly.waits(&digest, now), costly.is_costly(&job.id) || (is_first && shows_an_obstacle(job)))
        };
        let begins = waits.is_none();
        let state = match waits {
            Some(wait) => CheckState::Unavailable { message: wait.message, retry_at: wait.retry_at },
            None => CheckState::Running { obstacle },
        };
        known.insert(job.id.clone(), (job.generation, state.clone()));
        drop(known);
        if begins {
            self.begin(job, document, digest, if is_costly { Lane::Costly } else { Lane::Common });
        }
        state
    }

    /// The verdict is not needed any more.
    pub fn forget(&self, id: &JobId) {
        self.known.lock().remove(id);
        self.costly.lock().forget(id);
    }

    fn begin(&self, job: &Job, document: String, digest: String, lane: Lane) {
        let (id, generation) = (job.id.clone(), job.generation);
        let span = telemetry::job_span(&id.namespace, &id.name);
        let (checker, clock, done) = (Arc::clone(&self.checker), Arc::clone(&self.clock), self.done.clone());
        let (known, costly) = (Arc::clone(&self.known), Arc::clone(&self.costly));
        let checked = async move {
            let verdict = checker.check(&document, lane).await;
            if let Verdict::Accepted { .. } | Verdict::Rejected { .. } = verdict {
                costly.lock().ended(&id, &digest);
            }
            let state = match verdict {
                Verdict::Accepted { warnings } => {
                    for warning in warnings {
                        tracing::info!(generation, warning, "the manifest has a warning");
                    }
                    CheckState::Passed
                }
                Verdict::Rejected { reason, message } => CheckState::Refused(Refusal { reason, message }),
                Verdict::Unavailable { message } => {
                    tracing::warn!(generation, message, "the manifest could not be checked");
                    CheckState::Unavailable { message, retry_at: after(clock.now(), RETRY) }
                }
                Verdict::Exceeded { message } => {
                    tracing::warn!(generation, message, "the check of the manifest used up a limit");
                    let wait = costly.lock().exceeded(&id, &digest, &message, clock.now());
                    CheckState::Unavailable { message: wait.message, retry_at: wait.retry_at }
                }
            };
            let mut known = known.lock();
            // A newer generation may have come meanwhile; its own check is on its way.
            if let Some(entry) = known.get_mut(&id).filter(|entry| entry.0 == generation) {
                entry.1 = state;
            }
            drop(known);
            // Nobody listens once the controller has ended.
            let _ = done.send(id);
        };
        tokio::spawn(checked.instrument(span));
    }
}

/// Whether an earlier process could not check this very generation: whatever was in its way may be so again.
fn shows_an_obstacle(job: &Job) -> bool {
    let is_one = |condition: &Condition| {
        condition.kind == "Accepted"
            && condition.reason == Reason::CheckUnavailable.as_str()
            && condition.observed_generation == job.generation
    };
    job.conditions().iter().any(is_one)
}
