//! The calls that make transactions, each bounded in time and told in words.
//!
//! Owns the producer's transactional side and the question for the marker;
//! knows nothing of batches. Every call into the client is short, so that a
//! coordinator that does not answer shows as silence and is given up in the end.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::producer::{Producer, ThreadedProducer};
use weir_core::{Error, Result, failpoint};

use super::deliveries::Deliveries;
use super::marker::{Marker, PARTITION};
use super::trouble;
use super::writer::Shared;
use crate::kafka::lookup::{LastWords, cannot_create};
use crate::kafka::properties::ClientSettings;
use crate::kafka::refusal::Refusal;
use crate::kafka::silence::{self, SUSPICION, Silence, TOLD_AFTER, Wait};
use crate::kafka::topic_id;
use crate::source::Outage;

/// How long one call into the client may take before a look at the clock.
const SLICE: Duration = Duration::from_millis(500);
/// How long one question to the brokers may take.
const QUESTION: Duration = Duration::from_secs(5);
/// How long a topic may take to be made by the brokers.
const TOPIC_PATIENCE: Duration = Duration::from_secs(10);

/// One producer's dealings with the transaction coordinator.
pub struct Session {
    producer: Arc<ThreadedProducer<Deliveries>>,
    client: Arc<ClientSettings>,
    /// The transactional id, which is the name of the marker's group too.
    pub id: String,
    /// The topic beside which the marker is kept.
    pub topic: Arc<str>,
    silence: Arc<Silence>,
    outage: Outage,
    /// How long the coordinator may take for one step.
    patience: Duration,
    group: OnceLock<ConsumerGroupMetadata>,
    /// Since when a call into the client has not come back: some take longer than they are told to.
    asked: Mutex<Option<Instant>>,
}

impl Session {
    /// The dealings of a sink's producer; no broker is asked yet.
    pub fn new(sink: &Shared, id: String, topic: &str, patience: Duration) -> Self {
        Self {
            producer: Arc::clone(&sink.producer),
            client: Arc::clone(&sink.client),
            id,
            topic: Arc::from(topic),
            silence: Arc::clone(&sink.silence),
            outage: sink.outage.clone(),
            patience,
            group: OnceLock::new(),
            asked: Mutex::default(),
        }
    }

    /// Makes the producer the only one of its id: transactions of others are ended, and whoever goes on with them is refused.
    pub fn displace_others(&self) -> Result<()> {
        self.step(self.patience, "begin a session of its producer", || self.producer.init_transactions(SLICE))
    }

    /// The marker that the brokers keep.
    pub fn read_marker(&self) -> Result<Option<Marker>> {
        let mut config = self.client.config(&[], &[("enable.auto.commit", "false"), ("isolation.level", "read_committed")]);
        config.set("group.id", &self.id);
        let consumer: BaseConsumer<LastWords> = config.create_with_context(LastWords::default()).map_err(|e| cannot_create(&e))?;
        let consumer = Arc::new(consumer);
        self.client.authorize(&consumer)?;
        let asked = || {
            let mut wanted = TopicPartitionList::new();
            wanted.add_partition(&self.topic, PARTITION);
            let found = consumer.committed_offsets(wanted, QUESTION)?;
            found.find_partition(&self.topic, PARTITION).map_or(Ok(()), |element| element.error())?;
            Ok(found)
        };
        let found = self.step(self.patience, "read the last batch's record", asked)?;
        if let Some(group) = consumer.group_metadata() {
            let _ = self.group.set(group);
        }
        Marker::of_offsets(&found, &self.topic, &self.id)
    }

    /// Begins a transaction; no broker is asked.
    pub fn begin(&self) -> Result<()> {
        self.producer.begin_transaction().map_err(|e| self.failed("begin a transaction", &e))
    }

    /// Commits what was sent, and the marker with it.
    pub fn commit_with(&self, marker: &TopicPartitionList) -> Result<()> {
        let group = self.group.get().ok_or_else(|| {
            Error::retryable(
                "KAFKA_TRANSACTION_FAILED",
                format!("the client does not know the group {} yet; the query is tried again", self.id),
            )
        })?;
        failpoint::hit("sink.marker.before")?;
        let record = || self.producer.send_offsets_to_transaction(marker, group, SLICE);
        self.step(self.patience, "record the batch in its transaction", record)?;
        failpoint::hit("sink.commit.before")?;
        self.commit()?;
        failpoint::hit("sink.commit.after")
    }

    /// Commits what was sent, or goes on with a commit that was not answered.
    pub fn commit(&self) -> Result<()> {
        self.step(self.patience, "commit a transaction", || self.producer.commit_transaction(SLICE))
    }

    /// Ends the open transaction without effect.
    pub fn abort(&self, patience: Option<Duration>) -> Result<()> {
        self.step(patience.unwrap_or(self.patience), "abort a transaction", || self.producer.abort_transaction(SLICE))
    }

    /// The id of the topic, where brokers give ids.
    pub fn topic_id(&self) -> Result<Option<String>> {
        self.find_topic()?;
        self.step(self.patience, "identify the topic", || topic_id::ask(self.producer.client(), &self.topic, QUESTION))
    }

    /// Waits until the topic is there: brokers that make topics themselves do it when a producer asks for one.
    fn find_topic(&self) -> Result<()> {
        let asked = || {
            let known = self.producer.client().fetch_metadata(Some(&self.topic), QUESTION)?;
            let topic = known.topics().iter().find(|topic| topic.name() == &*self.topic);
            match topic.and_then(|topic| topic.error()) {
                Some(code) => Err(KafkaError::MetadataFetch(code.into())),
                None => Ok(()),
            }
        };
        self.step(TOPIC_PATIENCE, "find the topic", asked)
    }

    fn step<T>(&self, patience: Duration, doing: &str, mut call: impl FnMut() -> KafkaResult<T>) -> Result<T> {
        self.client.authorize(&self.producer)?;
        let begun = Instant::now();
        let mut wait = Wait::begin(&self.silence, begun);
        loop {
            *self.asked() = Some(Instant::now());
            let answer = call();
            *self.asked() = None;
            match answer {
                Ok(done) => {
                    silence::heard(&self.outage, self.client.servers());
                    return Ok(done);
                }
                Err(error) if trouble::may_pass(&error) && begun.elapsed() < patience => {
                    if let Some(refusal) = self.refusal().filter(Refusal::is_final) {
                        return Err(refusal.error(&format!("{doing} at"), &self.client));
                    }
                    wait.goes_on(Instant::now());
                    if begun.elapsed() >= TOLD_AFTER {
                        let last = self.producer.context().last_word();
                        silence::tell(&self.outage, self.client.servers(), &last.unwrap_or_else(|| error.to_string()));
                    }
                    // The client answers some questions at once that only time will answer otherwise.
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(self.failed(doing, &error)),
            }
        }
    }

    /// Whether a call has waited for so long that brokers may not answer.
    pub fn is_silent(&self) -> bool {
        self.asked().is_some_and(|since| since.elapsed() >= SUSPICION)
    }

    fn asked(&self) -> MutexGuard<'_, Option<Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the brokers do not let the producer in, if that is so.
    fn refusal(&self) -> Option<Refusal> {
        self.producer.context().refusal().get()
    }

    fn failed(&self, doing: &str, error: &KafkaError) -> Error {
        let refusal = self.refusal().filter(|_| trouble::may_pass(error));
        if let Some(explained) = refusal.and_then(|refusal| refusal.explain(&format!("{doing} at"), &self.client)) {
            return explained;
        }
        let timeout = self.client.get("transaction.timeout.ms").unwrap_or(super::TRANSACTION_TIMEOUT_MS);
        let place = trouble::Place { servers: self.client.servers(), id: &self.id, topic: &self.topic, timeout_ms: timeout };
        trouble::failed(&place, doing, error, &self.producer.context().last_words())
    }
}
