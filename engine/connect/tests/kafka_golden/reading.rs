//! Reading: slices, projections, large and strange records, re-reads, new partitions, compaction, leaders that move, backlog, throughput.

use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray};
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};
use weir_connect::{ReadLimits, Scan, Source};
use weir_core::Offset;
use weir_testkit::eventually;
use weir_testkit::kafka::{Message, numbered_messages};
use weir_testkit::wait::GENEROUS;

use super::driver::{Checkpoint, read, read_batches};
use super::scene::{EPOCH_MS, Scene};

const LARGE: usize = 10 * 1024 * 1024;

fn everything() -> Scan {
    Scan { columns: (0..7).collect(), max_rows: 8192, max_bytes: 1 << 20 }
}

async fn whole(scene: &Scene, options: Value) -> (weir_connect::kafka::KafkaSource, Offset, Offset) {
    let mut source = Checkpoint::new().open(&scene.options(&options)).unwrap();
    let start = source.initial_offset().await.unwrap().unwrap();
    let end = source.plan(Some(&start), ReadLimits::Apply, EPOCH_MS).await.unwrap().end.unwrap();
    (source, start, end)
}

#[tokio::test]
async fn large_empty_and_binary_records_come_as_they_are() {
    let scene = Scene::new("strange");
    scene.broker.create_topic(&scene.topic("t"), 1, &[("max.message.bytes", "12000000")]).unwrap();
    let large = || Message::of(vec![7_u8; LARGE]);
    let sent = [large(), Message::of(vec![0xff, 0xfe]), large(), Message::of(""), Message::tombstone("k"), large()];
    scene.broker.produce(&scene.topic("t"), sent.clone()).unwrap();
    let (mut source, start, end) = whole(&scene, json!({"subscribe": "t", "startingOffsets": "earliest"})).await;
    let slices = read_batches(&mut source, &start, &end, &everything()).await.unwrap();
    assert!(slices.len() >= 3 && slices.iter().all(|slice| slice.num_rows() <= 4), "a large record fills its slice");
    let values: Vec<Option<Vec<u8>>> = slices
        .iter()
        .flat_map(|slice| slice.column(1).as_binary::<i32>().iter().map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>())
        .collect();
    assert_eq!(values, sent.map(|message| message.value));
}

#[tokio::test]
async fn only_the_columns_asked_for_are_built_and_a_re_read_gives_the_same() {
    let scene = Scene::new("columns");
    scene.broker.create_topic(&scene.topic("t"), 3, &[]).unwrap();
    scene.broker.produce(&scene.topic("t"), numbered_messages(0..3000, 3)).unwrap();
    let (mut source, start, end) =
        whole(&scene, json!({"subscribe": "t", "startingOffsets": "earliest", "maxRecordsPerPartition": "300", "minPartitions": "20"}))
            .await;
    let counted = read_batches(&mut source, &start, &end, &Scan { columns: vec![], max_rows: 100, max_bytes: 1 << 20 }).await.unwrap();
    assert_eq!(counted.iter().map(|slice| slice.num_rows()).sum::<usize>(), 3000);
    assert!(counted.iter().all(|slice| slice.num_columns() == 0 && slice.num_rows() <= 100));
    let two = read_batches(&mut source, &start, &end, &Scan { columns: vec![1, 4], max_rows: 1000, max_bytes: 1 << 20 }).await.unwrap();
    let names: Vec<String> = two[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["value", "offset"]);
    let first = read(&mut source, &start, &end).await.unwrap();
    let again = read(&mut source, &start, &end).await.unwrap();
    assert!(first.len() == 3000 && first == again);
}

#[tokio::test]
async fn partitions_added_while_running_are_read_from_their_beginning() {
    let scene = Scene::new("added");
    let topic = scene.topic("t");
    scene.broker.create_topic(&topic, 1, &[]).unwrap();
    scene.broker.produce(&topic, [Message::of("old").partition(0)]).unwrap();
    let mut checkpoint = Checkpoint::new();
    let mut source =
        checkpoint.open(&scene.options(&json!({"subscribe": "t", "startingOffsets": "latest", "maxOffsetsPerTrigger": "10"}))).unwrap();
    assert!(checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap().rows.is_empty());
    scene.broker.add_partitions(&topic, 2).unwrap();
    scene.broker.produce(&topic, [Message::of("new").partition(1)]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut values = Vec::new();
    while values.is_empty() && Instant::now() < deadline {
        if let Ok(batch) = checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap() {
            values.extend(batch.rows.iter().map(|row| row["value"].clone()));
        }
    }
    assert_eq!(values, [json!("new")]);
}

#[tokio::test]
async fn small_batches_one_after_the_other_lose_and_repeat_nothing() {
    let scene = Scene::new("small");
    let topic = scene.topic("t");
    scene.broker.create_topic(&topic, 2, &[]).unwrap();
    let mut checkpoint = Checkpoint::new();
    let mut source = checkpoint.open(&scene.options(&json!({"subscribe": "t", "startingOffsets": "earliest"}))).unwrap();
    let mut seen = Vec::new();
    for round in 0..8_u64 {
        scene.broker.produce(&topic, numbered_messages(round * 10..round * 10 + 10, 2)).unwrap();
        let begun = Instant::now();
        while let Ok(batch) = checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap() {
            seen.extend(batch.rows.iter().map(|row| row["value"].as_str().unwrap().to_owned()));
        }
        println!("round {round}: {:?}", begun.elapsed());
    }
    seen.sort();
    let mut expected: Vec<String> = (0..80).map(|n| format!("{{\"n\":{n}}}")).collect();
    expected.sort();
    assert_eq!(seen, expected);
}

/// The source keeps at most 64 handles: here they have to change places.
#[tokio::test]
async fn more_partitions_than_handles_lose_and_repeat_nothing() {
    let scene = Scene::new("wide");
    let topic = scene.topic("t");
    scene.broker.create_topic(&topic, 70, &[]).unwrap();
    let mut checkpoint = Checkpoint::new();
    let mut source = checkpoint.open(&scene.options(&json!({"subscribe": "t", "startingOffsets": "earliest"}))).unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        scene.broker.produce(&topic, numbered_messages(0..140, 70)).unwrap();
        let batch = checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap();
        seen.extend(batch.rows.iter().map(|row| (row["partition"].as_i64().unwrap(), row["offset"].as_i64().unwrap())));
    }
    seen.sort();
    let expected: Vec<(i64, i64)> = (0..70).flat_map(|partition| (0..6).map(move |offset| (partition, offset))).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn the_backlog_counts_records_bytes_and_age() {
    let scene = Scene::new("backlog");
    let topic = scene.topic("t");
    scene.broker.create_topic(&topic, 2, &[]).unwrap();
    let at = |n: i64, partition: i32| Message::of("0123456789").partition(partition).timestamp(EPOCH_MS + n * 1000);
    scene.broker.produce(&topic, [at(0, 0), at(1, 0), at(2, 0), at(3, 1), at(4, 1)]).unwrap();
    let mut checkpoint = Checkpoint::new();
    let options = scene.options(&json!({"subscribe": "t", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}));
    let mut source = checkpoint.open(&options).unwrap();
    let now_ms = EPOCH_MS + 60_000;
    let batch = checkpoint.next_batch(&mut source, ReadLimits::Apply, now_ms).await.unwrap().unwrap();
    let backlog = source.backlog(batch.end.as_ref(), now_ms).await.unwrap();
    assert_eq!((backlog.records, backlog.bytes, backlog.seconds), (Some(3), Some(30), Some(59.0)));
    let mut end = batch.end;
    while let Ok(batch) = checkpoint.next_batch(&mut source, ReadLimits::Apply, now_ms).await.unwrap() {
        end = batch.end;
    }
    let backlog = source.backlog(end.as_ref(), now_ms).await.unwrap();
    assert_eq!((backlog.records, backlog.bytes, backlog.seconds), (Some(0), Some(0), Some(0.0)));
}

#[tokio::test]
async fn an_open_transaction_bounds_a_batch_of_committed_records() {
    let scene = Scene::new("open");
    let topic = scene.topic("t");
    scene.broker.create_topic(&topic, 1, &[]).unwrap();
    scene.broker.produce(&topic, [Message::of("a").partition(0)]).unwrap();
    let transaction = scene.broker.begin_transaction(&weir_testkit::unique_name("open")).unwrap();
    transaction.produce(&topic, [Message::of("b").partition(0)]).unwrap();
    scene.broker.produce(&topic, [Message::of("c").partition(0)]).unwrap();
    let mut checkpoint = Checkpoint::new();
    let options = json!({"subscribe": "t", "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"});
    let mut source = checkpoint.open(&scene.options(&options)).unwrap();
    let values = |batch: super::driver::Batch| batch.rows.iter().map(|row| row["value"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let first = checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap();
    assert_eq!(scene.shorten(first.end.as_ref().unwrap().json()), r#"{"t":{"0":1}}"#, "the last stable offset");
    assert_eq!(values(first), ["a"]);
    assert!(checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().is_err(), "nothing new is stable");
    transaction.commit().unwrap();
    let second = checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap();
    assert_eq!(values(second), ["b", "c"]);
}

#[tokio::test]
async fn a_reader_that_waits_can_be_dropped() {
    let scene = Scene::new("dropped");
    let topic = scene.topic("t");
    scene.broker.create_topic(&topic, 1, &[]).unwrap();
    scene.broker.produce(&topic, numbered_messages(0..10, 1)).unwrap();
    let (mut source, start, end) = whole(&scene, json!({"subscribe": "t", "startingOffsets": "earliest"})).await;
    // Beyond what the partition holds, so that the reader waits for records that never come.
    let beyond = Offset::new(end.json().replace(":10}", ":11}"));
    let mut readers = source.partitions(Some(&start), &beyond, &everything()).await.unwrap();
    // Dropped before it has waited for so long that it asks why.
    let waiting = tokio::time::timeout(Duration::from_millis(300), readers[0].next()).await;
    assert!(waiting.is_err(), "{waiting:?}");
    drop(readers);
    assert_eq!(read(&mut source, &start, &end).await.unwrap().len(), 10);
}

/// `WEIR_KAFKA_RECORDS` sets how many records are read.
#[tokio::test]
async fn many_records_are_read_in_slices() {
    let records: u64 = std::env::var("WEIR_KAFKA_RECORDS").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000);
    let scene = Scene::new("many");
    scene.broker.create_topic(&scene.topic("t"), 4, &[]).unwrap();
    scene.broker.produce(&scene.topic("t"), (0..records).map(|n| Message::of(format!("{n:0200}")).partition((n % 4) as i32))).unwrap();
    let (mut source, start, end) = whole(&scene, json!({"subscribe": "t", "startingOffsets": "earliest"})).await;
    let begun = Instant::now();
    let mut rows = 0;
    for mut reader in source.partitions(Some(&start), &end, &Scan { columns: vec![1], max_rows: 8192, max_bytes: 4 << 20 }).await.unwrap() {
        while let Some(slice) = reader.next().await.unwrap() {
            assert!(slice.num_rows() <= 8192 && slice.column(0).null_count() == 0);
            rows += slice.num_rows() as u64;
        }
        assert_eq!(reader.counters().bytes, records / 4 * 200);
    }
    assert_eq!(rows, records);
    println!(
        "{records} records of 200 bytes in {:?}: {:.0} rows/s on one thread",
        begun.elapsed(),
        rows as f64 / begun.elapsed().as_secs_f64()
    );
}

#[tokio::test]
async fn ranges_of_a_compacted_topic_that_hold_nothing_end_too() {
    let scene = Scene::new("compacted");
    let topic = scene.topic("t");
    let config = [("cleanup.policy", "compact"), ("segment.ms", "1000"), ("min.cleanable.dirty.ratio", "0.001")];
    scene.broker.create_topic(&topic, 1, &config).unwrap();
    let at =
        |n: i64, seconds: i64| Message::of(format!("v{n}")).key(format!("k{}", n % 2)).partition(0).timestamp(EPOCH_MS + seconds * 1000);
    scene.broker.produce(&topic, (0..40).map(|n| at(n, 0))).unwrap();
    // Later records begin a new segment; only what lies before it is compacted.
    scene.broker.produce(&topic, (40..44).map(|n| at(n, 60))).unwrap();
    let left = || scene.broker.read_all(&topic).unwrap();
    eventually("the topic to be compacted", GENEROUS, || (left().len() <= 8).then_some(())).unwrap();
    let wanted: Vec<(i64, String)> = left().iter().map(|record| (record.offset, record.text())).collect();
    for limits in [json!({}), json!({"minPartitions": "11"}), json!({"maxRecordsPerPartition": "3"})] {
        let mut options = json!({"subscribe": "t", "startingOffsets": "earliest"});
        options.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        let mut checkpoint = Checkpoint::new();
        let mut source = checkpoint.open(&scene.options(&options)).unwrap();
        let batch = checkpoint.next_batch(&mut source, ReadLimits::Apply, EPOCH_MS).await.unwrap().unwrap();
        assert_eq!(scene.shorten(batch.end.as_ref().unwrap().json()), r#"{"t":{"0":44}}"#);
        let row = |row: &Value| (row["offset"].as_i64().unwrap(), row["value"].as_str().unwrap().to_owned());
        assert_eq!(batch.rows.iter().map(row).collect::<Vec<_>>(), wanted, "{limits}");
    }
}

/// Brokers inside the client library, of which three can be had without a cluster: leaders move between batches and within one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_that_move_lose_and_repeat_nothing() {
    let cluster = MockCluster::new(3).unwrap();
    cluster.create_topic("t", 2, 3).unwrap();
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", cluster.bootstrap_servers()).create().unwrap();
    let produce = |numbers: std::ops::Range<i32>| {
        for n in numbers {
            let payload = n.to_string();
            producer.send(BaseRecord::<(), str>::to("t").partition(n % 2).payload(&payload)).unwrap();
        }
        producer.flush(GENEROUS).unwrap();
    };
    let lead = |broker: i32| (0..2).for_each(|partition| cluster.partition_leader("t", partition, Some(broker)).unwrap());
    let given = [("subscribe", "t"), ("startingOffsets", "earliest"), ("kafka.bootstrap.servers", &cluster.bootstrap_servers())];
    let options = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut source = Checkpoint::new().open(&options).unwrap();
    let mut start = source.initial_offset().await.unwrap().unwrap();
    let mut seen = Vec::new();
    for round in 0..4 {
        lead(round % 3 + 1);
        produce(round * 400..round * 400 + 400);
        lead((round + 1) % 3 + 1);
        let end = source.plan(Some(&start), ReadLimits::Apply, EPOCH_MS).await.unwrap().end.unwrap();
        for mut reader in source.partitions(Some(&start), &end, &Scan { columns: vec![1], max_rows: 50, max_bytes: 1 << 20 }).await.unwrap()
        {
            while let Some(slice) = reader.next().await.unwrap() {
                lead((round + seen.len() as i32) % 3 + 1);
                let values = slice.column(0).as_binary::<i32>();
                seen.extend(values.iter().map(|value| std::str::from_utf8(value.unwrap()).unwrap().parse::<i32>().unwrap()));
            }
        }
        start = end;
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..1600).collect::<Vec<_>>());
}
