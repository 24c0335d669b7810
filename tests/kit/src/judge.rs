//! PySpark with Kafka and Delta as the judge of what Weir wrote, and as the other side of a checkpoint.
//!
//! One process answers all requests of a test binary, one at a time: it starts in some five seconds and then answers a small request in a
//! tenth of one. The requests are `tests/judge/judge.py`'s; a request that Spark refuses is an error with Spark's own message. Rows come
//! back sorted by their text, so that two reads of the same table are equal. Time zone UTC, ANSI mode as in Spark 4 (on).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, OnceLock, TryLockError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::process::Guarded;
use crate::{scratch, setup};

const START: Duration = Duration::from_secs(180);
const ANSWER: Duration = Duration::from_secs(300);
const END: Duration = Duration::from_secs(10);

/// A running PySpark process.
pub struct Judge {
    process: Mutex<Guarded>,
    id: u32,
    /// `4.2.0`.
    pub spark_version: String,
    _folder: tempfile::TempDir,
}

/// Something that Spark can load: a table, a folder of files, a topic.
#[derive(Clone, Debug, Default)]
pub struct Input {
    pub format: String,
    pub path: Option<String>,
    pub options: BTreeMap<String, String>,
    /// A schema in DDL, for formats that do not know theirs.
    pub schema: Option<String>,
}

/// Where a streaming query of Spark's writes to.
#[derive(Clone, Debug, Default)]
pub struct OutputTo {
    pub format: String,
    pub path: Option<String>,
    pub options: BTreeMap<String, String>,
    pub partition_by: Vec<String>,
}

/// A streaming query for Spark; it runs until it has processed everything that is there.
#[derive(Clone, Debug)]
pub struct Stream {
    pub source: Input,
    /// Over the view `source`; without it the source goes to the sink as it is.
    pub sql: Option<String>,
    pub sink: OutputTo,
    pub checkpoint: String,
    /// `append`, `update` or `complete`.
    pub output_mode: String,
    /// Keyword arguments of PySpark's `trigger`, such as `{"availableNow": true}`.
    pub trigger: Value,
    pub conf: BTreeMap<String, String>,
}

/// The rows of a result, sorted by their text.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    pub columns: Vec<String>,
    /// Spark's short type names, such as `bigint` or `array<string>`.
    pub types: Vec<String>,
    /// One vector per row, in the order of `columns`; values as Spark's `to_json` writes them, nulls kept.
    /// Decimals of more digits than a double holds need a `CAST(... AS STRING)` in the query.
    pub rows: Vec<Vec<Value>>,
}

/// How a streaming query went.
#[derive(Clone, Debug)]
pub struct StreamOutcome {
    pub id: String,
    pub run_id: String,
    /// Spark's own progress records, oldest first.
    pub progress: Vec<Value>,
}

impl Input {
    pub fn of(format: &str) -> Input {
        Input { format: format.into(), ..Input::default() }
    }

    pub fn at(format: &str, path: impl AsRef<Path>) -> Input {
        Input { path: Some(path.as_ref().display().to_string()), ..Input::of(format) }
    }

    #[must_use]
    pub fn option(mut self, key: &str, value: impl ToString) -> Input {
        self.options.insert(key.into(), value.to_string());
        self
    }

    #[must_use]
    pub fn schema(self, ddl: &str) -> Input {
        Input { schema: Some(ddl.into()), ..self }
    }

    fn request(&self) -> Map<String, Value> {
        let mut request = target(&self.format, self.path.as_deref(), &self.options);
        request.insert("schema".into(), json!(self.schema));
        request
    }
}

impl OutputTo {
    pub fn of(format: &str) -> OutputTo {
        OutputTo { format: format.into(), ..OutputTo::default() }
    }

    pub fn at(format: &str, path: impl AsRef<Path>) -> OutputTo {
        OutputTo { path: Some(path.as_ref().display().to_string()), ..OutputTo::of(format) }
    }

    #[must_use]
    pub fn option(mut self, key: &str, value: impl ToString) -> OutputTo {
        self.options.insert(key.into(), value.to_string());
        self
    }

    #[must_use]
    pub fn partition_by(mut self, column: &str) -> OutputTo {
        self.partition_by.push(column.into());
        self
    }

    fn request(&self) -> Map<String, Value> {
        let mut request = target(&self.format, self.path.as_deref(), &self.options);
        request.insert("partitionBy".into(), json!(self.partition_by));
        request
    }
}

fn target(format: &str, path: Option<&str>, options: &BTreeMap<String, String>) -> Map<String, Value> {
    let mut request = Map::new();
    request.insert("format".into(), json!(format));
    request.insert("path".into(), json!(path));
    request.insert("options".into(), json!(options));
    request
}

impl Stream {
    /// An `availableNow` query in append mode.
    pub fn available_now(source: Input, sink: OutputTo, checkpoint: impl AsRef<Path>) -> Stream {
        let checkpoint = checkpoint.as_ref().display().to_string();
        let trigger = json!({"availableNow": true});
        Stream { source, sql: None, sink, checkpoint, output_mode: "append".into(), trigger, conf: BTreeMap::new() }
    }

    #[must_use]
    pub fn sql(self, sql: &str) -> Stream {
        Stream { sql: Some(sql.into()), ..self }
    }
}

impl Rows {
    /// The one value of a result of one row and one column.
    pub fn single(&self) -> Result<&Value> {
        match self.rows.as_slice() {
            [row] if row.len() == 1 => Ok(&row[0]),
            _ => bail!("expected one value, got {} rows of columns {:?}", self.rows.len(), self.columns),
        }
    }

    /// The first column of every row.
    pub fn first_column(&self) -> Vec<&Value> {
        self.rows.iter().filter_map(|row| row.first()).collect()
    }

    fn parse(answer: &Value) -> Result<Rows> {
        let rows = answer["rows"].as_array().context("the judge's answer has no rows")?;
        let lists = rows.iter().map(|row| row.as_array().cloned().context("a row of the judge's answer is no list"));
        Ok(Rows { columns: texts(&answer["columns"]), types: texts(&answer["types"]), rows: lists.collect::<Result<_>>()? })
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

impl Judge {
    pub fn start() -> Result<Judge> {
        let home = setup::judge_home()?;
        let folder = scratch::folder("judge")?;
        let mut command = Command::new("python3");
        command.arg(setup::repository().join("tests/judge/judge.py")).arg(home.join("jars")).arg(folder.path());
        command.env("PYTHONPATH", home.join("python")).env("PYTHONDONTWRITEBYTECODE", "1").env("SPARK_LOCAL_IP", "127.0.0.1");
        command.env("TZ", "UTC").env_remove("SPARK_HOME").env_remove("PYTHONHOME").current_dir(folder.path());
        let process = Guarded::spawn("judge", command)?;
        let hello = process.stdout.wait_for("Spark's start", START, |line| line.starts_with('{'));
        let hello = hello.inspect_err(|_| scratch::keep_log("judge", &process.output.lines()))?;
        let hello: Value = serde_json::from_str(&hello).context("the judge's first line is no JSON")?;
        let spark_version = hello["version"].as_str().unwrap_or_default().to_owned();
        Ok(Judge { id: process.id(), process: Mutex::new(process), spark_version, _folder: folder })
    }

    /// The one judge of this test binary, started by the first test that asks.
    pub fn shared() -> &'static Judge {
        static SHARED: OnceLock<Result<Judge, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            let judge = Judge::start().map_err(|error| format!("{error:#}"))?;
            scratch::at_exit(|| {
                if let Some(Ok(judge)) = SHARED.get() {
                    judge.end();
                }
            });
            Ok(judge)
        });
        shared.as_ref().unwrap_or_else(|error| panic!("the shared judge did not start: {error}"))
    }

    /// Ends Spark and waits for it, so that what it took counts as taken by this process; kills it where a test holds it.
    fn end(&self) {
        let process = match self.process.try_lock() {
            Ok(process) => Some(process),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let has_ended = process.is_some_and(|mut process| {
            process.close_stdin();
            process.wait(END).is_ok()
        });
        if !has_ended {
            let _ = crate::process::kill_group_by_id(self.id);
        }
    }

    /// All rows of a table or a folder of files.
    pub fn read(&self, input: &Input) -> Result<Rows> {
        Rows::parse(&self.request(with(input.request(), "read", []))?)
    }

    /// All rows of a Delta table.
    pub fn read_delta(&self, path: impl AsRef<Path>) -> Result<Rows> {
        self.read(&Input::at("delta", path))
    }

    /// A query over the view `source`, which is the input.
    pub fn query(&self, input: &Input, sql: &str) -> Result<Rows> {
        Rows::parse(&self.request(with(input.request(), "read", [("sql", json!(sql))]))?)
    }

    /// Any query, under settings that hold for it alone.
    pub fn sql(&self, sql: &str, conf: &[(&str, &str)]) -> Result<Rows> {
        let conf: BTreeMap<_, _> = conf.iter().copied().collect();
        Rows::parse(&self.request(with(Map::new(), "sql", [("sql", json!(sql)), ("conf", json!(conf))]))?)
    }

    /// Writes the result of a query; `mode` is Spark's `append`, `overwrite`, `errorifexists` or `ignore`.
    pub fn write(&self, sql: &str, output: &OutputTo, mode: &str) -> Result<()> {
        self.request(with(output.request(), "write", [("sql", json!(sql)), ("mode", json!(mode))]))?;
        Ok(())
    }

    /// Runs a streaming query on or from a checkpoint until it has processed everything that is there.
    pub fn stream(&self, stream: &Stream) -> Result<StreamOutcome> {
        let parts = [
            ("source", json!(stream.source.request())),
            ("sink", json!(stream.sink.request())),
            ("sql", json!(stream.sql)),
            ("checkpoint", json!(stream.checkpoint)),
            ("outputMode", json!(stream.output_mode)),
            ("trigger", stream.trigger.clone()),
            ("conf", json!(stream.conf)),
        ];
        let answer = self.request(with(Map::new(), "stream", parts))?;
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        let progress = answer["progress"].as_array().cloned().unwrap_or_default();
        Ok(StreamOutcome { id: text("id"), run_id: text("runId"), progress })
    }

    /// `DESCRIBE HISTORY` of a Delta table.
    pub fn delta_history(&self, path: impl AsRef<Path>) -> Result<Rows> {
        Rows::parse(&self.request(with(Input::at("delta", path).request(), "history", []))?)
    }

    /// The transaction identifiers that a Delta table records: application to version.
    pub fn delta_transactions(&self, path: impl AsRef<Path>) -> Result<BTreeMap<String, i64>> {
        let answer = self.request(with(Input::at("delta", path).request(), "transactions", []))?;
        let found = answer["transactions"].as_object().context("the judge's answer has no transactions")?;
        Ok(found.iter().filter_map(|(application, version)| Some((application.clone(), version.as_i64()?))).collect())
    }

    /// Sends one request and returns its answer; an answer that is not `ok` is an error with Spark's message.
    pub fn request(&self, request: Value) -> Result<Value> {
        let mut process = self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mark = process.stdout.mark();
        process.write_line(&request.to_string())?;
        let line = process.stdout.wait_for_after(mark, "the judge's answer", ANSWER, |line| line.starts_with('{'));
        let line = line.inspect_err(|_| scratch::keep_log("judge", &process.output.lines()))?;
        let answer: Value = serde_json::from_str(&line).context("the judge's answer is no JSON")?;
        if answer["ok"] != json!(true) {
            let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
            bail!("Spark refuses [{}] {}: {}", text("condition"), text("type"), text("error"));
        }
        Ok(answer)
    }
}

fn with<const N: usize>(mut request: Map<String, Value>, operation: &str, more: [(&str, Value); N]) -> Value {
    request.insert("op".into(), json!(operation));
    request.extend(more.into_iter().map(|(key, value)| (key.to_owned(), value)));
    Value::Object(request)
}
