//! The exit report: what a task says of its end.
//!
//! A small JSON document, the termination message of a pod (at most 4 KiB, as
//! the kubelet keeps it) or a file of the local runner. The engine writes it,
//! the supervisor reads it; what an end means is the supervisor's business.

use serde::{Deserialize, Serialize};

/// Reason of a report whose checkpoint was taken over by another owner: the job waits for `restartNonce`.
pub const CHECKPOINT_ADOPTED: &str = "CheckpointAdopted";
/// Reason of a report that asks for a restart because a source gained columns.
pub const SCHEMA_CHANGED: &str = "SchemaChanged";

/// The small JSON document that a task leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitReport {
    /// What kind of end it was.
    pub class: ExitClass,
    /// The query that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// CamelCase word.
    #[serde(default)]
    pub reason: String,
    /// One line for people.
    #[serde(default)]
    pub message: String,
    /// The epoch that the instance ran under.
    pub epoch: u64,
    /// The last committed batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// The highest epoch found in a checkpoint, when fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_epoch_seen: Option<u64>,
    /// With reason `SchemaChanged`: the version of the source that brought the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_version: Option<String>,
    /// When its queries last committed a batch, ms since 1970: of the one that is furthest back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit_ms: Option<i64>,
}

impl ExitReport {
    /// An end with nothing more to say.
    pub fn new(class: ExitClass, epoch: u64) -> Self {
        Self {
            class,
            query: None,
            reason: String::new(),
            message: String::new(),
            epoch,
            batch: None,
            highest_epoch_seen: None,
            source_version: None,
            last_commit_ms: None,
        }
    }
}

/// The classes of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitClass {
    /// All queries ended by themselves.
    Completed,
    /// Stopped at a batch boundary on request.
    Stopped,
    /// A failure that a retry may heal.
    Retryable,
    /// The manifest is at fault.
    Config,
    /// The checkpoint is damaged or belongs to something else.
    Incompatible,
    /// A newer epoch owns the checkpoint.
    Fenced,
}

impl ExitClass {
    /// The process exit code of the class.
    pub fn code(self) -> i32 {
        match self {
            ExitClass::Completed | ExitClass::Stopped => 0,
            ExitClass::Retryable => 10,
            ExitClass::Config => 20,
            ExitClass::Incompatible => 21,
            ExitClass::Fenced => 22,
        }
    }
}
