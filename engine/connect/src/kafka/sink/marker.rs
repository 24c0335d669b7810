//! What a transaction leaves behind of itself: the batch that it carried.
//!
//! A marker is the offset that the group `weir-<query id>` has committed for
//! partition 0 of the sink's topic (`markerTopic` where rows name theirs), written by the same transaction as the
//! records (KIP-447's `sendOffsetsToTransaction`). Its metadata name the epoch,
//! the newest whole batch and, where a batch took effect in several
//! transactions, how far it has come; its number, one above the batch, is for
//! people who look at the group. Nobody reads records by it.

use std::collections::BTreeMap;

use rdkafka::{Offset, TopicPartitionList};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weir_core::{Error, Result};

/// The partition that carries the marker.
pub const PARTITION: i32 = 0;
/// What brokers take of metadata, `offset.metadata.max.bytes`.
const MOST_BYTES: usize = 4096;

/// Who wrote last, and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The writer's epoch.
    pub epoch: u64,
    /// The newest batch that took effect as a whole; `None` before the first.
    pub batch: Option<u64>,
    /// The batch that took effect in part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartOfBatch>,
}

/// How far a batch has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOfBatch {
    /// The batch.
    pub batch: u64,
    /// How its source rows are cut into partitions.
    pub cut: String,
    /// Number and position of each partition that was begun.
    pub reached: BTreeMap<usize, u64>,
}

/// The cut of a batch, by the names of its partitions in order.
pub fn cut_of(partitions: &[String]) -> String {
    let mut digest = Sha256::new();
    for name in partitions {
        digest.update((name.len() as u64).to_be_bytes());
        digest.update(name);
    }
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Marker {
    /// As it is sent with a transaction; `None` where it is larger than brokers take.
    pub fn to_offsets(&self, topic: &str) -> Result<Option<TopicPartitionList>> {
        let text = serde_json::to_string(self).expect("a marker has keys of numbers and text");
        if text.len() > MOST_BYTES {
            return Ok(None);
        }
        let number = self.batch.map_or(0, |batch| batch.saturating_add(1));
        let mut offsets = TopicPartitionList::new();
        let placed = offsets.add_partition_offset(topic, PARTITION, Offset::Offset(i64::try_from(number).unwrap_or(i64::MAX)));
        placed.map_err(|e| Error::config("KAFKA_INVALID_TOPIC", format!("the topic {topic} cannot be written to")).with_source(e))?;
        offsets.find_partition(topic, PARTITION).expect("it was just added").set_metadata(text);
        Ok(Some(offsets))
    }

    /// As the brokers keep it; `None` where they keep none.
    pub fn of_offsets(found: &TopicPartitionList, topic: &str, group: &str) -> Result<Option<Self>> {
        let Some(element) = found.find_partition(topic, PARTITION) else { return Ok(None) };
        if !matches!(element.offset(), Offset::Offset(_)) {
            return Ok(None);
        }
        Self::parse(element.metadata(), topic, group).map(Some)
    }

    fn parse(text: &str, topic: &str, group: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| {
            Error::incompatible(
                "KAFKA_MARKER_DAMAGED",
                format!(
                    "the offset of the consumer group {group} for {topic}-{PARTITION} tells no batch ('{text}'): somebody else has written \
                     it, and which batches the topic holds is not known any more; find out up to which batch its readers have the rows, \
                     delete the group with kafka-consumer-groups.sh --delete --group {group}, and set a changed checkpointResetNonce"
                ),
            )
            .with_source(e)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn part(partitions: usize) -> PartOfBatch {
        PartOfBatch { batch: 6, cut: cut_of(&["a".to_owned()]), reached: (0..partitions).map(|number| (number, u64::MAX)).collect() }
    }

    #[test]
    fn a_marker_is_read_as_it_was_written() {
        for (epoch, batch, part) in [(1, None, None), (899_999_999_999, Some(u64::MAX), None), (7, Some(5), Some(part(100)))] {
            let marker = Marker { epoch, batch, part };
            let offsets = marker.to_offsets("t").unwrap().unwrap();
            assert_eq!(Marker::of_offsets(&offsets, "t", "g").unwrap(), Some(marker));
            assert_eq!(Marker::of_offsets(&offsets, "u", "g").unwrap(), None);
        }
        let first = Marker { epoch: 2, batch: Some(0), part: None }.to_offsets("t").unwrap().unwrap();
        let element = first.find_partition("t", PARTITION).unwrap();
        assert_eq!((element.offset(), element.metadata()), (Offset::Offset(1), r#"{"epoch":2,"batch":0}"#));
        let mut none = TopicPartitionList::new();
        none.add_partition("t", PARTITION);
        assert_eq!(Marker::of_offsets(&none, "t", "g").unwrap(), None);
    }

    #[test]
    fn a_marker_that_brokers_would_refuse_is_not_sent() {
        assert!(Marker { epoch: 1, batch: None, part: Some(part(1000)) }.to_offsets("t").unwrap().is_none());
    }

    #[test]
    fn a_cut_tells_names_and_their_order() {
        let cut = |names: &[&str]| cut_of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(cut(&["a", "b"]), cut(&["a", "b"]));
        for other in [vec!["b", "a"], vec!["ab"], vec!["a"], vec![]] {
            assert_ne!(cut(&["a", "b"]), cut(&other), "{other:?}");
        }
    }

    #[test]
    fn what_others_wrote_is_refused_with_the_way_out() {
        for text in ["", "{}", "5", r#"{"epoch":-1,"batch":0}"#, "\u{0}"] {
            let error = Marker::parse(text, "t", "weir-q").unwrap_err();
            assert_eq!(error.class(), weir_core::ErrorClass::Incompatible, "{text}");
            assert!(error.message().contains("--delete --group weir-q") && error.message().contains("checkpointResetNonce"), "{error}");
        }
    }
}
