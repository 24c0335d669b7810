//! The sink against a real folder: what is committed, recorded, refused.

#![allow(clippy::unwrap_used)]

mod damage;
mod faults;
mod rules;
mod types;
mod upsert;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{Int32Type, Int64Type, SchemaRef};
use arrow::record_batch::RecordBatch;
use deltalake_core::datafusion::prelude::SessionContext;
use uuid::Uuid;
use weir_core::ErrorClass;
use weir_core::storage::{Durability, Storage};

use super::location::TableLocation;
use super::options::SinkOptions;
use super::sink::{DeltaSink, SinkColumns};
use crate::open::{SinkContext, SinkRole, SinkSettings, UpsertBy};
use crate::sink::{BatchId, Committed, Sink};
use crate::testing::{expressions, sink_context};

pub fn storage() -> Storage {
    Storage::new(Durability::PageCache)
}

pub fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

pub fn kv(values: &[(&str, i32)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(|(k, _)| k)));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(values.iter().map(|(_, v)| *v)));
    rows(vec![("k", keys), ("v", numbers)])
}

pub struct Query {
    pub id: Uuid,
    pub options: BTreeMap<String, String>,
    pub partition_by: Vec<String>,
    pub upsert: Option<UpsertBy>,
}

impl Query {
    pub fn to(path: &str) -> Self {
        Self { id: Uuid::new_v4(), options: BTreeMap::from([("path".to_owned(), path.to_owned())]), partition_by: vec![], upsert: None }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.options.insert(name.into(), value.into());
        self
    }

    pub fn upserting(mut self, keys: &[&str], order: Option<&str>) -> Self {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        self.upsert = Some(UpsertBy { keys, order_by: order.map(str::to_owned) });
        self
    }

    pub async fn open_at(&self, location: TableLocation, schema: SchemaRef) -> weir_core::Result<DeltaSink> {
        let options = SinkOptions { upsert: self.upsert.clone(), ..SinkOptions::parse(&self.options, &BTreeMap::new())? };
        let columns = SinkColumns { query: schema, partition_by: self.partition_by.clone(), expressions: expressions() };
        DeltaSink::open(location, options, columns, self.id).await
    }

    pub async fn open(&self, schema: SchemaRef) -> weir_core::Result<DeltaSink> {
        self.open_at(TableLocation::in_folder(&storage().open(&self.options["path"])?), schema).await
    }

    pub fn batch(&self, batch: u64) -> BatchId {
        BatchId { query_id: self.id, batch, epoch: 1 }
    }

    pub async fn write(&self, sink: &DeltaSink, batch: u64, slices: &[RecordBatch]) -> weir_core::Result<Committed> {
        let id = self.batch(batch);
        let mut writer = sink.writer(&id, 0).await?;
        for slice in slices {
            writer.write(slice.clone()).await?;
        }
        let part = writer.finish().await?;
        sink.commit(&id, vec![part]).await
    }
}

pub async fn sql(path: &str, query: &str) -> Vec<RecordBatch> {
    let context = SessionContext::new();
    let table = super::open_table(path, &BTreeMap::new(), &storage()).await.unwrap();
    context.register_table("t", table).unwrap();
    context.sql(query).await.unwrap().collect().await.unwrap()
}

pub async fn count(path: &str) -> i64 {
    sql(path, "SELECT count(*) FROM t").await[0].column(0).as_primitive::<Int64Type>().value(0)
}

pub fn log(path: &str, version: u64) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(format!("{path}/{}", super::location::commit_name(version))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn data_files(path: &str) -> usize {
    std::fs::read_dir(path).unwrap().filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().ends_with(".parquet")).count()
}

#[tokio::test]
async fn a_column_that_the_table_lacks_is_refused_before_anything_runs_unless_it_may_be_added() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let wider = rows(vec![("k", Arc::new(StringArray::from(vec!["a"])) as ArrayRef), ("w", Arc::new(Int32Array::from(vec![1])))]);
    let (schema, storage, conf) = (&wider.schema(), &storage(), &BTreeMap::new());
    let check = async |query: &Query| {
        super::check_table(&SinkSettings {
            format: "delta",
            options: &query.options,
            schema,
            partition_by: &[],
            upsert: None,
            storage,
            conf,
            expressions: &expressions(),
        })
        .await
    };
    let query = Query::to(&path);
    check(&query).await.unwrap();
    assert!(!dir.path().join("out").exists(), "looking makes nothing");
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    query.write(&sink, 0, &[kv(&[("a", 0)])]).await.unwrap();
    let (checked, opened) = (check(&query).await.unwrap_err(), query.open(wider.schema()).await.err().unwrap());
    assert_eq!(checked.to_string(), opened.to_string(), "the check says what the task would say");
    assert_eq!((checked.class(), checked.condition()), (ErrorClass::Config, "DELTA_METADATA_MISMATCH"));
    assert!(checked.message().contains("`w`") && checked.message().contains("mergeSchema: \"true\""), "{checked}");
    check(&Query::to(&path).with("mergeSchema", "true")).await.unwrap();
    // Nobody is asked over the network.
    check(&Query::to("s3://no-such-bucket/out")).await.unwrap();
}

#[tokio::test]
async fn a_batch_is_appended_once_however_often_it_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let schema = kv(&[]).schema();
    let sink = query.open(schema.clone()).await.unwrap();
    assert_eq!(sink.identity().table_id, None);
    assert_eq!(sink.recorded_batch(query.id).await.unwrap(), None);
    assert_eq!(query.write(&sink, 0, &[kv(&[("a", 0), ("b", 1)])]).await.unwrap(), Committed::Now);
    assert_eq!(query.write(&sink, 1, &[kv(&[("c", 2)])]).await.unwrap(), Committed::Now);
    assert_eq!(query.write(&sink, 1, &[kv(&[("c", 2)])]).await.unwrap(), Committed::Before);
    assert_eq!(query.write(&sink, 2, &[]).await.unwrap(), Committed::Now);
    assert_eq!(sink.recorded_batch(query.id).await.unwrap(), Some(2));
    let again = query.open(schema).await.unwrap();
    assert_eq!(again.recorded_batch(query.id).await.unwrap(), Some(2));
    assert!(again.identity().table_id.is_some());
    assert_eq!(query.write(&again, 0, &[kv(&[("a", 0)])]).await.unwrap(), Committed::Before);
    assert_eq!(count(&path).await, 3);
    assert_eq!(data_files(&path), 2, "files of skipped batches are deleted");
    assert_eq!(again.description(), format!("DeltaSink[{path}]"));
    let bad_records = SinkContext { role: SinkRole::BadRecords, ..sink_context(dir.path(), query.id) };
    let options = SinkOptions::parse(&query.options, &BTreeMap::new()).unwrap();
    let location = TableLocation::in_folder(&storage().open(&path).unwrap());
    let columns = SinkColumns { query: kv(&[]).schema(), partition_by: vec![], expressions: expressions() };
    let other = DeltaSink::open(location, options, columns, bad_records.transaction_id()).await.unwrap();
    assert_eq!(other.recorded_batch(query.id).await.unwrap(), None, "another sink of the query has a record of its own");
    assert_eq!(query.write(&other, 1, &[kv(&[("x", 9)])]).await.unwrap(), Committed::Now);
    assert_eq!((other.recorded_batch(query.id).await.unwrap(), again.recorded_batch(query.id).await.unwrap()), (Some(1), Some(2)));
}

#[tokio::test]
async fn a_table_deleted_or_replaced_is_incompatible() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    for batch in 0..3 {
        query.write(&sink, batch, &[kv(&[("a", 0)])]).await.unwrap();
    }
    std::fs::remove_dir_all(&path).unwrap();
    let error = query.write(&sink, 3, &[kv(&[("a", 0)])]).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "DELTA_TABLE_REPLACED"));
    std::fs::remove_dir_all(&path).unwrap();
    let other = Query::to(&path);
    let replacement = other.open(kv(&[]).schema()).await.unwrap();
    for batch in 0..5 {
        other.write(&replacement, batch, &[kv(&[("z", 0)])]).await.unwrap();
    }
    let error = query.write(&sink, 3, &[kv(&[("a", 0)])]).await.unwrap_err();
    assert!(error.to_string().contains("was replaced by another one"), "{error}");
    assert_eq!(count(&path).await, 5);
}

#[tokio::test]
async fn merge_schema_adds_columns_to_a_partitioned_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let mut query = Query::to(&path);
    query.partition_by = vec!["k".into()];
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    query.write(&sink, 0, &[kv(&[("a", 0)])]).await.unwrap();
    let wide = rows(vec![
        ("K", Arc::new(StringArray::from(vec!["b"]))),
        ("v", Arc::new(Int64Array::from(vec![1]))),
        ("w", Arc::new(Int32Array::from(vec![2]))),
    ]);
    let error = query.open(wide.schema()).await.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`w`") && error.contains("mergeSchema"), "{error}");
    let query = Query { id: query.id, ..Query::to(&path) }.with("mergeSchema", "true");
    let merging = query.open(wide.schema()).await.unwrap();
    query.write(&merging, 1, std::slice::from_ref(&wide)).await.unwrap();
    query.write(&merging, 2, &[wide]).await.unwrap();
    let entry = log(&path, 1);
    let metadata = entry.iter().find_map(|line| line.get("metaData")).unwrap();
    assert!(metadata["schemaString"].as_str().unwrap().contains("\"w\""));
    assert!(log(&path, 2).iter().all(|line| line.get("metaData").is_none()));
    // The first writer goes on with the columns it knows.
    query.write(&sink, 3, &[kv(&[("c", 5)])]).await.unwrap();
    let found = sql(&path, "SELECT sum(v), sum(w), count(distinct k) FROM t").await;
    assert_eq!(found[0].column(0).as_primitive::<Int64Type>().value(0), 7);
    assert_eq!(found[0].column(1).as_primitive::<Int64Type>().value(0), 4);
    assert_eq!(found[0].column(2).as_primitive::<Int64Type>().value(0), 3);
}

#[tokio::test]
async fn partition_values_with_special_characters_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out with space").to_str().unwrap().to_owned();
    let mut query = Query::to(&path);
    query.partition_by = vec!["k".into()];
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    let odd = ["x/y z", "a%2Fb", "ü|{}[]^", "a=b:c?d#e", "'\"\\*", ".", "日本", "+ &;@"];
    let values: Vec<(&str, i32)> = odd.iter().copied().zip(0..).collect();
    query.write(&sink, 0, &[kv(&values)]).await.unwrap();
    let found = sql(&path, "SELECT k, v FROM t ORDER BY v").await;
    let mut seen = Vec::new();
    for batch in &found {
        let keys = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8).unwrap();
        for row in 0..batch.num_rows() {
            seen.push((keys.as_string::<i32>().value(row).to_owned(), batch.column(1).as_primitive::<Int32Type>().value(row)));
        }
    }
    let expected: Vec<(String, i32)> = values.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_damaged_or_unknown_table_is_refused_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let schema = kv(&[]).schema();
    let sink = query.open(schema.clone()).await.unwrap();
    query.write(&sink, 0, &[kv(&[("a", 0)])]).await.unwrap();
    let next = format!("{path}/{}", super::location::commit_name(1));
    std::fs::write(&next, "{\"commitInfo\":").unwrap();
    let error = query.write(&sink, 1, &[kv(&[("a", 0)])]).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "DELTA_LOG_DAMAGED"));
    let newer =
        r#"{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["fromTheFuture"],"writerFeatures":["fromTheFuture"]}}"#;
    std::fs::write(&next, newer).unwrap();
    let error = query.write(&sink, 1, &[kv(&[("a", 0)])]).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Config, "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"));
    let error = query.open(schema).await.map(|_| ()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Config, "{error}");
    let error = super::open_table(&path, &BTreeMap::new(), &storage()).await.map(|_| ()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Config, "{error}");
}
