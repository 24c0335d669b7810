//! A child process within limits: group of its own, memory, time, processor time, output.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::Limits;

/// How much of the error output is kept.
const STDERR_BYTES: u64 = 16 * 1024;
/// Room for what allocators and stacks reserve and do not touch.
const ADDRESS_SPACE_PER_MEMORY: u64 = 4;
/// What finds programs and libraries.
const INHERITED: [&str; 3] = ["PATH", "LD_LIBRARY_PATH", "TMPDIR"];
/// Threads work side by side; a second of waiting is worth no more of theirs than this.
const PROCESSOR_TIME_PER_TIME: u64 = 4;

/// How the child ended.
pub(super) enum Ended {
    Exited { code: i32, stdout: Vec<u8>, stderr: Vec<u8> },
    Signal { signal: i32, stderr: Vec<u8> },
    TimedOut,
    TooMuchOutput,
}

/// Kills what is left of the child's process group.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        // An error means that nothing is left.
        let _ = self.0.map(|group| kill_process_group(group, Signal::KILL));
    }
}

/// Runs `PROGRAM check --sealed --die-with PID --output json -` on a document. Its writer may not see what the operator may, and the findings are shown to
/// them, so the child opens nothing that the document names and has none of the operator's variables.
pub(super) async fn run(program: &Path, document: &str, limits: &Limits) -> io::Result<Ended> {
    let mut child = start(program, limits)?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let mut group = Group(group);
    let Ok(ended) = timeout(limits.timeout, finished(&mut child, document, limits.output)).await else { return Ok(Ended::TimedOut) };
    if matches!(ended, Ok(Ended::Exited { .. } | Ended::Signal { .. })) {
        // It was waited for, so the number may be another's soon.
        group.0 = None;
    }
    ended
}

fn start(program: &Path, limits: &Limits) -> io::Result<Child> {
    let mut command = Command::new(program);
    // Also an operator that is killed leaves no check behind; the runtime's threads, which start them, last as long as it does.
    command.args(["check", "--sealed", "--die-with", &std::process::id().to_string(), "--output", "json", "-"]);
    command.env_clear().envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
    let mut child = command.spawn()?;
    if let Err(error) = limit(&child, limits) {
        child.start_kill()?;
        return Err(error);
    }
    Ok(child)
}

/// The child waits for its document meanwhile, so what it does with it is within the limits. They are not set between fork and exec: a fork
/// copies the page tables of an operator that holds thousands of jobs.
fn limit(child: &Child, limits: &Limits) -> io::Result<()> {
    let Some(pid) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) else { return Ok(()) };
    let at_most = |amount: u64| Rlimit { current: Some(amount), maximum: Some(amount) };
    prlimit(Some(pid), Resource::Data, at_most(limits.memory))?;
    prlimit(Some(pid), Resource::As, at_most(limits.memory.saturating_mul(ADDRESS_SPACE_PER_MEMORY)))?;
    prlimit(Some(pid), Resource::Cpu, at_most(limits.timeout.as_secs().saturating_add(1).saturating_mul(PROCESSOR_TIME_PER_TIME)))?;
    Ok(())
}

async fn finished(child: &mut Child, document: &str, output: u64) -> io::Result<Ended> {
    let stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    // All at once, and both outputs to the end, or the child would wait for room.
    let (stdout, stderr) = match tokio::try_join!(write(stdin, document), read(stdout, output), read_and_drain(stderr)) {
        Ok(((), stdout, stderr)) => (stdout, stderr),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Ok(Ended::TooMuchOutput),
        Err(error) => return Err(error),
    };
    let status = child.wait().await?;
    Ok(ended(status, stdout, stderr))
}

fn ended(status: ExitStatus, stdout: Vec<u8>, stderr: Vec<u8>) -> Ended {
    match status.code() {
        Some(code) => Ended::Exited { code, stdout, stderr },
        None => Ended::Signal { signal: status.signal().unwrap_or(0), stderr },
    }
}

/// Writes a document and ends the input. A child that does not read it has its reasons, which it tells by its end.
async fn write(mut pipe: impl AsyncWrite + Unpin, document: &str) -> io::Result<()> {
    match pipe.write_all(document.as_bytes()).await {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// All of it; FileTooLarge when it is more than `most` bytes.
async fn read(pipe: impl AsyncRead + Unpin, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(most + 1).read_to_end(&mut bytes).await?;
    let whole = u64::try_from(bytes.len()).is_ok_and(|length| length <= most);
    if whole { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

/// The beginning of it; the rest is read and thrown away.
async fn read_and_drain(mut pipe: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    (&mut pipe).take(STDERR_BYTES).read_to_end(&mut bytes).await?;
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    Ok(bytes)
}
