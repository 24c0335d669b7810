//! The simulated world: true slots, a shell that can die, and the promises.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use weir_supervisor::memory::{StartReason, TaskState};
use weir_supervisor::observed::{Blame, Exit, ExitCause, Instance, Phase, Shutdown, StartObstacle, StopOrder};
use weir_supervisor::time::after;
use weir_supervisor::{Action, Desired, ExitClass, Memory, Observed, Plan, Slot, Timestamp, decide};

use crate::common;

/// How an instance ends.
#[derive(Debug, Clone)]
pub enum End {
    Code(i32),
    Completed,
    Stopped,
    Fenced(u64),
    SchemaChanged(u8),
    Drained,
    Unknown,
}

/// What happens next.
#[derive(Debug, Clone)]
pub enum Op {
    Ready(usize),
    End(usize, End),
    Vanish(usize),
    Unready(usize),
    Unschedulable(usize),
    Advance(u64),
    WakeUp,
    ClockJump(i64),
    DieBeforeStoring,
    DieBeforeActing,
    DieAfterActions(usize),
    RunnerRestart,
    RejectStart(usize, Blame),
    EditRun,
    EditTask(usize),
    EditNothing,
    Nonce,
    RunNow,
    ToggleSuspend,
    TogglePause,
    ToggleShutdown,
    WipeMemory,
    Thaw(usize),
    ToggleForeign(usize),
    ToggleUnclassified(usize),
}

pub struct World {
    desired: Desired,
    observed: Observed,
    memory: Memory,
    now: Timestamp,
    seed: u64,
    edits: u32,
    highest_started: u64,
    run_of: BTreeMap<u64, (u32, u64)>,
    wipes: u32,
    seen_of: BTreeMap<String, u64>,
    gone: BTreeMap<String, Instance>,
    wake_at: Option<Timestamp>,
}

impl World {
    pub fn new(tasks: usize, never: bool, seed: u64) -> World {
        let names = &["a", "b", "c"][..tasks];
        World {
            desired: if never { common::never(names) } else { common::continuous(names) },
            observed: Observed::default(),
            memory: Memory::default(),
            now: common::start_of_time(),
            seed,
            edits: 0,
            highest_started: 0,
            run_of: BTreeMap::new(),
            wipes: 0,
            seen_of: BTreeMap::new(),
            gone: BTreeMap::new(),
            wake_at: None,
        }
    }

    fn name(&self, index: usize) -> String {
        self.desired.rules.tasks[index % self.desired.rules.tasks.len()].name.clone()
    }

    fn live(&mut self, index: usize) -> Option<&mut Instance> {
        let name = self.name(index);
        match self.observed.slots.get_mut(&name) {
            Some(Slot::Present(instance)) if !matches!(instance.phase, Phase::Exited(_)) => Some(instance),
            _ => None,
        }
    }

    fn set_phase(&mut self, index: usize, phase: Phase) {
        if let Some(instance) = self.live(index) {
            instance.phase = phase;
        }
    }

    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Ready(task) => self.set_phase(*task, Phase::Ready),
            Op::Unready(task) => self.set_phase(*task, Phase::Starting(StartObstacle::None)),
            Op::Unschedulable(task) => {
                let obstacle = StartObstacle::Unschedulable { message: "no room".to_owned() };
                if self.live(*task).is_some_and(|instance| matches!(instance.phase, Phase::Starting(_))) {
                    self.set_phase(*task, Phase::Starting(obstacle));
                }
            }
            Op::End(task, end) => self.end(*task, end),
            Op::Vanish(task) => {
                let name = self.name(*task);
                let seen = self.memory.run.as_ref().and_then(|run| run.tasks.get(&name)).is_none_or(|task| task.seen);
                let epoch = self.observed.slot(&name).instance().map(|instance| instance.epoch);
                if let Some(alive) = self.observed.slot(&name).live() {
                    self.gone.insert(name.clone(), alive.clone());
                }
                let gone = epoch.filter(|_| !seen).map_or(Slot::Absent, |epoch| Slot::Lost { epoch });
                self.observed.slots.insert(name, gone);
            }
            Op::Advance(seconds) => self.now = after(self.now, common::seconds(*seconds)),
            Op::WakeUp => self.now = self.wake_at.map_or(self.now, |at| at.max(self.now)),
            Op::ClockJump(seconds) => self.now += TimeDelta::seconds(*seconds),
            Op::DieBeforeStoring => drop(self.decide()),
            Op::DieBeforeActing => self.act(0),
            Op::DieAfterActions(count) => self.act(*count),
            Op::RunnerRestart => self.runner_restart(),
            Op::RejectStart(task, blame) => self.reject(*task, *blame),
            Op::EditRun => {
                self.edit();
                self.desired.run_hash = format!("r{}", self.edits);
            }
            Op::EditTask(task) => {
                self.edit();
                let (name, hash) = (self.name(*task), format!("h{}", self.edits));
                self.desired.task_hashes.insert(name, hash);
            }
            Op::EditNothing => self.edit(),
            Op::Nonce => self.desired.rules.restart_nonce += 1,
            Op::RunNow => {
                self.edits += 1;
                self.desired.run_now = Some(format!("token {}", self.edits));
            }
            Op::ToggleSuspend => self.desired.rules.suspend = !self.desired.rules.suspend,
            // Somebody deletes the status; checkpoints and pods still know the epochs.
            Op::WipeMemory => {
                self.memory = Memory::default();
                let seen = self.seen_of.values().copied().max().unwrap_or(0);
                self.observed.highest_epoch = self.highest_started.max(seen);
                self.wipes += 1;
            }
            // An instance that had vanished is back in its slot.
            Op::Thaw(task) => {
                let name = self.name(*task);
                if let (true, Some(instance)) = (self.observed.slot(&name).is_free(), self.gone.remove(&name)) {
                    self.observed.slots.insert(name, Slot::Present(Box::new(instance)));
                }
            }
            Op::ToggleForeign(task) => {
                let name = self.name(*task);
                match self.observed.slot(&name) {
                    Slot::Occupied { .. } => drop(self.observed.slots.remove(&name)),
                    Slot::Absent => drop(self.observed.slots.insert(name, Slot::Occupied { by: "a pod of somebody".to_owned() })),
                    Slot::Rejected { .. } | Slot::Lost { .. } | Slot::Unclassified { .. } | Slot::Present(_) => {}
                }
            }
            Op::ToggleUnclassified(task) => {
                let name = self.name(*task);
                match self.observed.slot(&name) {
                    Slot::Unclassified { .. } => drop(self.observed.slots.remove(&name)),
                    Slot::Absent => {
                        drop(self.observed.slots.insert(name, Slot::Unclassified { what: "a pod without an epoch".to_owned() }))
                    }
                    Slot::Rejected { .. } | Slot::Lost { .. } | Slot::Occupied { .. } | Slot::Present(_) => {}
                }
            }
            Op::ToggleShutdown => {
                let running = self.observed.shutdown == Shutdown::None;
                self.observed.shutdown = if running { Shutdown::Graceful } else { Shutdown::None };
            }
            Op::TogglePause => self.desired.paused = !self.desired.paused,
        }
    }

    fn edit(&mut self) {
        self.edits += 1;
        self.desired.generation += 1;
    }

    fn end(&mut self, task: usize, end: &End) {
        let at = self.now;
        let name = self.name(task);
        if let (End::Fenced(seen), Some(_)) = (end, self.live(task)) {
            let known = self.seen_of.entry(name).or_default();
            *known = seen.max(known).to_owned();
        }
        let Some(instance) = self.live(task) else { return };
        let epoch = instance.epoch;
        let report = |class| Some(common::report(class, epoch));
        let (code, report, cause) = match end {
            End::Code(code) => (Some(*code), None, ExitCause::Own),
            End::Completed => (Some(0), report(ExitClass::Completed), ExitCause::Own),
            End::Stopped => (Some(0), report(ExitClass::Stopped), ExitCause::Own),
            End::Fenced(seen) => {
                let mut fenced = common::report(ExitClass::Fenced, epoch);
                fenced.highest_epoch_seen = Some(*seen);
                (Some(22), Some(fenced), ExitCause::Own)
            }
            End::SchemaChanged(version) => {
                let mut changed = common::report(ExitClass::Retryable, epoch);
                changed.reason = "SchemaChanged".to_owned();
                changed.source_version = Some(version.to_string());
                (Some(10), Some(changed), ExitCause::Own)
            }
            End::Drained => (Some(143), None, ExitCause::Disruption { reason: "Drain".to_owned() }),
            End::Unknown => (None, None, ExitCause::Own),
        };
        instance.phase = Phase::Exited(Exit { code, report, cause, log_tail: String::new(), at });
    }

    /// The local runner is killed and its children with it; its successor cannot account for them.
    fn runner_restart(&mut self) {
        self.observed.slots.clear();
        let tasks = self.memory.run.iter().flat_map(|run| run.tasks.iter());
        for (name, epoch) in tasks.filter_map(|(name, task)| Some((name.clone(), task.epoch?))) {
            self.observed.slots.insert(name, Slot::Lost { epoch });
        }
    }

    fn reject(&mut self, task: usize, blame: Blame) {
        let name = self.name(task);
        let waits = self.memory.run.as_ref().and_then(|run| run.tasks.get(&name)).filter(|task| task.state == TaskState::Starting);
        if let (Some(epoch), None) = (waits.and_then(|task| task.epoch), self.observed.slot(&name).instance()) {
            self.observed.slots.insert(name, Slot::Rejected { epoch, message: "quota".to_owned(), blame });
        }
    }

    fn decide(&self) -> Plan {
        let mut drawn = Vec::new();
        let plan = self.decide_from(&self.memory, &mut drawn);
        let restored = Memory::from_json(&self.memory.to_json()).unwrap();
        assert_eq!(plan, self.decide_from(&restored, &mut Vec::new()), "a restart changes no decision");
        self.check_delays(&plan, &drawn);
        let begins = plan.memory.run_number != self.memory.run_number;
        assert!(!begins || !self.observed.any_live(), "a run begins beside {:?}", self.observed.slots);
        plan
    }

    fn decide_from(&self, memory: &Memory, drawn: &mut Vec<f64>) -> Plan {
        let mut state = self.seed ^ memory.epoch ^ memory.run_number.rotate_left(17);
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn_now = (state >> 11) as f64 / (1_u64 << 53) as f64;
            drawn.push(drawn_now);
            drawn_now
        };
        decide(&self.desired, &self.observed, memory, self.now, &mut draw)
    }

    /// Stores the plan and carries out its first actions, or all of them.
    fn act(&mut self, count: usize) {
        let plan = self.decide();
        self.memory = plan.memory;
        self.wake_at = plan.wake_at;
        for action in plan.actions.iter().take(count) {
            self.carry_out(action);
        }
    }

    /// Until nothing is left to do, which must come soon; then the same look must give nothing.
    pub fn settle(&mut self) {
        for _ in 0..12 {
            let plan = self.decide();
            let idle = plan.actions.is_empty();
            self.memory = plan.memory;
            self.wake_at = plan.wake_at;
            plan.actions.iter().for_each(|action| self.carry_out(action));
            if idle {
                return self.check_rest();
            }
        }
        panic!("a busy loop: {:?}", self.decide().actions);
    }

    fn check_rest(&self) {
        let again = self.decide();
        assert!(again.actions.is_empty() && again.events.is_empty(), "nothing changed, nothing to do: {again:?}");
        assert_eq!(again.memory, self.memory, "nothing changed, nothing to write");
        assert!(again.wake_at.is_none_or(|at| at > self.now), "a wake-up in the past");
        let idle = self.desired.paused || again.finished.is_some() || (self.memory.run.is_none() && self.memory.suspended);
        assert!(idle || again.wake_at.is_some(), "nothing will ever happen again: {:?}", self.memory);
        let kinds: Vec<&str> = again.memory.conditions.iter().map(|condition| condition.kind.as_str()).collect();
        assert_eq!(kinds, weir_crds::resource::CONDITION_TYPES);
        let holds = |kind: &str| {
            let known = again.memory.conditions.iter().find(|condition| condition.kind == kind).unwrap();
            known.status == weir_supervisor::conditions::ConditionStatus::True
        };
        assert!(!(holds("Reconciling") && holds("Stalled")), "both Reconciling and Stalled");
        assert!(!(holds("Ready") && holds("Stalled")), "both Ready and Stalled");
    }

    fn carry_out(&mut self, action: &Action) {
        match action {
            Action::StartTask { task, epoch, run, generation, .. } => self.start(task, *epoch, *run, *generation),
            Action::StopTask { task, epoch, .. } => {
                let at = self.now;
                self.instance(task, *epoch).stop_order = StopOrder::Graceful { at };
            }
            Action::KillTask { task, epoch } => {
                let at = self.now;
                let instance = self.instance(task, *epoch);
                instance.stop_order = StopOrder::Kill;
                instance.phase = Phase::Exited(Exit { code: Some(137), report: None, cause: ExitCause::Own, log_tail: String::new(), at });
            }
            Action::ReleaseTask { task, epoch } => {
                let is_seen = self.memory.run.as_ref().is_some_and(|run| run.tasks[task].seen);
                assert!(is_seen, "released before it is remembered");
                self.instance(task, *epoch).phase = Phase::Starting(StartObstacle::None);
            }
            Action::ClearTask { task, epoch } => {
                assert!(matches!(self.instance(task, *epoch).phase, Phase::Exited(_)), "cleared something alive");
                self.observed.slots.remove(task);
            }
            Action::ForceRemoveTask { .. } => panic!("no node is lost in this world"),
            Action::ApplyLiveConfig { task, epoch, generation } => {
                self.instance(task, *epoch).config_generation = *generation;
            }
        }
    }

    fn start(&mut self, task: &str, epoch: u64, run: u64, generation: i64) {
        let slot = self.observed.slot(task);
        assert!(slot.is_free(), "task {task} was started on top of {slot:?}");
        assert!(!self.run_of.contains_key(&epoch), "epoch {epoch} was started before");
        // Several starts of one plan may be carried out in any order; an older plan's may not come back.
        let oldest_of_plan = self.highest_started.saturating_sub(self.desired.rules.tasks.len() as u64);
        assert!(epoch > oldest_of_plan && epoch <= self.memory.epoch, "epoch {epoch} after {}", self.highest_started);
        for slot in self.observed.slots.values() {
            if let Some(alive) = slot.live() {
                assert_eq!(self.run_of[&alive.epoch], (self.wipes, run), "two runs at once");
            }
        }
        assert!(self.seen_of.get(task).is_none_or(|seen| epoch > *seen), "epoch {epoch} is fenced");
        self.highest_started = self.highest_started.max(epoch);
        self.run_of.insert(epoch, (self.wipes, run));
        let instance = Instance {
            name: String::new(),
            epoch,
            created_at: self.now,
            phase: Phase::Starting(StartObstacle::Gated),
            stop_order: StopOrder::None,
            config_generation: generation,
            reported_at: None,
            queries: Vec::new(),
            place: None,
            held_by: Vec::new(),
        };
        self.observed.slots.insert(task.to_owned(), Slot::Present(Box::new(instance)));
    }

    fn instance(&mut self, task: &str, epoch: u64) -> &mut Instance {
        let there = self.observed.slot(task).instance().map(|instance| instance.epoch);
        assert_eq!(there, Some(epoch), "an order for another instance of {task}");
        match self.observed.slots.get_mut(task) {
            Some(Slot::Present(instance)) => instance,
            _ => unreachable!("just looked at"),
        }
    }

    /// The published formula, written once more, for whatever was newly scheduled.
    fn check_delays(&self, plan: &Plan, drawn: &[f64]) {
        let published = |n: u32, u: f64| {
            let base = (10.0 * 2_f64.powi(i32::try_from(n).unwrap() - 1)).min(300.0);
            base * (1.0 + 0.2 * u)
        };
        let is_published = |at: Timestamp, n: u32| {
            let waits = (at - self.now).num_milliseconds() as f64 / 1000.0;
            drawn.iter().any(|u| (published(n, *u) - waits).abs() < 0.002)
        };
        if let Some(next) = plan.memory.next_start.filter(|_| plan.memory.consecutive_failures > self.memory.consecutive_failures) {
            let failures = plan.memory.consecutive_failures;
            let n = if next.reason == StartReason::MaximumDelay { 30 } else { failures };
            assert!(is_published(next.at, n), "run failure {failures}: {next:?} at {}", self.now);
        }
        let number = plan.memory.run.as_ref().map(|run| run.number);
        let (Some(old), Some(new)) = (&self.memory.run, &plan.memory.run) else { return };
        for (name, task) in &new.tasks {
            let before = &old.tasks.get(name).map(|before| before.failures);
            let failed = number == Some(old.number) && *before < Some(task.failures);
            if let (true, Some(at)) = (failed, task.next_retry) {
                assert!(is_published(at, task.failures), "task failure {}: {at} at {}", task.failures, self.now);
            }
        }
    }

    /// Everything works from now on: the job must come back by its own wake-ups.
    pub fn behave(&mut self) {
        self.desired.rules.suspend = false;
        self.desired.paused = false;
        self.observed.shutdown = Shutdown::None;
        self.observed.slots.retain(|_, slot| !matches!(slot, Slot::Occupied { .. } | Slot::Unclassified { .. }));
        for _ in 0..200 {
            self.settle();
            let tasks = self.desired.rules.tasks.len();
            let mut moved = false;
            for task in 0..tasks {
                let at = self.now;
                let Some(instance) = self.live(task) else { continue };
                if instance.stop_order != StopOrder::None {
                    let report = Some(common::report(ExitClass::Stopped, instance.epoch));
                    instance.phase = Phase::Exited(Exit { code: Some(0), report, cause: ExitCause::Own, log_tail: String::new(), at });
                    moved = true;
                } else if instance.phase != Phase::Ready {
                    instance.phase = Phase::Ready;
                    moved = true;
                }
            }
            let run = self.memory.run.as_ref();
            // Under Never a task that failed before stays failed as long as its siblings run.
            let well = |state: TaskState| matches!(state, TaskState::Running | TaskState::Failed | TaskState::Succeeded);
            if !moved && run.is_some_and(|run| run.stop.is_none() && run.tasks.values().all(|task| well(task.state))) {
                return;
            }
            if !moved {
                self.now = self.wake_at.expect("a wake-up is pending");
            }
        }
        panic!("the job did not come back: {:?}", self.memory);
    }
}
