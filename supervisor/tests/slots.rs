//! Slots that are taken by something foreign, places that are remembered, and
//! shutdowns that do not come to an end.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{MINUTE, SECOND, Stage, continuous, manual, seconds, starts};
use weir_supervisor::memory::TaskState;
use weir_supervisor::observed::{Phase, Shutdown, StopOrder};
use weir_supervisor::{Action, Slot};

fn occupy(stage: &mut Stage, task: &str) {
    let by = "pod orders--a of ReplicaSet web".to_owned();
    stage.observed.slots.insert(task.to_owned(), Slot::Occupied { by });
}

fn warnings(stage: &Stage, reason: &str) -> usize {
    stage.events().into_iter().filter(|event| *event == reason).count()
}

#[test]
fn a_slot_that_is_taken_stalls_the_job_until_it_is_free() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    occupy(&mut stage, "a");
    assert_eq!(starts(&stage.settle()), [("b", 1)], "nothing is started on top of what is not ours");
    stage.ready("b");
    for kind in ["Ready", "Stalled"] {
        assert_eq!(stage.condition(kind).reason, "OwnershipConflict");
        assert!(stage.condition(kind).message.contains("pod orders--a of ReplicaSet web"));
    }
    assert!(stage.is_true("Stalled") && !stage.is_true("Ready") && !stage.is_true("Reconciling"));
    assert!(stage.wake_in().is_some_and(|wait| wait <= Duration::from_secs(30)), "nobody watches what is foreign");
    stage.wait(MINUTE * 20);
    assert_eq!(warnings(&stage, "OwnershipConflict"), 1, "one warning per flip");
    assert_eq!(stage.state("a"), TaskState::Pending);
    assert_eq!(stage.task("a").failures + stage.task("a").disruptions.count, 0, "nobody's failure");

    stage.observed.slots.remove("a");
    assert_eq!(starts(&stage.settle()), [("a", 2)]);
    stage.ready("a");
    assert_eq!(stage.condition("Ready").reason, "Streaming");
    assert!(!stage.is_true("Stalled"));
}

#[test]
fn an_order_that_met_something_foreign_is_given_anew_with_another_epoch() {
    let mut stage = Stage::new(continuous(&["a"]));
    assert!(matches!(stage.step().actions[..], [Action::StartTask { epoch: 1, .. }]));
    occupy(&mut stage, "a");
    assert!(stage.settle().is_empty());
    assert_eq!(stage.state("a"), TaskState::Pending);
    stage.observed.slots.remove("a");
    assert_eq!(starts(&stage.settle()), [("a", 2)]);
}

#[test]
fn a_foreign_slot_bars_neither_suspension_nor_the_end() {
    let mut stage = Stage::new(continuous(&["a"]));
    occupy(&mut stage, "a");
    stage.settle();
    stage.desired.rules.suspend = true;
    stage.settle();
    assert_eq!(stage.condition("Ready").reason, "Suspended");
    stage.desired.rules.suspend = false;
    stage.settle();
    assert_eq!(stage.condition("Stalled").reason, "OwnershipConflict");
    stage.observed.shutdown = Shutdown::Graceful;
    stage.settle();
    assert!(stage.plan.as_ref().unwrap().finished.is_some(), "what is foreign is not waited for");
}

#[test]
fn a_foreign_slot_is_told_before_the_run_that_needs_it() {
    let mut stage = Stage::new(manual(&["a"]));
    stage.settle();
    assert_eq!(stage.condition("Ready").reason, "WaitingForTrigger");
    occupy(&mut stage, "a");
    stage.settle();
    assert_eq!(stage.condition("Stalled").reason, "OwnershipConflict");
    assert!(stage.wake_in().is_some());
    stage.observed.slots.remove("a");
    stage.settle();
    assert_eq!(stage.condition("Ready").reason, "WaitingForTrigger");
    occupy(&mut stage, "z");
    stage.settle();
    assert_eq!(stage.condition("Ready").reason, "WaitingForTrigger", "no task has this slot");
}

#[test]
fn what_cannot_be_classified_is_told_and_left_alone_and_no_run_begins_beside_it() {
    let forged = || Slot::Unclassified { what: "pod orders--z, which has no epoch".to_owned() };
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.observed.slots.insert("z".to_owned(), forged());
    assert!(stage.settle().is_empty(), "not even tasks of other names are started");
    for kind in ["Ready", "Stalled"] {
        assert_eq!(stage.condition(kind).reason, "OwnershipConflict");
        let message = &stage.condition(kind).message;
        assert!(message.contains("pod orders--z, which has no epoch") && message.contains("delete it"), "{message}");
    }
    assert!(stage.condition("PreviousRunTerminated").message.contains("orders--z"));
    assert_eq!(stage.memory.run_number, 0);
    for _ in 0..20 {
        assert!(stage.wait(MINUTE).is_empty(), "no order ever goes to it");
        assert!(stage.wake_in().is_some_and(|wait| wait <= Duration::from_secs(30)));
    }
    assert_eq!(warnings(&stage, "OwnershipConflict"), 1);
    stage.observed.slots.remove("z");
    assert_eq!(starts(&stage.settle()), [("a", 1), ("b", 2)]);

    // Beside a run that has begun on proof it disturbs nothing but the task whose place it takes.
    stage.ready("a");
    stage.ready("b");
    stage.observed.slots.insert("z".to_owned(), forged());
    assert!(stage.settle().is_empty());
    assert_eq!(stage.condition("Ready").reason, "Streaming");
    assert!(!stage.is_true("PreviousRunTerminated"));
    stage.exit("b", 10);
    stage.observed.slots.insert("b".to_owned(), forged());
    stage.wait(MINUTE);
    assert_eq!((stage.state("b"), stage.condition("Stalled").reason.as_str()), (TaskState::Pending, "OwnershipConflict"));
    stage.desired.rules.restart_nonce += 1;
    stage.settle();
    stage.stopped("a");
    assert!(stage.wait(MINUTE * 20).is_empty());
    assert_eq!((stage.memory.run.is_none(), stage.memory.run_number), (true, 1), "the next run waits");

    // Neither does a deletion take it for gone; its owner may go on without waiting.
    stage.observed.shutdown = Shutdown::Graceful;
    stage.settle();
    stage.wait(MINUTE * 2);
    assert!(stage.plan.as_ref().unwrap().finished.is_none());
    let blocked = stage.condition("Stalled");
    assert_eq!(blocked.reason, "FinalizerBlocked");
    assert!(blocked.message.contains("orders--z") && blocked.message.contains("weir.dev/skip-graceful-stop"), "{}", blocked.message);
}

#[test]
fn a_place_is_remembered_while_the_task_is_live() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.settle();
    assert_eq!(stage.task("a").place, None);
    stage.there("a").place = Some("node-1".to_owned());
    stage.ready("a");
    assert_eq!(stage.task("a").place.as_deref(), Some("node-1"));
    assert!(stage.memory.to_json().contains(r#""place":"node-1""#));
    stage.there("a").place = None;
    stage.settle();
    assert_eq!(stage.task("a").place.as_deref(), Some("node-1"), "a look that cannot tell forgets nothing");
    stage.exit("a", 10);
    assert_eq!(stage.task("a").place, None);
    assert!(!stage.memory.to_json().contains("place"));
}

#[test]
fn a_shutdown_that_does_not_end_says_how_to_get_out() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.observed.shutdown = Shutdown::Graceful;
    stage.settle();
    stage.there("a").phase = Phase::Terminating;
    stage.wait(seconds(60));
    assert_eq!(stage.there("a").stop_order, StopOrder::Kill);
    assert_eq!(stage.condition("Ready").reason, "Stopping");
    stage.wait(seconds(29));
    assert!(!stage.is_true("Stalled"));
    assert_eq!(stage.wake_in(), Some(SECOND));
    stage.wait(SECOND);
    assert_eq!(stage.condition("Ready").reason, "Stopping");
    assert_eq!(stage.condition("Stalled").reason, "FinalizerBlocked");
    assert!(stage.is_true("Stalled") && !stage.is_true("Reconciling"));
    assert!(stage.condition("Stalled").message.contains("weir.dev/skip-graceful-stop"));
    stage.wait(MINUTE * 5);
    assert_eq!(warnings(&stage, "FinalizerBlocked"), 1);
    stage.exit("a", 137);
    assert!(stage.plan.as_ref().unwrap().finished.is_some());
    assert!(!stage.is_true("Stalled"));
}

#[test]
fn a_shutdown_with_a_wiped_memory_is_timed_as_well() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.memory = weir_supervisor::Memory::default();
    stage.observed.shutdown = Shutdown::Graceful;
    stage.settle();
    stage.wait(MINUTE * 2);
    assert_eq!(stage.condition("Stalled").reason, "FinalizerBlocked");
    stage.observed.shutdown = Shutdown::None;
    stage.settle();
    assert_eq!(stage.memory.shutdown_since, None);
}

#[test]
fn a_short_silence_of_a_node_is_waited_out_before_anybody_is_called() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.node_lost_policy = weir_crds::policy::NodeLostPolicy::Wait;
    stage.stream();
    let since = stage.now;
    stage.there("a").phase = Phase::Unreachable { since };
    stage.settle();
    assert_eq!(stage.condition("Ready").reason, "PreviousRunUnconfirmed");
    assert!(stage.is_true("Reconciling") && !stage.is_true("Stalled"));
    stage.wait(seconds(30));
    assert!(stage.is_true("Stalled") && !stage.is_true("Reconciling"));
    stage.there("a").phase = Phase::Ready;
    stage.settle();
    assert_eq!(stage.condition("Ready").reason, "Streaming");
}

#[test]
fn a_silence_whose_beginning_nobody_knows_stalls_but_is_never_replaced() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    for _ in 0..20 {
        let since = stage.now;
        stage.there("a").phase = Phase::Unreachable { since };
        assert!(stage.settle().is_empty());
        stage.now = weir_supervisor::time::after(stage.now, seconds(10));
    }
    assert_eq!(stage.condition("Stalled").reason, "PreviousRunUnconfirmed");
}
