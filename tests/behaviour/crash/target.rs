//! Where the rows of a crash test go, and who says at the end that each is there once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_testkit::judge::{Input, Judge};
use weir_testkit::kafka::Broker;

use super::feed::PARTITIONS;
use super::home::Home;
use crate::support::{Place, weir};

/// A sink that promises exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    Delta,
    Upsert,
    Kafka,
    /// Several topics, which the rows name.
    Topics,
    Files,
}

impl Sink {
    /// Whether a task with this sink passes the failpoint.
    pub fn passes(self, failpoint: &str) -> bool {
        match self {
            Self::Delta | Self::Upsert | Self::Files => !failpoint.starts_with("sink.marker."),
            Self::Kafka | Self::Topics => !failpoint.starts_with("sink.file."),
        }
    }
}

/// The sink of one test.
pub struct Target {
    sink: Sink,
    name: String,
    /// Where the rows are, until it is begun anew; empty where they are no records.
    topics: Vec<String>,
    /// See [`super::feed::Feed::apart`].
    apart: u64,
}

impl Target {
    pub fn new(sink: Sink, name: &str, apart: u64) -> Self {
        let mut new = Self { sink, name: format!("{name}-out"), topics: Vec::new(), apart };
        new.begin_anew();
        new
    }

    /// Topics cannot be emptied, so other ones are taken.
    pub fn begin_anew(&mut self) {
        let count = match self.sink {
            Sink::Kafka => 1,
            Sink::Topics => 2,
            Sink::Delta | Sink::Upsert | Sink::Files => 0,
        };
        self.topics = (0..count).map(|_| Broker::shared().new_topic(&self.name, PARTITIONS, &[]).unwrap()).collect();
    }

    /// The sink of the manifest and what stands beside it.
    pub fn sink(&self, table: &str) -> String {
        match self.sink {
            Sink::Delta => format!("{{format: delta, options: {{path: \"{table}\"}}, partitionBy: [p]}}"),
            // Without an order: a batch that came late or twice would show.
            Sink::Upsert => format!("{{format: delta, options: {{path: \"{table}\"}}, upsertKeys: [k]}}\n      outputMode: Update"),
            Sink::Files => format!("{{format: json, options: {{path: \"{table}\"}}}}"),
            Sink::Kafka | Sink::Topics => format!(
                "{{format: kafka, options: {{kafka.bootstrap.servers: \"{}\", {}: {}, deliveryGuarantee: exactly-once}}}}",
                Broker::shared().bootstrap_servers(),
                if self.sink == Sink::Kafka { "topic" } else { "markerTopic" },
                self.topics[0]
            ),
        }
    }

    /// What is selected of the columns n and p.
    pub fn columns(&self) -> String {
        match self.sink {
            Sink::Delta | Sink::Files => "n, p".to_owned(),
            Sink::Upsert => format!("CASE WHEN n % 2 = 0 THEN n ELSE -1 - n % {} END AS k, n, p", self.apart),
            Sink::Kafka => "CAST(n AS STRING) AS value".to_owned(),
            Sink::Topics => {
                format!("CAST(n AS STRING) AS value, CASE WHEN n % 2 = 0 THEN '{}' ELSE '{}' END AS topic", self.topics[0], self.topics[1])
            }
        }
    }

    /// The rows are those of the numbers below `count`: PySpark says it of tables, a consumer of committed records of a topic.
    pub fn judge(&self, place: &Place, home: &Home, count: u64) {
        let table = || home.seen(place, "table");
        match self.sink {
            Sink::Delta => judge_numbers(&Input::at("delta", table()), count),
            // Its log names files of the store, which PySpark does not reach.
            Sink::Files if home.fails() => judge_by_weir(place, home, count),
            Sink::Files => judge_numbers(&Input::at("json", table()).schema("n BIGINT, p STRING"), count),
            Sink::Upsert => {
                let mut expected: Vec<Vec<Value>> =
                    self.last_of_each_key(count).into_iter().map(|(k, n)| vec![json!(k), json!(n), json!(format!("p{}", n % 3))]).collect();
                let table = Input::at("delta", table());
                let mut rows = Judge::shared().query(&table, "SELECT k, n, p FROM source").unwrap().rows;
                let by_key = |row: &Vec<Value>| (row[0].as_i64(), row[1].as_i64());
                expected.sort_by_key(by_key);
                rows.sort_by_key(by_key);
                let wrong = rows.iter().zip(&expected).find(|(found, wanted)| found != wanted);
                assert_eq!((rows.len(), wrong), (expected.len(), None), "rows (left) are not those of the model (right)");
            }
            Sink::Kafka | Sink::Topics => {
                let records = self.topics.iter().flat_map(|topic| Broker::shared().read_all(topic).unwrap());
                let mut numbers: Vec<u64> = records.map(|record| record.text().parse().unwrap()).collect();
                numbers.sort_unstable();
                let wrong = numbers.iter().zip(0..).find(|(found, wanted)| **found != *wanted);
                assert_eq!((numbers.len() as u64, wrong), (count, None), "rows are missing or there twice");
            }
        }
    }

    /// Even numbers are keys of their own, so that a lost one shows for ever; odd ones share few keys, so that a wrong order shows.
    fn last_of_each_key(&self, count: u64) -> BTreeMap<i64, u64> {
        let key = |n: u64| if n.is_multiple_of(2) { n as i64 } else { -1 - (n % self.apart) as i64 };
        (0..count).map(|n| (key(n), n)).collect()
    }
}

/// What tells a table of each number once.
const SUMS: &str = "count(*) AS a, count(DISTINCT n) AS b, min(n) AS c, max(n) AS d, sum(n) AS e, sum(CASE WHEN p = concat('p', n % 3) THEN 0 ELSE 1 END) AS f";

fn sums(count: u64) -> [u64; 6] {
    [count, count, 0, count - 1, count * (count - 1) / 2, 0]
}

/// A table of each number below `count` once.
fn judge_numbers(table: &Input, count: u64) {
    let rows = Judge::shared().query(table, &format!("SELECT {SUMS} FROM source")).unwrap().rows;
    assert_eq!(serde_json::to_value(rows).unwrap(), json!([sums(count)]));
}

fn judge_by_weir(place: &Place, home: &Home, count: u64) {
    let table = format!("source=json:{}?schema=n BIGINT, p STRING", home.location("table"));
    let mut command = weir();
    command.current_dir(place.path()).envs(home.of_judges()).args(["sql", &format!("SELECT {SUMS} FROM source"), "--output", "json"]);
    let output = command.args(["--table", &table]).output().unwrap();
    let [a, b, c, d, e, f] = sums(count);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(found, json!({"a": a, "b": b, "c": c, "d": d, "e": e, "f": f}));
}
