//! The file sink against Spark's layout and Weir's promises.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use arrow::array::{Int64Array, StringArray};
use arrow::datatypes::{DataType, Field};
use arrow::record_batch::RecordBatch;
use weir_core::ErrorClass;

use super::*;
use crate::testing::{sink_context, storage};

struct World {
    dir: tempfile::TempDir,
    query: uuid::Uuid,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), query: uuid::Uuid::new_v4() }
    }

    fn out(&self) -> std::path::PathBuf {
        self.dir.path().join("out")
    }

    async fn open_as(&self, query: uuid::Uuid, format: &str, options: &[(&str, &str)], partition_by: &[&str]) -> Result<FileSink> {
        let path = self.out().to_str().unwrap().to_owned();
        let own = [("path", path.as_str())];
        let options = options.iter().chain(&own).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let partition_by: Vec<String> = partition_by.iter().map(|name| (*name).to_owned()).collect();
        let context = sink_context(&self.dir.path().join("checkpoint"), query);
        let (schema, storage, conf) = (&schema(), &storage(), &BTreeMap::new());
        FileSink::open(
            &SinkSettings {
                format,
                options: &options,
                schema,
                partition_by: &partition_by,
                upsert: None,
                storage,
                conf,
                expressions: &crate::testing::expressions(),
            },
            &context,
        )
        .await
    }

    async fn open(&self, format: &str, options: &[(&str, &str)], partition_by: &[&str]) -> FileSink {
        self.open_as(self.query, format, options, partition_by).await.unwrap()
    }

    fn id(&self, batch: u64) -> BatchId {
        BatchId { query_id: self.query, batch, epoch: 1 }
    }

    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.out(), "", &mut found);
        found.sort();
        found
    }
}

fn walk(folder: &std::path::Path, below: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{below}{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            walk(&entry.path(), &format!("{name}/"), found);
        } else if !name.starts_with('_') {
            found.push(name);
        }
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("v", DataType::Int64, true)]))
}

fn rows(keys: &[Option<&str>]) -> RecordBatch {
    let values = Int64Array::from_iter_values(0..keys.len() as i64);
    RecordBatch::try_new(schema(), vec![Arc::new(StringArray::from(keys.to_vec())), Arc::new(values)]).unwrap()
}

async fn run(sink: &FileSink, id: &BatchId, keys: &[Option<&str>]) -> Committed {
    let mut writer = sink.writer(id, 0).await.unwrap();
    writer.write(rows(keys)).await.unwrap();
    let written = writer.finish().await.unwrap();
    assert_eq!(written.rows, keys.len() as u64);
    sink.commit(id, vec![written]).await.unwrap()
}

#[tokio::test]
async fn files_and_log_are_sparks() {
    let world = World::new();
    let sink = world.open("json", &[], &["k"]).await;
    assert_eq!(sink.description(), format!("FileSink[file:{}]", world.out().display()));
    assert_eq!(run(&sink, &world.id(0), &[Some("a/b"), None, Some("a/b")]).await, Committed::Now);
    let files = world.files();
    assert_eq!(files.len(), 2);
    assert!(files[0].starts_with("k=__HIVE_DEFAULT_PARTITION__/part-00000-"), "{files:?}");
    assert!(files[1].starts_with("k=a%2Fb/part-00000-") && files[1].ends_with(".c000.json"), "{files:?}");
    assert_eq!(std::fs::read_to_string(world.out().join(&files[1])).unwrap(), "{\"v\":0}\n{\"v\":2}\n");
    let log = std::fs::read_to_string(world.out().join("_spark_metadata/0")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[0], "v1");
    let expected = format!(
        r#"{{"path":"file://{}/{}","size":16,"isDir":false,"modificationTime":"#,
        world.out().display(),
        files[1].replace('%', "%25")
    );
    assert!(lines.iter().any(|line| line.starts_with(&expected)), "{log}");
    assert!(lines[1].ends_with(r#","blockReplication":1,"blockSize":33554432,"action":"add"}"#), "{log}");
}

#[tokio::test]
async fn a_recorded_batch_is_skipped_and_leaves_no_file() {
    let world = World::new();
    let sink = world.open("json", &[], &[]).await;
    assert_eq!(sink.recorded_batch(world.query).await.unwrap(), None);
    run(&sink, &world.id(0), &[Some("a")]).await;
    run(&sink, &world.id(1), &[Some("b")]).await;
    let before = world.files();
    assert!(before[0].ends_with("-c000.json"));
    let again = world.open("json", &[], &[]).await;
    assert_eq!(again.recorded_batch(world.query).await.unwrap(), Some(1));
    assert_eq!(run(&again, &world.id(1), &[Some("b")]).await, Committed::Before);
    assert_eq!(run(&again, &world.id(0), &[Some("a")]).await, Committed::Before);
    assert_eq!(world.files(), before);
}

#[tokio::test]
async fn a_log_that_lost_what_a_compaction_will_ask_for_is_refused_at_once() {
    let world = World::new();
    let sink = world.open("json", &[], &[]).await;
    assert!(sink.records_every_batch(), "a log that is gone is behind the checkpoint");
    for batch in 0..13 {
        run(&sink, &world.id(batch), &[Some("a")]).await;
    }
    let file = |name: &str| world.out().join("_spark_metadata").join(name);
    for (name, damage, condition) in [
        ("11", None, "MISSING_FILE_LOG"),
        ("9.compact", None, "MISSING_FILE_LOG"),
        ("9.compact", Some("v1\n{\"path\":\"file:/x\","), "DAMAGED_FILE_LOG"),
        ("12", Some(""), "DAMAGED_FILE_LOG"),
    ] {
        let whole = std::fs::read(file(name)).unwrap();
        match damage {
            None => std::fs::remove_file(file(name)).unwrap(),
            Some(text) => std::fs::write(file(name), text).unwrap(),
        }
        let error = world.open("json", &[], &[]).await.recorded_batch(world.query).await.unwrap_err();
        assert_eq!((error.condition(), error.message().contains(name)), (condition, true), "{error}");
        std::fs::write(file(name), whole).unwrap();
    }
    assert_eq!(world.open("json", &[], &[]).await.recorded_batch(world.query).await.unwrap(), Some(12));
    std::fs::remove_file(file("12")).unwrap();
    assert_eq!(world.open("json", &[], &[]).await.recorded_batch(world.query).await.unwrap(), Some(11));
}

#[tokio::test]
async fn another_query_is_refused() {
    let world = World::new();
    let late = world.open_as(uuid::Uuid::new_v4(), "json", &[], &[]).await.unwrap();
    let sink = world.open("json", &[], &[]).await;
    assert!(!world.out().exists(), "opening writes nothing");
    run(&sink, &world.id(0), &[Some("a")]).await;
    assert_eq!(late.commit(&world.id(1), Vec::new()).await.unwrap_err().class(), ErrorClass::Incompatible);
    let error = world.open_as(uuid::Uuid::new_v4(), "json", &[], &[]).await.err().unwrap();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "SINK_OWNED_BY_ANOTHER_QUERY"));
    assert!(error.message().contains("Write to a new path"));
}

#[tokio::test]
async fn bad_columns_are_refused_at_the_door() {
    let world = World::new();
    let error = world.open_as(world.query, "json", &[], &["nope"]).await.err().unwrap();
    assert_eq!(error.message(), "Partition column nope not found in existing columns (k, v).");
    assert!(world.open_as(world.query, "json", &[], &["k", "v"]).await.is_err());
    assert!(world.open_as(world.query, "text", &[], &[]).await.is_err());
    assert!(world.open_as(world.query, "text", &[], &["v"]).await.is_ok());
    assert!(world.open_as(world.query, "json", &[("compression", "bzip2")], &[]).await.is_err());
}

#[tokio::test]
async fn every_tenth_entry_holds_all() {
    let world = World::new();
    let sink = world.open("csv", &[("header", "true"), ("compression", "gzip")], &[]).await;
    for batch in 0..12 {
        run(&sink, &world.id(batch), &[Some("a")]).await;
        sink.maintain(batch).await.unwrap();
    }
    let compact = std::fs::read_to_string(world.out().join("_spark_metadata/9.compact")).unwrap();
    assert_eq!(compact.lines().count(), 11);
    assert!(world.out().join("_spark_metadata/11").exists());
    assert!(world.files()[0].ends_with("-c000.csv.gz"));
}

#[tokio::test]
async fn many_partitions_are_written_with_few_open_files() {
    let world = World::new();
    let sink = world.open("parquet", &[], &["k"]).await;
    let mut settings = WriteSettings { bounds: Bounds { open_files: 2, held_bytes: 1 }, ..copy(&sink.settings) };
    settings.folder = storage().open(world.out().to_str().unwrap()).unwrap();
    let mut writer: Box<dyn SinkWriter> = Box::new(FilesWriter::new(Arc::new(settings), 3));
    for _ in 0..2 {
        writer.write(rows(&[Some("a"), Some("b"), Some("c"), Some("d")])).await.unwrap();
    }
    let written = writer.finish().await.unwrap();
    assert_eq!(written.files.iter().map(|file| file.rows).sum::<u64>(), 8);
    assert!(written.files.len() >= 4);
    assert!(written.files[0].path.contains("/part-00003-") && written.files[0].path.ends_with(".c000.snappy.parquet"));
}

fn copy(settings: &WriteSettings) -> WriteSettings {
    WriteSettings {
        folder: settings.folder.clone(),
        data: settings.data.clone(),
        partitioner: settings.partitioner.clone(),
        options: settings.options.clone(),
        bounds: settings.bounds,
    }
}

#[tokio::test]
async fn a_failed_write_is_retryable_and_leaves_nothing() {
    let world = World::new();
    let sink = world.open("json", &[], &["k"]).await;
    // A file stands where the folder should be.
    std::fs::create_dir_all(world.out()).unwrap();
    std::fs::write(world.out().join("k=b"), "").unwrap();
    let mut writer = sink.writer(&world.id(0), 0).await.unwrap();
    writer.write(rows(&[Some("a"), Some("b")])).await.unwrap();
    let error = writer.finish().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Retryable);
    assert_eq!(world.files(), ["k=b"]);
    let mut writer = sink.writer(&world.id(0), 0).await.unwrap();
    writer.write(rows(&[Some("a")])).await.unwrap();
    writer.abort().await;
    assert_eq!(world.files(), ["k=b"]);
}

#[test]
fn columns_of_one_name_are_refused() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("A", DataType::Int32, true)]));
    assert_eq!(super::columns(&schema, &[]).unwrap_err().condition(), "COLUMN_ALREADY_EXISTS");
}

#[tokio::test]
async fn a_log_of_bad_records_goes_on_after_any_pause() {
    let world = World::new();
    let opened = || async {
        let mut sink = world.open("json", &[], &[]).await;
        sink.role = SinkRole::BadRecords;
        sink
    };
    let mut expected = 0;
    // Begun late, left for longer than a compaction, for less, and not at all.
    for (batch, batches) in [(25, 4), (57, 4), (62, 20)] {
        let sink = opened().await;
        for batch in batch..batch + batches {
            assert_eq!(run(&sink, &world.id(batch), &[Some("a")]).await, Committed::Now);
            assert_eq!(run(&sink, &world.id(batch), &[Some("a")]).await, Committed::Before);
            expected += 1;
        }
        let log = &opened().await.log;
        let latest = log.latest().await.unwrap().unwrap();
        assert_eq!(log.all(latest).await.unwrap().len(), expected, "{batch}");
    }
    assert_eq!(world.files().len(), expected);
}
