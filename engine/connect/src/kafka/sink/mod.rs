//! The Kafka sink: every row of a batch becomes a record, at least once or exactly once.
//!
//! One producer with a bounded queue serves all lanes; `writer` turns rows into
//! records, `deliveries` counts what the brokers took. At least once, nothing
//! in Kafka tells which batches were sent, so a re-run repeats rows. Exactly
//! once, a batch is one transaction (`transactions`) that carries a record of
//! itself (`marker`): readers with `isolation.level` read_committed see each
//! batch once.

mod columns;
mod deliveries;
mod keeper;
mod marker;
mod session;
mod transactions;
mod trouble;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use rdkafka::producer::ThreadedProducer;
use weir_core::{Error, Result};
use weir_crds::options::ParsedOptions;

use self::columns::{RecordColumns, TopicOption};
pub(super) use self::deliveries::Deliveries;
use self::keeper::Keeper;
use self::session::Session;
use self::transactions::{Transactions, transactional_id};
use self::writer::{Shared, Writer};
use super::lookup::cannot_create;
use super::properties::ClientSettings;
use super::source::on_blocking_thread;
use super::topic;
use crate::open::SinkContext;
use crate::sink::{BatchId, Committed, Delivery, OutputRows, Sink, SinkIdentity, SinkWriter, Standing, Steps, Written};
use crate::source::Outage;

/// `transaction.timeout.ms` where it is not set: the brokers' own limit, unless theirs was changed.
const TRANSACTION_TIMEOUT_MS: &str = "900000";
/// How long the end of a run waits for its open transaction; the next run ends it otherwise.
const ABORT_PATIENCE: Duration = Duration::from_secs(1);

/// A Kafka sink's options.
#[derive(Clone, Debug)]
pub struct KafkaSinkOptions {
    /// `topic`: the topic of all rows.
    pub topic: Option<String>,
    /// `markerTopic`: the topic beside which the record of the last batch is kept, where rows name theirs.
    pub marker_topic: Option<String>,
    /// `deliveryGuarantee`.
    pub delivery: Delivery,
    /// How old the record of the last batch may grow while nothing is written; brokers forget it after
    /// `offsets.retention.minutes`, seven days where that is not set.
    pub renew_after: Duration,
    /// How long a transaction may be open before its batch takes effect in part: a third of `transaction.timeout.ms`.
    pub step_after: Duration,
    /// How long the brokers may take for one step of a transaction.
    pub patience: Duration,
    /// The client's settings.
    pub client: ClientSettings,
}

impl KafkaSinkOptions {
    /// Takes over parsed options.
    pub fn from_parsed(parsed: &ParsedOptions) -> Result<Self> {
        let topic = |name: &str| topic::given(name, parsed.opt_str(name).map(|topic| topic.trim().to_owned()));
        let exactly_once = parsed.str("deliveryGuarantee") == "exactly-once";
        let client = ClientSettings::from_parsed(parsed);
        let lives = client.get("transaction.timeout.ms").unwrap_or(TRANSACTION_TIMEOUT_MS).trim().parse().unwrap_or(900_000);
        Ok(Self {
            topic: topic("topic")?,
            marker_topic: topic("markerTopic")?,
            delivery: if exactly_once { Delivery::Fenced } else { Delivery::AtLeastOnce },
            renew_after: Duration::from_secs(3600),
            step_after: Duration::from_millis(lives) / 3,
            patience: Duration::from_secs(60),
            client,
        })
    }
}

/// A streaming sink over Kafka topics.
pub struct KafkaSink {
    schema: SchemaRef,
    shared: Shared,
    /// The topic's own id, exactly once: a topic made anew holds nothing of the batches before.
    topic_id: Option<String>,
    _keeper: Option<Keeper>,
}

impl KafkaSink {
    /// Checks the query's columns and the client's settings; makes no client.
    pub fn check(options: &KafkaSinkOptions, schema: &SchemaRef) -> Result<()> {
        record_columns(options, schema)?;
        producer_config(options, uuid::Uuid::nil()).create_native_config().map(drop).map_err(|error| cannot_create(&error))
    }

    /// Checks the query's columns and makes the producer. No broker is asked, unless delivery is exactly once: then this
    /// producer displaces those of earlier runs.
    pub async fn open(options: &KafkaSinkOptions, schema: SchemaRef, context: &SinkContext) -> Result<Self> {
        let columns = record_columns(options, &schema)?;
        let options = &KafkaSinkOptions { client: options.client.clone().loaded()?, ..options.clone() };
        let config = producer_config(options, context.query_id);
        let delivery: u64 = config.get("delivery.timeout.ms").and_then(|text| text.parse().ok()).unwrap_or(120_000);
        let producer: ThreadedProducer<Deliveries> =
            config.create_with_context(Deliveries::default()).map_err(|error| cannot_create(&error))?;
        let mut shared = Shared {
            topic: options.topic.as_deref().map(Arc::from),
            columns,
            producer: Arc::new(producer),
            client: Arc::new(options.client.clone()),
            // The client itself gives up on a record after the delivery timeout.
            give_up_after: Duration::from_millis(delivery) + Duration::from_secs(30),
            silence: Arc::default(),
            outage: Outage::default(),
            transactions: None,
        };
        if options.delivery == Delivery::Fenced {
            shared.transactions = Some(begin_session(options, &shared, context).await?);
        }
        let topic_id = match &shared.transactions {
            // Of rows that name their topics the record's topic holds none.
            Some(transactions) => transactions.run(Transactions::topic_id).await?.filter(|_| options.topic.is_some()),
            None => None,
        };
        let keeper = shared.transactions.as_ref().map(|transactions| Keeper::begin(transactions, options.renew_after));
        Ok(Self { schema, shared, topic_id, _keeper: keeper })
    }
}

impl Drop for KafkaSink {
    fn drop(&mut self) {
        // Readers wait for the end of an open transaction.
        if let Some(Err(error)) = self.shared.transactions.as_ref().map(|transactions| transactions.abandon(ABORT_PATIENCE)) {
            tracing::debug!(%error, "the open transaction is left to the next run");
        }
    }
}

async fn begin_session(options: &KafkaSinkOptions, shared: &Shared, context: &SinkContext) -> Result<Arc<Transactions>> {
    let topic = options.topic.as_deref().or(options.marker_topic.as_deref()).ok_or_else(|| {
        Error::config(
            "KAFKA_EXACTLY_ONCE_NEEDS_TOPIC",
            "exactly once needs the option topic, or markerTopic where rows name their topics: the record of the last batch is kept \
             beside it",
        )
    })?;
    let session = Session::new(shared, transactional_id(context.query_id), topic, options.patience);
    let transactions = Arc::new(Transactions::new(session, context.fence.clone(), options.step_after));
    transactions.run(Transactions::begin_session).await?;
    // A process that slept before it displaced its successor must not go on (protocol.md 3.5).
    context.fence.check().await?;
    Ok(transactions)
}

/// Which column is which part of a record.
fn record_columns(options: &KafkaSinkOptions, schema: &SchemaRef) -> Result<RecordColumns> {
    RecordColumns::find(schema, if options.topic.is_some() { TopicOption::Given } else { TopicOption::Absent })
}

/// Java's defaults where librdkafka's differ, and a queue of 32 MiB.
fn producer_config(options: &KafkaSinkOptions, query_id: uuid::Uuid) -> rdkafka::ClientConfig {
    let client = &options.client;
    let mut defaults = vec![
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
    if options.delivery == Delivery::AtLeastOnce {
        defaults.push(("delivery.timeout.ms", "120000"));
        return client.config(&defaults, &[]);
    }
    // No record may be waited for longer than its transaction lives.
    let lives = client.get("transaction.timeout.ms").unwrap_or(TRANSACTION_TIMEOUT_MS);
    let delivery = lives.parse::<u64>().map_or(120_000, |lives| lives.min(120_000)).to_string();
    defaults.extend([("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS), ("delivery.timeout.ms", delivery.as_str())]);
    client.config(&defaults, &[("enable.idempotence", "true"), ("transactional.id", &transactional_id(query_id))])
}

#[async_trait]
impl Sink for KafkaSink {
    fn description(&self) -> String {
        "org.apache.spark.sql.kafka010.KafkaSourceProvider$KafkaTable".to_owned()
    }

    fn identity(&self) -> SinkIdentity {
        let location = self.shared.topic.as_deref().unwrap_or_default().to_owned();
        SinkIdentity { format: "kafka".to_owned(), location, table_id: self.topic_id.clone() }
    }

    fn output_rows(&self) -> OutputRows {
        OutputRows::Counted
    }

    fn delivery(&self) -> Delivery {
        if self.shared.transactions.is_some() { Delivery::Fenced } else { Delivery::AtLeastOnce }
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    async fn recorded_batch(&self, _query_id: uuid::Uuid) -> Result<Option<u64>> {
        match &self.shared.transactions {
            Some(transactions) => transactions.run(Transactions::recorded).await,
            None => Ok(None),
        }
    }

    async fn resume(&self, standing: Standing) -> Result<()> {
        match &self.shared.transactions {
            Some(transactions) => transactions.run(move |transactions| transactions.resume(standing)).await,
            None => Ok(()),
        }
    }

    fn steps(&self) -> Option<&dyn Steps> {
        self.shared.transactions.as_ref().map(|transactions| -> &dyn Steps { transactions })
    }

    async fn writer(&self, _batch: &BatchId, _lane: usize) -> Result<Box<dyn SinkWriter>> {
        match &self.shared.transactions {
            Some(transactions) => transactions.run(Transactions::make_ready).await?,
            None => {
                let Shared { client, producer, .. } = self.shared.clone();
                on_blocking_thread(move || client.authorize(&producer)).await?;
            }
        }
        Ok(Box::new(Writer::new(self.shared.clone())))
    }

    fn is_silent(&self) -> bool {
        self.shared.silence.is_there() || self.shared.transactions.as_ref().is_some_and(|transactions| transactions.is_silent())
    }

    fn outage(&self) -> Outage {
        self.shared.outage.clone()
    }

    async fn commit(&self, batch: &BatchId, _parts: Vec<Written>) -> Result<Committed> {
        let Some(transactions) = &self.shared.transactions else { return Ok(Committed::Now) };
        let batch = batch.clone();
        let is_new = transactions.run(move |transactions| transactions.commit(&batch)).await?;
        Ok(if is_new { Committed::Now } else { Committed::Before })
    }

    async fn maintain(&self, _batch: u64) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Steps for Arc<Transactions> {
    async fn begin(&self, batch: &BatchId, partitions: &[String]) -> Result<BTreeMap<usize, u64>> {
        self.begin_batch(batch.batch, partitions)
    }
}
