//! Tables made by Spark with features that reach into files and log: column mapping, identity columns, row tracking,
//! in-commit timestamps, clustering. Weir writes them, Spark reads them and goes on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, ListArray, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use arrow::record_batch::RecordBatch;
use deltalake_core::datafusion::prelude::SessionContext;
use serde_json::{Value, json};
use weir_connect::{Committed, Sink};
use weir_core::ErrorClass;
use weir_testkit::judge::Judge;
use weir_testkit::scratch;

use super::query::{Query, kv, rows, storage};

fn run(table: &Path, sql: &str) -> Vec<Vec<Value>> {
    Judge::shared().sql(&sql.replace("{t}", &format!("delta.`{}`", table.display())), &[]).unwrap().rows
}

fn pair(names: &[&str], value: i32) -> ArrayRef {
    let fields: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Int32, true)).collect();
    let columns = names.iter().map(|_| Arc::new(Int32Array::from(vec![value])) as ArrayRef).collect();
    Arc::new(StructArray::try_new(fields.into(), columns, None).unwrap())
}

fn mapped_row(value: i32, inner: &[&str]) -> Vec<(&'static str, ArrayRef)> {
    let element = pair(&["q"], value);
    let item = Arc::new(Field::new("item", element.data_type().clone(), true));
    let list = ListArray::try_new(item, arrow::buffer::OffsetBuffer::from_lengths([1]), element, None).unwrap();
    vec![
        ("k", Arc::new(StringArray::from(vec!["w"]))),
        ("a b", Arc::new(Int32Array::from(vec![value]))),
        ("st", pair(inner, value)),
        ("li", Arc::new(list)),
        ("p", Arc::new(StringArray::from(vec!["x/y"]))),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mapped_columns_are_written_under_their_physical_names() {
    let folder = scratch::folder("delta-mapped").unwrap();
    for mode in ["name", "id"] {
        let table = folder.path().join(mode);
        let run = |sql: &str| run(&table, sql);
        run(&format!(
            "CREATE TABLE {{t}} (k STRING, `a b` INT, st STRUCT<`x y`: INT>, li ARRAY<STRUCT<q: INT>>, p STRING) USING delta \
             PARTITIONED BY (p) TBLPROPERTIES('delta.columnMapping.mode'='{mode}')"
        ));
        run("INSERT INTO {t} VALUES ('s', 1, named_struct('x y', 1), array(named_struct('q', 1)), 'P')");
        let query = Query::to(&table).with_options(&BTreeMap::from([("mergeSchema".to_owned(), "true".to_owned())]));
        let plain = rows(mapped_row(2, &["x y"]));
        let sink = query.open(plain.schema()).await.unwrap();
        assert_eq!(query.write(&sink, 0, &plain).await.unwrap(), Committed::Now);
        // New columns, a nested one and one with a space, get ids and names of their own.
        let mut wider = mapped_row(3, &["x y", "in"]);
        wider.push(("new col", Arc::new(Int64Array::from(vec![30]))));
        let wider = rows(wider);
        let adding = query.open(wider.schema()).await.unwrap();
        assert_eq!(query.write(&adding, 1, &wider).await.unwrap(), Committed::Now);
        if mode == "name" {
            // Written alike; only who finds columns by name can tell.
            assert_eq!(run("SELECT sum(`a b`), max(st.`in`), max(li[0].q), max(`new col`) FROM {t}")[0], [6, 3, 3, 30].map(Value::from));
            continue;
        }
        run("ALTER TABLE {t} RENAME COLUMN `a b` TO ab");
        run("ALTER TABLE {t} ADD COLUMNS (late INT)");
        run("INSERT INTO {t} (k, ab, late, p) VALUES ('s', 4, 4, NULL)");
        let found = run("SELECT ab, k, p, st.`x y`, st.`in`, li[0].q, `new col`, late FROM {t}");
        let expected = [
            json!([1, "s", "P", 1, null, 1, null, null]),
            json!([2, "w", "x/y", 2, null, 2, null, null]),
            json!([3, "w", "x/y", 3, 3, 3, 30, null]),
            json!([4, "s", null, null, null, null, null, 4]),
        ];
        assert_eq!(found.into_iter().map(Value::Array).collect::<Vec<_>>(), expected, "{mode}");
        assert_eq!(run("SELECT count(*) FROM {t} WHERE `new col` = 30 AND p = 'x/y' AND st.`in` = 3"), [[json!(1)]]);
        let properties = run("SHOW TBLPROPERTIES {t} ('delta.columnMapping.maxColumnId')");
        assert_eq!(properties[0][1], json!("10"), "{mode}: seven columns, two of Weir's, one late");
        let context = SessionContext::new();
        let provider = weir_connect::delta::open_table(table.to_str().unwrap(), &BTreeMap::new(), &storage()).await.unwrap();
        context.register_table("t", provider).unwrap();
        let sums = context.sql("SELECT sum(ab), sum(\"new col\") FROM t").await.unwrap().collect().await.unwrap();
        let sum = |column: usize| sums[0].column(column).as_primitive::<Int64Type>().value(0);
        assert_eq!((sum(0), sum(1)), (10, 30));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_without_a_type_is_left_out_and_may_get_one() {
    let folder = scratch::folder("delta-void").unwrap();
    let table = folder.path().join("out");
    let run = |sql: &str| run(&table, sql);
    run("CREATE TABLE {t} (k STRING, v VOID, w INT) USING delta");
    let query = Query::to(&table);
    let narrow = rows(vec![("k", Arc::new(StringArray::from(vec!["a"]))), ("w", Arc::new(Int32Array::from(vec![1])))]);
    let sink = query.open(narrow.schema()).await.unwrap();
    assert_eq!(query.write(&sink, 0, &narrow).await.unwrap(), Committed::Now);
    assert_eq!(query.open(kv(&[]).schema()).await.err().unwrap().condition(), "DELTA_METADATA_MISMATCH");
    let typing = query.clone().with_options(&BTreeMap::from([("mergeSchema".to_owned(), "true".to_owned())]));
    let sink = typing.open(kv(&[]).schema()).await.unwrap();
    assert_eq!(typing.write(&sink, 1, &kv(&[("b", 2)])).await.unwrap(), Committed::Now);
    let found = Judge::shared().sql(&format!("SELECT k, v, w FROM delta.`{}`", table.display()), &[]).unwrap();
    assert_eq!((found.types.join(" "), json!(found.rows)), ("string int int".to_owned(), json!([["a", null, 1], ["b", 2, null]])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_columns_go_on_where_spark_stopped_and_none_is_given_twice() {
    let folder = scratch::folder("delta-identity").unwrap();
    let table = folder.path().join("out");
    let run = |sql: &str| run(&table, sql);
    run(
        "CREATE TABLE {t} (id BIGINT GENERATED ALWAYS AS IDENTITY, back BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 100 INCREMENT BY -5), \
         k STRING, v INT) USING delta",
    );
    run("INSERT INTO {t} (k, v) VALUES ('s', 1)");
    let query = Query::to(&table);
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    assert_eq!(query.write(&sink, 0, &kv(&[("w", 2), ("w", 3)])).await.unwrap(), Committed::Now);
    assert_eq!(query.write(&sink, 1, &kv(&[("w", 4)])).await.unwrap(), Committed::Now);
    run("INSERT INTO {t} (k, v) VALUES ('s', 5)");
    // The numbers of this attempt were given by Spark meanwhile.
    let late = query.write(&sink, 2, &kv(&[("w", 6)])).await.unwrap_err();
    assert_eq!((late.class(), late.condition()), (ErrorClass::Retryable, "DELTA_METADATA_CHANGED"));
    assert_eq!(query.write(&sink, 2, &kv(&[("w", 6)])).await.unwrap(), Committed::Now);
    run("INSERT INTO {t} (k, v) VALUES ('s', 7)");
    let found: Vec<Vec<i64>> =
        run("SELECT v, id, back FROM {t}").iter().map(|row| row.iter().map(|n| n.as_i64().unwrap()).collect()).collect();
    let expected: Vec<Vec<i64>> = (1..8).map(|n| vec![n, n, 105 - 5 * n]).collect();
    assert_eq!(found, expected);
    let with = |name: &'static str| -> RecordBatch {
        let mut columns: Vec<(&str, ArrayRef)> =
            vec![("k", Arc::new(StringArray::from(vec!["w"]))), ("v", Arc::new(Int32Array::from(vec![8])))];
        columns.push((name, Arc::new(Int64Array::from(vec![1_000]))));
        rows(columns)
    };
    let refused = query.open(with("id").schema()).await.err().unwrap();
    assert_eq!(refused.condition(), "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED");
    let giving = query.open(with("back").schema()).await.unwrap();
    assert_eq!(query.write(&giving, 3, &with("back")).await.unwrap(), Committed::Now);
    assert_eq!(run("SELECT id, back FROM {t} WHERE v = 8"), [[json!(8), json!(1_000)]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_ids_and_times_of_versions_are_carried_on() {
    let folder = scratch::folder("delta-tracked").unwrap();
    let table = folder.path().join("out");
    let run = |sql: &str| run(&table, sql);
    run("CREATE TABLE {t} (k STRING, v INT) USING delta CLUSTER BY (v) TBLPROPERTIES('delta.enableRowTracking'='true', \
         'delta.enableInCommitTimestamps'='true', 'delta.enableChangeDataFeed'='true')");
    run("INSERT INTO {t} VALUES ('s', 0)");
    let query = Query::to(&table);
    let mut sink = query.open(kv(&[]).schema()).await.unwrap();
    for batch in 0..12 {
        let v = i32::try_from(batch).unwrap();
        assert_eq!(query.write(&sink, batch, &kv(&[("w", 1 + 2 * v), ("w", 2 + 2 * v)])).await.unwrap(), Committed::Now);
        sink.maintain(batch).await.unwrap();
        match batch {
            // From a log checkpoint and from Spark's commits the counts are found again.
            4 | 10 => sink = query.open(kv(&[]).schema()).await.unwrap(),
            6 => drop(run("INSERT INTO {t} VALUES ('s', 100)")),
            _ => {}
        }
    }
    assert_eq!(
        run("SELECT count(*), count(DISTINCT _metadata.row_id), min(_metadata.row_id), max(_metadata.row_id) FROM {t}")[0],
        [26, 26, 0, 25].map(Value::from)
    );
    let versions = run("SELECT count(DISTINCT _metadata.row_commit_version) FROM {t}");
    assert_eq!(versions, [[json!(14)]]);
    let log = |version: u64| -> Value {
        let text = std::fs::read_to_string(table.join(format!("_delta_log/{version:020}.json"))).unwrap();
        serde_json::from_str::<Value>(text.lines().next().unwrap()).unwrap()["commitInfo"]["inCommitTimestamp"].clone()
    };
    let times: Vec<i64> = (0..15).map(|version| log(version).as_i64().unwrap()).collect();
    assert!(times.is_sorted_by(|before, after| before < after), "{times:?}");
    run("OPTIMIZE {t}");
    assert_eq!(query.write(&sink, 12, &kv(&[("w", 200)])).await.unwrap(), Committed::Now);
    assert_eq!(run("SELECT count(*), count(DISTINCT _metadata.row_id), sum(v) FROM {t}")[0], [27, 27, 600].map(Value::from));
    let mut upserting = Query::to(&table);
    upserting.upsert = Some(weir_connect::open::UpsertBy { keys: vec!["k".into()], order_by: None });
    let refused = upserting.open(kv(&[]).schema()).await.err().unwrap();
    assert!(refused.message().contains("tracks rows"), "{refused}");
    let context = SessionContext::new();
    let provider = weir_connect::delta::open_table(table.to_str().unwrap(), &BTreeMap::new(), &storage()).await.unwrap();
    context.register_table("t", provider).unwrap();
    let most = context.sql("SELECT max(v) FROM t").await.unwrap().collect().await.unwrap();
    assert_eq!(most[0].column(0).as_primitive::<Int32Type>().value(0), 200);
}
