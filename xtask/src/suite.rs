//! Runs the test binaries that cargo built, several at a time.
//!
//! `cargo test` runs one binary after the other, and most of ours wait for a broker, a Spark or an API server half of their time. A binary still
//! shares what it starts among its own tests, which a process per test could not. The output of each is printed whole when it ends, so nothing
//! is mixed; with `--nocapture` someone is watching, and they run one by one on the terminal. At the end a table says what each of the longer
//! ones took, of the clock and of the processors: a suite that keeps all processors busy is made faster by less work alone.
//! Input is what `cargo test --no-run --message-format=json-render-diagnostics` prints. Summing up is `scripts/sum-tests.sh`'s business.

use std::collections::VecDeque;
use std::env;
use std::io::{Seek, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::Value;

/// The harness's own variable.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// What takes long and keeps the processors busy begins first, so that the last binary to end is a short one, or one that waits a lot beside
/// others: package folder and target.
const LONGEST_FIRST: [(&str, &str); 8] = [
    ("operator", "behaviour"),
    ("cli", "behaviour"),
    ("connect", "delta"),
    ("connect", "kafka_golden"),
    ("kit", "judge"),
    ("kit", "kafka"),
    ("cluster", "control_plane"),
    ("supervisor", "protocol_model"),
];

/// Their tests wait for processes most of the time, so more of them run at once than there are cores.
const WAITING: &str = "behaviour";

/// The unit of times in `/proc`, on every Linux of today.
const TICKS_A_SECOND: u32 = 100;

/// What takes less of the processors is not in the table.
const WORTH_TELLING: Duration = Duration::from_secs(1);

/// A test binary and the folder of its package, where cargo would start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    pub package: PathBuf,
    pub target: String,
    pub executable: PathBuf,
}

impl Binary {
    fn title(&self) -> String {
        format!("{} {}", self.package.file_name().unwrap_or_default().to_string_lossy(), self.target)
    }

    fn rank(&self) -> usize {
        let is = |(package, target): &(&str, &str)| self.package.ends_with(package) && self.target == *target;
        LONGEST_FIRST.iter().position(is).unwrap_or(LONGEST_FIRST.len())
    }

    fn command(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.executable);
        if self.target == WAITING && env::var_os(TEST_THREADS).is_none() {
            command.env(TEST_THREADS, (2 * cores()).to_string());
        }
        command.args(arguments).current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package).stdin(Stdio::null());
        command
    }
}

/// How many processors this process may use.
fn cores() -> usize {
    thread::available_parallelism().map_or(2, NonZero::get)
}

/// How many binaries run at once: one more than there are cores, since they wait now and then, and no more than four, since each starts services.
#[must_use]
pub fn at_once() -> usize {
    (cores() + 1).min(4)
}

/// The test binaries that cargo's messages name, in the order in which they should begin.
///
/// # Errors
/// When a line that is a JSON object is not one of cargo's.
pub fn binaries(messages: &str) -> Result<Vec<Binary>> {
    let mut found = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).with_context(|| format!("no message of cargo: {line}"))?;
        let executable = message["executable"].as_str().filter(|_| message["profile"]["test"] == true);
        let (Some(executable), Some(manifest), Some(target)) =
            (executable, message["manifest_path"].as_str(), message["target"]["name"].as_str())
        else {
            continue;
        };
        let package = Path::new(manifest).parent().context("a manifest lies in a folder")?.to_owned();
        found.push(Binary { package, target: target.to_owned(), executable: executable.into() });
    }
    found.sort_by_key(Binary::rank);
    Ok(found)
}

/// Runs all binaries, `at_once` at a time, with the arguments; true when each of them succeeded.
///
/// # Errors
/// When one cannot be started or its output not be read.
pub fn run(binaries: Vec<Binary>, at_once: usize, arguments: &[String]) -> Result<bool> {
    if arguments.iter().any(|argument| argument == "--nocapture") {
        return binaries.iter().try_fold(true, |good, binary| Ok(watched(binary, arguments)?.success() && good));
    }
    let waiting = Mutex::new(VecDeque::from(binaries));
    let next = || waiting.lock().map(|mut queue| queue.pop_front()).unwrap_or_default();
    let work = || -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        while let Some(binary) = next() {
            runs.push(captured(&binary, arguments)?);
        }
        Ok(runs)
    };
    let runs = thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_fold(Vec::new(), |runs, worker| {
            let more = worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a worker panicked")));
            Ok::<_, anyhow::Error>([runs, more?].concat())
        })
    })?;
    print!("{}", table(&runs));
    Ok(runs.iter().all(|run| run.is_good))
}

/// How a binary went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub title: String,
    pub is_good: bool,
    /// From its start to its end.
    pub clock: Duration,
    /// Of itself and of all children that it has waited for.
    pub processors: Duration,
}

/// The longer runs, those first that cost most.
#[must_use]
pub fn table(runs: &[Run]) -> String {
    let mut told: Vec<&Run> = runs.iter().filter(|run| run.processors >= WORTH_TELLING).collect();
    told.sort_by_key(|run| std::cmp::Reverse(run.processors));
    let line = |run: &&Run| format!("{:>7} s {:>7} s  {}\n", run.clock.as_secs(), run.processors.as_secs(), run.title);
    let lines: String = told.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\n    clock  processors\n{lines}\n") }
}

/// What an ended process and the children that it waited for took of the processors. It is not yet waited for: its record goes with that.
fn processors(child: &Child) -> Option<Duration> {
    let pid = Pid::from_child(child);
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()?;
    let record = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    ticks(&record).map(|ticks| Duration::from_secs(ticks) / TICKS_A_SECOND)
}

/// `utime`, `stime`, `cutime` and `cstime` of proc(5).
fn ticks(record: &str) -> Option<u64> {
    // The command's name stands in parentheses and may itself contain some.
    let fields = record.rsplit_once(')')?.1.split_whitespace();
    fields.skip(11).take(4).map(|field| field.parse::<u64>().ok()).sum()
}

fn watched(binary: &Binary, arguments: &[String]) -> Result<ExitStatus> {
    println!("     Running {}", binary.title());
    binary.command(arguments).status().with_context(|| format!("starting {}", binary.executable.display()))
}

/// Both streams go into one file, so that they keep their order. A file and not a pipe: a process that a test left behind would hold a pipe open.
fn captured(binary: &Binary, arguments: &[String]) -> Result<Run> {
    let mut output = tempfile::tempfile().context("making a file for a test's output")?;
    let mut command = binary.command(arguments);
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting {}", binary.executable.display()))?;
    let processors = processors(&child).unwrap_or_default();
    let status = child.wait().with_context(|| format!("waiting for {}", binary.executable.display()))?;
    let clock = begun.elapsed();
    output.rewind()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "     Running {}", binary.title())?;
    std::io::copy(&mut output, &mut out).with_context(|| format!("showing what {} printed", binary.title()))?;
    if !status.success() {
        writeln!(out, "error: {} ended with {status}", binary.title())?;
    }
    Ok(Run { title: binary.title(), is_good: status.success(), clock, processors })
}
