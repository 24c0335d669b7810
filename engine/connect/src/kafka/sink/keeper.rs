//! The thread that keeps a marker alive while nothing is written.
//!
//! Brokers forget the offsets of a group in which nothing happens
//! (`offsets.retention.minutes`). A renewal that fails is tried again, unless another
//! producer has taken over. The thread ends with its sink.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::transactions::Transactions;
use super::trouble;

/// Renews a marker until it is dropped.
pub struct Keeper {
    _alive: SyncSender<()>,
}

impl Keeper {
    /// Begins; a marker that is older than `age` is written again.
    pub fn begin(transactions: &Arc<Transactions>, age: Duration) -> Self {
        let (alive, ended) = sync_channel(0);
        let kept = Arc::downgrade(transactions);
        let run = move || {
            while ended.recv_timeout(age) == Err(RecvTimeoutError::Timeout) {
                if !renew(&kept, age) {
                    break;
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().name("kafka-marker".to_owned()).spawn(run) {
            tracing::warn!(%error, "no thread keeps the record of the last batch alive: brokers forget it after a week without rows");
        }
        Self { _alive: alive }
    }
}

/// Whether it is worth going on.
fn renew(kept: &Weak<Transactions>, age: Duration) -> bool {
    let Some(transactions) = kept.upgrade() else { return false };
    match transactions.renew(age) {
        Ok(renewed) => {
            tracing::debug!(renewed, "the record of the last batch in Kafka");
            true
        }
        Err(error) => {
            tracing::warn!(%error, "the record of the last batch could not be renewed");
            error.condition() != trouble::FENCED
        }
    }
}
