//! Apache Kafka as source, table and sink, with Spark's options, offsets and limits.
//!
//! `options` is the door: a map of strings becomes typed values. `plan` and
//! `offsets` decide and know no broker. `lookup` asks brokers for partitions
//! and offsets, `pool`, `drain` and `reader` fetch records, `rows` lays them
//! out in Arrow. `stores` loads certificates, `token` gets
//! and renews tokens, `refusal` says why brokers do not let the client in. `table` reads from offset to offset once, `sink` produces.
//!
//! Invariants: offsets live in the checkpoint only, nothing is committed to
//! Kafka; every wait on a broker is bounded and ends in an error that names
//! the servers; a planned range yields the same records on every read.

mod drain;
mod errors;
mod listener;
mod lookup;
mod offsets;
mod options;
mod pattern;
mod peek;
mod plan;
mod pool;
mod probe;
mod properties;
mod reader;
mod refusal;
mod rows;
mod silence;
mod sink;
mod source;
mod starting;
mod stores;
mod table;
mod token;
mod topic;
mod topic_id;

pub use errors::UNREACHABLE;
pub use offsets::{PartitionOffsets, TopicPartition, lies_before};
pub use options::{DataLoss, GroupId, HeaderColumn, KafkaSourceOptions, RateLimits, TopicSelection, ending_offsets};
pub use plan::OffsetRange;
pub use properties::ClientSettings;
pub use sink::{KafkaSink, KafkaSinkOptions};
pub use source::{KafkaSource, PreparedKafka};
pub use starting::{StartingOffsets, TimestampMiss, damage};
pub use table::table;
