//! The golden Delta sink cases that need no state: the same steps through
//! Weir's sink, the same log, and the same rows as Spark reads them.
//!
//! `DIFFERENT` lists where Weir refuses what Spark does, with the reason; the
//! test fails when one of them stops being a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};
use arrow::record_batch::RecordBatch;
use serde_json::{Value, json};
use weir_connect::{Committed, Sink};
use weir_sql::{OutputMode, QueryText, SqlConf, StreamInput, compile};
use weir_testkit::judge::Judge;
use weir_testkit::scratch;

use super::query::Query;

const CASES: &str = include_str!("../golden/delta-sink-cases.jsonl");

/// Cases that need aggregation state.
const NEED_STATE: &[&str] = &["d07"];

/// (case, step, condition, reason).
const DIFFERENT: &[(&str, &str, &str, &str)] = &[
    ("d06", "overwriteSchema", "DELTA_ILLEGAL_OPTION", "Spark ignores the option in a stream; Weir says so"),
    ("d11", "same checkpoint, other table", "", "the claim of the checkpoint refuses a changed sink (`_weir/sink`)"),
    ("d11", "same checkpoint, other table, new file", "", "the claim of the checkpoint refuses a changed sink (`_weir/sink`)"),
];

struct Case {
    id: String,
    folder: tempfile::TempDir,
    files: Vec<Vec<Value>>,
    query: Query,
    /// Batches that took effect, and input files that they read.
    committed: u64,
    consumed: usize,
    /// Tables whose rows differ because a step was refused.
    refused: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sink_does_what_spark_did() {
    let mut seen = 0;
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap().to_owned();
        if NEED_STATE.contains(&id.as_str()) {
            continue;
        }
        let folder = scratch::folder("delta-golden").unwrap();
        let query = Query::to(&folder.path().join("out"));
        let mut run = Case { id, folder, files: Vec::new(), query, committed: 0, consumed: 0, refused: false };
        for step in case["steps"].as_array().unwrap() {
            run.step(step).await;
        }
        seen += 1;
    }
    assert_eq!(seen, 9);
}

impl Case {
    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    async fn step(&mut self, step: &Value) {
        let name = step["do"].as_str().unwrap();
        match name {
            "input file" => self.files.push(step["rows"].as_array().unwrap().clone()),
            "remove commit 0" => (self.committed, self.consumed) = (0, 0),
            "delta log" => self.compare_log(step),
            "sql" => self.compare_sql(step),
            _ => self.stream(name, step).await,
        }
    }

    async fn stream(&mut self, name: &str, step: &Value) {
        if let Err(error) = weir_connect::delta::check_output_mode(step["outputMode"].as_str().unwrap()) {
            assert_eq!(Some(error.condition()), step["error"]["class"].as_str(), "{} {name}", self.id);
            return;
        }
        let difference = DIFFERENT.iter().find(|(case, step, _, _)| (*case, *step) == (self.id.as_str(), name));
        if difference.is_some_and(|(_, _, condition, _)| condition.is_empty()) {
            return;
        }
        if starts_anew(step, self.committed, name) {
            self.query = Query::to(&self.out());
            (self.committed, self.consumed) = (0, 0);
        }
        if step["title"].is_null() && self.id == "d13" && name.contains("default") {
            self.query = Query::to(&self.folder.path().join("def"));
        }
        let outcome = self.run_batches(step).await;
        match (outcome, difference, step["error"].is_object()) {
            (Ok(()), None, false) => {}
            (Err(error), Some((_, _, condition, _)), _) => {
                assert_eq!(error.condition(), *condition, "{} {name}: {error}", self.id);
                self.refused |= !step["error"].is_object();
            }
            (Err(error), None, true) => {
                let names: Vec<&str> = step["error"]["names"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
                assert!(names.contains(&error.condition()), "{} {name}: {error} is none of {names:?}", self.id);
            }
            (outcome, _, _) => panic!("{} {name}: {outcome:?} where Spark had {step}", self.id),
        }
    }

    async fn run_batches(&mut self, step: &Value) -> weir_core::Result<()> {
        let columns: Vec<(&str, &str)> = step["schema"].as_str().unwrap().split(", ").filter_map(|c| c.split_once(' ')).collect();
        let options: BTreeMap<String, String> = serde_json::from_value(step["options"].clone()).unwrap();
        let mut query = self.query.clone().with_options(&options);
        query.partition_by = step["partitionBy"].as_str().map(str::to_owned).into_iter().collect();
        let select = step["select"].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
        let sink = query.open(selected(&select, batch_of(&columns, &[])).await.schema()).await?;
        let expected = step["batches"].as_array().map_or(1, Vec::len).max(1);
        for index in 0..expected {
            let until = if index + 1 == expected { self.files.len() } else { self.consumed + 1 };
            let records: Vec<Value> = self.files[self.consumed..until].concat();
            let committed = query.write(&sink, self.committed, &selected(&select, batch_of(&columns, &records)).await).await?;
            // The case that runs a batch again after its commit entry was lost.
            assert_eq!(committed == Committed::Before, self.id == "d02" && step["do"] == "run again");
            if let Some(batch) = step["batches"].get(index) {
                let place = sink.description().replace(self.folder.path().to_str().unwrap(), "<dir>");
                assert_eq!(batch["sink"]["description"], json!(place));
                assert_eq!(batch["batchId"], json!(self.committed));
            }
            (self.committed, self.consumed) = (self.committed + 1, until);
        }
        Ok(())
    }

    fn compare_log(&self, step: &Value) {
        for expected in step["commits"].as_array().unwrap() {
            let version = expected["version"].as_u64().unwrap();
            let found = entry(&self.out(), version);
            let context = format!("{} version {version}", self.id);
            let info = &found["commitInfo"];
            assert_eq!(info["operation"], expected["operation"], "{context}");
            assert_eq!(info["operationParameters"]["outputMode"], expected["parameters"]["outputMode"], "{context}");
            assert_eq!(info["operationParameters"]["epochId"], expected["parameters"]["epochId"], "{context}");
            assert_eq!(info["operationParameters"]["queryId"], found["txn"]["appId"], "{context}");
            assert_eq!(info["isBlindAppend"], expected["isBlindAppend"], "{context}");
            assert_eq!(found["txn"]["version"], expected["txn"]["version"], "{context}");
            assert_eq!(found.get("protocol"), expected.get("protocol"), "{context}");
            assert_eq!(found.get("metaData").is_some(), expected.get("schema").is_some(), "{context}");
            if let Some(metadata) = found.get("metaData") {
                let schema: Value = serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
                let fields: Vec<Value> =
                    schema["fields"].as_array().unwrap().iter().map(|f| json!([f["name"], f["type"], f["nullable"]])).collect();
                assert_eq!(json!(fields), expected["schema"], "{context}");
                assert_eq!(metadata["partitionColumns"], expected["partitionColumns"], "{context}");
                assert_eq!(metadata["configuration"], expected["configuration"], "{context}");
            }
            // Spark writes a file per task; the partition values are what counts.
            let distinct = |adds: &Value| adds.as_array().unwrap().iter().map(Value::to_string).collect::<BTreeSet<_>>();
            assert_eq!(distinct(&found["add"]), distinct(&expected["add"]), "{context}");
        }
        let last = step["commits"].as_array().unwrap().len() as u64;
        assert!(!self.out().join(format!("_delta_log/{last:020}.json")).exists(), "{} has more commits than Spark", self.id);
    }

    fn compare_sql(&self, step: &Value) {
        let query = step["sql"].as_str().unwrap().replace("{d}", self.folder.path().to_str().unwrap());
        // What a refused step would have written cannot be there.
        if step["rows"].is_array() && (self.refused || query.contains("/other`")) {
            return;
        }
        let found = Judge::shared().sql(&query, &[]).unwrap();
        if let Some(expected) = step["rows"].as_array() {
            let sorted = |rows: Vec<Value>| rows.iter().map(Value::to_string).collect::<Vec<_>>();
            let (mut expected, mut found) = (sorted(expected.clone()), sorted(found.rows.into_iter().map(Value::Array).collect()));
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{} {query}", self.id);
        }
    }
}

/// A step of a query with a new checkpoint expects its batches from 0 on.
fn starts_anew(step: &Value, committed: u64, name: &str) -> bool {
    committed > 0 && name != "run again" && step["batches"][0]["batchId"] == json!(0)
}

fn batch_of(columns: &[(&str, &str)], records: &[Value]) -> RecordBatch {
    let arrays = columns.iter().map(|(name, data_type)| {
        let values = records.iter().map(|record| &record[*name]);
        let array: ArrayRef = match *data_type {
            "STRING" => Arc::new(values.map(Value::as_str).collect::<StringArray>()),
            "INT" => Arc::new(values.map(|v| v.as_i64().and_then(|n| i32::try_from(n).ok())).collect::<Int32Array>()),
            "BIGINT" => Arc::new(values.map(Value::as_i64).collect::<Int64Array>()),
            other => panic!("the cases have no {other}"),
        };
        (*name, array)
    });
    super::query::rows(arrays.collect())
}

/// What the query makes of its input.
async fn selected(select: &str, input: RecordBatch) -> RecordBatch {
    let text = QueryText { sql: format!("SELECT {select} FROM input"), ..QueryText::default() };
    let stream = StreamInput { name: "input".into(), schema: input.schema(), has_watermark: false };
    let query = compile(&SqlConf::default(), vec![stream], vec![], &text, OutputMode::Append).unwrap();
    let mut lane = query.lane().unwrap();
    lane.begin_batch(0).await.unwrap();
    let rows = lane.execute(0, input).await.unwrap();
    rows.into_iter().next().unwrap_or_else(|| RecordBatch::new_empty(query.schema()))
}

/// A log entry as one object: actions by name, the partition values of all adds.
fn entry(table: &Path, version: u64) -> Value {
    let text = std::fs::read_to_string(table.join(format!("_delta_log/{version:020}.json"))).unwrap();
    let mut merged = json!({"add": []});
    for line in text.lines() {
        let action: Value = serde_json::from_str(line).unwrap();
        let (name, body) = action.as_object().unwrap().iter().next().unwrap();
        match name.as_str() {
            "add" => merged["add"].as_array_mut().unwrap().push(body["partitionValues"].clone()),
            _ => merged[name] = body.clone(),
        }
    }
    merged
}
