//! Which crashes a pair of source and sink is put through: decided by a seed alone.
//!
//! The long form meets every failpoint both ways and fills up with moments that
//! nobody chose. The sample of `make test` meets every failpoint once, each pair
//! with its turn of them, and one such moment for each pair; Kafka into Delta
//! meets every failpoint both ways besides.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use weir_core::failpoint;

use super::feed::Source;
use super::target::Sink;

/// A source and a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub source: Source,
    pub sink: Sink,
}

/// What happens to a process, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub way: Way,
    pub moment: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// SIGKILL.
    Killed,
    /// SIGSTOP, and SIGCONT when a successor has done all there was to do.
    Frozen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    At(&'static str),
    /// So many thousandths of the time that an undisturbed run takes.
    Whenever(u32),
}

const WAYS: [Way; 2] = [Way::Killed, Way::Frozen];
/// A little beyond the end of a run.
const LATEST: u32 = 1100;

/// Places that only a first start passes.
pub fn only_at_first(failpoint: &str) -> bool {
    ["claim.metadata", "claim.owner", "claim.sink-begin"].iter().any(|place| failpoint.starts_with(place))
}

/// How often a place is passed before it acts: some are passed once a start,
/// others once a batch, and the second passage is the more telling one there.
pub fn passages(failpoint: &str) -> u32 {
    u32::from(failpoint.starts_with("batch.") || failpoint.starts_with("sink."))
}

/// Every failpoint of one pair in both ways.
pub fn everywhere(pair: Pair, seed: u64) -> Vec<Crash> {
    long(pair, seed, at_places(pair).len())
}

fn at_places(pair: Pair) -> Vec<Crash> {
    let places = failpoint::ALL.iter().filter(|name| pair.sink.passes(name));
    places.flat_map(|name| WAYS.map(|way| Crash { way, moment: Moment::At(name) })).collect()
}

/// `count` crashes of one pair.
pub fn long(pair: Pair, seed: u64, count: usize) -> Vec<Crash> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut crashes = at_places(pair);
    while crashes.len() < count {
        let way = WAYS[random.random_range(0..WAYS.len())];
        crashes.push(Crash { way, moment: Moment::Whenever(random.random_range(0..LATEST)) });
    }
    crashes.shuffle(&mut random);
    crashes.truncate(count);
    first_starts_first(crashes)
}

/// The crashes of each pair in the sample.
pub fn sample(pairs: &[Pair], seed: u64) -> Vec<Vec<Crash>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut places = failpoint::ALL.to_vec();
    places.shuffle(&mut random);
    let whenever = |random: &mut StdRng, way| Crash { way, moment: Moment::Whenever(random.random_range(0..LATEST)) };
    let mut sampled: Vec<Vec<Crash>> = (0..pairs.len()).map(|at| vec![whenever(&mut random, WAYS[at % WAYS.len()])]).collect();
    for (at, name) in places.into_iter().enumerate() {
        // The pair with the fewest so far; a sink that alone passes a place gets more.
        let passing = (0..pairs.len()).filter(|pair| pairs[*pair].sink.passes(name));
        if let Some(pair) = passing.min_by_key(|pair| sampled[*pair].len()) {
            sampled[pair].push(Crash { way: WAYS[at % WAYS.len()], moment: Moment::At(name) });
        }
    }
    sampled.into_iter().map(first_starts_first).collect()
}

/// What is met by a first start only needs an empty checkpoint, which is nearest at the beginning.
fn first_starts_first(mut crashes: Vec<Crash>) -> Vec<Crash> {
    crashes.sort_by_key(|crash| !matches!(crash.moment, Moment::At(name) if only_at_first(name)));
    crashes
}

#[test]
fn plans_of_crashes_meet_every_failpoint_and_are_repeatable() {
    let pairs = super::matrix::PAIRS;
    let sampled = sample(pairs, 1);
    assert_eq!(sampled, sample(pairs, 1));
    for name in failpoint::ALL {
        let met = |crash: &Crash| crash.moment == Moment::At(name);
        assert!(sampled.iter().flatten().any(met), "{name} is not in the sample");
        for pair in pairs.iter().filter(|pair| pair.sink.passes(name)) {
            assert_eq!(long(*pair, 1, 100).iter().filter(|crash| met(crash)).count(), WAYS.len(), "{pair:?} {name}");
        }
    }
    assert!(sampled.iter().all(|crashes| crashes.len() > 1));
    assert_eq!((long(pairs[0], 1, 7).len(), long(pairs[0], 1, 100).len()), (7, 100));
    assert_eq!(long(pairs[0], 1, 100), long(pairs[0], 1, 100));
    assert_ne!(long(pairs[0], 1, 100), long(pairs[0], 2, 100));
}
