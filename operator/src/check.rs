//! The semantic check of a manifest: `weir check --sealed` as a child process.
//!
//! SQL and option values are compiled by the engine's own code, which the
//! operator does not link, and whose memory and time a manifest can drive up.
//! So a bounded number runs at once, cheap ones first, each within limits and
//! killed with its group on timeout, and by the kernel when this process ends. It
//! reads the manifest from its standard input, so nothing is left on a disk. Only
//! the program's own verdict (exit 20 with its findings) rejects a manifest;
//! whatever else happens says nothing about it. Those that are known to use up
//! their limits have one place of their own, beside all others.
//!
//! The memory limit is `RLIMIT_DATA`, private writable memory. `RLIMIT_AS` also
//! counts address space that allocators reserve and never touch, so it is four
//! times as much; it holds where a sandbox's kernel does not know the former.

mod child;
mod findings;
#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;
use std::time::Duration;

use weir_supervisor::conditions::Reason;
use weir_supervisor::text::{MESSAGE_BYTES, cut};

use child::Ended;

use crate::budget;
use crate::turns::Turns;

/// Limits of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Then it is killed.
    pub timeout: Duration,
    /// Private writable memory in bytes.
    pub memory: u64,
    /// What it may print, in bytes.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), memory: budget::CHECK, output: 1 << 20 }
    }
}

/// What the check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The manifest may run.
    Accepted {
        /// One sentence each.
        warnings: Vec<String>,
    },
    /// It may not.
    Rejected {
        /// Reason of the `Accepted` condition.
        reason: Reason,
        /// What is wrong, at most 1 KiB.
        message: String,
    },
    /// Nobody knows: ask again later.
    Unavailable {
        /// What went wrong with the check itself.
        message: String,
    },
    /// Nobody knows, because a limit was used up, as it will be next time: ask again much later.
    Exceeded {
        /// Which limit.
        message: String,
    },
}

/// Where a check waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// With all others.
    Common,
    /// With those that used up a limit before.
    Costly,
}

/// Runs checks, a bounded number at once.
pub struct Checker {
    program: PathBuf,
    limits: Limits,
    common: Turns<()>,
    costly: Turns<()>,
}

impl Checker {
    /// With the program `weir`; that many checks at once, at least one, and one more in the lane of the costly.
    pub fn new(program: PathBuf, limits: Limits, at_once: usize) -> Self {
        Self { program, limits, common: Turns::new(at_once), costly: Turns::new(budget::COSTLY_CHECKS.into()) }
    }

    /// Checks a StreamingJob document. Dropping the future kills the check.
    pub async fn check(&self, document: &str, lane: Lane) -> Verdict {
        let turns = match lane {
            Lane::Common => &self.common,
            Lane::Costly => &self.costly,
        };
        let _turn = turns.take((), cost(document)).await;
        match child::run(&self.program, document, &self.limits).await {
            Ok(ended) => self.judged(ended),
            Err(error) => unavailable(format!("{} could not be started: {error}", self.program.display())),
        }
    }

    fn judged(&self, ended: Ended) -> Verdict {
        let program = self.program.display();
        let Limits { timeout, memory, output } = self.limits;
        match ended {
            Ended::TimedOut => exceeded(format!("the check did not end within {timeout:?} and was killed")),
            Ended::TooMuchOutput => exceeded(format!("the check printed more than {output} bytes and was killed")),
            Ended::Signal { signal, stderr } => {
                let said = said(&stderr);
                exceeded(format!("{program} check was ended by signal {signal} (its memory is limited to {} MiB){said}", memory >> 20))
            }
            Ended::Exited { code, stdout, stderr } => match findings::verdict(code, &stdout) {
                Some(verdict) => verdict,
                None => unavailable(format!("{program} check ended with code {code} and no findings{}", said(&stderr))),
            },
        }
    }
}

/// What a check costs, in later checks that may go before it: half a kibibyte is about one query.
fn cost(document: &str) -> u64 {
    u64::try_from(document.len() / 512).unwrap_or(u64::MAX)
}

fn unavailable(message: String) -> Verdict {
    Verdict::Unavailable { message: cut(&message, MESSAGE_BYTES) }
}

/// There is room left for what is to be done about it.
fn exceeded(message: String) -> Verdict {
    Verdict::Exceeded { message: cut(&message, MESSAGE_BYTES / 2) }
}

/// The last line of what the program complained about.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map_or_else(String::new, |line| format!(": {line}"))
}
