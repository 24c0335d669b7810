//! Every type through the sink and back, and the statistics on the way.

use arrow::array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, ListArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field};
use serde_json::json;

use super::*;

/// One column of each type, two rows, the second all null.
pub fn wide() -> RecordBatch {
    let strings = |texts: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(texts)) };
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
    let pair = StructArray::try_new(vec![Field::new("a", DataType::Int32, true)].into(), vec![inner], None).unwrap();
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    rows(vec![
        ("s", strings(vec![Some("text"), None])),
        ("i8", Arc::new(Int8Array::from(vec![Some(-1), None]))),
        ("i16", Arc::new(Int16Array::from(vec![Some(-2), None]))),
        ("i32", Arc::new(Int32Array::from(vec![Some(-3), None]))),
        ("i64", Arc::new(Int64Array::from(vec![Some(1 << 40), None]))),
        ("f32", Arc::new(Float32Array::from(vec![Some(0.1), None]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(1.5), None]))),
        ("nan", Arc::new(Float64Array::from(vec![Some(f64::NAN), None]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("bin", Arc::new(BinaryArray::from(vec![Some(b"\x00\xff".as_ref()), None]))),
        ("d", Arc::new(Date32Array::from(vec![Some(19_875), None]))),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![Some(1_717_236_000_123_456), None]).with_timezone("UTC"))),
        ("ntz", Arc::new(TimestampMicrosecondArray::from(vec![Some(1_717_236_000_123_456), None]))),
        ("dec", Arc::new(Decimal128Array::from(vec![Some(-12_345), None]).with_precision_and_scale(10, 2).unwrap())),
        ("big", Arc::new(Decimal128Array::from(vec![Some(10_i128.pow(30)), None]).with_precision_and_scale(38, 4).unwrap())),
        ("st", Arc::new(pair)),
        ("li", Arc::new(list)),
    ])
}

#[tokio::test]
async fn every_type_is_read_back_and_has_true_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let sink = query.open(wide().schema()).await.unwrap();
    query.write(&sink, 0, &[wide()]).await.unwrap();
    let found = sql(&path, "SELECT * FROM t").await;
    assert_eq!(found[0].num_rows(), 2);
    for (index, field) in wide().schema().fields().iter().enumerate().take(15) {
        assert_eq!(found[0].column(index), wide().column(index), "{}", field.name());
    }
    let entry = log(&path, 0);
    let protocol = entry.iter().find_map(|line| line.get("protocol")).unwrap();
    assert_eq!(protocol["readerFeatures"], json!(["timestampNtz"]));
    let add = entry.iter().find_map(|line| line.get("add")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
    let expected = [
        ("s", json!("text"), json!("text")),
        ("i8", json!(-1), json!(-1)),
        ("i64", json!(1_i64 << 40), json!(1_i64 << 40)),
        ("f32", json!(0.1), json!(0.1)),
        ("nan", json!(null), json!(null)),
        ("b", json!(null), json!(null)),
        ("bin", json!(null), json!(null)),
        ("d", json!("2024-06-01"), json!("2024-06-01")),
        ("ts", json!("2024-06-01T10:00:00.123Z"), json!("2024-06-01T10:00:00.124Z")),
        ("ntz", json!("2024-06-01T10:00:00.123"), json!("2024-06-01T10:00:00.124")),
        ("dec", json!(-123.45), json!(-123.45)),
        ("big", json!(null), json!(null)),
        ("st", json!({"a": 7}), json!({"a": 7})),
        ("li", json!(null), json!(null)),
    ];
    for (column, min, max) in expected {
        let of = |values: &str| stats[values].get(column).cloned().unwrap_or_default();
        assert_eq!((of("minValues"), of("maxValues")), (min, max), "{column}");
    }
    assert_eq!((&stats["numRecords"], &stats["nullCount"]["s"], &stats["nullCount"]["st"]["a"]), (&json!(2), &json!(1), &json!(1)));
}

#[tokio::test]
async fn values_are_cast_to_the_tables_types_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let first = Query::to(&path);
    let sink = first.open(kv(&[]).schema()).await.unwrap();
    first.write(&sink, 0, &[kv(&[("a", 1)])]).await.unwrap();
    let texts = |value: &str| -> RecordBatch {
        rows(vec![("k", Arc::new(StringArray::from(vec!["b"])) as ArrayRef), ("v", Arc::new(StringArray::from(vec![value])))])
    };
    let query = Query::to(&path);
    let casting = query.open(texts("").schema()).await.unwrap();
    query.write(&casting, 0, &[texts("41")]).await.unwrap();
    let error = query.write(&casting, 1, &[texts("x")]).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Config, "TASK_WRITE_FAILED"));
    assert!(error.to_string().contains("column `v`"), "{error}");
    let wide = rows(vec![("v", Arc::new(Int64Array::from(vec![1_i64 << 40])) as ArrayRef)]);
    let query = Query::to(&path);
    let narrowing = query.open(wide.schema()).await.unwrap();
    assert!(query.write(&narrowing, 0, &[wide]).await.is_err());
    let found = sql(&path, "SELECT sum(v) FROM t").await;
    assert_eq!(found[0].column(0).as_primitive::<Int64Type>().value(0), 42);
}

#[tokio::test]
async fn long_strings_have_bounds_that_hold() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let long = "z".repeat(200);
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    query.write(&sink, 0, &[kv(&[(&long, 1), ("ü", 2), ("", 3)])]).await.unwrap();
    let found = sql(&path, &format!("SELECT v FROM t WHERE k >= '{long}' ORDER BY v")).await;
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    let entry = log(&path, 0);
    let add = entry.iter().find_map(|line| line.get("add")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
    assert_eq!((&stats["minValues"]["k"], &stats["maxValues"]["k"]), (&json!(""), &json!("ü")));
}

#[tokio::test]
async fn many_partitions_and_sizes_stay_within_the_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let mut query = Query::to(&path).with("maxRecordsPerFile", "100");
    query.partition_by = vec!["k".into()];
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    let names: Vec<String> = (0..100).map(|n| format!("p{n}")).collect();
    let slice: Vec<(&str, i32)> = (0..5_000).map(|n| (names[n % 100].as_str(), 1)).collect();
    let id = query.batch(0);
    let mut writer = sink.writer(&id, 0).await.unwrap();
    for _ in 0..6 {
        writer.write(kv(&slice)).await.unwrap();
    }
    let part = writer.finish().await.unwrap();
    assert_eq!(part.rows, 30_000);
    assert!(part.files.iter().all(|file| file.rows <= 100));
    assert_eq!(part.files.iter().map(|file| file.rows).sum::<u64>(), 30_000);
    sink.commit(&id, vec![part]).await.unwrap();
    assert_eq!(count(&path).await, 30_000);
    let mut dropped = sink.writer(&query.batch(1), 0).await.unwrap();
    dropped.write(kv(&slice)).await.unwrap();
    dropped.abort().await;
    let files = |folder: &str| std::fs::read_dir(format!("{path}/{folder}")).unwrap().count();
    assert_eq!((0..100).map(|n| files(&format!("k=p{n}"))).sum::<usize>(), log(&path, 0).iter().filter(|l| l.get("add").is_some()).count());
}
