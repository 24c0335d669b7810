//! What is given up behind a fence is remembered until the fence has been claimed: no edit, suspension or new run starts
//! anything beside it in another store.
#![allow(clippy::unwrap_used)]

mod common;

use common::{MINUTE, Stage, continuous, fences, starts};
use proptest::prelude::*;
use weir_crds::policy::NodeLostPolicy;
use weir_supervisor::observed::{Confirmation, Phase, StartObstacle};
use weir_supervisor::{Action, Slot};

fn streaming(tasks: &[&str]) -> Stage {
    let mut stage = Stage::new(continuous(tasks));
    stage.stream();
    stage
}

fn vanish(stage: &mut Stage, task: &str) -> Vec<Action> {
    stage.there(task).phase = Phase::Vanished;
    stage.settle()
}

/// An edit that moves all checkpoints, or moves them back.
fn edit(stage: &mut Stage, store: &str) {
    stage.desired.fences = fences(&stage.desired, Some(store));
    stage.desired.generation += 1;
    stage.desired.run_hash = format!("r{}", stage.desired.generation);
}

#[test]
fn an_edit_before_the_successor_has_claimed_waits_for_proof() {
    let mut stage = streaming(&["a"]);
    assert_eq!(starts(&vanish(&mut stage, "a")), [("a", 2)], "behind the same fence at once");
    edit(&mut stage, "f2");
    stage.settle();
    assert!(starts(&stage.stopped("a")).is_empty(), "the successor never claimed");
    assert!(starts(&stage.wait(MINUTE * 60)).is_empty());
    assert_eq!(stage.condition("PreviousRunTerminated").reason, "PodVanished");
    let message = &stage.condition("Stalled").message;
    assert!(message.contains("epoch 1") && message.contains("undo that edit") && message.contains("confirm-terminated: 1"), "{message}");
    let waiting = stage.memory.clone();
    edit(&mut stage, "f1");
    assert_eq!(starts(&stage.settle()), [("a", 3)], "its fence is back");
    stage.ready("a");
    assert!(stage.memory.left_behind.is_empty(), "and claimed");

    for ended in [false, true] {
        let mut stage = Stage { memory: waiting.clone(), ..streaming(&["a"]) };
        edit(&mut stage, "f2");
        stage.observed.slots.clear();
        if !ended {
            stage.show_what_vanished();
            stage.observed.confirmed_terminated = Some(Confirmation::read("1"));
        }
        assert_eq!(starts(&stage.settle()), [("a", 3)], "proof and a human's word are as good");
        assert!(stage.memory.left_behind.is_empty());
    }
}

#[test]
fn a_claim_behind_the_fence_ends_the_wait() {
    let mut stage = streaming(&["a"]);
    vanish(&mut stage, "a");
    assert_eq!(stage.memory.left_behind["a"].epoch, 1);
    stage.ready("a");
    assert!(stage.memory.left_behind.is_empty());
    edit(&mut stage, "f2");
    stage.settle();
    assert_eq!(starts(&stage.stopped("a")), [("a", 3)]);

    // One that was done before anybody saw it ready had claimed as well.
    let mut stage = streaming(&["a"]);
    vanish(&mut stage, "a");
    stage.complete("a");
    assert!(stage.memory.left_behind.is_empty());
}

#[test]
fn a_suspension_a_lost_order_and_a_stricter_policy_forget_nobody() {
    let mut stage = streaming(&["a"]);
    vanish(&mut stage, "a");
    stage.desired.rules.suspend = true;
    stage.settle();
    stage.stopped("a");
    assert!(stage.is_true("Suspended"), "what is harmless holds up no suspension");
    let shown = stage.condition("PreviousRunTerminated");
    assert_eq!((shown.reason.as_str(), shown.message.as_str()), ("LeftBehind", "task a, epoch 1"), "nor is it called over");
    edit(&mut stage, "f2");
    stage.desired.rules.suspend = false;
    assert!(starts(&stage.wait(MINUTE)).is_empty());

    // The order to start was written down, and nobody knows whether it was carried out.
    let mut stage = streaming(&["a"]);
    stage.there("a").phase = Phase::Vanished;
    stage.step();
    stage.observed.slots.insert("a".to_owned(), Slot::Lost { epoch: 2 });
    edit(&mut stage, "f2");
    for _ in 0..4 {
        assert!(starts(&stage.step().actions).is_empty());
    }

    let mut stage = streaming(&["a"]);
    vanish(&mut stage, "a");
    stage.desired.rules.node_lost_policy = NodeLostPolicy::Wait;
    assert!(starts(&stage.exit("a", 10)).is_empty() && starts(&stage.wait(MINUTE * 5)).is_empty());
    assert_eq!(stage.condition("PreviousRunTerminated").reason, "PodVanished");
}

#[test]
fn the_end_of_the_newest_proves_nothing_of_those_before_it() {
    let mut stage = streaming(&["a"]);
    vanish(&mut stage, "a");
    vanish(&mut stage, "a");
    let left = stage.memory.left_behind["a"].clone();
    assert_eq!((left.epoch, left.with_earlier, left.place.clone()), (2, true, None));
    edit(&mut stage, "f2");
    stage.settle();
    stage.stopped("a");
    stage.wait(MINUTE);
    let message = &stage.condition("Stalled").message;
    assert!(message.contains("every process of task a up to epoch 2 is known to be gone"), "{message}");
    assert_eq!(stage.condition("PreviousRunTerminated").message, "task a, epoch 2 and earlier ones");

    // A memory that was lost leaves one word for what all tasks may have forgotten.
    let mut stage = streaming(&["a", "b"]);
    stage.memory.left_behind =
        ["a", "b"].map(|task| (task.to_owned(), weir_supervisor::memory::LeftBehind { epoch: 7, ..left.clone() })).into();
    stage.observed.slots.clear();
    edit(&mut stage, "f2");
    stage.show_what_vanished();
    stage.settle();
    stage.wait(MINUTE);
    assert!(
        stage.condition("Stalled").message.contains("every process of the tasks a, b up to epoch 7"),
        "{:?}",
        stage.condition("Stalled")
    );
}

#[test]
fn one_that_was_stopped_before_it_was_let_go_is_left_behind_by_nobody() {
    let mut stage = streaming(&["a"]);
    stage.there("a").phase = Phase::Vanished;
    let plan = stage.step();
    plan.actions.iter().for_each(|action| stage.carry_out(action));
    stage.there("a").phase = Phase::Starting(StartObstacle::Gated);
    stage.desired.rules.suspend = true;
    let plan = stage.step();
    assert!(matches!(plan.actions[..], [Action::StopTask { epoch: 2, .. }]), "{:?}", plan.actions);
    assert!(!stage.task("a").seen, "no pod of this epoch may be let go");
    stage.observed.slots.clear();
    stage.show_what_vanished();
    stage.settle();
    let left = &stage.memory.left_behind["a"];
    assert!(stage.is_true("Suspended") && (left.epoch, left.with_earlier) == (1, false), "{left:?}");
}

#[test]
fn a_word_for_one_that_was_left_behind_counts_beside_its_successor() {
    let mut stage = streaming(&["a"]);
    vanish(&mut stage, "a");
    assert_eq!(stage.condition("PreviousRunTerminated").reason, "LeftBehind");
    stage.observed.confirmed_terminated = Some(Confirmation::read("1"));
    stage.settle();
    assert!(stage.memory.left_behind.is_empty() && stage.is_true("PreviousRunTerminated"));
    assert!(!stage.events().contains(&"ConfirmationIgnored"));
}

/// What happens next; the first number names the task.
#[derive(Debug, Clone)]
enum Op {
    Ready(usize),
    Vanish(usize),
    Fail(usize),
    Prove(usize),
    Confirm(usize),
    Edit(u8),
    Suspend,
    Policy,
    Advance(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0..2_usize).prop_map(Op::Ready),
        5 => (0..2_usize).prop_map(Op::Vanish),
        3 => (0..2_usize).prop_map(Op::Fail),
        1 => (0..2_usize).prop_map(Op::Prove),
        1 => (0..2_usize).prop_map(Op::Confirm),
        3 => (0..3_u8).prop_map(Op::Edit),
        1 => Just(Op::Suspend),
        1 => Just(Op::Policy),
        4 => (1..400_u64).prop_map(Op::Advance),
    ]
}

/// A process as it really is.
struct Process {
    task: String,
    epoch: u64,
    store: String,
    is_lost: bool,
}

struct Truth {
    stage: Stage,
    alive: Vec<Process>,
}

impl Truth {
    fn settle(&mut self) {
        for _ in 0..20 {
            let plan = self.stage.step();
            for action in &plan.actions {
                if let Action::StartTask { task, epoch, .. } = action {
                    let store = self.stage.desired.fences[task].clone();
                    let beside = self.alive.iter().find(|other| other.is_lost && (other.store != store));
                    assert!(beside.is_none(), "epoch {epoch} began in {store} beside a lost {:?}", beside.map(|other| other.epoch));
                    self.alive.push(Process { task: task.clone(), epoch: *epoch, store, is_lost: false });
                }
                self.stage.carry_out(action);
            }
            self.obey_stops();
            if plan.actions.is_empty() {
                return;
            }
        }
        panic!("a busy loop");
    }

    /// Whoever is told to stop does so.
    fn obey_stops(&mut self) {
        for task in ["a", "b"] {
            let told =
                self.stage.observed.slot(task).live().is_some_and(|own| own.stop_order != weir_supervisor::observed::StopOrder::None);
            if told && !self.is_vanished(task) {
                self.end(task);
            }
        }
    }

    fn is_vanished(&self, task: &str) -> bool {
        self.stage.observed.slot(task).live().is_none_or(|own| own.phase == Phase::Vanished)
    }

    fn end(&mut self, task: &str) {
        let (at, epoch) = (self.stage.now, self.stage.there(task).epoch);
        self.alive.retain(|process| process.epoch != epoch);
        let exit = weir_supervisor::observed::Exit {
            code: Some(10),
            report: None,
            cause: weir_supervisor::observed::ExitCause::Own,
            log_tail: String::new(),
            at,
        };
        self.stage.there(task).phase = Phase::Exited(exit);
    }

    fn apply(&mut self, op: &Op) {
        let name = |index: &usize| ["a", "b"][*index];
        match op {
            Op::Ready(task) if !self.is_vanished(name(task)) => {
                let (task, now) = (name(task), self.stage.now);
                let own = self.stage.there(task);
                (own.phase, own.reported_at) = (Phase::Ready, Some(now));
                let (epoch, store) = (own.epoch, self.alive.iter().find(|process| process.epoch == own.epoch).map(|own| own.store.clone()));
                // It has claimed, so that those behind it can do nothing more.
                self.alive.retain(|other| other.task != task || other.epoch >= epoch || Some(&other.store) != store.as_ref());
            }
            Op::Vanish(task) if !self.is_vanished(name(task)) => {
                let own = self.stage.there(name(task));
                own.phase = Phase::Vanished;
                let epoch = own.epoch;
                self.alive.iter_mut().filter(|process| process.epoch == epoch).for_each(|process| process.is_lost = true);
            }
            Op::Fail(task) if !self.is_vanished(name(task)) => self.end(name(task)),
            // All that a task has lost is seen to be over.
            Op::Prove(task) => {
                self.alive.retain(|process| !process.is_lost || process.task != name(task));
                if self.is_vanished(name(task)) && self.stage.observed.slot(name(task)).live().is_some() {
                    self.stage.observed.slots.insert(name(task).to_owned(), Slot::Absent);
                }
            }
            Op::Confirm(task) => {
                let vanished = self.stage.observed.slot(name(task)).live().filter(|own| own.phase == Phase::Vanished).map(|own| own.epoch);
                let behind = self.stage.memory.left_behind.get(name(task)).map(|left| left.epoch);
                let Some(epoch) = vanished.or(behind) else { return };
                let left = self.stage.memory.left_behind.get(name(task)).filter(|left| left.epoch == epoch);
                let with_earlier = left.is_some_and(|left| left.with_earlier);
                self.alive.retain(|other| other.task != name(task) || other.epoch != epoch && !(with_earlier && other.epoch < epoch));
                self.stage.observed.confirmed_terminated = Some(Confirmation::read(&epoch.to_string()));
            }
            Op::Edit(store) => edit(&mut self.stage, &format!("f{store}")),
            Op::Suspend => self.stage.desired.rules.suspend ^= true,
            Op::Policy => {
                let policy = &mut self.stage.desired.rules.node_lost_policy;
                let waits = *policy == NodeLostPolicy::Wait;
                *policy = if waits { NodeLostPolicy::ReplaceWhenFenced } else { NodeLostPolicy::Wait };
            }
            Op::Advance(seconds) => self.stage.now = weir_supervisor::time::after(self.stage.now, common::seconds(*seconds)),
            Op::Ready(_) | Op::Vanish(_) | Op::Fail(_) => {}
        }
        self.settle();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_begins_in_one_store_while_a_lost_process_may_work_in_another(ops in proptest::collection::vec(op(), 1..60)) {
        let mut truth = Truth { stage: Stage::new(continuous(&["a", "b"])), alive: Vec::new() };
        truth.settle();
        for op in &ops {
            truth.apply(op);
        }
    }
}
