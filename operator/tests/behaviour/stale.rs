//! M1: a watch is a reason to look, never a permission to create.
//!
//! The watch of pods, that of jobs, and both are ten minutes late or silent
//! while runs fail and jobs are annotated, deleted and made anew; then all that
//! was held back arrives at once. The audit log counts the creates.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use weir_testcluster::faults::{Matcher, WatchEffect};
use weir_testcluster::kubelet::Signal;

use crate::telling::fragile;
use crate::world::{Running, World, condition, is_observed};

const TEN_MINUTES: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn m01_late_and_silent_watches_authorise_no_second_pod() {
    let (pods, jobs) = ("pods", "streamingjobs");
    let late = WatchEffect::Delay(TEN_MINUTES);
    let cases: [(&[&str], WatchEffect); 4] =
        [(&[pods], late), (&[jobs], WatchEffect::Stall), (&[pods, jobs], late), (&[pods, jobs], WatchEffect::Stall)];
    join_all(cases.map(|(resources, effect)| in_the_dark(resources, effect))).await;
}

async fn in_the_dark(resources: &[&str], effect: WatchEffect) {
    let world = World::new("stale").await;
    let mark = world.plane.audit_mark().unwrap();
    let operator = world.operator().await;
    let wanted = fragile("j", json!({}));
    world.apply(&wanted).await;
    let first = uid(&world.until_streaming("j").await);
    let disturb = |resource: &&str| operator.faults.disturb_watches(Matcher::any().resource(resource), effect);
    let rules: Vec<_> = resources.iter().map(disturb).collect();

    a_run_fails_unseen(&world, &operator, 2).await;
    world.clock.advance(TEN_MINUTES);
    a_run_fails_unseen(&world, &operator, 3).await;

    world.delete("j").await;
    world.until_gone("j").await;
    let second = uid(&serde_json::to_value(world.apply(&wanted).await).unwrap());
    assert_ne!(first, second);
    // Where nobody hears of the new job, the clock makes the operator look at its name.
    world.clock.advance(TEN_MINUTES);
    let shown = world.until_streaming("j").await;
    assert_eq!((uid(&shown), &shown["metadata"]["generation"]), (second, &json!(1)), "a run of its own, of the same generation");
    let number = shown["status"]["run"]["number"].as_u64().unwrap();
    a_run_fails_unseen(&world, &operator, number + 1).await;

    // Everything that was held back arrives.
    rules.into_iter().for_each(|rule| operator.faults.remove(rule));
    world.annotate("j", "test/touched", "heard").await;
    world.until_run_of_passes(&operator).await;
    world.until_streaming("j").await;
    operator.stop().await;
    one_create_per_epoch(&world, mark).await;
    world.check(&[("j", "t")]);
}

/// The run's only process is killed; the job is touched meanwhile; the next run streams.
async fn a_run_fails_unseen(world: &World, operator: &Running, next: u64) {
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    for touch in 0..3 {
        world.annotate("j", "test/touched", &format!("{next}-{touch}")).await;
        world.until_run_of_passes(operator).await;
    }
    let streams = |job: &Value| {
        is_observed(job) && job["status"]["run"]["number"].as_u64() >= Some(next) && condition(job, "Ready")["reason"] == "Streaming"
    };
    world.until("j", &format!("streaming in run {next}"), streams).await;
}

fn uid(job: &Value) -> String {
    job["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Each create was granted, and made the only pod of its epoch.
async fn one_create_per_epoch(world: &World, mark: weir_testcluster::control_plane::AuditMark) {
    let writes = world.plane.writes_since(mark).await.unwrap();
    let creates: Vec<_> = writes
        .into_iter()
        .filter(|write| {
            (write.verb.as_str(), write.resource.as_str(), write.subresource.as_str(), &write.namespace)
                == ("create", "pods", "", &world.namespace)
        })
        .collect();
    assert!(creates.iter().all(|create| create.succeeded()), "{creates:#?}");
    let owner = |pod: &k8s_openapi::api::core::v1::Pod| pod.metadata.owner_references.as_ref().unwrap()[0].uid.clone();
    let pods = world.recorder.pods();
    let epochs: BTreeSet<_> = pods.iter().map(|pod| (owner(pod), weir_operator::names::epoch_of_pod(pod).unwrap())).collect();
    assert_eq!(creates.len(), epochs.len(), "{epochs:?}");
    assert!(epochs.len() >= 5, "{epochs:?}");
}
