//! What is waited for is told with its reason and its time; what is not waited for is not told.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Stage, continuous, desired, manual, rules, seconds};
use weir_crds::policy::{JobTrigger, SchedulePolicy};
use weir_supervisor::observed::Shutdown;
use weir_supervisor::status::status;
use weir_supervisor::waits::waits;
use weir_supervisor::{ExitClass, Lifetime};

fn told(stage: &Stage) -> Vec<String> {
    let waits = waits(&stage.desired, &stage.observed, &stage.memory, stage.now);
    waits.iter().map(|wait| wait.sentence(stage.now)).collect()
}

fn next_restart(stage: &Stage) -> Option<String> {
    let shown = serde_json::to_value(status(&stage.desired, &stage.observed, &stage.memory)).unwrap();
    shown.get("nextRestartTime").map(|at| at.as_str().unwrap().to_owned())
}

#[test]
fn every_wait_has_its_reason_and_time() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 1;
    stage.stream();
    assert!(told(&stage).is_empty(), "a run that streams waits for nothing");
    stage.exit("a", 10);
    assert_eq!(
        told(&stage),
        ["waiting for taskRetry after 1 failure of task a; attempt 2 of task a begins at 2026-11-30T00:00:10Z (in 10s)"]
    );
    stage.wait(seconds(10));
    stage.exit("a", 10);
    assert_eq!(told(&stage), ["waiting for the backoff after 1 failed run; the next run begins at 2026-11-30T00:00:20Z (in 10s)"]);
    stage.wait(seconds(10));
    stage.ready("a");
    stage.complete("a");
    let between = "waiting for restart.minInterval between the starts of two runs; the next run begins at 2026-11-30T00:00:30Z (in 10s)";
    assert_eq!(told(&stage), [between]);
    stage.now += chrono::Duration::milliseconds(9_001);
    assert!(told(&stage)[0].ends_with("(in 1s)"), "{:?}", told(&stage));
    stage.wait(seconds(1));
    stage.ready("a");
    stage.report("a", ExitClass::Config, |_| ());
    let told = told(&stage).remove(0);
    assert!(told.starts_with("waiting for restart.maxDelay") && told.contains("weir.dev/run-now with a new value ends the wait"), "{told}");
}

#[test]
fn a_tick_is_waited_for_until_the_job_is_suspended() {
    let schedule = SchedulePolicy { cron: "0 3 * * *".to_owned(), time_zone: "UTC".to_owned(), starting_deadline: None };
    let mut stage = Stage::new(desired(rules(JobTrigger::Schedule(schedule), &["a"])));
    stage.settle();
    assert_eq!(told(&stage), ["waiting for the next tick of the schedule; the next run begins at 2026-11-30T03:00:00Z (in 3h)"]);
    stage.desired.rules.suspend = true;
    stage.settle();
    assert!(told(&stage).is_empty());
    let mut stage = Stage::new(manual(&["a"]));
    stage.settle();
    assert!(told(&stage).is_empty());
}

#[test]
fn no_next_run_is_shown_where_none_will_come() {
    let ended = |end: fn(&mut Stage)| {
        let mut stage = Stage::new(continuous(&["a"]));
        stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 0;
        end(&mut stage);
        (next_restart(&stage), told(&stage).len(), stage.is_true("BackingOff"))
    };
    let failed = |stage: &mut Stage| {
        stage.stream();
        stage.exit("a", 10);
    };
    assert_eq!(ended(failed), (Some("2026-11-30T00:00:10Z".to_owned()), 1, true));
    let nothing = (None, 0, false);
    assert_eq!(
        ended(|stage| {
            stage.desired.lifetime = Lifetime::OneRun { token: "t".to_owned() };
            stage.stream();
            stage.exit("a", 10);
            let events = &stage.plan.as_ref().unwrap().events;
            assert!(events.iter().any(|event| event.note.ends_with("no run follows by itself")), "{events:?}");
        }),
        nothing
    );
    assert_eq!(
        ended(|stage| {
            stage.stream();
            stage.desired.rules.suspend = true;
            stage.settle();
            stage.stopped("a");
            stage.wait(seconds(60));
        }),
        nothing
    );
    assert_eq!(
        ended(|stage| {
            stage.stream();
            stage.exit("a", 10);
            stage.observed.shutdown = Shutdown::Graceful;
            stage.settle();
        }),
        nothing
    );
}
