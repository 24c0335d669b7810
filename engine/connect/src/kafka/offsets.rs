//! Kafka offsets as the checkpoint holds them: `{"t":{"0":24,"1":7}}`.
//!
//! Owns the JSON in both directions. A number is the next offset to read, so
//! an end is exclusive. Keys are written in the order in which Spark's hash
//! maps list them, so that a checkpoint looks the same whoever wrote it;
//! reading takes any order. Knows no broker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use weir_core::{Error, Offset, Result};

/// One partition of one topic; ordered by topic, then partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

impl TopicPartition {
    /// Names a partition.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// The next offset to read, by partition.
pub type PartitionOffsets = BTreeMap<TopicPartition, i64>;

/// Reads `{"topic":{"partition":number}}`, the shape of offsets and of timestamps by partition.
pub fn parse(json: &str) -> Result<PartitionOffsets, String> {
    let refusal = |why: String| format!(r#"expected for example {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}: {why}"#);
    let topics: BTreeMap<String, BTreeMap<String, i64>> = serde_json::from_str(json).map_err(|e| refusal(e.to_string()))?;
    let mut offsets = PartitionOffsets::new();
    for (topic, partitions) in topics {
        let topic: Arc<str> = topic.into();
        for (partition, offset) in partitions {
            let number = partition.parse::<i32>().ok().filter(|number| *number >= 0);
            let number = number.ok_or_else(|| refusal(format!("'{partition}' is not a partition number")))?;
            offsets.insert(TopicPartition::new(Arc::clone(&topic), number), offset);
        }
    }
    Ok(offsets)
}

/// Reads an offset that came from a checkpoint.
pub fn from_checkpoint(offset: &Offset) -> Result<PartitionOffsets> {
    parse(offset.json()).map_err(|why| {
        Error::incompatible(
            "MALFORMED_KAFKA_OFFSET",
            format!("the checkpoint holds '{offset}' where the offset of a Kafka source should be: {why}; restore the checkpoint"),
        )
    })
}

/// Writes offsets as Spark does.
pub fn to_offset(offsets: &PartitionOffsets) -> Offset {
    Offset::new(to_json(offsets))
}

/// The JSON text, keys in Spark's order.
pub fn to_json(offsets: &PartitionOffsets) -> String {
    let mut topics: HashOrder<(&str, HashOrder<(i32, i64)>)> = HashOrder::new();
    for (partition, offset) in offsets {
        let hash = string_hash(&partition.topic);
        let mut partitions = topics.take(hash, |(topic, _)| *topic == &*partition.topic).map_or_else(HashOrder::new, |(_, p)| p);
        partitions.put(partition.partition, (partition.partition, *offset));
        topics.put(hash, (&partition.topic, partitions));
    }
    let object = topics.iter().map(|(topic, partitions)| {
        let inner = partitions.iter().map(|(partition, offset)| format!("\"{partition}\":{offset}")).collect::<Vec<_>>();
        format!("{}:{{{}}}", serde_json::Value::from(*topic), inner.join(","))
    });
    format!("{{{}}}", object.collect::<Vec<_>>().join(","))
}

/// The order in which Scala 2.13's mutable `HashMap` lists its entries: by
/// bucket of the spread hash, inside a bucket by rising hash. The table starts
/// with 16 buckets and doubles before it is three quarters full.
struct HashOrder<T> {
    entries: Vec<(i32, T)>,
    buckets: usize,
}

impl<T> HashOrder<T> {
    fn new() -> Self {
        Self { entries: Vec::new(), buckets: 16 }
    }

    /// Takes an entry out so that `put` can place it again; the count that decides growth sees it as present.
    fn take(&mut self, hash: i32, same: impl Fn(&T) -> bool) -> Option<T> {
        let spread = spread(hash);
        let at = self.entries.iter().position(|(other, value)| *other == spread && same(value))?;
        self.grow(self.entries.len());
        Some(self.entries.remove(at).1)
    }

    fn put(&mut self, hash: i32, value: T) {
        self.grow(self.entries.len());
        self.entries.push((spread(hash), value));
    }

    fn grow(&mut self, count: usize) {
        if count + 1 >= self.buckets / 4 * 3 {
            self.buckets *= 2;
        }
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        let mut order: Vec<&(i32, T)> = self.entries.iter().collect();
        order.sort_by_key(|(hash, _)| (*hash as u32 as usize & (self.buckets - 1), *hash));
        order.into_iter().map(|(_, value)| value)
    }
}

fn spread(hash: i32) -> i32 {
    hash ^ ((hash as u32) >> 16) as i32
}

/// `java.lang.String.hashCode`: over UTF-16 units.
fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_come_in_the_order_of_their_hashes() {
        let of = |json: &str| to_json(&parse(json).unwrap());
        // "t" hashes to 116 (bucket 4 of 16), "u" to 117, "a" to 97 (bucket 1).
        assert_eq!(of(r#"{"u":{"0":3},"t":{"0":3},"a":{"1":2,"0":1}}"#), r#"{"a":{"0":1,"1":2},"t":{"0":3},"u":{"0":3}}"#);
        // Partition 16 shares bucket 0 with partition 0 and comes before 1.
        assert_eq!(of(r#"{"t":{"0":1,"1":2,"16":3}}"#), r#"{"t":{"0":1,"16":3,"1":2}}"#);
        let many = (0..40).map(|p| (TopicPartition::new("t", p), 1)).collect();
        assert!(to_json(&many).starts_with(r#"{"t":{"0":1,"1":1,"2":1"#));
        assert_eq!(string_hash("hello"), 99_162_322);
        assert_eq!(to_json(&PartitionOffsets::new()), "{}");
    }

    #[test]
    fn other_shapes_are_refused() {
        for text in ["", "x", "[]", "{\"t\":[0]}", "{\"t\":{\"a\":1}}", "{\"t\":{\"-1\":1}}", "{\"t\":{\"0\":1.5}}"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let error = from_checkpoint(&Offset::new("5")).unwrap_err();
        assert_eq!(error.class(), weir_core::ErrorClass::Incompatible);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(entries in proptest::collection::btree_map(("[a-z.\"_-]{1,12}", 0..200_i32), any::<i64>(), 0..60)) {
            let offsets: PartitionOffsets = entries.into_iter().map(|((t, p), o)| (TopicPartition::new(t, p), o)).collect();
            prop_assert_eq!(parse(&to_json(&offsets)).unwrap(), offsets);
        }
    }
}
