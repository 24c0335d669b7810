//! The errors of the Kafka connector, with Spark's conditions.
//!
//! Data loss is class Config, because only an edit (`failOnDataLoss`, another
//! start) ends it; an unreachable broker is Retryable; the messages carry the
//! partitions, the range and the remedy. Decides nothing but words.

use std::collections::BTreeSet;

use weir_core::Error;
use weir_crds::finding::nearest;

use super::offsets::TopicPartition;

const REMEDY: &str = "the records were aged out, or the topic was deleted or created anew; set the source option \
                      failOnDataLoss to false to go on without them, or start over with a new checkpoint";

/// Records that should be there are not; `subclass` is Spark's.
pub fn data_loss(subclass: &str, what: impl Into<String>) -> Error {
    Error::config(format!("KAFKA_DATA_LOSS.{subclass}"), format!("{}: {REMEDY}", what.into()))
}

/// The condition of brokers that cannot be asked.
pub const UNREACHABLE: &str = "KAFKA_BROKER_UNREACHABLE";

/// The brokers cannot be asked; `cause` is the client's last word on it.
pub fn unreachable(action: &str, servers: &str, cause: &str) -> Error {
    Error::retryable(
        UNREACHABLE,
        format!(
            "could not {action} from the Kafka servers {servers}: {cause}; check kafka.bootstrap.servers, the network and \
             the security settings"
        ),
    )
}

/// The condition of a topic that does not exist.
pub const UNKNOWN_TOPICS: &str = "UNKNOWN_TOPIC_OR_PARTITION";

/// A topic that is subscribed or assigned does not exist.
/// `there` are the topics that do exist, as far as they are known.
pub fn unknown_topics(topics: &BTreeSet<String>, there: &BTreeSet<String>, servers: &str) -> Error {
    let name = |topic: &String| match nearest(topic, there.iter().map(String::as_str)) {
        Some(nearest) => format!("{topic} (did you mean `{nearest}`?)"),
        None => topic.clone(),
    };
    let names = topics.iter().map(name).collect::<Vec<_>>().join(", ");
    Error::retryable(
        UNKNOWN_TOPICS,
        format!("the Kafka servers {servers} have no topic {names}; create it or correct the option subscribe or assign"),
    )
}

/// An option value that cannot be used.
pub fn invalid_option(name: &str, value: &str, expected: &str) -> Error {
    Error::config("INVALID_OPTION_VALUE", format!("the Kafka option {name} is '{value}': {expected}"))
}

/// `t-0, t-1`.
pub fn names<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>) -> String {
    partitions.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
