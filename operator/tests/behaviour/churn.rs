//! M6: a job to which nothing happens is written and read no more than its interval allows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use weir_crds::exit::ExitClass;
use weir_operator::settings::Settings;
use weir_testcluster::control_plane::AuditEvent;
use weir_testcluster::faults::{Call, Verb};
use weir_testcluster::standin::{Control, Ending};

use crate::telling::fragile;
use crate::world::{World, condition, job};

/// How long the steady jobs are watched.
const WATCHED: Duration = Duration::from_secs(7);
/// Least time between two writes for progress alone.
const PROGRESS: Duration = Duration::from_secs(3);
/// How often a streaming task is asked.
const POLL: Duration = Duration::from_secs(1);

/// What a steady job is made of, how many of its kind there are, and what its Ready says.
fn kinds() -> [(&'static str, usize, Value, &'static str); 5] {
    let one = || fragile("x", json!({"initialDelay": "5m", "maxDelay": "5m"}));
    let with = |field: &str, value: Value| {
        let mut job = one();
        job["spec"][field] = value;
        job
    };
    let mut refused = one();
    refused["spec"]["tasks"][0]["queries"][0]["sql"] = json!("SELECT 1 -- REFUSE: as asked");
    [
        ("streaming", 15, one(), "Streaming"),
        ("failing", 15, one(), "BackingOff"),
        ("suspended", 60, with("suspend", json!(true)), "Suspended"),
        ("manual", 60, with("trigger", json!({"manual": {}})), "WaitingForTrigger"),
        ("refused", 50, refused, "SpecInvalid"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn m6_two_hundred_steady_jobs_cause_no_write_but_paced_progress() {
    let world = World::new("m6").await;
    let settings = Settings { poll_interval: POLL, progress_interval: PROGRESS, ..world.settings() };
    let operator = world.operator_with(settings).await;
    let (mut names, mut jobs): (Vec<(String, &str)>, Vec<Value>) = (Vec::new(), Vec::new());
    for (kind, count, template, ready) in kinds() {
        for number in 0..count {
            let name = format!("{kind}-{number}");
            let control = match kind {
                "failing" => Control::fails(ExitClass::Retryable),
                _ => Control { batch_interval_ms: 500, ..Control::default() },
            };
            world.control(&name, "t", &control);
            let mut job = template.clone();
            job["metadata"]["name"] = json!(name);
            jobs.push(job);
            names.push((name, ready));
        }
    }
    for some in jobs.chunks(20) {
        join_all(some.iter().map(|job| world.apply(job))).await;
    }
    join_all(names.iter().map(|(name, ready)| world.until(name, ready, |job| condition(job, "Ready")["reason"] == **ready))).await;
    // What the last flips cause (an event, a pruned generation) is over once each job was looked at again, and the first progress once
    // each that streams was written again.
    world.until_run_of_passes(&operator).await;
    let streaming = kinds()[0].1;
    let mut begin = None;
    let all_written = |versions: &[Value]| {
        let begin = *begin.get_or_insert(versions.len());
        let names: BTreeSet<_> = versions[begin..].iter().filter_map(|job| job["metadata"]["name"].as_str()).collect();
        (names.iter().filter(|name| name.starts_with("streaming-")).count() == streaming).then_some(())
    };
    world.recorder.wait_for("progress of each job that streams", all_written).await.unwrap();
    let (mark, calls_before) = (world.plane.audit_mark().unwrap(), operator.faults.calls().len());
    tokio::time::sleep(WATCHED).await;
    let (writes, calls) = (world.plane.writes_since(mark).await.unwrap(), operator.faults.calls().split_off(calls_before));
    let is_streaming = |name: &str| name.starts_with("streaming-");

    let mut per_job: BTreeMap<&str, usize> = BTreeMap::new();
    for write in writes.iter().filter(|write| write.namespace == world.namespace && write.resource != "pods") {
        assert_eq!((write.resource.as_str(), write.subresource.as_str()), ("streamingjobs", "status"), "{write:?}");
        *per_job.entry(&write.name).or_default() += 1;
    }
    let paced = usize::try_from(WATCHED.as_secs() / PROGRESS.as_secs()).unwrap() + 1;
    for (name, count) in &per_job {
        assert!(is_streaming(name) && *count <= paced, "{name} was written {count} times, {paced} are allowed");
    }
    assert!(!per_job.is_empty(), "progress moves");

    let mut looks: BTreeMap<&str, usize> = BTreeMap::new();
    let is_look = |call: &&Call| call.verb == Verb::Get && call.target.resource == "streamingjobs";
    for call in calls.iter().filter(is_look) {
        *looks.entry(&call.target.name).or_default() += 1;
    }
    // A streaming job is looked at to ask its task, and once more after each write; a timer of another may end just now.
    let most = usize::try_from(WATCHED.as_secs() / POLL.as_secs()).unwrap() + 1 + paced;
    for (name, count) in &looks {
        let allowed = if is_streaming(name) { most } else { 1 };
        assert!(*count <= allowed, "{name} was looked at {count} times, {allowed} are allowed");
    }

    // A new operator finds everything as it should be.
    operator.kill().await;
    let mark = world.plane.audit_mark().unwrap();
    let operator = world.operator().await;
    world.until_run_of_passes(&operator).await;
    let writes = world.plane.writes_since(mark).await.unwrap();
    let caused = |write: &&AuditEvent| write.namespace == world.namespace && !is_streaming(&write.name);
    assert_eq!(writes.iter().filter(caused).collect::<Vec<_>>(), Vec::<&AuditEvent>::new());
    operator.stop().await;
    world.recorder.check().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn m6_conditions_of_others_survive_and_their_order_is_not_fought_over() {
    let world = World::new("m6-foreign").await;
    let operator = world.operator().await;
    let mut idle = job("j", &["t"]);
    idle["spec"]["suspend"] = json!(true);
    world.apply(&idle).await;
    let shown = world.until_condition("j", "Ready", "True", "Suspended").await;
    let foreign = json!({
        "type": "example.com/Audited", "status": "True", "reason": "Reviewed", "message": "by hand",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    });
    let mut conditions = shown["status"]["conditions"].as_array().unwrap().clone();
    conditions.reverse();
    conditions.insert(3, foreign.clone());
    world.meddle("j", json!({"conditions": conditions})).await;
    world.until_run_of_passes(&operator).await;
    let after = serde_json::to_value(world.job("j").await).unwrap();
    assert_eq!(after["status"]["conditions"].as_array().unwrap(), &conditions, "nobody writes for the sake of order");
    // With the next write the order is ours again, and what belongs to others is still there.
    world.edit("j", json!({"spec": {"suspend": false}})).await;
    let shown = world.until_streaming("j").await;
    let now = shown["status"]["conditions"].as_array().unwrap();
    assert_eq!((now[0]["type"].clone(), now.len(), now.last()), (json!("Ready"), 13, Some(&foreign)));
    operator.stop().await;
    world.check(&[("j", "t")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn m13_a_job_at_the_bounds_whose_tasks_all_have_much_to_say_stays_within_32_kib() {
    let world = World::new("m13-size").await;
    let operator = world.operator().await;
    let names: Vec<String> = (0..20).map(|number| format!("task-{number:02}-{}", "x".repeat(50))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut large = job("j", &names);
    large["spec"]["taskRetry"] = json!({"maxRetries": 3, "initialDelay": "5m", "maxDelay": "5m"});
    for (at, name) in names.iter().enumerate() {
        let query = large["spec"]["tasks"][at]["queries"][0].clone();
        let named = |number: usize| {
            let mut query = query.clone();
            query["name"] = json!(format!("query-{number}-{}", "y".repeat(55)));
            query["sink"]["options"]["path"] = json!(format!("s3://lake/{at}/{number}"));
            query
        };
        large["spec"]["tasks"][at]["queries"] = (0..if at < 4 { 4 } else { 3 }).map(named).collect();
        let message = format!("é{}", "m".repeat(3000));
        let ending = match at {
            0 => continue,
            _ if at % 2 == 0 => Ending::Text { text: "l".repeat(4000), exit_code: 101 },
            _ => Ending::Report {
                class: ExitClass::Retryable,
                reason: "R".repeat(300),
                message,
                exit_code: None,
                query: None,
                source_version: None,
                highest_epoch_seen: None,
            },
        };
        world.control("j", name, &Control::ends(1, ending));
    }
    world.apply(&large).await;
    let waiting = |job: &Value| {
        job["status"]["memory"]["run"]["tasks"]
            .as_object()
            .is_some_and(|tasks| tasks.values().filter(|task| task["state"] == "WaitingRetry").count() == 19)
    };
    let shown = world.until("j", "down but for one task", waiting).await;
    let bytes = shown["status"].to_string().len();
    assert!((16 * 1024..=32 * 1024).contains(&bytes), "{bytes} bytes");
    let rows = shown["status"]["tasks"].as_array().unwrap();
    assert!(rows.len() >= 19 && rows.iter().filter(|row| row["lastExit"].is_object()).all(|row| row["nextRetryTime"].is_string()));
    world.delete("j").await;
    world.until_gone("j").await;
    operator.stop().await;
    world.recorder.check().unwrap();
}
