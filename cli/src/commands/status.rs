//! `weir status`: the jobs of this machine, or of a cluster, in one table.
//!
//! Locally it reads the status that runners keep in their state directories;
//! with `--context` it reads StreamingJobs through kubectl's JSON. Both have
//! the same `.status`, so one renderer serves both, in the columns of
//! `kubectl get sjob`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde_json::Value;
use weir_core::{Error, Result};

use crate::arguments::{StatusArguments, StatusOutput};
use crate::outcome::{Code, Ended};
use crate::output;

/// A column: heading, and a JSON pointer or condition field.
const COLUMNS: &[(&str, Cell)] = &[
    ("NAME", Cell::Pointer("/metadata/name")),
    ("READY", Cell::ReadyField("status")),
    ("STATUS", Cell::ReadyField("reason")),
    ("RUN", Cell::Pointer("/status/run/number")),
    ("TASKS", Cell::Pointer("/status/summary/tasksReady")),
    ("FAILURES", Cell::Pointer("/status/consecutiveFailures")),
    ("NEXT-RESTART", Cell::Pointer("/status/nextRestartTime")),
    ("LAST-COMMIT", Cell::Pointer("/status/summary/lastCommitTime")),
];

const WIDE_COLUMNS: &[(&str, Cell)] =
    &[("LAG", Cell::Pointer("/status/summary/lag")), ("EPOCH", Cell::Pointer("/status/epoch")), ("MESSAGE", Cell::ReadyField("message"))];

/// Columns of a query under `--watch`.
const QUERY_COLUMNS: &[(&str, &str)] = &[
    ("QUERY", "/name"),
    ("BATCH", "/batchId"),
    ("IN/S", "/inputRowsPerSecond"),
    ("PROCESSED/S", "/processedRowsPerSecond"),
    ("BACKLOG", "/backlog/records"),
    ("MESSAGE", "/message"),
];

#[derive(Clone, Copy, Debug)]
enum Cell {
    Pointer(&'static str),
    ReadyField(&'static str),
}

/// Runs the command.
pub fn run(arguments: &StatusArguments) -> Ended {
    loop {
        let jobs = match &arguments.context {
            Some(context) => from_cluster(context, arguments.job.as_deref())?,
            None => from_disk(&arguments.state_dir, arguments.job.as_deref())?,
        };
        if let (Some(name), true) = (&arguments.job, jobs.is_empty()) {
            return Err(Error::config(
                "JOB_NOT_FOUND",
                format!(
                    "there is no job {name} in {}; start it with 'weir run', or name another --state-dir",
                    arguments.state_dir.display()
                ),
            ));
        }
        let text = render(arguments, &jobs)?;
        if !arguments.watch {
            output::print(&text)?;
            return Ok(Code::DONE);
        }
        // Clear the screen and go home, as `watch` does.
        output::print(&format!("\u{1b}[2J\u{1b}[H{text}"))?;
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn render(arguments: &StatusArguments, jobs: &[Value]) -> Result<String> {
    let failed = |e: String| Error::retryable("NOT_PRINTED", format!("could not print the status: {e}"));
    match arguments.output {
        StatusOutput::Yaml | StatusOutput::Json => {
            let statuses: Vec<&Value> = jobs.iter().map(|job| &job["status"]).collect();
            let shown = match (&arguments.job, &statuses[..]) {
                (Some(_), [one]) => (*one).clone(),
                _ => Value::Array(jobs.to_vec()),
            };
            match arguments.output {
                StatusOutput::Json => serde_json::to_string_pretty(&shown).map(|text| text + "\n").map_err(|e| failed(e.to_string())),
                _ => serde_yaml_ng::to_string(&shown).map_err(|e| failed(e.to_string())),
            }
        }
        StatusOutput::Table | StatusOutput::Wide => {
            let mut columns = COLUMNS.to_vec();
            if arguments.output == StatusOutput::Wide {
                columns.extend(WIDE_COLUMNS);
            }
            let heading = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
            let rows = jobs.iter().map(|job| columns.iter().map(|(_, at)| cell(job, *at)).collect());
            let mut text = table(std::iter::once(heading).chain(rows).collect());
            if arguments.watch {
                text.push('\n');
                text.push_str(&queries(jobs));
            }
            Ok(text)
        }
    }
}

fn queries(jobs: &[Value]) -> String {
    let heading = std::iter::once("TASK".to_owned()).chain(QUERY_COLUMNS.iter().map(|(name, _)| (*name).to_owned())).collect();
    let mut rows: Vec<Vec<String>> = vec![heading];
    for job in jobs {
        for task in job["status"]["tasks"].as_array().into_iter().flatten() {
            let label = format!("{}/{}", plain(&job["metadata"]["name"]), plain(&task["name"]));
            for query in task["queries"].as_array().into_iter().flatten() {
                let cells = QUERY_COLUMNS.iter().map(|(_, at)| query.pointer(at).map(plain).unwrap_or_default());
                rows.push(std::iter::once(label.clone()).chain(cells).collect());
            }
        }
    }
    table(rows)
}

fn cell(job: &Value, cell: Cell) -> String {
    match cell {
        Cell::Pointer(at) => job.pointer(at).map(plain).unwrap_or_default(),
        Cell::ReadyField(field) => {
            let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
            let ready = conditions.filter(|condition| condition["type"] == "Ready").map(|condition| plain(&condition[field]));
            ready.last().unwrap_or_default()
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Left-aligned columns, three spaces apart, as kubectl prints them.
fn table(rows: Vec<Vec<String>>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let line: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(line.join("   ").trim_end());
        text.push('\n');
    }
    text
}

fn from_disk(root: &Path, job: Option<&str>) -> Result<Vec<Value>> {
    let mut jobs = Vec::new();
    for namespace in folders(root)? {
        for folder in folders(&namespace)? {
            let is_wanted = job.is_none_or(|job| folder.file_name().is_some_and(|name| name == job));
            let file = folder.join("status.json");
            if let (true, Ok(text)) = (is_wanted, std::fs::read_to_string(&file)) {
                let parsed = serde_json::from_str(&text);
                let mut job: Value = parsed.map_err(|e| {
                    Error::retryable("STATE_DAMAGED", format!("{} is not JSON; remove it, the runner writes it anew", file.display()))
                        .with_source(e)
                })?;
                if !is_running(&job["runner"]) {
                    without_runner(&mut job);
                }
                jobs.push(job);
            }
        }
    }
    Ok(jobs)
}

/// Whether the process that wrote a status is there.
fn is_running(runner: &Value) -> bool {
    let pid = runner.as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)))
}

/// Corrects the last status of a runner that has ended: what it says of the
/// present (a run that streams, a stop or start under way, the next restart) is
/// over. What it says of failures stays.
fn without_runner(job: &mut Value) {
    const MESSAGE: &str = "no runner is there; start the job with 'weir run'";
    let conditions = job["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        let (is_true, kind) = (condition["status"] == "True", plain(&condition["type"]));
        let is_passing = matches!(plain(&condition["reason"]).as_str(), "Stopping" | "RunStarting" | "BackingOff" | "BetweenRuns");
        if matches!(kind.as_str(), "Ready" | "Running" | "Reconciling" | "BackingOff") && (is_true || is_passing) {
            condition["status"] = "False".into();
            condition["reason"] = "NotRunning".into();
            condition["message"] = MESSAGE.into();
        }
    }
    if let Some(status) = job["status"].as_object_mut() {
        status.remove("nextRestartTime");
        status.insert("backingOff".to_owned(), false.into());
    }
}

fn folders(path: &Path) -> Result<Vec<std::path::PathBuf>> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::retryable("STATE_DIRECTORY", format!("could not read {}", path.display())).with_source(error)),
    };
    let mut found: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    found.sort();
    Ok(found)
}

fn from_cluster(context: &str, job: Option<&str>) -> Result<Vec<Value>> {
    let mut command = Command::new("kubectl");
    command.args(["--context", context, "get", "streamingjobs.weir.dev", "-o", "json"]);
    match job {
        Some(job) => command.arg(job),
        None => command.arg("--all-namespaces"),
    };
    let failed = |why: String| {
        Error::retryable(
            "KUBECTL_FAILED",
            format!("kubectl could not list StreamingJobs in the context {context}: {why}; try `kubectl --context {context} get sjob`"),
        )
    };
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let answer: Value = serde_json::from_slice(&output.stdout).map_err(|e| failed(e.to_string()))?;
    Ok(match answer.get("items").and_then(Value::as_array) {
        Some(items) => items.clone(),
        None => vec![answer],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_runner_that_has_ended_runs_nothing() {
        let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": ""});
        let mut job = json!({"status": {"nextRestartTime": "2026-01-01T00:00:00Z", "conditions": [
            condition("Ready", "True", "Streaming"), condition("Stalled", "True", "SpecInvalid"), condition("Running", "False", "NoRun")]}});
        assert!(is_running(&json!(std::process::id())));
        assert!(!is_running(&json!(i32::MAX)) && !is_running(&Value::Null));
        without_runner(&mut job);
        assert_eq!((cell(&job, Cell::ReadyField("status")), cell(&job, Cell::ReadyField("reason"))), ("False".into(), "NotRunning".into()));
        assert_eq!(job["status"]["conditions"][1]["status"], "True");
        assert_eq!(job["status"]["conditions"][2]["reason"], "NoRun");
        assert!(job["status"].get("nextRestartTime").is_none());
    }

    #[test]
    fn columns_come_from_the_status() {
        let job = json!({"metadata": {"name": "j"}, "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Streaming", "message": "all is well"}],
            "run": {"number": 3}, "summary": {"tasksReady": "2/2", "lag": 7}, "consecutiveFailures": 0, "epoch": 9}});
        let cells: Vec<String> = COLUMNS.iter().chain(WIDE_COLUMNS).map(|(_, at)| cell(&job, *at)).collect();
        assert_eq!(cells, ["j", "True", "Streaming", "3", "2/2", "0", "", "", "7", "9", "all is well"]);
        assert_eq!(table(vec![vec!["A".into(), "B".into()], vec!["long".into(), "x".into()]]), "A      B\nlong   x\n");
    }
}
