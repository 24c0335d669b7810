//! The Delta source over tables that Weir writes: batches, restarts, refusals.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StringArray};
use serde_json::{Value, json};
use weir_connect::{ReadLimits, Scan};
use weir_core::{Error, ErrorClass};
use weir_testkit::scratch;

use super::query::{Query, kv, rows};
use super::stream::{Batch, Stream, Trigger, read_columns, rows_of};

struct Scene {
    folder: tempfile::TempDir,
    writer: Query,
    written: u64,
}

impl Scene {
    fn new() -> Self {
        let folder = scratch::folder("delta-source").unwrap();
        Self { writer: Query::to(&folder.path().join("src")), folder, written: 0 }
    }

    fn table(&self) -> PathBuf {
        self.folder.path().join("src")
    }

    fn stream(&self, name: &str) -> Stream {
        Stream::of(&self.table(), &self.folder.path().join(name))
    }

    /// One commit with one file.
    async fn append(&mut self, values: &[(&str, i32)]) {
        let sink = self.writer.open(kv(&[]).schema()).await.unwrap();
        self.writer.write(&sink, self.written, &kv(values)).await.unwrap();
        self.written += 1;
    }

    fn entry(&self, version: u64) -> PathBuf {
        self.table().join(format!("_delta_log/{version:020}.json"))
    }

    /// An entry that somebody else wrote.
    fn commit(&self, version: u64, lines: &[Value]) {
        let text: Vec<String> = lines.iter().map(Value::to_string).collect();
        std::fs::write(self.entry(version), text.join("\n")).unwrap();
    }

    /// The actions of an entry by name.
    fn actions(&self, version: u64, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.entry(version)).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).filter_map(|line| line.get(name).cloned()).collect()
    }
}

fn offset(batch: &Batch) -> Value {
    let end = batch.end.as_ref().unwrap().to_value();
    json!([end["reservoirVersion"], end["index"], end["isStartingVersion"]])
}

fn failed(outcome: weir_core::Result<Vec<Batch>>, condition: &str, words: &str) -> Error {
    let error = outcome.unwrap_err();
    assert_eq!(error.condition(), condition, "{error}");
    assert!(error.message().contains(words), "{error}");
    error
}

fn path_of(add: &Value) -> &str {
    add["path"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_read_once_however_the_batches_and_runs_are_cut() {
    let mut scene = Scene::new();
    for number in 0..4 {
        scene.append(&[("a", number)]).await;
    }
    let mut stream = scene.stream("ck").with("maxFilesPerTrigger", "3");
    let first = stream.run(Trigger::AvailableNow).await.unwrap();
    assert_eq!(first.iter().map(offset).collect::<Vec<_>>(), [json!([3, 2, true]), json!([4, -1, false]), json!([4, -1, false])]);
    assert_eq!(first[0].metrics["numFilesOutstanding"], "1");
    assert_eq!((first[1].metrics["numFilesOutstanding"].as_str(), first[1].backlog.bytes), ("0", Some(0)));
    scene.append(&[]).await;
    for number in 4..9 {
        scene.append(&[("b", number), ("c", number)]).await;
    }
    // The batch was planned and the process died before it was committed.
    let mut source = stream.open().await.unwrap();
    let (lost, _) = stream.next_batch(source.as_mut(), ReadLimits::Apply).await.unwrap();
    stream.committed -= 1;
    assert_eq!(lost.backlog.files, Some(2));
    assert!(lost.backlog.seconds.is_some_and(|seconds| seconds >= 0.0));
    let second = stream.run(Trigger::Continuous).await.unwrap();
    assert_eq!(second[0].rows, lost.rows);
    let mut all = rows_of(&first);
    all.extend(rows_of(&second));
    let expected = (0..4).map(|n| json!(["a", n])).chain((4..9).flat_map(|n| [json!(["b", n]), json!(["c", n])]));
    all.sort_by_key(|row| row[1].as_i64());
    assert_eq!(all, expected.collect::<Vec<_>>());
    assert_eq!(stream.planned.len(), 4);
    // Once takes all that is there at once.
    assert_eq!(rows_of(&scene.stream("once").with("maxFilesPerTrigger", "1").run(Trigger::Once).await.unwrap()).len(), 14);
    // Nothing that is known is a batch, and the beginning outlives a run.
    let mut latest = scene.stream("latest").with("startingVersion", "latest");
    let idle = latest.run(Trigger::AvailableNow).await.unwrap();
    assert!(idle.len() == 1 && idle[0].end.is_none());
    scene.append(&[("d", 9)]).await;
    assert_eq!(rows_of(&latest.run(Trigger::AvailableNow).await.unwrap()), [json!(["d", 9])]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partition_values_are_rows_and_files_can_be_left_out() {
    let mut scene = Scene::new();
    scene.writer.partition_by = vec!["k".into()];
    scene.append(&[("x y", 1), ("z", 2)]).await;
    scene.append(&[("z", 3)]).await;
    let mut stream = scene.stream("ck").with("maxBytesPerTrigger", "1");
    let batches = stream.run(Trigger::AvailableNow).await.unwrap();
    assert_eq!(rows_of(&batches), [json!(["x y", 1]), json!(["z", 2]), json!(["z", 3])]);
    assert_eq!(batches.iter().filter(|batch| batch.rows.len() == 1).count(), 3);
    // From the log as from the snapshot, and without the columns that nobody wants.
    let logged = scene.stream("log").with("startingVersion", "0").with("excludeRegex", "k=x.*parquet");
    let mut source = logged.open().await.unwrap();
    let start = source.initial_offset().await.unwrap();
    let end = source.plan(start.as_ref(), ReadLimits::Apply, 0).await.unwrap().end.unwrap();
    for (columns, expected) in [
        (vec![0, 1], vec![json!(["z", 2]), json!(["z", 3])]),
        (vec![0], vec![json!(["z"]), json!(["z"])]),
        (vec![], vec![json!([]), json!([])]),
    ] {
        assert_eq!(read_columns(source.as_mut(), start.as_ref(), &end, columns).await.unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_away_is_refused_by_name() {
    let mut scene = Scene::new();
    scene.append(&[("a", 0)]).await;
    scene.append(&[("a", 1)]).await;
    let mut stream = scene.stream("ck");
    stream.run(Trigger::AvailableNow).await.unwrap();
    let file = scene.actions(0, "add")[0].clone();
    scene.commit(2, &[json!({"remove": {"path": path_of(&file), "dataChange": true}})]);
    let error = failed(stream.run(Trigger::AvailableNow).await, "DELTA_SOURCE_IGNORE_DELETE", "at version 2");
    assert!(error.message().contains(path_of(&file)) && error.class() == ErrorClass::Config, "{error}");
    let passed = stream.clone().with("ignoreDeletes", "true").run(Trigger::AvailableNow).await.unwrap();
    assert_eq!((passed[0].rows.len(), offset(&passed[0])), (0, json!([3, -1, false])));
    // Versions that were not read are gone.
    let mut behind = scene.stream("behind").with("startingVersion", "0").with("maxFilesPerTrigger", "1").with("ignoreDeletes", "true");
    let mut source = behind.open().await.unwrap();
    behind.next_batch(source.as_mut(), ReadLimits::Apply).await.unwrap();
    let kept = std::fs::read(scene.entry(1)).unwrap();
    let mut source = behind.open().await.unwrap();
    std::fs::remove_file(scene.entry(1)).unwrap();
    let error = source.plan(behind.planned.get(&0), ReadLimits::Apply, 0).await.map(|_| Vec::new());
    failed(error, "DELTA_MISSING_FILES_UNEXPECTED_VERSION", "expecting process data from version 1");
    std::fs::write(scene.entry(1), &kept).unwrap();
    let mut careless = behind.clone().with("failOnDataLoss", "false");
    let mut source = careless.open().await.unwrap();
    std::fs::remove_file(scene.entry(1)).unwrap();
    let (batch, _) = careless.next_batch(source.as_mut(), ReadLimits::Apply).await.unwrap();
    assert_eq!((batch.rows.len(), offset(&batch)), (0, json!([3, -1, false])));
    std::fs::write(scene.entry(1), &kept).unwrap();
    // A data file is gone, as after VACUUM.
    std::fs::remove_file(scene.table().join(path_of(&file))).unwrap();
    let vacuumed = scene.stream("vacuumed").with("startingVersion", "0").with("ignoreDeletes", "true");
    let error = failed(vacuumed.clone().run(Trigger::AvailableNow).await, "FAILED_READ_FILE.FILE_NOT_EXIST", path_of(&file));
    assert_eq!(error.class(), ErrorClass::Incompatible);
    let mut careless = Stream { options: vacuumed.options, ..scene.stream("careless") }.with("failOnDataLoss", "false");
    assert_eq!(rows_of(&careless.run(Trigger::AvailableNow).await.unwrap()), [json!(["a", 1])]);
    // Another table in its place.
    std::fs::remove_dir_all(scene.table()).unwrap();
    let mut again = Scene { writer: Query::to(&scene.table()), written: 0, folder: scene.folder };
    for number in 0..5 {
        again.append(&[("z", number)]).await;
    }
    failed(stream.run(Trigger::AvailableNow).await, "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", "new checkpointLocation");
}

fn wide(values: &[(&str, i32, i32)]) -> arrow::record_batch::RecordBatch {
    let numbers = |of: fn(&(&str, i32, i32)) -> i32| -> ArrayRef { Arc::new(Int32Array::from_iter_values(values.iter().map(of))) };
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(|(k, _, _)| k)));
    rows(vec![("k", keys), ("v", numbers(|value| value.1)), ("w", numbers(|value| value.2))])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_columns_restart_the_query_and_others_end_it() {
    let mut scene = Scene::new();
    scene.append(&[("a", 0)]).await;
    let mut stream = scene.stream("ck");
    let mut source = stream.open().await.unwrap();
    stream.next_batch(source.as_mut(), ReadLimits::Apply).await.unwrap();
    let merging = scene.writer.clone().with_options(&[("mergeSchema".to_owned(), "true".to_owned())].into());
    let sink = merging.open(wide(&[]).schema()).await.unwrap();
    merging.write(&sink, 1, &wide(&[("b", 1, 10)])).await.unwrap();
    let error = source.plan(stream.planned.get(&0), ReadLimits::Apply, 0).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, "SchemaChanged"), "{error}");
    assert!(error.source_version().is_some_and(|version| version.ends_with("@1")), "{error:?}");
    let batches = stream.run(Trigger::AvailableNow).await.unwrap();
    assert_eq!(rows_of(&batches), [json!(["b", 1, 10])]);
    assert_eq!(rows_of(&scene.stream("new").run(Trigger::Continuous).await.unwrap()), [json!(["a", 0, null]), json!(["b", 1, 10])]);
    // The type of a column becomes another one.
    let mut metadata = scene.actions(1, "metaData")[0].clone();
    metadata["schemaString"] = json!(metadata["schemaString"].as_str().unwrap().replacen("integer", "string", 1));
    scene.commit(2, &[json!({"metaData": metadata})]);
    let error = failed(stream.run(Trigger::AvailableNow).await, "DELTA_SCHEMA_CHANGED_WITH_VERSION", "version 1");
    assert!(error.class() == ErrorClass::Incompatible && error.message().contains("`v`"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_goes_on_behind_any_of_its_places() {
    let mut scene = Scene::new();
    for number in 0..40 {
        scene.append(&[("a", number), ("b", number), ("c", number)]).await;
    }
    let mut source = scene.stream("ck").open().await.unwrap();
    let start = source.initial_offset().await.unwrap();
    let end = source.plan(start.as_ref(), ReadLimits::Apply, 0).await.unwrap().end.unwrap();
    let scan = Scan { columns: vec![0, 1], max_rows: 2, max_bytes: 1 << 20 };
    let mut whole = source.partitions(start.as_ref(), &end, &scan).await.unwrap().swap_remove(0);
    let (name, mut places, mut left) = (whole.name(), vec![whole.position()], vec![6]);
    while let Some(slice) = whole.next().await.unwrap() {
        places.push(whole.position());
        left.push(left[left.len() - 1] - slice.num_rows());
    }
    assert!(places.is_sorted() && left.last() == Some(&0), "two files of three rows: {left:?}");
    for (place, expected) in places.into_iter().zip(left) {
        let mut again = source.partitions(start.as_ref(), &end, &scan).await.unwrap().swap_remove(0);
        assert_eq!(again.name(), name);
        again.skip_to(place);
        let mut rows = 0;
        while let Some(slice) = again.next().await.unwrap() {
            rows += slice.num_rows();
        }
        assert_eq!(rows, expected, "behind {place}");
    }
}
