//! Checkpoints move between Spark and Weir, both ways, for files, Delta tables and Kafka.
//!
//! One engine begins, more input arrives, the other continues at the right
//! offset, and the first takes over again. The sink is JSON files, whose log
//! both write.

use serde_json::json;
use weir_testkit::judge::{Input, Judge, OutputTo, Stream};
use weir_testkit::kafka::{Broker, Message};

use crate::support::{FileJob, Place};

fn file_stream(place: &Place) -> Stream {
    let source = Input::at("json", place.at("input")).schema("k STRING, v BIGINT").option("maxFilesPerTrigger", 1);
    Stream::available_now(source, OutputTo::at("json", place.at("output")), place.at("checkpoint"))
}

fn file_job(place: &Place) -> String {
    FileJob {
        schema: "k STRING, v BIGINT",
        options: "maxFilesPerTrigger: '1'",
        sql: "SELECT * FROM events",
        sink: "{format: json, options: {path: output}}",
        trigger: "{availableNow: {}}",
        extra: "",
    }
    .manifest()
    .replace("path: input", &format!("path: '{}'", place.at("input")))
    .replace("path: output", &format!("path: '{}'", place.at("output")))
    .replace("checkpointLocation: checkpoint", &format!("checkpointLocation: '{}'", place.at("checkpoint")))
}

fn add(place: &Place, file: u64) {
    place.write_at(&format!("input/{file}.json"), &format!("{{\"k\":\"a\",\"v\":{file}}}\n"), 1_700_000_000_000 + file * 1000);
}

fn values(place: &Place) -> Vec<serde_json::Value> {
    let input = Input::at("json", place.at("output")).schema("v BIGINT");
    let rows = Judge::shared().query(&input, "SELECT v FROM source").unwrap();
    let mut values: Vec<serde_json::Value> = rows.first_column().into_iter().cloned().collect();
    values.sort_by_key(|value| value.as_i64());
    values
}

#[test]
fn interchange_file_source() {
    let judge = Judge::shared();
    let place = Place::new("interchange-files");
    add(&place, 0);
    add(&place, 1);
    judge.stream(&file_stream(&place)).unwrap();
    add(&place, 2);
    add(&place, 3);
    let ended = place.run_once(&file_job(&place), &[]);
    ended.assert_code(0);
    let batches: Vec<_> = ended.progress("query").iter().map(|p| p["batchId"].clone()).collect();
    assert_eq!(batches, [json!(2), json!(3)], "Weir goes on after Spark's two batches");
    add(&place, 4);
    judge.stream(&file_stream(&place)).expect("Spark goes on after Weir");
    assert_eq!(values(&place), (0..5).map(|v| json!(v)).collect::<Vec<_>>());
}

#[test]
fn interchange_delta_source() {
    let judge = Judge::shared();
    let place = Place::new("interchange-delta");
    let append = |values: std::ops::Range<u64>| {
        for value in values {
            judge.write(&format!("SELECT CAST({value} AS BIGINT) AS v"), &OutputTo::at("delta", place.at("input")), "append").unwrap();
        }
    };
    let stream = || {
        let source = Input::at("delta", place.at("input")).option("maxFilesPerTrigger", 2);
        Stream::available_now(source, OutputTo::at("json", place.at("output")), place.at("checkpoint"))
    };
    let manifest = file_job(&place)
        .replace("format: json\n        schema: \"k STRING, v BIGINT\"", "format: delta")
        .replace("maxFilesPerTrigger: '1'", "maxFilesPerTrigger: '2'");
    let batches = || {
        let ended = place.run_once(&manifest, &[]);
        ended.assert_code(0);
        ended.progress("query").iter().map(|p| p["batchId"].clone()).collect::<Vec<_>>()
    };
    append(0..3);
    assert_eq!(batches(), [json!(0), json!(1)]);
    append(3..5);
    judge.stream(&stream()).expect("Spark goes on after Weir");
    append(5..6);
    assert_eq!(batches(), [json!(3)], "Weir goes on after Spark");
    assert_eq!(values(&place), (0..6).map(|v| json!(v)).collect::<Vec<_>>());
}

#[test]
fn interchange_kafka_source() {
    let judge = Judge::shared();
    let broker = Broker::shared();
    let topic = broker.new_topic("interchange", 2, &[]).unwrap();
    let place = Place::new("interchange-kafka");
    let produce = |numbers: std::ops::Range<u64>| {
        let message = |n: u64| Message::of(format!("{n}")).partition((n % 2) as i32);
        broker.produce(&topic, numbers.map(message)).unwrap();
    };
    let options =
        [("kafka.bootstrap.servers", broker.bootstrap_servers()), ("subscribe", topic.clone()), ("startingOffsets", "earliest".into())];
    let stream = || {
        let mut source = Input::of("kafka");
        source.options.extend(options.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
        Stream::available_now(source, OutputTo::at("json", place.at("output")), place.at("checkpoint"))
            .sql("SELECT CAST(CAST(value AS STRING) AS BIGINT) AS v FROM source")
    };
    let listed: Vec<String> = options.iter().map(|(k, v)| format!("{k}: '{v}'")).collect();
    let manifest = format!(
        "apiVersion: weir.dev/v1alpha1\nkind: StreamingJob\nmetadata: {{name: job}}\nspec:\n  trigger: {{continuous: {{}}}}\n  tasks:\n  \
         - name: task\n    queries:\n    - name: query\n      sources: [{{name: raw, format: kafka, options: {{{}}}}}]\n      \
         sql: SELECT CAST(CAST(value AS STRING) AS BIGINT) AS v FROM raw\n      sink: {{format: json, options: {{path: '{}'}}}}\n      \
         trigger: {{availableNow: {{}}}}\n      checkpointLocation: '{}'\n",
        listed.join(", "),
        place.at("output"),
        place.at("checkpoint")
    );
    produce(0..5);
    judge.stream(&stream()).unwrap();
    produce(5..9);
    place.run_once(&manifest, &[]).assert_code(0);
    produce(9..12);
    judge.stream(&stream()).unwrap();
    assert_eq!(values(&place), (0..12).map(|v| json!(v)).collect::<Vec<_>>());
}

#[test]
fn interchange_weir_begins() {
    let judge = Judge::shared();
    let place = Place::new("interchange-weir-first");
    add(&place, 0);
    place.run_once(&file_job(&place), &[]).assert_code(0);
    add(&place, 1);
    judge.stream(&file_stream(&place)).unwrap();
    add(&place, 2);
    place.run_once(&file_job(&place), &[]).assert_code(0);
    assert_eq!(values(&place), (0..3).map(|v| json!(v)).collect::<Vec<_>>());
}
