//! What the owner asks for: edits, nonce, run-now, suspend, shutdown, one run, pause.
#![allow(clippy::unwrap_used)]

mod common;

use common::{MINUTE, Stage, continuous, manual, seconds, starts, stops};
use weir_supervisor::conditions::{ConditionStatus, Reason};
use weir_supervisor::memory::{RunCause, RunResult, TaskState};
use weir_supervisor::observed::{Confirmation, Phase, Shutdown};
use weir_supervisor::{Acceptance, Action, ExitClass, Lifetime, Slot};

fn edit(stage: &mut Stage, run_hash: &str, task_hashes: &[(&str, &str)]) {
    stage.desired.generation += 1;
    stage.desired.run_hash = run_hash.to_owned();
    for (task, hash) in task_hashes {
        stage.desired.task_hashes.insert((*task).to_owned(), (*hash).to_owned());
    }
}

#[test]
fn an_edit_of_class_run_starts_a_new_run_at_once() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.stream();
    edit(&mut stage, "r2", &[]);
    assert_eq!(stops(&stage.settle()), ["a", "b"]);
    assert_eq!(stage.condition("Ready").reason, "Upgrading");
    assert_eq!(stage.condition("PreviousRunTerminated").reason, "WaitingForTermination");
    stage.stopped("a");
    assert_eq!(starts(&stage.stopped("b")), [("a", 3), ("b", 4)]);
    assert_eq!(stage.memory.last_run.as_ref().unwrap().result, RunResult::Superseded);
    assert_eq!(stage.memory.run.as_ref().unwrap().generation, 2);
}

#[test]
fn an_edit_of_class_task_restarts_that_task_only() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.stream();
    edit(&mut stage, "r1", &[("a", "h2")]);
    let actions = stage.settle();
    assert_eq!(stops(&actions), ["a"]);
    let lively = actions.iter().any(|action| matches!(action, Action::ApplyLiveConfig { task, .. } if task == "b"));
    assert!(lively, "{actions:?}");
    let actions = stage.stopped("a");
    assert!(matches!(&actions[1], Action::StartTask { task, generation: 2, epoch: 3, .. } if task == "a"), "{actions:?}");
    assert_eq!((stage.memory.run_number, stage.state("b")), (1, TaskState::Running));
}

#[test]
fn an_edit_of_class_none_reaches_running_tasks_without_a_restart() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    edit(&mut stage, "r1", &[]);
    let actions = stage.settle();
    assert!(matches!(actions[..], [Action::ApplyLiveConfig { generation: 2, .. }]), "{actions:?}");
    assert!(stage.is_true("Ready"));
    assert_eq!(stage.condition("Ready").observed_generation, 2);
}

#[test]
fn an_edit_is_told_with_what_it_does() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    let note = |stage: &mut Stage, change: fn(&mut Stage)| {
        change(stage);
        stage.desired.generation += 1;
        stage.plan = None;
        stage.settle();
        let events = stage.plan.as_ref().unwrap().events.clone();
        let told = events.iter().find(|event| event.reason.as_str() == "SpecUpdateApplied").unwrap();
        told.note.split_once("; the edit ").unwrap().1.to_owned()
    };
    assert_eq!(note(&mut stage, |_| ()), "disturbs nothing");
    assert_eq!(note(&mut stage, |stage| stage.desired.rules.suspend = true), "suspends the job: its run stops at batch boundaries");
    assert_eq!(note(&mut stage, |_| ()), "disturbs nothing", "it is suspending already");
    stage.stopped("a");
    assert_eq!(stage.memory.last_run.as_ref().unwrap().reason, "Suspended");
    assert_eq!(note(&mut stage, |stage| stage.desired.rules.suspend = false), "resumes the job");
    assert_eq!(note(&mut stage, |stage| stage.desired.rules.restart_nonce += 1), "asks for a restart by restartNonce");
    let both = |stage: &mut Stage| {
        stage.desired.rules.suspend = true;
        stage.desired.run_hash = "r2".to_owned();
    };
    stage.stopped("a");
    assert_eq!(note(&mut stage, both), "needs a new run and suspends the job: its run stops at batch boundaries");
}

#[test]
fn an_edit_of_a_waiting_task_starts_it_at_once() {
    let mut stage = Stage::new(continuous(&["a", "b"]));
    stage.stream();
    stage.exit("a", 10);
    edit(&mut stage, "r1", &[("a", "h2")]);
    assert_eq!(starts(&stage.settle()), [("a", 3)]);
    assert_eq!(stage.task("a").failures, 0);
}

#[test]
fn a_rejected_edit_does_not_stop_the_last_good_generation() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.desired.acceptance = Acceptance::Rejected { generation: 2, reason: Reason::SpecInvalid, message: "spec.tasks: no".to_owned() };
    assert!(stage.settle().is_empty());
    assert_eq!((stage.is_true("Ready"), stage.is_true("Stalled"), stage.is_true("Running")), (false, true, true));
    assert_eq!(stage.condition("Accepted").reason, "SpecInvalid");
    stage.exit("a", 10);
    let actions = stage.wait(seconds(10));
    assert!(matches!(actions[1], Action::StartTask { generation: 1, .. }), "{actions:?}");
}

#[test]
fn an_edit_that_cannot_be_checked_says_why_while_the_last_good_generation_runs() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    let accepted = |stage: &Stage| {
        let accepted = stage.condition("Accepted");
        (accepted.status, accepted.reason.clone(), accepted.message.clone())
    };
    stage.desired.acceptance = Acceptance::Checking { generation: 2, obstacle: None };
    assert!(stage.settle().is_empty());
    let being_checked = "the newest generation is being checked".to_owned();
    assert_eq!(accepted(&stage), (ConditionStatus::Unknown, "NotYetObserved".to_owned(), being_checked));
    let why = "the check did not end within 30s and was killed".to_owned();
    stage.desired.acceptance = Acceptance::Checking { generation: 2, obstacle: Some(why.clone()) };
    assert!(stage.settle().is_empty());
    assert_eq!(accepted(&stage), (ConditionStatus::Unknown, "CheckUnavailable".to_owned(), why.clone()));
    assert_eq!((stage.condition("Ready").reason.as_str(), stage.is_true("Reconciling")), ("Upgrading", true));
    assert!(stage.condition("Ready").message.contains(&why));
    assert_eq!((stage.is_true("Stalled"), stage.is_true("Running")), (false, true));
    stage.desired.acceptance = Acceptance::Accepted;
    stage.settle();
    assert!(stage.is_true("Accepted") && stage.is_true("Ready"));
}

#[test]
fn restart_nonce_restarts_and_ends_a_backoff() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.desired.rules.restart_nonce = 5;
    assert_eq!(stops(&stage.settle()), ["a"]);
    assert_eq!(starts(&stage.stopped("a")), [("a", 2)]);
    stage.exit("a", 20);
    stage.desired.rules.restart_nonce = 6;
    assert_eq!(starts(&stage.settle()), [("a", 3)]);
    assert_eq!(stage.memory.consecutive_failures, 0);
}

#[test]
fn suspend_stops_and_resume_begins_with_no_memory_of_failures() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.desired.rules.suspend = true;
    assert_eq!(stops(&stage.settle()), ["a"]);
    assert_eq!((stage.condition("Ready").reason.as_str(), stage.condition("Suspended").reason.as_str()), ("Stopping", "Stopping"));
    stage.stopped("a");
    assert_eq!((stage.is_true("Suspended"), stage.is_true("Ready")), (true, true));
    assert!(stage.wait(MINUTE * 600).is_empty());
    assert_eq!(stage.wake_in(), None);
    stage.desired.rules.suspend = false;
    assert_eq!(starts(&stage.settle()), [("a", 2)]);
    let events = stage.events();
    assert!(events.contains(&"Suspended") && events.contains(&"Resumed"));
}

#[test]
fn resume_ends_a_backoff() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.settle();
    stage.exit("a", 20);
    stage.desired.rules.suspend = true;
    stage.settle();
    stage.desired.rules.suspend = false;
    assert_eq!(starts(&stage.settle()), [("a", 2)]);
}

#[test]
fn run_now_starts_one_run_of_a_manual_job_per_token() {
    let mut stage = Stage::new(manual(&["a"]));
    assert!(stage.settle().is_empty());
    assert_eq!((stage.condition("Ready").reason.as_str(), stage.is_true("Ready")), ("WaitingForTrigger", true));
    assert_eq!(stage.wake_in(), None);
    stage.desired.run_now = Some("one".to_owned());
    assert_eq!(starts(&stage.settle()), [("a", 1)]);
    stage.desired.run_now = Some("two".to_owned());
    stage.settle();
    assert!(stage.events().contains(&"RunNowIgnored"));
    stage.ready("a");
    stage.complete("a");
    assert!(stage.memory.run.is_none());
    assert!(stage.wait(MINUTE * 60).is_empty(), "the token that was ignored stays handled");
    stage.desired.run_now = Some("three".to_owned());
    let actions = stage.settle();
    assert!(matches!(actions[0], Action::ClearTask { epoch: 1, .. }));
    assert_eq!(starts(&actions), [("a", 2)]);
}

#[test]
fn run_now_ends_a_backoff() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.settle();
    stage.exit("a", 20);
    stage.desired.run_now = Some("t".to_owned());
    assert_eq!(starts(&stage.settle()), [("a", 2)]);
    assert_eq!(stage.memory.consecutive_failures, 0);
}

#[test]
fn shutdown_stops_at_a_batch_boundary_and_finishes_with_zero() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.observed.shutdown = Shutdown::Graceful;
    assert_eq!(stops(&stage.settle()), ["a"]);
    assert!(stage.plan.as_ref().unwrap().finished.is_none());
    stage.stopped("a");
    assert_eq!(stage.plan.as_ref().unwrap().finished.as_ref().unwrap().class.code(), 0);
    let last = stage.memory.last_run.as_ref().unwrap();
    assert_eq!((last.cause, last.reason.as_str()), (RunCause::Request, "Stopped"), "the manifest has not asked for it");
    stage.observed = weir_supervisor::Observed::default();
    assert_eq!(starts(&stage.settle()), [("a", 2)], "the next runner begins at once");
}

#[test]
fn an_immediate_shutdown_kills() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.observed.shutdown = Shutdown::Graceful;
    stage.settle();
    stage.observed.shutdown = Shutdown::Immediate;
    assert!(matches!(stage.settle()[..], [Action::KillTask { .. }]));
}

#[test]
fn one_run_finishes_with_the_class_of_its_end() {
    let ends = [(ExitClass::Completed, 0), (ExitClass::Config, 20), (ExitClass::Incompatible, 21), (ExitClass::Retryable, 10)];
    for (class, code) in ends {
        let mut stage = Stage::new(continuous(&["a"]));
        stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 0;
        stage.desired.lifetime = Lifetime::OneRun { token: "t".to_owned() };
        stage.stream();
        assert!(stage.report("a", class, |_| ()).is_empty(), "nothing follows");
        let finished = stage.plan.as_ref().unwrap().finished.clone().unwrap();
        assert_eq!(finished.class.code(), code);
        stage.desired.lifetime = Lifetime::OneRun { token: "u".to_owned() };
        assert_eq!(starts(&stage.settle()), [("a", 2)], "the next invocation does not wait for a backoff");
        assert!(stage.report("a", class, |_| ()).is_empty());
        stage.desired.lifetime = Lifetime::AsTriggered;
        assert_eq!(starts(&stage.settle()), [("a", 3)], "nor does a life after it, for minInterval or a backoff");
    }
}

#[test]
fn one_run_takes_over_a_run_that_outlived_its_runner() {
    let mut stage = Stage::new(manual(&["a"]));
    stage.desired.lifetime = Lifetime::OneRun { token: "t".to_owned() };
    stage.stream();
    stage.desired.lifetime = Lifetime::OneRun { token: "u".to_owned() };
    stage.observed.slots.insert("a".to_owned(), Slot::Lost { epoch: 1 });
    assert_eq!(starts(&stage.settle()), [("a", 2)]);
    assert_eq!(stage.memory.run_number, 1);
    stage.ready("a");
    stage.complete("a");
    assert_eq!(stage.plan.as_ref().unwrap().finished.as_ref().unwrap().class, ExitClass::Completed);
}

#[test]
fn pause_observes_but_orders_nothing() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.desired.paused = true;
    stage.exit("a", 10);
    assert!(stage.wait(MINUTE).is_empty());
    assert_eq!(stage.condition("Reconciling").reason, "Paused");
    assert_eq!(stage.state("a"), TaskState::WaitingRetry);
    stage.desired.paused = false;
    assert_eq!(starts(&stage.settle()), [("a", 2)]);
}

#[test]
fn strangers_are_stopped_before_anything_begins() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    let survivor = stage.there("a").clone();
    let mut wiped = Stage::new(continuous(&["a"]));
    let survivor = weir_supervisor::observed::Instance { epoch: 17, ..survivor };
    wiped.observed.slots.insert("a".to_owned(), Slot::Present(Box::new(survivor)));
    let actions = wiped.settle();
    assert_eq!((stops(&actions), starts(&actions).len()), (vec!["a"], 0));
    assert_eq!(wiped.condition("PreviousRunTerminated").reason, "WaitingForTermination");
    let actions = wiped.stopped("a");
    assert_eq!(starts(&actions), [("a", 18)], "above the epoch of the survivor");
}

#[test]
fn a_silent_node_is_waited_for_or_replaced_by_policy() {
    use weir_crds::policy::NodeLostPolicy;
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.node_lost_policy = NodeLostPolicy::Wait;
    stage.stream();
    let since = stage.now;
    stage.there("a").phase = Phase::Unreachable { since };
    stage.settle();
    assert!(stage.wait(MINUTE * 30).is_empty());
    assert_eq!(stage.condition("Stalled").reason, "PreviousRunUnconfirmed");
    assert_eq!(stage.condition("PreviousRunTerminated").reason, "NodeUnreachable");
    stage.observed.confirmed_terminated = Some(Confirmation::read("1"));
    let actions = stage.settle();
    assert!(matches!(actions[0], Action::ForceRemoveTask { epoch: 1, .. }), "{actions:?}");
    assert_eq!(starts(&actions), [("a", 2)]);

    stage.desired.rules.node_lost_policy = NodeLostPolicy::ReplaceWhenFenced;
    stage.observed.confirmed_terminated = None;
    stage.now = weir_supervisor::time::after(stage.now, MINUTE * 30);
    let since = stage.now;
    stage.there("a").phase = Phase::Unreachable { since };
    assert!(stage.settle().is_empty());
    assert_eq!(starts(&stage.wait(seconds(30))), [("a", 3)]);
}

#[test]
fn live_settings_that_are_not_confirmed_are_sent_again_at_a_pace() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    edit(&mut stage, "r1", &[]);
    assert!(matches!(stage.step().actions[..], [Action::ApplyLiveConfig { .. }]));
    stage.now = weir_supervisor::time::after(stage.now, seconds(1));
    assert!(stage.step().actions.is_empty(), "not a busy loop");
    assert_eq!(stage.wake_in(), Some(seconds(4)));
    stage.now = weir_supervisor::time::after(stage.now, seconds(4));
    assert!(matches!(stage.step().actions[..], [Action::ApplyLiveConfig { .. }]));
}

#[test]
fn health_alone_need_not_be_stored() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    stage.facts("a", |query| query.input_available = true);
    let before = stage.memory.clone();
    stage.settle();
    // The first answer flips conditions, later ones only move windows.
    assert!(stage.memory.needs_storing(&before));
    let before = stage.memory.clone();
    let batch = weir_supervisor::observed::BatchFacts {
        id: 1,
        duration: seconds(1),
        trigger_interval: seconds(1),
        previous_had_data: true,
        input_rows_per_second: 1.0,
        processed_rows_per_second: 1.0,
        costliest_stage: String::new(),
    };
    stage.facts("a", |query| query.recent_batches = vec![batch]);
    stage.settle();
    assert_ne!(stage.memory, before);
    assert!(!stage.memory.needs_storing(&before));
}
