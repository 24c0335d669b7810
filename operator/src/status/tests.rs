//! The status at the bounds of a manifest, and what is no reason to write it.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::json;
use weir_crds::exit::{ExitClass, ExitReport};
use weir_crds::resource::StreamingJobSpec;
use weir_supervisor::observed::{
    Backlog, BatchFacts, Exit, ExitCause, Instance, Observed, Phase, QueryFacts, Slot, StartObstacle, StopOrder,
};
use weir_supervisor::time::{Timestamp, after};
use weir_supervisor::{Action, Desired, Memory, Plan, decide};

use super::*;

const TASKS: usize = 20;
const HOUR: Duration = Duration::from_secs(3600);

/// A name of the greatest length.
fn long(prefix: &str, number: usize, length: usize) -> String {
    format!("{prefix}-{number:02}-{}", "x".repeat(length))[..length].to_owned()
}

fn task_name(number: usize) -> String {
    long("task", number, 59)
}

fn desired() -> Desired {
    let queries = |task: usize| -> Vec<serde_json::Value> {
        let count = if task < 4 { 4 } else { 3 };
        let query = |number| json!({"name": long("query", number, 63), "sources": [{"name": "s", "format": "rate"}], "sql": "SELECT 1", "sink": {"format": "noop"}});
        (0..count).map(query).collect()
    };
    let tasks: Vec<_> = (0..TASKS).map(|task| json!({"name": task_name(task), "queries": queries(task)})).collect();
    let rules = [("StreamingBacklogRecords", 1), ("StreamingBacklogBytes", 1), ("StreamingBacklogSeconds", 1)];
    let rules: Vec<_> = rules.iter().map(|(metric, bound)| json!({"metric": metric, "greaterThan": bound})).collect();
    let spec: StreamingJobSpec = serde_json::from_value(json!({
        "trigger": {"continuous": {}},
        "taskRetry": {"maxRetries": 1},
        "health": {"rules": rules},
        "tasks": tasks,
    }))
    .unwrap();
    let hash = |task: usize| (task_name(task), format!("generation-{}+0123456789ab", i64::MAX));
    let mut desired =
        Desired::accepted(spec.policy().unwrap(), i64::MAX, format!("generation-{}", i64::MAX), (0..TASKS).map(hash).collect()).unwrap();
    desired.run_now = Some("t".repeat(128));
    desired.image = long("registry.example.com/image", 0, 512);
    desired
}

fn facts(number: usize, now: Timestamp) -> QueryFacts {
    let backlog = Backlog { records: Some(u64::MAX), bytes: Some(u64::MAX), seconds: Some(u64::MAX), files: Some(u64::MAX) };
    let batch = |id| BatchFacts {
        id,
        duration: HOUR,
        trigger_interval: Duration::ZERO,
        previous_had_data: true,
        input_rows_per_second: 1e9,
        processed_rows_per_second: 1e8,
        costliest_stage: "c".repeat(64),
    };
    QueryFacts {
        name: long("query", number, 63),
        id: "00000000-0000-0000-0000-000000000000".to_owned(),
        run_id: "00000000-0000-0000-0000-000000000000".to_owned(),
        batch_id: Some(u64::MAX / 2),
        is_active: true,
        message: "m".repeat(500),
        last_commit: Some(now),
        input_available: true,
        input_rows_per_second: 123_456_789.1,
        processed_rows_per_second: 123_456_789.1,
        backlog,
        watermark: Some(now),
        bad_records: u64::MAX / 2,
        recent_batches: (1..20).map(batch).collect(),
    }
}

/// A job at the bounds that has lived through everything that leaves traces.
struct Stage {
    desired: Desired,
    observed: Observed,
    memory: Memory,
    now: Timestamp,
}

impl Stage {
    fn pass(&mut self) -> Plan {
        let plan = decide(&self.desired, &self.observed, &self.memory, self.now, &mut || 0.5);
        self.memory = plan.memory.clone();
        for action in &plan.actions {
            match action {
                Action::StartTask { task, epoch, generation, .. } => {
                    let instance = Instance {
                        name: format!("j--{task}"),
                        epoch: *epoch,
                        created_at: self.now,
                        phase: Phase::Starting(StartObstacle::None),
                        stop_order: StopOrder::None,
                        config_generation: *generation,
                        reported_at: None,
                        queries: Vec::new(),
                        place: Some("n".repeat(253)),
                        held_by: Vec::new(),
                    };
                    self.observed.slots.insert(task.clone(), Slot::Present(Box::new(instance)));
                }
                Action::ClearTask { task, .. } => drop(self.observed.slots.remove(task)),
                _ => {}
            }
        }
        plan
    }

    fn each(&mut self, change: impl Fn(usize, &mut Instance, Timestamp)) {
        let now = self.now;
        for (number, slot) in self.observed.slots.values_mut().enumerate() {
            if let Slot::Present(instance) = slot {
                change(number, instance, now);
            }
        }
        for _ in 0..3 {
            self.pass();
        }
    }

    fn stream(&mut self) {
        for _ in 0..3 {
            self.pass();
        }
        for _ in 0..12 {
            self.now = after(self.now, Duration::from_secs(60));
            self.each(|_, instance, now| {
                instance.phase = Phase::Ready;
                instance.reported_at = Some(now);
                instance.queries = (0..4).map(|query| facts(query, now)).collect();
            });
        }
    }

    fn fail(&mut self, reason: &str, version: usize) {
        self.each(|_, instance, at| {
            let report = ExitReport {
                query: Some("q".repeat(253)),
                reason: reason.to_owned(),
                message: "e".repeat(5000),
                source_version: Some(format!("{version}-{}", "v".repeat(240))),
                ..ExitReport::new(ExitClass::Retryable, instance.epoch)
            };
            let exit = Exit { code: Some(10), report: Some(report), cause: ExitCause::Own, log_tail: "l".repeat(5000), at };
            instance.phase = Phase::Exited(exit);
        });
    }
}

fn worst() -> Stage {
    let now = "2026-11-30T00:00:00.123456Z".parse().unwrap();
    let mut stage = Stage {
        desired: desired(),
        observed: Observed::default(),
        memory: Memory { epoch: u64::MAX / 4, run_number: u64::MAX / 4, ..Memory::default() },
        now,
    };
    for version in 0..12 {
        stage.stream();
        stage.fail("SchemaChanged", version);
    }
    for _ in 0..12 {
        stage.stream();
        stage.fail(&"R".repeat(128), 0);
        stage.now = after(stage.now, HOUR);
    }
    // Alive again, each task with a failure behind it.
    stage.stream();
    stage.each(|_, instance, at| {
        let exit = Exit { code: Some(137), report: None, cause: ExitCause::OutOfMemory, log_tail: "l".repeat(5000), at };
        instance.phase = Phase::Exited(exit);
    });
    stage
}

fn composed(stage: &Stage) -> Value {
    let rendered = weir_supervisor::status::status(&stage.desired, &stage.observed, &stage.memory);
    compose(&json!({"observedGeneration": -1}), &rendered, &stage.memory)
}

/// What a plan does, without the words that it says.
fn deeds(plan: &Plan) -> Value {
    let memory = &plan.memory;
    let flips: Vec<_> =
        memory.conditions.iter().map(|known| (format!("{:?}", known.status), &known.reason, known.last_transition_time)).collect();
    let wait: Vec<_> =
        memory.run.iter().flat_map(|run| &run.tasks).map(|(name, task)| (name, task.next_retry, task.epoch, task.failures)).collect();
    json!({
        "actions": format!("{:?}", plan.actions),
        "next": memory.next_start, "failures": memory.consecutive_failures, "epoch": memory.epoch,
        "conditions": flips, "tasks": wait, "versions": memory.schema_changes,
    })
}

#[test]
fn a_status_at_the_bounds_fits_in_every_state() {
    let mut stage = worst();
    for state in ["retrying", "streaming again", "failed"] {
        let value = composed(&stage);
        let bytes = serde_json::to_vec(&value).unwrap().len();
        let parts: Vec<(String, usize)> = value
            .as_object()
            .unwrap()
            .iter()
            .chain(value["memory"].as_object().unwrap())
            .map(|(name, part)| (name.clone(), part.to_string().len()))
            .filter(|(_, size)| *size > 300)
            .collect();
        assert!(bytes <= STATUS_BYTES, "{state}: {bytes} bytes: {parts:?}");
        assert!(value["history"].as_array().is_none_or(|history| history.len() <= 10));
        assert_eq!(value["conditions"].as_array().unwrap().len(), 12);
        match state {
            "retrying" => stage.stream(),
            _ => stage.fail("Failed", 0),
        }
    }
}

#[test]
fn what_is_left_out_for_size_changes_no_decision() {
    let mut stage = worst();
    for _ in 0..6 {
        let stored = composed(&stage);
        let back = Memory::from_json(&stored["memory"].to_string()).unwrap();
        assert_ne!(back, stage.memory, "something was left out");
        let decided = |memory: &Memory, now| decide(&stage.desired, &stage.observed, memory, now, &mut || 0.5);
        for later in [0, 5, 60, 3600] {
            let now = after(stage.now, Duration::from_secs(later));
            let (full, slim) = (decided(&stage.memory, now), decided(&back, now));
            let bare = |plan: &Plan| {
                let mut deeds = deeds(plan);
                // Losing windows of health may delay its conditions, nothing else.
                for at in [5, 10, 11] {
                    deeds["conditions"][at] = Value::Null;
                }
                deeds
            };
            assert_eq!(bare(&full), bare(&slim), "{later} s later");
        }
        stage.stream();
        stage.fail("Failed", 0);
    }
}

#[test]
fn the_order_of_conditions_is_no_reason_to_write() {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let stored = json!({"conditions": [condition("Stalled", "False"), condition("Ready", "True")]});
    let new = json!({"conditions": [condition("Ready", "True"), condition("Stalled", "False")]});
    assert_eq!(change(&stored, &new), Change::None);
    let flipped = json!({"conditions": [condition("Ready", "False"), condition("Stalled", "False")]});
    assert_eq!(change(&stored, &flipped), Change::Fact);
}

#[test]
fn numbers_that_move_by_themselves_are_progress() {
    let status = |batch: u64, epoch: u64| json!({"epoch": epoch, "tasks": [{"name": "a", "queries": [{"name": "q", "batchId": batch}]}]});
    assert_eq!(change(&status(1, 1), &status(2, 1)), Change::Progress);
    assert_eq!(change(&status(1, 1), &status(2, 2)), Change::Fact);
}

#[test]
fn a_job_that_is_held_keeps_all_but_its_conditions() {
    use weir_supervisor::conditions::{Hold, held};

    let foreign =
        json!({"type": "example.com/Audited", "status": "True", "reason": "Reviewed", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let stored = json!({
        "observedGeneration": 7,
        "conditions": [foreign],
        "memory": {"version": 99, "later": true},
        "future": "kept",
        "run": {"number": 3},
        "summary": {"tasksReady": "1/1", "message": "run 3 is streaming"},
    });
    let now: Timestamp = "2026-11-30T00:00:00.5Z".parse().unwrap();
    let hold = Hold::StatusTooNew { epoch: 4, early: false, why: "version 99".to_owned() };
    let (conditions, event) = held(&[], &hold, 6, now);
    assert!(event.is_some());
    let shown = super::hold(&stored, &conditions, 6);
    assert_eq!(shown["conditions"].as_array().map(Vec::len), Some(13));
    assert_eq!((&shown["conditions"][12], &shown["conditions"][0]["reason"]), (&foreign, &json!("StatusTooNew")));
    assert_eq!(shown["observedGeneration"], 7, "it never goes down");
    for field in ["memory", "future", "run"] {
        assert_eq!(shown[field], stored[field]);
    }
    assert_eq!(shown["summary"]["tasksReady"], "1/1");
    assert!(shown["summary"]["message"].as_str().unwrap().contains("weir.dev/discard-memory"));
    assert_eq!(change(&stored, &shown), Change::Fact);
    assert_eq!(change(&shown, &super::hold(&shown, &conditions, 6)), Change::None);
    let empty = super::hold(&json!({"observedGeneration": -1}), &conditions, 1);
    assert_eq!((&empty["observedGeneration"], empty["conditions"].as_array().map(Vec::len)), (&json!(1), Some(12)));
}

#[test]
fn conditions_of_others_have_a_bound_and_are_no_reason_to_write() {
    let mut stage = worst();
    stage.pass();
    let other = |kind: &str, message: &str| json!({"type": kind, "status": "True", "reason": "R", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let kinds = |composed: &Value| -> Vec<String> {
        let all = composed["conditions"].as_array().unwrap().iter().filter(|condition| !is_own(condition));
        all.map(|condition| condition["type"].as_str().unwrap().to_owned()).collect()
    };
    let rendered = weir_supervisor::status::status(&stage.desired, &stage.observed, &stage.memory);
    let few = json!({"conditions": [other("b/One", &"m".repeat(900)), other("a/Two", "")]});
    let composed = compose(&few, &rendered, &stage.memory);
    assert_eq!(&composed["conditions"].as_array().unwrap()[12..], few["conditions"].as_array().unwrap(), "few stay as they are");

    let crowd = (0..5000).map(|number| other(&format!("c/{number:04}"), &"m".repeat(200)));
    let huge = [other("b/One", &"é".repeat(500_000)), other(&format!("d/{}", "x".repeat(300)), "")];
    let many = json!({"conditions": huge.clone().into_iter().chain(crowd).collect::<Vec<_>>()});
    for stored in [json!({"conditions": huge}), many] {
        let composed = compose(&stored, &rendered, &stage.memory);
        assert!(serde_json::to_vec(&composed).unwrap().len() <= STATUS_BYTES);
        let kept = Memory::from_json(&composed["memory"].to_string()).unwrap();
        assert_eq!(weir_supervisor::status::contradiction(&composed, &kept), None, "also what was made to fit goes with its memory");
        assert!(kinds(&composed).contains(&"b/One".to_owned()), "cut, not dropped: {:?}", kinds(&composed));
        assert_eq!(change(&stored, &composed), Change::Fact);
        let mut theirs = composed.clone();
        theirs["conditions"].as_array_mut().unwrap().extend(stored["conditions"].as_array().unwrap().clone());
        assert_eq!(change(&theirs, &composed), Change::None, "that they are too long is no reason to write");
        assert!(serde_json::to_vec(&super::hold(&stored, &[], 1)).unwrap().len() <= FOREIGN_BYTES + 200);
    }
}
