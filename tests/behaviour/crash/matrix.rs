//! Pairs of sources and sinks, each crashed at the places that a task with them passes.
//!
//! The short form crashes Kafka into Delta everywhere, every other pair where
//! the pair matters: around the plan, within a batch, around the sink's commit.
//! The long form crashes every pair everywhere.

use weir_core::failpoint;
use weir_testkit::length::Length;

use super::feed::Feed;
use super::target::Target;
use super::{Crashing, only_at_first};

/// Where the short form crashes a pair.
const SAMPLE: [&str; 7] = [
    "claim.sink-read.after",
    "batch.offsets.after",
    "batch.slice.after",
    "sink.marker.before",
    "sink.commit.before",
    "sink.commit.after",
    "batch.commits.before",
];

/// The short form of most pairs: the sample, with as many rows as it needs.
const SAMPLED: (&[&str], u64) = (&SAMPLE, 0);

fn crash(name: &str, feed: Feed, target: Target, short: (&[&str], u64)) {
    let (places, rows) = Length::of_this_run().pick(short, (failpoint::ALL, 1_000_000));
    let is_met = |name: &&str| target.passes(name) && (target.begins_anew() || !only_at_first(name));
    let places: Vec<&str> = places.iter().copied().filter(is_met).collect();
    Crashing::new(name, feed, target).crash_at(&places, rows);
}

#[test]
fn crash_kafka_into_delta() {
    crash("crash-kafka-delta", Feed::kafka("crash-kafka-delta"), Target::Delta, (failpoint::ALL, 200_000));
}

#[test]
fn crash_kafka_into_kafka() {
    crash("crash-kafka-kafka", Feed::kafka("crash-kafka-kafka"), Target::kafka("crash-kafka-kafka", 1), SAMPLED);
}

#[test]
fn crash_kafka_into_files() {
    crash("crash-kafka-files", Feed::kafka("crash-kafka-files"), Target::Files, SAMPLED);
}

#[test]
fn crash_files_into_delta() {
    crash("crash-files-delta", Feed::Files, Target::Delta, SAMPLED);
}

#[test]
fn crash_files_into_kafka() {
    crash("crash-files-kafka", Feed::Files, Target::kafka("crash-files-kafka", 2), SAMPLED);
}

#[test]
fn crash_files_into_files() {
    crash("crash-files-files", Feed::Files, Target::Files, SAMPLED);
}
