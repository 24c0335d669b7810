//! Ticks: begun once, or skipped with an event.
#![allow(clippy::unwrap_used)]

mod common;

use common::{MINUTE, Stage, desired, rules, seconds, starts};
use weir_crds::policy::{JobTrigger, SchedulePolicy};
use weir_supervisor::memory::TaskState;

/// 03:00 in Berlin is 02:00 UTC in winter; the stage begins at midnight UTC.
fn nightly() -> Stage {
    let trigger = JobTrigger::Schedule(SchedulePolicy {
        cron: "0 3 * * *".to_owned(),
        time_zone: "Europe/Berlin".to_owned(),
        starting_deadline: Some(seconds(600)),
    });
    Stage::new(desired(rules(trigger, &["a"])))
}

#[test]
fn a_tick_begins_a_run_and_the_wake_up_is_the_next_tick() {
    let mut stage = nightly();
    assert!(stage.settle().is_empty());
    assert_eq!(stage.condition("Ready").reason, "WaitingForTrigger");
    assert_eq!(stage.wake_in(), Some(MINUTE * 120));
    assert_eq!(starts(&stage.wait(MINUTE * 120)), [("a", 1)]);
    stage.ready("a");
    stage.complete("a");
    assert!(stage.settle().is_empty(), "one tick, one run");
    assert!(starts(&stage.wait(MINUTE)).is_empty());
    assert_eq!(starts(&stage.wait(MINUTE * (24 * 60 - 1))), [("a", 2)]);
}

#[test]
fn tasks_are_retried_but_runs_are_not() {
    let mut stage = nightly();
    stage.settle();
    stage.wait(MINUTE * 120);
    stage.exit("a", 10);
    assert_eq!(stage.state("a"), TaskState::WaitingRetry);
    stage.fail_run("a", 10);
    assert_eq!(stage.memory.next_start, None);
    assert!(stage.wait(MINUTE * 60).is_empty());
    assert_eq!(stage.condition("Ready").reason, "WaitingForTrigger");
}

#[test]
fn late_overlapping_and_suspended_ticks_are_skipped_with_an_event() {
    let mut late = nightly();
    late.settle();
    assert!(late.wait(MINUTE * 131).is_empty());
    assert_eq!(late.events(), ["TickSkipped"]);
    assert_eq!(late.wake_in(), Some(MINUTE * (24 * 60 - 11)));

    let mut overlapping = nightly();
    overlapping.settle();
    overlapping.wait(MINUTE * 120);
    overlapping.ready("a");
    assert!(overlapping.wait(MINUTE * 24 * 60).is_empty());
    assert!(overlapping.events().contains(&"TickSkipped"));
    assert!(overlapping.complete("a").is_empty(), "a skipped tick is not made up for");

    let mut suspended = nightly();
    suspended.desired.rules.suspend = true;
    suspended.settle();
    assert!(suspended.wait(MINUTE * 120).is_empty());
    assert!(suspended.events().contains(&"TickSkipped"));
    suspended.desired.rules.suspend = false;
    assert!(suspended.settle().is_empty());
}

#[test]
fn days_without_a_supervisor_give_one_run_at_most() {
    let mut stage = nightly();
    stage.settle();
    let actions = stage.wait(MINUTE * (5 * 24 * 60 + 125));
    assert_eq!(starts(&actions), [("a", 1)]);
    assert_eq!(stage.events(), ["TickSkipped", "RunStarted"]);
}

#[test]
fn a_changed_expression_has_no_past_ticks() {
    let mut stage = nightly();
    stage.settle();
    stage.now = weir_supervisor::time::after(stage.now, MINUTE * 60);
    let trigger = JobTrigger::Schedule(SchedulePolicy {
        cron: "30 1 * * *".to_owned(),
        time_zone: "Europe/Berlin".to_owned(),
        starting_deadline: None,
    });
    stage.desired = desired(rules(trigger, &["a"]));
    assert!(stage.settle().is_empty());
    assert_eq!(stage.wake_in(), Some(MINUTE * (23 * 60 + 30)));
}
