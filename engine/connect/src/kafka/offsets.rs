//! Kafka offsets as the checkpoint holds them: `{"t":{"0":24,"1":7}}`.
//!
//! Owns the JSON in both directions. A number is the next offset to read, so
//! an end is exclusive. Keys are written in the order in which Spark's hash
//! maps list them, so that a checkpoint looks the same whoever wrote it;
//! reading takes any order. Knows no broker.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use weir_core::{Error, Offset, Result};

use super::topic;

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
    let topics: Entries<Entries<i64>> = serde_json::from_str(json).map_err(|e| refusal(e.to_string()))?;
    let mut offsets = PartitionOffsets::new();
    for (topic, partitions) in topics.0 {
        topic::check(&topic).map_err(|why| refusal(format!("'{topic}' is no topic's name: {why}")))?;
        let topic: Arc<str> = topic.into();
        for (partition, offset) in partitions.0 {
            let number = partition.parse::<i32>().ok().filter(|number| *number >= 0);
            let number = number.ok_or_else(|| refusal(format!("'{partition}' is not a partition number")))?;
            let partition = TopicPartition::new(Arc::clone(&topic), number);
            let text = partition.to_string();
            if offsets.insert(partition, offset).is_some() {
                return Err(refusal(format!("{text} is there twice")));
            }
        }
    }
    Ok(offsets)
}

/// The entries of a JSON object, in order: a map would keep one of two that have the same key.
struct Entries<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Walk<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Walk(PhantomData))
    }
}

/// Reads offsets that were written by a query: none is a symbol.
pub fn parse_written(json: &str) -> Result<PartitionOffsets, String> {
    let offsets = parse(json)?;
    match offsets.iter().find(|(_, offset)| **offset < 0) {
        Some((partition, offset)) => Err(format!("{partition} stands at {offset}, and no record has a negative offset")),
        None => Ok(offsets),
    }
}

/// Whether the offset `last` lies before `before` in a partition that both have; what cannot be read is told elsewhere.
pub fn lies_before(before: &Offset, last: &Offset) -> bool {
    let (Ok(before), Ok(last)) = (parse(before.json()), parse(last.json())) else { return false };
    last.iter().any(|(partition, end)| before.get(partition).is_some_and(|begin| end < begin))
}

/// Reads an offset that came from a checkpoint.
pub fn from_checkpoint(offset: &Offset) -> Result<PartitionOffsets> {
    parse_written(offset.json()).map_err(|why| {
        Error::incompatible(
            "MALFORMED_KAFKA_OFFSET",
            format!("the checkpoint holds '{offset}' where the offset of a Kafka source should be: {why}; restore the checkpoint, or use a new checkpointLocation"),
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
        for text in [
            "{\"t\":{\"0\":1,\"0\":2}}",
            "{\"t\":{\"0\":1},\"t\":{\"0\":2}}",
            "{\"t\":{\"0\":1,\"00\":2}}",
            "{\"t/u\":{\"0\":1}}",
            "{\"t\\u0000\":{\"0\":1}}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["5", "{\"t\":{\"0\":-1}}", "{\"t\":{\"0\":9223372036854775808}}"] {
            let error = from_checkpoint(&Offset::new(text)).unwrap_err();
            assert!(error.class() == weir_core::ErrorClass::Incompatible && error.message().contains("restore"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(entries in proptest::collection::btree_map(("[a-zA-Z0-9][a-z._-]{0,12}", 0..200_i32), any::<i64>(), 0..60)) {
            let offsets: PartitionOffsets = entries.into_iter().map(|((t, p), o)| (TopicPartition::new(t, p), o)).collect();
            prop_assert_eq!(parse(&to_json(&offsets)).unwrap(), offsets);
        }
    }
}
