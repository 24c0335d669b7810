//! What a crash test reads: numbered rows that keep coming, from a topic or a folder.

use std::ops::Range;

use weir_testkit::kafka::{Broker, Message};

use crate::support::Place;

/// Partitions of every topic.
pub const PARTITIONS: i32 = 4;
/// Most records in a batch from Kafka.
const OFFSETS_PER_TRIGGER: u64 = 2000;
/// Files that a share of rows is spread over; a batch takes one.
const FILES: u64 = 3;

/// Where rows come from.
pub enum Feed {
    Kafka { broker: &'static Broker, topic: String },
    Files,
}

impl Feed {
    pub fn kafka(name: &str) -> Self {
        let broker = Broker::shared();
        Self::Kafka { broker, topic: broker.new_topic(name, PARTITIONS, &[]).unwrap() }
    }

    /// The source of the manifest.
    pub fn source(&self) -> String {
        match self {
            Self::Kafka { broker, topic } => format!(
                "{{name: raw, format: kafka, options: {{kafka.bootstrap.servers: \"{}\", subscribe: {topic}, startingOffsets: earliest, \
                 maxOffsetsPerTrigger: \"{OFFSETS_PER_TRIGGER}\"}}}}",
                broker.bootstrap_servers()
            ),
            Self::Files => {
                "{name: raw, format: json, schema: 'n BIGINT, p STRING', options: {path: input, maxFilesPerTrigger: \"1\"}}".to_owned()
            }
        }
    }

    /// The columns n and p, as what stands behind FROM.
    pub fn rows(&self) -> &'static str {
        match self {
            Self::Kafka { .. } => "(SELECT d.n, d.p FROM (SELECT from_json(CAST(value AS STRING), 'n BIGINT, p STRING') AS d FROM raw))",
            Self::Files => "raw",
        }
    }

    /// Rows of a share that are enough for two batches of one run at least.
    pub fn share(&self) -> u64 {
        match self {
            Self::Kafka { .. } => OFFSETS_PER_TRIGGER + OFFSETS_PER_TRIGGER / 2,
            Self::Files => 30,
        }
    }

    pub fn produce(&self, place: &Place, numbers: Range<u64>) {
        let text = |n: u64| format!("{{\"n\":{n},\"p\":\"p{}\"}}", n % 3);
        match self {
            Self::Kafka { broker, topic } => {
                let message = |n: u64| Message::of(text(n)).partition((n % PARTITIONS as u64) as i32);
                broker.produce(topic, numbers.map(message)).unwrap();
            }
            Self::Files => {
                let (first, count) = (numbers.start, numbers.end - numbers.start);
                for file in 0..FILES {
                    let part = first + count * file / FILES..first + count * (file + 1) / FILES;
                    let name = format!("input/{:08}.json", part.start);
                    let modified_ms = 1_700_000_000_000 + part.start;
                    let lines: String = part.map(|n| text(n) + "\n").collect();
                    if !lines.is_empty() {
                        place.write_at(&name, &lines, modified_ms);
                    }
                }
            }
        }
    }
}
