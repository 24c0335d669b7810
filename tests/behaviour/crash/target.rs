//! Where the rows of a crash test go, and who says at the end that each is there once.

use serde_json::json;
use weir_testkit::judge::{Input, Judge};
use weir_testkit::kafka::Broker;

use super::feed::PARTITIONS;
use crate::support::Place;

/// A sink that promises exactly once.
pub enum Target {
    Delta,
    Files,
    /// One topic, or several that the rows name.
    Kafka {
        broker: &'static Broker,
        topics: Vec<String>,
    },
}

impl Target {
    /// So many topics.
    pub fn kafka(name: &str, topics: usize) -> Self {
        let broker = Broker::shared();
        let new_topic = |_| broker.new_topic(&format!("{name}-out"), PARTITIONS, &[]).unwrap();
        Self::Kafka { broker, topics: (0..topics).map(new_topic).collect() }
    }

    /// The sink of the manifest.
    pub fn sink(&self) -> String {
        match self {
            Self::Delta => "{format: delta, options: {path: table}, partitionBy: [p]}".to_owned(),
            Self::Files => "{format: json, options: {path: table}}".to_owned(),
            Self::Kafka { broker, topics } => format!(
                "{{format: kafka, options: {{kafka.bootstrap.servers: \"{}\", {}: {}, deliveryGuarantee: exactly-once}}}}",
                broker.bootstrap_servers(),
                if topics.len() == 1 { "topic" } else { "markerTopic" },
                topics[0]
            ),
        }
    }

    /// What is selected of the columns n and p.
    pub fn columns(&self) -> String {
        match self {
            Self::Delta | Self::Files => "n, p".to_owned(),
            Self::Kafka { topics, .. } if topics.len() == 1 => "CAST(n AS STRING) AS value".to_owned(),
            Self::Kafka { topics, .. } => {
                format!("CAST(n AS STRING) AS value, CASE WHEN n % 2 = 0 THEN '{}' ELSE '{}' END AS topic", topics[0], topics[1])
            }
        }
    }

    /// Whether a task with this sink passes the failpoint.
    pub fn passes(&self, failpoint: &str) -> bool {
        match self {
            Self::Delta | Self::Files => !failpoint.starts_with("sink.marker."),
            Self::Kafka { .. } => !failpoint.starts_with("sink.file."),
        }
    }

    /// Whether it can be emptied together with its checkpoint.
    pub fn begins_anew(&self) -> bool {
        !matches!(self, Self::Kafka { .. })
    }

    /// Each number below `count` is there once: PySpark says it of tables, a consumer of committed records of a topic.
    pub fn judge(&self, place: &Place, count: u64) {
        let table = match self {
            Self::Delta => Input::at("delta", place.at("table")),
            Self::Files => Input { schema: Some("n BIGINT, p STRING".to_owned()), ..Input::at("json", place.at("table")) },
            Self::Kafka { broker, topics } => {
                let records = topics.iter().flat_map(|topic| broker.read_all(topic).unwrap());
                let mut numbers: Vec<u64> = records.map(|record| record.text().parse().unwrap()).collect();
                numbers.sort_unstable();
                let wrong = numbers.iter().zip(0..).find(|(found, wanted)| **found != *wanted);
                assert_eq!((numbers.len() as u64, wrong), (count, None), "rows are missing or there twice");
                return;
            }
        };
        let query = "SELECT count(*), count(DISTINCT n), min(n), max(n), sum(n), sum(CASE WHEN p = concat('p', n % 3) THEN 0 ELSE 1 END) FROM source";
        let rows = Judge::shared().query(&table, query).unwrap().rows;
        assert_eq!(serde_json::to_value(rows).unwrap(), json!([[count, count, 0, count - 1, count * (count - 1) / 2, 0]]));
    }
}
