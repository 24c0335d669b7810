//! How old the oldest unread record is.
//!
//! Owns a small consumer handle that fetches one record of each lagging
//! partition. Answers are remembered by offset, so a position that does not
//! move is not fetched twice, and a stream that keeps up costs nothing. Best
//! effort: without an answer in time the age is unknown, never an error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset as KafkaOffset, TopicPartitionList};
use weir_core::Result;

use super::lookup::{LastWords, cannot_create};
use super::offsets::{PartitionOffsets, TopicPartition};
use super::options::KafkaSourceOptions;
use super::properties::ClientSettings;

/// Longest wait for the records.
const PATIENCE: Duration = Duration::from_millis(500);
/// Partitions looked at in one go.
const MOST: usize = 16;

/// Finds and remembers the times of unread records.
pub struct OldestUnread {
    config: rdkafka::ClientConfig,
    client: ClientSettings,
    consumer: Option<Arc<BaseConsumer<LastWords>>>,
    known: BTreeMap<TopicPartition, (i64, i64)>,
}

impl OldestUnread {
    /// Nothing is known, no broker is asked yet.
    pub fn new(options: &KafkaSourceOptions, group_id: &str) -> Self {
        let defaults = [("isolation.level", "read_uncommitted"), ("group.id", group_id), ("fetch.error.backoff.ms", "50")];
        let forced = [
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "earliest"),
            ("queued.min.messages", "1"),
            ("queued.max.messages.kbytes", "1024"),
            ("max.partition.fetch.bytes", "16384"),
        ];
        let mut config = options.client.config(&defaults, &forced);
        // Its events are taken only while it looks.
        config.set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
        Self { config, client: options.client.clone(), consumer: None, known: BTreeMap::new() }
    }

    /// The time in epoch milliseconds of the oldest record at these positions.
    pub fn oldest(&mut self, positions: &PartitionOffsets) -> Result<Option<i64>> {
        self.known.retain(|partition, (offset, _)| positions.get(partition) == Some(offset));
        let unknown: Vec<(&TopicPartition, i64)> =
            positions.iter().filter(|(p, _)| !self.known.contains_key(*p)).map(|(p, o)| (p, *o)).take(MOST).collect();
        if !unknown.is_empty() {
            self.fetch(&unknown)?;
        }
        Ok(self.known.values().map(|(_, time)| *time).min())
    }

    fn fetch(&mut self, wanted: &[(&TopicPartition, i64)]) -> Result<()> {
        let consumer = match self.consumer.take() {
            Some(consumer) => consumer,
            None => Arc::new(self.config.create_with_context(LastWords::default()).map_err(|error| cannot_create(&error))?),
        };
        if let Err(error) = self.client.authorize(&consumer) {
            tracing::debug!(%error, "the oldest unread record is not looked at");
            self.consumer = Some(consumer);
            return Ok(());
        }
        let mut list = TopicPartitionList::with_capacity(wanted.len());
        let added =
            wanted.iter().try_for_each(|(p, offset)| list.add_partition_offset(&p.topic, p.partition, KafkaOffset::Offset(*offset)));
        if added.and_then(|()| consumer.assign(&list)).is_err() {
            return Ok(());
        }
        let until = Instant::now() + PATIENCE;
        let mut missing = wanted.len();
        while missing > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let Some(Ok(message)) = consumer.poll(left) else { continue };
            let found = wanted.iter().find(|(p, _)| &*p.topic == message.topic() && p.partition == message.partition());
            if let (Some((partition, offset)), Some(time)) = (found, message.timestamp().to_millis())
                && !self.known.contains_key(*partition)
            {
                self.known.insert((*partition).clone(), (*offset, time));
                missing -= 1;
            }
        }
        // Stops the fetching; the connections stay.
        if consumer.unassign().is_ok() {
            self.consumer = Some(consumer);
        }
        Ok(())
    }
}
