//! Brokers that are down or go away, topics that are created anew.

use std::time::{Duration, Instant};

use serde_json::json;
use weir_connect::{ReadLimits, Source};
use weir_core::ErrorClass;
use weir_testkit::kafka::{Broker, Message, numbered_messages};

use super::driver::{Checkpoint, read};
use super::scene::{EPOCH_MS, Scene};

#[tokio::test]
async fn a_broker_that_is_down_is_named_and_tried_again() {
    let port = weir_testkit::ports::reserve().unwrap();
    let servers = format!("127.0.0.1:{port}");
    let mut options =
        std::collections::BTreeMap::from([("subscribe".to_owned(), "t".to_owned()), ("fetchOffset.numRetries".to_owned(), "1".to_owned())]);
    options.insert("kafka.bootstrap.servers".to_owned(), servers.clone());
    options.insert("kafka.request.timeout.ms".to_owned(), "1500".to_owned());
    let mut source = Checkpoint::new().open(&options).unwrap();
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
