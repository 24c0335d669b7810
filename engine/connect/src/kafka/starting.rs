//! Where a new query begins, and how that is stored.
//!
//! The offsets of the very first batch are resolved once against the broker
//! and stored as entry `0` of the source's log, in Spark's form: a zero byte,
//! `v1`, a line break, the offset's JSON. Entries of other writers are read
//! with and without the zero byte. `-1` and `-2` never reach the log.

use bytes::Bytes;
use weir_core::checkpoint::FencedLog;
use weir_core::{Error, Offset, Result};

use super::errors;
use super::offsets::{self, PartitionOffsets, TopicPartition};

/// The name of the entry in `sources/<n>/`.
pub const ENTRY: &str = "0";
/// The offset that stands for the end of a partition.
pub const LATEST: i64 = -1;
/// The offset that stands for the beginning of a partition.
pub const EARLIEST: i64 = -2;

/// `startingOffsets` and its variants by time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartingOffsets {
    /// The beginning of every partition.
    Earliest,
    /// The end of every partition.
    Latest,
    /// By partition; -1 and -2 stand for the end and the beginning.
    Specific(PartitionOffsets),
    /// The first record at or after a time in epoch milliseconds, by partition.
    ByTimestamp(PartitionOffsets, TimestampMiss),
    /// The first record at or after one time in every partition.
    Timestamp(i64, TimestampMiss),
}

/// `startingOffsetsByTimestampStrategy`: no record is that young.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampMiss {
    /// The query fails.
    Error,
    /// The partition starts at its end.
    Latest,
}

/// The bytes of the stored entry.
pub fn to_entry(offsets: &PartitionOffsets) -> Bytes {
    Bytes::from(format!("\0v1\n{}", offsets::to_json(offsets)))
}

/// Reads a stored entry.
pub fn from_entry(entry: &[u8], place: &str) -> Result<PartitionOffsets> {
    let damaged = |why: String| {
        Error::incompatible(
            "MALFORMED_KAFKA_INITIAL_OFFSET",
            format!(
                "the initial offsets of the Kafka source in {place} cannot be read: {why}; restore the file or start with a new checkpoint"
            ),
        )
    };
    let text = std::str::from_utf8(entry).map_err(|e| damaged(e.to_string()))?;
    let text = text.strip_prefix('\0').unwrap_or(text);
    let json = match text.split_once('\n') {
        Some(("v1", json)) => json,
        Some((version, _)) => return Err(damaged(format!("its version is '{version}', v1 is the newest known"))),
        // Spark 2.1 wrote the bare JSON.
        None if text.starts_with('{') => text,
        None => return Err(damaged("it has no version line".to_owned())),
    };
    offsets::parse_written(json).map_err(damaged)
}

/// The stored entry; `None` before the first plan.
pub async fn stored(log: &FencedLog) -> Result<Option<PartitionOffsets>> {
    let entry = log.read(ENTRY).await?;
    entry.map(|entry| from_entry(&entry, &place(log))).transpose()
}

/// The entry, for messages.
pub fn place(log: &FencedLog) -> String {
    format!("{}/{ENTRY}", log.folder().url())
}

/// What a run cannot read of the log: `last` is the newest planned offset, `run_again` the one that the planned batch
/// begins with, if that batch is uncommitted.
pub async fn damage(log: &FencedLog, last: Option<&Offset>, run_again: Option<Option<&Offset>>) -> Result<()> {
    last.map(offsets::from_checkpoint).transpose()?;
    if stored(log).await?.is_none() && last.is_some() && run_again == Some(None) {
        let text = format!(
            "{}, the initial offsets of the Kafka source, is missing although the batch that begins there is planned and not committed; \
             restore the file or start with a new checkpoint",
            place(log)
        );
        return Err(Error::incompatible("MISSING_KAFKA_INITIAL_OFFSET", text));
    }
    Ok(())
}

/// Which end of a read some offsets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// `startingOffsets` and its variants.
    Starting,
    /// `endingOffsets` and its variants.
    Ending,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ending => "ending",
        }
    }
}

/// Explicit offsets must name exactly the partitions that are there.
pub fn check_specific(specified: &PartitionOffsets, assigned: &[TopicPartition], end: End) -> Result<()> {
    let option = format!("{}Offsets", end.word());
    check_coverage(specified, assigned, "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED", &option, "use -1 for latest, -2 for earliest")
}

/// Timestamps by partition must name exactly the partitions that are there.
pub fn check_timestamps(specified: &PartitionOffsets, assigned: &[TopicPartition], end: End) -> Result<()> {
    let (option, hint) = (format!("{}OffsetsByTimestamp", end.word()), format!("use {}Timestamp for one time in all", end.word()));
    check_coverage(specified, assigned, "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED", &option, &hint)
}

fn check_coverage(
    specified: &PartitionOffsets,
    assigned: &[TopicPartition],
    condition: &'static str,
    option: &str,
    hint: &str,
) -> Result<()> {
    if specified.len() == assigned.len() && assigned.iter().all(|partition| specified.contains_key(partition)) {
        return Ok(());
    }
    Err(Error::config(
        condition,
        format!(
            "the option {option} must name every partition that is read and no other; {hint}. Specified: {}. Assigned: {}",
            errors::names(specified.keys()),
            errors::names(assigned),
        ),
    ))
}

/// Replaces timestamps without a record by the end, or refuses them, as asked for.
pub fn settle_misses(
    found: PartitionOffsets,
    timestamp_of: impl Fn(&TopicPartition) -> i64,
    latest: impl FnOnce() -> Result<PartitionOffsets>,
    miss: TimestampMiss,
) -> Result<PartitionOffsets> {
    let missing: Vec<TopicPartition> = found.iter().filter(|(_, offset)| **offset < 0).map(|(p, _)| p.clone()).collect();
    let Some(first) = missing.first() else { return Ok(found) };
    if miss == TimestampMiss::Error {
        return Err(Error::config(
            "KAFKA_NO_OFFSET_FOR_TIMESTAMP",
            format!(
                "no record of {} is as young as the starting timestamp ({} for {first}); choose an earlier one, or set \
                 startingOffsetsByTimestampStrategy to latest",
                errors::names(&missing),
                timestamp_of(first),
            ),
        ));
    }
    let ends = latest()?;
    Ok(found
        .into_iter()
        .map(|(p, offset)| {
            if offset < 0 {
                let end = ends.get(&p).copied().unwrap_or(0);
                (p, end)
            } else {
                (p, offset)
            }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn entries_of_every_writer_are_read() {
        let offsets = offsets::parse(r#"{"t":{"0":3}}"#).unwrap();
        assert_eq!(to_entry(&offsets), Bytes::from_static(b"\0v1\n{\"t\":{\"0\":3}}"));
        for entry in [&b"\0v1\n{\"t\":{\"0\":3}}"[..], b"v1\n{\"t\":{\"0\":3}}", b"\0{\"t\":{\"0\":3}}"] {
            assert_eq!(from_entry(entry, "x").unwrap(), offsets);
        }
        for entry in [&b""[..], b"\0v2\n{}", b"\0v1\n{", b"v1", b"\xff"] {
            let error = from_entry(entry, "sources/0/0").unwrap_err();
            assert!(error.class() == weir_core::ErrorClass::Incompatible && error.message().contains("sources/0/0"), "{error}");
        }
    }

    #[test]
    fn a_timestamp_without_records_is_refused_or_means_the_end() {
        let found = offsets::parse(r#"{"t":{"0":3,"1":-1}}"#).unwrap();
        let latest = || Ok(offsets::parse(r#"{"t":{"0":9,"1":7}}"#).unwrap());
        let settled = settle_misses(found.clone(), |_| 5, latest, TimestampMiss::Latest).unwrap();
        assert_eq!(offsets::to_json(&settled), r#"{"t":{"0":3,"1":7}}"#);
        let error = settle_misses(found, |_| 5, latest, TimestampMiss::Error).unwrap_err();
        assert!(error.message().contains("t-1") && !error.message().contains("t-0"), "{error}");
    }
}
