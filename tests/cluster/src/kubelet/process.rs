//! One container's real process: started, watched to its end, and probed.
//!
//! The end is an event of the kernel (a process descriptor), written into the
//! table at once. The process dies with its handle.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::os::unix::process::ExitStatusExt;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use weir_testkit::process::{Guarded, Output};

use super::table::{ProcessExit, ProcessRecord, Table};

/// Most bytes of a termination message that are kept, from the file's end.
pub const MESSAGE_BYTES: usize = 4096;
/// Most bytes and lines of the log that stand in for one.
const LOG_BYTES: usize = 2048;
const LOG_LINES: usize = 80;

/// A task that ends with its handle.
pub struct Owned(JoinHandle<()>);

impl Owned {
    pub fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How and when a process ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    pub exit: ProcessExit,
    pub at: Timestamp,
}

/// A process and what is known of it.
pub struct Running {
    process: Arc<Guarded>,
    pub started: Timestamp,
    ended: watch::Receiver<Option<Ended>>,
    pub ready: watch::Receiver<bool>,
    termination: PathBuf,
    _tasks: Vec<Owned>,
}

/// The variables that a container has of the test process.
const INHERITED: [&str; 4] = ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"];

/// What to start.
pub struct Start {
    pub binary: PathBuf,
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub folder: PathBuf,
    pub termination: PathBuf,
    pub record: ProcessRecord,
}

impl Running {
    /// Starts the process; `wake` is told of its end.
    pub fn start(start: Start, table: &Arc<Table>, ready: watch::Receiver<bool>, mut tasks: Vec<Owned>, wake: Arc<Notify>) -> Result<Self> {
        let mut command = Command::new(&start.binary);
        command.args(&start.arguments).current_dir(&start.folder);
        for (name, _) in std::env::vars_os().filter(|(name, _)| !INHERITED.iter().any(|kept| name == kept)) {
            command.env_remove(name);
        }
        command.envs(&start.environment);
        let name = start.record.pod.clone();
        let place = table.add(ProcessRecord { started_at: SystemTime::now(), ..start.record });
        let process = match Guarded::spawn(&name, command) {
            Ok(process) => Arc::new(process),
            Err(error) => {
                table.update(place, |record| record.ended_at = Some(record.started_at));
                return Err(error);
            }
        };
        table.update(place, |record| record.pid = process.id());
        let (sender, ended) = watch::channel(None);
        tasks.push(Owned::spawn(follow(Arc::clone(&process), Arc::clone(table), place, sender, wake)));
        Ok(Self { process, started: Timestamp::now(), ended, ready, termination: start.termination, _tasks: tasks })
    }

    pub fn ended(&self) -> Option<Ended> {
        *self.ended.borrow()
    }

    pub fn output(&self) -> Output {
        self.process.output.clone()
    }

    /// Sends a signal; a process that has ended needs none.
    pub fn signal(&self, signal: Signal) {
        if self.ended().is_none()
            && let Err(error) = self.process.signal(signal)
        {
            tracing::debug!(%error, "the process is gone");
        }
    }

    /// The termination message by the container's policy.
    pub fn message(&self, code: i32, falls_back_to_logs: bool) -> Option<String> {
        let message = read_end(&self.termination).unwrap_or_default();
        if message.is_empty() && falls_back_to_logs && code != 0 {
            return Some(log_tail(&self.process.output.lines())).filter(|tail| !tail.is_empty());
        }
        Some(message).filter(|message| !message.is_empty())
    }
}

async fn follow(process: Arc<Guarded>, table: Arc<Table>, place: usize, sender: watch::Sender<Option<Ended>>, wake: Arc<Notify>) {
    if let Err(error) = gone(process.id()).await {
        tracing::debug!(%error, "no descriptor of the process; its end is asked for");
    }
    let status = loop {
        match process.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => {
                tracing::error!(%error, "a process cannot be waited for");
                return;
            }
        }
    };
    let exit = ProcessExit { code: status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1), signal: status.signal() };
    table.update(place, |record| {
        record.ended_at = Some(SystemTime::now());
        record.exit = Some(exit);
    });
    let ended = Ended { exit, at: Timestamp::now() };
    let output = process.output.clone();
    // A grandchild may keep the log open; what is there by then is the log.
    let _ = tokio::task::spawn_blocking(move || output.wait_for_end(Duration::from_millis(500))).await;
    sender.send_replace(Some(ended));
    wake.notify_one();
}

async fn gone(pid: u32) -> Result<()> {
    let pid = Pid::from_raw(pid as i32).context("process id 0")?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    // SAFETY: the descriptor is owned, handed over whole, and stays open and the same until the registration is dropped with it.
    let descriptor = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?;
    let _ = descriptor.readable().await?;
    Ok(())
}

/// The end of a file, as a kubelet reads a termination message.
fn read_end(path: &Path) -> Result<String> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let skipped = length.saturating_sub(MESSAGE_BYTES as u64);
    file.seek(SeekFrom::Start(skipped))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(text_of_end(&bytes, MESSAGE_BYTES))
}

fn log_tail(lines: &[String]) -> String {
    let kept = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
    text_of_end(kept.as_bytes(), LOG_BYTES)
}

/// At most so many last bytes, from the start of a character on.
fn text_of_end(bytes: &[u8], most: usize) -> String {
    let mut kept = &bytes[bytes.len().saturating_sub(most)..];
    while kept.first().is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {
        kept = &kept[1..];
    }
    String::from_utf8_lossy(kept).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_end_of_a_long_message_is_kept() {
        let folder = weir_testkit::scratch::folder("message").unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "x".repeat(1 << 20) + "end").unwrap();
        let message = read_end(&path).unwrap();
        assert!(message.len() == MESSAGE_BYTES && message.ends_with("xend"));
        assert!(read_end(&folder.path().join("none")).is_err());
    }

    proptest! {
        #[test]
        fn cutting_keeps_whole_characters(text in "\\PC*", most in 0usize..40) {
            let kept = text_of_end(text.as_bytes(), most);
            prop_assert!(kept.len() <= most && text.ends_with(&kept));
            prop_assert!(most < text.len() || kept == text);
        }
    }
}
