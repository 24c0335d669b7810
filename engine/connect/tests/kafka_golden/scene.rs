//! A case's own corner of the shared broker: topics under a prefix, and names translated both ways.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_testkit::kafka::{Broker, Message};

/// 2024-06-01T10:00:00Z, the zero of the cases' message times.
pub const EPOCH_MS: i64 = 1_717_236_000_000;

/// One case's topics.
pub struct Scene {
    pub broker: &'static Broker,
    prefix: String,
}

impl Scene {
    pub fn new(name: &str) -> Self {
        Self { broker: Broker::shared(), prefix: format!("{}x", weir_testkit::unique_name(name).replace('-', "")) }
    }

    pub fn topic(&self, short: &str) -> String {
        format!("{}{short}", self.prefix)
    }

    /// Takes the prefix out of any text.
    pub fn shorten(&self, text: &str) -> String {
        text.replace(&self.prefix, "")
    }

    /// The case's options with real topics and the broker's address.
    pub fn options(&self, given: &Value) -> BTreeMap<String, String> {
        let mut options = BTreeMap::new();
        for (name, value) in given.as_object().unwrap() {
            if name == "_noboot" {
                continue;
            }
            let text = value.as_str().unwrap();
            let text = match name.as_str() {
                "subscribe" => text
                    .split(',')
                    .map(|topic| if topic.is_empty() { String::new() } else { self.topic(topic) })
                    .collect::<Vec<_>>()
                    .join(","),
                "subscribePattern" => self.topic(text),
                "assign" | "startingOffsets" | "startingOffsetsByTimestamp" => self.rename_keys(text),
                _ => text.to_owned(),
            };
            options.insert(name.clone(), text);
        }
        if given.get("_noboot").is_none() {
            options.insert("kafka.bootstrap.servers".to_owned(), self.broker.bootstrap_servers());
        }
        options
    }

    fn rename_keys(&self, text: &str) -> String {
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(map)) => {
                Value::Object(map.into_iter().map(|(topic, value)| (self.topic(&topic), value)).collect()).to_string()
            }
            _ => text.to_owned(),
        }
    }

    /// Executes a step that is not a query. `sizes` completes a list that the case file cut short.
    pub fn act(&self, step: &Value, sizes: Option<&Value>) {
        let topic = || self.topic(step["topic"].as_str().unwrap());
        match step["do"].as_str().unwrap() {
            "create topic" => self.broker.create_topic(&topic(), step["partitions"].as_i64().unwrap() as i32, &[]).unwrap(),
            "delete topic" => self.broker.delete_topic(&topic()).unwrap(),
            "delete records before" => {
                for (partition, offset) in step["offsets"].as_object().unwrap() {
                    self.broker.delete_records(&topic(), partition.parse().unwrap(), offset.as_i64().unwrap()).unwrap();
                }
            }
            "produce" => self.produce(&topic(), step, sizes),
            other => panic!("unknown step {other}"),
        }
    }

    fn produce(&self, topic: &str, step: &Value, sizes: Option<&Value>) {
        let listed = step["messages"].as_array().unwrap();
        let messages: Vec<Message> = if listed.len() as u64 == step["count"].as_u64().unwrap() {
            listed.iter().map(message).collect()
        } else {
            let sizes = sizes.unwrap()[step["topic"].as_str().unwrap()].as_object().unwrap();
            sizes
                .iter()
                .flat_map(|(partition, size)| (0..size.as_i64().unwrap()).map(move |n| numbered(partition.parse().unwrap(), n)))
                .collect()
        };
        assert_eq!(messages.len() as u64, step["count"].as_u64().unwrap());
        match step["transaction"].as_str() {
            None => self.broker.produce(topic, messages).unwrap(),
            Some(end) => {
                let transaction = self.broker.begin_transaction(&weir_testkit::unique_name("writer")).unwrap();
                transaction.produce(topic, messages).unwrap();
                if end == "commit" { transaction.commit().unwrap() } else { transaction.abort().unwrap() }
            }
        }
    }
}

fn numbered(partition: i32, n: i64) -> Message {
    Message::of(format!("v{n}")).key(format!("k{n}")).partition(partition).timestamp(EPOCH_MS + n * 1000)
}

/// `[partition, key, value, seconds, headers]`
fn message(listed: &Value) -> Message {
    let bytes = |value: &Value| value.as_str().map(|text| text.as_bytes().to_vec());
    let headers = listed.get(4).and_then(Value::as_array).into_iter().flatten();
    Message {
        partition: Some(listed[0].as_i64().unwrap() as i32),
        key: bytes(&listed[1]),
        value: bytes(&listed[2]),
        timestamp: Some(EPOCH_MS + listed[3].as_i64().unwrap() * 1000),
        headers: headers.map(|header| (header[0].as_str().unwrap().to_owned(), bytes(&header[1]))).collect(),
    }
}
