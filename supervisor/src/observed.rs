//! What the shell sees right now: one slot per task, and a few requests.
//!
//! A *slot* is the place of a task: the child process of the local runner, the
//! pod `<job>--<task>` in a cluster. It holds at most one *instance*, known by
//! its epoch. The shell reports what is there and nothing else; it never
//! reports what it wishes or has just asked for. A slot that the shell does not
//! mention is absent.

use std::collections::BTreeMap;

use crate::conditions::Reason;
use crate::exit::ExitReport;
use crate::text::cut;
use crate::time::Timestamp;

/// One look at the world.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// By task name; also of tasks that the manifest no longer has.
    pub slots: BTreeMap<String, Slot>,
    /// The highest epoch seen anywhere else (pod labels, checkpoints, answers of tasks); 0 when unknown.
    pub highest_epoch: u64,
    /// Whether the supervisor itself is to end (Ctrl-C, deletion of the job).
    pub shutdown: Shutdown,
    /// `weir.dev/confirm-terminated`: a human vouches that this epoch's instance is gone.
    pub confirmed_terminated: Option<Confirmation>,
    /// Requests that cannot be understood.
    pub unreadable: Vec<Unreadable>,
}

/// The word of a human that an instance is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmation {
    /// What was written, cut.
    pub text: String,
    /// The epoch that it names; none where it is no number.
    pub epoch: Option<u64>,
}

impl Confirmation {
    /// Reads what was written.
    pub fn read(text: &str) -> Confirmation {
        Confirmation { text: cut(text, REQUEST_BYTES), epoch: text.trim().parse().ok() }
    }
}

/// A request whose value means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Where it was made: the name of an annotation.
    pub request: String,
    /// What was written, cut.
    pub text: String,
    /// What may be written, for people.
    pub expected: &'static str,
}

impl Unreadable {
    /// A request that is made in vain.
    pub fn new(request: &str, text: &str, expected: &'static str) -> Unreadable {
        Unreadable { request: request.to_owned(), text: cut(text, REQUEST_BYTES), expected }
    }
}

/// As much of a request as is remembered and told.
const REQUEST_BYTES: usize = 64;

/// The place of one task.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Slot {
    /// Nothing is there, and this is proof: a fresh read, no unreachable node in play. An order
    /// to start that was never seen carried out is given again with the same epoch; where it may
    /// have been carried out and come to an end unseen, report `Lost` instead.
    #[default]
    Absent,
    /// Nothing is there because the order to start this epoch was refused (quota, fork failure).
    Rejected {
        /// The epoch of the refused order.
        epoch: u64,
        /// What the refusal said.
        message: String,
        /// What it is to be put down to.
        blame: Blame,
    },
    /// Nothing is there, but an instance of this epoch may have been, and it is not alive: a runner, whose
    /// children end with it, reports this after its own restart for every epoch in memory that it cannot
    /// account for; a cluster for an order whose pod was not seen, which was never let go.
    Lost {
        /// The newest epoch that may have run.
        epoch: u64,
    },
    /// Something that is not Weir's has the name. The shell reports this only when no instance of
    /// the task may be alive beside it; one that may be is reported as `Present` and unreachable.
    Occupied {
        /// What it is, for people: `pod orders--bronze of ReplicaSet web`.
        by: String,
    },
    /// Something that says it belongs to the job and may be alive, of which nobody can tell which
    /// instance it is. It is left alone, and no run begins beside it.
    Unclassified {
        /// What it is, for people: `pod orders--bronze, which has no epoch`.
        what: String,
    },
    /// An instance, alive or ended.
    Present(Box<Instance>),
}

/// What a refused order to start is to be put down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The surroundings, such as a quota, an admission rule or a missing account: it may pass by itself.
    Surroundings,
    /// The manifest: what it asks for is not valid.
    Manifest,
}

/// A process or pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Name of the pod or id of the process, for status.
    pub name: String,
    /// The epoch that it was started with.
    pub epoch: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// How far it is.
    pub phase: Phase,
    /// The strongest order to stop that reached it.
    pub stop_order: StopOrder,
    /// The generation whose live settings it has last confirmed; at start that of its order.
    pub config_generation: i64,
    /// When it last answered; none before the first answer.
    pub reported_at: Option<Timestamp>,
    /// One entry per query of its last answer.
    pub queries: Vec<QueryFacts>,
    /// Where it runs, such as the name of a node; none while it has no place, or for a process.
    /// Remembered, so that an instance that vanished later can still be judged.
    pub place: Option<String>,
    /// What keeps it in its slot though it is to go away: finalizers of others.
    pub held_by: Vec<String>,
}

/// How far an instance is.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Created, not ready.
    Starting(StartObstacle),
    /// All queries are past their claim and running.
    Ready,
    /// Going away: SIGTERM sent, deletion requested by whomever.
    Terminating,
    /// Proven over.
    Exited(Exit),
    /// Its node does not answer; nothing is known.
    Unreachable {
        /// Since when.
        since: Timestamp,
    },
    /// Its slot is empty and nobody saw it end, although its surroundings answer. It may be alive.
    Vanished,
}

/// What keeps a starting instance from being ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartObstacle {
    /// Nothing but time.
    None,
    /// It is held back until it is remembered: as long as it is, nothing of it can have run.
    Gated,
    /// The same, and letting it go was refused; it is tried again.
    ReleaseRefused {
        /// The refusal, for people.
        message: String,
    },
    /// No node fits.
    Unschedulable {
        /// The scheduler's words.
        message: String,
    },
    /// The image cannot be pulled.
    ImagePull {
        /// The kubelet's words.
        message: String,
    },
    /// The container refers to something that is missing, such as a key of a Secret.
    ContainerConfig {
        /// The kubelet's words.
        message: String,
    },
}

impl Phase {
    /// Whether it has not been let go yet, so that nothing of it can have run.
    pub fn is_held_back(&self) -> bool {
        matches!(self, Phase::Starting(StartObstacle::Gated | StartObstacle::ReleaseRefused { .. }))
    }
}

impl StartObstacle {
    /// The word of the conditions and the words for people; none while only time is lacking.
    pub fn reason(&self) -> Option<(Reason, &str)> {
        match self {
            StartObstacle::None | StartObstacle::Gated => None,
            StartObstacle::ReleaseRefused { message } => Some((Reason::ReleaseRefused, message)),
            StartObstacle::Unschedulable { message } => Some((Reason::Unschedulable, message)),
            StartObstacle::ImagePull { message } => Some((Reason::ImagePullFailed, message)),
            StartObstacle::ContainerConfig { message } => Some((Reason::CreateContainerConfigError, message)),
        }
    }
}

/// The end of an instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Exit {
    /// Exit code, 128 + signal for signals; none when it could not be learnt.
    pub code: Option<i32>,
    /// The instance's own words, when it left any.
    pub report: Option<ExitReport>,
    /// What the surroundings did to it.
    pub cause: ExitCause,
    /// Last lines of its log, for status.
    pub log_tail: String,
    /// When it ended.
    pub at: Timestamp,
}

/// What the surroundings did to an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitCause {
    /// Nothing that the shell knows of.
    Own,
    /// The kernel killed it for memory.
    OutOfMemory,
    /// Drain, preemption, node shutdown, garbage collection.
    Disruption {
        /// CamelCase word of the surroundings, such as `PreemptionByScheduler`.
        reason: String,
    },
}

/// The strongest order to stop that reached an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOrder {
    /// None.
    None,
    /// SIGTERM, or a deletion with grace.
    Graceful {
        /// When it was given.
        at: Timestamp,
    },
    /// SIGKILL.
    Kill,
}

/// Whether the supervisor itself is to end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shutdown {
    /// No.
    #[default]
    None,
    /// Stop the run at a batch boundary, then finish.
    Graceful,
    /// Kill the run, then finish.
    Immediate,
}

/// What one query reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryFacts {
    /// Name, unique in the task.
    pub name: String,
    /// Stable over restarts.
    pub id: String,
    /// New per start.
    pub run_id: String,
    /// The batch in work or last done.
    pub batch_id: Option<u64>,
    /// Whether its loop is alive.
    pub is_active: bool,
    /// What it is doing, for people.
    pub message: String,
    /// When its newest batch was committed; none before the first.
    pub last_commit: Option<Timestamp>,
    /// Whether unread input is there.
    pub input_available: bool,
    /// Rates of the newest progress.
    pub input_rows_per_second: f64,
    /// Rates of the newest progress.
    pub processed_rows_per_second: f64,
    /// What is not yet read.
    pub backlog: Backlog,
    /// The event time watermark.
    pub watermark: Option<Timestamp>,
    /// Records of this start that went to the place for bad records.
    pub bad_records: u64,
    /// Batches since the last look or more, oldest first; ones seen before are skipped by id.
    pub recent_batches: Vec<BatchFacts>,
}

/// What a query has not yet read; none where its sources cannot tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    /// Latest minus processed offsets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Records times their mean size, or bytes of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Age of the oldest unread record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Files outstanding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
}

/// One finished batch, as far as health is concerned.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchFacts {
    /// Its number.
    pub id: u64,
    /// `durationMs.triggerExecution`.
    pub duration: std::time::Duration,
    /// The query's trigger interval; zero for the default trigger.
    pub trigger_interval: std::time::Duration,
    /// Whether the trigger before it had data.
    pub previous_had_data: bool,
    /// `inputRowsPerSecond`.
    pub input_rows_per_second: f64,
    /// `processedRowsPerSecond`.
    pub processed_rows_per_second: f64,
    /// The costliest entry of `durationMs` beside `triggerExecution`.
    pub costliest_stage: String,
}

impl Slot {
    /// The instance, alive or ended.
    pub fn instance(&self) -> Option<&Instance> {
        match self {
            Slot::Present(instance) => Some(instance),
            Slot::Absent | Slot::Rejected { .. } | Slot::Lost { .. } | Slot::Occupied { .. } | Slot::Unclassified { .. } => None,
        }
    }

    /// Whether an order to start may be given: nothing is there.
    pub fn is_free(&self) -> bool {
        match self {
            Slot::Absent | Slot::Rejected { .. } | Slot::Lost { .. } => true,
            Slot::Occupied { .. } | Slot::Unclassified { .. } | Slot::Present(_) => false,
        }
    }

    /// What may be an instance of the job, though nobody can tell which.
    pub fn unclassified(&self) -> Option<&str> {
        match self {
            Slot::Unclassified { what } => Some(what),
            Slot::Absent | Slot::Rejected { .. } | Slot::Lost { .. } | Slot::Occupied { .. } | Slot::Present(_) => None,
        }
    }

    /// An instance that has not been proven over.
    pub fn live(&self) -> Option<&Instance> {
        self.instance().filter(|instance| !matches!(instance.phase, Phase::Exited(_)))
    }
}

impl Observed {
    /// The slot of a task; absent when not mentioned.
    pub fn slot(&self, task: &str) -> &Slot {
        self.slots.get(task).unwrap_or(&Slot::Absent)
    }

    /// Whether anything is alive anywhere, or may be.
    pub fn any_live(&self) -> bool {
        self.slots.values().any(|slot| slot.live().is_some() || slot.unclassified().is_some())
    }
}
