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
use weir_supervisor::time::rfc3339;

use crate::arguments::{StatusArguments, StatusOutput};
use crate::local::state::{NOT_WRITTEN, STALE_STATUS, STATUS};
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
    ("BAD-RECORDS", "/badRecords"),
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
        if jobs.is_empty() && (arguments.job.is_some() || arguments.context.is_none()) {
            return Err(not_found(arguments));
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

fn not_found(arguments: &StatusArguments) -> Error {
    let what = arguments.job.as_ref().map_or_else(|| "no job is known".to_owned(), |job| format!("there is no job {job}"));
    let words = match &arguments.context {
        Some(context) => format!("{what} in the context {context}"),
        None => {
            let folder = std::path::absolute(&arguments.state_dir).unwrap_or_else(|_| arguments.state_dir.clone());
            format!(
                "{what} in {}; start one with 'weir run', go to the folder of its manifest, or give --state-dir with the folder that \
                 'weir run' made beside the manifest or was told",
                folder.display()
            )
        }
    };
    Error::config("JOB_NOT_FOUND", words)
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
                let cells = QUERY_COLUMNS.iter().map(|(name, at)| known(name, query.pointer(at).map(plain).unwrap_or_default()));
                rows.push(std::iter::once(label.clone()).chain(cells).collect());
            }
        }
    }
    table(rows)
}

/// A figure that is not known, or that a query has none of, is said to be so; a message that is not there is none.
fn known(column: &str, text: String) -> String {
    if text.is_empty() && column != "MESSAGE" { "-".to_owned() } else { text }
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

/// A text in one line.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Left-aligned columns, three spaces apart, as kubectl prints them; a row is a line, whatever its cells hold.
fn table(rows: Vec<Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
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
            if let Some(mut job) = is_wanted.then(|| last_status(&folder)).transpose()?.flatten() {
                if !is_running(&job["runner"]) {
                    without_runner(&mut job);
                } else if let Some(why) = job[NOT_WRITTEN].as_str().map(str::to_owned) {
                    not_written(&mut job, &why);
                }
                jobs.push(job);
            }
        }
    }
    Ok(jobs)
}

/// The newest status in a state directory, with the reason if it is not true any more.
fn last_status(folder: &Path) -> Result<Option<Value>> {
    let read = |name: &str| {
        let file = folder.join(name);
        let text = std::fs::read_to_string(&file).ok()?;
        Some(serde_json::from_str::<Value>(&text).map_err(|e| {
            Error::retryable("STATE_DAMAGED", format!("{} is not JSON; remove it, the runner writes it anew", file.display()))
                .with_source(e)
        }))
    };
    if let Some(status) = read(STATUS) {
        return status.map(Some);
    }
    let Some(mut status) = read(STALE_STATUS).transpose()? else { return Ok(None) };
    let modified = std::fs::metadata(folder.join(STALE_STATUS)).and_then(|metadata| metadata.modified());
    let at = modified.map_or_else(|_| "an earlier time".to_owned(), |at| rfc3339(at.into()));
    status[NOT_WRITTEN] = format!("the runner cannot write {}; what stands here was true at {at}", folder.join(STATUS).display()).into();
    Ok(Some(status))
}

/// Whether a job runs is not known while its runner cannot write its state.
fn not_written(job: &mut Value, why: &str) {
    let message = format!("{why}; a task that ends is not started again until it can, see the runner's log");
    for condition in job["status"]["conditions"].as_array_mut().into_iter().flatten().filter(|condition| condition["type"] == "Ready") {
        condition["status"] = "Unknown".into();
        condition["reason"] = "StateNotWritten".into();
        condition["message"] = message.clone().into();
    }
    if let Some(summary) = job["status"]["summary"].as_object_mut() {
        summary.remove("tasksReady");
    }
}

/// Whether the process that wrote a status is there.
fn is_running(runner: &Value) -> bool {
    let pid = runner.as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    pid.is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)))
}

/// Corrects the last status of a runner that has ended: what it says of the
/// present (a run that streams, a stop or start under way, the next restart) is
/// over, and how the last run ended takes its place. What it says of failures stays.
fn without_runner(job: &mut Value) {
    let (reason, message) = last_end(&job["status"]);
    let conditions = job["status"]["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        let (is_true, kind) = (condition["status"] == "True", plain(&condition["type"]));
        let is_passing = matches!(plain(&condition["reason"]).as_str(), "Stopping" | "RunStarting" | "BackingOff" | "BetweenRuns");
        if matches!(kind.as_str(), "Ready" | "Running" | "Reconciling" | "BackingOff") && (is_true || is_passing) {
            condition["status"] = "False".into();
            condition["reason"] = reason.into();
            condition["message"] = message.clone().into();
        }
    }
    if let Some(status) = job["status"].as_object_mut() {
        status.remove("nextRestartTime");
        if let Some(summary) = status.get_mut("summary").and_then(Value::as_object_mut) {
            summary.remove("tasksReady");
            summary.remove("message");
        }
        status.insert("backingOff".to_owned(), false.into());
    }
}

/// How the last run ended, in a word and a sentence.
fn last_end(status: &Value) -> (&'static str, String) {
    const REMEDY: &str = "no runner is there; start the job with 'weir run'";
    let last = &status["lastRun"];
    let (number, at) = (plain(&last["number"]), plain(&last["finishedAt"]));
    let cut_off = status["run"].is_object();
    let (word, how) = match last["result"].as_str() {
        _ if cut_off => return ("NotRunning", format!("run {} was cut off; {REMEDY}", plain(&status["run"]["number"]))),
        Some("Succeeded") => ("Completed", "completed"),
        Some("Failed" | "Fenced") => return ("Failed", format!("run {number} failed at {at}{}; {REMEDY}", cause(last))),
        Some("Stopped") => ("Stopped", "was stopped"),
        _ => return ("NotRunning", REMEDY.to_owned()),
    };
    (word, format!("run {number} {how} at {at}; {REMEDY}"))
}

/// Why a run failed: the task that decided it, and what that one said.
fn cause(last: &Value) -> String {
    let of = |field: &str| Some(plain(&last[field])).filter(|text| !text.is_empty());
    let task = of("task").map(|task| format!(": task {task}"));
    [task, of("reason"), of("message")].into_iter().flatten().collect::<Vec<_>>().join(": ")
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
    #![allow(clippy::unwrap_used)]
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
    fn a_status_that_could_not_be_replaced_says_so() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("default/j");
        std::fs::create_dir_all(&folder).unwrap();
        let ready = json!({"type": "Ready", "status": "True", "reason": "Streaming", "message": ""});
        let status = json!({"metadata": {"name": "j"}, "runner": std::process::id(), "status": {"conditions": [ready], "summary": {"tasksReady": "1/1"}}});
        let shown = || {
            let jobs = from_disk(root.path(), None).unwrap();
            [Cell::ReadyField("status"), Cell::ReadyField("reason"), Cell::ReadyField("message")].map(|at| cell(&jobs[0], at))
        };
        std::fs::write(folder.join(STALE_STATUS), status.to_string()).unwrap();
        let [ready, reason, message] = shown();
        assert_eq!((ready.as_str(), reason.as_str()), ("Unknown", "StateNotWritten"));
        assert!(message.contains("j/status.json; what stands here was true at 20") && message.contains("not started again"), "{message}");
        let mut told = status.clone();
        told[NOT_WRITTEN] = "could not write memory.json".into();
        std::fs::write(folder.join(STATUS), told.to_string()).unwrap();
        assert!(shown()[2].starts_with("could not write memory.json; a task that ends"));
        std::fs::write(folder.join(STATUS), status.to_string()).unwrap();
        assert_eq!(shown()[1], "Streaming");
    }

    #[test]
    fn a_runner_that_has_ended_leaves_how_its_run_ended() {
        let shown = |result: &str, run: Value| {
            let ready = json!({"type": "Ready", "status": "True", "reason": "WaitingForTrigger", "message": "run 3: Completed"});
            let mut last = json!({"number": 3, "result": result, "finishedAt": "2026-11-30T10:00:00Z"});
            if result == "Failed" {
                last["task"] = "t".into();
                last["reason"] = "Error".into();
                last["message"] = "[PATH_NOT_FOUND] there is no /x".into();
            }
            let mut job = json!({"status": {"conditions": [ready], "run": run, "lastRun": last, "summary": {"tasksReady": "0/1"}}});
            without_runner(&mut job);
            let cells = COLUMNS.iter().chain(WIDE_COLUMNS).map(|(_, at)| cell(&job, *at)).filter(|cell| !cell.is_empty());
            cells.collect::<Vec<_>>().join(" ")
        };
        let remedy = "no runner is there; start the job with 'weir run'";
        assert_eq!(shown("Succeeded", Value::Null), format!("False Completed run 3 completed at 2026-11-30T10:00:00Z; {remedy}"));
        assert_eq!(
            shown("Failed", Value::Null),
            format!("False Failed run 3 failed at 2026-11-30T10:00:00Z: task t: Error: [PATH_NOT_FOUND] there is no /x; {remedy}")
        );
        assert_eq!(shown("Stopped", Value::Null), format!("False Stopped run 3 was stopped at 2026-11-30T10:00:00Z; {remedy}"));
        assert_eq!(shown("Succeeded", json!({"number": 4})), format!("False NotRunning 4 run 4 was cut off; {remedy}"));
    }

    #[test]
    fn nothing_known_says_where_it_was_looked_for() {
        let mut arguments =
            StatusArguments { job: None, watch: false, output: StatusOutput::Table, context: None, state_dir: "/no/such/.weir".into() };
        let error = run(&arguments).unwrap_err();
        assert_eq!(error.class().exit_code(), 20);
        assert!(error.to_string().contains("no job is known in /no/such/.weir") && error.to_string().contains("--state-dir"), "{error}");
        arguments.job = Some("j".to_owned());
        assert!(run(&arguments).unwrap_err().to_string().contains("there is no job j in /no/such/.weir"));
    }

    #[test]
    fn a_query_without_a_batch_has_no_figures_yet() {
        let job = json!({"metadata": {"name": "j"}, "status": {"tasks": [{"name": "t", "queries": [{"name": "q"}, {"name": "r", "batchId": 3},
            {"name": "s", "batchId": 3, "badRecords": 7}]}]}});
        let lines: Vec<String> = queries(&[job]).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1..], ["j/t q - - - - -", "j/t r 3 - - - -", "j/t s 3 - - - 7"]);
    }

    #[test]
    fn columns_come_from_the_status() {
        let job = json!({"metadata": {"name": "j"}, "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Streaming", "message": "all is well"}],
            "run": {"number": 3}, "summary": {"tasksReady": "2/2", "lag": 7}, "consecutiveFailures": 0, "epoch": 9}});
        let cells: Vec<String> = COLUMNS.iter().chain(WIDE_COLUMNS).map(|(_, at)| cell(&job, *at)).collect();
        assert_eq!(cells, ["j", "True", "Streaming", "3", "2/2", "0", "", "", "7", "9", "all is well"]);
        assert_eq!(table(vec![vec!["A".into(), "B".into()], vec!["long".into(), "x".into()]]), "A      B\nlong   x\n");
        assert_eq!(table(vec![vec!["A".into(), "B".into()], vec!["a".into(), "one:\n  two\n".into()]]), "A   B\na   one:; two\n");
    }
}
