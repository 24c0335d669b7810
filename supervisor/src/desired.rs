//! What the owner of a job wants: the rules of its accepted manifest and the
//! requests that act by themselves.
//!
//! `Desired` always describes the last *accepted* generation, so a rejected
//! edit cannot stop what runs: the verdict on a newer generation is in
//! `acceptance` only. The rules are those of `weir_crds::policy`; the hashes of
//! the disruptive fields come from its field table. Reading manifests is the
//! business of the shell.

use std::collections::BTreeMap;

use weir_crds::policy::{JobPolicy, JobTrigger, TaskRetryMode};

use crate::backoff::Backoff;
use crate::conditions::Reason;
use crate::schedule::{Schedule, ScheduleError};

/// Everything that the supervisor needs to know of a job's owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    /// The rules of the accepted generation; without tasks when none was ever accepted.
    pub rules: JobPolicy,
    /// The last accepted generation: the one that new runs and attempts use.
    pub generation: i64,
    /// The verdict on the newest generation.
    pub acceptance: Acceptance,
    /// Hash of everything whose change needs a new run.
    pub run_hash: String,
    /// By task name: hash of everything whose change restarts that task.
    pub task_hashes: BTreeMap<String, String>,
    /// Digest of where its checkpoints are; empty where nobody compares generations.
    pub places: String,
    /// The token of `weir.dev/run-now`.
    pub run_now: Option<String>,
    /// `weir.dev/paused`: observe and report, order nothing.
    pub paused: bool,
    /// How many runs this supervisor is there for.
    pub lifetime: Lifetime,
    /// The image that the next run uses; shown in status.
    pub image: String,
    /// By task: names the places where its instances of this generation fence each other; a task that is left out has no
    /// fence. A lost instance is harmless to a successor behind the same fence, and only to such a one.
    pub fences: BTreeMap<String, String>,
    schedule: Option<Schedule>,
}

/// Whether the newest generation of the manifest can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    /// It is the generation of the rules.
    Accepted,
    /// It is being checked; the rules are still those of the one before.
    Checking {
        /// The newest generation.
        generation: i64,
        /// Why the check could not be run, for people; it is tried again.
        obstacle: Option<String>,
    },
    /// It was refused; the rules are still those of the last good one.
    Rejected {
        /// The refused generation.
        generation: i64,
        /// One that the `Accepted` condition knows.
        reason: Reason,
        /// What is wrong, for people.
        message: String,
    },
}

/// How many runs this supervisor is there for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lifetime {
    /// As the trigger says, for ever.
    AsTriggered,
    /// Exactly one run, begun at once: `weir run --once`, and `weir run` of a manual job.
    OneRun {
        /// Unique to this invocation. A run that is alive from an earlier one is taken over.
        token: String,
    },
}

impl Desired {
    /// An accepted generation without requests, for ever.
    ///
    /// Fails on a schedule that is not five cron fields or names no time zone.
    pub fn accepted(
        rules: JobPolicy,
        generation: i64,
        run_hash: String,
        task_hashes: BTreeMap<String, String>,
    ) -> Result<Desired, ScheduleError> {
        let schedule = match &rules.trigger {
            JobTrigger::Schedule(schedule) => Some(Schedule::parse(&schedule.cron, &schedule.time_zone)?),
            JobTrigger::Continuous { .. } | JobTrigger::Manual => None,
        };
        Ok(Desired {
            rules,
            generation,
            acceptance: Acceptance::Accepted,
            run_hash,
            task_hashes,
            places: String::new(),
            run_now: None,
            paused: false,
            lifetime: Lifetime::AsTriggered,
            image: String::new(),
            fences: BTreeMap::new(),
            schedule,
        })
    }

    /// What nobody has accepted yet: no task, no run.
    pub fn nothing() -> Desired {
        let rules = weir_crds::resource::StreamingJobSpec::without_tasks().policy().expect("a manual trigger has a policy");
        Desired {
            rules,
            generation: 0,
            acceptance: Acceptance::Accepted,
            run_hash: String::new(),
            task_hashes: BTreeMap::new(),
            places: String::new(),
            run_now: None,
            paused: false,
            lifetime: Lifetime::AsTriggered,
            image: String::new(),
            fences: BTreeMap::new(),
            schedule: None,
        }
    }

    /// The parsed schedule; none for other triggers.
    pub fn schedule(&self) -> Option<&Schedule> {
        self.schedule.as_ref()
    }

    /// The newest generation that was looked at, accepted or not: `status.observedGeneration`.
    pub fn newest_generation(&self) -> i64 {
        match self.acceptance {
            Acceptance::Accepted => self.generation,
            Acceptance::Checking { generation, .. } | Acceptance::Rejected { generation, .. } => generation,
        }
    }

    /// The delays between runs.
    pub fn run_backoff(&self) -> Backoff {
        Backoff::between_runs(&self.rules.restart)
    }

    /// The delays of task retries and of repeated disruptions: those of `taskRetry`, or its
    /// defaults where the mode is `Never`, with the jitter of `restart`.
    pub fn task_backoff(&self) -> Backoff {
        let retry = self.rules.task_retry.clone().unwrap_or_default();
        Backoff::of_tasks(&retry, &self.rules.restart)
    }

    /// Retries of a task inside a run.
    pub fn max_retries(&self) -> u32 {
        self.rules.task_retry.clone().unwrap_or_default().max_retries
    }

    /// Schedules and manual jobs retry tasks as continuous ones do by default.
    pub fn task_retry_mode(&self) -> TaskRetryMode {
        match self.rules.trigger {
            JobTrigger::Continuous { task_retry_mode } => task_retry_mode,
            JobTrigger::Schedule(_) | JobTrigger::Manual => TaskRetryMode::OnFailure,
        }
    }

    /// Whether runs follow each other by themselves.
    pub fn is_continuous(&self) -> bool {
        matches!(self.rules.trigger, JobTrigger::Continuous { .. })
    }

    pub(crate) fn task_hash(&self, task: &str) -> &str {
        self.task_hashes.get(task).map_or("", String::as_str)
    }

    pub(crate) fn has_task(&self, task: &str) -> bool {
        self.rules.tasks.iter().any(|known| known.name == task)
    }
}
