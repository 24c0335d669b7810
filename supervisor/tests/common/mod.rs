//! A job under test and a stage on which its slots are moved by hand.
//!
//! `Stage` keeps the memory of plans as a shell would, through JSON each time,
//! so that every test is also a test of restarts.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use weir_crds::policy::{
    HealthPolicy, JobPolicy, JobTrigger, NodeLostPolicy, QueryPolicy, QueryTrigger, RestartPolicy, TaskPolicy, TaskRetryMode,
    TaskRetryPolicy,
};
use weir_supervisor::conditions::{Condition, ConditionStatus};
use weir_supervisor::memory::{TaskMemory, TaskState};
use weir_supervisor::observed::{Exit, ExitCause, Instance, Phase, QueryFacts, StartObstacle, StopOrder};
use weir_supervisor::status::{contradiction, status};
use weir_supervisor::time::after;
use weir_supervisor::{Action, Desired, ExitClass, ExitReport, Memory, Observed, Plan, Slot, Timestamp, decide};

pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub fn start_of_time() -> Timestamp {
    "2026-11-30T00:00:00Z".parse().unwrap()
}

pub fn rules(trigger: JobTrigger, tasks: &[&str]) -> JobPolicy {
    let query = || QueryPolicy { name: "q".to_owned(), trigger: QueryTrigger::Default };
    let never = matches!(trigger, JobTrigger::Continuous { task_retry_mode: TaskRetryMode::Never });
    JobPolicy {
        trigger,
        restart: RestartPolicy::default(),
        task_retry: (!never).then(TaskRetryPolicy::default),
        start_deadline: seconds(300),
        stop_timeout: seconds(60),
        keep_failed_for: Duration::ZERO,
        node_lost_policy: NodeLostPolicy::ReplaceWhenFenced,
        suspend: false,
        restart_nonce: 0,
        health: HealthPolicy::default(),
        tasks: tasks.iter().map(|name| TaskPolicy { name: (*name).to_owned(), queries: vec![query()] }).collect(),
    }
}

pub fn continuous(tasks: &[&str]) -> Desired {
    desired(rules(JobTrigger::Continuous { task_retry_mode: TaskRetryMode::OnFailure }, tasks))
}

pub fn never(tasks: &[&str]) -> Desired {
    desired(rules(JobTrigger::Continuous { task_retry_mode: TaskRetryMode::Never }, tasks))
}

pub fn manual(tasks: &[&str]) -> Desired {
    desired(rules(JobTrigger::Manual, tasks))
}

pub fn desired(rules: JobPolicy) -> Desired {
    let hashes: BTreeMap<String, String> = rules.tasks.iter().map(|task| (task.name.clone(), "h1".to_owned())).collect();
    let mut desired = Desired::accepted(rules, 1, "r1".to_owned(), hashes).unwrap();
    desired.fences = fences(&desired, Some("f1"));
    desired
}

/// The same fence for each task.
pub fn fences(desired: &Desired, fence: Option<&str>) -> BTreeMap<String, String> {
    let tasks = desired.rules.tasks.iter().map(|task| task.name.clone());
    tasks.filter_map(|task| Some((task, fence?.to_owned()))).collect()
}

pub fn report(class: ExitClass, epoch: u64) -> ExitReport {
    ExitReport { query: Some("q".to_owned()), ..ExitReport::new(class, epoch) }
}

/// One that has just begun.
fn instance(epoch: u64, now: Timestamp) -> Instance {
    Instance {
        name: format!("pid-{epoch}"),
        epoch,
        created_at: now,
        phase: Phase::Starting(StartObstacle::None),
        stop_order: StopOrder::None,
        config_generation: 0,
        reported_at: None,
        queries: Vec::new(),
        place: None,
        held_by: Vec::new(),
    }
}

pub struct Stage {
    pub desired: Desired,
    pub observed: Observed,
    pub memory: Memory,
    pub now: Timestamp,
    pub draw: f64,
    pub plan: Option<Plan>,
}

impl Stage {
    pub fn new(desired: Desired) -> Stage {
        Stage { desired, observed: Observed::default(), memory: Memory::default(), now: start_of_time(), draw: 0.0, plan: None }
    }

    /// Decides and carries out until there is nothing more to do at this time.
    pub fn settle(&mut self) -> Vec<Action> {
        let mut all = Vec::new();
        for _ in 0..20 {
            let plan = self.step();
            if plan.actions.is_empty() {
                return all;
            }
            for action in &plan.actions {
                self.carry_out(action);
            }
            all.extend(plan.actions);
        }
        panic!("a busy loop: {all:?}");
    }

    /// Decides once and remembers, through the stored document.
    pub fn step(&mut self) -> Plan {
        let draw = self.draw;
        let plan = decide(&self.desired, &self.observed, &self.memory, self.now, &mut || draw);
        let stored = Memory::from_json(&plan.memory.to_json()).unwrap();
        assert_eq!(stored, plan.memory, "the stored document says the same");
        let shown = serde_json::to_value(status(&self.desired, &self.observed, &stored)).unwrap();
        assert_eq!(contradiction(&shown, &stored), None, "a status goes with its memory");
        self.memory = stored;
        self.show_what_vanished();
        if plan.events.is_empty() {
            self.plan = Some(Plan { events: self.plan.take().map_or_else(Vec::new, |old| old.events), ..plan.clone() });
        } else {
            let mut kept = self.plan.take().map_or_else(Vec::new, |old| old.events);
            kept.extend(plan.events.clone());
            self.plan = Some(Plan { events: kept, ..plan.clone() });
        }
        plan
    }

    /// A shell tells of an instance that vanished as long as the memory knows it, and nothing else is in its slot.
    pub fn show_what_vanished(&mut self) {
        let run = self.memory.run.as_ref();
        let (strangers, left_behind) = (&self.memory.strangers, &self.memory.left_behind);
        let is_own = |name: &String, instance: &Instance| {
            let is_stranger = strangers.get(name).is_some_and(|stranger| stranger.epoch == instance.epoch);
            let is_left_behind = left_behind.get(name).is_some_and(|left| left.epoch == instance.epoch);
            is_stranger
                || is_left_behind
                || run.and_then(|run| run.tasks.get(name)).is_some_and(|task| task.state.is_live() && task.epoch == Some(instance.epoch))
        };
        self.observed.slots.retain(|name, slot| slot.instance().is_none_or(|own| own.phase != Phase::Vanished || is_own(name, own)));
        for (task, left) in left_behind {
            let slot = self.observed.slots.entry(task.clone()).or_default();
            if *slot == Slot::Absent {
                *slot = Slot::Present(Box::new(Instance { phase: Phase::Vanished, ..instance(left.epoch, self.now) }));
            }
        }
    }

    pub fn wait(&mut self, wait: Duration) -> Vec<Action> {
        self.now = after(self.now, wait);
        self.settle()
    }

    pub fn carry_out(&mut self, action: &Action) {
        match action {
            Action::StartTask { task, epoch, generation, .. } => {
                let occupied = self.observed.slot(task).instance();
                let is_gone = |instance: &Instance| instance.phase == Phase::Vanished;
                assert!(occupied.is_none_or(is_gone), "started {task} on top of {occupied:?}");
                let instance = Instance { config_generation: *generation, ..instance(*epoch, self.now) };
                self.observed.slots.insert(task.clone(), Slot::Present(Box::new(instance)));
            }
            Action::StopTask { task, epoch, .. } => {
                let at = self.now;
                self.instance(task, *epoch).stop_order = StopOrder::Graceful { at };
            }
            Action::ReleaseTask { task, epoch } => self.instance(task, *epoch).phase = Phase::Starting(StartObstacle::None),
            Action::KillTask { task, epoch } => self.instance(task, *epoch).stop_order = StopOrder::Kill,
            Action::ClearTask { task, .. } | Action::ForceRemoveTask { task, .. } => {
                self.observed.slots.insert(task.clone(), Slot::Absent);
                self.show_what_vanished();
            }
            Action::ApplyLiveConfig { task, epoch, generation } => {
                self.instance(task, *epoch).config_generation = *generation;
            }
        }
    }

    fn instance(&mut self, task: &str, epoch: u64) -> &mut Instance {
        let instance = self.there(task);
        assert_eq!(instance.epoch, epoch);
        instance
    }

    pub fn there(&mut self, task: &str) -> &mut Instance {
        match self.observed.slots.get_mut(task) {
            Some(Slot::Present(instance)) => instance,
            other => panic!("nothing in the slot of {task}: {other:?}"),
        }
    }

    pub fn ready(&mut self, task: &str) -> Vec<Action> {
        let now = self.now;
        let instance = self.there(task);
        instance.phase = Phase::Ready;
        instance.reported_at = Some(now);
        self.settle()
    }

    /// Brings the job to a run with all tasks ready.
    pub fn stream(&mut self) {
        self.settle();
        let tasks: Vec<String> = self.desired.rules.tasks.iter().map(|task| task.name.clone()).collect();
        for task in tasks {
            self.ready(&task);
        }
        assert_eq!(self.condition("Ready").reason, "Streaming");
    }

    pub fn exit_with(&mut self, task: &str, exit: Exit) -> Vec<Action> {
        self.there(task).phase = Phase::Exited(exit);
        self.settle()
    }

    /// Ends with a code and no report.
    pub fn exit(&mut self, task: &str, code: i32) -> Vec<Action> {
        let at = self.now;
        self.exit_with(task, Exit { code: Some(code), report: None, cause: ExitCause::Own, log_tail: String::new(), at })
    }

    /// Ends with a report of a class and that class's code.
    pub fn report(&mut self, task: &str, class: ExitClass, edit: impl FnOnce(&mut ExitReport)) -> Vec<Action> {
        let at = self.now;
        let mut report = report(class, self.there(task).epoch);
        edit(&mut report);
        let exit = Exit { code: Some(class.code()), report: Some(report), cause: ExitCause::Own, log_tail: String::new(), at };
        self.exit_with(task, exit)
    }

    pub fn complete(&mut self, task: &str) -> Vec<Action> {
        self.report(task, ExitClass::Completed, |_| ())
    }

    pub fn stopped(&mut self, task: &str) -> Vec<Action> {
        self.report(task, ExitClass::Stopped, |_| ())
    }

    pub fn facts(&mut self, task: &str, edit: impl FnOnce(&mut QueryFacts)) {
        let now = self.now;
        let instance = self.there(task);
        instance.reported_at = Some(now);
        if instance.queries.is_empty() {
            instance.queries.push(QueryFacts { name: "q".to_owned(), is_active: true, ..QueryFacts::default() });
        }
        edit(&mut instance.queries[0]);
    }

    pub fn task(&self, name: &str) -> &TaskMemory {
        &self.memory.run.as_ref().expect("a run is alive").tasks[name]
    }

    pub fn state(&self, name: &str) -> TaskState {
        self.task(name).state
    }

    pub fn condition(&self, kind: &str) -> &Condition {
        self.memory.conditions.iter().find(|known| known.kind == kind).expect("all conditions are always there")
    }

    pub fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).status == ConditionStatus::True
    }

    pub fn wake_in(&self) -> Option<Duration> {
        self.plan.as_ref().and_then(|plan| plan.wake_at).map(|at| (at - self.now).to_std().unwrap())
    }

    /// Seconds until the next run may begin.
    pub fn next_run_in(&self) -> f64 {
        let next = self.memory.next_start.expect("a run is planned");
        (next.at - self.now).num_milliseconds() as f64 / 1000.0
    }

    pub fn events(&self) -> Vec<&'static str> {
        self.plan.iter().flat_map(|plan| plan.events.iter().map(|event| event.reason.as_str())).collect()
    }

    /// Starts the running job's next failure: waits for the start, fails with a code.
    pub fn fail_run(&mut self, task: &str, code: i32) {
        while self.memory.run.is_some() {
            if self.observed.slot(task).live().is_some() {
                self.exit(task, code);
            } else {
                let at = self.task(task).next_retry.expect("a failed task waits");
                self.now = at.max(self.now);
                self.settle();
            }
        }
    }
}

pub fn starts(actions: &[Action]) -> Vec<(&str, u64)> {
    let starts = actions.iter().filter_map(|action| match action {
        Action::StartTask { task, epoch, .. } => Some((task.as_str(), *epoch)),
        _ => None,
    });
    starts.collect()
}

pub fn stops(actions: &[Action]) -> Vec<&str> {
    let stops = actions.iter().filter_map(|action| match action {
        Action::StopTask { task, .. } => Some(task.as_str()),
        _ => None,
    });
    stops.collect()
}
