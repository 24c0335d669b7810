//! A real Spark on the other side of the source's log: it reads what Weir stored and the other way round.

use serde_json::{Value, json};
use weir_connect::{ReadLimits, Source};
use weir_core::Offset;
use weir_testkit::judge::{Input, Judge, OutputTo, Stream};
use weir_testkit::kafka::Message;
use weir_testkit::scratch;

use super::driver::{Checkpoint, read};
use super::scene::{EPOCH_MS, Scene};

fn stream(scene: &Scene, topics: &str, starting: &str, folder: &std::path::Path) -> Stream {
    let source = Input::of("kafka").option("kafka.bootstrap.servers", scene.broker.bootstrap_servers()).option("subscribe", topics);
    let sink = OutputTo::at("parquet", folder.join("rows"));
    Stream::available_now(source.option("startingOffsets", starting), sink, folder.join("checkpoint"))
        .sql("SELECT CAST(value AS STRING) AS v FROM source")
}

/// Spark's own files are byte for byte what Weir would have written, key order included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_spark_stored_is_read_and_would_be_written_alike() {
    let scene = Scene::new("fromspark");
    let names = ["a", "bb", "Orders", "x.y", "z-9", "zz_top"];
    for name in names {
        scene.broker.create_topic(&scene.topic(name), if name == "bb" { 40 } else { 2 }, &[]).unwrap();
        scene.broker.produce(&scene.topic(name), [Message::of("before").partition(1)]).unwrap();
    }
    let topics = names.map(|name| scene.topic(name)).join(",");
    let folder = scratch::folder("fromspark").unwrap();
    Judge::shared().stream(&stream(&scene, &topics, "latest", folder.path())).unwrap();
    let stored = std::fs::read(folder.path().join("checkpoint/sources/0/0")).unwrap();
    let log = std::fs::read_to_string(folder.path().join("checkpoint/offsets/0")).unwrap();
    let spark = Offset::new(log.lines().nth(2).unwrap());

    let checkpoint = Checkpoint::new();
    checkpoint.put_entry(&stored);
    let mut source = checkpoint.open(&scene.options(&json!({"subscribe": names.join(","), "startingOffsets": "earliest"}))).unwrap();
    let initial = source.initial_offset().await.unwrap().unwrap();
    assert_eq!(initial.json(), spark.json(), "the stored entry wins, and its keys are in Spark's order");
    assert_eq!(format!("\0v1\n{}", initial.json()).into_bytes(), stored);
    scene.broker.produce(&scene.topic("bb"), [Message::of("after").partition(17)]).unwrap();
    let end = source.plan(Some(&spark), ReadLimits::Apply, EPOCH_MS).await.unwrap().end.unwrap();
    let values: Vec<Value> = read(&mut source, &spark, &end).await.unwrap().into_iter().map(|row| row["value"].clone()).collect();
    assert_eq!(values, [json!("after")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_weir_stored_is_where_spark_begins() {
    let scene = Scene::new("tospark");
    scene.broker.create_topic(&scene.topic("t"), 2, &[]).unwrap();
    scene.broker.produce(&scene.topic("t"), [Message::of("before").partition(0)]).unwrap();
    let checkpoint = Checkpoint::new();
    let mut source = checkpoint.open(&scene.options(&json!({"subscribe": "t", "startingOffsets": "latest"}))).unwrap();
    source.initial_offset().await.unwrap().unwrap();
    scene.broker.produce(&scene.topic("t"), [Message::of("after").partition(1)]).unwrap();
    let folder = scratch::folder("tospark").unwrap();
    std::fs::create_dir_all(folder.path().join("checkpoint/sources/0")).unwrap();
    std::fs::write(folder.path().join("checkpoint/sources/0/0"), checkpoint.entry()).unwrap();
    Judge::shared().stream(&stream(&scene, &scene.topic("t"), "earliest", folder.path())).unwrap();
    let rows = Judge::shared().read(&Input::at("parquet", folder.path().join("rows"))).unwrap();
    assert_eq!(rows.first_column(), [&json!("after")]);
}
