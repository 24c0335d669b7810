//! Records in and out: produce plainly or in a transaction, and read a whole topic back.
//!
//! Producing returns when the broker has acknowledged every record, and names the first one that it refused. Records without a partition are
//! spread as the Java client does (murmur2 of the key).

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::client::ClientContext;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};

use super::Broker;
use crate::wait::GENEROUS;

/// A record to be produced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub partition: Option<i32>,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Message {
    pub fn of(value: impl Into<Vec<u8>>) -> Message {
        Message { value: Some(value.into()), ..Message::default() }
    }

    /// A record whose value is null.
    pub fn tombstone(key: impl Into<Vec<u8>>) -> Message {
        Message { key: Some(key.into()), ..Message::default() }
    }

    #[must_use]
    pub fn key(self, key: impl Into<Vec<u8>>) -> Message {
        Message { key: Some(key.into()), ..self }
    }

    #[must_use]
    pub fn partition(self, partition: i32) -> Message {
        Message { partition: Some(partition), ..self }
    }

    #[must_use]
    pub fn timestamp(self, milliseconds: i64) -> Message {
        Message { timestamp: Some(milliseconds), ..self }
    }

    #[must_use]
    pub fn header(mut self, key: &str, value: impl Into<Vec<u8>>) -> Message {
        self.headers.push((key.into(), Some(value.into())));
        self
    }
}

/// `{"n":0}`, `{"n":1}`, …, spread evenly over the partitions.
pub fn numbered_messages(numbers: std::ops::Range<u64>, partitions: i32) -> impl Iterator<Item = Message> {
    let spread = partitions as u64;
    numbers.map(move |number| Message::of(format!("{{\"n\":{number}}}")).partition((number % spread) as i32))
}

/// A record as a consumer saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedMessage {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl ReceivedMessage {
    /// The value as text; empty for a tombstone.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }

    fn from_client(message: &BorrowedMessage<'_>) -> ReceivedMessage {
        let owned = |header: Header<'_, &[u8]>| (header.key.to_owned(), header.value.map(<[u8]>::to_vec));
        ReceivedMessage {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            timestamp: message.timestamp().to_millis(),
            headers: message.headers().map(|headers| headers.iter().map(owned).collect()).unwrap_or_default(),
        }
    }
}

/// Remembers the first record that the broker refused.
#[derive(Default)]
struct Deliveries {
    first_error: Mutex<Option<KafkaError>>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            let mut first = self.first_error.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            first.get_or_insert_with(|| error.clone());
        }
    }
}

type Sender = ThreadedProducer<Deliveries>;

fn producer(mut client: ClientConfig) -> Result<Sender> {
    client.set("acks", "all").set("linger.ms", "5").set("batch.num.messages", "50000").set("batch.size", "1000000");
    client.set("queue.buffering.max.messages", "500000").set("queue.buffering.max.kbytes", "262144");
    client.set("message.max.bytes", "100000000").set("partitioner", "murmur2_random").set("compression.type", "none");
    client.create_with_context(Deliveries::default()).context("making a Kafka producer")
}

fn send(producer: &Sender, topic: &str, message: &Message) -> Result<()> {
    let mut record: BaseRecord<'_, Vec<u8>, Vec<u8>> = BaseRecord::to(topic);
    record.partition = message.partition;
    record.key = message.key.as_ref();
    record.payload = message.value.as_ref();
    record.timestamp = message.timestamp;
    if !message.headers.is_empty() {
        let add = |all: OwnedHeaders, (key, value): &(String, Option<Vec<u8>>)| all.insert(Header { key, value: value.as_ref() });
        record.headers = Some(message.headers.iter().fold(OwnedHeaders::new(), add));
    }
    let end = Instant::now() + GENEROUS;
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) if Instant::now() < end => {
                // The producer's own thread makes room; a flush that is allowed to time out is a wait for that.
                let _ = producer.flush(Duration::from_millis(50));
                record = again;
            }
            Err((error, _)) => return Err(error).with_context(|| format!("producing to {topic}")),
        }
    }
}

fn flush(producer: &Sender, topic: &str) -> Result<()> {
    producer.flush(GENEROUS).with_context(|| format!("waiting for {topic} to acknowledge"))?;
    let refused = producer.context().first_error.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
    match refused {
        Some(error) => Err(error).with_context(|| format!("producing to {topic}")),
        None => Ok(()),
    }
}

impl Broker {
    /// Produces any number of records, in order for each partition, and waits for all acknowledgements.
    pub fn produce(&self, topic: &str, messages: impl IntoIterator<Item = Message>) -> Result<()> {
        let mut client = self.client();
        client.set("enable.idempotence", "true");
        let producer = producer(client)?;
        messages.into_iter().try_for_each(|message| send(&producer, topic, &message))?;
        flush(&producer, topic)
    }

    /// Begins a transaction. Dropped without a word it stays open on the broker until its timeout of one minute.
    pub fn begin_transaction(&self, transactional_id: &str) -> Result<Transaction> {
        let mut client = self.client();
        client.set("transactional.id", transactional_id).set("transaction.timeout.ms", "60000");
        let producer = producer(client)?;
        producer.init_transactions(GENEROUS).with_context(|| format!("initialising transactions of {transactional_id}"))?;
        producer.begin_transaction().with_context(|| format!("beginning a transaction of {transactional_id}"))?;
        Ok(Transaction { producer })
    }

    /// Every committed record that the topic holds now, by partition and offset.
    pub fn read_all(&self, topic: &str) -> Result<Vec<ReceivedMessage>> {
        self.read_with_isolation(topic, "read_committed")
    }

    /// The same with the records of open and aborted transactions.
    pub fn read_all_uncommitted(&self, topic: &str) -> Result<Vec<ReceivedMessage>> {
        self.read_with_isolation(topic, "read_uncommitted")
    }

    fn read_with_isolation(&self, topic: &str, isolation: &str) -> Result<Vec<ReceivedMessage>> {
        let count = self.partition_count(topic)?.with_context(|| format!("there is no topic {topic}"))?;
        let mut client = self.client();
        client.set("group.id", "weir-testkit").set("enable.auto.commit", "false").set("enable.partition.eof", "true");
        client.set("isolation.level", isolation).set("auto.offset.reset", "earliest").set("fetch.message.max.bytes", "104857600");
        let consumer: rdkafka::consumer::BaseConsumer = client.create().context("making a Kafka consumer")?;
        let mut partitions = TopicPartitionList::new();
        (0..count as i32).try_for_each(|partition| partitions.add_partition_offset(topic, partition, Offset::Beginning))?;
        consumer.assign(&partitions)?;
        let (mut ended, mut messages) = (vec![false; count], Vec::new());
        while ended.contains(&false) {
            match consumer.poll(GENEROUS) {
                Some(Ok(message)) => messages.push(ReceivedMessage::from_client(&message)),
                Some(Err(KafkaError::PartitionEOF(partition))) => ended[partition as usize] = true,
                Some(Err(error)) => return Err(error).with_context(|| format!("reading {topic}")),
                None => bail!("{topic} did not answer within {GENEROUS:?}"),
            }
        }
        messages.sort_by_key(|message| (message.partition, message.offset));
        Ok(messages)
    }
}

/// An open transaction of a producer of its own.
pub struct Transaction {
    producer: Sender,
}

impl Transaction {
    pub fn produce(&self, topic: &str, messages: impl IntoIterator<Item = Message>) -> Result<()> {
        messages.into_iter().try_for_each(|message| send(&self.producer, topic, &message))?;
        flush(&self.producer, topic)
    }

    pub fn commit(self) -> Result<()> {
        finish("committing", self.producer.commit_transaction(GENEROUS))
    }

    pub fn abort(self) -> Result<()> {
        finish("aborting", self.producer.abort_transaction(GENEROUS))
    }
}

fn finish(action: &str, result: KafkaResult<()>) -> Result<()> {
    result.with_context(|| format!("{action} a transaction"))
}
