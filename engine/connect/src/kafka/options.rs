//! The options of a Kafka source, parsed once into typed values.
//!
//! Names are matched without regard to case, as Spark does; `kafka.*` goes to
//! the client settings. Every refusal names the option, the value and what to
//! write instead. Asks no broker.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_core::{Error, Result};
use weir_crds::duration::{TimeUnit, parse_time_string};

use super::errors;
use super::offsets::{self, TopicPartition};
use super::pattern::TopicPattern;
use super::plan::GroupIdSet;
use super::properties::{self, ClientKind, ClientSettings};
use super::starting::{StartingOffsets, TimestampMiss};

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
    /// The client's settings.
    pub client: ClientSettings,
}

impl KafkaSourceOptions {
    /// Reads the option map of a source; `conf` holds the session's Spark settings.
    pub fn parse(options: &BTreeMap<String, String>, conf: &BTreeMap<String, String>) -> Result<Self> {
        let given = Given::new(options);
        let topics = topic_selection(&given)?;
        refuse_ends(&given)?;
        let client = properties::translate(&given.client, ClientKind::Consumer)?;
        if client.servers().is_empty() {
            return Err(Error::config(
                "MISSING_OPTION",
                "the option kafka.bootstrap.servers must be set for a Kafka source: a list such as host1:9092,host2:9092",
            ));
        }
        let limits = rate_limits(&given)?;
        let default_timeout = match conf.get("spark.network.timeout") {
            Some(text) => {
                parse_time_string(text, TimeUnit::Seconds).map_err(|why| errors::invalid_option("spark.network.timeout", text, &why))?
            }
            None => Duration::from_secs(120),
        };
        let group = match client.get("group.id") {
            Some(id) => GroupId::Fixed(id.to_owned()),
            None => GroupId::Prefix(given.text("groupIdPrefix").unwrap_or("spark-kafka-source").to_owned()),
        };
        Ok(Self {
            topics,
            starting: starting_offsets(&given)?,
            limits,
            min_partitions: given.positive("minPartitions")?,
            max_records_per_partition: given.positive("maxRecordsPerPartition")?,
            data_loss: if given.flag("failOnDataLoss", true)? { DataLoss::Fail } else { DataLoss::Warn },
            headers: if given.flag("includeHeaders", false)? { HeaderColumn::Included } else { HeaderColumn::Left },
            group,
            poll_timeout: given.number("kafkaConsumer.pollTimeoutMs")?.map_or(default_timeout, Duration::from_millis),
            fetch_attempts: given.number("fetchOffset.numRetries")?.map_or(3, |n| u32::try_from(n).unwrap_or(u32::MAX)).max(1),
            fetch_interval: given.number("fetchOffset.retryIntervalMs")?.map_or(Duration::from_secs(1), Duration::from_millis),
            client,
        })
    }
}

/// Options by lower-case name, the client's apart.
pub(super) struct Given {
    own: BTreeMap<String, String>,
    /// `kafka.*` without the prefix.
    pub(super) client: BTreeMap<String, String>,
}

impl Given {
    pub(super) fn new(options: &BTreeMap<String, String>) -> Self {
        let mut given = Self { own: BTreeMap::new(), client: BTreeMap::new() };
        for (name, value) in options {
            let lower = name.to_ascii_lowercase();
            match lower.strip_prefix("kafka.") {
                Some(client) => given.client.insert(client.to_owned(), value.clone()),
                None => given.own.insert(lower, value.clone()),
            };
        }
        given
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.own.get(&name.to_ascii_lowercase()).map(String::as_str)
    }

    fn number(&self, name: &str) -> Result<Option<u64>> {
        let parse = |text: &str| text.trim().parse().map_err(|_| errors::invalid_option(name, text, "write a whole number of 0 or more"));
        self.text(name).map(parse).transpose()
    }

    fn positive(&self, name: &str) -> Result<Option<u64>> {
        match self.number(name)? {
            Some(0) => Err(errors::invalid_option(name, "0", &format!("{name} must be positive"))),
            other => Ok(other),
        }
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.text(name) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(errors::invalid_option(name, text, "write true or false")),
        }
    }
}

fn topic_selection(given: &Given) -> Result<TopicSelection> {
    let all = "subscribe, subscribePattern, assign";
    let found = (given.text("assign"), given.text("subscribe"), given.text("subscribePattern"));
    match found {
        (Some(assign), None, None) => assigned(assign),
        (None, Some(subscribe), None) => {
            let topics: Vec<String> = subscribe.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect();
            if topics.is_empty() {
                return Err(errors::invalid_option("subscribe", subscribe, "write a topic, or several separated by commas"));
            }
            Ok(TopicSelection::Subscribe(topics))
        }
        (None, None, Some(pattern)) => Ok(TopicSelection::Pattern(TopicPattern::parse(pattern.trim())?)),
        (None, None, None) => Err(Error::config("MISSING_OPTION", format!("one of the options {all} must be set for a Kafka source"))),
        _ => Err(Error::config("CONFLICTING_OPTIONS", format!("only one of the options {all} can be set for a Kafka source"))),
    }
}

fn assigned(text: &str) -> Result<TopicSelection> {
    let refused = || errors::invalid_option("assign", text, r#"write partitions by topic, for example {"topicA":[0,1],"topicB":[2]}"#);
    // In the order written, which is the order of Spark's description.
    let topics: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).map_err(|_| refused())?;
    let mut partitions = Vec::new();
    for (topic, numbers) in topics {
        let numbers: Vec<i32> = serde_json::from_value(numbers).map_err(|_| refused())?;
        partitions.extend(numbers.into_iter().map(|number| TopicPartition::new(topic.as_str(), number)));
    }
    if partitions.is_empty() { Err(refused()) } else { Ok(TopicSelection::Assign(partitions)) }
}

fn refuse_ends(given: &Given) -> Result<()> {
    for name in ["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"] {
        if let Some(value) = given.text(name) {
            return Err(errors::invalid_option(
                name,
                value,
                "an end is not valid in a streaming query; use the trigger availableNow to stop at what is there",
            ));
        }
    }
    Ok(())
}

fn rate_limits(given: &Given) -> Result<RateLimits> {
    let (min, max) = (given.number("minOffsetsPerTrigger")?, given.number("maxOffsetsPerTrigger")?);
    if let (Some(min), Some(max)) = (min, max)
        && min > max
    {
        return Err(Error::config(
            "CONFLICTING_OPTIONS",
            format!("minOffsetsPerTrigger ({min}) is higher than maxOffsetsPerTrigger ({max})"),
        ));
    }
    let text = given.text("maxTriggerDelay").unwrap_or("15m");
    let delay = parse_time_string(text, TimeUnit::Milliseconds).map_err(|why| errors::invalid_option("maxTriggerDelay", text, &why))?;
    Ok(RateLimits { max, min, max_delay_ms: i64::try_from(delay.as_millis()).unwrap_or(i64::MAX) })
}

fn starting_offsets(given: &Given) -> Result<StartingOffsets> {
    let miss = match given.text("startingOffsetsByTimestampStrategy") {
        None => TimestampMiss::Error,
        Some(text) if text.eq_ignore_ascii_case("error") => TimestampMiss::Error,
        Some(text) if text.eq_ignore_ascii_case("latest") => TimestampMiss::Latest,
        Some(text) => return Err(errors::invalid_option("startingOffsetsByTimestampStrategy", text, "write error or latest")),
    };
    if let Some(text) = given.text("startingTimestamp") {
        let time = text
            .trim()
            .parse()
            .map_err(|_| errors::invalid_option("startingTimestamp", text, "write milliseconds since 1970, for example 1717236000000"))?;
        return Ok(StartingOffsets::Timestamp(time, miss));
    }
    if let Some(text) = given.text("startingOffsetsByTimestamp") {
        let times = offsets::parse(text).map_err(|why| errors::invalid_option("startingOffsetsByTimestamp", text, &why))?;
        return Ok(StartingOffsets::ByTimestamp(times, miss));
    }
    match given.text("startingOffsets").unwrap_or("latest").trim() {
        text if text.eq_ignore_ascii_case("latest") => Ok(StartingOffsets::Latest),
        text if text.eq_ignore_ascii_case("earliest") => Ok(StartingOffsets::Earliest),
        text => {
            let refused = |why: &str| {
                errors::invalid_option("startingOffsets", text, &format!("write earliest, latest, or offsets by partition; {why}"))
            };
            let offsets = offsets::parse(text).map_err(|why| refused(&why))?;
            if offsets.values().any(|offset| *offset < -2) {
                return Err(refused("an offset is 0 or more, -1 for latest or -2 for earliest"));
            }
            Ok(StartingOffsets::Specific(offsets))
        }
    }
}
