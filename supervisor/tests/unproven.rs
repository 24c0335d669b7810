//! Instances of which nobody knows whether they are over, the words of humans about them, and numbers that are no epochs.
#![allow(clippy::unwrap_used)]

mod common;

use common::{MINUTE, Stage, continuous, fences, report, seconds, starts};
use weir_crds::policy::NodeLostPolicy;
use weir_supervisor::memory::{HIGHEST_CLAIM, HIGHEST_EPOCH, TaskState};
use weir_supervisor::observed::{Confirmation, Exit, ExitCause, Phase, Shutdown, StopOrder, Unreadable};
use weir_supervisor::{Acceptance, Action, ExitClass, Slot};

fn waiting(tasks: &[&str]) -> Stage {
    let mut stage = Stage::new(continuous(tasks));
    stage.desired.rules.node_lost_policy = NodeLostPolicy::Wait;
    stage.stream();
    stage
}

fn vanish(stage: &mut Stage, task: &str) -> Vec<Action> {
    stage.there(task).phase = Phase::Vanished;
    stage.settle()
}

fn say(stage: &mut Stage, text: &str) -> Vec<Action> {
    stage.observed.confirmed_terminated = Some(Confirmation::read(text));
    stage.settle()
}

/// Notes of the events of one reason.
fn notes(stage: &Stage, reason: &str) -> Vec<String> {
    stage
        .plan
        .iter()
        .flat_map(|plan| &plan.events)
        .filter(|event| event.reason.as_str() == reason)
        .map(|event| event.note.clone())
        .collect()
}

#[test]
fn what_vanished_unseen_is_followed_only_behind_a_fence_or_by_a_humans_word() {
    let mut stage = waiting(&["a"]);
    assert!(vanish(&mut stage, "a").is_empty());
    assert_eq!(stage.condition("PreviousRunTerminated").reason, "PodVanished");
    assert!(stage.is_true("Reconciling") && !stage.is_true("Stalled"), "its last state may still be on its way");
    assert!(stage.wait(MINUTE * 60).is_empty());
    assert_eq!(stage.condition("Stalled").reason, "PreviousRunUnconfirmed");
    assert!(stage.condition("Stalled").message.contains("weir.dev/confirm-terminated: 1"));
    assert_eq!(starts(&say(&mut stage, " 1 ")), [("a", 2)]);
    assert_eq!(notes(&stage, "RunForceReplaced").len(), 1);
    assert!(notes(&stage, "RunForceReplaced")[0].contains("epoch 1 of task a"));

    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    assert_eq!(starts(&vanish(&mut stage, "a")), [("a", 2)], "behind a fence it goes on at once");
    assert_eq!(stage.memory.restarts.disruption, 1);
}

#[test]
fn an_edit_a_suspension_and_a_deletion_wait_for_what_vanished() {
    let mut stage = waiting(&["a"]);
    stage.desired.rules.restart_nonce = 1;
    stage.settle();
    let at = stage.now;
    assert_eq!(stage.there("a").stop_order, StopOrder::Graceful { at });
    assert!(vanish(&mut stage, "a").is_empty(), "whoever removed it may have done so by force");
    stage.desired.rules.suspend = true;
    stage.settle();
    assert!(!stage.is_true("Suspended"));
    stage.desired.rules.suspend = false;
    stage.observed.shutdown = Shutdown::Graceful;
    // A deletion is a generation of its own, which nobody checks any more.
    stage.desired.acceptance = Acceptance::Checking { generation: 2, obstacle: None };
    stage.settle();
    for kind in ["Ready", "Reconciling"] {
        let message = &stage.condition(kind).message;
        assert!(message.contains("vanished") && message.contains("weir.dev/confirm-terminated: 1"), "{message}");
    }
    assert!(stage.condition("Accepted").message.contains("not checked"), "{:?}", stage.condition("Accepted"));
    assert!(stage.wait(MINUTE * 5).is_empty());
    assert!(stage.plan.as_ref().unwrap().finished.is_none());
    let blocked = stage.condition("Stalled").clone();
    assert_eq!(blocked.reason, "FinalizerBlocked");
    for word in ["vanished", "weir.dev/confirm-terminated: 1", "weir.dev/skip-graceful-stop"] {
        assert!(blocked.message.contains(word), "{}", blocked.message);
    }
    assert!(!blocked.message.contains("still there"), "{}", blocked.message);
    assert_eq!(notes(&stage, "FinalizerBlocked"), [blocked.message]);
    say(&mut stage, "1");
    assert!(stage.plan.as_ref().unwrap().finished.is_some());
}

#[test]
fn a_late_last_state_settles_what_vanished() {
    let mut stage = waiting(&["a"]);
    vanish(&mut stage, "a");
    let at = stage.now;
    let exit = Exit { code: Some(10), report: Some(report(ExitClass::Retryable, 1)), cause: ExitCause::Own, log_tail: String::new(), at };
    stage.exit_with("a", exit);
    assert_eq!(stage.state("a"), TaskState::WaitingRetry, "a failure, and known as one");
}

#[test]
fn a_wrong_word_is_answered_once_with_the_right_one() {
    let mut stage = waiting(&["a", "b"]);
    vanish(&mut stage, "a");
    let since = stage.now;
    stage.there("b").phase = Phase::Unreachable { since };
    stage.settle();
    for (text, says) in [("7", "epoch 1, 2"), ("one", "no epoch"), ("", "epoch 1, 2"), (&*"9".repeat(99), "no epoch")] {
        let before = notes(&stage, "ConfirmationIgnored").len();
        assert!(say(&mut stage, text).is_empty(), "{text}");
        stage.wait(MINUTE);
        let told = notes(&stage, "ConfirmationIgnored");
        assert_eq!(told.len(), before + 1, "{text}");
        assert!(told[before].contains(says), "{told:?}");
    }
    assert_eq!(starts(&say(&mut stage, "2")), [("b", 3)]);
    assert_eq!(starts(&say(&mut stage, "1")), [("a", 4)]);
    assert_eq!(notes(&stage, "ConfirmationIgnored").len(), 4);
    assert_eq!(notes(&stage, "RunForceReplaced").len(), 2);
    stage.wait(MINUTE);
    assert_eq!(notes(&stage, "ConfirmationIgnored").len(), 4, "a word that was kept is not wrong afterwards");
}

#[test]
fn a_word_about_a_living_instance_does_not_wait_for_it_to_fall_silent() {
    let mut stage = waiting(&["a"]);
    say(&mut stage, "1");
    assert_eq!(notes(&stage, "ConfirmationIgnored").len(), 1);
    assert!(vanish(&mut stage, "a").is_empty());
    assert!(stage.wait(MINUTE * 5).is_empty());
    let message = &stage.condition("Stalled").message;
    assert!(message.contains("remove that annotation") && message.ends_with("weir.dev/confirm-terminated: 1 again"), "{message}");
    stage.observed.confirmed_terminated = None;
    stage.settle();
    assert!(stage.condition("Stalled").message.ends_with("is known to be gone, annotate weir.dev/confirm-terminated: 1"));
    assert_eq!(starts(&say(&mut stage, "1")), [("a", 2)], "said again, now that it is true");
}

#[test]
fn no_edit_moves_the_fence_that_an_instance_was_begun_behind() {
    for (begun, edited) in [(None, Some("f1")), (Some("f1"), Some("f2")), (Some("f1"), None)] {
        let mut stage = Stage::new(continuous(&["a"]));
        stage.desired.fences = fences(&stage.desired, begun);
        stage.stream();
        stage.desired.fences = fences(&stage.desired, edited);
        stage.desired.generation = 2;
        stage.desired.run_hash = "r2".to_owned();
        assert!(starts(&vanish(&mut stage, "a")).is_empty(), "{begun:?} {edited:?}");
        assert!(starts(&stage.wait(MINUTE * 60)).is_empty(), "{begun:?} {edited:?}");
        assert_eq!(stage.condition("PreviousRunTerminated").reason, "PodVanished");
        assert_eq!(starts(&say(&mut stage, "1")), [("a", 2)]);
        assert_eq!(stage.memory.fences.keys().copied().collect::<Vec<_>>(), if edited.is_some() { vec![2] } else { vec![] });
    }
}

#[test]
fn a_task_is_behind_a_fence_of_its_own() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.desired.fences.remove("b");
    stage.stream();
    assert_eq!(starts(&vanish(&mut stage, "a")), [("a", 3)], "what its sibling writes is none of its business");
    assert!(starts(&vanish(&mut stage, "b")).is_empty());
    assert!(starts(&stage.wait(MINUTE * 60)).is_empty());
    assert!(stage.condition("PreviousRunTerminated").message.contains("task b, epoch 2"), "{:?}", stage.condition("PreviousRunTerminated"));
}

#[test]
fn an_instance_that_nobody_remembers_is_behind_no_fence() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    let since = stage.now;
    stage.there("a").phase = Phase::Unreachable { since };
    stage.memory = weir_supervisor::Memory::default();
    assert!(stage.wait(MINUTE * 60).is_empty());
}

#[test]
fn what_vanishes_while_nobody_calls_it_its_own_is_waited_for_as_well() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.there("a").place = Some("node-1".to_owned());
    stage.memory = weir_supervisor::Memory::default();
    stage.settle();
    stage.there("a").place = None;
    stage.settle();
    let stranger = &stage.memory.strangers["a"];
    assert_eq!((stranger.epoch, stranger.place.as_deref()), (1, Some("node-1")), "a look that cannot tell forgets nothing");
    let here = stage.observed.clone();
    assert!(vanish(&mut stage, "a").is_empty());
    assert!(stage.wait(MINUTE * 60).is_empty());
    assert!(stage.condition("Stalled").message.contains("weir.dev/confirm-terminated: 1"), "{:?}", stage.condition("Stalled"));
    stage.observed.slots.insert("a".to_owned(), Slot::Occupied { by: "somebody".to_owned() });
    stage.step();
    assert!(stage.memory.strangers.contains_key("a"), "who takes its place proves nothing");
    stage.observed = here;
    vanish(&mut stage, "a");
    assert_eq!(starts(&say(&mut stage, "1")), [("a", 2)]);
    assert!(stage.memory.strangers.is_empty());

    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.memory = weir_supervisor::Memory::default();
    stage.settle();
    assert_eq!(starts(&stage.stopped("a")), [("a", 2)], "one that is seen to end is not waited for");
    assert!(stage.memory.strangers.is_empty());
}

#[test]
fn whatever_others_say_there_are_epochs_left() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.observed.highest_epoch = HIGHEST_EPOCH;
    assert_eq!(starts(&stage.settle()), [("a", 1)], "too much to be believed");
    let mut stage = Stage::new(continuous(&["a"]));
    stage.observed.highest_epoch = HIGHEST_CLAIM;
    assert_eq!(starts(&stage.settle()), [("a", HIGHEST_CLAIM + 1)]);
    let text = stage.memory.to_json();
    assert!(weir_supervisor::Memory::from_json(&text).is_ok());
    let driven = text.replace(&format!("\"epoch\":{}", HIGHEST_CLAIM + 1), &format!("\"epoch\":{HIGHEST_EPOCH}"));
    assert!(weir_supervisor::Memory::from_json(&driven).unwrap_err().to_string().contains("999999999999"));
}

#[test]
fn a_stranger_that_is_given_up_is_told_of_once() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    let since = stage.now;
    stage.there("a").phase = Phase::Unreachable { since };
    // It was begun by a run that is over.
    stage.memory = weir_supervisor::Memory { fences: stage.memory.fences.clone(), ..weir_supervisor::Memory::default() };
    stage.now = weir_supervisor::time::after(stage.now, seconds(30));
    for _ in 0..3 {
        let plan = stage.step();
        assert!(matches!(plan.actions[..], [Action::ForceRemoveTask { epoch: 1, .. }]), "{:?}", plan.actions);
    }
    assert_eq!(notes(&stage, "RunForceReplaced").len(), 1);
    assert!(stage.memory.strangers.is_empty(), "what is given up is not waited for once it is gone");
    stage.observed.slots.insert("a".to_owned(), Slot::Absent);
    assert_eq!(starts(&stage.settle()), [("a", 2)]);
    assert!(stage.memory.given_up.is_empty(), "nothing is remembered of what is gone");
}

#[test]
fn a_stranger_whose_place_is_taken_keeps_its_fence() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    let since = stage.now;
    stage.there("a").phase = Phase::Unreachable { since };
    let lost = stage.observed.slots["a"].clone();
    stage.memory = weir_supervisor::Memory { fences: stage.memory.fences.clone(), ..weir_supervisor::Memory::default() };
    stage.settle();
    let fence = stage.memory.fences[&1].clone();
    stage.observed.slots.insert("a".to_owned(), Slot::Unclassified { what: "pod j--a, which has no epoch".to_owned() });
    stage.settle();
    assert_eq!((stage.memory.strangers["a"].epoch, stage.memory.fences.get(&1)), (1, Some(&fence)));
    stage.observed.slots.insert("a".to_owned(), lost);
    stage.now = weir_supervisor::time::after(stage.now, seconds(30));
    let plan = stage.step();
    assert!(matches!(plan.actions[..], [Action::ForceRemoveTask { epoch: 1, .. }]), "{:?}", plan.actions);
}

#[test]
fn what_others_hold_is_named_and_calls_for_them_in_time() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.desired.rules.restart_nonce = 1;
    stage.settle();
    stage.there("a").held_by = vec!["example.com/hold".to_owned()];
    let at = stage.now;
    stage.there("a").phase = Phase::Exited(Exit { code: Some(0), report: None, cause: ExitCause::Own, log_tail: String::new(), at });
    stage.step();
    let plan = stage.step();
    assert!(matches!(plan.actions[..], [Action::ClearTask { epoch: 1, .. }]), "{:?}", plan.actions);
    assert_eq!(stage.condition("Reconciling").reason, "WaitingForTermination");
    for kind in ["Ready", "Reconciling"] {
        assert!(stage.condition(kind).message.contains("example.com/hold"), "{:?}", stage.condition(kind));
    }
    assert!(stage.wake_in().is_some_and(|wait| wait <= seconds(30)));
    stage.now = weir_supervisor::time::after(stage.now, seconds(30));
    stage.step();
    assert_eq!(stage.condition("Stalled").reason, "FinalizerBlocked");
    assert!(stage.condition("Stalled").message.contains("example.com/hold"));
    stage.there("a").held_by.clear();
    stage.settle();
    assert_eq!(stage.there("a").epoch, 2);
    assert!(!stage.is_true("Stalled"));
}

#[test]
fn a_request_that_means_nothing_is_answered_once_per_text() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    for text in ["yes", "yes", "YES"] {
        stage.observed.unreadable = vec![Unreadable::new("weir.dev/paused", text, "write \"true\"")];
        stage.settle();
        stage.wait(MINUTE);
    }
    let told = notes(&stage, "AnnotationIgnored");
    assert_eq!(told.len(), 2);
    assert!(told[0].contains("weir.dev/paused") && told[0].contains("yes") && told[0].contains("true"), "{told:?}");
    stage.observed.unreadable.clear();
    stage.settle();
    assert!(stage.memory.unreadable.is_empty());
}

#[test]
fn an_epoch_that_was_lowered_is_lifted_above_all_that_is_recorded() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.stream();
    stage.exit("b", 10);
    stage.memory.epoch = 0;
    stage.now = weir_supervisor::time::after(stage.now, MINUTE);
    assert_eq!(starts(&stage.settle()), [("b", 3)], "the task of the run knew better");
    stage.desired.rules.suspend = true;
    stage.settle();
    stage.stopped("a");
    stage.stopped("b");
    assert!(stage.memory.run.is_none());
    stage.memory.epoch = 1;
    stage.desired.rules.suspend = false;
    assert_eq!(starts(&stage.settle()), [("a", 4), ("b", 5)], "the record of the last run knew better");
}

#[test]
fn a_number_that_is_no_epoch_lifts_nothing() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.observed.highest_epoch = u64::MAX;
    stage.report("a", ExitClass::Fenced, |report| report.highest_epoch_seen = Some(HIGHEST_EPOCH + 1));
    assert_eq!(stage.there("a").epoch, 2);
}
