//! Topics: make, grow, cut, delete, and ask for their offsets.
//!
//! Each call returns when the broker's metadata shows its effect, so that a test can rely on it with its next line.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::executor::block_on;
use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use super::Broker;
use crate::eventually;
use crate::wait::GENEROUS;

const REQUEST: Duration = Duration::from_secs(30);

type TopicOutcomes = Vec<std::result::Result<String, (String, RDKafkaErrorCode)>>;

impl Broker {
    /// Makes a topic and returns its name: `prefix` and a unique ending. `config` has the topic's settings, such as `cleanup.policy`.
    pub fn new_topic(&self, prefix: &str, partitions: i32, config: &[(&str, &str)]) -> Result<String> {
        let name = crate::unique_name(prefix);
        self.create_topic(&name, partitions, config)?;
        Ok(name)
    }

    pub fn create_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) -> Result<()> {
        let topic =
            config.iter().fold(NewTopic::new(name, partitions, TopicReplication::Fixed(1)), |topic, (key, value)| topic.set(key, value));
        let admin = self.admin()?;
        finish_topics(&format!("creating topic {name}"), admin.create_topics([&topic], &options()))?;
        self.wait_for_partitions(name, partitions as usize)
    }

    /// Returns when the topic is no longer listed; it can be created again at once.
    pub fn delete_topic(&self, name: &str) -> Result<()> {
        let admin = self.admin()?;
        finish_topics(&format!("deleting topic {name}"), admin.delete_topics(&[name], &options()))?;
        eventually(&format!("topic {name} to be gone"), GENEROUS, || match self.partition_count(name) {
            Ok(None) => Some(()),
            _ => None,
        })
    }

    /// Raises the number of partitions to `total`.
    pub fn add_partitions(&self, name: &str, total: usize) -> Result<()> {
        let admin = self.admin()?;
        let wanted = NewPartitions::new(name, total);
        finish_topics(&format!("adding partitions to {name}"), admin.create_partitions([&wanted], &options()))?;
        self.wait_for_partitions(name, total)
    }

    /// Deletes the records of a partition below `offset`, as retention does.
    pub fn delete_records(&self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        let admin = self.admin()?;
        let answered = block_on(admin.delete_records(&list, &options()));
        let result = answered.with_context(|| format!("deleting records of {topic}-{partition} below {offset}"))?;
        for element in result.elements() {
            element.error().with_context(|| format!("deleting records of {topic}-{partition} below {offset}"))?;
        }
        eventually(&format!("{topic}-{partition} to begin at {offset}"), GENEROUS, || {
            self.offsets(topic, partition).ok().filter(|(earliest, _)| *earliest >= offset)
        })?;
        Ok(())
    }

    /// Deletes a consumer group with its offsets, as retention does.
    pub fn delete_group(&self, group: &str) -> Result<()> {
        let admin = self.admin()?;
        let answered = block_on(admin.delete_groups(&[group], &options()));
        for outcome in answered.with_context(|| format!("deleting the group {group}"))? {
            if let Err((name, code)) = outcome {
                bail!("deleting the group {name}: {code}");
            }
        }
        Ok(())
    }

    /// What a group has committed for a partition, and the metadata beside it.
    pub fn committed(&self, group: &str, topic: &str, partition: i32) -> Result<Option<(i64, String)>> {
        let consumer: BaseConsumer = self.client().set("group.id", group).create().context("making a Kafka consumer")?;
        let mut asked = TopicPartitionList::new();
        asked.add_partition(topic, partition);
        let found = consumer.committed_offsets(asked, REQUEST).with_context(|| format!("asking for the offsets of {group}"))?;
        let element = found.find_partition(topic, partition).context("the broker left the partition out")?;
        Ok(element.offset().to_raw().filter(|offset| *offset >= 0).map(|offset| (offset, element.metadata().to_owned())))
    }

    /// The earliest offset and the one after the last record.
    pub fn offsets(&self, topic: &str, partition: i32) -> Result<(i64, i64)> {
        let answer = self.consumer()?.fetch_watermarks(topic, partition, REQUEST);
        answer.with_context(|| format!("asking for the offsets of {topic}-{partition}"))
    }

    /// The offset after the last record, of each partition in order.
    pub fn end_offsets(&self, topic: &str) -> Result<Vec<i64>> {
        let count = self.partition_count(topic)?.with_context(|| format!("there is no topic {topic}"))?;
        let consumer = self.consumer()?;
        let end = |partition| Ok(consumer.fetch_watermarks(topic, partition, REQUEST)?.1);
        (0..count as i32).map(end).collect()
    }

    /// How many partitions a topic has; `None` when there is no such topic.
    pub fn partition_count(&self, topic: &str) -> Result<Option<usize>> {
        let metadata = self.consumer()?.fetch_metadata(None, REQUEST).context("asking for Kafka's metadata")?;
        Ok(metadata.topics().iter().find(|found| found.name() == topic).map(|found| found.partitions().len()))
    }

    /// How many brokers answer.
    pub(super) fn brokers(&self, deadline: Duration) -> Result<usize> {
        let metadata = self.consumer()?.fetch_metadata(None, deadline).context("asking for Kafka's metadata")?;
        Ok(metadata.brokers().len())
    }

    fn wait_for_partitions(&self, topic: &str, count: usize) -> Result<()> {
        let consumer = self.consumer()?;
        eventually(&format!("{topic} to have {count} partitions with leaders"), GENEROUS, || {
            let metadata = consumer.fetch_metadata(Some(topic), REQUEST).ok()?;
            let partitions = metadata.topics().first()?.partitions();
            let led = partitions.iter().filter(|partition| partition.leader() >= 0 && partition.error().is_none()).count();
            (led == count).then_some(())
        })
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        self.client().create().context("making a Kafka admin client")
    }

    pub(super) fn consumer(&self) -> Result<BaseConsumer> {
        let mut client = self.client();
        client.set("group.id", "weir-testkit").set("enable.auto.commit", "false").set("allow.auto.create.topics", "false");
        client.create().context("making a Kafka consumer")
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(REQUEST)).request_timeout(Some(REQUEST))
}

fn finish_topics(action: &str, request: impl Future<Output = std::result::Result<TopicOutcomes, KafkaError>>) -> Result<()> {
    for outcome in block_on(request).with_context(|| action.to_owned())? {
        if let Err((topic, code)) = outcome {
            bail!("{action}: {topic}: {code}");
        }
    }
    Ok(())
}
