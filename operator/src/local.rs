//! What a pass leaves for the next one of the same job, in this process only.
//!
//! Nothing here decides whether a pod may be created: losing all of it costs a
//! poll, a check that is run again, or one status write. An entry that holds
//! nothing is dropped, so idle jobs cost no memory.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use weir_supervisor::Action;
use weir_supervisor::health::HealthMemory;
use weir_supervisor::observed::{Blame, Slot};
use weir_supervisor::time::Timestamp;

use crate::observe::Answers;

/// Between two passes of one job.
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// By UID of the pod: what its task said last, and when it was asked.
    pub tasks: BTreeMap<String, Asked>,
    /// By task: its newest start that was refused.
    pub rejections: BTreeMap<String, Rejection>,
    /// By task: its newest pod whose gate the API server did not let go.
    pub refused_releases: BTreeMap<String, RefusedRelease>,
    /// The generation for which no pod could be started because something else has the name of its ConfigMap.
    pub taken_generation: Option<i64>,
    /// Pods that were removed after their end, in their last state, until that is remembered (see `ended`).
    pub ended: Vec<Pod>,
    /// Streaks and windows, fresher than the stored ones.
    pub health: HealthMemory,
    /// When the status was last written.
    pub written_at: Option<Timestamp>,
    /// By task: digest of the references whose change restarts it, and when they were read.
    pub references: BTreeMap<String, String>,
    /// When they were read.
    pub references_at: Option<Timestamp>,
    /// Whether this process took the job on just now, so that an empty status is a new one and not a wiped one.
    pub is_new: bool,
    /// The highest epoch that this process gave out for the job, which a status that is lost does not take along.
    pub highest_epoch: u64,
    /// Whether an installation that is not ours was reported.
    pub conflict_reported: bool,
    /// A memory that the API server dropped from a write, so that it need not be lost once it keeps them again.
    pub unkept: Option<Unkept>,
    /// When an event last told that the API server keeps no memory, since it last did.
    pub told_apart_at: Option<Timestamp>,
    /// The word for a lost memory that was answered last, or taken.
    pub answered_word: Option<String>,
    /// The orders of the last pass. The same ones again are no reason to look again at once.
    pub orders: Vec<Action>,
}

/// A memory that was dropped from a write of the status.
#[derive(Clone, Debug)]
pub struct Unkept {
    /// The version of the job that was stored without it: nobody has written since where it still has that one.
    pub version: Option<String>,
    /// The memory.
    pub memory: Value,
}

/// A start that was refused.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// The epoch whose pod was refused.
    pub epoch: u64,
    /// In the words of the API server.
    pub message: String,
    /// What it is to be put down to.
    pub blame: Blame,
}

impl Rejection {
    /// Something in the surroundings that may pass by itself.
    pub fn passing(epoch: u64, message: String) -> Rejection {
        Rejection { epoch, message, blame: Blame::Surroundings }
    }

    /// As the supervisor sees it.
    pub fn slot(&self) -> Slot {
        Slot::Rejected { epoch: self.epoch, message: self.message.clone(), blame: self.blame }
    }
}

/// A pod whose gate could not be taken away.
#[derive(Clone, Debug)]
pub struct RefusedRelease {
    /// Its epoch.
    pub epoch: u64,
    /// The refusal, for people.
    pub message: String,
    /// When it was refused.
    pub at: Timestamp,
}

/// A task's answers.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// When it was last asked.
    pub at: Option<Timestamp>,
    /// Whether that went unanswered.
    pub is_silent: bool,
    /// What it said last.
    pub answers: Option<Answers>,
    /// The epoch of an answer that was not its own.
    pub other_epoch: u64,
}

impl Asked {
    /// Whether all queries of the task had started when it last answered.
    pub fn is_ready(&self) -> bool {
        self.answers.as_ref().is_some_and(|answers| answers.is_ready)
    }
}

impl Local {
    /// Adds pods that were removed after their end; each watch may tell of one.
    pub fn remember_ended(&mut self, pods: Vec<Pod>) {
        for pod in pods {
            if !self.ended.iter().any(|known| known.metadata.uid == pod.metadata.uid) {
                self.ended.push(pod);
            }
        }
    }

    /// Whether there is nothing worth keeping.
    pub fn is_idle(&self) -> bool {
        self.orders.is_empty()
            && self.tasks.is_empty()
            && self.rejections.is_empty()
            && self.refused_releases.is_empty()
            && self.taken_generation.is_none()
            && self.ended.is_empty()
            && self.references.is_empty()
            && !self.conflict_reported
            && !self.is_new
            && self.unkept.is_none()
            && self.told_apart_at.is_none()
            && self.answered_word.is_none()
    }
}
