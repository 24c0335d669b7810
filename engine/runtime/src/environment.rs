//! What a task is told from outside: who it is, which epoch, which clock.
//!
//! Every value is an argument; nothing below this reads the process
//! environment or the wall clock on its own.

use std::sync::Arc;

use uuid::Uuid;

/// A source of the current time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Milliseconds since the epoch.
    fn now_ms(&self) -> i64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        chrono::Utc::now().timestamp_millis()
    }
}

/// Identity and limits of one attempt of one task.
#[derive(Clone, Debug)]
pub struct TaskEnvironment {
    /// UID of the StreamingJob; locally random, kept in the state directory.
    pub job_uid: String,
    /// Namespace.
    pub namespace: String,
    /// Job.
    pub job: String,
    /// Task.
    pub task: String,
    /// The epoch that the supervisor gave to this process.
    pub epoch: u64,
    /// Random id of this process.
    pub instance: Uuid,
    /// UID of the pod, where there is one.
    pub pod_uid: Option<String>,
    /// `weir.dev/adopt-checkpoint`.
    pub adopt_checkpoint: Option<u64>,
    /// Most lane threads of a query.
    pub lanes: usize,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}
