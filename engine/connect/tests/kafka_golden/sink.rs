//! The sink: what rows become, what is refused, when the brokers do not answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::BinaryBuilder;
use arrow::array::{ArrayRef, BinaryArray, Int32Array, ListBuilder, RecordBatch, StringArray, StringBuilder, StructBuilder};
use arrow::datatypes::{DataType, Field};
use weir_connect::kafka::{KafkaSink, KafkaSinkOptions};
use weir_connect::open::{SinkContext, SinkRole};
use weir_connect::{BatchId, Sink, Standing, Written};
use weir_core::checkpoint::Fence;
use weir_core::storage::{Durability, Storage};
use weir_core::{Error, ErrorClass, Result};
use weir_crds::options::{Completeness, Format, parse_sink};

use super::scene::Scene;

pub fn options(given: &[(&str, &str)], servers: &str) -> Result<KafkaSinkOptions> {
    let mut map: BTreeMap<String, String> = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    map.insert("kafka.bootstrap.servers".to_owned(), servers.to_owned());
    let parsed = parse_sink(Format::Kafka, &map, Completeness::Complete).into_result();
    KafkaSinkOptions::from_parsed(&parsed.map_err(|findings| Error::config("INVALID_OPTIONS", format!("{findings:?}")))?)
}

/// A checkpoint's folder, for its fence.
pub struct SinkPlace {
    pub folder: tempfile::TempDir,
    pub context: SinkContext,
}

/// A place under epoch 1.
pub fn place(query_id: uuid::Uuid) -> SinkPlace {
    let folder = tempfile::tempdir().unwrap();
    let root = Storage::new(Durability::PageCache).open(folder.path().to_str().unwrap()).unwrap();
    let context = SinkContext { query_id, fence: Fence::new(root.child("_weir/epochs"), 1), role: SinkRole::Rows };
    SinkPlace { folder, context }
}

pub async fn write(options: &KafkaSinkOptions, rows: RecordBatch) -> Result<Written> {
    let query_id = uuid::Uuid::new_v4();
    let sink = KafkaSink::open(options, rows.schema(), &place(query_id).context).await?;
    sink.recorded_batch(query_id).await?;
    sink.resume(Standing { committed: None, in_doubt: None, is_new: true }).await?;
    let batch = BatchId { query_id, batch: 0, epoch: 1 };
    let mut writer = sink.writer(&batch, 0).await?;
    writer.write(rows).await?;
    let written = writer.finish().await?;
    sink.commit(&batch, vec![written.clone()]).await?;
    Ok(written)
}

pub fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn headers() -> ArrayRef {
    let fields = vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)];
    let mut builder = ListBuilder::new(StructBuilder::new(fields, vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())]));
    for name in [Some("h"), None] {
        if let Some(name) = name {
            builder.values().field_builder::<StringBuilder>(0).unwrap().append_value(name);
            builder.values().field_builder::<BinaryBuilder>(1).unwrap().append_value("1");
            builder.values().append(true);
        }
        builder.append(name.is_some());
    }
    Arc::new(builder.finish())
}

#[tokio::test]
async fn rows_become_records() {
    let scene = Scene::new("sink");
    let (one, two) = (scene.topic("o"), scene.topic("o2"));
    scene.broker.create_topic(&one, 2, &[]).unwrap();
    scene.broker.create_topic(&two, 1, &[]).unwrap();
    let servers = scene.broker.bootstrap_servers();
    let sent = rows(vec![
        ("value", Arc::new(StringArray::from(vec![Some("a"), None]))),
        ("key", Arc::new(BinaryArray::from(vec![Some(&b"k"[..]), Some(b"")]))),
        ("partition", Arc::new(Int32Array::from(vec![1, 1]))),
        ("headers", headers()),
        ("topic", Arc::new(StringArray::from(vec![two.as_str(), two.as_str()]))),
        ("other", Arc::new(Int32Array::from(vec![7, 8]))),
    ]);
    let written = write(&options(&[("topic", &one)], &servers).unwrap(), sent).await.unwrap();
    assert_eq!(written.rows, 2);
    let received = scene.broker.read_all(&one).unwrap();
    assert_eq!(received.len(), 2, "the option goes before the column");
    assert!(received.iter().all(|record| record.partition == 1));
    assert_eq!((received[0].text().as_str(), received[0].key.as_deref()), ("a", Some(&b"k"[..])));
    assert_eq!(received[0].headers, [("h".to_owned(), Some(b"1".to_vec()))]);
    assert_eq!((&received[1].value, received[1].key.as_deref()), (&None, Some(&b""[..])));
    let by_column = rows(vec![
        ("value", Arc::new(StringArray::from(vec!["v"])) as ArrayRef),
        ("topic", Arc::new(StringArray::from(vec![two.as_str()]))),
    ]);
    write(&options(&[("kafka.acks", "1")], &servers).unwrap(), by_column).await.unwrap();
    assert_eq!(scene.broker.read_all(&two).unwrap().len(), 1);
}

#[tokio::test]
async fn keys_go_to_the_partitions_of_the_java_client() {
    let scene = Scene::new("keyed");
    let topic = scene.topic("o");
    scene.broker.create_topic(&topic, 5, &[]).unwrap();
    let keys: Vec<String> = (0..50).map(|n| format!("key-{n}")).collect();
    let sent =
        rows(vec![("value", Arc::new(StringArray::from(keys.clone())) as ArrayRef), ("key", Arc::new(StringArray::from(keys.clone())))]);
    write(&options(&[("topic", &topic)], &scene.broker.bootstrap_servers()).unwrap(), sent).await.unwrap();
    let ours: BTreeMap<String, i32> =
        scene.broker.read_all(&topic).unwrap().iter().map(|record| (record.text(), record.partition)).collect();
    let judge = scene.topic("judge");
    scene.broker.create_topic(&judge, 5, &[]).unwrap();
    scene.broker.produce(&judge, keys.iter().map(|key| weir_testkit::kafka::Message::of(key.as_str()).key(key.as_str()))).unwrap();
    let theirs: BTreeMap<String, i32> =
        scene.broker.read_all(&judge).unwrap().iter().map(|record| (record.text(), record.partition)).collect();
    assert_eq!(ours, theirs);
}

#[tokio::test]
async fn rows_that_cannot_be_sent_fail_the_batch() {
    let scene = Scene::new("refused");
    let topic = scene.topic("o");
    scene.broker.create_topic(&topic, 2, &[]).unwrap();
    let servers = scene.broker.bootstrap_servers();
    let text = |value: Option<&str>| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    let condition = |result: Result<Written>| result.unwrap_err().condition().to_owned();
    let null_topic = rows(vec![("value", text(Some("v"))), ("topic", text(None))]);
    assert_eq!(condition(write(&options(&[], &servers).unwrap(), null_topic).await), "KAFKA_NULL_TOPIC_IN_DATA");
    for name in ["bad/name", "", "a b", "nul\0", ".."] {
        let named = rows(vec![("value", text(Some("v"))), ("topic", text(Some(name)))]);
        let error = write(&options(&[], &servers).unwrap(), named).await.unwrap_err();
        assert_eq!((error.class(), error.condition()), (ErrorClass::Config, "KAFKA_INVALID_TOPIC_NAME"), "{error}");
        assert!(error.message().contains("correct the column topic"), "{error}");
    }
    for option in ["topic", "markerTopic"] {
        let error = options(&[(option, "bad/name"), ("deliveryGuarantee", "exactly-once")], &servers).unwrap_err();
        assert!(error.class() == ErrorClass::Config && error.message().contains(option) && error.message().contains("'/'"), "{error}");
    }
    scene.broker.create_topic(&scene.topic("small"), 1, &[("max.message.bytes", "1000"), ("cleanup.policy", "compact")]).unwrap();
    let small = options(&[("topic", &scene.topic("small"))], &servers).unwrap();
    let keyed = rows(vec![("value", text(Some(&"x".repeat(2000)))), ("key", text(Some("k")))]);
    assert_eq!(condition(write(&small, keyed).await), "KAFKA_RECORD_TOO_LARGE", "the brokers' word");
    assert_eq!(condition(write(&small, rows(vec![("value", text(Some("v")))])).await), "KAFKA_INVALID_RECORD");
    let ninth = rows(vec![("value", text(Some("v"))), ("partition", Arc::new(Int32Array::from(vec![9])))]);
    assert_eq!(condition(write(&options(&[("topic", &topic)], &servers).unwrap(), ninth).await), "KAFKA_UNKNOWN_PARTITION");
    let large = rows(vec![("value", text(Some(&"x".repeat(2 << 20))))]);
    assert_eq!(condition(write(&options(&[("topic", &topic)], &servers).unwrap(), large).await), "KAFKA_RECORD_TOO_LARGE");
    let no_value = rows(vec![("key", text(Some("k")))]);
    assert_eq!(condition(write(&options(&[("topic", &topic)], &servers).unwrap(), no_value).await), "_LEGACY_ERROR_TEMP_3080");
    assert!(scene.broker.read_all(&topic).unwrap().is_empty());
}

#[tokio::test]
async fn servers_that_do_not_answer_fail_the_batch_in_time() {
    let servers = format!("127.0.0.1:{}", weir_testkit::ports::reserve().unwrap());
    let sent = rows(vec![("value", Arc::new(StringArray::from(vec!["v"])) as ArrayRef)]);
    let begun = std::time::Instant::now();
    let error = write(&options(&[("topic", "o"), ("kafka.delivery.timeout.ms", "2000")], &servers).unwrap(), sent).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, "KAFKA_DELIVERY_FAILED"));
    assert!(error.message().contains(&servers) && begun.elapsed().as_secs() < 20, "{error}");
}
