//! Every source into every sink, each crashed as `plan` says, and some of them
//! once more with checkpoint and table in a store that fails.
//!
//! `make test` runs the sample. `make crash` runs `WEIR_CRASHES` crashes (1000),
//! decided by `WEIR_SEED` (drawn when it is not set); what fails prints the line
//! that repeats it.

use std::fmt::Display;
use std::str::FromStr;

use weir_testkit::length::Length;
use weir_testkit::store::faults;

use super::Crashing;
use super::feed::{Feed, Source};
use super::home::Home;
use super::plan::{self, Crash, Pair};
use super::target::{Sink, Target};
use crate::support::Place;

const SAMPLE_SEED: u64 = 5;
const CRASHES: usize = 1000;
/// Crashes of a pair in the store, in the sample.
const STORED_CRASHES: usize = 2;
/// Requests of a hundred that fail.
const FAILING: u64 = 10;

macro_rules! pairs {
    ($pairs:ident, $home:ident: $($name:ident: $source:ident into $sink:ident,)*) => {
        pub const $pairs: &[Pair] = &[$(Pair { source: Source::$source, sink: Sink::$sink }),*];

        $(
            #[test]
            fn $name() {
                $home(stringify!($name), Pair { source: Source::$source, sink: Sink::$sink });
            }
        )*
    };
}

pairs! { PAIRS, on_the_disk:
    crash_files_into_delta: Files into Delta,
    crash_files_into_upsert: Files into Upsert,
    crash_files_into_topics: Files into Topics,
    crash_files_into_files: Files into Files,
    crash_kafka_into_delta: Kafka into Delta,
    crash_kafka_into_upsert: Kafka into Upsert,
    crash_kafka_into_kafka: Kafka into Kafka,
    crash_kafka_into_files: Kafka into Files,
    crash_delta_into_delta: Delta into Delta,
    crash_delta_into_upsert: Delta into Upsert,
    crash_delta_into_kafka: Delta into Kafka,
    crash_delta_into_files: Delta into Files,
}

pairs! { STORED, in_the_store:
    crash_s3_files_into_delta: Files into Delta,
    crash_s3_delta_into_upsert: Delta into Upsert,
    crash_s3_kafka_into_kafka: Kafka into Kafka,
    crash_s3_files_into_files: Files into Files,
}

/// The way that most people go, at every failpoint in both ways, with many rows.
#[test]
fn crash_kafka_into_delta_at_every_failpoint() {
    let (name, pair) = ("crash-everywhere", Pair { source: Source::Kafka, sink: Sink::Delta });
    let crashes = plan::everywhere(pair, SAMPLE_SEED);
    let rows = Length::of_this_run().pick(200_000, 1_000_000);
    let feed = Feed::kafka(name, 2000);
    let target = Target::new(pair.sink, name, feed.apart());
    let repeat = "make test, of which this is crash_kafka_into_delta_at_every_failpoint".to_owned();
    let mut crashing = Crashing::between(Place::new(name), Home::Disk, feed, target, repeat);
    crashing.share = crashing.share.max(rows / (crashes.len() as u64 + 1) + 1);
    crashing.run(&crashes);
}

fn on_the_disk(name: &str, pair: Pair) {
    let at = PAIRS.iter().position(|other| *other == pair).unwrap();
    let (crashes, _, repeat) = planned(name, pair, at as u64, || plan::sample(PAIRS, SAMPLE_SEED).swap_remove(at));
    Crashing::new(name, pair, Home::Disk, crashes.len(), repeat).run(&crashes);
}

fn in_the_store(name: &str, pair: Pair) {
    let at = PAIRS.len() + STORED.iter().position(|other| *other == pair).unwrap();
    let (crashes, seed, repeat) = planned(name, pair, at as u64, || plan::long(pair, SAMPLE_SEED, STORED_CRASHES));
    let home = Home::in_store(name, faults::Plan { seed, percent: FAILING });
    Crashing::new(name, pair, home, crashes.len(), repeat).run(&crashes);
}

/// The crashes, the seed, and how to repeat them.
fn planned(name: &str, pair: Pair, at: u64, sample: impl FnOnce() -> Vec<Crash>) -> (Vec<Crash>, u64, String) {
    if Length::of_this_run() == Length::Short {
        return (sample(), SAMPLE_SEED, format!("make test, of which this is {name}"));
    }
    let (count, seed) = (variable("WEIR_CRASHES").unwrap_or(CRASHES), variable("WEIR_SEED").unwrap_or_else(rand::random::<u32>));
    let own = u64::from(seed) + at;
    let crashes = plan::long(pair, own, count.div_ceil(PAIRS.len() + STORED.len()));
    (crashes, own, format!("WEIR_CRASHES={count} WEIR_SEED={seed} make crash ONLY={name}"))
}

/// A number from the environment; one that is none is a mistake and not the default.
fn variable<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name} is '{text}', which is no number: {error}")))
}
