//! What a job waits for before something begins, in words and with the time.
//!
//! For those who look on: between two runs and between two attempts nothing
//! happens, and a person wants to know why and until when. Derived from the
//! memory alone; decides nothing.

use weir_crds::duration::WeirDuration;

use crate::decide;
use crate::desired::{Desired, Lifetime};
use crate::memory::{Memory, StartReason, TaskMemory, TaskState};
use crate::observed::{Observed, Shutdown};
use crate::time::{Timestamp, elapsed, rfc3339};

/// One thing that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// When it is over.
    pub until: Timestamp,
    /// What keeps it.
    pub why: String,
    /// What begins then.
    pub begins: String,
}

impl Wait {
    /// One line: why, what begins, when, and how long that is from now.
    pub fn sentence(&self, now: Timestamp) -> String {
        // The whole second after it, so that nobody looks too early.
        let left = WeirDuration::from_secs(u32::try_from(elapsed(now, self.until).as_millis().div_ceil(1000)).unwrap_or(u32::MAX));
        format!("waiting for {}; {} at {} (in {})", self.why, self.begins, rfc3339(self.until), left.as_str())
    }
}

/// All that is waited for after a decision; `memory` is that of the plan.
pub fn waits(desired: &Desired, observed: &Observed, memory: &Memory, now: Timestamp) -> Vec<Wait> {
    let all = match &memory.run {
        Some(run) => {
            let waiting = run.tasks.iter().filter(|(_, task)| task.state == TaskState::WaitingRetry && run.stop.is_none());
            let wait = |(name, task): (&String, &TaskMemory)| {
                let why = match task.failures {
                    0 => "the pause after a disruption".to_owned(),
                    failures => format!("taskRetry after {} of task {name}", counted(failures, "failure")),
                };
                Some(Wait { until: task.next_retry?, why, begins: format!("attempt {} of task {name} begins", task.attempt + 1) })
            };
            waiting.filter_map(wait).collect()
        }
        None => next_run(desired, observed, memory, now).into_iter().collect::<Vec<_>>(),
    };
    all.into_iter().filter(|wait| wait.until > now).collect()
}

fn next_run(desired: &Desired, observed: &Observed, memory: &Memory, now: Timestamp) -> Option<Wait> {
    let begins = "the next run begins".to_owned();
    if let Some(next) = decide::next_run(desired, observed, memory) {
        let why = match next.reason {
            StartReason::Backoff => format!("the backoff after {}", counted(memory.consecutive_failures, "failed run")),
            StartReason::MaximumDelay => {
                // An edit of an annotation is none, though weir.dev/adopt-checkpoint may be the remedy.
                "restart.maxDelay, as no retry heals this failure; the annotation weir.dev/run-now with a new value ends the wait, and so \
                 does an edit of what the tasks run"
                    .to_owned()
            }
            StartReason::BetweenRuns => "restart.minInterval between the starts of two runs".to_owned(),
            StartReason::Restart | StartReason::Tick | StartReason::RunNow | StartReason::OneRun => "the next run".to_owned(),
        };
        return Some(Wait { until: next.at, why, begins });
    }
    let is_watched = desired.lifetime == Lifetime::AsTriggered && !desired.rules.suspend && observed.shutdown == Shutdown::None;
    let until = desired.schedule().filter(|_| is_watched)?.next_after(now)?;
    Some(Wait { until, why: "the next tick of the schedule".to_owned(), begins })
}

fn counted(number: u32, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
