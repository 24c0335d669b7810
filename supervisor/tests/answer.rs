//! Answers of a task: a recorded one, and ones that nobody should give.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use weir_supervisor::answer::{AnswerError, BODY_BYTES, QUERIES, parse};
use weir_supervisor::observed::Backlog;

/// Recorded from `weir task` with two queries on the rate source.
const RECORDED: &[u8] = include_bytes!("data/queries.json");

fn recorded() -> Value {
    serde_json::from_slice(RECORDED).unwrap()
}

fn edited(edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut body = recorded();
    edit(&mut body);
    serde_json::to_vec(&body).unwrap()
}

#[test]
fn a_recorded_answer_is_read() {
    let answer = parse(RECORDED).unwrap();
    assert_eq!((answer.epoch, answer.generation, answer.is_ready, answer.queries.len()), (3, 0, true, 2));
    let ticks = &answer.queries[0];
    assert_eq!(ticks.name, "ticks");
    assert_eq!(ticks.id, recorded()["queries"][0]["id"]);
    assert_eq!(ticks.run_id, recorded()["queries"][0]["runId"]);
    assert_eq!((ticks.batch_id, ticks.is_active, ticks.input_available), (Some(4), true, false));
    assert_eq!(ticks.message, "Waiting for data to arrive");
    assert_eq!(ticks.last_commit.map(|at| at.timestamp_millis()), recorded()["queries"][0]["lastCommitMs"].as_i64());
    assert_eq!((ticks.input_rows_per_second, ticks.processed_rows_per_second), (38.7, 1052.6));
    assert_eq!(ticks.backlog, Backlog { records: Some(0), bytes: Some(0), seconds: Some(0), files: None });
    assert_eq!((ticks.watermark, ticks.bad_records), (None, 0));
    let some = edited(|body| body["queries"][0]["badRecords"] = json!(7));
    assert_eq!(parse(&some).unwrap().queries[0].bad_records, 7);
    let batch = &ticks.recent_batches[1];
    assert_eq!((batch.id, batch.duration, batch.trigger_interval), (1, Duration::from_millis(20), Duration::from_millis(500)));
    assert_eq!((batch.input_rows_per_second, batch.previous_had_data, batch.costliest_stage.as_str()), (40.0, false, "commitOffsets"));
}

#[test]
fn a_task_is_ready_when_all_its_queries_have_started() {
    let starting = edited(|body| body["queries"][1]["isStarted"] = json!(false));
    assert!(!parse(&starting).unwrap().is_ready);
    let before = edited(|body| {
        body["queries"][1]["id"] = Value::Null;
        body["queries"][1]["lastProgress"] = Value::Null;
        body["queries"][1]["batchId"] = Value::Null;
    });
    assert_eq!(parse(&before).unwrap().queries[1].id, "");
    assert!(!parse(&edited(|body| body["queries"] = json!([]))).unwrap().is_ready, "nothing is no proof of readiness");
}

#[test]
fn unread_records_are_available_input() {
    let behind = edited(|body| body["queries"][0]["backlog"] = json!({"records": 9, "seconds": 2.7, "files": 1}));
    let answer = parse(&behind).unwrap();
    assert!(answer.queries[0].input_available);
    assert_eq!(answer.queries[0].backlog, Backlog { records: Some(9), bytes: None, seconds: Some(2), files: Some(1) });
}

#[test]
fn fields_of_other_versions_and_numbers_that_are_none_do_no_harm() {
    let odd = edited(|body| {
        body["future"] = json!({"a": [1]});
        let query = &mut body["queries"][0];
        query["future"] = json!(1);
        query["lastProgress"] = json!({"inputRowsPerSecond": "NaN", "processedRowsPerSecond": null});
        query["recentBatches"][0]["inputRowsPerSecond"] = Value::Null;
        query["recentBatches"][0]["processedRowsPerSecond"] = json!("Infinity");
        query["lastCommitMs"] = json!(i64::MAX);
        query["backlog"]["seconds"] = json!(-1.0e300);
        query.as_object_mut().unwrap().remove("status");
    });
    let query = &parse(&odd).unwrap().queries[0];
    assert_eq!((query.input_rows_per_second, query.processed_rows_per_second), (0.0, 0.0));
    assert_eq!(query.recent_batches[0].processed_rows_per_second, 0.0);
    assert_eq!((query.last_commit, query.backlog.seconds, query.message.as_str()), (None, Some(0), ""));
    let overflow = String::from_utf8(RECORDED.to_vec()).unwrap().replace("38.7", "1e999");
    assert!(matches!(parse(overflow.as_bytes()), Err(AnswerError::Malformed(_))));
}

#[test]
fn what_comes_out_is_bounded() {
    let many = edited(|body| {
        let query = &mut body["queries"][0];
        query["name"] = json!("ä".repeat(1000));
        query["status"]["message"] = json!("日".repeat(2000));
        query["recentBatches"] = json!(vec![query["recentBatches"][0].clone(); 90]);
        query["recentBatches"][89]["batchId"] = json!(89);
        let other = body["queries"][1].clone();
        body["queries"].as_array_mut().unwrap().extend(vec![other; 70]);
    });
    let answer = parse(&many).unwrap();
    assert_eq!(answer.queries.len(), QUERIES);
    assert!(answer.queries.iter().all(|query| query.name.len() <= 253 && query.message.len() <= 1024));
    assert_eq!(answer.queries[0].recent_batches.len(), 64);
    assert_eq!(answer.queries[0].recent_batches[63].id, 89, "the newest are kept");
    let long = vec![b' '; BODY_BYTES + 1];
    assert!(matches!(parse(&long), Err(AnswerError::TooLong { .. })));
}

#[test]
fn other_bodies_are_refused_with_a_hint() {
    for body in ["", "404 page not found", "{}", "[]", r#"{"epoch": -1, "generation": 0, "queries": []}"#, r#"{"epoch": 1, "queries": 3}"#]
    {
        let error = parse(body.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("does something else listen"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_body_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes).is_ok();
    }

    #[test]
    fn no_damage_makes_it_panic(at in 0..RECORDED.len(), byte in any::<u8>(), end in 0..RECORDED.len()) {
        let mut body = RECORDED.to_vec();
        body[at] = byte;
        let _ = parse(&body).is_ok();
        let _ = parse(&body[..end]).is_ok();
    }
}
