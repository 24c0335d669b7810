//! Progress, rates and backlogs: the health conditions and the end of a hanging attempt.
#![allow(clippy::unwrap_used)]

mod common;

use common::{MINUTE, SECOND, Stage, continuous, seconds, stops};
use weir_crds::policy::{BacklogMetric, BacklogRule};
use weir_supervisor::conditions::ConditionStatus;
use weir_supervisor::observed::{Backlog, BatchFacts};

fn batch(id: u64) -> BatchFacts {
    BatchFacts {
        id,
        duration: seconds(3),
        trigger_interval: seconds(2),
        previous_had_data: true,
        input_rows_per_second: 100.0,
        processed_rows_per_second: 50.0,
        costliest_stage: "addBatch".to_owned(),
    }
}

#[test]
fn input_without_a_commit_is_stale_and_then_a_failure() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.facts("a", |query| query.input_available = true);
    stage.settle();
    for _ in 0..4 {
        stage.wait(MINUTE);
        stage.facts("a", |_| ());
    }
    stage.wait(seconds(59));
    stage.facts("a", |_| ());
    stage.settle();
    assert!(!stage.is_true("ProgressStale"));
    assert_eq!(stage.wake_in(), Some(SECOND));
    stage.wait(SECOND);
    assert_eq!(stage.condition("ProgressStale").reason, "NoBatchCommitted");
    assert!(stage.is_true("Ready"), "Ready flips only at failAfter");
    assert_eq!(stops(&stage.wait(MINUTE * 10)), ["a"]);
    stage.stopped("a");
    let task = stage.task("a");
    assert_eq!((task.failures, task.last_exit.as_ref().unwrap().reason.as_str()), (1, "NoProgress"));
}

#[test]
fn no_input_is_never_a_fault_and_a_commit_starts_the_time_anew() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.facts("a", |query| query.input_available = false);
    stage.settle();
    stage.wait(MINUTE * 60);
    stage.facts("a", |_| ());
    stage.settle();
    assert_eq!(stage.condition("ProgressStale").reason, "IdleNoInput");
    stage.facts("a", |query| query.input_available = true);
    stage.settle();
    stage.wait(MINUTE * 4);
    let now = stage.now;
    stage.facts("a", |query| query.last_commit = Some(now));
    stage.wait(MINUTE * 4);
    stage.facts("a", |_| ());
    stage.settle();
    assert_eq!(stage.condition("ProgressStale").reason, "Progressing");
}

#[test]
fn a_task_that_does_not_answer_is_stale() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.wait(MINUTE * 5);
    assert_eq!(stage.condition("ProgressStale").reason, "EndpointUnreachable");
    assert!(stage.events().contains(&"ProgressStale"));
}

#[test]
fn falling_behind_needs_batches_in_a_row_and_counts_each_once() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    assert_eq!(stage.condition("FallingBehind").status, ConditionStatus::Unknown);
    stage.facts("a", |query| query.recent_batches = (0..4).map(batch).collect());
    stage.settle();
    stage.settle();
    assert_eq!(stage.condition("FallingBehind").status, ConditionStatus::False);
    stage.facts("a", |query| query.recent_batches = (2..5).map(batch).collect());
    stage.settle();
    assert_eq!(stage.condition("FallingBehind").status, ConditionStatus::True);
    assert!(stage.condition("FallingBehind").message.contains("addBatch"));
    stage.facts("a", |query| query.recent_batches = vec![BatchFacts { processed_rows_per_second: 100.0, ..batch(5) }]);
    stage.settle();
    assert_eq!(stage.condition("FallingBehind").status, ConditionStatus::False);
}

#[test]
fn short_batches_and_batches_after_an_empty_trigger_break_the_row() {
    let breakers = [
        BatchFacts { duration: seconds(1), ..batch(4) },
        BatchFacts { previous_had_data: false, ..batch(4) },
        BatchFacts { trigger_interval: std::time::Duration::ZERO, duration: std::time::Duration::from_millis(900), ..batch(4) },
        BatchFacts { input_rows_per_second: 0.0, processed_rows_per_second: 0.0, ..batch(4) },
    ];
    for breaker in breakers {
        let mut stage = Stage::new(continuous(&["a"]));
        stage.stream();
        stage.facts("a", |query| query.recent_batches = (0..4).map(batch).chain([breaker.clone()]).collect());
        stage.settle();
        assert!(!stage.is_true("FallingBehind"), "{breaker:?}");
    }
}

#[test]
fn a_backlog_is_judged_by_its_ten_minute_average() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.health.rules = vec![BacklogRule { metric: BacklogMetric::Seconds, greater_than: 300 }];
    stage.stream();
    let mut values = vec![1000_u64];
    values.extend([260; 9]);
    for (minute, value) in values.into_iter().enumerate() {
        stage.facts("a", |query| query.backlog = Backlog { seconds: Some(value), ..Backlog::default() });
        stage.settle();
        let full = minute == 9;
        assert_eq!(stage.is_true("BacklogExceeded"), full, "334 on average at minute {minute}");
        stage.wait(MINUTE);
    }
    assert!(!stage.is_true("BacklogExceeded"), "260 on average once the peak has left the window");
    let status = weir_supervisor::status::status(&stage.desired, &stage.observed, &stage.memory);
    assert_eq!(status.backlog.unwrap().seconds, Some(260.0));
}
