//! Spark's golden streaming cases that need no state, replayed by Weir.
//!
//! Each case runs its steps twice, as the recording did: into a JSON file sink,
//! whose log says which rows belong to which batch, and into noop, for the
//! sink's row count. What differs on purpose is in `DIFFERENCES`, which
//! `docs/spark-differences.md` explains.

use serde_json::Value;

use crate::support::{Place, golden, rows_by_batch, sorted};

/// Case, field and reason of an intended difference.
const DIFFERENCES: &[(&str, &str)] = &[
    // Spark counts rows after filters that it pushed into the JSON reader; Weir counts rows read.
    ("001-stateless-filter-append", "numInputRows"),
];

#[test]
fn golden_001_filter() {
    replay("001-stateless-filter-append");
}

#[test]
fn golden_003_once_ignores_limits() {
    replay("003-once-ignores-limits");
}

#[test]
fn golden_036_failure_reruns_same_offsets() {
    replay("036-failure-reruns-same-offsets");
}

#[test]
fn golden_039_malformed_json() {
    replay("039-json-malformed-permissive");
}

#[test]
fn golden_041_empty_file() {
    replay("041-empty-file");
}

#[test]
fn golden_048_no_schema() {
    let place = Place::new("golden-048");
    place.write_at("input/0.json", "{\"k\": \"a\"}\n", 1_700_000_001_000);
    let case: Value = serde_json::from_str(&golden("048-no-schema-refused.json")).unwrap();
    let condition = case["expected"][0]["error"]["condition"].as_str().unwrap();
    let manifest = manifest(&case, "{format: noop}", "{availableNow: {}}");
    let ended = place.run_once(&manifest, &[]);
    ended.assert_code(20);
    assert!(ended.stderr.contains(condition) || ended.stderr.contains("schema"), "{}", ended.stderr);
    assert!(!place.path().join("checkpoint").exists(), "nothing may be written");
}

#[test]
fn golden_049_text() {
    replay("049-text-source");
}

#[test]
fn golden_050_csv() {
    replay("050-csv-source");
}

fn replay(name: &str) {
    let case: Value = serde_json::from_str(&golden(&format!("{name}.json"))).unwrap();
    check(name, &case, "{format: json, options: {path: output}}", Judged::Rows);
    check(name, &case, "{format: noop}", Judged::RowCount);
}

#[derive(Clone, Copy, PartialEq)]
enum Judged {
    Rows,
    RowCount,
}

fn check(name: &str, case: &Value, sink: &str, judged: Judged) {
    let place = Place::new(name);
    let mut query_id = Value::Null;
    for (step, expected) in case["steps"].as_array().unwrap().iter().zip(case["expected"].as_array().unwrap()) {
        add_files(&place, step);
        let failing = step["failSinkAtBatch"].as_u64();
        if failing.is_some() && judged == Judged::RowCount {
            return; // noop has nothing that could fail
        }
        let failpoint = failing.map(|batch| format!("sink.commit.before={batch}*off->return(error)")).unwrap_or_default();
        let manifest = manifest(case, sink, &step["trigger"].to_string());
        let ended = place.run_once_with(&manifest, &[], &[("FAILPOINTS", &failpoint)]);
        ended.assert_code(if failing.is_some() { 10 } else { 0 });
        let progress = ended.progress("query");
        let batches: Vec<&Value> = expected["batches"].as_array().unwrap().iter().filter(|batch| !batch["rows"].is_null()).collect();
        assert_eq!(progress.len(), batches.len(), "{name}: {progress:#?}");
        let written = rows_by_batch(&place.path().join("output"));
        for (progress, batch) in progress.iter().zip(batches) {
            same_progress(name, progress, batch, judged);
            if judged == Judged::Rows {
                let id = batch["batchId"].as_u64().unwrap();
                let mut rows: Vec<String> = batch["rows"].as_array().unwrap().iter().map(|row| sorted(&row.to_string())).collect();
                rows.sort();
                assert_eq!(written.get(&id).cloned().unwrap_or_default(), rows, "{name} batch {id}");
            }
            if query_id.is_null() {
                query_id = progress["id"].clone();
            }
            assert_eq!(progress["id"], query_id, "the query's id stays");
        }
    }
}

fn same_progress(name: &str, ours: &Value, spark: &Value, judged: Judged) {
    let is_compared = |field: &str| !DIFFERENCES.contains(&(name, field));
    assert_eq!(ours["batchId"], spark["batchId"], "{name}");
    let text = |value: &Value| value.as_object().cloned().unwrap_or_default();
    assert_eq!(text(&ours["eventTime"]), text(&spark["eventTime"]), "{name} {}", ours["batchId"]);
    if is_compared("numInputRows") {
        assert_eq!(ours["numInputRows"], spark["numInputRows"], "{name} {}", ours["batchId"]);
    }
    for (ours, spark) in ours["sources"].as_array().unwrap().iter().zip(spark["sources"].as_array().unwrap()) {
        for field in ["startOffset", "endOffset", "latestOffset"] {
            assert_eq!(ours[field], spark[field], "{name} {field}");
        }
        let kind = |value: &Value| value["description"].as_str().unwrap().split('[').next().unwrap().to_owned();
        assert_eq!(kind(ours), kind(spark));
    }
    if judged == Judged::RowCount && spark["sinkNumOutputRows"].is_number() {
        assert_eq!(ours["sink"]["numOutputRows"], spark["sinkNumOutputRows"], "{name}");
    }
}

fn add_files(place: &Place, step: &Value) {
    for files in step["addFiles"].as_object().into_iter().flat_map(|sources| sources.values()) {
        for file in files.as_array().unwrap() {
            let lines: Vec<&str> = file["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
            let text = if lines.is_empty() { String::new() } else { lines.join("\n") + "\n" };
            place.write_at(&format!("input/{}", file["name"].as_str().unwrap()), &text, file["mtimeMs"].as_u64().unwrap());
        }
    }
}

fn manifest(case: &Value, sink: &str, trigger: &str) -> String {
    let source = &case["sources"][0];
    let mut options = source["options"].as_object().cloned().unwrap_or_default();
    options.insert("path".into(), "input".into());
    let mut input = serde_json::json!({"name": source["id"], "format": source["format"], "options": options});
    if source["schema"].is_string() {
        input["schema"] = source["schema"].clone();
    }
    if let Some(watermark) = source["watermark"].as_array() {
        input["watermark"] = serde_json::json!({"column": watermark[0], "delay": watermark[1]});
    }
    // Spark's trigger values are `true`; the manifest's are empty objects.
    let trigger = trigger.replace("true", "{}");
    format!(
        "apiVersion: weir.dev/v1alpha1\nkind: StreamingJob\nmetadata: {{name: golden}}\nspec:\n  trigger: {{continuous: {{}}}}\n  \
         taskRetry: {{maxRetries: 0}}\n  tasks:\n  - name: task\n    queries:\n    - name: query\n      sources: [{input}]\n      \
         sql: {}\n      sink: {sink}\n      trigger: {trigger}\n      checkpointLocation: checkpoint\n",
        case["sql"]
    )
}
