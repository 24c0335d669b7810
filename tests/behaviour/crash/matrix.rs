//! Every source into every sink, each crashed as `plan` says.
//!
//! `make test` runs the sample. `make crash` runs `WEIR_CRASHES` crashes (1000),
//! decided by `WEIR_SEED` (drawn when it is not set); what fails prints the line
//! that repeats it.

use std::fmt::Display;
use std::str::FromStr;

use weir_testkit::length::Length;

use super::Crashing;
use super::feed::Source;
use super::plan::{self, Pair};
use super::target::Sink;

const SAMPLE_SEED: u64 = 5;
const CRASHES: usize = 1000;

macro_rules! pairs {
    ($($name:ident: $source:ident into $sink:ident,)*) => {
        pub const PAIRS: &[Pair] = &[$(Pair { source: Source::$source, sink: Sink::$sink }),*];

        $(
            #[test]
            fn $name() {
                crash(stringify!($name), Pair { source: Source::$source, sink: Sink::$sink });
            }
        )*
    };
}

pairs! {
    crash_files_into_delta: Files into Delta,
    crash_files_into_upsert: Files into Upsert,
    crash_files_into_kafka: Files into Kafka,
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

fn crash(name: &str, pair: Pair) {
    let at = PAIRS.iter().position(|other| *other == pair).unwrap();
    let (crashes, repeat) = match Length::of_this_run() {
        Length::Short => (plan::sample(PAIRS, SAMPLE_SEED).swap_remove(at), format!("make test, of which this is {name}")),
        Length::Long => {
            let (count, seed) = (variable("WEIR_CRASHES").unwrap_or(CRASHES), variable("WEIR_SEED").unwrap_or_else(rand::random::<u32>));
            let repeat = format!("WEIR_CRASHES={count} WEIR_SEED={seed} make crash ONLY={name}");
            (plan::long(pair, u64::from(seed) + at as u64, count.div_ceil(PAIRS.len())), repeat)
        }
    };
    Crashing::new(name, pair, crashes.len(), repeat).run(&crashes);
}

/// A number from the environment; one that is none is a mistake and not the default.
fn variable<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name} is '{text}', which is no number: {error}")))
}
