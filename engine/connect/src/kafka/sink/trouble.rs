//! What went wrong with a transaction, in words that name the way out.
//!
//! Pure: which errors pass by themselves, and which condition and remedy each
//! of the others has. A producer that was displaced is told apart from one that
//! may not do what it asks for.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use weir_core::Error;

/// The condition of a producer that has lost its place.
pub const FENCED: &str = "KAFKA_PRODUCER_FENCED";

/// Where it went wrong.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The brokers.
    pub servers: &'a str,
    /// The transactional id, which is the group's name too.
    pub id: &'a str,
    /// The topic with the marker.
    pub topic: &'a str,
    /// `transaction.timeout.ms`.
    pub timeout_ms: &'a str,
}

/// Whether the same call may succeed a little later.
pub fn may_pass(error: &KafkaError) -> bool {
    match error {
        KafkaError::Transaction(said) => said.is_retriable() && !said.is_fatal() && !said.txn_requires_abort(),
        other => other.rdkafka_error_code().is_some_and(passes),
    }
}

fn passes(code: Code) -> bool {
    matches!(
        code,
        Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::UnstableOffsetCommit
            | Code::UnknownTopicOrPartition
            | Code::UnknownTopic
            | Code::UnknownPartition
            | Code::LeaderNotAvailable
            | Code::WaitingForCoordinator
    )
}

/// The error of a step that is given up.
pub fn failed(place: &Place<'_>, doing: &str, error: &KafkaError, last_words: &str) -> Error {
    let Place { servers, id, topic, timeout_ms } = place;
    let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
    let said = match error {
        KafkaError::Transaction(said) => said.string(),
        other => other.to_string(),
    };
    let what = format!("the Kafka servers {servers} did not {doing} (transactional.id {id}): {said}{last_words}");
    match code {
        Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch => Error::retryable(
            FENCED,
            format!(
                "{what}; another producer has taken the transactional id, or the batch was open for longer than \
                 transaction.timeout.ms ({timeout_ms} ms); make batches smaller (maxOffsetsPerTrigger, maxFilesPerTrigger) or raise \
                 kafka.transaction.timeout.ms, up to the brokers' transaction.max.timeout.ms; the query is tried again"
            ),
        ),
        Code::TransactionalIdAuthorizationFailed
        | Code::GroupAuthorizationFailed
        | Code::TopicAuthorizationFailed
        | Code::ClusterAuthorizationFailed => Error::config(
            "KAFKA_NOT_AUTHORIZED",
            format!(
                "{what}; exactly once needs these rights of the user: Write and Describe on the transactional id {id}, Read and Describe \
                 on the group {id}, Read and Describe on the topic {topic}, Write on the topics of the rows, and IdempotentWrite on the cluster for brokers before 2.8"
            ),
        ),
        Code::InvalidTransactionTimeout => Error::config(
            "INVALID_OPTION_VALUE",
            format!("{what}; set kafka.transaction.timeout.ms ({timeout_ms}) to the brokers' transaction.max.timeout.ms at most"),
        ),
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => Error::retryable(
            super::super::errors::UNKNOWN_TOPICS,
            format!("{what}; create the topic {topic} or correct the option topic or markerTopic"),
        ),
        _ => Error::retryable(
            "KAFKA_TRANSACTION_FAILED",
            format!("{what}; check the servers, the network and the security settings; the query is tried again"),
        ),
    }
}

/// The error of a record that the brokers have refused; `None` for what may be a moment's trouble. `what` names the record.
pub fn not_taken(servers: &str, what: &str, code: Code) -> Option<Error> {
    let (condition, remedy) = match code {
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => {
            ("KAFKA_RECORD_TOO_LARGE", "raise kafka.max.request.size and the topic's max.message.bytes, or make the row smaller")
        }
        Code::UnknownPartition => ("KAFKA_UNKNOWN_PARTITION", "the column partition names a partition that the topic does not have"),
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => (
            "KAFKA_NOT_AUTHORIZED",
            "the user of the sink needs Write and Describe on the topic, and IdempotentWrite on the cluster for brokers before 2.8; grant them, \
             or name another topic",
        ),
        Code::InvalidTopic => (INVALID_TOPIC, "correct the option topic or the column topic"),
        Code::InvalidRecord => (
            "KAFKA_INVALID_RECORD",
            "a topic with cleanup.policy compact takes records with a key alone: give the query a column key, or leave out rows without one",
        ),
        Code::UnknownTopic | Code::UnknownTopicOrPartition => {
            let text = format!(
                "the Kafka servers {servers} did not take {what}; create the topic, or correct the option topic or the column topic"
            );
            return Some(Error::retryable(super::super::errors::UNKNOWN_TOPICS, text));
        }
        _ => return None,
    };
    Some(Error::config(condition, format!("the Kafka servers {servers} did not take {what}; {remedy}")))
}

/// The condition of a name that no topic can have.
pub const INVALID_TOPIC: &str = "KAFKA_INVALID_TOPIC_NAME";

/// A row names a topic that cannot be.
pub fn invalid_topic(name: &str, why: &str) -> Error {
    let shown: String = name.chars().take(300).collect();
    Error::config(
        INVALID_TOPIC,
        format!(
            "a row for the Kafka sink names the topic '{}', and {why}; correct the column topic, leave such rows out with a WHERE clause, or set \
             the option topic for all rows",
            shown.escape_debug()
        ),
    )
}

/// The marker is not there, and whether `batch` was committed cannot be told.
pub fn marker_lost(id: &str, topic: &str, batch: u64) -> Error {
    Error::incompatible(
        "KAFKA_MARKER_LOST",
        format!(
            "batch {batch} was begun, and the brokers have no record of this query any more (the offset of the group {id} for {topic}-{partition}): \
             they forget it after offsets.retention.minutes without a run, the topic or the group was deleted, or deliveryGuarantee became \
             exactly-once after the batch was begun; whether the topic holds the \
             rows of batch {batch} cannot be told; look at the end of the topic, then set a changed checkpointResetNonce, which sends the batch \
             again, or begin with a new checkpointLocation",
            partition = super::marker::PARTITION
        ),
    )
}

/// The batch took effect in part, by positions that mean nothing any more.
pub fn cut_otherwise(batch: u64) -> Error {
    Error::incompatible(
        "KAFKA_BATCH_CUT_OTHERWISE",
        format!(
            "batch {batch} took effect in part, and its source rows are cut into other partitions now, so the rest cannot be told: restore \
             the options of the sources (minPartitions, maxRecordsPerPartition, the format's own) and this version of Weir until the batch is \
             over; or set a changed checkpointResetNonce with another topic, which gets the whole batch"
        ),
    )
}

/// The marker tells less than the checkpoint.
pub fn marker_behind(id: &str, topic: &str, recorded: Option<u64>, committed: Option<u64>) -> Error {
    let told = |batch: Option<u64>| batch.map_or_else(|| "no batch".to_owned(), |batch| format!("batch {batch}"));
    Error::incompatible(
        "SINK_BEHIND_CHECKPOINT",
        format!(
            "the checkpoint has committed {committed}, but the brokers have recorded {recorded} (the offset of the group {id} for \
             {topic}-{partition}): the offset was set back, the brokers were restored from an old copy, or batches were sent at-least-once in \
             between; where rows are missing, restore the topic or begin with a new checkpointLocation and a changed checkpointResetNonce; \
             where none are, a changed checkpointResetNonce goes on",
            committed = told(committed),
            recorded = told(recorded),
            partition = super::marker::PARTITION
        ),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use weir_core::ErrorClass;

    use super::*;

    const PLACE: Place<'_> = Place { servers: "k:9092", id: "weir-1", topic: "t", timeout_ms: "900000" };

    fn told(code: Code) -> Error {
        failed(&PLACE, "commit a transaction", &KafkaError::MetadataFetch(code), " (down)")
    }

    #[test]
    fn each_kind_has_its_way_out() {
        let cases = [
            (Code::ProducerFenced, ErrorClass::Retryable, "maxOffsetsPerTrigger"),
            (Code::GroupAuthorizationFailed, ErrorClass::Config, "Read and Describe on the group weir-1"),
            (Code::InvalidTransactionTimeout, ErrorClass::Config, "transaction.max.timeout.ms"),
            (Code::UnknownTopicOrPartition, ErrorClass::Retryable, "create the topic t"),
            (Code::OperationTimedOut, ErrorClass::Retryable, "(down); check the servers"),
        ];
        for (code, class, words) in cases {
            let error = told(code);
            assert!(error.class() == class && error.message().contains(words) && error.message().contains("k:9092"), "{code:?}: {error}");
        }
    }

    #[test]
    fn a_record_that_is_never_taken_ends_the_query() {
        for (code, class, words) in [
            (Code::MessageSizeTooLarge, ErrorClass::Config, "max.message.bytes"),
            (Code::MessageBatchTooLarge, ErrorClass::Config, "max.message.bytes"),
            (Code::TopicAuthorizationFailed, ErrorClass::Config, "Write and Describe on the topic"),
            (Code::InvalidTopic, ErrorClass::Config, "correct the option topic"),
            (Code::InvalidRecord, ErrorClass::Config, "a column key"),
            (Code::UnknownTopicOrPartition, ErrorClass::Retryable, "create the topic"),
        ] {
            let error = not_taken("k:9092", "a record for partition 0 of t", code).unwrap();
            assert!(error.class() == class && error.message().contains(words) && error.message().contains("of t;"), "{code:?}: {error}");
        }
        assert!(
            not_taken("k:9092", "a record", Code::MessageTimedOut).is_none()
                && not_taken("k:9092", "a record", Code::NotEnoughReplicas).is_none()
        );
    }

    #[test]
    fn only_what_time_mends_is_tried_again() {
        assert!(may_pass(&KafkaError::MetadataFetch(Code::OperationTimedOut)));
        for code in [Code::ProducerFenced, Code::GroupAuthorizationFailed, Code::InvalidTransactionTimeout] {
            assert!(!may_pass(&KafkaError::MetadataFetch(code)), "{code:?}");
        }
    }

    #[test]
    fn a_lost_marker_names_the_batch_and_both_ways_on() {
        let error = marker_lost("weir-1", "t", 7);
        assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "KAFKA_MARKER_LOST"));
        assert!(error.message().contains("batch 7") && error.message().contains("checkpointResetNonce"), "{error}");
    }
}
