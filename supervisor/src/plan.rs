//! What is to be done: the answer of `decide`.
//!
//! The order is a promise: store `memory`, then carry out `actions`, then
//! publish `events`, then look and decide again, at `wake_at` at the latest.
//! Actions are level-triggered and named by task and epoch: one whose effect is
//! not yet visible is given again, so every one must be harmless when repeated.

use crate::events::Event;
use crate::exit::ExitClass;
use crate::memory::Memory;
use crate::time::Timestamp;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// To be stored before anything else happens.
    pub memory: Memory,
    /// To be carried out in any order once `memory` is stored.
    pub actions: Vec<Action>,
    /// Things that have happened, for the event log.
    pub events: Vec<Event>,
    /// When to decide again if nothing is observed before; always later than now. None: only
    /// a change of the manifest, a request or an observation matters.
    pub wake_at: Option<Timestamp>,
    /// Set once there is nothing left to supervise: after a shutdown, or after the one run.
    pub finished: Option<Finished>,
}

/// One order to the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start an instance. If one of this very epoch is there already, that is success; if
    /// another is there, do nothing. A refusal is observed as `Slot::Rejected`.
    StartTask {
        /// The task.
        task: String,
        /// The epoch to run under, new with every order.
        epoch: u64,
        /// Attempts of the task in this run, from 1.
        attempt: u32,
        /// The run's number.
        run: u64,
        /// The generation of the manifest to run.
        generation: i64,
    },
    /// Let an instance run that was begun held back (`StartObstacle::Gated`), now that its being there is remembered.
    ReleaseTask {
        /// The task.
        task: String,
        /// The epoch of the instance.
        epoch: u64,
    },
    /// Ask an instance to stop at a batch boundary (SIGTERM, deletion with grace).
    StopTask {
        /// The task.
        task: String,
        /// The epoch of the instance.
        epoch: u64,
        /// When it will be killed.
        deadline: Timestamp,
    },
    /// End an instance at once (SIGKILL). In a cluster the kubelet does it; nothing to do there.
    KillTask {
        /// The task.
        task: String,
        /// The epoch of the instance.
        epoch: u64,
    },
    /// Force-delete an instance on a lost node; a fenced successor follows.
    ForceRemoveTask {
        /// The task.
        task: String,
        /// The epoch of the instance.
        epoch: u64,
    },
    /// Remove what an ended instance left behind, so that its slot becomes absent.
    ClearTask {
        /// The task.
        task: String,
        /// The epoch of the ended instance.
        epoch: u64,
    },
    /// Hand the settings that disrupt nothing to a running instance (`PUT /v1/config`).
    ApplyLiveConfig {
        /// The task.
        task: String,
        /// The epoch of the instance.
        epoch: u64,
        /// The generation whose settings they are.
        generation: i64,
    },
}

/// The end of supervision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The class whose code the local runner exits with.
    pub class: ExitClass,
    /// For people.
    pub message: String,
}
