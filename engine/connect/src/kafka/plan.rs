//! The decisions of a Kafka batch, as pure functions over offsets.
//!
//! How far a batch goes under `maxOffsetsPerTrigger` and
//! `minOffsetsPerTrigger`, which ranges it reads and how they are split, what
//! counts as lost data, and the lag that progress shows. Follows Spark's
//! `KafkaMicroBatchStream`, `KafkaOffsetReader` and
//! `KafkaOffsetRangeCalculator` to the digit. Asks no broker, reads no clock.

use std::collections::{BTreeMap, BTreeSet};

use weir_core::{Error, Result};

use super::errors;
use super::offsets::{PartitionOffsets, TopicPartition};

/// The most parts that one range is cut into, whatever its end says.
const MOST_PARTS: u64 = 1_000_000;

/// Records `start..end` of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    /// The partition.
    pub partition: TopicPartition,
    /// First offset.
    pub start: i64,
    /// Exclusive end.
    pub end: i64,
}

impl OffsetRange {
    fn size(&self) -> i64 {
        self.end - self.start
    }
}

/// Shares `limit` out over the partitions in proportion to their backlog.
///
/// `start` must hold a position for every partition of `latest` that is known
/// (new partitions at their earliest offset); partitions without one keep
/// their latest offset and are caught when the range is read.
pub fn rate_limit(limit: u64, start: &PartitionOffsets, latest: &PartitionOffsets) -> PartitionOffsets {
    let backlog = |partition: &TopicPartition, end: i64| start.get(partition).map(|begin| end - begin).filter(|size| *size > 0);
    let total = latest.iter().filter_map(|(p, end)| backlog(p, *end)).map(|size| size as f64).sum::<f64>();
    let limited = latest.iter().map(|(partition, end)| {
        let Some(size) = backlog(partition, *end) else { return (partition.clone(), *end) };
        let share = limit as f64 * (size as f64 / total);
        // No partition with a backlog starves: a share below one is one.
        let share = if share < 1.0 { share.ceil() } else { share.floor() };
        (partition.clone(), (end - size).saturating_add(share as i64).min(*end))
    });
    limited.collect()
}

/// Whether `minOffsetsPerTrigger` holds the batch back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Too few records, and the longest delay is not over.
    Wait,
    /// Enough records or waited long enough.
    Go,
}

/// Decides on holding back; `last_batch_ms` is 0 before the first batch, which therefore never waits.
pub fn hold_back(
    minimum: u64,
    max_delay_ms: i64,
    start: &PartitionOffsets,
    latest: &PartitionOffsets,
    last_batch_ms: i64,
    now_ms: i64,
) -> Hold {
    if now_ms.saturating_sub(last_batch_ms) >= max_delay_ms {
        return Hold::Go;
    }
    let available: f64 = latest.iter().map(|(p, end)| (end - start.get(p).copied().unwrap_or(0)) as f64).sum();
    if available < minimum as f64 { Hold::Wait } else { Hold::Go }
}

/// Something that Spark calls possible data loss, found before reading.
#[derive(Debug)]
pub struct Loss(pub Error);

/// The ranges of a batch and what is missing in them.
#[derive(Debug)]
pub struct Ranges {
    /// Ranges with at least one offset, by partition.
    pub ranges: Vec<OffsetRange>,
    /// What was lost; the caller fails or warns by `failOnDataLoss`.
    pub losses: Vec<Loss>,
}

/// The partitions of `end` that `start` does not know.
pub fn new_partitions(start: &PartitionOffsets, end: &PartitionOffsets) -> Vec<TopicPartition> {
    end.keys().filter(|p| !start.contains_key(*p)).cloned().collect()
}

/// Resolves a batch; `earliest` holds the beginning of each new partition that still exists.
pub fn resolve(start: &PartitionOffsets, end: &PartitionOffsets, earliest: &PartitionOffsets, group_id_set: GroupIdSet) -> Ranges {
    let mut losses = Vec::new();
    let gone: Vec<TopicPartition> = new_partitions(start, end).into_iter().filter(|p| !earliest.contains_key(p)).collect();
    if !gone.is_empty() {
        let what = format!("the initial offsets of the partitions {} cannot be found, they may have been deleted", errors::names(&gone));
        losses.push(Loss(errors::data_loss("INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", what)));
    }
    for (partition, offset) in earliest.iter().filter(|(p, o)| **o != 0 && !start.contains_key(*p)) {
        let what = format!("the added partition {partition} starts from offset {offset} instead of 0: [0, {offset}) is gone");
        losses.push(Loss(errors::data_loss("ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO", what)));
    }
    let deleted: Vec<&TopicPartition> = start.keys().filter(|p| !end.contains_key(*p)).collect();
    if !deleted.is_empty() {
        losses.push(Loss(deleted_partitions(&errors::names(deleted), group_id_set)));
    }
    let mut ranges = Vec::new();
    for (partition, until) in end {
        let Some(from) = start.get(partition).or_else(|| earliest.get(partition)).copied() else { continue };
        if *until < from {
            let what = format!(
                "the offset of the partition {partition} went back from {from} to {until}: the start lies beyond the end of the \
                 partition, or the topic was created anew; [{until}, {from}) is in doubt"
            );
            losses.push(Loss(errors::data_loss("PARTITION_OFFSET_CHANGED", what)));
        }
        ranges.push(OffsetRange { partition: partition.clone(), start: from, end: *until });
    }
    ranges.retain(|range| range.size() > 0);
    Ranges { ranges, losses }
}

/// What lies between two ends, for a read that is not continued: partitions that only one of them knows are left out.
pub fn between(start: &PartitionOffsets, end: &PartitionOffsets) -> Vec<OffsetRange> {
    let ranges = end
        .iter()
        .filter_map(|(partition, until)| Some(OffsetRange { partition: partition.clone(), start: *start.get(partition)?, end: *until }));
    ranges.filter(|range| range.size() > 0).collect()
}

/// Whether the user chose the consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupIdSet {
    /// `kafka.group.id` is set.
    ByUser,
    /// It is generated.
    Generated,
}

fn deleted_partitions(names: &str, group_id_set: GroupIdSet) -> Error {
    match group_id_set {
        GroupIdSet::Generated => errors::data_loss("PARTITIONS_DELETED", format!("the partitions {names} have been deleted")),
        GroupIdSet::ByUser => errors::data_loss(
            "PARTITIONS_DELETED_AND_GROUP_ID_CONFIG_PRESENT",
            format!("the partitions {names} have been deleted, or another consumer of the group named by kafka.group.id took them"),
        ),
    }
}

/// Splits ranges so that none has more than `max_records`, then so that there are about `min_partitions`.
pub fn split(ranges: Vec<OffsetRange>, min_partitions: Option<u64>, max_records: Option<u64>) -> Vec<OffsetRange> {
    let mut ranges: Vec<OffsetRange> = match max_records {
        Some(max) => ranges
            .into_iter()
            .flat_map(|range| {
                let parts = (range.size() as u64).div_ceil(max).min(MOST_PARTS);
                divide(range, parts)
            })
            .collect(),
        None => ranges,
    };
    let Some(wanted) = min_partitions.filter(|wanted| (ranges.len() as u64) < *wanted) else { return ranges };
    let total = ranges.iter().map(OffsetRange::size).fold(0, i64::saturating_add);
    // Ranges too small to be split keep one part and leave the arithmetic of the others.
    let small: Vec<bool> = ranges.iter().map(|range| part_count(range.size(), total, wanted) == 1).collect();
    let small_count = small.iter().filter(|small| **small).count() as u64;
    let small_size: i64 =
        ranges.iter().zip(&small).filter(|(_, small)| **small).map(|(range, _)| range.size()).fold(0, i64::saturating_add);
    let wanted_of_large = wanted.saturating_sub(small_count).max(1);
    let divided = ranges.drain(..).zip(small).flat_map(|(range, small)| {
        let parts = if small { 1 } else { part_count(range.size(), total.saturating_sub(small_size), wanted_of_large) };
        divide(range, parts)
    });
    divided.collect()
}

fn part_count(size: i64, total: i64, wanted: u64) -> u64 {
    ((size as f64 / total as f64 * wanted as f64 + 0.5).floor() as u64).max(1)
}

fn divide(range: OffsetRange, parts: u64) -> Vec<OffsetRange> {
    let mut start = range.start;
    let pieces = (0..parts).map(|part| {
        let end = start + (range.end - start) / (parts - part) as i64;
        let piece = OffsetRange { partition: range.partition.clone(), start, end };
        start = end;
        piece
    });
    pieces.filter(|piece| piece.size() > 0).collect()
}

/// Where reading goes on after records were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// At this offset.
    At(i64),
    /// Nothing of the range is left.
    SkipRest,
}

/// Looks for the next readable offset of `position..end` when the partition holds `low..high`.
pub fn resume_after_loss(position: i64, end: i64, low: i64, high: i64) -> Resume {
    let next = position.max(low);
    if next >= end || next >= high { Resume::SkipRest } else { Resume::At(next) }
}

/// An `availableNow` end must be inside what was frozen and still be there.
pub fn verify_frozen(frozen: &PartitionOffsets, end: &PartitionOffsets) -> Result<()> {
    let transient = "this can be transient: the query is tried again";
    if !frozen.keys().eq(end.keys()) {
        return Err(Error::retryable(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED",
            format!(
                "the availableNow run was frozen with the partitions {}, the batch ends with {}; {transient}",
                errors::names(frozen.keys()),
                errors::names(end.keys())
            ),
        ));
    }
    match beyond(end, frozen) {
        Some((partition, end, limit)) => Err(Error::retryable(
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED",
            format!("the batch ends at {end} of {partition}, beyond the frozen end {limit}; {transient}"),
        )),
        None => Ok(()),
    }
}

/// What the brokers have now must still cover the end of an `availableNow` batch.
pub fn verify_still_there(latest: &PartitionOffsets, end: &PartitionOffsets) -> Result<()> {
    let lost: BTreeSet<&TopicPartition> = end.keys().filter(|p| !latest.contains_key(*p)).collect();
    if !lost.is_empty() {
        return Err(Error::retryable(
            "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
            format!("the partitions {} were lost while the availableNow run was going on; the query is tried again", errors::names(lost)),
        ));
    }
    match beyond(end, latest) {
        Some((partition, end, limit)) => Err(Error::retryable(
            "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW",
            format!("the batch ends at {end} of {partition}, but the partition ends at {limit} now; the query is tried again"),
        )),
        None => Ok(()),
    }
}

fn beyond<'a>(end: &'a PartitionOffsets, limit: &PartitionOffsets) -> Option<(&'a TopicPartition, i64, i64)> {
    end.iter().find_map(|(p, end)| limit.get(p).filter(|limit| *end > **limit).map(|limit| (p, *end, *limit)))
}

/// Records between `consumed` and `latest`, by partition.
pub fn lags(consumed: &PartitionOffsets, latest: &PartitionOffsets) -> BTreeMap<TopicPartition, i64> {
    latest.iter().map(|(p, end)| (p.clone(), end - consumed.get(p).copied().unwrap_or(0))).collect()
}

/// `minOffsetsBehindLatest` and its siblings; empty when there are no partitions.
pub fn lag_metrics(consumed: &PartitionOffsets, latest: &PartitionOffsets) -> BTreeMap<String, String> {
    let lags: Vec<i64> = lags(consumed, latest).into_values().collect();
    let (Some(min), Some(max)) = (lags.iter().min(), lags.iter().max()) else { return BTreeMap::new() };
    let mean = lags.iter().map(|lag| *lag as f64).sum::<f64>() / lags.len() as f64;
    let figures = [
        ("minOffsetsBehindLatest", min.to_string()),
        ("maxOffsetsBehindLatest", max.to_string()),
        // One decimal, half up, as Spark 4.2 prints it.
        ("avgOffsetsBehindLatest", format!("{:.1}", (mean * 10.0 + 0.5).floor() / 10.0)),
    ];
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
