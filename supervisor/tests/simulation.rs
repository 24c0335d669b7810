//! A simulated world against the promises of the crate root.
//!
//! Instances start, get ready, fail in every way, hang and vanish; the clock
//! jumps; the shell dies before storing, between storing and acting, and half
//! way through its actions; the owner edits, suspends and restarts. Whatever
//! the history, after every step the promises hold, and once the world behaves
//! again the job streams again.
#![allow(clippy::unwrap_used)]

mod common;

use proptest::prelude::*;
use weir_supervisor::observed::Blame;

mod world;

use world::{End, Op, World};

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        3 => prop_oneof![Just(1), Just(10), Just(101), Just(137), Just(143), Just(2)].prop_map(End::Code),
        1 => prop_oneof![Just(0), Just(20), Just(21), Just(22)].prop_map(End::Code),
        2 => Just(End::Completed),
        1 => Just(End::Stopped),
        1 => (0..200_u64).prop_map(End::Fenced),
        1 => (0..3_u8).prop_map(End::SchemaChanged),
        1 => Just(End::Drained),
        1 => Just(End::Unknown),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3_usize).prop_map(Op::Ready),
        6 => (0..3_usize, end()).prop_map(|(task, end)| Op::End(task, end)),
        4 => (0..700_u64).prop_map(Op::Advance),
        6 => Just(Op::WakeUp),
        1 => (-100_000..100_000_i64).prop_map(Op::ClockJump),
        1 => (0..3_usize).prop_map(Op::Vanish),
        1 => (0..3_usize).prop_map(Op::Unready),
        1 => (0..3_usize).prop_map(Op::Unschedulable),
        2 => Just(Op::DieBeforeStoring),
        2 => Just(Op::DieBeforeActing),
        2 => (0..3_usize).prop_map(Op::DieAfterActions),
        1 => Just(Op::RunnerRestart),
        1 => (0..3_usize).prop_map(|task| Op::RejectStart(task, Blame::Surroundings)),
        1 => (0..3_usize).prop_map(|task| Op::RejectStart(task, Blame::Manifest)),
        1 => Just(Op::EditRun),
        1 => (0..3_usize).prop_map(Op::EditTask),
        1 => Just(Op::EditNothing),
        1 => Just(Op::Nonce),
        1 => Just(Op::RunNow),
        1 => Just(Op::ToggleSuspend),
        1 => Just(Op::TogglePause),
        1 => Just(Op::ToggleShutdown),
        1 => Just(Op::WipeMemory),
        2 => (0..3_usize).prop_map(Op::Thaw),
        2 => (0..3_usize).prop_map(Op::ToggleForeign),
        2 => (0..3_usize).prop_map(Op::ToggleUnclassified),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_promises_hold_for_any_history(
        tasks in 1..4_usize,
        never in any::<bool>(),
        seed in any::<u64>(),
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut world = World::new(tasks, never, seed);
        for op in &ops {
            world.apply(op);
            world.settle();
        }
        world.behave();
    }
}
