//! Questions to the brokers: which partitions there are and where they begin and end.
//!
//! Owns one consumer handle that never fetches records. Every call blocks for
//! a bounded time (attempts times request timeout) and is meant for a blocking
//! thread. Failures end as retryable errors that name the servers and carry
//! the client's last word. Decides nothing about offsets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Offset as KafkaOffset, TopicPartitionList};
use weir_core::{Error, Result};

use super::errors;
use super::offsets::{PartitionOffsets, TopicPartition};
use super::options::{KafkaSourceOptions, TopicSelection};
use super::properties::ClientSettings;
use super::refusal::{LastRefusal, Refusal};
use super::silence::{self, TOLD_AFTER};
use super::starting::{EARLIEST, LATEST};
use crate::source::Outage;

/// How long one request may take before the next attempt, unless `kafka.request.timeout.ms` says otherwise.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// After so long without an answer it is asked whether the brokers refuse the client.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Remembers what the client said last about its troubles.
#[derive(Default)]
pub struct LastWords {
    words: Mutex<Option<String>>,
    refusal: LastRefusal,
}

impl LastWords {
    /// The newest complaint, if there was one.
    pub fn get(&self) -> Option<String> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the brokers refused since they last answered.
    pub fn refusal(&self) -> &LastRefusal {
        &self.refusal
    }

    fn set(&self, words: String) {
        *self.words.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }
}

impl ClientContext for LastWords {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(?level, facility, message, "librdkafka");
        self.refusal.note_log(facility, message);
        if facility == "FAIL"
            || matches!(level, RDKafkaLogLevel::Error | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Emerg)
        {
            self.set(message.to_owned());
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
        self.refusal.note(&error, reason);
        self.set(reason.to_owned());
    }
}

impl ConsumerContext for LastWords {}

/// How old the known partitions may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Ask the brokers.
    Now,
    /// As found within the last second, or `metadata.max.age.ms` if that is less.
    Recent,
}

/// How long the brokers are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Patience {
    attempts: u32,
    interval: Duration,
    request: Duration,
    /// All attempts of a question together; none where the options say how often and how long.
    total: Option<Duration>,
}

impl Patience {
    fn of(options: &KafkaSourceOptions) -> Self {
        let given = options.client.get("socket.timeout.ms").and_then(|text| text.parse().ok()).map(Duration::from_millis);
        Self {
            attempts: options.fetch_attempts,
            interval: options.fetch_interval,
            request: given.unwrap_or(REQUEST_TIMEOUT),
            total: options.lookup_limit.filter(|_| given.is_none()),
        }
    }

    /// How long the next request may take; none when no attempt is left.
    fn next(&self, made: u32, tries: u32, waited: Duration) -> Option<Duration> {
        let left = self.total.map_or(Duration::MAX, |total| total.saturating_sub(waited));
        (made < tries && !left.is_zero()).then(|| self.request.min(left))
    }

    /// What was waited, for the message.
    fn words(&self, made: u32, waited: Duration) -> String {
        let attempts = if made == 1 { "1 attempt".to_owned() } else { format!("{made} attempts") };
        format!("within {:.1} s ({attempts}; kafka.request.timeout.ms is {})", waited.as_secs_f64(), self.request.as_millis())
    }
}

/// One handle for questions.
pub struct Lookup {
    consumer: Arc<BaseConsumer<LastWords>>,
    client: ClientSettings,
    topics: TopicSelection,
    patience: Patience,
    max_age: Duration,
    known: Mutex<Option<(Instant, Arc<[TopicPartition]>)>>,
    outage: Outage,
}

impl Lookup {
    /// Refuses settings that the client does not take. Makes no client: one reads the files of its settings and knocks at
    /// the brokers by itself.
    pub fn check(options: &KafkaSourceOptions) -> Result<()> {
        config(&options.client).create_native_config().map(drop).map_err(|error| cannot_create(&error))
    }

    /// Makes the handle; nothing is asked of the brokers yet.
    pub fn new(options: &KafkaSourceOptions) -> Result<Self> {
        let consumer: BaseConsumer<LastWords> =
            config(&options.client).create_with_context(LastWords::default()).map_err(|error| cannot_create(&error))?;
        let max_age = options
            .client
            .get("metadata.max.age.ms")
            .and_then(|text| text.parse().ok())
            .map_or(Duration::from_secs(1), Duration::from_millis);
        Ok(Self {
            consumer: Arc::new(consumer),
            client: options.client.clone(),
            topics: options.topics.clone(),
            patience: Patience::of(options),
            max_age: max_age.min(Duration::from_secs(1)),
            known: Mutex::new(None),
            outage: Outage::default(),
        })
    }

    /// Which servers do not answer.
    pub fn outage(&self) -> &Outage {
        &self.outage
    }

    /// Asks whether the brokers answer; that a topic is missing is an answer.
    pub fn reach(&self) -> Result<()> {
        match self.partitions(Freshness::Recent) {
            Err(error) if error.condition() != errors::UNKNOWN_TOPICS => Err(error),
            _ => Ok(()),
        }
    }

    /// The partitions of the selection, sorted.
    pub fn partitions(&self, freshness: Freshness) -> Result<Arc<[TopicPartition]>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, partitions)) = &*known
            && freshness == Freshness::Recent
            && at.elapsed() < self.max_age
        {
            return Ok(Arc::clone(partitions));
        }
        let found: Arc<[TopicPartition]> =
            self.attempt("read the topics", self.patience.attempts, |timeout| self.ask_partitions(timeout))?.into();
        *known = Some((Instant::now(), Arc::clone(&found)));
        Ok(found)
    }

    /// The beginnings of partitions.
    pub fn earliest(&self, partitions: &[TopicPartition]) -> Result<PartitionOffsets> {
        self.at(partitions, |_| EARLIEST)
    }

    /// The ends of partitions; under read_committed the last stable offsets.
    pub fn latest(&self, partitions: &[TopicPartition]) -> Result<PartitionOffsets> {
        self.at(partitions, |_| LATEST)
    }

    /// The ends of the selected partitions. An end below a known offset is asked
    /// for again, as brokers may answer from an old replica; then it is taken.
    pub fn latest_above(&self, known: &PartitionOffsets, freshness: Freshness) -> Result<PartitionOffsets> {
        let mut attempt = 1;
        loop {
            let freshness = if attempt == 1 { freshness } else { Freshness::Now };
            let partitions = self.partitions(freshness)?;
            let tries = if freshness == Freshness::Recent { 1 } else { self.patience.attempts };
            let found = match self.ask_offsets(&partitions, |_| LATEST, tries) {
                // The partitions known from before may be gone; look them up, then ask with patience.
                Err(error) if freshness == Freshness::Recent && attempt == 1 => {
                    tracing::debug!(%error, "the partitions are looked up anew");
                    attempt += 1;
                    continue;
                }
                other => other?,
            };
            let back = found.iter().any(|(p, end)| known.get(p).is_some_and(|known| end < known));
            if !back || attempt >= self.patience.attempts {
                return Ok(found);
            }
            attempt += 1;
            std::thread::sleep(self.patience.interval);
        }
    }

    /// The first offsets at or after a time by partition; -1 where there is none.
    pub fn at(&self, partitions: &[TopicPartition], time: impl Fn(&TopicPartition) -> i64) -> Result<PartitionOffsets> {
        self.ask_offsets(partitions, time, self.patience.attempts)
    }

    fn ask_offsets(&self, partitions: &[TopicPartition], time: impl Fn(&TopicPartition) -> i64, tries: u32) -> Result<PartitionOffsets> {
        if partitions.is_empty() {
            return Ok(PartitionOffsets::new());
        }
        self.attempt("read the offsets", tries, |timeout| {
            let mut asked = TopicPartitionList::with_capacity(partitions.len());
            for partition in partitions {
                asked
                    .add_partition_offset(&partition.topic, partition.partition, KafkaOffset::from_raw(time(partition)))
                    .map_err(Trouble::Client)?;
            }
            let answered = self.consumer.offsets_for_times(asked, timeout).map_err(Trouble::Client)?;
            let mut offsets = PartitionOffsets::new();
            for element in answered.elements() {
                element.error().map_err(Trouble::Client)?;
                let offset = element.offset().to_raw().unwrap_or(LATEST);
                offsets.insert(TopicPartition::new(element.topic(), element.partition()), offset);
            }
            Ok(offsets)
        })
    }

    /// The beginnings of those partitions that still exist.
    pub fn earliest_of_existing(&self, partitions: &[TopicPartition]) -> Result<PartitionOffsets> {
        if partitions.is_empty() {
            return Ok(PartitionOffsets::new());
        }
        let there = self.partitions(Freshness::Now)?;
        let existing: Vec<TopicPartition> = partitions.iter().filter(|p| there.contains(p)).cloned().collect();
        self.earliest(&existing)
    }

    fn ask_partitions(&self, timeout: Duration) -> Result<Vec<TopicPartition>, Trouble> {
        let counts = match &self.topics {
            TopicSelection::Pattern(pattern) => {
                let mut counts = self.ask_topic(None, timeout)?;
                counts.retain(|topic, _| pattern.matches(topic) && !is_internal(topic));
                counts
            }
            TopicSelection::Subscribe(topics) => self.ask_topics(topics.iter().map(String::as_str).collect(), timeout)?,
            TopicSelection::Assign(partitions) => self.ask_topics(partitions.iter().map(|p| &*p.topic).collect(), timeout)?,
        };
        let mut found: Vec<TopicPartition> = counts
            .into_iter()
            .flat_map(|(topic, numbers)| {
                let topic: Arc<str> = topic.into();
                numbers.into_iter().map(move |number| TopicPartition::new(Arc::clone(&topic), number))
            })
            .collect();
        if let TopicSelection::Assign(assigned) = &self.topics {
            found.retain(|partition| assigned.contains(partition));
        }
        found.sort();
        Ok(found)
    }

    fn ask_topics(&self, topics: BTreeSet<&str>, timeout: Duration) -> Result<BTreeMap<String, Vec<i32>>, Trouble> {
        let mut found = BTreeMap::new();
        for topic in &topics {
            found.extend(self.ask_topic(Some(topic), timeout)?);
        }
        let missing: BTreeSet<String> =
            topics.iter().filter(|topic| !found.contains_key(**topic)).map(|topic| (*topic).to_owned()).collect();
        if missing.is_empty() { Ok(found) } else { Err(Trouble::UnknownTopics(missing)) }
    }

    fn ask_topic(&self, topic: Option<&str>, timeout: Duration) -> Result<BTreeMap<String, Vec<i32>>, Trouble> {
        let metadata = self.consumer.fetch_metadata(topic, timeout).map_err(Trouble::Client)?;
        let mut found = BTreeMap::new();
        for topic in metadata.topics() {
            match topic.error().map(RDKafkaErrorCode::from) {
                None => {
                    found.insert(topic.name().to_owned(), topic.partitions().iter().map(|p| p.id()).collect());
                }
                Some(RDKafkaErrorCode::UnknownTopicOrPartition) => {}
                Some(code) => return Err(Trouble::Client(KafkaError::MetadataFetch(code))),
            }
        }
        Ok(found)
    }

    fn attempt<T>(&self, action: &str, tries: u32, ask: impl Fn(Duration) -> Result<T, Trouble>) -> Result<T> {
        let begun = Instant::now();
        let mut made = 0;
        let mut timeout = self.patience.request;
        loop {
            self.client.authorize(&self.consumer)?;
            let trouble = match self.ask_in_parts(begun, timeout, &ask) {
                Ok(answer) => {
                    // Nobody else takes the log and error events of this handle.
                    serve_events(&self.consumer);
                    self.consumer.context().refusal.clear();
                    silence::heard(&self.outage, self.client.servers());
                    return Ok(answer);
                }
                Err(trouble) => trouble,
            };
            made += 1;
            let is_final = matches!(trouble, Trouble::Client(_)) && self.is_refused();
            match self.patience.next(made, tries, begun.elapsed() + self.patience.interval).filter(|_| !is_final) {
                Some(next) => timeout = next,
                None => return Err(self.explain(action, &self.patience.words(made, begun.elapsed()), trouble)),
            }
            std::thread::sleep(self.patience.interval);
        }
    }

    /// Asks for so long, with looks in between: a client that is not let in waits as one does whose brokers are away, and
    /// whoever waits for the answer is to know for whom.
    fn ask_in_parts<T>(&self, begun: Instant, timeout: Duration, ask: impl Fn(Duration) -> Result<T, Trouble>) -> Result<T, Trouble> {
        let asked = Instant::now();
        for look in [FIRST_LOOK, TOLD_AFTER] {
            let part = look.min(timeout).saturating_sub(asked.elapsed());
            match ask(part) {
                Err(trouble) if trouble.is_silence() && timeout > asked.elapsed() && !self.is_refused() => {
                    if begun.elapsed() >= TOLD_AFTER {
                        self.tell(&trouble);
                    }
                }
                other => return other,
            }
        }
        ask(timeout.saturating_sub(asked.elapsed()))
    }

    /// Says that the servers do not answer, once.
    fn tell(&self, trouble: &Trouble) {
        let Trouble::Client(error) = trouble else { return };
        silence::tell(&self.outage, self.client.servers(), &last_words(&self.consumer, error));
    }

    /// Why the brokers do not let the client in, if that is so.
    fn refusal(&self) -> Option<Refusal> {
        serve_events(&self.consumer);
        self.consumer.context().refusal.get()
    }

    /// Whether more tries are of no use.
    fn is_refused(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.is_final())
    }

    fn explain(&self, action: &str, waited: &str, trouble: Trouble) -> Error {
        match (trouble, self.refusal()) {
            (Trouble::UnknownTopics(topics), _) => {
                // For the nearest name; without an answer there is none.
                let there = self.ask_topic(None, REQUEST_TIMEOUT).unwrap_or_default();
                let there = there.into_keys().filter(|topic| !is_internal(topic)).collect();
                errors::unknown_topics(&topics, &there, self.client.servers())
            }
            (Trouble::Client(error), refusal) => {
                let explained = refusal.and_then(|refusal| refusal.explain(&format!("{action} from"), &self.client));
                let unreachable =
                    || errors::unreachable(&format!("{action} {waited}"), self.client.servers(), &last_words(&self.consumer, &error));
                explained.unwrap_or_else(unreachable)
            }
        }
    }
}

/// Topics of the brokers' own.
fn is_internal(topic: &str) -> bool {
    matches!(topic, "__consumer_offsets" | "__transaction_state" | "__share_group_state")
}

enum Trouble {
    UnknownTopics(BTreeSet<String>),
    Client(KafkaError),
}

impl Trouble {
    /// No broker answered in time, or none could be reached.
    fn is_silence(&self) -> bool {
        let Trouble::Client(error) = self else { return false };
        matches!(
            error.rdkafka_error_code(),
            Some(RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown)
        )
    }
}

/// The settings of a consumer handle without a group, for questions only.
fn config(client: &ClientSettings) -> ClientConfig {
    // Spark reads uncommitted records unless told otherwise; librdkafka would not.
    let mut config = client.config(&[("isolation.level", "read_uncommitted")], &[("enable.auto.commit", "false")]);
    config.remove("group.id");
    config
}

/// The client refuses its settings.
pub fn cannot_create(error: &KafkaError) -> Error {
    match error {
        KafkaError::ClientConfig(_, description, name, _) => {
            Error::config("INVALID_OPTION_VALUE", format!("the Kafka client refuses the option kafka.{name}: {description}"))
        }
        other => Error::config("INVALID_OPTION_VALUE", format!("the Kafka client cannot be made from the kafka.* options: {other}")),
    }
}

/// The reason behind an error: what the client logged, or the error's own text.
fn last_words(consumer: &BaseConsumer<LastWords>, error: &KafkaError) -> String {
    serve_events(consumer);
    match consumer.context().get() {
        Some(words) => format!("{error} ({words})"),
        None => error.to_string(),
    }
}

/// Takes the events that wait in the queue of a handle that fetches nothing. A poll takes one and may say that there was none.
fn serve_events(consumer: &BaseConsumer<LastWords>) {
    for _ in 0..64 {
        consumer.poll(Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_ends_when_attempts_or_time_are_used_up() {
        let seconds = Duration::from_secs;
        let stream = Patience { attempts: 3, interval: seconds(1), request: seconds(10), total: None };
        assert_eq!(stream.next(2, 3, seconds(22)), Some(seconds(10)));
        assert_eq!(stream.next(3, 3, seconds(33)), None);
        let table = Patience { total: Some(seconds(10)), ..stream };
        assert_eq!(table.next(1, 3, seconds(11)), None, "a broker that is silent has had its time");
        assert_eq!(table.next(1, 3, seconds(2)), Some(seconds(8)), "one that refuses is asked again");
        assert_eq!(table.words(1, seconds(10)), "within 10.0 s (1 attempt; kafka.request.timeout.ms is 10000)");
    }
}
