//! M2: the operator is killed before and after every one of its API calls, and loses the answer of every write.
//!
//! A case begins where the sequence begins and no operator runs; the change is
//! made; an operator is cut off at call k; another one must reach the expected
//! end. That end is where the next case begins, so a world serves many cases,
//! and a few worlds side by side share them out. Calls are counted anew in each
//! case, so k goes on until nothing is cut off. A process that dies loses all
//! that it knew, so to be killed before call k+1 is to be killed after call k:
//! the first call has both sides, the others one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use weir_crds::exit::ExitClass;
use weir_testcluster::faults::{Caller, Effect, Matcher, Side, Times};
use weir_testcluster::kubelet::{ProcessRecord, Signal};
use weir_testcluster::standin::Control;

use crate::world::{Running, World, condition, is_observed, job};

/// Worlds that share the cases of a sequence.
const WORLDS: usize = 4;
/// No sequence has more calls than this.
const MOST_CALLS: usize = 60;

/// When a run counts as stable.
const STABLE: &str = "20s";
/// Longer than that.
const PAST_STABLE: Duration = Duration::from_secs(21);

/// A change and what must come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    Start,
    TaskRetry,
    RunRestart,
    EditRun,
    EditTask,
    Suspend,
    Resume,
    Nonce,
    Delete,
}

/// A world in which one sequence is gone through again and again.
pub struct Chain {
    pub sequence: Sequence,
    pub world: World,
    /// The one that reached the last end.
    operator: Option<Running>,
    round: usize,
    epoch_before: i64,
}

impl Chain {
    pub async fn new(sequence: Sequence) -> Chain {
        Chain { sequence, world: World::new("kills").await, operator: None, round: 0, epoch_before: 0 }
    }

    /// The job of this round; where one comes or goes, each round has its own.
    pub fn job(&self) -> String {
        match self.sequence {
            Sequence::Start | Sequence::Delete => format!("j{}", self.round),
            _ => "j".to_owned(),
        }
    }

    /// Brings the job to where the sequence begins, and makes the change while no operator runs.
    pub async fn begin(&mut self) {
        let before = self.job();
        self.round += 1;
        let job = self.job();
        if let Some(operator) = self.operator.take() {
            match self.sequence {
                Sequence::Start => {
                    self.world.delete(&before).await;
                    self.world.until_gone(&before).await;
                }
                Sequence::Delete => drop(self.world.apply(&self.wanted()).await),
                Sequence::Suspend => drop(self.world.edit(&job, json!({"spec": {"suspend": false}})).await),
                Sequence::Resume => drop(self.world.edit(&job, json!({"spec": {"suspend": true}})).await),
                Sequence::RunRestart => {
                    // The failures of earlier rounds are forgotten.
                    self.world.clock.advance(PAST_STABLE);
                    self.world.until(&job, "stable", |job| job["status"]["consecutiveFailures"] == 0).await;
                }
                _ => {}
            }
            self.until_prepared().await;
            operator.stop().await;
        } else if self.sequence != Sequence::Start {
            let operator = self.world.operator().await;
            self.world.apply(&self.wanted()).await;
            self.until_prepared().await;
            operator.stop().await;
        }
        let before = self.world.jobs().get_opt(&job).await.unwrap();
        self.epoch_before = before.and_then(|job| job.data["status"]["epoch"].as_i64()).unwrap_or(0);
        self.change().await;
    }

    async fn until_prepared(&self) {
        match self.sequence {
            Sequence::Start => {}
            Sequence::Resume => drop(self.world.until_condition(&self.job(), "Ready", "True", "Suspended").await),
            _ => drop(self.world.until_streaming(&self.job()).await),
        }
    }

    /// The job before the change.
    fn wanted(&self) -> Value {
        let mut wanted = job(&self.job(), &["t"]);
        wanted["spec"]["restart"] =
            json!({"initialDelay": "50ms", "maxDelay": "50ms", "jitterPercent": 0, "minInterval": "50ms", "stableAfter": STABLE});
        let retries = if self.sequence == Sequence::RunRestart { 0 } else { 100 };
        wanted["spec"]["taskRetry"] = json!({"maxRetries": retries, "initialDelay": "50ms", "maxDelay": "50ms"});
        wanted["spec"]["suspend"] = json!(self.sequence == Sequence::Resume);
        if self.sequence == Sequence::Start {
            // Nothing was ever begun, so no fence is needed to go on.
            wanted["spec"]["tasks"][0]["queries"][0]["sink"] = json!({"format": "console"});
        }
        wanted
    }

    async fn change(&self) {
        let (world, job) = (&self.world, &*self.job());
        let edit = |spec: Value| world.edit(job, json!({"spec": spec}));
        match self.sequence {
            Sequence::Start => drop(world.apply(&self.wanted()).await),
            Sequence::TaskRetry | Sequence::RunRestart => {
                world.kubelet.kill(&world.namespace, &format!("{job}--t"), Signal::KILL).unwrap();
                let all_ended = |records: &[ProcessRecord]| records.iter().all(|record| record.ended_at.is_some()).then_some(());
                world.kubelet.wait_for("the end of the process", all_ended).await.unwrap();
            }
            Sequence::EditRun => drop(edit(json!({"parameters": {"a": self.round.to_string()}})).await),
            Sequence::EditTask => {
                let mut edited = self.wanted();
                edited["spec"]["tasks"][0]["queries"][0]["sql"] = json!(format!("SELECT value, {} FROM s", self.round));
                world.apply(&edited).await;
            }
            Sequence::Suspend => drop(edit(json!({"suspend": true})).await),
            Sequence::Resume => drop(edit(json!({"suspend": false})).await),
            Sequence::Nonce => drop(edit(json!({"restartNonce": self.round})).await),
            Sequence::Delete => world.delete(job).await,
        }
    }

    /// Waits for what must come of the change.
    pub async fn expect(&self) {
        let (world, job, epoch_before) = (&self.world, &*self.job(), self.epoch_before);
        match self.sequence {
            Sequence::Delete => {
                world.until_gone(job).await;
                assert!(world.kubelet.running(&world.namespace, job).is_empty());
            }
            Sequence::Suspend => {
                world.until_condition(job, "Ready", "True", "Suspended").await;
                assert!(world.kubelet.running(&world.namespace, job).is_empty());
            }
            _ => {
                let what = format!("streaming above epoch {epoch_before} ({:?})", self.sequence);
                let is_there = |job: &Value| {
                    is_observed(job)
                        && condition(job, "Ready")["reason"] == "Streaming"
                        && job["status"]["epoch"].as_i64().unwrap_or(0) > epoch_before
                };
                world.until(job, &what, is_there).await;
                let one = |_: &[ProcessRecord]| (world.kubelet.running(&world.namespace, job).len() == 1).then_some(());
                world.kubelet.wait_for("one process", one).await.unwrap();
            }
        }
    }

    /// The end of a case, which this operator reached.
    pub async fn reached_by(&mut self, operator: Running) {
        let jobs: Vec<String> = match self.sequence {
            Sequence::Start | Sequence::Delete => (1..=self.round).map(|round| format!("j{round}")).collect(),
            _ => vec![self.job()],
        };
        self.world.check(&jobs.iter().map(|job| (&**job, "t")).collect::<Vec<_>>());
        self.operator = Some(operator);
    }

    pub async fn end(mut self) {
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
    }

    /// One case; whether the operator was cut off before it was done.
    async fn cut_off(&mut self, index: usize, side: Side) -> bool {
        let _named = Named(format!("{:?}, call {index}, {side:?}", self.sequence));
        self.begin().await;
        let victim = self.world.operator_cut_off_at(index, side).await;
        let reached = tokio::select! {
            () = victim.faults.reached() => true,
            () = self.expect() => false,
        };
        victim.kill().await;
        let heir = self.world.operator().await;
        self.expect().await;
        self.reached_by(heir).await;
        reached
    }
}

/// Says where a test was when it panicked.
pub struct Named(pub String);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the case: {}", self.0);
        }
    }
}

/// Cuts off at every index of a sequence, on both sides of the call.
async fn at_every_call(sequence: Sequence) {
    let (next, end) = (AtomicUsize::new(0), AtomicUsize::new(MOST_CALLS));
    let share = || async {
        let mut chain = Chain::new(sequence).await;
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number >= end.load(Ordering::SeqCst) {
                return chain.end().await;
            }
            let (index, side) = if number == 0 { (0, Side::Before) } else { (number - 1, Side::After) };
            if !chain.cut_off(index, side).await {
                end.fetch_min(number, Ordering::SeqCst);
            }
        }
    };
    join_all((0..WORLDS).map(|_| share())).await;
    let calls = end.into_inner() - 1;
    println!("{sequence:?}: {calls} calls");
    assert!(calls >= 4 && calls < MOST_CALLS - 1, "{sequence:?}: {calls} calls");
}

macro_rules! sequences {
    ($($name:ident: $sequence:ident,)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            at_every_call(Sequence::$sequence).await;
        })*
    };
}

sequences! {
    m02_killed_at_every_call_of_a_start: Start,
    m02_killed_at_every_call_of_a_task_retry: TaskRetry,
    m02_killed_at_every_call_of_a_run_restart: RunRestart,
    m02_killed_at_every_call_of_a_run_edit: EditRun,
    m02_killed_at_every_call_of_a_task_edit: EditTask,
    m02_killed_at_every_call_of_a_suspend: Suspend,
    m02_killed_at_every_call_of_a_resume: Resume,
    m02_killed_at_every_call_of_a_restart_nonce: Nonce,
    m02_killed_at_every_call_of_a_delete: Delete,
}

#[tokio::test(flavor = "multi_thread")]
async fn m02_lost_answers_of_the_first_writes_are_no_failures() {
    let sequences = [Sequence::Start, Sequence::TaskRetry, Sequence::EditRun, Sequence::Suspend, Sequence::Resume, Sequence::Delete];
    join_all(sequences.map(|sequence| async move {
        let mut chain = Chain::new(sequence).await;
        for lost in [1, 2, 3, 5] {
            let _named = Named(format!("{sequence:?}, {lost} answers lost"));
            chain.begin().await;
            let operator = chain.world.operator().await;
            operator.faults.add(Matcher::any().writes(), Times::Next(lost), Effect::LoseResponse(Caller::SeesReset));
            chain.expect().await;
            let job = chain.world.jobs().get_opt(&chain.job()).await.unwrap();
            let failures = job.map_or(json!(0), |job| job.data["status"]["consecutiveFailures"].clone());
            assert!(failures == 0 || failures.is_null(), "{failures}");
            operator.faults.clear();
            chain.reached_by(operator).await;
        }
        chain.end().await;
    }))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m02_a_pod_whose_answer_was_lost_is_taken_over() {
    let world = World::new("adopt").await;
    world.control("j", "t", &Control::default().for_epoch(9, Control::fails(ExitClass::Retryable)));
    let operator = world.operator().await;
    operator.faults.add(Matcher::any().resource("pods").writes(), Times::Once, Effect::LoseResponse(Caller::SeesReset));
    world.apply(&job("j", &["t"])).await;
    let shown = world.until_streaming("j").await;
    assert_eq!(shown["status"]["epoch"], 1, "the pod of the lost answer runs on");
    assert_eq!(shown["status"]["totalRestarts"]["disruption"], 0);
    operator.stop().await;
    world.check(&[("j", "t")]);
}
