//! Named places where tests make a process die or freeze.
//!
//! Built only with the feature `failpoints`; otherwise a call is nothing. The
//! environment variable `FAILPOINTS` configures them in the syntax of the
//! `fail` crate: `batch.offsets.after=2*off->return(kill)` kills the process
//! with SIGKILL at the third passage, `return(stop)` freezes it with SIGSTOP
//! until it is continued, `return(error)` makes the place fail retryably.

#[cfg(feature = "failpoints")]
use crate::error::Error;
use crate::error::Result;

/// Every failpoint, in the order in which a task passes them; crash tests
/// iterate over this table, so a new place is tested by being listed. Only sinks
/// of files pass `sink.file.…`, only those that write a marker `sink.marker.…`.
pub const ALL: &[&str] = &[
    "claim.metadata.before",
    "claim.metadata.after",
    "claim.owner.before",
    "claim.owner.after",
    "claim.epoch.before",
    "claim.epoch.after",
    "claim.recheck.after",
    "claim.sink-identity.before",
    "claim.sink-identity.after",
    "claim.sink-read.after",
    "claim.recovery.after",
    "claim.sink-begin.before",
    "claim.sink-begin.after",
    "claim.cleanup.before",
    "claim.cleanup.after",
    "batch.fence.after",
    "batch.source-log.before",
    "batch.source-log.after",
    "batch.offsets.before",
    "batch.offsets.after",
    "batch.refence.after",
    "batch.slice.after",
    "sink.file.before",
    "sink.file.after",
    "sink.marker.before",
    "sink.commit.before",
    "sink.commit.after",
    "batch.commits.before",
    "batch.commits.after",
    "batch.purge.between",
    "batch.purge.after",
    "release.before",
    "release.after",
];

/// Reads the configuration from the environment; once, at process start.
pub fn init() {
    #[cfg(feature = "failpoints")]
    {
        // The scenario's guard would clear the configuration when dropped.
        std::mem::forget(fail::FailScenario::setup());
    }
}

/// Passes the failpoint `name`.
#[cfg(feature = "failpoints")]
pub fn hit(name: &'static str) -> Result<()> {
    debug_assert!(ALL.contains(&name), "failpoint {name} is not in the table");
    let action = fail::eval(name, |argument| argument.unwrap_or_default());
    match action.as_deref() {
        None => Ok(()),
        Some("error") => Err(Error::retryable("INJECTED_FAILURE", format!("failpoint {name} was told to fail"))),
        Some(signal) => {
            let signal = if signal == "stop" { rustix::process::Signal::STOP } else { rustix::process::Signal::KILL };
            let sent = rustix::process::kill_process(rustix::process::getpid(), signal);
            sent.map_err(|e| Error::retryable("INJECTED_FAILURE", format!("failpoint {name}: {e}")))
        }
    }
}

/// Passes the failpoint `name`: nothing in this build.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn hit(_name: &'static str) -> Result<()> {
    Ok(())
}
