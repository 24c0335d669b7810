//! `kafka`: which topics, from where to where, how much at once. Client settings (`kafka.*`) are in `kafka_client`.

use crate::duration::TimeUnit;
use crate::options::kind::{Kind, POSITIVE_INT, POSITIVE_LONG};
use crate::options::row::{OptionRow, Role};

const PROVIDER: &str = "org.apache.spark.sql.kafka010.KafkaSourceProvider";
const WRITER: &str = "org.apache.spark.sql.kafka010.KafkaWriter";
const BATCH_ONLY: &str = "is not allowed, ending offset not valid in streaming queries: remove it; for a bounded read use the query's trigger `availableNow: {}`";
const READ: &[Role] = &[Role::Source, Role::Table];

/// Options of `kafka` beside the client's settings.
pub const KAFKA_ROWS: &[OptionRow] = &[
    OptionRow::new("kafka.bootstrap.servers", Kind::CommaList, "Brokers to begin with, as host:port with commas.", PROVIDER)
        .required(),
    OptionRow::new("assign", Kind::Partitions, "Topics with partitions. One of assign, subscribe, subscribePattern.", PROVIDER)
        .roles(READ),
    OptionRow::new("subscribe", Kind::CommaList, "Topics with commas. One of assign, subscribe, subscribePattern.", PROVIDER)
        .roles(READ),
    OptionRow::new(
        "subscribePattern",
        Kind::Regex,
        "Regular expression that a topic's whole name must match. One of assign, subscribe, subscribePattern.",
        PROVIDER,
    )
    .roles(READ),
    OptionRow::new(
        "startingOffsets",
        Kind::Offsets,
        "Where a new query begins; -2 is earliest, -1 latest. Later starts go on from the checkpoint; new partitions begin at their earliest record.",
        PROVIDER,
    )
    .stream()
    .default("latest"),
    OptionRow::new("startingOffsets", Kind::Offsets, "Where the read begins; -2 is earliest.", PROVIDER).table().default("earliest"),
    OptionRow::new(
        "startingOffsetsByTimestamp",
        Kind::Timestamps,
        "Per partition: begin at the first record not older than this, in milliseconds since 1970. Goes before startingOffsets.",
        PROVIDER,
    )
    .roles(READ),
    OptionRow::new(
        "startingTimestamp",
        Kind::EpochMillis,
        "For all partitions: begin at the first record not older than this, in milliseconds since 1970. Goes before startingOffsetsByTimestamp.",
        PROVIDER,
    )
    .roles(READ),
    OptionRow::new(
        "startingOffsetsByTimestampStrategy",
        Kind::Choice(&["error", "latest"]),
        "Where no record is as new as the timestamp: fail, or begin at the latest.",
        PROVIDER,
    )
    .roles(READ)
    .default("error"),
    OptionRow::new("endingOffsets", Kind::Offsets, "Where the read ends; -1 is latest.", PROVIDER).table().default("latest"),
    OptionRow::new("endingOffsetsByTimestamp", Kind::Timestamps, "Per partition: end at the first record not older than this.", PROVIDER).table(),
    OptionRow::new("endingTimestamp", Kind::EpochMillis, "For all partitions: end at the first record not older than this.", PROVIDER).table(),
    OptionRow::new("endingOffsets", Kind::Text, "Refused for streams.", PROVIDER).stream().refused(BATCH_ONLY),
    OptionRow::new("endingOffsetsByTimestamp", Kind::Text, "Refused for streams.", PROVIDER).stream().refused(BATCH_ONLY),
    OptionRow::new("endingTimestamp", Kind::Text, "Refused for streams.", PROVIDER).stream().refused(BATCH_ONLY),
    OptionRow::new(
        "maxOffsetsPerTrigger",
        POSITIVE_LONG,
        "Most offsets in one batch, over all partitions, shared by backlog. Default: all.",
        PROVIDER,
    )
    .stream(),
    OptionRow::new("minOffsetsPerTrigger", POSITIVE_LONG, "A batch waits until so many offsets are there.", PROVIDER).stream(),
    OptionRow::new(
        "maxTriggerDelay",
        Kind::Time(TimeUnit::Milliseconds),
        "Longest wait for minOffsetsPerTrigger.",
        PROVIDER,
    )
    .stream()
    .default("15m"),
    OptionRow::new(
        "failOnDataLoss",
        Kind::Bool,
        "Whether the query fails when offsets to read are gone; false reads what is there and warns.",
        PROVIDER,
    )
    .roles(READ)
    .default("true"),
    OptionRow::new("minPartitions", POSITIVE_INT, "Ranges to split a batch into at least. Default: one per partition.", PROVIDER)
        .roles(READ),
    OptionRow::new("maxRecordsPerPartition", POSITIVE_LONG, "Most records in one range of a batch.", PROVIDER).roles(READ),
    OptionRow::new(
        "includeHeaders",
        Kind::Bool,
        "Whether there is a column headers array<struct<key string, value binary>>; a sink writes that column whenever it is there.",
        PROVIDER,
    )
    .default("false"),
    OptionRow::new("groupIdPrefix", Kind::NonEmpty, "Begin of the consumer group's name.", PROVIDER)
        .roles(READ)
        .default("spark-kafka-source"),
    OptionRow::new("kafkaConsumer.pollTimeoutMs", POSITIVE_LONG, "Longest wait for records of a range, in milliseconds.", PROVIDER)
        .roles(READ)
        .default("120000"),
    OptionRow::new("fetchOffset.numRetries", Kind::Int { min: 0, max: i32::MAX as i64 }, "Tries to fetch offsets.", PROVIDER)
        .roles(READ)
        .default("3"),
    OptionRow::new("fetchOffset.retryIntervalMs", Kind::Int { min: 0, max: i64::MAX }, "Wait between these tries, in milliseconds.", PROVIDER)
        .roles(READ)
        .default("1000"),
    OptionRow::new("topic", Kind::NonEmpty, "Topic of all rows; goes before a column topic.", WRITER).write(),
    OptionRow::new(
        "deliveryGuarantee",
        Kind::Choice(&["at-least-once", "exactly-once"]),
        "At least once: rows of a batch that is re-run are sent again. Exactly once: by transactions, see sinks.md.",
        "Weir",
    )
    .write()
    .default("at-least-once"),
    OptionRow::new(
        "markerTopic",
        Kind::NonEmpty,
        "Exactly once where rows name their topics: an existing topic beside which the record of the last batch is kept; nothing is \
         written to it.",
        "Weir",
    )
    .write(),
    OptionRow::new("checkpointLocation", Kind::Path, "Refused in options.", "org.apache.spark.sql.streaming.DataStreamWriter")
        .write()
        .refused("belongs to the query: write it as the query's field checkpointLocation"),
];
