//! The status document: fields, sizes and quiet conditions.
#![allow(clippy::unwrap_used)]

mod common;

use common::{MINUTE, Stage, continuous, seconds, start_of_time};
use weir_supervisor::ExitClass;
use weir_supervisor::observed::Backlog;
use weir_supervisor::status::{STATUS_BYTES, status};

#[test]
fn a_streaming_job_shows_its_run_tasks_and_summary() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.desired.image = "weir:1".to_owned();
    stage.stream();
    let commit = stage.now;
    stage.facts("a", |query| {
        query.batch_id = Some(8812);
        query.last_commit = Some(commit);
        query.input_rows_per_second = 540.04;
        query.backlog = Backlog { records: Some(1200), ..Backlog::default() };
    });
    stage.wait(seconds(10));
    let shown = serde_json::to_value(status(&stage.desired, &stage.observed, &stage.memory)).unwrap();
    assert_eq!(shown["observedGeneration"], 1);
    assert_eq!(shown["conditions"].as_array().unwrap().len(), 12);
    assert_eq!(shown["run"]["number"], 1);
    assert_eq!(shown["run"]["cause"], "Continuous");
    assert_eq!(shown["run"]["image"], "weir:1");
    assert_eq!(shown["run"]["readyAt"], "2026-11-30T00:00:00Z");
    assert_eq!(shown["epoch"], 2);
    assert_eq!(shown["summary"]["tasksReady"], "2/2");
    assert_eq!(shown["summary"]["lag"], 1200);
    assert_eq!(shown["summary"]["lastCommitTime"], "2026-11-30T00:00:00Z");
    let query = &shown["tasks"][0]["queries"][0];
    assert_eq!((query["batchId"].as_i64(), query["inputRowsPerSecond"].as_f64()), (Some(8812), Some(540.0)));
}

#[test]
fn a_failed_run_shows_what_happened_and_when_it_goes_on() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 0;
    stage.stream();
    stage.exit("a", 137);
    let shown = serde_json::to_value(status(&stage.desired, &stage.observed, &stage.memory)).unwrap();
    assert_eq!(shown["lastRun"]["result"], "Failed");
    assert_eq!(shown["lastRun"]["cause"], "Application");
    assert_eq!(shown["lastRun"]["exitCode"], 137);
    assert_eq!(shown["consecutiveFailures"], 1);
    assert_eq!(shown["backingOff"], true);
    assert_eq!(shown["nextRestartTime"], "2026-11-30T00:00:10Z");
    assert_eq!(shown["totalRestarts"]["application"], 1);
    assert!(shown.get("run").is_none(), "a new run clears what belonged to the old one");
}

#[test]
fn transition_times_move_only_on_flips() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.restart.failure_threshold = 1;
    stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 0;
    stage.settle();
    let first = stage.condition("Ready").clone();
    stage.wait(seconds(5));
    stage.exit("a", 10);
    let looping = stage.condition("Ready").clone();
    assert_eq!((first.reason.as_str(), looping.reason.as_str()), ("RunStarting", "CrashLooping"));
    assert_eq!(first.last_transition_time, looping.last_transition_time, "both are False");
    assert_eq!(stage.condition("Stalled").last_transition_time, stage.now);
}

#[test]
fn a_large_status_collapses_healthy_tasks_to_a_count() {
    let names: Vec<String> = (0..20).map(|number| format!("task-with-a-rather-long-name-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::new(continuous(&names));
    stage.stream();
    for name in &names {
        stage.facts(name, |query| {
            query.message = "x".repeat(2000);
            query.id = "00000000-0000-0000-0000-000000000000".to_owned();
        });
        let query = stage.there(name).queries[0].clone();
        stage.there(name).queries = vec![query; 8];
    }
    stage.exit(names[3], 10);
    let shown = status(&stage.desired, &stage.observed, &stage.memory);
    assert_eq!(shown.tasks_collapsed, Some(19));
    assert_eq!(shown.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), [names[3]]);
    assert!(serde_json::to_vec(&shown).unwrap().len() <= STATUS_BYTES);
}

#[test]
fn an_idle_pass_changes_nothing() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.facts("a", |_| ());
    stage.settle();
    let before = (status(&stage.desired, &stage.observed, &stage.memory), stage.memory.clone());
    stage.wait(seconds(20));
    assert_eq!((status(&stage.desired, &stage.observed, &stage.memory), stage.memory.clone()), before);
}

#[test]
fn between_runs_counts_as_ready_for_a_bounded_time() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.restart.min_interval = MINUTE * 10;
    stage.stream();
    stage.complete("a");
    assert_eq!(stage.condition("Ready").reason, "BetweenRuns");
    stage.wait(MINUTE * 9);
    assert!(stage.is_true("Ready"));
    assert_eq!(stage.condition("FallingBehind").reason, "NotRunning");
}

#[test]
fn the_last_commit_stays_known_when_its_run_is_over() {
    let shown = |stage: &Stage| {
        serde_json::to_value(status(&stage.desired, &stage.observed, &stage.memory)).unwrap()["summary"]["lastCommitTime"].clone()
    };
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.stream();
    stage.facts("a", |query| query.last_commit = Some(start_of_time()));
    stage.wait(seconds(5));
    assert_eq!(shown(&stage), "2026-11-30T00:00:00Z");
    // What was committed since the last answer is in the report.
    let at = |second: i64| start_of_time().timestamp_millis() + second * 1000;
    stage.report("a", ExitClass::Completed, |report| report.last_commit_ms = Some(at(4)));
    assert_eq!(shown(&stage), "2026-11-30T00:00:04Z");
    stage.report("b", ExitClass::Completed, |report| report.last_commit_ms = Some(at(3)));
    assert!(stage.memory.run.is_none());
    assert_eq!(shown(&stage), "2026-11-30T00:00:03Z", "the task that is furthest back");
    stage.wait(MINUTE);
    stage.ready("a");
    assert_eq!(shown(&stage), "2026-11-30T00:00:03Z", "until the next run commits");
    let now = stage.now;
    stage.facts("a", |query| query.last_commit = Some(now));
    stage.settle();
    assert_eq!(shown(&stage), "2026-11-30T00:01:05Z");
}
