//! Runs, retries, backoff and exits: one test per rule of the continuous schedule.
#![allow(clippy::unwrap_used)]

mod common;

use common::{MINUTE, Stage, continuous, never, seconds, starts, stops};
use weir_supervisor::exit::{CHECKPOINT_ADOPTED, SCHEMA_CHANGED};
use weir_supervisor::memory::{RunResult, TaskState};
use weir_supervisor::observed::{Blame, Exit, ExitCause, Phase, StartObstacle};
use weir_supervisor::time::after;
use weir_supervisor::{Action, ExitClass, Slot};

#[test]
fn the_first_look_begins_a_run_with_one_epoch_per_task() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    let actions = stage.settle();
    assert_eq!(starts(&actions), [("a", 1), ("b", 2)]);
    assert_eq!(stage.condition("Ready").reason, "RunStarting");
    assert_eq!(stage.condition("Reconciling").reason, "StartingRun");
    stage.ready("a");
    assert_eq!(stage.condition("Ready").reason, "RunStarting");
    stage.ready("b");
    assert_eq!(stage.condition("Ready").reason, "Streaming");
    assert_eq!(stage.events(), ["RunStarted", "RunReady"]);
}

#[test]
fn a_run_that_succeeds_is_followed_no_sooner_than_min_interval_after_its_start() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.wait(seconds(4));
    stage.complete("a");
    assert_eq!(stage.memory.last_run.as_ref().unwrap().result, RunResult::Succeeded);
    assert_eq!(stage.next_run_in(), 6.0);
    assert_eq!((stage.condition("Ready").reason.as_str(), stage.is_true("Ready")), ("BetweenRuns", true));
    assert!(starts(&stage.wait(seconds(5))).is_empty());
    assert_eq!(starts(&stage.wait(seconds(1))), [("a", 2)]);
}

#[test]
fn a_long_run_that_succeeds_is_followed_at_once() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.wait(MINUTE);
    assert_eq!(starts(&stage.complete("a")), [("a", 2)]);
    assert_eq!(stage.memory.run_number, 2);
}

#[test]
fn a_failed_task_is_retried_by_itself_and_its_sibling_is_untouched() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.stream();
    let actions = stage.exit("a", 10);
    assert!(actions.is_empty(), "{actions:?}");
    assert_eq!((stage.state("a"), stage.state("b")), (TaskState::WaitingRetry, TaskState::Running));
    assert_eq!(stage.condition("Degraded").reason, "TaskRetrying");
    assert_eq!((stage.is_true("Ready"), stage.is_true("Reconciling")), (false, true));
    assert_eq!(stage.wake_in(), Some(seconds(10)));
    assert_eq!(starts(&stage.wait(seconds(10))), [("a", 3)]);
    assert_eq!(stage.memory.run_number, 1);
    assert_eq!(stage.memory.consecutive_failures, 0);
}

#[test]
fn task_retries_grow_and_the_failure_after_the_last_ends_the_run() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.settle();
    for (delay, epoch) in [(10, 2), (20, 3), (40, 4)] {
        stage.ready("a");
        stage.exit("a", 137);
        assert_eq!(stage.wake_in(), Some(seconds(delay)));
        assert_eq!(starts(&stage.wait(seconds(delay))), [("a", epoch)]);
    }
    stage.exit("a", 101);
    let last = stage.memory.last_run.clone().unwrap();
    assert_eq!((last.result, last.exit_code, last.reason.as_str()), (RunResult::Failed, Some(101), "Panicked"));
    assert_eq!((stage.memory.consecutive_failures, stage.next_run_in()), (1, 10.0));
    assert_eq!(stage.condition("Ready").reason, "BackingOff");
    assert_eq!(starts(&stage.wait(seconds(10))), [("a", 5)]);
}

#[test]
fn ready_for_stable_after_forgets_task_failures() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.settle();
    for _ in 0..3 {
        stage.ready("a");
        stage.exit("a", 10);
        stage.wait(seconds(40));
    }
    stage.ready("a");
    assert_eq!(stage.task("a").failures, 3);
    stage.wait(seconds(600));
    assert_eq!(stage.task("a").failures, 0);
    stage.exit("a", 10);
    assert_eq!(stage.wake_in(), Some(seconds(10)));
}

#[test]
fn the_run_ends_when_no_unfinished_task_is_running() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.stream();
    stage.exit("a", 10);
    assert!(stage.memory.run.is_some());
    stage.exit("b", 10);
    assert_eq!(stage.memory.last_run.as_ref().unwrap().result, RunResult::Failed);
    assert_eq!(stage.memory.consecutive_failures, 1);
}

#[test]
fn a_starting_or_disrupted_sibling_counts_as_running() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.settle();
    stage.exit("a", 10);
    assert!(stage.memory.run.is_some(), "b is still starting");
    stage.ready("b");
    stage.observed.slots.insert("b".to_owned(), Slot::Absent);
    stage.settle();
    assert_eq!(stage.state("b"), TaskState::Starting, "b was replaced at once");
    assert!(stage.memory.run.is_some());
}

#[test]
fn the_siblings_of_a_hopeless_task_are_stopped_gracefully_then_killed() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.stream();
    let actions = stage.exit("a", 20);
    assert_eq!(stops(&actions), ["b"]);
    assert_eq!(stage.state("b"), TaskState::Stopping);
    stage.wait(seconds(59));
    assert_eq!(stage.wake_in(), Some(seconds(1)));
    let actions = stage.wait(seconds(1));
    assert!(matches!(actions.as_slice(), [weir_supervisor::Action::KillTask { .. }]), "{actions:?}");
    stage.exit("b", 137);
    let last = stage.memory.last_run.clone().unwrap();
    assert_eq!((last.task.as_deref(), last.class), (Some("a"), Some(ExitClass::Config)));
}

#[test]
fn configuration_and_checkpoint_errors_wait_the_maximum_and_are_stalled() {
    for (code, reason) in [(20, "NonRetryableExit"), (21, "CheckpointIncompatible")] {
        let mut stage = Stage::new(continuous(&["a"]));
        stage.draw = 0.5;
        stage.settle();
        stage.exit("a", code);
        assert_eq!(stage.next_run_in(), 330.0);
        assert_eq!(stage.condition("Stalled").reason, reason);
        assert_eq!(stage.condition("BackingOff").reason, "AtMaximumDelay");
        stage.desired.generation = 2;
        stage.desired.task_hashes.insert("a".to_owned(), "h2".to_owned());
        assert_eq!(starts(&stage.settle()), [("a", 2)], "an edit begins at once");
        stage.ready("a");
        assert!(stage.is_true("Ready"));
    }
}

#[test]
fn never_keeps_a_failed_task_failed_until_all_have_ended() {
    let mut stage = Stage::new(never(&["a", "b"]));
    stage.stream();
    stage.exit("a", 10);
    assert_eq!((stage.state("a"), stage.state("b")), (TaskState::Failed, TaskState::Running));
    assert_eq!(stage.condition("Degraded").reason, "TaskFailed");
    assert_eq!((stage.is_true("Ready"), stage.is_true("Stalled"), stage.is_true("Reconciling")), (false, true, false));
    stage.wait(MINUTE);
    stage.complete("b");
    assert_eq!(stage.memory.last_run.as_ref().unwrap().result, RunResult::Failed);
    assert_eq!(stage.next_run_in(), 10.0);
}

#[test]
fn a_schema_change_is_forgiven_once_per_source_version() {
    let change = |version: &'static str| {
        move |report: &mut weir_supervisor::ExitReport| {
            report.reason = SCHEMA_CHANGED.to_owned();
            report.source_version = Some(version.to_owned());
        }
    };
    let mut stage = Stage::new(never(&["a"]));
    stage.stream();
    assert_eq!(starts(&stage.report("a", ExitClass::Retryable, change("7"))), [("a", 2)]);
    stage.ready("a");
    assert_eq!(starts(&stage.report("a", ExitClass::Retryable, change("8"))), [("a", 3)]);
    assert_eq!(stage.task("a").failures, 0);
    stage.ready("a");
    stage.report("a", ExitClass::Retryable, change("8"));
    assert_eq!(stage.memory.last_run.as_ref().unwrap().result, RunResult::Failed, "the same version again counts");
}

#[test]
fn a_fenced_task_jumps_above_the_epoch_seen_and_nothing_is_counted() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    let actions = stage.report("a", ExitClass::Fenced, |report| report.highest_epoch_seen = Some(41));
    assert_eq!(starts(&actions), [("a", 42)]);
    assert_eq!((stage.task("a").failures, stage.memory.consecutive_failures), (0, 0));
    stage.exit("a", 22);
    assert_eq!(stage.wake_in(), Some(seconds(10)), "a fight over the checkpoint is no busy loop");
}

#[test]
fn a_checkpoint_with_another_owner_waits_for_restart_nonce() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.stream();
    let actions = stage.report("a", ExitClass::Incompatible, |report| report.reason = CHECKPOINT_ADOPTED.to_owned());
    assert_eq!(stops(&actions), ["b"]);
    stage.stopped("b");
    assert_eq!(stage.memory.last_run.as_ref().unwrap().result, RunResult::Fenced);
    assert_eq!(stage.condition("Stalled").reason, "Fenced");
    stage.desired.run_now = Some("t".to_owned());
    stage.desired.generation = 2;
    stage.desired.run_hash = "r2".to_owned();
    assert!(stage.wait(MINUTE * 60).is_empty());
    assert!(stage.events().contains(&"RunNowIgnored"));
    stage.desired.rules.restart_nonce = 1;
    assert_eq!(starts(&stage.settle()), [("a", 3), ("b", 4)]);
}

#[test]
fn ends_that_nobody_ordered_and_nobody_explains_are_disruptions() {
    let drain = ExitCause::Disruption { reason: "EvictionByEvictionAPI".to_owned() };
    let cases: [(&str, Option<i32>, Option<ExitClass>, ExitCause); 5] = [
        ("stopped without an order", Some(0), Some(ExitClass::Stopped), ExitCause::Own),
        ("clean code without a report", Some(0), None, ExitCause::Own),
        ("unknown code", None, None, ExitCause::Own),
        ("drained", Some(143), None, drain.clone()),
        ("drained with a report", Some(10), Some(ExitClass::Retryable), drain),
    ];
    for (name, code, class, cause) in cases {
        let mut stage = Stage::new(continuous(&["a"]));
        stage.stream();
        let report = class.map(|class| common::report(class, 1));
        let exit = Exit { code, report, cause, log_tail: String::new(), at: stage.now };
        assert_eq!(starts(&stage.exit_with("a", exit)), [("a", 2)], "{name}");
        assert_eq!((stage.task("a").failures, stage.memory.restarts.disruption), (0, 1), "{name}");
        assert_eq!(stage.memory.run_number, 1, "{name}");
    }
}

#[test]
fn a_report_of_another_epoch_is_not_believed() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.report("a", ExitClass::Completed, |report| report.epoch = 7);
    assert_eq!(stage.memory.restarts.disruption, 1);
    assert!(stage.memory.last_run.is_none());
}

#[test]
fn later_disruptions_wait_by_a_counter_of_their_own() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.settle();
    let vanish = |stage: &mut Stage| {
        stage.observed.slots.insert("a".to_owned(), Slot::Absent);
        stage.settle();
    };
    stage.ready("a");
    vanish(&mut stage);
    for delay in [10, 20, 40] {
        stage.ready("a");
        vanish(&mut stage);
        assert_eq!(stage.state("a"), TaskState::WaitingRetry);
        assert_eq!(stage.wake_in(), Some(seconds(delay)));
        stage.wait(seconds(delay));
    }
    stage.ready("a");
    stage.wait(seconds(600));
    vanish(&mut stage);
    assert_eq!(stage.state("a"), TaskState::Starting, "the first one after a stable time is replaced at once");
}

#[test]
fn refused_starts_wait_from_the_first_on_and_are_not_counted() {
    let mut stage = Stage::new(continuous(&["a"]));
    for delay in [10, 20, 40] {
        let plan = stage.step();
        let [(task, epoch)] = starts(&plan.actions)[..] else { panic!("{:?}", plan.actions) };
        stage
            .observed
            .slots
            .insert(task.to_owned(), Slot::Rejected { epoch, message: "exceeded quota".to_owned(), blame: Blame::Surroundings });
        assert!(stage.step().actions.is_empty());
        assert_eq!(stage.wake_in(), Some(seconds(delay)));
        assert_eq!((stage.condition("Ready").reason.as_str(), stage.is_true("Stalled")), ("TaskRetrying", false));
        assert!(stage.condition("Ready").message.contains("exceeded quota"), "{}", stage.condition("Ready").message);
        stage.now = weir_supervisor::time::after(stage.now, seconds(delay));
    }
    assert_eq!(stage.memory.run_number, 1);
    assert_eq!(stage.task("a").failures, 0);
}

#[test]
fn a_start_that_the_manifest_makes_impossible_stalls_the_job_until_an_edit_or_the_maximum_delay() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    let refuse = |stage: &mut Stage, words: &str| {
        let plan = stage.step();
        let found = starts(&plan.actions).into_iter().find(|(task, _)| *task == "a");
        let Some((_, epoch)) = found else { panic!("{:?}", plan.actions) };
        let rejected = Slot::Rejected { epoch, message: words.to_owned(), blame: Blame::Manifest };
        stage.observed.slots.insert("a".to_owned(), rejected);
        stage.settle();
        epoch
    };
    let epoch = refuse(&mut stage, &format!("spec.containers[0].env[0].name: Invalid value: {}", "x".repeat(5000)));
    for kind in ["Ready", "Stalled"] {
        let shown = stage.condition(kind);
        assert_eq!(shown.reason, "SpecInvalid");
        assert!(shown.message.contains("edit the manifest: spec.containers[0].env[0].name") && shown.message.len() <= 1024);
    }
    assert!(stage.is_true("Stalled") && !stage.is_true("Ready"));
    let count = |stage: &Stage, reason: &str| stage.events().into_iter().filter(|event| *event == reason).count();
    assert_eq!((count(&stage, "SpecInvalid"), count(&stage, "RunDisrupted")), (1, 0));
    assert_eq!((stage.memory.run_number, stage.memory.consecutive_failures, stage.next_run_in()), (1, 1, 300.0), "the maximum delay");
    let totals = stage.memory.restarts;
    assert_eq!((totals.start_up, totals.disruption), (1, 0));
    assert!(stage.wait(seconds(299)).is_empty(), "nothing is tried meanwhile");

    // The surroundings may have changed by then; it stays stalled until it is ready.
    stage.now = weir_supervisor::time::after(stage.now, seconds(1));
    assert!(refuse(&mut stage, "still invalid") > epoch);
    assert!(stage.is_true("Stalled") && stage.condition("Stalled").message.contains("still invalid"));
    assert_eq!(count(&stage, "SpecInvalid"), 1, "one warning per flip");

    stage.desired.generation += 1;
    stage.desired.task_hashes.insert("a".to_owned(), "h2".to_owned());
    stage.settle();
    assert_eq!(stage.memory.run_number, 3, "an edit is tried at once");
    assert!(!stage.is_true("Stalled"));
    stage.ready("a");
    stage.ready("b");
    assert_eq!(stage.condition("Ready").reason, "Streaming");
}

#[test]
fn an_attempt_that_is_not_ready_in_time_is_stopped_and_counted() {
    let image = StartObstacle::ImagePull { message: "not found".to_owned() };
    let config = StartObstacle::ContainerConfig { message: "couldn't find key password in Secret lake/kafka".to_owned() };
    let rows = [
        (StartObstacle::None, "RunStarting", "StartDeadlineExceeded"),
        (image, "ImagePullFailed", "ImagePullFailed"),
        (config, "CreateContainerConfigError", "CreateContainerConfigError"),
    ];
    for (obstacle, early, reason) in rows {
        let mut stage = Stage::new(continuous(&["a"]));
        stage.settle();
        let words = obstacle.reason().map(|(_, words)| words.to_owned()).unwrap_or_default();
        stage.there("a").phase = Phase::Starting(obstacle);
        stage.settle();
        assert_eq!((stage.condition("Ready").reason.as_str(), stage.is_true("Stalled")), (early, false));
        assert!(stage.condition("Ready").message.contains(&words));
        assert!(stage.wait(seconds(299)).is_empty());
        assert_eq!(stage.wake_in(), Some(seconds(1)));
        assert_eq!(stops(&stage.wait(seconds(1))), ["a"]);
        let stalled = stage.condition("Stalled");
        assert_eq!(stalled.reason, reason);
        assert!(stalled.message.contains(&words), "{}", stalled.message);
        stage.stopped("a");
        let exit = stage.task("a").last_exit.clone().unwrap();
        assert_eq!((exit.reason.as_str(), stage.task("a").failures), (reason, 1));
        assert_eq!(stage.memory.restarts.start_up, 1);
    }
}

#[test]
fn an_unschedulable_task_is_stalled_but_kept_and_not_counted() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.settle();
    stage.there("a").phase = Phase::Starting(StartObstacle::Unschedulable { message: "no node fits".to_owned() });
    stage.settle();
    assert_eq!((stage.condition("Ready").reason.as_str(), stage.is_true("Stalled")), ("Unschedulable", false));
    assert!(stage.wait(seconds(300)).is_empty());
    assert_eq!(stage.condition("Stalled").reason, "Unschedulable");
    stage.there("a").phase = Phase::Starting(StartObstacle::None);
    assert!(stage.wait(seconds(200)).is_empty(), "the deadline runs anew once a node fits");
    assert_eq!(stage.task("a").failures, 0);
    stage.ready("a");
    assert!(stage.is_true("Ready"));
}

#[test]
fn a_pod_that_is_not_let_go_is_nobodys_failure() {
    for refused in [true, false] {
        let mut stage = Stage::new(continuous(&["a"]));
        stage.settle();
        let refusal = StartObstacle::ReleaseRefused { message: "a policy says no".to_owned() };
        let held = Phase::Starting(if refused { refusal } else { StartObstacle::Gated });
        stage.there("a").phase = held.clone();
        let plan = stage.step();
        assert!(matches!(plan.actions[..], [Action::ReleaseTask { epoch: 1, .. }]), "it is tried again: {:?}", plan.actions);
        assert_eq!(stage.is_true("Stalled"), refused, "a refusal is told at once");
        stage.now = after(stage.now, seconds(301));
        stage.step();
        let stalled = stage.condition("Stalled").clone();
        let (reason, words) = if refused { ("ReleaseRefused", "a policy says no") } else { ("StartDeadlineExceeded", "let go") };
        assert!(stalled.reason == reason && stalled.message.contains(words), "{stalled:?}");
        assert_eq!(stage.events().iter().filter(|event| **event == reason).count(), 1);
        stage.now = after(stage.now, seconds(301));
        stage.step();
        assert_eq!((stage.there("a").phase.clone(), stage.task("a").failures, stage.memory.restarts.start_up), (held, 0, 0));
        stage.there("a").phase = Phase::Starting(StartObstacle::None);
        assert!(stage.wait(seconds(1)).is_empty(), "the deadline runs anew");
        assert!(stage.wait(seconds(298)).is_empty());
        stage.ready("a");
        assert!(stage.is_true("Ready") && !stage.is_true("Stalled"));
    }
}

#[test]
fn crash_looping_is_stalled_until_stable_and_the_reset_is_written_when_due() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 0;
    stage.settle();
    for delay in [10.0, 20.0, 40.0] {
        stage.fail_run("a", 10);
        assert_eq!(stage.next_run_in(), delay);
        stage.wait(seconds(delay as u64));
    }
    assert_eq!((stage.memory.consecutive_failures, stage.condition("Stalled").reason.as_str()), (3, "CrashLooping"));
    stage.ready("a");
    assert_eq!(stage.condition("Stalled").reason, "CrashLooping");
    assert_eq!(stage.condition("Running").reason, "Streaming");
    stage.wait(seconds(590));
    assert_eq!(stage.wake_in(), Some(seconds(10)));
    stage.wait(seconds(10));
    assert_eq!((stage.memory.consecutive_failures, stage.is_true("Ready")), (0, true));
    assert!(stage.events().contains(&"CrashLooping") && stage.events().contains(&"BackoffReset"));
}

#[test]
fn a_clock_that_went_back_does_not_lengthen_a_wait() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.settle();
    stage.exit("a", 20);
    stage.now -= chrono::TimeDelta::days(3);
    stage.settle();
    assert_eq!(stage.next_run_in(), 300.0);
}

#[test]
fn the_remains_of_a_failed_attempt_are_kept_as_asked() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.keep_failed_for = seconds(120);
    stage.stream();
    stage.exit("a", 10);
    assert_eq!(stage.wake_in(), Some(seconds(120)));
    assert!(stage.wait(seconds(119)).is_empty());
    let actions = stage.wait(seconds(1));
    assert!(matches!(actions[0], weir_supervisor::Action::ClearTask { .. }), "{actions:?}");
    assert_eq!(starts(&actions), [("a", 2)]);
}

#[test]
fn the_history_keeps_ten_runs_newest_first() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.settle();
    for _ in 0..12 {
        stage.wait(MINUTE);
        stage.complete("a");
    }
    let numbers: Vec<u64> = stage.memory.history.iter().map(|run| run.number).collect();
    assert_eq!(numbers, [12, 11, 10, 9, 8, 7, 6, 5, 4, 3]);
}

#[test]
fn two_hundred_failures_a_week_apart_each_wait_the_initial_delay() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 0;
    stage.stream();
    for _ in 0..200 {
        stage.wait(seconds(7 * 24 * 3600));
        assert_eq!(stage.memory.consecutive_failures, 0);
        stage.fail_run("a", 10);
        assert_eq!((stage.memory.consecutive_failures, stage.next_run_in()), (1, 10.0));
        stage.wait(seconds(10));
        stage.ready("a");
    }
    assert_eq!((stage.memory.run_number, stage.memory.history.len()), (201, 10));
}

#[test]
fn what_is_remembered_of_schema_changes_is_short_however_long_a_version_is() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    let change = |stage: &mut Stage, version: String| {
        stage.report("a", ExitClass::Retryable, |report| {
            report.reason = "SchemaChanged".to_owned();
            report.source_version = Some(version);
        });
        stage.ready("a");
    };
    for version in 0..40 {
        change(&mut stage, format!("{}-{version}", "v".repeat(200)));
    }
    assert_eq!((stage.task("a").failures, stage.memory.restarts.schema_change), (0, 40));
    let known = &stage.memory.schema_changes["a"];
    assert!(known.len() <= 4 && known.iter().all(|version| version.len() <= 24), "{known:?}");
    stage.report("a", ExitClass::Retryable, |report| {
        report.reason = "SchemaChanged".to_owned();
        report.source_version = Some(format!("{}-39", "v".repeat(200)));
    });
    assert_eq!(stage.task("a").failures, 1, "the same version again is a failure");
}
