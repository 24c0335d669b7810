//! Brokers that are down or go away, topics that are created anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, StringArray};
use serde_json::json;
use weir_connect::kafka::{KafkaSink, KafkaSinkOptions};
use weir_connect::{BatchId, ReadLimits, Sink, Source, Standing};
use weir_core::ErrorClass;
use weir_testkit::eventually;
use weir_testkit::kafka::{Broker, Message, numbered_messages};
use weir_testkit::wait::GENEROUS;

use super::driver::{Checkpoint, read};
use super::scene::{EPOCH_MS, Scene};
use super::sink::{self, SinkPlace};

#[tokio::test]
async fn a_broker_that_is_down_is_named_and_tried_again() {
    let port = weir_testkit::ports::reserve().unwrap();
    let servers = format!("127.0.0.1:{port}");
    let mut options =
        std::collections::BTreeMap::from([("subscribe".to_owned(), "t".to_owned()), ("fetchOffset.numRetries".to_owned(), "1".to_owned())]);
    options.insert("kafka.bootstrap.servers".to_owned(), servers.clone());
    options.insert("kafka.request.timeout.ms".to_owned(), "1500".to_owned());
    let mut source = Checkpoint::new().open(&options).unwrap();
    assert_eq!(source.outage().words(), None);
    let begun = Instant::now();
    let error = source.reach().await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, "KAFKA_BROKER_UNREACHABLE"));
    assert!(error.message().contains(&servers) && error.message().contains("Connection refused"), "{error}");
    assert!(error.message().contains("(1 attempt; kafka.request.timeout.ms is 1500)"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_goes_away_while_reading_fails_the_batch_which_is_read_later() {
    let broker = Broker::start().unwrap();
    let topic = broker.new_topic("away", 1, &[]).unwrap();
    broker.produce(&topic, numbered_messages(0..100, 1)).unwrap();
    let mut options =
        std::collections::BTreeMap::from([("subscribe".to_owned(), topic.clone()), ("startingOffsets".to_owned(), "earliest".to_owned())]);
    options.insert("kafka.bootstrap.servers".to_owned(), broker.bootstrap_servers());
    options.insert("kafkaConsumer.pollTimeoutMs".to_owned(), "2000".to_owned());
    options.insert("fetchOffset.numRetries".to_owned(), "1".to_owned());
    let mut hurried = options.clone();
    hurried.insert("kafka.request.timeout.ms".to_owned(), "1500".to_owned());
    let checkpoint = Checkpoint::new();
    let mut source = checkpoint.open(&options).unwrap();
    let start = source.initial_offset().await.unwrap().unwrap();
    let end = source.plan(Some(&start), ReadLimits::Apply, EPOCH_MS).await.unwrap().end.unwrap();
    // A sink with nothing to do beside it, which gives up on brokers much sooner than it would.
    let kept = idle_sink(&broker).await;
    broker.kill().unwrap();
    let begun = Instant::now();
    let error = read(&mut source, &start, &end).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Retryable, "KAFKA_BROKER_UNREACHABLE"));
    assert!(error.message().contains("[0, 100)") && error.message().contains(&broker.bootstrap_servers()), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    broker.start_again().unwrap();
    assert_eq!(read(&mut source, &start, &end).await.unwrap().len(), 100);
    let mut source = checkpoint.open(&hurried).unwrap();
    source.plan(Some(&end), ReadLimits::Apply, EPOCH_MS).await.unwrap();
    broker.freeze().unwrap();
    let error = source.plan(Some(&end), ReadLimits::Apply, EPOCH_MS).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Retryable, "{error}");
    broker.thaw().unwrap();
    eventually("the record to be lost", GENEROUS, || broker.delete_group(&kept.group).ok()).unwrap();
    let record = || broker.committed(&kept.group, &kept.topic, 0).unwrap();
    let wanted = (1, r#"{"epoch":1,"batch":0}"#.to_owned());
    eventually("a renewal after those that failed", GENEROUS, || record().filter(|found| *found == wanted)).unwrap();
}

struct IdleSink {
    group: String,
    topic: String,
    _sink: KafkaSink,
    _place: SinkPlace,
}

/// A sink that delivers exactly once, has written one batch and renews its record all the time.
async fn idle_sink(broker: &Broker) -> IdleSink {
    let topic = broker.new_topic("idle", 1, &[]).unwrap();
    let given = [("topic", topic.as_str()), ("deliveryGuarantee", "exactly-once")];
    let options = sink::options(&given, &broker.bootstrap_servers()).unwrap();
    let options = KafkaSinkOptions { renew_after: Duration::from_millis(50), patience: Duration::from_secs(1), ..options };
    let query_id = uuid::Uuid::new_v4();
    let place = sink::place(query_id);
    let schema = sink::rows(vec![("value", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]).schema();
    let sink = KafkaSink::open(&options, schema, &place.context).await.unwrap();
    sink.recorded_batch(query_id).await.unwrap();
    sink.resume(Standing { committed: None, in_doubt: None, is_new: true }).await.unwrap();
    sink.commit(&BatchId { query_id, batch: 0, epoch: 1 }, Vec::new()).await.unwrap();
    IdleSink { group: format!("weir-{query_id}"), topic, _sink: sink, _place: place }
}

#[tokio::test]
async fn a_topic_created_anew_is_data_loss() {
    let scene = Scene::new("anew");
    let topic = scene.topic("t");
    scene.broker.create_topic(&topic, 1, &[]).unwrap();
    scene.broker.produce(&topic, numbered_messages(0..10, 1)).unwrap();
    let mut checkpoint = Checkpoint::new();
    let retries = json!({"subscribe": "t", "startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "100"});
    let mut source = checkpoint.open(&scene.options(&retries)).unwrap();
    checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap();
    scene.broker.delete_topic(&topic).unwrap();
    scene.broker.create_topic(&topic, 1, &[]).unwrap();
    scene.broker.produce(&topic, [Message::of("fresh").partition(0)]).unwrap();
    let error =
        checkpoint.next_batch(&mut checkpoint.open(&scene.options(&retries)).unwrap(), ReadLimits::Apply, EPOCH_MS).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Config, "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"));
    assert!(scene.shorten(error.message()).contains("t-0 went back from 10 to 1"), "{error}");
    let lenient = json!({"subscribe": "t", "failOnDataLoss": "false", "fetchOffset.retryIntervalMs": "100"});
    let mut source = checkpoint.open(&scene.options(&lenient)).unwrap();
    let skipped = checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap();
    assert!(skipped.rows.is_empty());
    scene.broker.produce(&topic, [Message::of("next").partition(0)]).unwrap();
    let batch = checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap();
    assert_eq!(batch.rows[0]["value"], "next");
}

#[tokio::test]
async fn a_pattern_that_matches_nothing_any_more_is_data_loss() {
    let scene = Scene::new("vanished");
    let topic = scene.topic("t");
    scene.broker.create_topic(&topic, 1, &[]).unwrap();
    scene.broker.produce(&topic, numbered_messages(0..10, 1)).unwrap();
    let options = scene.options(&json!({"subscribePattern": "t", "startingOffsets": "earliest"}));
    let mut checkpoint = Checkpoint::new();
    checkpoint.next_batch(&mut checkpoint.open(&options).unwrap(), ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap();
    scene.broker.delete_topic(&topic).unwrap();
    let error = checkpoint.next_batch(&mut checkpoint.open(&options).unwrap(), ReadLimits::Apply, EPOCH_MS).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Config, "KAFKA_DATA_LOSS.PARTITIONS_DELETED"), "{error}");
}
