//! What the brokers say about the records of one part of a batch.
//!
//! The producer's own thread hands each report to the part that sent the
//! record; the part's writer waits for them. The first refusal stays.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;

use crate::kafka::refusal::LastRefusal;

/// How long a report is waited for before a look at the clock.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the brokers said about the records of one part.
#[derive(Default)]
pub struct Part {
    state: Mutex<PartState>,
    changed: Condvar,
}

/// How many records are on their way, and what was refused first.
#[derive(Default)]
pub struct PartState {
    /// Records without a report.
    pub outstanding: u64,
    /// The first refusal.
    pub refused: Option<(RDKafkaErrorCode, String)>,
}

impl Part {
    /// The state, locked.
    pub fn state(&self) -> MutexGuard<'_, PartState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a report, a moment at most.
    pub fn wait<'a>(&self, state: MutexGuard<'a, PartState>) -> MutexGuard<'a, PartState> {
        self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0
    }

    /// A record has its report.
    pub fn settled(&self, refused: Option<(RDKafkaErrorCode, String)>) {
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
pub struct Deliveries {
    last_words: Mutex<Option<String>>,
    refusal: LastRefusal,
}

impl Deliveries {
    /// Whether the brokers let the client in.
    pub fn refusal(&self) -> &LastRefusal {
        &self.refusal
    }

    /// The client's newest complaint, if there was one.
    pub fn last_word(&self) -> Option<String> {
        self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same in parentheses.
    pub fn last_words(&self) -> String {
        self.last_word().map_or_else(String::new, |words| format!(" ({words})"))
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(?level, facility, message, "librdkafka");
        self.refusal.note_log(facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
        self.refusal.note(&error, reason);
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
