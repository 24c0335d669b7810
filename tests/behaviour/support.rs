//! What the behaviour tests share: a folder, manifests, runs and their events.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tempfile::TempDir;
use weir_testkit::process::{Guarded, run};

/// Generous: the machine may be busy with builds.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// The binary under test, built with failpoints.
pub fn weir() -> Command {
    Command::new(env!("CARGO_BIN_EXE_weir"))
}

/// The folder of golden cases beside the repository.
pub fn golden(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/golden").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{} is needed: {e}", path.display()))
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A test's own folder.
pub struct Place {
    dir: TempDir,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` for a signal.
    pub code: Option<i32>,
    /// Events of `--progress json`.
    pub events: Vec<Value>,
    /// Log and errors.
    pub stderr: String,
}

impl Place {
    pub fn new(name: &str) -> Self {
        Self { dir: weir_testkit::scratch::folder(name).unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn at(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A file with a modification time, written so that no listing sees half of it.
    pub fn write_at(&self, name: &str, text: &str, modified_ms: u64) {
        let hidden = self.write(&format!("unseen-{}", name.replace('/', "-")), text);
        let file = File::options().write(true).open(&hidden).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(modified_ms)).unwrap();
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::rename(&hidden, path).unwrap();
    }

    /// `weir run --once` to its end.
    pub fn run_once(&self, manifest: &str, arguments: &[&str]) -> Ended {
        self.run_once_with(manifest, arguments, &[])
    }

    /// The same with environment variables.
    pub fn run_once_with(&self, manifest: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        let file = self.write("job.yaml", manifest);
        let mut command = weir();
        command.current_dir(self.path()).arg("run").arg(file).args(["--once", "--progress", "json"]).args(arguments);
        command.envs(variables.iter().copied());
        finish("weir run", command)
    }

    /// `weir run` in the background.
    pub fn start(&self, manifest: &str, arguments: &[&str]) -> Guarded {
        let file = self.write("job.yaml", manifest);
        let mut command = weir();
        command.current_dir(self.path()).arg("run").arg(file).args(["--progress", "json"]).args(arguments);
        Guarded::spawn("weir run", command).unwrap()
    }

    /// The `.status` that the runner keeps.
    pub fn status(&self, job: &str) -> Option<Value> {
        let text = fs::read_to_string(self.path().join(".weir/default").join(job).join("status.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok().map(|shown| shown["status"].clone())
    }

    /// Rows of a query over tables in the folder.
    pub fn sql(&self, query: &str, tables: &[(&str, &str)]) -> Vec<Value> {
        let tables: Vec<String> = tables.iter().map(|(name, location)| format!("--table={name}={location}")).collect();
        self.sql_with(query, &tables.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Rows of a query with arguments.
    pub fn sql_with(&self, query: &str, arguments: &[&str]) -> Vec<Value> {
        let mut command = weir();
        command.current_dir(self.path()).args(["sql", query, "--output", "json"]).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Runs a command to its end and reads its events.
pub fn finish(name: &str, command: Command) -> Ended {
    let finished = run(name, command, DEADLINE).unwrap();
    let events = finished.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Ended { code: finished.status.code(), events, stderr: finished.stderr }
}

impl Ended {
    /// The progress records of a query, in order.
    pub fn progress(&self, query: &str) -> Vec<Value> {
        let progress = self.events.iter().filter(|event| event["event"] == "progress").map(|event| event["progress"].clone());
        progress.filter(|progress| progress["name"] == query).collect()
    }

    pub fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        self
    }
}

/// Rows of each batch of a JSON file sink, by batch, nulls left out as the
/// sink leaves them out; sorted by text.
pub fn rows_by_batch(folder: &Path) -> BTreeMap<u64, Vec<String>> {
    let mut batches = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder.join("_spark_metadata")) else { return batches };
    for entry in entries {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Ok(batch) = name.parse::<u64>() else { continue };
        let log = fs::read_to_string(folder.join("_spark_metadata").join(&name)).unwrap();
        let mut rows = Vec::new();
        for line in log.lines().skip(1) {
            let path = serde_json::from_str::<Value>(line).unwrap()["path"].as_str().unwrap().to_owned();
            let file = path.rsplit_once('/').unwrap().1.to_owned();
            let text = fs::read_to_string(folder.join(file)).unwrap();
            rows.extend(text.lines().map(sorted));
        }
        rows.sort();
        batches.insert(batch, rows);
    }
    batches
}

/// A JSON object's text with sorted keys and without nulls.
pub fn sorted(text: &str) -> String {
    let value: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
    let kept: BTreeMap<String, Value> = value.into_iter().filter(|(_, value)| !value.is_null()).collect();
    serde_json::to_string(&kept).unwrap()
}

/// A job of one task with one query over a folder of JSON files.
pub struct FileJob<'a> {
    pub schema: &'a str,
    pub options: &'a str,
    pub sql: &'a str,
    pub sink: &'a str,
    pub trigger: &'a str,
    pub extra: &'a str,
}

impl FileJob<'_> {
    pub fn manifest(&self) -> String {
        let Self { schema, options, sql, sink, trigger, extra } = self;
        format!(
            r#"apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {{name: job}}
spec:
  trigger: {{continuous: {{}}}}
  taskRetry: {{maxRetries: 0}}
  tasks:
  - name: task
    queries:
    - name: query
      sources:
      - name: events
        format: json
        schema: "{schema}"
        options: {{path: input, {options}}}
      sql: "{sql}"
      sink: {sink}
      trigger: {trigger}
      checkpointLocation: checkpoint
{extra}"#
        )
    }
}
