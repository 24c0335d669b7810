//! One running task: a child process and what it has said so far.
//!
//! The child runs `weir task` in a process group of its own, so that a Ctrl-C
//! on the terminal reaches the runner alone, and the kernel kills it when the
//! runner dies. Its stdout carries events (RFC 7464 records) among console
//! output; its stderr is passed on and its tail kept for status.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::sync::{Notify, mpsc};
use weir_core::{Error, Result};

use crate::commands::task::{RECORD_SEPARATOR, TOKEN_VARIABLE};
use crate::output;

/// Bytes of log kept for `lastExit.logTail`.
const TAIL_BYTES: usize = 2048;

/// What a child says.
#[derive(Clone, Debug)]
pub enum Saying {
    /// An event of a query.
    Event {
        /// The task.
        task: String,
        /// The event.
        event: Value,
    },
    /// A line of console output.
    Output {
        /// The line.
        line: String,
    },
}

/// What is needed to start a child.
#[derive(Clone, Debug)]
pub struct ChildSpec {
    /// The program: `weir` itself.
    pub program: PathBuf,
    /// Its arguments after `task`.
    pub arguments: Vec<String>,
    /// The task.
    pub task: String,
    /// Its epoch.
    pub epoch: u64,
    /// Token of `PUT /v1/config`.
    pub token: String,
    /// Where it leaves its report.
    pub report: PathBuf,
}

/// What is known of a child, shared with the tasks that read its pipes.
#[derive(Debug, Default)]
struct Heard {
    address: Option<SocketAddr>,
    tail: VecDeque<u8>,
    exit: Option<(ExitStatus, DateTime<Utc>)>,
}

/// A started child.
#[derive(Debug)]
pub struct Child {
    /// What it was started with.
    pub spec: ChildSpec,
    /// When.
    pub created_at: DateTime<Utc>,
    /// Its process id.
    pub pid: i32,
    heard: Arc<Mutex<Heard>>,
}

impl Child {
    /// Starts a child; `changed` is notified when something about it changes.
    pub fn start(spec: ChildSpec, now: DateTime<Utc>, sayings: mpsc::UnboundedSender<Saying>, changed: Arc<Notify>) -> Result<Self> {
        let mut child = Command::new(&spec.program)
            .arg("task")
            .args(&spec.arguments)
            .env(TOKEN_VARIABLE, &spec.token)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| Error::retryable("TASK_NOT_STARTED", format!("could not start the task {}", spec.task)).with_source(e))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let out = child
            .stdout
            .take()
            .map(|pipe| tokio::spawn(read_out(pipe, spec.task.clone(), Arc::clone(&heard), sayings, Arc::clone(&changed))));
        let err = child.stderr.take().map(|pipe| tokio::spawn(read_err(pipe, spec.task.clone(), Arc::clone(&heard))));
        let end = Arc::clone(&heard);
        tokio::spawn(async move {
            let status = child.wait().await;
            // The pipes first: the last lines belong to the end.
            for reader in [out, err].into_iter().flatten() {
                let _ = reader.await;
            }
            end.lock().exit = Some((status.unwrap_or_else(|_| ExitStatus::from_raw(0)), Utc::now()));
            changed.notify_one();
        });
        Ok(Self { spec, created_at: now, pid, heard })
    }

    /// Where its HTTP interface listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.heard.lock().address
    }

    /// Exit code (128 + signal for signals) and time, once it has ended.
    pub fn exit(&self) -> Option<(Option<i32>, DateTime<Utc>)> {
        let exit = self.heard.lock().exit;
        exit.map(|(status, at)| (status.code().or_else(|| status.signal().map(|signal| 128 + signal)), at))
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let tail = self.heard.lock().tail.iter().copied().collect::<Vec<u8>>();
        String::from_utf8_lossy(&tail).into_owned()
    }

    /// Sends a signal; a child that is gone needs none.
    pub fn signal(&self, signal: Signal) {
        if self.exit().is_none()
            && let Some(pid) = Pid::from_raw(self.pid)
            && let Err(error) = kill_process(pid, signal)
        {
            tracing::debug!(pid = self.pid, %error, "could not signal the task");
        }
    }
}

/// The lines of a pipe. Libraries write what they like: bytes that are no UTF-8
/// are replaced, for a pipe that nobody reads would end the child.
struct Lines<P> {
    pipe: BufReader<P>,
    bytes: Vec<u8>,
}

impl<P: AsyncRead + Unpin> Lines<P> {
    fn new(pipe: P) -> Self {
        Self { pipe: BufReader::new(pipe), bytes: Vec::new() }
    }

    async fn next(&mut self) -> Option<String> {
        self.bytes.clear();
        let read = self.pipe.read_until(b'\n', &mut self.bytes).await.ok()?;
        let line = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        (read > 0).then(|| String::from_utf8_lossy(line).into_owned())
    }
}

async fn read_out(
    pipe: impl AsyncRead + Unpin,
    task: String,
    heard: Arc<Mutex<Heard>>,
    sayings: mpsc::UnboundedSender<Saying>,
    changed: Arc<Notify>,
) {
    let mut lines = Lines::new(pipe);
    while let Some(line) = lines.next().await {
        let saying = match line.strip_prefix(RECORD_SEPARATOR).map(serde_json::from_str::<Value>) {
            Some(Ok(event)) if event["event"] == "listening" => {
                heard.lock().address = event["address"].as_str().and_then(|text| text.parse().ok());
                changed.notify_one();
                continue;
            }
            Some(Ok(event)) => {
                changed.notify_one();
                Saying::Event { task: task.clone(), event }
            }
            Some(Err(_)) | None => Saying::Output { line },
        };
        // The runner that does not listen any more is about to end.
        let _ = sayings.send(saying);
    }
}

async fn read_err(pipe: impl AsyncRead + Unpin, task: String, heard: Arc<Mutex<Heard>>) {
    let mut lines = Lines::new(pipe);
    while let Some(line) = lines.next().await {
        output::say(&format!("{task}: {line}"));
        let mut heard = heard.lock();
        heard.tail.extend(line.as_bytes());
        heard.tail.push_back(b'\n');
        while heard.tail.len() > TAIL_BYTES {
            heard.tail.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn lines_go_on_after_bytes_that_are_no_text() {
        let mut lines = Lines::new(&b"a\n\xff\n\nend"[..]);
        assert_eq!(lines.next().await.unwrap(), "a");
        assert_eq!(lines.next().await.unwrap(), "\u{fffd}");
        assert_eq!(lines.next().await.unwrap(), "");
        assert_eq!(lines.next().await.unwrap(), "end");
        assert!(lines.next().await.is_none());
    }
}
