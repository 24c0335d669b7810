//! M2 with two deaths: leadership moves at one call to a second operator, and at one of its calls to a third.
//!
//! A fixed seed draws the sequence, the two calls, and how each leader ends: killed before or after its call, or deposed while
//! the call is on its way. A call of the deposed ones arrives when all is over,
//! and must do nothing.

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use weir_operator::authority::Authority;
use weir_operator::lease::Leadership;
use weir_operator::operator;
use weir_testcluster::User;
use weir_testcluster::faults::{Effect, Faults, Matcher, RuleId, Side, Times};

use crate::kills::{Chain, Named, Sequence};
use crate::world::{Running, World};

/// Pairs of calls.
const PAIRS: usize = 50;
/// Seed of the draw.
const SEED: u64 = 2;

/// How a leader's time ends at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Killed(Side),
    /// It lives on, and its call is on its way.
    Deposed,
}

/// One leader's end.
#[derive(Clone, Copy, Debug)]
struct Fall {
    call: usize,
    end: End,
}

/// The sequences with about as many calls as each takes.
const CALLS: [(Sequence, usize); 9] = [
    (Sequence::Start, 24),
    (Sequence::TaskRetry, 20),
    (Sequence::RunRestart, 20),
    (Sequence::EditRun, 26),
    (Sequence::EditTask, 26),
    (Sequence::Suspend, 16),
    (Sequence::Resume, 20),
    (Sequence::Nonce, 24),
    (Sequence::Delete, 20),
];

/// The sample, the same each time.
fn sample() -> Vec<(Sequence, [Fall; 2])> {
    let mut dice = StdRng::seed_from_u64(SEED);
    let ends = [End::Killed(Side::Before), End::Killed(Side::After), End::Deposed];
    let mut pair = |number: usize| {
        let (sequence, calls) = CALLS[number % CALLS.len()];
        let mut fall = |calls| Fall { call: dice.random_range(0..calls), end: *ends.choose(&mut dice).unwrap() };
        // What the first has done the second does not do again.
        (sequence, [fall(calls), fall(calls / 2)])
    };
    (0..PAIRS).map(&mut pair).collect()
}

/// An operator that leads when it is told to.
struct Candidate {
    running: Running,
    leadership: watch::Sender<Leadership>,
}

impl Candidate {
    async fn stand_by(world: &World) -> Candidate {
        let (leadership, told) = watch::channel(following());
        let faults = Faults::new();
        let client = faults.client(world.plane.config(User::Admin).await.unwrap()).unwrap();
        let running = world.operator_over(client, faults, world.settings(), Authority::Elected(told));
        Candidate { running, leadership }
    }

    /// Leads from now on, up to a call; whether that is reached before `done` is, and the call that is still on its way.
    async fn lead_until(&self, fall: Fall, done: impl Future<Output = ()>) -> (bool, Option<RuleId>) {
        let faults = &self.running.faults;
        let held = match fall.end {
            End::Killed(side) => {
                faults.stop_at(fall.call, side);
                None
            }
            End::Deposed => Some(faults.add(Matcher::any().index(fall.call), Times::Once, Effect::Hold(Side::Before))),
        };
        self.leadership.send_replace(operator::endless());
        let reached = async {
            match held {
                None => faults.reached().await,
                Some(rule) => faults.until_hit(rule, 1).await.unwrap(),
            }
        };
        let reached = tokio::select! {
            () = reached => true,
            () = done => false,
        };
        self.leadership.send_replace(following());
        (reached, held)
    }
}

fn following() -> Leadership {
    Leadership::Following { holder: None, seen: None }
}

/// Runs a pair; how many of its two calls were reached.
async fn run(chain: &mut Chain, falls: [Fall; 2]) -> usize {
    let _named = Named(format!("{:?}, {falls:?}", chain.sequence));
    chain.begin().await;
    let mut reached = 0;
    let mut zombies = Vec::new();
    for fall in falls {
        let leader = Candidate::stand_by(&chain.world).await;
        let (fell, held) = leader.lead_until(fall, chain.expect()).await;
        reached += usize::from(fell);
        match held {
            None => leader.running.kill().await,
            Some(rule) => zombies.push((leader, rule)),
        }
    }
    let last = Candidate::stand_by(&chain.world).await;
    last.leadership.send_replace(operator::endless());
    chain.expect().await;
    for (zombie, rule) in zombies {
        let faults = zombie.running.faults.clone();
        let sent = faults.calls().len();
        faults.release(rule).await;
        zombie.running.stop().await;
        // Events of what it had done are no orders.
        let more = faults.calls().split_off(sent);
        assert!(more.iter().all(|call| call.target.resource == "events"), "a deposed leader went on: {more:?}");
    }
    chain.world.until_run_of_passes(&last.running).await;
    chain.expect().await;
    last.running.stop().await;
    chain.reached_by(chain.world.operator().await).await;
    reached
}

#[tokio::test(flavor = "multi_thread")]
async fn m02_two_leaders_fall_at_any_two_calls() {
    let sample = sample();
    let of_sequence = |sequence: Sequence| {
        let falls: Vec<[Fall; 2]> = sample.iter().filter(|(of, _)| *of == sequence).map(|(_, falls)| *falls).collect();
        async move {
            let mut chain = Chain::new(sequence).await;
            let mut reached = [0; 3];
            for falls in falls {
                reached[run(&mut chain, falls).await] += 1;
            }
            chain.end().await;
            reached
        }
    };
    let reached = join_all(CALLS.map(|(sequence, _)| of_sequence(sequence))).await;
    let both: usize = reached.iter().map(|counts| counts[2]).sum();
    println!("pairs by how many of their calls were made: {reached:?}");
    assert!(both >= PAIRS / 2, "too few of the sampled calls were made: {reached:?}");
}
