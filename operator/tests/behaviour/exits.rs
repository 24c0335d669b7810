//! M5 and M11 in the large: what deadlines, modes and reserved exits do to pods and processes.

use std::time::Duration;

use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};
use weir_crds::exit::ExitClass;
use weir_operator::clock::Clock;
use weir_testcluster::invariants::{Kstatus, kstatus};
use weir_testcluster::kubelet::Signal;
use weir_testcluster::standin::{Control, Ending, Hang};
use weir_testcluster::wait::eventually;

use crate::telling::{fragile, next_start, task, time};
use crate::world::{IMAGE, PATIENCE, World, condition, job};

#[tokio::test(flavor = "multi_thread")]
async fn under_never_a_failed_task_stays_down_until_all_have_ended() {
    let world = World::new("never").await;
    let operator = world.operator().await;
    world.control("j", "a", &Control::default().for_epoch(1, Control::ends(1, Ending::fails(ExitClass::Retryable))));
    let mut never = job("j", &["a", "b"]);
    never["spec"]["trigger"] = json!({"continuous": {"taskRetryMode": "Never"}});
    never["spec"].as_object_mut().unwrap().remove("taskRetry");
    world.apply(&never).await;
    let shown = world.until_condition("j", "Degraded", "True", "TaskFailed").await;
    assert_eq!(
        (condition(&shown, "Ready")["reason"].clone(), condition(&shown, "Stalled")["status"].clone()),
        (json!("TaskFailed"), json!("True"))
    );
    assert_eq!(kstatus(&shown), Kstatus::Failed);
    let sibling = world.until("j", "half alive", |job| task(job, "b")["state"] == "Running").await;
    assert_eq!((&sibling["status"]["run"]["number"], world.processes("j")), (&json!(1), 2));
    world.kubelet.kill(&world.namespace, "j--b", Signal::KILL).unwrap();
    let shown = world.until_failed("j", 1).await;
    assert_eq!(shown["status"]["lastRun"]["result"], "Failed");
    world.advance_to(next_start(&shown));
    world.until_run_streams("j", 2).await;
    operator.stop().await;
    world.check(&[("j", "a"), ("j", "b")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_does_not_get_ready_in_time_is_stopped_and_counted() {
    let world = World::new("start-deadline").await;
    let operator = world.operator().await;
    world.control("j", "t", &Control::default().for_epoch(1, Control { gets_ready: false, ..Control::default() }));
    let mut slow = fragile("j", json!({}));
    slow["spec"]["startDeadline"] = json!("10m");
    world.apply(&slow).await;
    world.until("j", "starting", |_| world.processes("j") == 1).await;
    // The clock goes on by itself too: what is left must outlast a slow machine.
    world.clock.advance(Duration::from_secs(480));
    world.until_run_of_passes(&operator).await;
    assert_eq!(world.job("j").await.data["status"]["tasks"][0]["state"], "Starting");
    world.clock.advance(Duration::from_secs(121));
    let shown = world.until_failed("j", 1).await;
    let last = &shown["status"]["lastRun"];
    assert_eq!((&last["reason"], &last["cause"]), (&json!("StartDeadlineExceeded"), &json!("StartUp")));
    assert_eq!(shown["status"]["totalRestarts"], json!({"application": 0, "disruption": 0, "spec": 0, "startUp": 1}));
    world.until_event("j", "StartDeadlineExceeded").await;
    world.advance_to(next_start(&shown));
    world.until_run_streams("j", 2).await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ignores_the_order_to_stop_is_killed_after_stop_timeout() {
    let world = World::new("stop-timeout").await;
    let operator = world.operator().await;
    world.control("j", "t", &Control::default().for_epoch(1, Control { hang: Hang::Batches, ..Control::default() }));
    let mut stubborn = job("j", &["t"]);
    stubborn["spec"]["stopTimeout"] = json!("1m");
    world.apply(&stubborn).await;
    world.until_streaming("j").await;
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    let shown = world.until_condition("j", "PreviousRunTerminated", "False", "WaitingForTermination").await;
    assert_eq!(condition(&shown, "Ready")["reason"], "Upgrading");
    world.until_run_of_passes(&operator).await;
    assert_eq!(world.processes("j"), 1, "no successor beside it");
    world.clock.advance(Duration::from_secs(61));
    world.until_run_streams("j", 2).await;
    let records = world.kubelet.records();
    let signal = |at: usize| records[at].exit.as_ref().and_then(|exit| exit.signal);
    assert_eq!((signal(0), signal(1), records.len()), (Some(9), None, 2));
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_pod_is_kept_for_its_logs_as_long_as_asked() {
    let world = World::new("keep").await;
    let operator = world.operator().await;
    world.control("j", "t", &Control::default().for_epoch(1, Control::fails(ExitClass::Retryable)));
    let mut kept = fragile("j", json!({}));
    kept["spec"]["keepFailedFor"] = json!("10m");
    world.apply(&kept).await;
    let shown = world.until_failed("j", 1).await;
    let finished = time(&shown["status"]["memory"]["lastRun"]["finishedAt"]);
    let due = next_start(&shown);
    assert!(due > finished + TimeDelta::minutes(9) && due <= finished + TimeDelta::minutes(10), "{due} is not 10 min after {finished}");
    world.clock.advance(Duration::from_secs(500));
    world.until_run_of_passes(&operator).await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    assert_eq!(phase(&pods.get("j--t").await.unwrap()).as_deref(), Some("Failed"));
    assert!(due > world.clock.now());
    world.advance_to(due);
    world.until_run_streams("j", 2).await;
    assert_eq!(phase(&pods.get("j--t").await.unwrap()).as_deref(), Some("Running"));
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_task_goes_on_above_the_epoch_that_it_saw_and_nothing_is_counted() {
    let world = World::new("fenced").await;
    let operator = world.operator().await;
    let seen = Ending::Report {
        class: ExitClass::Fenced,
        reason: "FencedOut".to_owned(),
        message: "a newer epoch has the checkpoint".to_owned(),
        exit_code: None,
        query: Some("q".to_owned()),
        source_version: None,
        highest_epoch_seen: Some(40),
    };
    world.control("j", "t", &Control::default().for_epoch(1, Control::ends(1, seen)));
    world.apply(&fragile("j", json!({}))).await;
    let above = |job: &Value| job["status"]["epoch"] == 41 && condition(job, "Ready")["status"] == "True";
    let shown = world.until("j", "above the epoch seen", above).await;
    assert_eq!((&shown["status"]["consecutiveFailures"], &shown["status"]["run"]["number"]), (&json!(0), &json!(1)));
    assert_eq!(task(&shown, "t")["lastExit"]["class"], "Fenced");
    world.until_event("j", "FencedOut").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_of_zero_restarts_a_continuous_job_and_only_a_report_makes_it_a_success() {
    let world = World::new("zero").await;
    let operator = world.operator().await;
    let silent = Control::ends(1, Ending::Silent { exit_code: 0 });
    let done = Control::ends(1, Ending::Complete);
    world.control("j", "t", &Control::default().for_epoch(1, silent).for_epoch(2, done));
    world.apply(&fragile("j", json!({"minInterval": "5m"}))).await;
    // Exit 0 without a report is a disruption: another attempt of the same run. The report ends the run as a success.
    let shown = world.until_condition("j", "Ready", "True", "BetweenRuns").await;
    assert_eq!((&shown["status"]["lastRun"]["result"], &shown["status"]["lastRun"]["number"]), (&json!("Succeeded"), &json!(1)));
    assert_eq!((&shown["status"]["totalRestarts"]["disruption"], world.processes("j")), (&json!(1), 2));
    assert_eq!(kstatus(&shown), Kstatus::Current);
    world.advance_to(next_start(&shown));
    world.until_run_streams("j", 2).await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_is_told_within_the_start_deadline() {
    let world = World::new("image-pull").await;
    let operator = world.operator().await;
    world.kubelet.fail_image_pull(IMAGE);
    let mut wrong = fragile("j", json!({"initialDelay": "10s", "maxDelay": "5m"}));
    wrong["spec"]["startDeadline"] = json!("1m");
    world.apply(&wrong).await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let waits = || async {
        let pod = pods.get("j--t").await?;
        let waiting = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten())
            .any(|known| known.state.as_ref().is_some_and(|state| state.waiting.is_some()));
        anyhow::ensure!(waiting, "no container waits yet");
        Ok(())
    };
    eventually("a container that waits for its image", PATIENCE, waits).await.unwrap();
    world.clock.advance(Duration::from_secs(61));
    let shown = world.until_failed("j", 1).await;
    assert_eq!(
        (&shown["status"]["lastRun"]["reason"], &shown["status"]["lastRun"]["cause"]),
        (&json!("ImagePullFailed"), &json!("StartUp"))
    );
    assert_eq!(condition(&shown, "Ready")["reason"], "ImagePullFailed");
    world.until_event("j", "ImagePullFailed").await;
    world.kubelet.allow_image_pull(IMAGE);
    world.advance_to(next_start(&shown));
    world.until_run_streams("j", 2).await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}
