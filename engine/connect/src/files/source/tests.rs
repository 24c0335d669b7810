//! The file source against Spark's golden cases and rules.
#![allow(clippy::unwrap_used)]

mod mutations;

use std::path::Path as OsPath;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;

use weir_decode::time::Zone;

use super::*;
use crate::render::{Purpose, render};
use crate::testing::{source_context, source_place};

/// A folder of files and a checkpoint.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("in")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn input(&self) -> String {
        self.path("in").to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str, mtime_ms: u64, lines: &[&str]) {
        let path = self.path("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, text).unwrap();
        touch(&path, mtime_ms);
    }

    async fn open(&self, format: &str, options: &[(&str, &str)], schema: Option<SchemaRef>) -> Result<FileStreamSource> {
        let path = self.input();
        let own = [("path", path.as_str())];
        let options = Options::new(options.iter().chain(&own).map(|(k, v)| (*k, *v)));
        let stream = FileStream::prepare(format, &options, schema, source_context()).await?;
        FileStreamSource::new(stream, source_place(&self.path("checkpoint"))).await
    }

    async fn started(&self, format: &str, options: &[(&str, &str)], schema: Option<SchemaRef>, last: Option<&str>) -> FileStreamSource {
        let mut source = self.open(format, options, schema).await.unwrap();
        source.open(last.map(Offset::new).as_ref()).await.unwrap();
        source
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path("checkpoint/sources/0").join(name)).unwrap()
    }
}

fn touch(path: &OsPath, mtime_ms: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(mtime_ms)).unwrap();
}

fn events() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("k", DataType::Utf8, true),
        Field::new("v", DataType::Int64, true),
    ]))
}

fn columns(source: &FileStreamSource) -> Vec<Field> {
    let schema = source.schema();
    let shown = schema.fields().iter().filter(|field| field.name() != "_metadata");
    shown.map(|field| field.as_ref().clone()).collect()
}

fn scan(source: &FileStreamSource, max_rows: usize) -> Scan {
    Scan { columns: (0..columns(source).len()).collect(), max_rows, max_bytes: 1 << 20 }
}

fn print(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let mut text = String::new();
            for (at, column) in batch.columns().iter().enumerate() {
                text.push_str(if at > 0 { "|" } else { "" });
                render(column, row, &Zone::UTC, Purpose::Cast, &mut text);
            }
            rows.push(text);
        }
    }
    rows.sort();
    rows
}

async fn rows_between(source: &mut FileStreamSource, start: Option<&Offset>, end: &Offset, max_rows: usize) -> Result<Vec<String>> {
    let scan = scan(source, max_rows);
    let mut batches = Vec::new();
    for mut reader in source.partitions(start, end, &scan).await? {
        while let Some(batch) = reader.next().await? {
            assert!(batch.num_rows() <= max_rows);
            batches.push(batch);
        }
    }
    Ok(print(&batches))
}

/// Runs batches as the driver does until nothing is new.
async fn drain(source: &mut FileStreamSource, mut start: Option<Offset>, limits: ReadLimits) -> Vec<(String, Vec<String>)> {
    let mut batches = Vec::new();
    loop {
        let planned = source.plan(start.as_ref(), limits, 0).await.unwrap();
        let Some(end) = planned.end.filter(|end| Some(end) != start.as_ref()) else { return batches };
        let rows = rows_between(source, start.as_ref(), &end, 2).await.unwrap();
        batches.push((end.json().to_owned(), rows));
        source.commit(&end).await.unwrap();
        start = Some(end);
    }
}

fn five_files(world: &World) {
    world.file(
        "0.json",
        1_700_000_001_000,
        &[r#"{"ts": "2024-01-01 00:00:00", "k": "a", "v": 1}"#, r#"{"ts": "2024-01-01 00:00:05", "k": "b", "v": 2}"#],
    );
    world.file("1.json", 1_700_000_002_000, &[r#"{"ts": "2024-01-01 00:00:12", "k": "a", "v": 3}"#]);
    world.file("2.json", 1_700_000_003_000, &[r#"{"ts": "2024-01-01 00:00:31", "k": "a", "v": 4}"#]);
}

#[tokio::test]
async fn available_now_takes_one_file_per_batch() {
    let world = World::new();
    five_files(&world);
    let mut source = world.started("json", &[("maxFilesPerTrigger", "1")], Some(events()), None).await;
    assert_eq!(source.description(), format!("FileStreamSource[file:{}]", world.input()));
    assert_eq!(source.freeze_available_now().await.unwrap(), AvailableNow::Frozen);
    // A file that comes later belongs to the next run.
    world.file("9.json", 1_700_000_000_500, &[r#"{"k":"late"}"#]);
    let batches = drain(&mut source, None, ReadLimits::Apply).await;
    let ends: Vec<&str> = batches.iter().map(|(end, _)| end.as_str()).collect();
    assert_eq!(ends, [r#"{"logOffset":0}"#, r#"{"logOffset":1}"#, r#"{"logOffset":2}"#]);
    assert_eq!(batches[0].1, ["2024-01-01 00:00:00|a|1", "2024-01-01 00:00:05|b|2"]);
    let expected =
        format!(r#"v1{}{{"path":"file://{}/0.json","timestamp":1700000001000,"batchId":0,"weirChecksum":""#, "\n", world.input());
    assert!(world.log("0").starts_with(&expected) && world.log("0").ends_with("\"}"), "{}", world.log("0"));
    let mut next = world.started("json", &[("maxFilesPerTrigger", "1")], Some(events()), Some(r#"{"logOffset":2}"#)).await;
    next.freeze_available_now().await.unwrap();
    let batches = drain(&mut next, Some(Offset::new(r#"{"logOffset":2}"#)), ReadLimits::Apply).await;
    assert_eq!(batches, [(r#"{"logOffset":3}"#.to_owned(), vec!["null|late|null".to_owned()])]);
}

#[tokio::test]
async fn a_run_that_ends_takes_each_file_once_beside_a_step_of_an_earlier_life() {
    let world = World::new();
    for name in ["1", "2", "3", "4"] {
        world.file(&format!("{name}.json"), 1000 * name.parse::<u64>().unwrap(), &[&format!(r#"{{"k":"{name}"}}"#)]);
    }
    // It listed before this one came, with an old time.
    world.file("0.json", 500, &[r#"{"k":"0"}"#]);
    let mut source = world.started("json", &[("maxFilesPerTrigger", "2")], Some(events()), None).await;
    source.freeze_available_now().await.unwrap();
    std::fs::create_dir_all(world.path("checkpoint/sources/0")).unwrap();
    let line = |name: u64| format!("\n{{\"path\":\"file://{}/{name}.json\",\"timestamp\":{},\"batchId\":0}}", world.input(), 1000 * name);
    std::fs::write(world.path("checkpoint/sources/0/0"), format!("v1{}{}", line(1), line(2))).unwrap();
    let batches = drain(&mut source, None, ReadLimits::Apply).await;
    let rows: Vec<Vec<String>> = batches.into_iter().map(|(_, rows)| rows).collect();
    assert_eq!(rows, [vec!["null|1|null", "null|2|null"], vec!["null|0|null", "null|3|null"], vec!["null|4|null"]]);
}

#[tokio::test]
async fn once_ignores_limits() {
    let world = World::new();
    five_files(&world);
    let mut source = world.started("json", &[("maxFilesPerTrigger", "1")], Some(events()), None).await;
    let batches = drain(&mut source, None, ReadLimits::Ignore).await;
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].1.len(), 4);
}

#[tokio::test]
async fn a_planned_step_means_the_same_files_after_a_restart() {
    let world = World::new();
    five_files(&world);
    let options = [("maxFilesPerTrigger", "1")];
    let mut source = world.started("json", &options, Some(events()), None).await;
    let first = source.plan(None, ReadLimits::Apply, 0).await.unwrap().end.unwrap();
    // The process dies after the source log and before the offset log.
    let mut again = world.started("json", &options, Some(events()), None).await;
    assert_eq!(rows_between(&mut again, None, &first, 10).await.unwrap().len(), 2);
    let end = again.plan(None, ReadLimits::Apply, 0).await.unwrap().end.unwrap();
    assert_eq!(end.json(), r#"{"logOffset":1}"#);
    assert_eq!(rows_between(&mut again, None, &end, 10).await.unwrap().len(), 3);
    let backlog = again.backlog(Some(&end), 1_700_000_013_000).await.unwrap();
    assert_eq!((backlog.files, backlog.seconds), (Some(1), Some(10.0)));
}

#[tokio::test]
async fn a_log_entry_of_an_earlier_life_wins() {
    let world = World::new();
    world.file("a.json", 1000, &[r#"{"k":"a"}"#]);
    world.file("b.json", 2000, &[r#"{"k":"b"}"#]);
    let mut source = world.started("json", &[], Some(events()), None).await;
    std::fs::create_dir_all(world.path("checkpoint/sources/0")).unwrap();
    let line = format!(r#"v1{}{{"path":"file://{}/a.json","timestamp":1000,"batchId":0}}"#, "\n", world.input());
    std::fs::write(world.path("checkpoint/sources/0/0"), line).unwrap();
    let batches = drain(&mut source, None, ReadLimits::Apply).await;
    assert_eq!(batches[0].1, ["null|a|null"]);
    assert_eq!(batches[1].1, ["null|b|null"]);
}

#[tokio::test]
async fn malformed_lines_are_null_rows() {
    let world = World::new();
    world.file(
        "0.json",
        1000,
        &[r#"{"ts":"2024-01-01 00:00:00","k":"a","v":1}"#, "{bad", r#"{"ts":null,"k":"n","v":2}"#, r#"{"k":"m","v":"notanumber"}"#],
    );
    let mut source = world.started("json", &[], Some(events()), None).await;
    let batches = drain(&mut source, None, ReadLimits::Apply).await;
    assert_eq!(batches[0].1, ["2024-01-01 00:00:00|a|1", "null|m|null", "null|null|null", "null|n|2"]);
}

#[tokio::test]
async fn an_empty_file_is_a_batch_without_rows() {
    let world = World::new();
    world.file("0.json", 1000, &[]);
    world.file("1.json", 2000, &[r#"{"k":"a"}"#]);
    let mut source = world.started("json", &[("maxFilesPerTrigger", "1")], Some(events()), None).await;
    let batches = drain(&mut source, None, ReadLimits::Apply).await;
    assert!(batches[0].1.is_empty());
    assert_eq!(batches[1].1.len(), 1);
}

#[tokio::test]
async fn a_schema_is_needed_unless_it_may_be_inferred() {
    let world = World::new();
    world.file("0.json", 1000, &[r#"{"k":"a","v":1}"#]);
    let error = world.open("json", &[], None).await.err().unwrap();
    assert_eq!(error.condition(), "_LEGACY_ERROR_TEMP_2048");
    let mut context = source_context();
    context.conf.insert("spark.sql.streaming.schemaInference".into(), "true".into());
    let options = Options::new([("path", world.input())]);
    let source = FileStream::prepare("json", &options, None, context).await.unwrap();
    assert_eq!(source.schema().field(1).data_type(), &DataType::Int64);
}

#[tokio::test]
async fn text_and_csv_are_sparks() {
    let world = World::new();
    world.file("0.txt", 1000, &["x", "", "y"]);
    let mut source = world.started("text", &[], None, None).await;
    assert_eq!(drain(&mut source, None, ReadLimits::Apply).await[0].1, ["", "x", "y"]);
    let world = World::new();
    world.file("0.csv", 1000, &["k,v", "a,1", "b,x"]);
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("v", DataType::Int32, true)]));
    let mut source = world.started("csv", &[("header", "true")], Some(schema), None).await;
    assert_eq!(drain(&mut source, None, ReadLimits::Apply).await[0].1, ["a|1", "b|null"]);
}

#[tokio::test]
async fn partition_folders_are_columns() {
    let world = World::new();
    world.file("day=2024-01-01/k=x/0.json", 1000, &[r#"{"v":1}"#]);
    world.file("day=2024-01-02/k=__HIVE_DEFAULT_PARTITION__/0.json", 2000, &[r#"{"v":2}"#]);
    world.file("day=2024-01-02/_hidden/0.json", 2000, &[r#"{"v":3}"#]);
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true), Field::new("k", DataType::Utf8, true)]));
    let mut source = world.started("json", &[], Some(schema), None).await;
    let names: Vec<String> = columns(&source).iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect();
    assert_eq!(names, ["v Int64", "day Date32", "k Utf8"]);
    assert_eq!(drain(&mut source, None, ReadLimits::Apply).await[0].1, ["1|2024-01-01|x", "2|2024-01-02|null"]);
}

#[tokio::test]
async fn compaction_keeps_what_was_seen_and_cleaning_deletes() {
    let world = World::new();
    let options = [("maxFilesPerTrigger", "1"), ("cleanSource", "delete")];
    let mut source = world.started("json", &options, Some(events()), None).await;
    for n in 0..25u64 {
        world.file(&format!("f {n:02}.json"), 1_000_000 + n * 1000, &[r#"{"k":"a"}"#]);
    }
    let batches = drain(&mut source, None, ReadLimits::Apply).await;
    assert_eq!(batches.len(), 25);
    assert_eq!(world.log("9.compact").lines().count(), 11);
    assert_eq!(world.log("19.compact").lines().count(), 21);
    assert!(world.log("19.compact").contains("/f%2000.json"));
    assert_eq!(std::fs::read_dir(world.path("in")).unwrap().count(), 0);
    let last = Offset::new(r#"{"logOffset":24}"#);
    let mut again = world.started("json", &options, Some(events()), Some(last.json())).await;
    world.file("f 03.json", 1_003_000, &[r#"{"k":"a"}"#]);
    assert!(drain(&mut again, Some(last), ReadLimits::Apply).await.is_empty());
}

#[tokio::test]
async fn damage_is_named() {
    let world = World::new();
    let mut source = world.open("json", &[], Some(events())).await.unwrap();
    let error = source.open(Some(&Offset::new(r#"{"logOffset":3}"#))).await.unwrap_err();
    assert_eq!(error.class(), weir_core::ErrorClass::Incompatible);
    world.file("0.json", 1000, &[r#"{"k":"a"}"#]);
    let mut source = world.started("json", &[], Some(events()), None).await;
    let end = source.plan(None, ReadLimits::Apply, 0).await.unwrap().end.unwrap();
    std::fs::remove_file(world.path("in/0.json")).unwrap();
    let error = rows_between(&mut source, None, &end, 5).await.unwrap_err();
    assert_eq!(error.condition(), "FAILED_READ_FILE.FILE_NOT_EXIST");
    std::fs::write(world.path("checkpoint/sources/0/0"), "v2\n{}").unwrap();
    let mut source = world.open("json", &[], Some(events())).await.unwrap();
    assert!(source.open(None).await.unwrap_err().message().contains("version is v2"));
    let missing = Options::new([("path", "/nowhere/at/all")]);
    let error = FileStream::prepare("json", &missing, Some(events()), source_context()).await.err().unwrap();
    assert_eq!(error.condition(), "PATH_NOT_FOUND");
}
