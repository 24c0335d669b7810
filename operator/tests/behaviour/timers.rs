//! M4: timers live in the status; neither lost watches nor lost operators lose them.

use std::time::Duration;

use chrono::TimeDelta;
use serde_json::json;
use weir_crds::exit::ExitClass;
use weir_operator::clock::Clock;
use weir_testcluster::faults::{Effect, Matcher, Refusal, Times, Verb, WatchEffect};
use weir_testcluster::standin::{Control, Ending};
use weir_testcluster::wait::eventually;

use crate::telling::{fragile, is_prompt, next_start, run_began, time};
use crate::world::{PATIENCE, Running, World, condition, job};

const SECOND: Duration = Duration::from_secs(1);

/// A world in which the first run of `j` has failed and the next is 60 s away, and what is stored.
async fn waiting(prefix: &str) -> (World, Running, serde_json::Value) {
    let world = World::new(prefix).await;
    let operator = world.operator().await;
    world.control("j", "t", &Control::default().for_epoch(1, Control::fails(ExitClass::Retryable)));
    world.apply(&fragile("j", json!({"initialDelay": "60s", "maxDelay": "5m"}))).await;
    let shown = world.until_failed("j", 1).await;
    assert_eq!(condition(&shown, "BackingOff")["status"], "True");
    assert_eq!(next_start(&shown).timestamp(), time(&shown["status"]["nextRestartTime"]).timestamp());
    (world, operator, shown)
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_backoff_ends_on_time_with_all_watches_cut() {
    let (world, operator, shown) = waiting("m4-cut").await;
    operator.faults.disturb_watches(Matcher::any(), WatchEffect::Stall);
    let due = next_start(&shown);
    world.advance_to(due - TimeDelta::seconds(1));
    let shown = world.until_run("j", 2).await;
    assert!(is_prompt(run_began(&shown), due), "{} is not {due}", run_began(&shown));
    world.until_streaming("j").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_an_operator_that_restarts_mid_wait_neither_shortens_nor_lengthens_it() {
    let (world, operator, shown) = waiting("m4-restart").await;
    let due = next_start(&shown);
    operator.kill().await;
    world.clock.advance(20 * SECOND);
    let operator = world.operator().await;
    world.until_run_of_passes(&operator).await;
    assert_eq!(next_start(&serde_json::to_value(world.job("j").await).unwrap()), due);
    world.advance_to(due - TimeDelta::seconds(1));
    let shown = world.until_run("j", 2).await;
    assert!(is_prompt(run_began(&shown), due), "{} is not {due}", run_began(&shown));
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_stored_time_in_the_past_starts_at_once() {
    let (world, operator, shown) = waiting("m4-past").await;
    let long_ago = json!({"at": "2001-01-01T00:00:00Z", "reason": "Backoff"});
    world.meddle("j", json!({"memory": {"nextStart": long_ago}})).await;
    let began = run_began(&world.until_run("j", 2).await);
    assert!(began < next_start(&shown), "{began}");
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_stored_time_far_ahead_is_clamped() {
    let (world, operator, _) = waiting("m4-far").await;
    let now = world.clock.now();
    let far = json!({"at": "2101-01-01T00:00:00Z", "reason": "Backoff"});
    world.meddle("j", json!({"memory": {"nextStart": far}})).await;
    let shown = world.until("j", "clamped", |job| next_start(job) < now + TimeDelta::days(1)).await;
    let due = next_start(&shown);
    assert!(due <= world.clock.now() + TimeDelta::minutes(5), "{due}");
    world.advance_to(due - TimeDelta::seconds(1));
    let began = run_began(&world.until_run("j", 2).await);
    assert!(is_prompt(began, due), "{began} is not {due}");
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_stored_time_of_an_older_form_does_not_stop_the_job() {
    let (world, operator, shown) = waiting("m4-form").await;
    world.meddle("j", json!({"memory": {"nextStart": "in a minute"}})).await;
    let note = world.until_event("j", "StatusUnreadable").await;
    assert!(note.contains("starts afresh"), "{note}");
    let new = world.until_streaming("j").await;
    assert!(new["status"]["epoch"].as_u64() > shown["status"]["epoch"].as_u64());
    // The same with the memory wiped: what was shown goes on, and its times with it.
    world.meddle("j", json!({"memory": null})).await;
    let wiped = world.until("j", "in a run above", |job| job["status"]["epoch"].as_u64() > new["status"]["epoch"].as_u64()).await;
    assert!(!wiped["status"]["memory"].is_null());
    world.until_streaming("j").await;
    // A clock that is set back takes no transition back.
    world.clock.set_back(600 * SECOND);
    world.edit("j", json!({"spec": {"restartNonce": 1}})).await;
    world.until("j", "in a run above", |job| job["status"]["epoch"].as_u64() > wiped["status"]["epoch"].as_u64()).await;
    world.until_streaming("j").await;
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_a_wake_up_that_fails_three_times_is_repeated() {
    let (world, operator, shown) = waiting("m4-500").await;
    let due = next_start(&shown);
    let reads = Matcher::any().verb(Verb::Get).resource("streamingjobs").name("j");
    let rule = operator.faults.add(reads, Times::Next(3), Effect::Answer(Refusal::code(500)));
    // A pass under way has read the job already; the first that is refused begins after it.
    world.clock.advance(Duration::from_secs(1));
    let refused = || async {
        anyhow::ensure!(!operator.faults.hits(rule).is_empty(), "no pass since");
        Ok(())
    };
    eventually("a refused pass", PATIENCE, refused).await.unwrap();
    world.advance_to(due);
    let shown = world.until_run("j", 2).await;
    assert_eq!(operator.faults.hits(rule).len(), 3);
    // The pauses after three failed passes are 0.5, 1 and 2 s, with a fifth of jitter.
    let late = run_began(&shown) - due;
    assert!(late <= TimeDelta::milliseconds(6200), "{late}");
    world.until_streaming("j").await;
    assert_eq!(world.processes("j"), 2);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m4_run_now_ends_a_backoff_and_is_ignored_while_a_run_is_alive() {
    let (world, operator, shown) = waiting("m4-now").await;
    world.annotate("j", "weir.dev/run-now", "first").await;
    let streaming = world.until_streaming("j").await;
    assert!(run_began(&streaming) < next_start(&shown));
    assert_eq!((&streaming["status"]["handledRunNow"], &streaming["status"]["consecutiveFailures"]), (&json!("first"), &json!(0)));
    world.annotate("j", "weir.dev/run-now", "second").await;
    let note = world.until_event("j", "RunNowIgnored").await;
    assert!(note.contains("a run is alive"), "{note}");
    assert_eq!(world.job("j").await.data["status"]["run"]["number"], 2);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manual_job_runs_once_per_token() {
    let world = World::new("manual").await;
    let operator = world.operator().await;
    world.control("j", "t", &Control::ends(2, Ending::Complete));
    let mut manual = job("j", &["t"]);
    manual["spec"]["trigger"] = json!({"manual": {}});
    world.apply(&manual).await;
    let idle = world.until_condition("j", "Ready", "True", "WaitingForTrigger").await;
    assert!(idle["status"]["run"].is_null());
    for (token, number) in [("a", 1), ("b", 2)] {
        world.annotate("j", "weir.dev/run-now", token).await;
        let what = format!("done with run {number}");
        let done = |job: &serde_json::Value| {
            job["status"]["lastRun"]["number"] == number && condition(job, "Ready")["reason"] == "WaitingForTrigger"
        };
        let shown = world.until("j", &what, done).await;
        assert_eq!((&shown["status"]["lastRun"]["result"], &shown["status"]["handledRunNow"]), (&json!("Succeeded"), &json!(token)));
    }
    // The token that was handled is still there, and starts nothing, with another operator either.
    operator.kill().await;
    let operator = world.operator().await;
    world.until_run_of_passes(&operator).await;
    assert_eq!(world.processes("j"), 2);
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_of_the_schedule_begins_one_run() {
    let world = World::new("schedule").await;
    let operator = world.operator().await;
    world.control("j", "t", &Control::ends(2, Ending::Complete));
    let mut nightly = job("j", &["t"]);
    nightly["spec"]["trigger"] = json!({"schedule": {"cron": "0 3 * * *", "timeZone": "UTC"}});
    nightly["spec"]["tasks"][0]["queries"][0]["trigger"] = json!({"availableNow": {}});
    world.apply(&nightly).await;
    world.until_condition("j", "Ready", "True", "WaitingForTrigger").await;
    assert_eq!(world.processes("j"), 0);
    for number in [1, 2] {
        world.clock.advance(24 * 3600 * SECOND);
        let done = |job: &serde_json::Value| {
            job["status"]["lastRun"]["number"] == number && condition(job, "Ready")["reason"] == "WaitingForTrigger"
        };
        let shown = world.until("j", "done with its run", done).await;
        assert_eq!(shown["status"]["lastRun"]["result"], "Succeeded");
    }
    assert_eq!(world.processes("j"), 2);
    operator.stop().await;
    world.check(&[("j", "t")]);
}
