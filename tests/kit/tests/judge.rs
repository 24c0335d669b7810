//! The judge is a real Spark: it reads, writes and streams, and its refusals come through.
#![allow(clippy::unwrap_used)]

use serde_json::json;
use weir_testkit::judge::{Input, Judge, OutputTo, Stream};
use weir_testkit::kafka::{Broker, numbered_messages};
use weir_testkit::scratch;

#[test]
fn a_delta_table_is_written_read_and_described() {
    let judge = Judge::shared();
    assert_eq!(judge.spark_version, "4.2.0");
    let folder = scratch::folder("delta").unwrap();
    let table = folder.path().join("table");
    judge.write("SELECT id AS n, 'x' AS part FROM range(3)", &OutputTo::at("delta", &table).partition_by("part"), "append").unwrap();
    let rows = judge.read_delta(&table).unwrap();
    assert_eq!(rows.columns, ["n", "part"]);
    assert_eq!(rows.types, ["bigint", "string"]);
    assert_eq!(rows.rows, [[json!(0), json!("x")], [json!(1), json!("x")], [json!(2), json!("x")]]);
    let sum = judge.query(&Input::at("delta", &table), "SELECT sum(n) FROM source").unwrap();
    assert_eq!(sum.single().unwrap(), &json!(3));
    assert_eq!(judge.delta_history(&table).unwrap().rows.len(), 1);
    assert!(judge.delta_transactions(&table).unwrap().is_empty());
}

#[test]
fn settings_hold_for_one_request_and_refusals_have_their_condition() {
    let judge = Judge::shared();
    let lenient = judge.sql("SELECT CAST('x' AS INT) AS v, CAST(NULL AS STRING) AS w", &[("spark.sql.ansi.enabled", "false")]).unwrap();
    assert_eq!(lenient.rows, [[json!(null), json!(null)]]);
    let refused = judge.sql("SELECT CAST('x' AS INT)", &[]).unwrap_err();
    assert!(format!("{refused:#}").contains("[CAST_INVALID_INPUT]"), "{refused:#}");
}

#[test]
fn a_stream_from_kafka_goes_on_where_its_checkpoint_stands() {
    let (judge, broker) = (Judge::shared(), Broker::shared());
    let folder = scratch::folder("stream").unwrap();
    let topic = broker.new_topic("judged", 2, &[]).unwrap();
    let source = Input::of("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers()).option("subscribe", &topic);
    let sink = OutputTo::at("delta", folder.path().join("table"));
    let stream = Stream::available_now(source.option("startingOffsets", "earliest"), sink, folder.path().join("checkpoint"))
        .sql("SELECT CAST(get_json_object(CAST(value AS STRING), '$.n') AS BIGINT) AS n FROM source");
    broker.produce(&topic, numbered_messages(0..10, 2)).unwrap();
    let first = judge.stream(&stream).unwrap();
    broker.produce(&topic, numbered_messages(10..15, 2)).unwrap();
    let second = judge.stream(&stream).unwrap();
    assert_eq!(first.id, second.id);
    assert_ne!(first.run_id, second.run_id);
    assert_eq!(second.progress[0]["numInputRows"], json!(5));
    let table = folder.path().join("table");
    assert_eq!(judge.read_delta(&table).unwrap().first_column().len(), 15);
    let transactions = judge.delta_transactions(&table).unwrap();
    assert_eq!(transactions.get(&first.id), Some(&1), "{transactions:?}");
}
