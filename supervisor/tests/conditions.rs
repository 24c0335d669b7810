//! Conditions whose memory was lost, whose clock was set back, and of jobs that are held.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Stage, continuous, seconds};
use serde::Deserialize;
use weir_crds::resource::CONDITION_TYPES;
use weir_supervisor::conditions::{Condition, ConditionStatus, Hold, held, recalled};
use weir_supervisor::status::status;
use weir_supervisor::time::after;
use weir_supervisor::{EventKind, Memory};

/// The conditions as they are read back from a stored status.
fn shown(stage: &Stage) -> Vec<Condition> {
    let shown = serde_json::to_value(status(&stage.desired, &stage.observed, &stage.memory)).unwrap();
    shown["conditions"].as_array().unwrap().iter().map(|condition| Condition::deserialize(condition).unwrap()).collect()
}

/// A job that backs off since a moment with a fraction of a second.
fn backing_off() -> Stage {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 0;
    stage.now = after(stage.now, std::time::Duration::from_millis(900));
    stage.stream();
    stage.wait(seconds(7));
    stage.exit("a", 10);
    stage
}

#[test]
fn a_lost_memory_moves_no_transition_time_of_a_status_that_stays() {
    let mut stage = backing_off();
    let before = shown(&stage);
    stage.memory = Memory { conditions: recalled(&before, &[]), ..Memory::default() };
    stage.wait(seconds(5));
    let mut kept = 0;
    for new in shown(&stage) {
        let old = before.iter().find(|old| old.kind == new.kind).unwrap();
        if old.status == new.status {
            kept += 1;
            assert_eq!(new.last_transition_time, old.last_transition_time, "{}", new.kind);
        } else {
            assert!(new.last_transition_time > old.last_transition_time, "{}", new.kind);
        }
    }
    assert!(kept >= 6, "{kept} conditions kept their status");
}

#[test]
fn what_is_shown_counts_and_an_agreeing_memory_is_finer() {
    let stage = backing_off();
    let remembered = stage.memory.conditions.clone();
    assert_eq!(recalled(&shown(&stage), &remembered), remembered, "nothing changes where both say the same");
    let mut meddled = shown(&stage);
    meddled[0].status = ConditionStatus::True;
    meddled[1].last_transition_time = after(stage.now, seconds(60));
    meddled.remove(2);
    let known = recalled(&meddled, &remembered);
    assert_eq!((&known[0], &known[1]), (&meddled[0], &meddled[1]));
    assert_eq!(known[2..], remembered[2..]);
    assert_eq!(recalled(&[], &remembered), remembered);
}

#[test]
fn a_clock_that_is_set_back_moves_no_transition_time_back() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.desired.rules.task_retry.as_mut().unwrap().max_retries = 0;
    stage.stream();
    let before: Vec<Condition> = stage.memory.conditions.clone();
    stage.now -= chrono::TimeDelta::hours(3);
    stage.exit("a", 10);
    let flipped = |old: &&Condition| stage.condition(&old.kind).status != old.status;
    assert!(before.iter().filter(flipped).count() >= 3);
    for old in &before {
        assert_eq!(stage.condition(&old.kind).last_transition_time, old.last_transition_time, "{}", old.kind);
    }
}

#[test]
fn a_job_that_is_held_says_why_and_what_helps_once() {
    let mut stage = Stage::new(continuous(&["a"]));
    stage.stream();
    let later = after(stage.now, seconds(60));
    let holds = [
        (Hold::StatusNotKept, "StatusNotKept", "StatusUnreadable", "weir-operator crd"),
        (
            Hold::StatusTooNew { epoch: 41, early: false, why: "version 9".to_owned() },
            "StatusTooNew",
            "StatusUnreadable",
            "weir.dev/discard-memory: \"41\"",
        ),
        (
            Hold::MemoryUnreadable { epoch: 41, early: false, why: "recursion limit exceeded".to_owned() },
            "StatusUnreadable",
            "StatusUnreadable",
            "weir.dev/discard-memory: \"41\"",
        ),
        (
            Hold::MemoryLost { epoch: 41, early: false, why: "status.memory is gone".to_owned() },
            "MemoryLost",
            "StatusUnreadable",
            "weir.dev/discard-memory: \"41\"",
        ),
        (Hold::InternalError { words: "index out of bounds".to_owned() }, "InternalError", "InternalError", "index out of bounds"),
    ];
    for (hold, reason, event, remedy) in holds {
        let (conditions, told) = held(&shown(&stage), &hold, 7, later);
        assert_eq!(conditions.iter().map(|condition| condition.kind.as_str()).collect::<Vec<_>>(), CONDITION_TYPES);
        let find = |kind: &str| conditions.iter().find(|condition| condition.kind == kind).unwrap();
        assert_eq!((find("Stalled").status, find("Stalled").reason.as_str()), (ConditionStatus::True, reason));
        assert_eq!((find("Ready").status, find("Ready").reason.as_str()), (ConditionStatus::False, reason));
        assert_eq!(find("Reconciling").status, ConditionStatus::False);
        assert_eq!((find("Running").status, find("Accepted").status), (ConditionStatus::Unknown, ConditionStatus::Unknown));
        assert!(find("Stalled").message.contains(remedy), "{}", find("Stalled").message);
        assert!(conditions.iter().all(|condition| condition.observed_generation == 7));
        let told = told.unwrap();
        assert_eq!((told.kind(), told.reason.as_str()), (EventKind::Warning, event));

        let (again, silent) = held(&conditions, &hold, 7, after(later, seconds(60)));
        assert_eq!((again, silent), (conditions.clone(), None), "nothing to write and nothing to tell");

        // When it is over, the conditions go on from what was shown meanwhile.
        let mut freed = Stage::new(continuous(&["a"]));
        freed.stream();
        freed.memory.conditions = recalled(&conditions, &freed.memory.conditions);
        freed.now = after(later, seconds(90));
        freed.settle();
        for new in &freed.memory.conditions {
            let old = find(&new.kind);
            let expected = if new.status == old.status { old.last_transition_time } else { freed.now };
            assert_eq!(new.last_transition_time, expected, "{}", new.kind);
        }
    }
}
