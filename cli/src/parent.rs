//! A process that is of use to its parent alone, and ends with it.
//!
//! The kernel sends the signal when the *thread* that started this process
//! ends, so a parent starts it from one that lasts as long as itself.

use weir_core::{Error, Result};

/// Has the kernel kill this process when its parent ends, and ends it now when
/// the parent is gone already.
pub fn die_with(parent: i32) -> Result<()> {
    let failed = |e| Error::retryable("PARENT_DEATH_SIGNAL", "could not bind this process to its parent").with_source(e);
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(failed)?;
    let actual = rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero).map(|pid| pid.get());
    if actual == Some(parent) {
        return Ok(());
    }
    Err(Error::retryable("PARENT_GONE", format!("the process with id {parent}, for which this one works, is gone; nothing is begun")))
}
