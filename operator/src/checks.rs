//! Checks of new generations, beside the passes.
//!
//! A bounded number runs at once, and each may take long; passes go on meanwhile
//! with the last good generation. A verdict is kept until its generation is
//! accepted or replaced, and its arrival asks for a pass. A check that could not
//! be run is tried again, and is never a verdict; what stood in its way is told
//! until it has been run.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::broadcast;
use tracing::Instrument;
use weir_crds::resource::StreamingJobSpec;
use weir_supervisor::time::{Timestamp, after};

use crate::accept::Refusal;
use crate::build;
use crate::check::{Checker, Verdict};
use crate::clock::Clock;
use crate::job::Job;
use crate::names::JobId;
use crate::telemetry;

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
    /// It could not be run; tried again at this time.
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
    done: broadcast::Sender<JobId>,
}

impl Checks {
    /// Checks with a checker; `done` hears of every verdict.
    pub fn new(checker: Checker, clock: Arc<dyn Clock>, done: broadcast::Sender<JobId>) -> Checks {
        Checks { checker: Arc::new(checker), clock, known: Arc::default(), done }
    }

    /// How far the check of a job's newest generation is; begins it where it is not.
    pub fn state(&self, job: &Job, spec: &StreamingJobSpec, now: Timestamp) -> CheckState {
        let mut known = self.known.lock();
        let obstacle = match known.get(&job.id).filter(|(generation, _)| *generation == job.generation) {
            Some((_, CheckState::Unavailable { message, retry_at })) if *retry_at <= now => Some(message.clone()),
            Some((_, state)) => return state.clone(),
            None => None,
        };
        let running = CheckState::Running { obstacle };
        known.insert(job.id.clone(), (job.generation, running.clone()));
        drop(known);
        self.begin(job, spec);
        running
    }

    /// The verdict is not needed any more.
    pub fn forget(&self, id: &JobId) {
        self.known.lock().remove(id);
    }

    fn begin(&self, job: &Job, spec: &StreamingJobSpec) {
        let document = build::job_document(&job.id.name, &job.id.namespace, spec, &BTreeMap::new());
        let (id, generation) = (job.id.clone(), job.generation);
        let span = telemetry::job_span(&id.namespace, &id.name);
        let (checker, clock, known, done) =
            (Arc::clone(&self.checker), Arc::clone(&self.clock), Arc::clone(&self.known), self.done.clone());
        let checked = async move {
            let state = match checker.check(&document).await {
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
