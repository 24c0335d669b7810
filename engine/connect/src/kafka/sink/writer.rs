//! One lane's part of a batch: rows become records, and `finish` waits until the brokers have taken every one.
//!
//! A refusal fails the batch, which is then sent again as a whole. Under
//! exactly once the records belong to the batch's transaction, and whatever
//! fails is first explained by the fence: a higher epoch is the reason then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use tokio::sync::OwnedRwLockReadGuard;
use weir_core::{Error, Result};

use super::columns::{RecordColumns, Records};
use super::deliveries::{Deliveries, Part, PartState};
use super::transactions::Transactions;
use super::trouble;
use crate::kafka::properties::ClientSettings;
use crate::kafka::refusal::Refusal;
use crate::kafka::silence::{self, Silence, TOLD_AFTER, Wait};
use crate::kafka::topic;
use crate::sink::{SinkWriter, Written};
use crate::source::Outage;

/// What the writers of a sink share.
#[derive(Clone)]
pub struct Shared {
    /// The topic of all rows, where there is one.
    pub topic: Option<Arc<str>>,
    /// Which column is which part of a record.
    pub columns: RecordColumns,
    /// The one producer.
    pub producer: Arc<ThreadedProducer<Deliveries>>,
    /// The client's settings, for messages.
    pub client: Arc<ClientSettings>,
    /// How long a report is waited for.
    pub give_up_after: Duration,
    /// Who waits in silence.
    pub silence: Arc<Silence>,
    /// Who does not answer.
    pub outage: Outage,
    /// Present where delivery is exactly once.
    pub transactions: Option<Arc<Transactions>>,
}

impl Shared {
    /// Nothing has come yet. Whoever waits long says for whom.
    fn goes_on(&self, wait: &mut Wait) {
        let now = Instant::now();
        wait.goes_on(now);
        if now.duration_since(wait.since()) >= TOLD_AFTER {
            let last = self.producer.context().last_word();
            silence::tell(&self.outage, self.client.servers(), last.as_deref().unwrap_or("records wait for their acknowledgement"));
        }
    }

    fn heard(&self, wait: &mut Wait) {
        wait.heard(Instant::now());
        silence::heard(&self.outage, self.client.servers());
    }
}

/// The writer of one part.
pub struct Writer {
    shared: Shared,
    part: Arc<Part>,
    rows: u64,
    /// Held under exactly once from a slice's first record to its last.
    slice: Option<OwnedRwLockReadGuard<()>>,
}

impl Writer {
    /// A writer of nothing yet.
    pub fn new(shared: Shared) -> Self {
        // What was refused may be allowed by now; if not, the client says so again.
        shared.producer.context().refusal().clear();
        Self { shared, part: Arc::default(), rows: 0, slice: None }
    }

    fn send(&self, records: &Records, row: usize) -> Result<()> {
        let topic = match &self.shared.topic {
            Some(topic) => &**topic,
            None => {
                let name = records.topic(row).ok_or_else(null_topic)?;
                // Brokers would be asked for it again and again.
                topic::check(name).map_err(|why| trouble::invalid_topic(name, &why))?;
                name
            }
        };
        let mut record: BaseRecord<'_, [u8], [u8], Arc<Part>> = BaseRecord::with_opaque_to(topic, Arc::clone(&self.part));
        record.key = records.key(row);
        record.payload = records.value(row);
        record.partition = records.partition(row)?;
        record.headers = records.headers(row)?;
        self.part.state().outstanding += 1;
        let begun = Instant::now();
        let mut wait = Wait::begin(&self.shared.silence, begun);
        loop {
            match self.shared.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) if begun.elapsed() < self.shared.give_up_after => {
                    // Deliveries make room; the producer's own thread reports them.
                    let state = self.part.state();
                    self.refusal(&state)?;
                    drop(self.part.wait(state));
                    self.shared.goes_on(&mut wait);
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

    /// A record that was not taken, or brokers that do not let the client in: those would be asked until the delivery timeout.
    fn refusal(&self, state: &PartState) -> Result<()> {
        if state.outstanding > 0
            && let Some(refusal) = self.shared.producer.context().refusal().get().filter(Refusal::is_final)
        {
            return Err(refusal.error("write to", &self.shared.client));
        }
        state.refused.as_ref().map_or(Ok(()), |(code, what)| Err(self.refused(*code, what)))
    }

    fn refused(&self, code: RDKafkaErrorCode, what: &str) -> Error {
        let servers = self.shared.client.servers();
        match trouble::not_taken(servers, what, code) {
            Some(error) => error,
            None => {
                let context = self.shared.producer.context();
                if let Some(explained) = context.refusal().get().and_then(|refusal| refusal.explain("write to", &self.shared.client)) {
                    return explained;
                }
                let last = context.last_words();
                Error::retryable(
                    "KAFKA_DELIVERY_FAILED",
                    format!(
                        "the Kafka servers {servers} did not take {what}{last}; the batch is sent again; check the servers and the user's right to write"
                    ),
                )
            }
        }
    }

    fn send_all(&self, records: &Records, rows: usize) -> Result<()> {
        self.refusal(&self.part.state())?;
        (0..rows).try_for_each(|row| self.send(records, row))
    }

    /// A failure of a producer that a successor has displaced is the successor's doing.
    async fn explained(&self, result: Result<()>) -> Result<()> {
        match (&self.shared.transactions, result) {
            (Some(transactions), Err(error)) => Err(transactions.reason_of(error).await),
            (_, result) => result,
        }
    }

    /// Waits until every record is acknowledged.
    fn settle(&self) -> Result<()> {
        let begun = Instant::now();
        let mut wait = Wait::begin(&self.shared.silence, begun);
        let mut state = self.part.state();
        while state.outstanding > 0 && state.refused.is_none() {
            if begun.elapsed() >= self.shared.give_up_after {
                return Err(self.refused(RDKafkaErrorCode::MessageTimedOut, &format!("{} records in time", state.outstanding)));
            }
            self.refusal(&state)?;
            let before = state.outstanding;
            state = self.part.wait(state);
            if state.outstanding < before { self.shared.heard(&mut wait) } else { self.shared.goes_on(&mut wait) }
        }
        drop(wait);
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
        let records = self.shared.columns.of(&slice)?;
        if let (Some(transactions), None) = (&self.shared.transactions, &self.slice) {
            self.slice = Some(transactions.within_a_slice().await);
        }
        let sent = self.send_all(&records, slice.num_rows());
        self.explained(sent).await?;
        self.rows += slice.num_rows() as u64;
        Ok(())
    }

    async fn reached(&mut self, partition: usize, position: u64) -> Result<()> {
        let Some(transactions) = &self.shared.transactions else { return Ok(()) };
        let is_step_due = transactions.reached(partition, position);
        self.slice = None;
        if is_step_due { transactions.take_step().await } else { Ok(()) }
    }

    async fn finish(self: Box<Self>) -> Result<Written> {
        self.explained(self.settle()).await?;
        Ok(Written { rows: self.rows, ..Written::default() })
    }

    async fn abort(self: Box<Self>) {}
}
