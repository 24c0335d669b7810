//! Tables that Weir and Spark share: each reads what the other wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::builder::Int32Builder;
use arrow::array::{
    ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, ListArray, MapBuilder, StringArray, StringBuilder, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use arrow::record_batch::RecordBatch;
use deltalake_core::datafusion::prelude::SessionContext;
use serde_json::json;
use weir_connect::{Committed, Sink};
use weir_testkit::judge::{Input, Judge, OutputTo, Stream};
use weir_testkit::scratch;

use super::query::{Query, kv, rows, storage};

fn wide() -> RecordBatch {
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
    let pair = StructArray::try_new(vec![Field::new("a", DataType::Int32, true)].into(), vec![inner], None).unwrap();
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("x");
    map.values().append_value(1);
    map.append(true).unwrap();
    map.append(false).unwrap();
    rows(vec![
        ("s", Arc::new(StringArray::from(vec![Some("text"), None]))),
        ("i8", Arc::new(Int8Array::from(vec![Some(-1), None]))),
        ("i16", Arc::new(Int16Array::from(vec![Some(-2), None]))),
        ("i32", Arc::new(Int32Array::from(vec![Some(-3), None]))),
        ("i64", Arc::new(Int64Array::from(vec![Some(1 << 40), None]))),
        ("f32", Arc::new(Float32Array::from(vec![Some(0.5), None]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(1.5), None]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("bin", Arc::new(BinaryArray::from(vec![Some(b"\x00\xff".as_ref()), None]))),
        ("d", Arc::new(Date32Array::from(vec![Some(19_875), None]))),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![Some(1_717_236_000_123_456), None]).with_timezone("UTC"))),
        ("ntz", Arc::new(TimestampMicrosecondArray::from(vec![Some(1_717_236_000_123_456), None]))),
        ("dec", Arc::new(Decimal128Array::from(vec![Some(-12_345), None]).with_precision_and_scale(10, 2).unwrap())),
        ("st", Arc::new(pair)),
        ("li", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]))),
        ("ma", Arc::new(map.finish())),
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spark_reads_every_type() {
    let folder = scratch::folder("delta-types").unwrap();
    let table = folder.path().join("out");
    let query = Query::to(&table);
    let sink = query.open(wide().schema()).await.unwrap();
    query.write(&sink, 0, &wide()).await.unwrap();
    let judge = Judge::shared();
    let columns = "s, i8, i16, i32, i64, f32, f64, b, hex(bin) bin, d, CAST(ts AS STRING) ts, CAST(ntz AS STRING) ntz, CAST(dec AS STRING) dec, st.a, li, ma";
    let found = judge.query(&Input::at("delta", &table), &format!("SELECT {columns} FROM source WHERE s IS NOT NULL")).unwrap();
    let expected = json!([
        "text", -1, -2, -3, 1_099_511_627_776_i64, 0.5, 1.5, true, "00FF", "2024-06-01", "2024-06-01 10:00:00.123456",
        "2024-06-01 10:00:00.123456", "-123.45", 7, [1, null], {"x": 1}
    ]);
    assert_eq!(json!(found.rows[0]), expected);
    let nulls =
        judge.query(&Input::at("delta", &table), "SELECT count(*) FROM source WHERE s IS NULL AND ts IS NULL AND ma IS NULL").unwrap();
    assert_eq!(nulls.single().unwrap(), &json!(1));
    let types = judge.query(&Input::at("delta", &table), "SELECT * FROM source").unwrap().types;
    let expected = "string tinyint smallint int bigint float double boolean binary date timestamp timestamp_ntz decimal(10,2) struct<a:int> array<int> map<string,int>";
    assert_eq!(types.join(" "), expected);
    // Bounds of the statistics decide what Spark reads.
    for predicate in ["ts = TIMESTAMP'2024-06-01T10:00:00.123456Z'", "d = DATE'2024-06-01'", "dec = -123.45", "f32 = 0.5", "s = 'text'"] {
        let kept = judge.query(&Input::at("delta", &table), &format!("SELECT count(*) FROM source WHERE {predicate}")).unwrap();
        assert_eq!(kept.single().unwrap(), &json!(1), "{predicate}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_partition_values_are_read_by_spark() {
    let folder = scratch::folder("delta-partitions").unwrap();
    let table = folder.path().join("out put");
    let odd = ["x/y z", "a%2Fb", "ü|{}[]^", "a=b:c?d#e", "'\"\\*", ".", "日本", "+ &;@"];
    let mut query = Query::to(&table);
    query.partition_by = vec!["k".into(), "ts".into()];
    let keys: ArrayRef = Arc::new(StringArray::from(odd.to_vec()));
    let times: Vec<i64> = (0..8).map(|n| 1_717_236_000_000_001 + n).collect();
    let batch = rows(vec![
        ("k", keys),
        ("ts", Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC"))),
        ("v", Arc::new(Int32Array::from_iter_values(0..8))),
    ]);
    let sink = query.open(batch.schema()).await.unwrap();
    query.write(&sink, 0, &batch).await.unwrap();
    let found = Judge::shared().query(&Input::at("delta", &table), "SELECT v, k, CAST(ts AS STRING) FROM source").unwrap();
    let expected: Vec<_> =
        odd.iter().enumerate().map(|(n, k)| vec![json!(n), json!(k), json!(format!("2024-06-01 10:00:00.{:06}", n + 1))]).collect();
    assert_eq!(found.rows, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spark_reads_the_log_after_checkpoints_and_appends_between() {
    let folder = scratch::folder("delta-shared").unwrap();
    let table = folder.path().join("out");
    let query = Query::to(&table);
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    let judge = Judge::shared();
    for batch in 0..25 {
        assert_eq!(query.write(&sink, batch, &kv(&[("weir", i32::try_from(batch).unwrap())])).await.unwrap(), Committed::Now);
        sink.maintain(batch).await.unwrap();
        if batch % 8 == 3 {
            judge.write("SELECT 'spark' AS k, -1 AS v", &OutputTo::at("delta", &table), "append").unwrap();
        }
    }
    assert!(table.join("_delta_log/_last_checkpoint").exists());
    // The first entries are not needed any more.
    for version in 0..5 {
        std::fs::remove_file(table.join(format!("_delta_log/{version:020}.json"))).unwrap();
    }
    let copy = folder.path().join("copy");
    assert!(std::process::Command::new("cp").arg("-r").arg(&table).arg(&copy).status().unwrap().success());
    let found = judge.query(&Input::at("delta", &copy), "SELECT k, count(*), sum(v) FROM source GROUP BY k").unwrap();
    assert_eq!(found.rows, [vec![json!("spark"), json!(3), json!(-3)], vec![json!("weir"), json!(25), json!(300)]]);
    assert_eq!(judge.delta_transactions(&copy).unwrap(), BTreeMap::from([(query.id.to_string(), 24)]));
    let again = query.open(kv(&[]).schema()).await.unwrap();
    assert_eq!(again.recorded_batch(query.id).await.unwrap(), Some(24));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_spark_began_is_recorded_under_the_same_identifier() {
    let folder = scratch::folder("delta-moved").unwrap();
    let (input, table, checkpoint) = (folder.path().join("in"), folder.path().join("out"), folder.path().join("checkpoint"));
    std::fs::create_dir(&input).unwrap();
    std::fs::write(input.join("0.json"), "{\"k\":\"a\",\"v\":1}\n").unwrap();
    let source = Input::at("json", &input).schema("k STRING, v INT");
    let outcome = Judge::shared().stream(&Stream::available_now(source, OutputTo::at("delta", &table), &checkpoint)).unwrap();
    let mut query = Query::to(&table);
    query.id = outcome.id.parse().unwrap();
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    assert_eq!(sink.recorded_batch(query.id).await.unwrap(), Some(0));
    assert_eq!(query.write(&sink, 0, &kv(&[("a", 1)])).await.unwrap(), Committed::Before);
    assert_eq!(query.write(&sink, 1, &kv(&[("b", 2)])).await.unwrap(), Committed::Now);
    let found = Judge::shared().read_delta(&table).unwrap();
    assert_eq!(found.rows, [vec![json!("a"), json!(1)], vec![json!("b"), json!(2)]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_spark_deletes_and_alters_is_seen() {
    let folder = scratch::folder("delta-vectors").unwrap();
    let table = folder.path().join("out");
    let (path, judge) = (table.to_str().unwrap().to_owned(), Judge::shared());
    let run = |sql: &str| judge.sql(&sql.replace("{t}", &format!("delta.`{path}`")), &[]).unwrap();
    run("CREATE TABLE {t} (k STRING, v INT) USING delta TBLPROPERTIES('delta.enableDeletionVectors'='true')");
    run("INSERT INTO {t} SELECT 'old' AS k, CAST(id AS INT) AS v FROM range(10)");
    run("DELETE FROM {t} WHERE v < 4");
    let query = Query::to(&table);
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    query.write(&sink, 0, &kv(&[("new", 100)])).await.unwrap();
    let context = SessionContext::new();
    let provider = weir_connect::delta::open_table(&path, &BTreeMap::new(), &storage()).await.unwrap();
    assert_eq!(provider.schema().field(0).data_type(), &DataType::Utf8);
    context.register_table("t", provider).unwrap();
    let sum = async || {
        let found = context.sql("SELECT count(*), sum(v) FROM t").await.unwrap().collect().await.unwrap();
        let of = |column: usize| found[0].column(column).as_primitive::<Int64Type>().value(0);
        (of(0), of(1))
    };
    assert_eq!(sum().await, (7, 139));
    assert_eq!(run("SELECT count(*), sum(v) FROM {t}").rows, [[json!(7), json!(139)]]);
    // A column added by Spark costs the stream nothing; the static input sees new rows.
    run("ALTER TABLE {t} ADD COLUMNS (w STRING)");
    query.write(&sink, 1, &kv(&[("new", 1)])).await.unwrap();
    assert_eq!(sum().await, (8, 140));
    let early = BTreeMap::from([("versionAsOf".to_owned(), "1".to_owned())]);
    let fixed = SessionContext::new();
    fixed.register_table("t", weir_connect::delta::open_table(&path, &early, &storage()).await.unwrap()).unwrap();
    let found = fixed.sql("SELECT count(*) FROM t WHERE v < 4").await.unwrap().collect().await.unwrap();
    assert_eq!(found[0].column(0).as_primitive::<Int64Type>().value(0), 4);
    let missing = weir_connect::delta::open_table("/no/such/table", &BTreeMap::new(), &storage()).await.unwrap_err();
    assert_eq!(missing.condition(), "DELTA_TABLE_NOT_FOUND");
    run("ALTER TABLE {t} ADD CONSTRAINT pos CHECK (v >= 0)");
    // Rows that were written before the constraint was seen were not judged by it; the batch is run again.
    let unjudged = query.write(&sink, 2, &kv(&[("new", -1)])).await.unwrap_err();
    assert_eq!((unjudged.condition(), unjudged.class()), ("DELTA_METADATA_CHANGED", weir_core::ErrorClass::Retryable));
    let refused = query.write(&sink, 2, &kv(&[("new", -1)])).await.unwrap_err();
    assert_eq!(refused.condition(), "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES");
    query.write(&sink, 2, &kv(&[("new", 5)])).await.unwrap();
    assert_eq!(run("SELECT count(*), sum(v) FROM {t}").rows, [[json!(9), json!(145)]]);
}
