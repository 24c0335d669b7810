//! The golden Delta source cases, repeated at Weir's source: offsets, rows per
//! batch, limits, progress and refusals.
//!
//! Plain appends are written by Weir's sink; deletes, updates, OPTIMIZE and
//! changes of the schema are Spark's own. `DIFFERENT` lists what Weir does
//! otherwise, with the reason; the test fails when one of them stops being a
//! difference.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use weir_testkit::judge::Judge;
use weir_testkit::scratch;

use super::query::{Query, kv};
use super::stream::{Batch, Stream, Trigger};

const CASES: &str = include_str!("../golden/delta-source-cases.jsonl");

/// (case, what is in the step's name or options, condition, words, reason).
const DIFFERENT: &[(&str, &str, &str, &str, &str)] = &[
    ("s08", "missing table", "DELTA_TABLE_NOT_FOUND", "no Delta table", "a table that is not there is told from one without columns"),
    (
        "s08",
        "no longer in the log",
        "DELTA_LOG_DAMAGED",
        "_delta_log",
        "without a checkpoint the log before it cannot be told from a damaged one",
    ),
    ("s10", "readChangeFeed", "DELTA_MISSING_CHANGE_DATA", "version [0]", "refused before a batch is planned"),
    ("s11", "noSuchOption", "INVALID_OPTIONS", "noSuchOption", "Spark ignores unknown options"),
    ("s11", "AsOf", "INVALID_OPTIONS", "static table", "refused as well, in other words"),
];

struct Case {
    id: String,
    folder: tempfile::TempDir,
    /// Checkpoints by what they hold, the newest last.
    streams: Vec<Stream>,
    different: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_source_does_what_spark_did() {
    let (mut seen, mut different) = (0, 0);
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap().to_owned();
        let folder = scratch::folder("delta-source-golden").unwrap();
        let mut run = Case { id, folder, streams: Vec::new(), different: 0 };
        for step in case["steps"].as_array().unwrap() {
            run.step(step).await;
        }
        seen += 1;
        different += run.different;
    }
    assert_eq!((seen, different), (9, 6));
}

impl Case {
    fn table(&self) -> PathBuf {
        self.folder.path().join("src")
    }

    async fn step(&mut self, step: &Value) {
        match step["do"].as_str().unwrap() {
            "sql" => self.sql(step["sql"].as_str().unwrap()).await,
            // Spark's own log; nothing of Weir is in it.
            "delta log" => {}
            name => self.stream(name, step).await,
        }
    }

    async fn sql(&self, text: &str) {
        if text.starts_with("CREATE TABLE") {
            let _ = std::fs::remove_dir_all(self.table());
        }
        let Some((key, value)) = plain_append(text) else {
            Judge::shared().sql(&text.replace("{d}", self.folder.path().to_str().unwrap()), &[]).unwrap();
            return;
        };
        // A new query, since Spark may have written in between.
        let writer = Query::to(&self.table());
        let sink = writer.open(kv(&[]).schema()).await.unwrap();
        writer.write(&sink, 0, &kv(&[(key, value)])).await.unwrap();
    }

    async fn stream(&mut self, name: &str, step: &Value) {
        let options: BTreeMap<String, String> = serde_json::from_value(step["options"].clone()).unwrap();
        let context = format!("{} {name} {options:?}", self.id);
        if name.contains("no longer in the log") {
            std::fs::remove_file(self.table().join("_delta_log/00000000000000000000.json")).unwrap();
        }
        let mut stream = self.checkpoint_before(step);
        stream.options.extend(options);
        let trigger = if step["trigger"].get("availableNow").is_some() { Trigger::AvailableNow } else { Trigger::Continuous };
        let outcome = stream.run(trigger).await;
        let found = DIFFERENT.iter().find(|(case, part, ..)| *case == self.id && context.contains(part));
        if let Some((_, _, condition, words, _)) = found {
            let error = outcome.unwrap_err();
            assert!(error.condition() == *condition && error.message().contains(words), "{context}: {error}");
            self.different += 1;
            return;
        }
        match (outcome, step["error"].as_object()) {
            (Ok(batches), None) => self.compare(&batches, step, &context),
            (Err(error), Some(expected)) => {
                let sentence = expected["message"].as_str().unwrap().split_once("] ").unwrap().1;
                let is_same =
                    expected["class"] == error.condition() || error.condition() == "INVALID_OPTIONS" && error.message().contains(sentence);
                assert!(is_same, "{context}: {error} is not {sentence}");
            }
            (outcome, _) => panic!("{context}: {outcome:?} where Spark had {step}"),
        }
        let log: BTreeMap<String, Value> = stream.planned.iter().map(|(batch, end)| (batch.to_string(), named(end.to_value()))).collect();
        assert_eq!(json!(log), named(step["offsets"].clone()), "{context}: the offset log");
        self.streams.push(stream);
    }

    /// The checkpoint that the step's query found: the newest with the batches before its first one.
    fn checkpoint_before(&self, step: &Value) -> Stream {
        let first = match (step["progress"][0]["batchId"].as_u64(), step["offsets"].as_object()) {
            _ if step["do"] == "stream from delta" => 0,
            (Some(batch), _) => batch,
            (None, Some(offsets)) => offsets.len() as u64,
            (None, None) => 0,
        };
        let before = |stream: &&Stream| {
            stream.committed == first
                && stream.planned.iter().all(|(batch, end)| named(end.to_value()) == named(step["offsets"][batch.to_string()].clone()))
        };
        let new = || Stream::of(&self.table(), &self.folder.path().join(format!("ck-{}", self.streams.len())));
        let mut stream = self.streams.iter().rev().filter(|_| first > 0).find(before).cloned().unwrap_or_else(new);
        assert_eq!(stream.committed, first, "{}: a checkpoint for {step}", self.id);
        stream.options.retain(|name, _| name == "path");
        stream
    }

    fn compare(&self, batches: &[Batch], step: &Value, context: &str) {
        let progress = step["progress"].as_array().unwrap();
        // Spark lists an idle trigger only when nothing else ran.
        let ran = if step["batches"] == json!([]) { batches } else { &batches[..batches.len() - 1] };
        assert_eq!(ran.len(), progress.len(), "{context}: {batches:?}");
        for (batch, progress) in ran.iter().zip(progress) {
            let source = &progress["source"];
            let value = |offset: &Option<weir_core::Offset>| offset.as_ref().map_or(Value::Null, |offset| named(offset.to_value()));
            assert_eq!(json!(batch.id), progress["batchId"], "{context}");
            assert_eq!(value(&batch.start), named(source["startOffset"].clone()), "{context}: start");
            assert_eq!(value(&batch.end), named(source["endOffset"].clone()), "{context}: end");
            let description = batch.description.replace(self.folder.path().to_str().unwrap(), "<dir>");
            assert_eq!(json!(description), source["description"], "{context}");
        }
        for (batch, expected) in ran.iter().zip(step["batches"].as_array().unwrap()) {
            let mut rows = expected["rows"].as_array().unwrap().clone();
            let mut found = batch.rows.clone();
            for rows in [&mut rows, &mut found] {
                rows.sort_by_key(ToString::to_string);
            }
            assert_eq!(found, rows, "{context}: batch {}", batch.id);
        }
    }
}

/// The row of a statement that only appends one.
fn plain_append(text: &str) -> Option<(&str, i32)> {
    let rest = text
        .strip_prefix("CREATE TABLE delta.`{d}/src` USING delta AS SELECT '")
        .or_else(|| text.strip_prefix("INSERT INTO delta.`{d}/src` SELECT '"))?;
    let (key, rest) = rest.split_once("' AS k, ")?;
    Some((key, rest.strip_suffix(" AS v")?.parse().ok()?))
}

/// Offsets with a name for the table's id, which is another one in each run.
fn named(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) if map.contains_key("reservoirId") => {
            map.insert("reservoirId".to_owned(), json!("<table id>"));
        }
        Value::Object(map) => map.values_mut().for_each(|inner| *inner = named(inner.take())),
        _ => {}
    }
    value
}
