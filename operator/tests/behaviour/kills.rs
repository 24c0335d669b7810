//! M2: the operator is killed before and after every one of its API calls, and loses the answer of every write.
//!
//! Each case has a namespace of its own. A first operator brings the job to
//! where the sequence begins and ends; the change is made while none runs; a
//! second one is cut off at call k; a third one must reach the expected end.
//! Calls are counted anew in each case, so k goes on until nothing is cut off.
//! A process that dies loses all that it knew, so to be killed before call k+1
//! is to be killed after call k: the first call has both sides, the others one.

use futures::StreamExt;
use serde_json::json;
use weir_crds::exit::ExitClass;
use weir_testcluster::faults::{Caller, Effect, Matcher, Side, Times};
use weir_testcluster::kubelet::Signal;
use weir_testcluster::standin::Control;

use crate::world::{Running, World, condition, is_observed, job};

/// Cases side by side.
const SIDE_BY_SIDE: usize = 6;
/// No sequence has more calls than this.
const MOST_CALLS: usize = 60;

/// A change and what must come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sequence {
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

impl Sequence {
    /// Where the job is before the change.
    async fn prepare(self, world: &World) {
        if self == Sequence::Start {
            return;
        }
        let operator = world.operator().await;
        let mut wanted = quick_job();
        if self == Sequence::RunRestart {
            wanted["spec"]["taskRetry"]["maxRetries"] = json!(0);
        }
        wanted["spec"]["suspend"] = json!(self == Sequence::Resume);
        world.apply(&wanted).await;
        world.until_condition("j", "Ready", "True", "").await;
        operator.stop().await;
    }

    /// The change, made while no operator runs.
    async fn change(self, world: &World) {
        match self {
            Sequence::Start => drop(world.apply(&quick_job()).await),
            Sequence::TaskRetry | Sequence::RunRestart => {
                world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
                world
                    .kubelet
                    .wait_for("killed", |records| records.iter().all(|record| record.ended_at.is_some()).then_some(()))
                    .await
                    .unwrap();
            }
            Sequence::EditRun => drop(world.edit("j", json!({"spec": {"parameters": {"a": "b"}}})).await),
            Sequence::EditTask => {
                let mut edited = quick_job();
                edited["spec"]["tasks"][0]["queries"][0]["sql"] = json!("SELECT value FROM s");
                world.apply(&edited).await;
            }
            Sequence::Suspend => drop(world.edit("j", json!({"spec": {"suspend": true}})).await),
            Sequence::Resume => drop(world.edit("j", json!({"spec": {"suspend": false}})).await),
            Sequence::Nonce => drop(world.edit("j", json!({"spec": {"restartNonce": 7}})).await),
            Sequence::Delete => world.delete("j").await,
        }
    }

    /// Waits for what must come of it.
    async fn expect(self, world: &World, epoch_before: i64) {
        match self {
            Sequence::Delete => {
                world.until_gone("j").await;
                assert!(world.kubelet.running(&world.namespace, "j").is_empty());
            }
            Sequence::Suspend => {
                world.until_condition("j", "Ready", "True", "Suspended").await;
                assert!(world.kubelet.running(&world.namespace, "j").is_empty());
            }
            _ => {
                let what = format!("streaming above epoch {epoch_before} ({self:?})");
                let is_there = |job: &serde_json::Value| {
                    is_observed(job)
                        && condition(job, "Ready")["reason"] == "Streaming"
                        && job["status"]["epoch"].as_i64().unwrap_or(0) > epoch_before
                };
                world.until("j", &what, is_there).await;
                world
                    .kubelet
                    .wait_for("one process", |_| (world.kubelet.running(&world.namespace, "j").len() == 1).then_some(()))
                    .await
                    .unwrap();
            }
        }
    }
}

fn quick_job() -> serde_json::Value {
    let mut job = job("j", &["t"]);
    job["spec"]["restart"] = json!({"initialDelay": "50ms", "maxDelay": "50ms", "jitterPercent": 0, "minInterval": "50ms"});
    job["spec"]["taskRetry"] = json!({"maxRetries": 3, "initialDelay": "50ms", "maxDelay": "50ms"});
    job
}

/// One case; whether the operator was cut off before it was done.
async fn cut_off(sequence: Sequence, index: usize, side: Side) -> bool {
    let world = World::new("kills").await;
    sequence.prepare(&world).await;
    let before = world.jobs().get_opt("j").await.unwrap();
    let epoch = before.and_then(|job| job.data["status"]["epoch"].as_i64()).unwrap_or(0);
    sequence.change(&world).await;
    let victim = world.operator().await;
    victim.faults.stop_at(index, side);
    let reached = tokio::select! {
        () = victim.faults.reached() => true,
        () = sequence.expect(&world, epoch) => false,
    };
    victim.kill().await;
    let heir = world.operator().await;
    sequence.expect(&world, epoch).await;
    finish(&world, heir).await;
    reached
}

async fn finish(world: &World, operator: Running) {
    operator.stop().await;
    world.check(&[("j", "t")]);
}

/// Cuts off at every index of a sequence, on both sides of the call.
async fn at_every_call(sequence: Sequence) {
    let cases = std::iter::once((0, Side::Before)).chain((0..MOST_CALLS).map(|index| (index, Side::After)));
    let mut results = futures::stream::iter(cases)
        .map(|(index, side)| async move {
            (
                index,
                tokio::spawn(cut_off(sequence, index, side)).await.unwrap_or_else(|panic| panic!("{sequence:?} {index} {side:?}: {panic}")),
            )
        })
        .buffered(SIDE_BY_SIDE);
    let mut calls = 0;
    while let Some((index, reached)) = results.next().await {
        if !reached {
            break;
        }
        calls = index + 1;
    }
    println!("{sequence:?}: {calls} calls");
    assert!(calls >= 4 && calls < MOST_CALLS, "{sequence:?}: {calls} calls");
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
    let cases = sequences.into_iter().flat_map(|sequence| (1..=6_usize).map(move |lost| (sequence, lost)));
    futures::stream::iter(cases)
        .for_each_concurrent(SIDE_BY_SIDE, |(sequence, lost)| async move {
            let world = World::new("lost").await;
            sequence.prepare(&world).await;
            let before = world.jobs().get_opt("j").await.unwrap();
            let epoch = before.and_then(|job| job.data["status"]["epoch"].as_i64()).unwrap_or(0);
            sequence.change(&world).await;
            let operator = world.operator().await;
            operator.faults.add(Matcher::any().writes(), Times::Next(lost), Effect::LoseResponse(Caller::SeesReset));
            sequence.expect(&world, epoch).await;
            let job = world.jobs().get_opt("j").await.unwrap();
            let failures = job.map_or(json!(0), |job| job.data["status"]["consecutiveFailures"].clone());
            assert!(failures == 0 || failures.is_null(), "{sequence:?} {lost}: {failures}");
            finish(&world, operator).await;
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m02_a_pod_whose_answer_was_lost_is_taken_over() {
    let world = World::new("adopt").await;
    world.control("j", "t", &Control::default().for_epoch(9, Control::fails(ExitClass::Retryable)));
    let operator = world.operator().await;
    operator.faults.add(Matcher::any().resource("pods").writes(), Times::Once, Effect::LoseResponse(Caller::SeesReset));
    world.apply(&quick_job()).await;
    let shown = world.until_streaming("j").await;
    assert_eq!(shown["status"]["epoch"], 1, "the pod of the lost answer runs on");
    assert_eq!(shown["status"]["totalRestarts"]["disruption"], 0);
    finish(&world, operator).await;
}
