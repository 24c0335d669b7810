//! M5: the published formula, its counters and what resets them.

use std::time::Duration;

use chrono::TimeDelta;
use serde_json::{Value, json};
use weir_crds::exit::ExitClass;
use weir_testcluster::kubelet::Signal;
use weir_testcluster::standin::Control;

use crate::telling::{fragile, next_start, run_began, time};
use crate::world::{World, condition, job};

/// The delay that was stored with the last failure, ms.
fn delay(job: &Value) -> i64 {
    (next_start(job) - time(&job["status"]["memory"]["lastRun"]["finishedAt"])).num_milliseconds()
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_twelve_failures_wait_by_the_formula_though_the_operator_restarts_after_each() {
    let world = World::new("m5-twelve").await;
    let mut operator = world.operator().await;
    for (name, jitter) in [("even", 0), ("spread", 20)] {
        world.control(name, "t", &Control::fails(ExitClass::Retryable));
        let restart = json!({"initialDelay": "10s", "multiplier": 2, "maxDelay": "5m", "jitterPercent": jitter});
        world.apply(&fragile(name, restart)).await;
    }
    for count in 1..=12 {
        let base = (10_000 * 2_i64.pow(count - 1)).min(300_000);
        let even = world.until_failed("even", u64::from(count)).await;
        let spread = world.until_failed("spread", u64::from(count)).await;
        assert_eq!(delay(&even), base, "failure {count}");
        assert!((base..base + base / 5).contains(&delay(&spread)), "failure {count}: {}", delay(&spread));
        assert_eq!(condition(&even, "BackingOff")["status"], "True");
        let reason = condition(&even, "Ready")["reason"].clone();
        assert_eq!(reason, if count < 3 { "BackingOff" } else { "CrashLooping" });
        operator.kill().await;
        operator = world.operator().await;
        world.until_run_of_passes(&operator).await;
        for (name, before) in [("even", &even), ("spread", &spread)] {
            let after = serde_json::to_value(world.job(name).await).unwrap();
            assert_eq!(next_start(&after), next_start(before), "{name}: what is stored is never drawn again");
        }
        world.advance_to(next_start(&even).max(next_start(&spread)));
    }
    let shown = world.until_failed("even", 13).await;
    assert_eq!(shown["status"]["history"].as_array().unwrap().len(), 10);
    assert_eq!(shown["status"]["totalRestarts"]["application"], 13);
    operator.stop().await;
    world.check(&[("even", "t"), ("spread", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_a_stable_run_resets_the_counter_in_status_before_the_next_failure() {
    let world = World::new("m5-reset").await;
    let operator = world.operator().await;
    let failing = || Control::fails(ExitClass::Retryable);
    world.control("j", "t", &Control::default().for_epoch(1, failing()).for_epoch(2, failing()));
    world.apply(&fragile("j", json!({"initialDelay": "10s", "maxDelay": "5m", "stableAfter": "60s"}))).await;
    for count in [1, 2] {
        let shown = world.until_failed("j", count).await;
        world.advance_to(next_start(&shown));
    }
    let shown = world.until_streaming("j").await;
    assert_eq!(shown["status"]["consecutiveFailures"], 2);
    world.clock.advance(Duration::from_secs(61));
    let shown = world.until("j", "reset", |job| job["status"]["consecutiveFailures"] == 0).await;
    assert_eq!((&shown["status"]["run"]["number"], condition(&shown, "Ready")["reason"].clone()), (&json!(3), json!("Streaming")));
    assert!(world.until_event("j", "BackoffReset").await.contains("stableAfter"));
    world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
    let shown = world.until_failed("j", 1).await;
    assert_eq!(delay(&shown), 10_000);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_an_edit_while_waiting_starts_at_once() {
    let world = World::new("m5-edit").await;
    let operator = world.operator().await;
    world.control("j", "t", &Control::default().for_epoch(1, Control::fails(ExitClass::Config)));
    world.apply(&fragile("j", json!({"initialDelay": "1m", "maxDelay": "5m"}))).await;
    let waiting = world.until_condition("j", "Stalled", "True", "NonRetryableExit").await;
    assert_eq!(condition(&waiting, "BackingOff")["reason"], "AtMaximumDelay");
    // An edit that disturbs nothing leaves the wait alone.
    world.edit("j", json!({"spec": {"stopTimeout": "7s"}})).await;
    let shown = world.until("j", "observed", crate::world::is_observed).await;
    assert_eq!(next_start(&shown), next_start(&waiting));
    world.edit("j", json!({"spec": {"parameters": {"fixed": "yes"}}})).await;
    let shown = world.until_streaming("j").await;
    assert!(run_began(&shown) < next_start(&waiting) - TimeDelta::minutes(3));
    assert_eq!(shown["status"]["consecutiveFailures"], 0);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_disruptions_between_failures_leave_the_counter_alone() {
    let world = World::new("m5-drain").await;
    let operator = world.operator().await;
    world.apply(&fragile("j", json!({"initialDelay": "10s", "maxDelay": "5m"}))).await;
    for count in 1..=2_u64 {
        let before = world.until_run_streams("j", count).await;
        assert_eq!(before["status"]["consecutiveFailures"], count - 1);
        world.kubelet.evict(&world.namespace, "j--t", "Evicted").unwrap();
        let replaced = |job: &Value| {
            job["status"]["totalRestarts"]["disruption"] == count
                && job["status"]["tasks"][0]["attempt"] == 2
                && condition(job, "Ready")["status"] == "True"
        };
        let shown = world.until("j", "replaced after a disruption", replaced).await;
        assert_eq!((&shown["status"]["consecutiveFailures"], &shown["status"]["run"]["number"]), (&json!(count - 1), &json!(count)));
        world.kubelet.kill(&world.namespace, "j--t", Signal::KILL).unwrap();
        let shown = world.until_failed("j", count).await;
        assert_eq!(delay(&shown), 10_000 * i64::try_from(count).unwrap());
        assert_eq!((&shown["status"]["lastRun"]["cause"], &shown["status"]["lastRun"]["exitCode"]), (&json!("Application"), &json!(137)));
        world.advance_to(next_start(&shown));
    }
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_used_up_task_retries_back_off_and_the_next_run_has_a_higher_epoch() {
    let world = World::new("m5-tasks").await;
    let operator = world.operator().await;
    let failing = || Control::fails(ExitClass::Retryable);
    world.control("j", "b", &Control::default().for_epoch(2, failing()).for_epoch(3, failing()));
    let mut two = job("j", &["a", "b"]);
    two["spec"]["taskRetry"] = json!({"maxRetries": 1, "initialDelay": "20s", "maxDelay": "1m"});
    two["spec"]["restart"] = json!({"initialDelay": "30s", "maxDelay": "5m", "jitterPercent": 0});
    world.apply(&two).await;
    let shown = world.until_condition("j", "Degraded", "True", "TaskRetrying").await;
    let row = crate::telling::task(&shown, "b");
    assert_eq!((&row["state"], &row["lastExit"]["exitCode"]), (&json!("WaitingForRetry"), &json!(10)));
    let retry = time(&row["nextRetryTime"]);
    let sibling = world.pid("j", "a");
    world.advance_to(retry + TimeDelta::seconds(1));
    let shown = world.until_failed("j", 1).await;
    assert_eq!((&shown["status"]["lastRun"]["result"], delay(&shown)), (&json!("Failed"), 30_000));
    assert_eq!(condition(&shown, "Ready")["reason"], "BackingOff");
    assert_eq!(world.kubelet.records().iter().filter(|record| record.task == "a").map(|record| record.pid).collect::<Vec<_>>(), [sibling]);
    let epoch = shown["status"]["epoch"].as_u64();
    world.advance_to(next_start(&shown));
    let shown = world.until_run_streams("j", 2).await;
    assert!(shown["status"]["epoch"].as_u64() > epoch);
    let row = crate::telling::task(&shown, "b");
    assert_eq!((&row["attempt"], &row["lastExit"], &row["nextRetryTime"]), (&json!(1), &Value::Null, &Value::Null));
    operator.stop().await;
    world.check(&[("j", "a"), ("j", "b")]);
}
