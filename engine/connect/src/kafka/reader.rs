//! Reading one planned range to its very end.
//!
//! A range ends when a record at or beyond the end shows up, or when the client
//! reports that the partition has nothing before it: transaction markers,
//! aborted and compacted records leave gaps that no record announces. Silence is
//! looked into every second and is an error after the poll timeout. Records that
//! are gone fail the batch or are skipped, by `failOnDataLoss`, with the range.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use weir_core::{Error, Result};

use super::errors;
use super::offsets::TopicPartition;
use super::options::DataLoss;
use super::plan::{self, OffsetRange, Resume};
use super::pool::{ConsumerPool, Handle, Lease};
use super::refusal::Refusal;
use super::rows::RowBuilder;
use super::silence::{SUSPICION, Wait};
use crate::source::{PartitionReader, ReadCounters, Scan};

/// After so long without a record that is due it is told.
const TOLD_AFTER: Duration = Duration::from_secs(5);
/// Longest single wait for records.
const PATIENCE: Duration = Duration::from_millis(50);

/// How a reader treats trouble.
#[derive(Clone, Copy, Debug)]
pub struct ReadPolicy {
    /// `failOnDataLoss`.
    pub data_loss: DataLoss,
    /// `kafkaConsumer.pollTimeoutMs`.
    pub poll_timeout: Duration,
}

/// Reads one range.
pub struct RangeReader {
    partition: TopicPartition,
    position: i64,
    end: i64,
    rows: RowBuilder,
    max_rows: usize,
    max_bytes: usize,
    pool: Arc<ConsumerPool>,
    policy: ReadPolicy,
    lease: Option<Lease>,
    counters: ReadCounters,
}

/// Why a look through the taken records ended.
enum Step {
    /// Nothing is left of what was taken.
    Empty,
    /// The slice is full.
    SliceFull,
    /// The range is read.
    RangeRead,
    /// The client cannot go on from here.
    Trouble(RDKafkaErrorCode, String),
}

impl RangeReader {
    /// A reader of `range`; nothing is fetched before the first slice is asked for.
    pub fn new(range: OffsetRange, schema: &SchemaRef, scan: &Scan, pool: Arc<ConsumerPool>, policy: ReadPolicy) -> Result<Self> {
        Ok(Self {
            rows: RowBuilder::new(schema, &scan.columns, range.partition.clone())?,
            partition: range.partition,
            position: range.start,
            end: range.end,
            max_rows: scan.max_rows.max(1),
            max_bytes: scan.max_bytes.max(1),
            pool,
            policy,
            lease: None,
            counters: ReadCounters::default(),
        })
    }

    /// The next slice. May be dropped while it waits: the handle then goes back to the pool.
    async fn slice(&mut self) -> Result<Option<RecordBatch>> {
        if self.position >= self.end {
            return Ok(None);
        }
        let mut lease = match self.lease.take() {
            Some(lease) => lease,
            None => self.pool.lease(&self.partition, self.position)?,
        };
        if let Err(error) = self.fill_slice(lease.handle()).await {
            lease.discard();
            return Err(error);
        }
        self.lease = (self.position < self.end).then_some(lease);
        let (rows, bytes) = (self.rows.rows() as u64, self.rows.bytes() as u64);
        self.counters.bytes += bytes;
        self.pool.sizes().add(rows, bytes);
        if rows == 0 { Ok(None) } else { self.rows.finish().map(Some) }
    }

    /// Fills the slice, or reads the range to its end.
    async fn fill_slice(&mut self, handle: &mut Handle) -> Result<()> {
        let mut wait = Wait::begin(self.pool.silence(), Instant::now());
        let mut looked_at = wait.since();
        let mut last_trouble = None;
        let mut is_told = false;
        loop {
            let before = self.position;
            let step = self.use_taken(handle);
            if self.position > before {
                wait.heard(Instant::now());
                looked_at = wait.since();
                handle.drain.consumer().context().refusal().clear();
            }
            match step {
                Step::SliceFull => return Ok(()),
                Step::RangeRead => {
                    self.position = self.end;
                    return Ok(());
                }
                Step::Trouble(code, words) if loses_position(code) => self.recover(handle, &words)?,
                Step::Trouble(RDKafkaErrorCode::TopicAuthorizationFailed, _) => return Err(self.not_authorized()),
                Step::Trouble(code, words) => {
                    if let Some(refusal) = Refusal::of(Some(code), &words).filter(Refusal::is_final) {
                        return Err(self.refused(&refusal));
                    }
                    last_trouble = Some(if words.is_empty() { code.to_string() } else { words });
                }
                Step::Empty => {
                    if handle.drain.fill(self.appetite(), PATIENCE) == 0 {
                        // Lets a driver that wants to stop drop this future.
                        tokio::task::yield_now().await;
                        wait.goes_on(Instant::now());
                        if looked_at.elapsed() >= SUSPICION {
                            looked_at = Instant::now();
                            self.look_into_silence(handle, &mut last_trouble)?;
                        }
                        if !is_told && wait.since().elapsed() >= TOLD_AFTER {
                            is_told = true;
                            let (servers, range) = (self.pool.client().servers(), self.range());
                            let why = last_trouble.as_deref().unwrap_or("no answer");
                            tracing::warn!("the Kafka servers {servers} do not send {range}: {why}; they are waited for");
                        }
                    }
                }
            }
            if self.position >= self.end {
                return Ok(());
            }
            if wait.since().elapsed() >= self.policy.poll_timeout {
                return Err(self.silence(last_trouble));
            }
        }
    }

    /// How many records to take at once: what the range still has, in few megabytes.
    fn appetite(&self) -> usize {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let mean = self.pool.sizes().mean().unwrap_or(1024.0).max(1.0);
        let affordable = (self.max_bytes as f64 / mean) as usize;
        left.min(affordable.max(16))
    }

    fn use_taken(&mut self, handle: &mut Handle) -> Step {
        if handle.reached() >= self.end {
            return Step::RangeRead;
        }
        while let Some(record) = handle.drain.peek() {
            let ours = record.partition() == self.partition.partition && record.topic() == self.partition.topic.as_bytes();
            let offset = record.offset();
            if let Some(code) = record.error() {
                let words = record.error_text();
                handle.drain.advance();
                match code {
                    RDKafkaErrorCode::PartitionEOF if ours => {
                        handle.saw_end_at(offset);
                        if offset >= self.end {
                            return Step::RangeRead;
                        }
                    }
                    RDKafkaErrorCode::PartitionEOF => {}
                    code => return Step::Trouble(code, words),
                }
                continue;
            }
            // Left over from an earlier assignment.
            if !ours || offset < self.position {
                handle.drain.advance();
                continue;
            }
            if offset >= self.end {
                // It stays taken: the next batch begins with it.
                handle.saw_end_at(offset);
                return Step::RangeRead;
            }
            self.rows.append(&record);
            self.position = offset + 1;
            handle.drain.advance();
            handle.used_up_to(offset + 1);
            if self.position >= self.end || self.rows.rows() >= self.max_rows || self.rows.bytes() >= self.max_bytes {
                return Step::SliceFull;
            }
        }
        Step::Empty
    }

    /// The client lost its place: records are gone, or the partition is.
    fn recover(&mut self, handle: &mut Handle, words: &str) -> Result<()> {
        match self.watermarks(handle) {
            // All is there: the broker that answered was behind. The poll timeout bounds the tries.
            Ok((low, high)) if low <= self.position && self.end <= high => self.pool.assign(handle, &self.partition, self.position),
            Ok((low, high)) => self.lost(handle, low, high, words),
            Err(error) if is_unknown(&error) => match self.is_gone(handle) {
                Ok(true) => self.partition_gone(),
                Ok(false) => self.pool.assign(handle, &self.partition, self.position),
                Err(error) => Err(self.unreachable(&error)),
            },
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    /// Whether a broker says that the partition does not exist. That the client knows of none may only mean that no broker has answered it
    /// for a while, which is no loss of data.
    fn is_gone(&self, handle: &Handle) -> Result<bool, KafkaError> {
        let TopicPartition { topic, partition } = &self.partition;
        let metadata = handle.drain.consumer().fetch_metadata(Some(topic), Duration::from_secs(5))?;
        let Some(found) = metadata.topics().iter().find(|found| found.name() == &**topic) else { return Ok(true) };
        let partitions: Vec<i32> = found.partitions().iter().map(rdkafka::metadata::MetadataPartition::id).collect();
        Ok(says_gone(found.error().map(RDKafkaErrorCode::from), &partitions, *partition))
    }

    fn unreachable(&self, error: &KafkaError) -> Error {
        errors::unreachable(&format!("read {}", self.range()), self.pool.client().servers(), &error.to_string())
    }

    fn look_into_silence(&mut self, handle: &mut Handle, last_trouble: &mut Option<String>) -> Result<()> {
        match self.watermarks(handle) {
            Ok((low, high)) if low > self.position || high < self.end => {
                self.lost(handle, low, high, "the partition is shorter than planned")
            }
            Ok(_) => Ok(()),
            Err(error) if is_unknown(&error) && self.is_gone(handle).is_ok_and(|is_gone| is_gone) => self.partition_gone(),
            Err(error) => match handle.drain.consumer().context().refusal().get_final() {
                Some(refusal) => Err(self.refused(&refusal)),
                None => {
                    *last_trouble = Some(error.to_string());
                    Ok(())
                }
            },
        }
    }

    fn refused(&self, refusal: &Refusal) -> Error {
        refusal.error(&format!("read {} from", self.range()), self.pool.client())
    }

    fn watermarks(&self, handle: &Handle) -> Result<(i64, i64), KafkaError> {
        handle.drain.consumer().fetch_watermarks(&self.partition.topic, self.partition.partition, Duration::from_secs(5))
    }

    fn lost(&mut self, handle: &mut Handle, low: i64, high: i64, words: &str) -> Result<()> {
        let what = format!("could not read the records {} ({words}); the partition holds [{low}, {high}) now", self.range());
        if self.policy.data_loss == DataLoss::Fail {
            return Err(errors::data_loss("COULD_NOT_READ_OFFSET_RANGE", what));
        }
        match plan::resume_after_loss(self.position, self.end, low, high) {
            Resume::SkipRest => {
                tracing::warn!("{what}; they are skipped, because failOnDataLoss is false");
                self.position = self.end;
            }
            Resume::At(offset) => {
                if offset > self.position {
                    tracing::warn!("{what}; reading goes on at {offset}, because failOnDataLoss is false");
                }
                self.position = offset;
                self.pool.assign(handle, &self.partition, offset)?;
            }
        }
        Ok(())
    }

    fn partition_gone(&mut self) -> Result<()> {
        let what = format!("could not read the records {}: the partition does not exist any more", self.range());
        if self.policy.data_loss == DataLoss::Fail {
            return Err(errors::data_loss("COULD_NOT_READ_OFFSET_RANGE", what));
        }
        tracing::warn!("{what}; they are skipped, because failOnDataLoss is false");
        self.position = self.end;
        Ok(())
    }

    fn range(&self) -> String {
        format!("[{}, {}) of {}", self.position, self.end, self.partition)
    }

    fn silence(&self, last_trouble: Option<String>) -> Error {
        let waited = self.policy.poll_timeout.as_millis();
        let cause = last_trouble.unwrap_or_else(|| "the brokers sent nothing".to_owned());
        errors::unreachable(
            &format!("read {} within {waited} ms (kafkaConsumer.pollTimeoutMs)", self.range()),
            self.pool.client().servers(),
            &cause,
        )
    }

    fn not_authorized(&self) -> Error {
        Error::retryable(
            "KAFKA_TOPIC_AUTHORIZATION_FAILED",
            format!(
                "the Kafka servers {} do not allow reading {}; grant the user READ on the topic",
                self.pool.client().servers(),
                self.partition
            ),
        )
    }
}

/// Errors after which a handle stops delivering the partition.
fn loses_position(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::OffsetOutOfRange
            | RDKafkaErrorCode::AutoOffsetReset
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition
    )
}

fn is_unknown(error: &KafkaError) -> bool {
    error.rdkafka_error_code().is_some_and(|code| {
        matches!(code, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition)
    })
}

/// Whether a broker's answer about a topic says that a partition does not exist; an error of another kind says nothing.
fn says_gone(error: Option<RDKafkaErrorCode>, partitions: &[i32], wanted: i32) -> bool {
    match error {
        Some(error) => matches!(error, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic),
        None => !partitions.is_empty() && !partitions.contains(&wanted),
    }
}

#[async_trait]
impl PartitionReader for RangeReader {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.slice().await
    }

    fn counters(&self) -> ReadCounters {
        self.counters.clone()
    }

    fn name(&self) -> String {
        format!("{} up to {}", self.partition, self.end)
    }

    /// The next offset: what compaction removes before it changes nothing.
    fn position(&self) -> u64 {
        u64::try_from(self.position).unwrap_or_default()
    }

    fn skip_to(&mut self, position: u64) {
        self.position = i64::try_from(position).unwrap_or(i64::MAX).max(self.position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_lists_the_topic_without_it_or_denies_it_makes_a_partition_gone() {
        use RDKafkaErrorCode as Code;
        assert!(says_gone(Some(Code::UnknownTopicOrPartition), &[], 0) && says_gone(None, &[0, 1], 2));
        assert!(!says_gone(None, &[0, 1], 1) && !says_gone(None, &[], 0));
        assert!(!says_gone(Some(Code::LeaderNotAvailable), &[], 0) && !says_gone(Some(Code::BrokerTransportFailure), &[], 0));
    }
}
