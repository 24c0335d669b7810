//! Batches merged by key: what the table holds then, whatever comes between,
//! and that no file is left that no entry of the log names.

use std::collections::BTreeSet;

use arrow::array::ListArray;
use serde_json::{Value, json};

use super::faults::{Fault, faulty, with_others};
use super::*;

type Pair<'a> = (Option<&'a str>, i32);

fn pairs(values: &[Pair<'_>]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(values.iter().map(|(key, _)| *key).collect::<StringArray>());
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(values.iter().map(|(_, v)| *v)));
    rows(vec![("k", keys), ("v", numbers)])
}

/// Rows of three columns: partition, key, number.
fn triples(values: &[(&str, i32, i32)]) -> RecordBatch {
    let int = |of: fn(&(&str, i32, i32)) -> i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(values.iter().map(of))) };
    let partitions: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(|(p, _, _)| p)));
    rows(vec![("p", partitions), ("k", int(|row| row.1)), ("v", int(|row| row.2))])
}

async fn texts(path: &str, query: &str) -> Vec<String> {
    let found = sql(path, query).await;
    let columns = found.iter().flat_map(|batch| {
        let text = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8).unwrap();
        text.as_string::<i32>().iter().map(|text| text.unwrap_or("null").to_owned()).collect::<Vec<_>>()
    });
    columns.collect()
}

/// The rows of a table of pairs, as `k=v`.
async fn held(path: &str) -> Vec<String> {
    texts(path, "SELECT concat(coalesce(k, 'null'), '=', CAST(v AS STRING)) FROM t ORDER BY k, v").await
}

/// The actions of one kind in a log entry.
fn of_kind(path: &str, version: u64, kind: &str) -> Vec<Value> {
    log(path, version).into_iter().filter_map(|line| line.get(kind).cloned()).collect()
}

/// Data files below the table that no entry of the log ever named.
fn orphans(path: &str) -> Vec<String> {
    let mut named = BTreeSet::new();
    for entry in std::fs::read_dir(format!("{path}/_delta_log")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            named.extend(line["add"]["path"].as_str().map(|name| name.rsplit('/').next().unwrap().to_owned()));
        }
    }
    let mut folders = vec![std::path::PathBuf::from(path)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap().path();
            let name = entry.file_name().unwrap().to_string_lossy().into_owned();
            match entry.is_dir() {
                true if name != "_delta_log" => folders.push(entry),
                false if name.ends_with(".parquet") && !named.contains(&name) => found.push(name),
                _ => {}
            }
        }
    }
    found
}

struct Scene {
    _dir: tempfile::TempDir,
    path: String,
    query: Query,
    sink: DeltaSink,
}

async fn scene(keys: &[&str], order: Option<&str>, first: &[Pair<'_>]) -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path).upserting(keys, order);
    let sink = query.open(pairs(&[]).schema()).await.unwrap();
    query.write(&sink, 0, &[pairs(first)]).await.unwrap();
    Scene { _dir: dir, path, query, sink }
}

#[tokio::test]
async fn a_batch_replaces_the_rows_of_its_keys_once_however_often_it_is_committed() {
    let Scene { _dir, path, query, sink } = scene(&["K"], None, &[(Some("a"), 1), (Some("b"), 2), (None, 3)]).await;
    let batch = pairs(&[(Some("b"), 20), (Some("c"), 30), (None, 3), (Some("b"), 20)]);
    assert_eq!(query.write(&sink, 1, std::slice::from_ref(&batch)).await.unwrap(), Committed::Now);
    let expected = ["a=1", "b=20", "c=30", "null=3", "null=3"];
    assert_eq!(held(&path).await, expected, "null equals nothing, rows equal in every column are one");
    let info = &of_kind(&path, 1, "commitInfo")[0];
    assert_eq!((&info["operation"], &info["isBlindAppend"], &info["readVersion"]), (&json!("MERGE"), &json!(false), &json!(0)));
    assert_eq!(info["operationParameters"]["predicate"], json!("[\"(t.k = s.k)\"]"));
    let metric = |name: &str| info["operationMetrics"][name].as_str().unwrap().parse::<u64>().unwrap();
    let numbers = ["numSourceRows", "numTargetRowsUpdated", "numTargetRowsInserted", "numTargetRowsCopied", "numOutputRows"].map(metric);
    assert_eq!(numbers, [4, 1, 2, 2, 5]);
    assert_eq!((of_kind(&path, 1, "remove").len(), of_kind(&path, 1, "txn")[0]["version"].clone()), (1, json!(1)));
    let again = query.open(batch.schema()).await.unwrap();
    for sink in [&sink, &again] {
        assert_eq!(query.write(sink, 1, std::slice::from_ref(&batch)).await.unwrap(), Committed::Before);
    }
    assert_eq!(query.write(&again, 2, &[]).await.unwrap(), Committed::Now, "a batch without rows is recorded too");
    assert_eq!((held(&path).await, orphans(&path)), (expected.map(str::to_owned).to_vec(), vec![]));
}

#[tokio::test]
async fn the_greatest_order_wins_in_the_batch_and_against_the_table() {
    let Scene { _dir, path, query, sink } = scene(&["k"], Some("v"), &[(Some("a"), 5), (Some("b"), 1), (Some("b"), 4)]).await;
    assert_eq!(held(&path).await, ["a=5", "b=4"], "also in the batch that creates the table");
    query
        .write(&sink, 1, &[pairs(&[(Some("a"), 3), (Some("b"), 6), (Some("c"), 1)]), pairs(&[(Some("b"), 5), (Some("c"), 2)])])
        .await
        .unwrap();
    assert_eq!(held(&path).await, ["a=5", "b=6", "c=2"]);
    query.write(&sink, 2, &[pairs(&[(Some("a"), 1), (Some("b"), 1)])]).await.unwrap();
    assert_eq!((of_kind(&path, 2, "remove"), of_kind(&path, 2, "add")), (vec![], vec![]), "late rows change nothing");
    assert_eq!((held(&path).await, orphans(&path)), (vec!["a=5".to_owned(), "b=6".into(), "c=2".into()], vec![]));
}

#[tokio::test]
async fn different_rows_of_a_key_are_refused_where_nothing_orders_them() {
    let Scene { _dir, path, query, sink } = scene(&["k"], None, &[(Some("a"), 1)]).await;
    let batch = pairs(&[(Some("b"), 1), (Some("a"), 2), (Some("a"), 3)]);
    let error = query.write(&sink, 1, &[batch]).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Config, "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"));
    assert!(error.message().contains("(k = a)") && error.message().contains("upsertOrderBy"), "{error}");
    assert_eq!((held(&path).await, orphans(&path)), (vec!["a=1".to_owned()], vec![]));
    // The same batch, once the manifest names an order.
    let ordered = Query { id: query.id, ..Query::to(&path) }.upserting(&["k"], Some("v"));
    let sink = ordered.open(pairs(&[]).schema()).await.unwrap();
    ordered.write(&sink, 1, &[pairs(&[(Some("b"), 1), (Some("a"), 2), (Some("a"), 3)])]).await.unwrap();
    assert_eq!(held(&path).await, ["a=3", "b=1"]);
}

#[tokio::test]
async fn what_others_do_between_reading_and_committing_is_merged_too() {
    let cases: [(&str, &[&str]); 3] = [
        // A row of the key is appended; another key's row stays.
        ("append", &["a=1", "b=20", "c=3", "z=9"]),
        // The file that was to be replaced is written again.
        ("rewrite", &["a=10", "b=20", "c=3"]),
        // The file that was to be replaced is deleted.
        ("delete", &["b=20", "c=3"]),
    ];
    for (what, expected) in cases {
        let Scene { _dir, path, query, sink } = scene(&["k"], None, &[(Some("a"), 1), (Some("b"), 2)]).await;
        query.write(&sink, 1, &[pairs(&[(Some("c"), 3)])]).await.unwrap();
        let table = path.clone();
        let others = Box::pin(async move {
            let schema = pairs(&[]).schema();
            match what {
                "append" => {
                    let other = Query::to(&table);
                    let sink = other.open(schema).await.unwrap();
                    other.write(&sink, 0, &[pairs(&[(Some("b"), 7), (Some("z"), 9)])]).await.unwrap();
                }
                "rewrite" => {
                    let other = Query::to(&table).upserting(&["k"], None);
                    let sink = other.open(schema).await.unwrap();
                    other.write(&sink, 0, &[pairs(&[(Some("a"), 10)])]).await.unwrap();
                }
                _ => {
                    let remove =
                        json!({"remove": {"path": of_kind(&table, 0, "add")[0]["path"], "deletionTimestamp": 1, "dataChange": true}});
                    std::fs::write(format!("{table}/{}", crate::delta::location::commit_name(2)), format!("{remove}\n")).unwrap();
                }
            }
        });
        let sink = query.open_at(with_others(&path, others), pairs(&[]).schema()).await.unwrap();
        assert_eq!(query.write(&sink, 2, &[pairs(&[(Some("b"), 20)])]).await.unwrap(), Committed::Now, "{what}");
        assert_eq!(held(&path).await, expected, "{what}");
        assert_eq!(of_kind(&path, 3, "txn")[0]["version"], json!(2), "{what}: the merge came second");
        assert_eq!(orphans(&path), Vec::<String>::new(), "{what}");
    }
}

#[tokio::test]
async fn lost_responses_and_lost_races_merge_once_and_leave_nothing() {
    use Fault::{None, RaceLost, RequestLost, ResponseLost};
    for script in [
        &[None, ResponseLost] as &[Fault],
        &[None, RequestLost, RequestLost],
        &[None, RequestLost, ResponseLost],
        &[ResponseLost, RaceLost, RaceLost, ResponseLost],
        &[None, RequestLost, RaceLost, RequestLost, RaceLost],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out").to_str().unwrap().to_owned();
        let query = Query::to(&path).upserting(&["k"], Option::None);
        let sink = query.open_at(faulty(&path, script, usize::MAX), pairs(&[]).schema()).await.unwrap();
        for batch in 0..4 {
            let number = i32::try_from(batch).unwrap();
            let rows = pairs(&[(Some("a"), number), (Option::None, number), (Some("a"), number)]);
            assert_eq!(query.write(&sink, batch, &[rows]).await.unwrap(), Committed::Now, "{script:?}");
        }
        assert_eq!(held(&path).await, ["a=3", "null=0", "null=1", "null=2", "null=3"], "{script:?}");
        assert_eq!(orphans(&path), Vec::<String>::new(), "{script:?}");
    }
}

#[tokio::test]
async fn two_lives_of_one_query_merge_each_batch_once() {
    let Scene { _dir, path, query, sink } = scene(&["k"], None, &[]).await;
    let other = query.open(pairs(&[]).schema()).await.unwrap();
    for batch in 1..20 {
        let number = i32::try_from(batch).unwrap();
        let rows = [pairs(&[(Some("a"), number), (None, number)])];
        let (one, two) = tokio::join!(query.write(&sink, batch, &rows), query.write(&other, batch, &rows));
        let mut ends = [one.unwrap(), two.unwrap()].map(|end| format!("{end:?}"));
        ends.sort();
        assert_eq!(ends, ["Before", "Now"]);
    }
    assert_eq!((count(&path).await, orphans(&path)), (20, vec![]));
}

#[tokio::test]
async fn a_partitioned_table_is_touched_only_where_keys_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let mut query = Query::to(&path).upserting(&["p", "k"], None);
    query.partition_by = vec!["p".into()];
    let sink = query.open(triples(&[]).schema()).await.unwrap();
    query.write(&sink, 0, &[triples(&[("x/y z", 1, 1), ("x/y z", 2, 1), ("b", 1, 1), ("b", 9, 1)])]).await.unwrap();
    query.write(&sink, 1, &[triples(&[("x/y z", 2, 2), ("x/y z", 3, 2), ("b", 5, 2)])]).await.unwrap();
    let removed: Vec<Value> = of_kind(&path, 1, "remove").iter().map(|remove| remove["partitionValues"]["p"].clone()).collect();
    assert_eq!(removed, [json!("x/y z")], "the file of b holds no key of the batch");
    let all = "SELECT concat(p, ':', CAST(k AS STRING), '=', CAST(v AS STRING)) FROM t ORDER BY p, k";
    assert_eq!(texts(&path, all).await, ["b:1=1", "b:5=2", "b:9=1", "x/y z:1=1", "x/y z:2=2", "x/y z:3=2"]);
    // A row goes from one partition to another where the partition is no part of the key.
    let mut moving = Query::to(&path).upserting(&["k"], None);
    moving.partition_by = vec!["p".into()];
    let sink = moving.open(triples(&[]).schema()).await.unwrap();
    moving.write(&sink, 0, &[triples(&[("c", 1, 3), ("b", 2, 3)])]).await.unwrap();
    assert_eq!(texts(&path, all).await, ["b:2=3", "b:5=2", "b:9=1", "c:1=3", "x/y z:3=2"], "a key that was there twice is there once");
    assert_eq!(of_kind(&path, 2, "commitInfo")[0]["operationMetrics"]["numTargetRowsDeleted"], json!("1"));
    assert_eq!(orphans(&path), Vec::<String>::new());
}

#[tokio::test]
async fn added_columns_reach_rows_that_are_written_again() {
    let Scene { _dir, path, query, .. } = scene(&["k"], None, &[(Some("a"), 1), (Some("b"), 2)]).await;
    let wide = |key: &str, w: i64| {
        rows(vec![
            ("v", Arc::new(Int64Array::from(vec![7])) as ArrayRef),
            ("k", Arc::new(StringArray::from(vec![key])) as ArrayRef),
            ("w", Arc::new(Int64Array::from(vec![w])) as ArrayRef),
        ])
    };
    let wider = Query { id: query.id, ..Query::to(&path) }.upserting(&["k"], Some("w")).with("mergeSchema", "true");
    let sink = wider.open(wide("", 0).schema()).await.unwrap();
    wider.write(&sink, 1, &[wide("b", 5)]).await.unwrap();
    let all = "SELECT concat(k, ':', CAST(v AS STRING), ':', coalesce(CAST(w AS STRING), 'null')) FROM t ORDER BY k";
    assert_eq!(texts(&path, all).await, ["a:1:null", "b:7:5"]);
    wider.write(&sink, 2, &[wide("a", -3), wide("b", 4)]).await.unwrap();
    assert_eq!(texts(&path, all).await, ["a:7:-3", "b:7:5"], "null is the least of all order values");
    let error = query.open(pairs(&[]).schema()).await.map(drop).unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Config, "DELTA_MERGE_UNRESOLVED_EXPRESSION"));
    assert!(error.message().contains("`w`"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_merged_is_refused_at_the_door() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]);
    let schema = rows(vec![("key", Arc::new(Int32Array::from(vec![1])) as ArrayRef), ("list", Arc::new(list) as ArrayRef)]).schema();
    let refused = async |keys: &[&str], order: Option<&str>| {
        let mut error = Query::to(&path).upserting(keys, order).open(schema.clone()).await.map(drop).unwrap_err();
        (error.condition().to_owned(), error.message().to_owned(), error.take_place().field)
    };
    let (condition, text, field) = refused(&["keys"], None).await;
    assert_eq!((condition.as_str(), field.as_str()), ("DELTA_COLUMN_NOT_FOUND", "upsertKeys"));
    assert!(text.contains("did you mean `key`?"), "{text}");
    let (condition, text, field) = refused(&["key"], Some("list")).await;
    assert_eq!((condition.as_str(), field.as_str()), ("DATATYPE_MISMATCH.INVALID_ORDERING_TYPE", "upsertOrderBy"));
    assert!(text.contains("array<int>"), "{text}");
    assert_eq!(refused(&["key", "KEY"], None).await.0, "DELTA_DUPLICATE_COLUMNS_FOUND");
    assert!(!dir.path().join("out").exists());
}
