//! The semantic check of a manifest: `weir check --output json -` as a child process.
//!
//! SQL and option values are compiled by the engine's own code, which the
//! operator does not link, and whose memory and time a manifest can drive up.
//! So a bounded number runs at once, cheap ones first, each within limits and
//! killed with its group on timeout and with this process by the kernel. It reads
//! the manifest from its standard input, so nothing is left on a disk. Only the program's own verdict
//! (exit 20 with its findings) rejects a manifest; whatever else happens says
//! nothing about it and is [`Verdict::Unavailable`].
//!
//! The memory limit is `RLIMIT_DATA`, private writable memory. `RLIMIT_AS` also
//! counts address space that allocators reserve and never touch, so it is four
//! times as much; it holds where a sandbox's kernel does not know the former.

mod child;
mod findings;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use weir_supervisor::conditions::Reason;
use weir_supervisor::text::{MESSAGE_BYTES, cut};

use child::Ended;

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
        Self { timeout: Duration::from_secs(30), memory: 1 << 30, output: 1 << 20 }
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
}

/// Runs checks, a bounded number at once.
pub struct Checker {
    program: PathBuf,
    limits: Limits,
    turns: Turns<()>,
}

impl Checker {
    /// With the program `weir`; that many checks at once, at least one.
    pub fn new(program: PathBuf, limits: Limits, at_once: usize) -> Self {
        Self { program, limits, turns: Turns::new(at_once) }
    }

    /// Checks a StreamingJob document. Dropping the future kills the check.
    pub async fn check(&self, document: &Value) -> Verdict {
        let text = document.to_string();
        let _turn = self.turns.take((), cost(&text)).await;
        match child::run(&self.program, &text, &self.limits).await {
            Ok(ended) => self.judged(ended),
            Err(error) => unavailable(format!("{} could not be started: {error}", self.program.display())),
        }
    }

    fn judged(&self, ended: Ended) -> Verdict {
        let program = self.program.display();
        let Limits { timeout, memory, output } = self.limits;
        match ended {
            Ended::TimedOut => unavailable(format!("the check did not end within {timeout:?} and was killed")),
            Ended::TooMuchOutput => unavailable(format!("the check printed more than {output} bytes and was killed")),
            Ended::Signal { signal, stderr } => {
                let said = said(&stderr);
                unavailable(format!("{program} check was ended by signal {signal} (its memory is limited to {} MiB){said}", memory >> 20))
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

/// The last line of what the program complained about.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map_or_else(String::new, |line| format!(": {line}"))
}
