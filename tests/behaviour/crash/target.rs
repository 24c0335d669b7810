//! Where the rows of a crash test go, and who says at the end that each is there once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_testkit::judge::{Input, Judge};
use weir_testkit::kafka::Broker;

use super::feed::PARTITIONS;
use crate::support::Place;

/// A sink that promises exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    Delta,
    Upsert,
    Kafka,
    Files,
}

impl Sink {
    /// Whether a task with this sink passes the failpoint.
    pub fn passes(self, failpoint: &str) -> bool {
        match self {
            Self::Delta | Self::Upsert | Self::Files => !failpoint.starts_with("sink.marker."),
            Self::Kafka => !failpoint.starts_with("sink.file."),
        }
    }
}

/// The sink of one test.
pub struct Target {
    sink: Sink,
    name: String,
    /// Only a topic has one: where the rows are, as long as it is not begun anew.
    topic: Option<String>,
    /// See [`super::feed::Feed::apart`].
    apart: u64,
}

impl Target {
    pub fn new(sink: Sink, name: &str, apart: u64) -> Self {
        let mut new = Self { sink, name: format!("{name}-out"), topic: None, apart };
        new.begin_anew();
        new
    }

    /// A topic cannot be emptied, so another one is taken.
    pub fn begin_anew(&mut self) {
        let new_topic = || Broker::shared().new_topic(&self.name, PARTITIONS, &[]).unwrap();
        self.topic = (self.sink == Sink::Kafka).then(new_topic);
    }

    /// The sink of the manifest and what stands beside it.
    pub fn sink(&self) -> String {
        match self.sink {
            Sink::Delta => "{format: delta, options: {path: table}, partitionBy: [p]}".to_owned(),
            // Without an order: a batch that came late or twice would show.
            Sink::Upsert => "{format: delta, options: {path: table}, upsertKeys: [k]}\n      outputMode: Update".to_owned(),
            Sink::Files => "{format: json, options: {path: table}}".to_owned(),
            Sink::Kafka => format!(
                "{{format: kafka, options: {{kafka.bootstrap.servers: \"{}\", topic: {}, deliveryGuarantee: exactly-once}}}}",
                Broker::shared().bootstrap_servers(),
                self.topic()
            ),
        }
    }

    /// What is selected of the columns n and p.
    pub fn columns(&self) -> String {
        match self.sink {
            Sink::Delta | Sink::Files => "n, p".to_owned(),
            Sink::Upsert => format!("CASE WHEN n % 2 = 0 THEN n ELSE -1 - n % {} END AS k, n, p", self.apart),
            Sink::Kafka => "CAST(n AS STRING) AS value".to_owned(),
        }
    }

    /// The rows are those of the numbers below `count`: PySpark says it of tables, a consumer of committed records of a topic.
    pub fn judge(&self, place: &Place, count: u64) {
        match self.sink {
            Sink::Delta => judge_numbers(&Input::at("delta", place.at("table")), count),
            Sink::Files => judge_numbers(&Input::at("json", place.at("table")).schema("n BIGINT, p STRING"), count),
            Sink::Upsert => {
                let mut expected: Vec<Vec<Value>> =
                    self.last_of_each_key(count).into_iter().map(|(k, n)| vec![json!(k), json!(n), json!(format!("p{}", n % 3))]).collect();
                let table = Input::at("delta", place.at("table"));
                let mut rows = Judge::shared().query(&table, "SELECT k, n, p FROM source").unwrap().rows;
                let by_key = |row: &Vec<Value>| (row[0].as_i64(), row[1].as_i64());
                expected.sort_by_key(by_key);
                rows.sort_by_key(by_key);
                let wrong = rows.iter().zip(&expected).find(|(found, wanted)| found != wanted);
                assert_eq!((rows.len(), wrong), (expected.len(), None), "rows (left) are not those of the model (right)");
            }
            Sink::Kafka => {
                let records = Broker::shared().read_all(self.topic()).unwrap();
                let mut numbers: Vec<u64> = records.iter().map(|record| record.text().parse().unwrap()).collect();
                numbers.sort_unstable();
                let wrong = numbers.iter().zip(0..).find(|(found, wanted)| **found != *wanted);
                assert_eq!((numbers.len() as u64, wrong), (count, None), "rows are missing or there twice");
            }
        }
    }

    fn topic(&self) -> &str {
        self.topic.as_deref().unwrap()
    }

    /// Even numbers are keys of their own, so that a lost one shows for ever; odd ones share few keys, so that a wrong order shows.
    fn last_of_each_key(&self, count: u64) -> BTreeMap<i64, u64> {
        let key = |n: u64| if n.is_multiple_of(2) { n as i64 } else { -1 - (n % self.apart) as i64 };
        (0..count).map(|n| (key(n), n)).collect()
    }
}

/// A table of each number below `count` once.
fn judge_numbers(table: &Input, count: u64) {
    let query =
        "SELECT count(*), count(DISTINCT n), min(n), max(n), sum(n), sum(CASE WHEN p = concat('p', n % 3) THEN 0 ELSE 1 END) FROM source";
    let rows = Judge::shared().query(table, query).unwrap().rows;
    assert_eq!(serde_json::to_value(rows).unwrap(), json!([[count, count, 0, count - 1, count * (count - 1) / 2, 0]]));
}
