//! The Kafka sink: every row of a batch becomes a record, at least once.
//!
//! One producer with a bounded queue serves all lanes. A part is finished when
//! the brokers have acknowledged each of its records; any refusal fails the
//! batch, which is then sent again as a whole. There is no record of batches in
//! Kafka, so a re-run repeats rows. Exactly once is refused, never approximated.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use weir_core::{Error, Result};
use weir_crds::options::ParsedOptions;

use super::lookup::cannot_create;
use super::properties::ClientSettings;
use super::silence::{Silence, Wait};
use super::sink_columns::{RecordColumns, Records, TopicOption};
use crate::sink::{BatchId, Committed, Delivery, OutputRows, Sink, SinkIdentity, SinkWriter, Written};

/// How long a full queue is waited on before a look at the clock.
const PATIENCE: Duration = Duration::from_millis(100);

/// A Kafka sink's options.
#[derive(Clone, Debug)]
pub struct KafkaSinkOptions {
    /// `topic`: the topic of all rows.
    pub topic: Option<String>,
    /// The client's settings.
    pub client: ClientSettings,
}

impl KafkaSinkOptions {
    /// Takes over parsed options.
    pub fn from_parsed(parsed: &ParsedOptions) -> Result<Self> {
        if parsed.str("deliveryGuarantee") == "exactly-once" {
            return Err(Error::config(
                "UNSUPPORTED_FEATURE.KAFKA_EXACTLY_ONCE",
                "the Kafka sink cannot deliver exactly once yet; leave the option deliveryGuarantee out, or set it to at-least-once and make \
                 the readers of the topic accept repeated rows",
            ));
        }
        Ok(Self {
            topic: parsed.opt_str("topic").map(|topic| topic.trim().to_owned()),
            client: ClientSettings::new(parsed.kafka_client().clone()),
        })
    }
}

/// A streaming sink over Kafka topics.
pub struct KafkaSink {
    topic: Option<Arc<str>>,
    columns: RecordColumns,
    schema: SchemaRef,
    producer: Arc<ThreadedProducer<Deliveries>>,
    servers: Arc<str>,
    give_up_after: Duration,
    silence: Arc<Silence>,
}

impl KafkaSink {
    /// Checks the query's columns and the client's settings; makes no client.
    pub fn check(options: &KafkaSinkOptions, schema: &SchemaRef) -> Result<()> {
        record_columns(options, schema)?;
        producer_config(&options.client).create_native_config().map(drop).map_err(|error| cannot_create(&error))
    }

    /// Checks the query's columns and makes the producer; no broker is asked yet.
    pub fn open(options: &KafkaSinkOptions, schema: SchemaRef) -> Result<Self> {
        let columns = record_columns(options, &schema)?;
        let config = producer_config(&options.client);
        let delivery: u64 = config.get("delivery.timeout.ms").and_then(|text| text.parse().ok()).unwrap_or(120_000);
        let producer = config.create_with_context(Deliveries::default()).map_err(|error| cannot_create(&error))?;
        Ok(Self {
            topic: options.topic.as_deref().map(Arc::from),
            columns,
            schema,
            producer: Arc::new(producer),
            servers: options.client.servers().into(),
            // The client itself gives up on a record after the delivery timeout.
            give_up_after: Duration::from_millis(delivery) + Duration::from_secs(30),
            silence: Arc::default(),
        })
    }
}

/// Which column is which part of a record.
fn record_columns(options: &KafkaSinkOptions, schema: &SchemaRef) -> Result<RecordColumns> {
    RecordColumns::find(schema, if options.topic.is_some() { TopicOption::Given } else { TopicOption::Absent })
}

/// Java's defaults where librdkafka's differ, and a queue of 32 MiB.
fn producer_config(client: &ClientSettings) -> rdkafka::ClientConfig {
    let mut defaults = vec![
        ("delivery.timeout.ms", "120000"),
        ("message.max.bytes", "1048576"),
        ("queue.buffering.max.kbytes", "32768"),
        ("queue.buffering.max.messages", "100000"),
        ("partitioner", "murmur2_random"),
    ];
    // As in the Java client, idempotence is the default unless another setting contradicts it.
    let acks_all = client.get("acks").is_none_or(|acks| matches!(acks.trim(), "all" | "-1"));
    let retries = client.get("retries").is_none_or(|retries| retries.trim() != "0");
    let in_flight = client.get("max.in.flight.requests.per.connection").and_then(|text| text.trim().parse::<u32>().ok());
    if acks_all && retries && in_flight.is_none_or(|most| most <= 5) {
        defaults.push(("enable.idempotence", "true"));
    }
    client.config(&defaults, &[])
}

/// What the brokers said about the records of one part.
#[derive(Default)]
struct Part {
    state: Mutex<PartState>,
    changed: Condvar,
}

#[derive(Default)]
struct PartState {
    outstanding: u64,
    refused: Option<(RDKafkaErrorCode, String)>,
}

impl Part {
    fn state(&self) -> MutexGuard<'_, PartState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, PartState>) -> MutexGuard<'a, PartState> {
        self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0
    }

    fn settled(&self, refused: Option<(RDKafkaErrorCode, String)>) {
        let mut state = self.state();
        state.outstanding = state.outstanding.saturating_sub(1);
        if state.refused.is_none() {
            state.refused = refused;
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Hands each delivery report to the part that sent the record.
#[derive(Default)]
struct Deliveries {
    last_words: Mutex<Option<String>>,
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(?level, facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
        *self.last_words.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Arc<Part>;

    fn delivery(&self, result: &DeliveryResult<'_>, part: Arc<Part>) {
        part.settled(result.as_ref().err().map(|(error, record)| {
            use rdkafka::Message;
            let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
            (code, format!("a record for partition {} of {}: {error}", record.partition(), record.topic()))
        }));
    }
}

#[async_trait]
impl Sink for KafkaSink {
    fn description(&self) -> String {
        "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable".to_owned()
    }

    fn identity(&self) -> SinkIdentity {
        SinkIdentity { format: "kafka".to_owned(), location: self.topic.as_deref().unwrap_or_default().to_owned(), table_id: None }
    }

    fn output_rows(&self) -> OutputRows {
        OutputRows::Counted
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    async fn recorded_batch(&self, _query_id: uuid::Uuid) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn writer(&self, _batch: &BatchId, _lane: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Writer {
            topic: self.topic.clone(),
            columns: self.columns.clone(),
            producer: Arc::clone(&self.producer),
            servers: Arc::clone(&self.servers),
            give_up_after: self.give_up_after,
            silence: Arc::clone(&self.silence),
            part: Arc::default(),
            rows: 0,
        }))
    }

    fn is_silent(&self) -> bool {
        self.silence.is_there()
    }

    async fn commit(&self, _batch: &BatchId, _parts: Vec<Written>) -> Result<Committed> {
        Ok(Committed::Now)
    }

    async fn maintain(&self, _batch: u64) -> Result<()> {
        Ok(())
    }
}

struct Writer {
    topic: Option<Arc<str>>,
    columns: RecordColumns,
    producer: Arc<ThreadedProducer<Deliveries>>,
    servers: Arc<str>,
    give_up_after: Duration,
    silence: Arc<Silence>,
    part: Arc<Part>,
    rows: u64,
}

impl Writer {
    fn send(&self, records: &Records, row: usize) -> Result<()> {
        let topic = match &self.topic {
            Some(topic) => topic,
            None => records.topic(row).ok_or_else(null_topic)?,
        };
        let mut record: BaseRecord<'_, [u8], [u8], Arc<Part>> = BaseRecord::with_opaque_to(topic, Arc::clone(&self.part));
        record.key = records.key(row);
        record.payload = records.value(row);
        record.partition = records.partition(row);
        record.headers = records.headers(row);
        self.part.state().outstanding += 1;
        let begun = Instant::now();
        let mut wait = Wait::begin(&self.silence, begun);
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) if begun.elapsed() < self.give_up_after => {
                    // Deliveries make room; the producer's own thread reports them.
                    let state = self.part.state();
                    self.refusal(&state)?;
                    drop(self.part.wait(state));
                    wait.goes_on(Instant::now());
                    record = again;
                }
                Err((error, _)) => {
                    let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
                    self.part.settled(None);
                    return Err(self.refused(code, &format!("a record for {topic}: {error}")));
                }
            }
        }
    }

    fn refusal(&self, state: &PartState) -> Result<()> {
        state.refused.as_ref().map_or(Ok(()), |(code, what)| Err(self.refused(*code, what)))
    }

    fn refused(&self, code: RDKafkaErrorCode, what: &str) -> Error {
        let servers = &self.servers;
        match code {
            RDKafkaErrorCode::MessageSizeTooLarge => Error::config(
                "KAFKA_RECORD_TOO_LARGE",
                format!(
                    "the Kafka servers {servers} did not take {what}; raise kafka.max.request.size and the topic's max.message.bytes, or make the row smaller"
                ),
            ),
            RDKafkaErrorCode::UnknownPartition => Error::config(
                "KAFKA_UNKNOWN_PARTITION",
                format!(
                    "the Kafka servers {servers} did not take {what}; the column partition names a partition that the topic does not have"
                ),
            ),
            _ => {
                let last = self.producer.context().last_words.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let last = last.map_or_else(String::new, |words| format!(" ({words})"));
                Error::retryable(
                    "KAFKA_DELIVERY_FAILED",
                    format!(
                        "the Kafka servers {servers} did not take {what}{last}; the batch is sent again; check the servers and the user's right to write"
                    ),
                )
            }
        }
    }

    /// Waits until every record is acknowledged.
    fn settle(&self) -> Result<()> {
        let begun = Instant::now();
        let mut wait = Wait::begin(&self.silence, begun);
        let mut state = self.part.state();
        while state.outstanding > 0 && state.refused.is_none() {
            if begun.elapsed() >= self.give_up_after {
                return Err(self.refused(RDKafkaErrorCode::MessageTimedOut, &format!("{} records in time", state.outstanding)));
            }
            let before = state.outstanding;
            state = self.part.wait(state);
            if state.outstanding < before { wait.heard(Instant::now()) } else { wait.goes_on(Instant::now()) }
        }
        self.refusal(&state)
    }
}

fn null_topic() -> Error {
    Error::config(
        "KAFKA_NULL_TOPIC_IN_DATA",
        "a row for the Kafka sink has a null topic; set the option topic for all rows, or leave such rows out with a WHERE clause",
    )
}

#[async_trait]
impl SinkWriter for Writer {
    async fn write(&mut self, slice: RecordBatch) -> Result<()> {
        let records = self.columns.of(&slice)?;
        self.refusal(&self.part.state())?;
        for row in 0..slice.num_rows() {
            self.send(&records, row)?;
        }
        self.rows += slice.num_rows() as u64;
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Written> {
        self.settle()?;
        Ok(Written { rows: self.rows, ..Written::default() })
    }

    async fn abort(self: Box<Self>) {}
}
