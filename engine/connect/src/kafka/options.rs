//! The options of a Kafka source as the connector uses them.
//!
//! `weir-crds` has parsed and checked the strings; here they become what the
//! connector's own types say. Only what needs a pattern engine or the session
//! is checked here. Asks no broker.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_core::{Error, Result};
use weir_crds::duration::{TimeUnit, parse_time_string};
use weir_crds::options::{Offsets, ParsedOptions, Role};

use super::errors;
use super::offsets::{PartitionOffsets, TopicPartition};
use super::pattern::TopicPattern;
use super::plan::GroupIdSet;
use super::properties::ClientSettings;
use super::starting::{StartingOffsets, TimestampMiss};
use super::topic;

/// How long the brokers of a table are asked.
const TABLE_LOOKUP_LIMIT: Duration = Duration::from_secs(10);

/// `assign`, `subscribe` or `subscribePattern`.
#[derive(Clone, Debug)]
pub enum TopicSelection {
    /// Fixed partitions, in the order given.
    Assign(Vec<TopicPartition>),
    /// Whole topics, in the order given.
    Subscribe(Vec<String>),
    /// Every topic in whose name the pattern is found.
    Pattern(TopicPattern),
}

/// What to do about records that are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataLoss {
    /// `failOnDataLoss=true`: the query fails.
    Fail,
    /// `failOnDataLoss=false`: a warning, and on with what is left.
    Warn,
}

/// Whether rows have a `headers` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderColumn {
    /// `includeHeaders=true`.
    Included,
    /// The default.
    Left,
}

/// The consumer group that clients name themselves after; nothing is committed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupId {
    /// `kafka.group.id`.
    Fixed(String),
    /// `groupIdPrefix`, completed by the query's id.
    Prefix(String),
}

impl GroupId {
    /// The group of the consumers of one reader, which `of` tells from others.
    pub fn of_reader(&self, of: impl std::fmt::Display) -> String {
        match self {
            GroupId::Fixed(id) => id.clone(),
            GroupId::Prefix(prefix) => format!("{prefix}-{of}-executor"),
        }
    }

    /// Who chose the group.
    pub fn set_by(&self) -> GroupIdSet {
        match self {
            Self::Fixed(_) => GroupIdSet::ByUser,
            Self::Prefix(_) => GroupIdSet::Generated,
        }
    }
}

/// How much one batch may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimits {
    /// `maxOffsetsPerTrigger`.
    pub max: Option<u64>,
    /// `minOffsetsPerTrigger`.
    pub min: Option<u64>,
    /// `maxTriggerDelay` in milliseconds.
    pub max_delay_ms: i64,
}

/// A Kafka source's options.
#[derive(Clone, Debug)]
pub struct KafkaSourceOptions {
    /// What is read.
    pub topics: TopicSelection,
    /// Where a new query starts.
    pub starting: StartingOffsets,
    /// Limits of a batch.
    pub limits: RateLimits,
    /// `minPartitions`.
    pub min_partitions: Option<u64>,
    /// `maxRecordsPerPartition`.
    pub max_records_per_partition: Option<u64>,
    /// `failOnDataLoss`.
    pub data_loss: DataLoss,
    /// `includeHeaders`.
    pub headers: HeaderColumn,
    /// `kafka.group.id` or `groupIdPrefix`.
    pub group: GroupId,
    /// `kafkaConsumer.pollTimeoutMs`; without it `spark.network.timeout`.
    pub poll_timeout: Duration,
    /// `fetchOffset.numRetries`.
    pub fetch_attempts: u32,
    /// `fetchOffset.retryIntervalMs`.
    pub fetch_interval: Duration,
    /// The most time for one question to the brokers, where the options do not say how often it is tried.
    pub lookup_limit: Option<Duration>,
    /// The client's settings.
    pub client: ClientSettings,
}

impl KafkaSourceOptions {
    /// Takes over parsed options; `conf` holds the session's Spark settings.
    pub fn from_parsed(parsed: &ParsedOptions, conf: &BTreeMap<String, String>) -> Result<Self> {
        let client = ClientSettings::from_parsed(parsed);
        let group = match client.get("group.id") {
            Some(id) => GroupId::Fixed(id.to_owned()),
            None => GroupId::Prefix(parsed.str("groupIdPrefix")),
        };
        let attempts = u32::try_from(parsed.i64("fetchOffset.numRetries")).unwrap_or(u32::MAX).max(1);
        Ok(Self {
            topics: topic_selection(parsed)?,
            starting: starting_offsets(parsed),
            limits: rate_limits(parsed),
            min_partitions: natural(parsed, "minPartitions"),
            max_records_per_partition: natural(parsed, "maxRecordsPerPartition"),
            data_loss: if parsed.bool("failOnDataLoss") { DataLoss::Fail } else { DataLoss::Warn },
            headers: if parsed.bool("includeHeaders") { HeaderColumn::Included } else { HeaderColumn::Left },
            group,
            poll_timeout: poll_timeout(parsed, conf)?,
            fetch_attempts: attempts,
            fetch_interval: milliseconds(parsed, "fetchOffset.retryIntervalMs"),
            lookup_limit: lookup_limit(parsed),
            client,
        })
    }
}

/// Somebody may be waiting for a table; a stream has time.
fn lookup_limit(parsed: &ParsedOptions) -> Option<Duration> {
    let is_given = ["fetchOffset.numRetries", "fetchOffset.retryIntervalMs"].iter().any(|name| parsed.is_given(name));
    (parsed.role == Role::Table && !is_given).then_some(TABLE_LOOKUP_LIMIT)
}

/// Only a stream is read in batches.
fn rate_limits(parsed: &ParsedOptions) -> RateLimits {
    if parsed.role != Role::Source {
        return RateLimits { max: None, min: None, max_delay_ms: 0 };
    }
    RateLimits {
        max: natural(parsed, "maxOffsetsPerTrigger"),
        min: natural(parsed, "minOffsetsPerTrigger"),
        max_delay_ms: i64::try_from(parsed.duration("maxTriggerDelay").as_millis()).unwrap_or(i64::MAX),
    }
}

fn natural(parsed: &ParsedOptions, name: &str) -> Option<u64> {
    parsed.opt_i64(name).and_then(|number| u64::try_from(number).ok())
}

fn milliseconds(parsed: &ParsedOptions, name: &str) -> Duration {
    Duration::from_millis(natural(parsed, name).unwrap_or_default())
}

/// `kafkaConsumer.pollTimeoutMs`, else `spark.network.timeout`, else the table's default.
fn poll_timeout(parsed: &ParsedOptions, conf: &BTreeMap<String, String>) -> Result<Duration> {
    match conf.get("spark.network.timeout") {
        Some(text) if !parsed.is_given("kafkaConsumer.pollTimeoutMs") => {
            parse_time_string(text, TimeUnit::Seconds).map_err(|why| errors::invalid_option("spark.network.timeout", text, &why))
        }
        _ => Ok(milliseconds(parsed, "kafkaConsumer.pollTimeoutMs")),
    }
}

fn topic_selection(parsed: &ParsedOptions) -> Result<TopicSelection> {
    if let Some(pattern) = parsed.opt_str("subscribePattern") {
        return Ok(TopicSelection::Pattern(TopicPattern::parse(pattern.trim())?));
    }
    if let Some(topics) = parsed.opt_partitions("assign") {
        let partitions =
            topics.iter().flat_map(|(topic, numbers)| numbers.iter().map(|number| TopicPartition::new(topic.as_str(), *number)));
        return Ok(TopicSelection::Assign(partitions.collect()));
    }
    match parsed.list("subscribe") {
        topics if topics.is_empty() => Err(Error::config(
            "MISSING_OPTION",
            "one of the options subscribe, subscribePattern, assign must be set for a Kafka source; write for example subscribe: my-topic",
        )),
        topics => match topics.iter().find_map(|topic| Some((topic, topic::check(topic).err()?))) {
            Some((topic, why)) => Err(errors::invalid_option("subscribe", topic, &format!("{why}; name topics, with commas between them"))),
            None => Ok(TopicSelection::Subscribe(topics)),
        },
    }
}

fn starting_offsets(parsed: &ParsedOptions) -> StartingOffsets {
    let miss = match parsed.str("startingOffsetsByTimestampStrategy").as_str() {
        "latest" => TimestampMiss::Latest,
        _ => TimestampMiss::Error,
    };
    if let Some(time) = parsed.opt_i64("startingTimestamp") {
        return StartingOffsets::Timestamp(time, miss);
    }
    if let Some(Offsets::Specific(times)) = parsed.opt_offsets("startingOffsetsByTimestamp") {
        return StartingOffsets::ByTimestamp(by_partition(&times), miss);
    }
    match parsed.opt_offsets("startingOffsets") {
        Some(Offsets::Earliest) => StartingOffsets::Earliest,
        Some(Offsets::Specific(specified)) => StartingOffsets::Specific(by_partition(&specified)),
        Some(Offsets::Latest) | None => StartingOffsets::Latest,
    }
}

/// Where the read of a table ends. A time that no record has reached is the end of its partition, as in Spark.
pub fn ending_offsets(parsed: &ParsedOptions) -> StartingOffsets {
    if let Some(time) = parsed.opt_i64("endingTimestamp") {
        return StartingOffsets::Timestamp(time, TimestampMiss::Latest);
    }
    if let Some(Offsets::Specific(times)) = parsed.opt_offsets("endingOffsetsByTimestamp") {
        return StartingOffsets::ByTimestamp(by_partition(&times), TimestampMiss::Latest);
    }
    match parsed.opt_offsets("endingOffsets") {
        Some(Offsets::Specific(specified)) => StartingOffsets::Specific(by_partition(&specified)),
        _ => StartingOffsets::Latest,
    }
}

fn by_partition(topics: &BTreeMap<String, BTreeMap<i32, i64>>) -> PartitionOffsets {
    let entries = topics.iter().flat_map(|(topic, partitions)| partitions.iter().map(move |(number, value)| (topic, *number, *value)));
    entries.map(|(topic, number, value)| (TopicPartition::new(topic.as_str(), number), value)).collect()
}
