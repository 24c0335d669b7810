//! The annotations that people and tools may set on a `StreamingJob`.

/// Starts one run now, or ends a backoff; the value is a token, the handled one is in status.
pub const RUN_NOW: &str = "weir.dev/run-now";
/// A human vouches that the pod of this epoch is gone.
pub const CONFIRM_TERMINATED: &str = "weir.dev/confirm-terminated";
/// Takes over another owner's checkpoint whose highest claim is this epoch.
pub const ADOPT_CHECKPOINT: &str = "weir.dev/adopt-checkpoint";
/// `"true"`: the operator writes nothing but status.
pub const PAUSED: &str = "weir.dev/paused";
/// Goes on without the memory that a later version left in the status whose epoch is this.
pub const DISCARD_MEMORY: &str = "weir.dev/discard-memory";
/// The installation that looks after the job, `<namespace>/<name>`; empty is as if absent.
pub const OPERATOR: &str = "weir.dev/operator";
/// `"true"`: delete without waiting for a batch boundary.
pub const SKIP_GRACEFUL_STOP: &str = "weir.dev/skip-graceful-stop";
