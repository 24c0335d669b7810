//! Child processes that a test can watch, freeze and kill, and that never outlive it.
//!
//! A [`Guarded`] child leads its own process group; dropping the handle kills the group by its id, also while a panic unwinds, and the kernel
//! does so when the test process itself is killed. Standard output and standard error are read at once by threads of ours, so a child never
//! blocks on a full pipe, and every line is an event that [`Output::wait_for`] can wait for.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{eventually, scratch, spawner};

/// The lines that a child has written so far, of one stream or both.
#[derive(Clone, Default)]
pub struct Output {
    shared: Arc<(Mutex<Lines>, Condvar)>,
}

#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    open_streams: usize,
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.shared.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn opened(&self) {
        self.lock().open_streams += 1;
    }

    fn add(&self, line: &str) {
        self.lock().lines.push(line.to_owned());
        self.shared.1.notify_all();
    }

    fn closed(&self) {
        self.lock().open_streams -= 1;
        self.shared.1.notify_all();
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    /// How many lines there are; a place from which [`Output::wait_for_after`] looks on.
    pub fn mark(&self) -> usize {
        self.lock().lines.len()
    }

    /// The first line, written already or yet to come, for which `matches` holds.
    pub fn wait_for(&self, what: &str, deadline: Duration, matches: impl Fn(&str) -> bool) -> Result<String> {
        self.wait_for_after(0, what, deadline, matches)
    }

    /// The same from line number `mark` on. Fails early when the child has closed its streams.
    pub fn wait_for_after(&self, mark: usize, what: &str, deadline: Duration, matches: impl Fn(&str) -> bool) -> Result<String> {
        let end = Instant::now() + deadline;
        let mut next = mark;
        let mut state = self.lock();
        loop {
            if let Some(found) = state.lines.iter().skip(next).find(|line| matches(line)) {
                return Ok(found.clone());
            }
            next = state.lines.len().max(mark);
            let left = end.saturating_duration_since(Instant::now());
            if state.open_streams == 0 {
                bail!("the process ended before it printed {what}; its last lines:\n{}", tail(&state.lines));
            }
            if left.is_zero() {
                bail!("waited {deadline:?} in vain for {what}; the last lines:\n{}", tail(&state.lines));
            }
            state = self.shared.1.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// Waits until the child has closed all streams, so that [`Output::lines`] is complete.
    pub fn wait_for_end(&self, deadline: Duration) -> Result<Vec<String>> {
        let (state, timeout) = self
            .shared
            .1
            .wait_timeout_while(self.lock(), deadline, |state| state.open_streams > 0)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if timeout.timed_out() {
            bail!("waited {deadline:?} in vain for the end of the output");
        }
        Ok(state.lines.clone())
    }
}

/// Reads a stream line by line, to its end, in a thread of its own.
fn follow(stream: impl Read + Send + 'static, outputs: [Output; 2]) {
    outputs.iter().for_each(Output::opened);
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(read) if read > 0) {
            let text = String::from_utf8_lossy(&bytes);
            let line = text.trim_end_matches(['\n', '\r']);
            outputs.iter().for_each(|output| output.add(line));
            bytes.clear();
        }
        outputs.iter().for_each(Output::closed);
    });
}

fn tail(lines: &[String]) -> String {
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// How a child ended and all that it printed.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A child process that ends with its handle.
pub struct Guarded {
    name: String,
    pid: Pid,
    child: Mutex<std::process::Child>,
    stdin: Option<ChildStdin>,
    /// Both streams, in the order of arrival.
    pub output: Output,
    pub stdout: Output,
    pub stderr: Output,
}

impl Guarded {
    /// Starts the command with its three streams connected to the handle. `name` is used in messages and log files.
    pub fn spawn(name: &str, command: Command) -> Result<Guarded> {
        let description = format!("{command:?}");
        let mut child = spawner::spawn(command).with_context(|| format!("starting {name}: {description}"))?;
        let (stdout, stderr, output) = (Output::default(), Output::default(), Output::default());
        let pipes = (child.stdout.take().expect("stdout is piped"), child.stderr.take().expect("stderr is piped"));
        follow(pipes.0, [stdout.clone(), output.clone()]);
        follow(pipes.1, [stderr.clone(), output.clone()]);
        Ok(Guarded {
            name: name.to_owned(),
            pid: Pid::from_child(&child),
            stdin: child.stdin.take(),
            child: Mutex::new(child),
            output,
            stdout,
            stderr,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get() as u32
    }

    /// Writes one line to the child's standard input.
    pub fn write_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("standard input was closed already")?;
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).with_context(|| format!("writing to {}", self.name))
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid, signal).with_context(|| format!("sending {signal:?} to {} (pid {})", self.name, self.id()))
    }

    /// SIGTERM.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGINT, as Ctrl-C sends it.
    pub fn interrupt(&self) -> Result<()> {
        self.signal(Signal::INT)
    }

    /// SIGKILL to the child alone (its own children are left to themselves), and waits for its end.
    pub fn kill_hard(&self) -> Result<ExitStatus> {
        self.signal(Signal::KILL)?;
        self.wait(crate::wait::GENEROUS)
    }

    /// SIGSTOP, and waits until the kernel reports the process as stopped.
    pub fn freeze(&self) -> Result<()> {
        freeze(self.id())
    }

    /// SIGCONT.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// How the child ended, if it has.
    pub fn try_wait(&self) -> Result<Option<ExitStatus>> {
        let mut child = self.child.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        child.try_wait().with_context(|| format!("asking for the end of {}", self.name))
    }

    /// Waits for the end of the child.
    pub fn wait(&self, deadline: Duration) -> Result<ExitStatus> {
        let ended = eventually(&format!("the end of {} (pid {})", self.name, self.id()), deadline, || self.try_wait().transpose());
        ended.with_context(|| format!("its last lines:\n{}", tail(&self.output.lines())))?
    }

    /// Closes standard input, waits for the end and for all output.
    pub fn finish(mut self, deadline: Duration) -> Result<Finished> {
        self.close_stdin();
        let status = self.wait(deadline)?;
        let text = |output: &Output| output.wait_for_end(deadline).map(|lines| lines.iter().map(|line| format!("{line}\n")).collect());
        Ok(Finished { status, stdout: text(&self.stdout)?, stderr: text(&self.stderr)? })
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // The group may be gone already, and a drop has nobody to tell.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = self.child.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).wait();
        if thread::panicking() {
            scratch::keep_log(&self.name, &self.output.lines());
        }
    }
}

/// SIGSTOP to any process of the same user, and waits until the kernel reports it as stopped.
pub fn freeze(pid: u32) -> Result<()> {
    let raw = Pid::from_raw(pid as i32).context("process id 0")?;
    kill_process(raw, Signal::STOP).with_context(|| format!("freezing process {pid}"))?;
    eventually(&format!("process {pid} to stop"), crate::wait::GENEROUS, || match state_of(pid) {
        Some('T' | 'Z') | None => Some(()),
        Some(_) => None,
    })
}

/// The kernel's one-letter state of a process: `R`, `S`, `D`, `T`, `Z`; `None` when there is no such process.
pub fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may itself contain some.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Whether a process with this id lives (a zombie does not).
pub fn is_alive(pid: u32) -> bool {
    !matches!(state_of(pid), None | Some('Z'))
}

/// Resident memory of a process in bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Ends a process that is not our child (a task whose runner was killed), by its id.
pub fn kill_by_id(pid: u32) -> Result<()> {
    let raw = Pid::from_raw(pid as i32).context("process id 0")?;
    match kill_process(raw, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("killing process {pid}")),
    }
}

/// The same for the process group that a [`Guarded`] child leads.
pub(crate) fn kill_group_by_id(pid: u32) -> Result<()> {
    let raw = Pid::from_raw(pid as i32).context("process id 0")?;
    kill_process_group(raw, Signal::KILL).with_context(|| format!("killing process group {pid}"))
}

/// Runs a command to its end and returns what it printed.
pub fn run(name: &str, command: Command, deadline: Duration) -> Result<Finished> {
    Guarded::spawn(name, command)?.finish(deadline)
}
