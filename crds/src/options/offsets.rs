//! Kafka positions in JSON, as `JsonUtils` of Spark's connector reads them.
//!
//! `{"topic":{"0":23,"1":-1}}` for offsets and timestamps, `{"topic":[0,1]}` for partitions.
//! Partition numbers are from 0, offsets from -2, timestamps from 0.

use std::collections::BTreeMap;

use serde_json::Value;

use super::kind::Offsets;

type PerPartition = BTreeMap<String, BTreeMap<i32, i64>>;

/// `earliest`, `latest` or JSON.
pub(super) fn parse_offsets(text: &str) -> Result<Offsets, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "earliest" => return Ok(Offsets::Earliest),
        "latest" => return Ok(Offsets::Latest),
        _ => {}
    }
    let expected = r#"must be earliest, latest, or JSON such as {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}"#;
    per_partition(text, expected, -2).map(Offsets::Specific)
}

/// JSON with milliseconds since 1970.
pub(super) fn parse_timestamps(text: &str) -> Result<PerPartition, String> {
    per_partition(text, r#"must be JSON such as {"topicA":{"0":1700000000000}}"#, 0)
}

/// JSON with lists of partitions.
pub(super) fn parse_partitions(text: &str) -> Result<BTreeMap<String, Vec<i32>>, String> {
    let expected = r#"must be JSON such as {"topicA":[0,1],"topicB":[2,4]}"#;
    let topics = object(text, expected)?;
    let mut result = BTreeMap::new();
    for (topic, partitions) in topics {
        let list = partitions.as_array().ok_or_else(|| format!("{expected}; `{topic}` has no list of partitions"))?;
        let mut numbers = Vec::new();
        for partition in list {
            let number = partition
                .as_i64()
                .and_then(|number| i32::try_from(number).ok())
                .filter(|number| *number >= 0)
                .ok_or_else(|| format!("{expected}; `{partition}` is not a partition of `{topic}`"))?;
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        result.insert(topic, numbers);
    }
    Ok(result)
}

fn per_partition(text: &str, expected: &str, least: i64) -> Result<PerPartition, String> {
    let mut result = BTreeMap::new();
    for (topic, partitions) in object(text, expected)? {
        let map = partitions.as_object().ok_or_else(|| format!("{expected}; `{topic}` has no map of partitions"))?;
        let mut numbers = BTreeMap::new();
        for (partition, offset) in map {
            let number = partition
                .parse::<i32>()
                .ok()
                .filter(|number| *number >= 0)
                .ok_or_else(|| format!("{expected}; `{partition}` is not a partition of `{topic}`"))?;
            let offset = offset
                .as_i64()
                .filter(|offset| *offset >= least)
                .ok_or_else(|| format!("{expected}; `{offset}` is not allowed for partition {partition} of `{topic}`"))?;
            numbers.insert(number, offset);
        }
        result.insert(topic.clone(), numbers);
    }
    Ok(result)
}

fn object(text: &str, expected: &str) -> Result<serde_json::Map<String, Value>, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) if !map.is_empty() => Ok(map),
        Ok(Value::Object(_)) => Err(format!("{expected}; it names no topic")),
        Ok(_) => Err(expected.to_owned()),
        Err(error) => Err(format!("{expected}; it is not JSON (column {})", error.column())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reads_the_three_forms() {
        assert_eq!(parse_offsets("Earliest").unwrap(), Offsets::Earliest);
        let Offsets::Specific(map) = parse_offsets(r#"{"t":{"0":23,"1":-1}}"#).unwrap() else { unreachable!() };
        assert_eq!(map["t"][&1], -1);
        assert_eq!(parse_partitions(r#"{"t":[1,0,1]}"#).unwrap()["t"], vec![1, 0]);
    }

    #[test]
    fn refuses_what_spark_refuses() {
        for text in ["newest", "{}", r#"{"t":[0]}"#, r#"{"t":{"x":1}}"#, r#"{"t":{"0":-3}}"#, r#"{"t":{"0":1.5}}"#] {
            assert!(parse_offsets(text).is_err(), "{text}");
        }
        assert!(parse_timestamps(r#"{"t":{"0":-1}}"#).is_err());
        assert!(parse_partitions(r#"{"t":{"0":1}}"#).is_err());
    }
}
