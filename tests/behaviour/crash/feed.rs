//! What a crash test reads: numbered rows that keep coming, from a topic, a folder or a table.
//!
//! A row has a number n and p, which is p0, p1 or p2 by the number. A table is
//! written beforehand by Weir itself, its log entries are held back and given
//! out one after the other.

use std::fs;
use std::ops::Range;

use weir_testkit::kafka::{Broker, Message};

use crate::support::{FileJob, Place};

/// Partitions of every topic.
pub const PARTITIONS: i32 = 4;
/// Most records in a batch from Kafka, where nothing else is asked for.
const OFFSETS_PER_TRIGGER: u64 = 200;
/// Rows of a file, and of a commit of a table; a batch takes one.
const ROWS_PER_FILE: u64 = 10;
/// Files and commits of a share.
const FILES_PER_SHARE: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Files,
    Kafka,
    Delta,
}

/// Where rows come from.
pub enum Feed {
    Kafka { broker: &'static Broker, topic: String, per_trigger: u64 },
    Files,
    Delta,
}

impl Feed {
    /// A source that has rows for so many shares, and shows none yet.
    pub fn new(source: Source, name: &str, place: &Place, shares: u64) -> Self {
        match source {
            Source::Files => Self::Files,
            Source::Kafka => Self::kafka(name, OFFSETS_PER_TRIGGER),
            Source::Delta => {
                hold_table(place, shares * FILES_PER_SHARE);
                Self::Delta
            }
        }
    }

    /// A topic of which a batch takes so many records at most.
    pub fn kafka(name: &str, per_trigger: u64) -> Self {
        let broker = Broker::shared();
        Self::Kafka { broker, topic: broker.new_topic(name, PARTITIONS, &[]).unwrap(), per_trigger }
    }

    /// The source of the manifest.
    pub fn source(&self) -> String {
        match self {
            Self::Kafka { broker, topic, per_trigger } => format!(
                "{{name: raw, format: kafka, options: {{kafka.bootstrap.servers: \"{}\", subscribe: {topic}, startingOffsets: earliest, \
                 maxOffsetsPerTrigger: \"{per_trigger}\"}}}}",
                broker.bootstrap_servers()
            ),
            Self::Files => {
                "{name: raw, format: json, schema: 'n BIGINT, p STRING', options: {path: input, maxFilesPerTrigger: \"1\"}}".to_owned()
            }
            Self::Delta => "{name: raw, format: delta, options: {path: source, maxFilesPerTrigger: \"1\"}}".to_owned(),
        }
    }

    /// The columns n and p, as what stands behind FROM.
    pub fn rows(&self) -> &'static str {
        match self {
            Self::Kafka { .. } => "(SELECT d.n, d.p FROM (SELECT from_json(CAST(value AS STRING), 'n BIGINT, p STRING') AS d FROM raw))",
            Self::Files | Self::Delta => "raw",
        }
    }

    /// Rows of a share that are enough for two batches of one run at least.
    pub fn share(&self) -> u64 {
        match self {
            Self::Kafka { per_trigger, .. } => per_trigger + per_trigger / 2,
            Self::Files | Self::Delta => FILES_PER_SHARE * ROWS_PER_FILE,
        }
    }

    /// Numbers that are so far apart are in different batches, and arrive in their order.
    pub fn apart(&self) -> u64 {
        match self {
            // All records of a batch may be of one partition.
            Self::Kafka { per_trigger, .. } => per_trigger * PARTITIONS as u64,
            Self::Files | Self::Delta => 2 * ROWS_PER_FILE,
        }
    }

    pub fn produce(&self, place: &Place, numbers: Range<u64>) {
        match self {
            Self::Kafka { broker, topic, .. } => {
                let message = |n: u64| Message::of(text(n)).partition((n % PARTITIONS as u64) as i32);
                broker.produce(topic, numbers.map(message)).unwrap();
            }
            Self::Files => files(numbers).for_each(|part| write_file(place, part)),
            Self::Delta => {
                for part in files(numbers) {
                    let entry = format!("{:020}.json", part.start / ROWS_PER_FILE);
                    let log = place.path().join("source/_delta_log");
                    fs::rename(log.join("held").join(&entry), log.join(&entry)).unwrap();
                }
            }
        }
    }
}

fn text(n: u64) -> String {
    format!("{{\"n\":{n},\"p\":\"p{}\"}}\n", n % 3)
}

fn files(numbers: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    numbers.clone().step_by(ROWS_PER_FILE as usize).map(move |first| first..(first + ROWS_PER_FILE).min(numbers.end))
}

fn write_file(place: &Place, numbers: Range<u64>) {
    let (name, modified_ms) = (format!("input/{:08}.json", numbers.start), 1_700_000_000_000 + numbers.start);
    place.write_at(&name, &numbers.map(text).collect::<String>(), modified_ms);
}

/// A table of so many commits, whose log lies in a folder that no reader looks into.
fn hold_table(place: &Place, commits: u64) {
    let workshop = Place::new("crash-table");
    files(0..commits * ROWS_PER_FILE).for_each(|part| write_file(&workshop, part));
    let job = FileJob {
        schema: "n BIGINT, p STRING",
        options: "maxFilesPerTrigger: '1'",
        sql: "SELECT n, p FROM events",
        sink: "{format: delta, options: {path: source}}",
        trigger: "{availableNow: {}}",
        extra: "  conf: {weir.checkpoint.fsync: \"false\"}\n",
    };
    workshop.run_once(&job.manifest(), &[]).assert_code(0);
    let table = place.path().join("source");
    fs::rename(workshop.path().join("source"), &table).unwrap();
    let log = table.join("_delta_log");
    let found: Vec<_> = fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).collect();
    fs::create_dir(log.join("held")).unwrap();
    for path in found {
        match path.extension().is_some_and(|extension| extension == "json") {
            true => fs::rename(&path, log.join("held").join(path.file_name().unwrap())).unwrap(),
            // A checkpoint would tell of what is held back.
            false => fs::remove_file(&path).unwrap(),
        }
    }
}
