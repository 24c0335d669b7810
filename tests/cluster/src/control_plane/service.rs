//! One program of the control plane, which may be away for a while.
//!
//! A [`Service`] keeps the handle of the running process, if there is one. It
//! knows nothing of what the program does; waiting for readiness asks a
//! question of the caller's and fails at once, with the end of the log, when
//! the process ends instead.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use weir_testkit::process::Guarded;
use weir_testkit::scratch;

use crate::wait::{GENEROUS, eventually};

const PAUSE: Duration = Duration::from_millis(25);
const LAST_LINES: usize = 40;

pub(super) struct Service {
    name: &'static str,
    process: Mutex<Option<Guarded>>,
}

impl Service {
    /// A service that does not run yet.
    pub(super) fn new(name: &'static str) -> Service {
        Service { name, process: Mutex::new(None) }
    }

    /// Starts the program; it is an error if it runs already.
    pub(super) fn start(&self, command: Command) -> Result<()> {
        let mut process = self.process.lock();
        if process.is_some() {
            bail!("{} is running already", self.name);
        }
        *process = Some(Guarded::spawn(self.name, command)?);
        Ok(())
    }

    /// Asks until the answer is `Ok`, as long as the process lives. What stands in the way at the deadline goes into the error.
    pub(super) async fn until_ready<Answer>(&self, mut ask: impl FnMut() -> Answer) -> Result<()>
    where
        Answer: Future<Output = Result<()>>,
    {
        let end = Instant::now() + GENEROUS;
        loop {
            self.check_alive()?;
            match ask().await {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= end => {
                    let log = self.last_lines();
                    return Err(error).with_context(|| format!("{} is not ready after {GENEROUS:?}; its last lines:\n{log}", self.name));
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// SIGKILL, and waits for the end.
    pub(super) async fn kill(&self) -> Result<()> {
        let process = self.process.lock().take();
        let process = process.with_context(|| format!("{} is not running", self.name))?;
        process.signal(rustix::process::Signal::KILL)?;
        eventually(&format!("the end of {}", self.name), GENEROUS, || async { process.try_wait()?.context("it still runs") }).await?;
        Ok(())
    }

    /// SIGSTOP: connections stay open and nothing answers.
    pub(super) fn freeze(&self) -> Result<()> {
        self.process.lock().as_ref().with_context(|| format!("{} is not running", self.name))?.freeze()
    }

    /// SIGCONT.
    pub(super) fn thaw(&self) -> Result<()> {
        self.process.lock().as_ref().with_context(|| format!("{} is not running", self.name))?.thaw()
    }

    /// The process id while it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.process.lock().as_ref().map(Guarded::id)
    }

    /// What it has logged since it was started last.
    pub(super) fn log(&self) -> Vec<String> {
        self.process.lock().as_ref().map(|process| process.output.lines()).unwrap_or_default()
    }

    /// Ends the process at the end of a test process, which no handle does for what lives in a static. The log is kept if a test failed.
    pub(super) fn end(&self) {
        let Some(process) = self.process.lock().take() else { return };
        if scratch::a_thread_panicked() {
            scratch::keep_log(process.name(), &process.output.lines());
        }
    }

    fn check_alive(&self) -> Result<()> {
        let ended = match self.process.lock().as_ref() {
            Some(process) => process.try_wait()?,
            None => bail!("{} is not running", self.name),
        };
        match ended {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status} before it was ready; its last lines:\n{}", self.name, self.last_lines()),
        }
    }

    fn last_lines(&self) -> String {
        let lines = self.log();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}
