//! Thousands of restarts of one job: what is remembered, shown and told does not grow with them.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{Stage, continuous, seconds};
use weir_supervisor::ExitClass;
use weir_supervisor::memory::HISTORY_LENGTH;
use weir_supervisor::status::status;

/// Ten thousand with `WEIR_TEST_LENGTH=long`.
fn restarts() -> usize {
    if std::env::var_os("WEIR_TEST_LENGTH").is_some_and(|length| length == "long") { 10_000 } else { 500 }
}

#[test]
fn m13_thousands_of_restarts_leave_a_bounded_memory_status_and_one_event_per_flip() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 0;
    let mut events: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut largest, mut stalls) = ((0, 0), 0);
    let mut was_stalled = false;
    let (restarts, long) = (restarts(), format!("x{}", "é".repeat(600_000)));
    for number in 1..=restarts {
        stage.settle();
        stage.ready("a");
        stage.report("a", ExitClass::Retryable, |report| {
            report.reason = format!("Failure{number}");
            // A megabyte once in a while; the rest is about counts.
            report.message = if number % 250 == 0 { long.clone() } else { "short".to_owned() };
        });
        assert_eq!(stage.memory.consecutive_failures as usize, number);
        for event in stage.plan.take().unwrap().events {
            *events.entry(event.reason.as_str()).or_default() += 1;
        }
        let is_stalled = stage.is_true("Stalled");
        stalls += usize::from(is_stalled && !was_stalled);
        was_stalled = is_stalled;
        let shown = serde_json::to_string(&status(&stage.desired, &stage.observed, &stage.memory)).unwrap();
        largest = (largest.0.max(shown.len()), largest.1.max(stage.memory.to_json().len()));
        stage.now = stage.memory.next_start.unwrap().at;
    }
    assert_eq!((stage.memory.run_number, stage.memory.epoch), (restarts as u64, restarts as u64));
    assert_eq!((stage.memory.history.len(), stage.memory.restarts.application), (HISTORY_LENGTH, restarts as u64));
    assert!(largest.0 < 16 * 1024 && largest.1 < 16 * 1024, "{largest:?} bytes of status and memory");
    let last = stage.memory.last_run.as_ref().unwrap();
    assert!(last.message.starts_with('x') && last.message.chars().skip(1).all(|letter| matches!(letter, 'é' | '…' | '.' | ' ')));
    // Four kinds per run, and the warning of the one flip.
    let of_runs = ["RunStarted", "RunReady", "TaskFailed", "RunFailed"].map(|reason| events[reason]);
    assert_eq!(of_runs, [restarts; 4]);
    assert_eq!((events["CrashLooping"], stalls), (1, 1));
    assert!(events.values().sum::<usize>() <= 4 * restarts + 2, "{events:?}");
    stage.wait(seconds(1));
}
