//! The local runner: tasks retried by themselves, published delays, locks,
//! edits, secrets, signals.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use chrono::{DateTime, Utc};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::Value;
use weir_testkit::process::{Guarded, is_alive, kill_by_id};
use weir_testkit::wait::eventually;

use crate::support::{DEADLINE, Place, weir};

/// Two tasks; `flaky` reads a folder that a test may break.
fn two_tasks(retries: u32) -> String {
    format!(
        r#"apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {{name: two}}
spec:
  trigger: {{continuous: {{}}}}
  restart: {{initialDelay: 1s, multiplier: 2, maxDelay: 20s, jitterPercent: 0, minInterval: 0s}}
  taskRetry: {{maxRetries: {retries}, initialDelay: 1s, multiplier: 2, maxDelay: 8s}}
  tasks:
  - name: steady
    queries:
    - name: q
      sources: [{{name: tick, format: rate, options: {{rowsPerSecond: "5"}}}}]
      sql: SELECT value FROM tick
      sink: {{format: noop}}
      trigger: {{processingTime: 200ms}}
      checkpointLocation: steady
  - name: flaky
    queries:
    - name: q
      sources: [{{name: lines, format: text, options: {{path: input}}}}]
      sql: SELECT 1 / CAST(value AS INT) AS v FROM lines
      sink: {{format: noop}}
      trigger: {{processingTime: 200ms}}
      checkpointLocation: flaky
"#
    )
}

fn task(place: &Place, name: &str) -> Option<Value> {
    let status = place.status("two")?;
    status["tasks"].as_array()?.iter().find(|task| task["name"] == name).cloned()
}

fn wait_for(place: &Place, what: &str, task_name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(what, DEADLINE, || task(place, task_name).filter(&is_so)).unwrap()
}

fn time(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}

fn stop(runner: &Guarded) {
    runner.interrupt().unwrap();
    assert_eq!(runner.wait(DEADLINE).unwrap().code(), Some(0));
}

#[test]
fn runner_a_failed_task_is_retried_by_itself() {
    let place = Place::new("retried");
    place.write("input/0.txt", "1\n");
    let runner = place.start(&two_tasks(3), &[]);
    let steady = wait_for(&place, "steady runs", "steady", |t| t["state"] == "Running");
    let flaky = wait_for(&place, "flaky runs", "flaky", |t| t["state"] == "Running");
    kill_by_id(flaky["pod"].as_str().unwrap().parse().unwrap()).unwrap();
    let again = wait_for(&place, "flaky is retried", "flaky", |t| t["attempt"] == 2 && t["state"] == "Running");
    assert!(again["epoch"].as_u64() > flaky["epoch"].as_u64());
    assert_eq!(again["lastExit"]["exitCode"], 137);
    let untouched = task(&place, "steady").unwrap();
    assert_eq!((&untouched["epoch"], &untouched["pod"]), (&steady["epoch"], &steady["pod"]), "the sibling is untouched");
    stop(&runner);
}

#[test]
fn runner_used_up_retries_end_the_run_and_delays_are_as_published() {
    let place = Place::new("backoff");
    place.write("input/0.txt", "1\n");
    let runner = place.start(&two_tasks(1), &[]);
    wait_for(&place, "flaky runs", "flaky", |t| t["state"] == "Running");
    // A division by zero fails every attempt from now on.
    place.write_at("input/1.txt", "0\n", 1_800_000_000_000);
    let status = |place: &Place| place.status("two").unwrap_or_default();
    let failed = |n: u64| {
        eventually(&format!("{n} runs have failed"), DEADLINE, || {
            Some(status(&place)).filter(|s| s["consecutiveFailures"].as_u64() >= Some(n) && s["nextRestartTime"].is_string())
        })
        .unwrap()
    };
    let first = failed(1);
    let delay = (time(&first["nextRestartTime"]) - time(&first["lastRun"]["finishedAt"])).num_milliseconds();
    assert!((900..=2_000).contains(&delay), "delay(1) = 1 s, not {delay} ms");
    let epoch = first["epoch"].as_u64().unwrap();
    // The runner dies; its successor keeps counters, times and epochs.
    runner.kill_hard().unwrap();
    let runner = place.start(&two_tasks(1), &[]);
    let second = failed(2);
    assert!(second["epoch"].as_u64().unwrap() > epoch);
    let delay = (time(&second["nextRestartTime"]) - time(&second["lastRun"]["finishedAt"])).num_milliseconds();
    assert!((1_900..=3_000).contains(&delay), "delay(2) = 2 s, not {delay} ms");
    assert_eq!(second["lastRun"]["result"], "Failed");
    stop(&runner);
    let said = runner.stdout.lines().join("\n");
    assert!(said.contains("waiting for the backoff after 2 failed runs; the next run begins at"), "{said}");
    let over = status(&place);
    assert!(over["summary"]["lastCommitTime"].is_string() && over["nextRestartTime"].is_null(), "{over:#}");
}

#[test]
fn runner_a_second_one_is_refused_even_while_the_first_is_frozen() {
    let place = Place::new("locked");
    place.write("input/0.txt", "1\n");
    let runner = place.start(&two_tasks(3), &[]);
    wait_for(&place, "it runs", "steady", |t| t["state"] == "Running");
    runner.freeze().unwrap();
    let mut command = weir();
    command.current_dir(place.path()).args(["run", "job.yaml"]);
    let refused = crate::support::finish("second runner", command);
    refused.assert_code(22);
    assert!(refused.stderr.contains(&runner.id().to_string()), "{}", refused.stderr);
    runner.thaw().unwrap();
    stop(&runner);
}

#[test]
fn runner_tasks_die_with_it() {
    let place = Place::new("orphans");
    place.write("input/0.txt", "1\n");
    let runner = place.start(&two_tasks(3), &[]);
    let steady = wait_for(&place, "it runs", "steady", |t| t["state"] == "Running");
    let pid: u32 = steady["pod"].as_str().unwrap().parse().unwrap();
    runner.kill_hard().unwrap();
    eventually("the task is gone", DEADLINE, || (!is_alive(pid)).then_some(())).unwrap();
}

#[test]
fn a_check_that_is_bound_to_its_parent_ends_with_it() {
    let place = Place::new("bound");
    let weir = weir();
    let mut command = Command::new("sh");
    let script = r#"mkfifo held; "$0" check --sealed --die-with $$ held & echo $!; wait"#;
    command.current_dir(place.path()).args(["-c", script]).arg(weir.get_program());
    let parent = Guarded::spawn("parent", command).unwrap();
    let pid: u32 = parent.stdout.wait_for("its process id", DEADLINE, |line| !line.is_empty()).unwrap().parse().unwrap();
    // It reads once it is bound; who writes finds nobody before.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    let writer = || OpenOptions::new().write(true).custom_flags(flags).open(place.path().join("held")).ok();
    let held = eventually("it reads", DEADLINE, writer).unwrap();
    parent.kill_hard().unwrap();
    eventually("the check is gone", DEADLINE, || (!is_alive(pid)).then_some(())).unwrap();
    drop(held);
    // One whose parent was gone before it could bind itself begins nothing.
    let mut command = weir;
    command.current_dir(place.path()).args(["check", "--sealed", "--die-with", &pid.to_string(), "held"]);
    let late = crate::support::finish("late", command);
    late.assert_code(10);
    assert!(late.stderr.contains(&format!("the process with id {pid}")), "{}", late.stderr);
}

#[test]
fn runner_edits_disrupt_what_the_field_table_says() {
    let place = Place::new("edits");
    place.write("input/0.txt", "1\n");
    let manifest = two_tasks(3);
    let runner = place.start(&manifest, &[]);
    let steady = wait_for(&place, "steady runs", "steady", |t| t["state"] == "Running");
    let flaky = wait_for(&place, "flaky runs", "flaky", |t| t["state"] == "Running");
    // Class none: nothing restarts, the task gets the new setting.
    place.write("job.yaml", &manifest.replace("taskRetry:", "stopTimeout: 30s\n  taskRetry:"));
    eventually("the generation is observed", DEADLINE, || (place.status("two")?["observedGeneration"] == 2).then_some(())).unwrap();
    // Class task: only that task restarts.
    place.write("job.yaml", &manifest.replace("SELECT value FROM tick", "SELECT value + 1 AS value FROM tick"));
    let changed =
        wait_for(&place, "steady restarted", "steady", |t| t["state"] == "Running" && t["epoch"].as_u64() > steady["epoch"].as_u64());
    assert_ne!(changed["pod"], steady["pod"]);
    assert_eq!(task(&place, "flaky").unwrap()["pod"], flaky["pod"]);
    // A broken edit changes nothing and is told.
    place.write("job.yaml", &manifest.replace("SELECT value FROM tick", "SELECT valu FROM tick"));
    let accepted = |status: &Value| status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Accepted").unwrap().clone();
    let refusal =
        eventually("the edit is refused", DEADLINE, || place.status("two").map(|s| accepted(&s)).filter(|c| c["status"] == "False"))
            .unwrap();
    assert!(refusal["message"].as_str().unwrap().contains("UNRESOLVED_COLUMN"), "{refusal}");
    // What is no file keeps nobody waiting, and a file that is half written is no edit.
    let path = place.path().join("job.yaml");
    std::fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    runner.stderr.wait_for("the pipe is told", DEADLINE, |line| line.contains("job.yaml: the path leads to a pipe")).unwrap();
    std::fs::remove_file(&path).unwrap();
    place.write("job.yaml", manifest.split_once("  - name: flaky").unwrap().0);
    place.write("job.yaml", &manifest.replace("taskRetry:", "stopTimeout: 40s\n  taskRetry:"));
    eventually("the jobs hear of the next edit", DEADLINE, || accepted(&place.status("two")?)["status"].eq("True").then_some(())).unwrap();
    assert_eq!(task(&place, "flaky").unwrap()["pod"], flaky["pod"]);
    stop(&runner);
}

#[test]
fn runner_two_interrupts_end_at_once() {
    let place = Place::new("interrupts");
    place.write("input/0.txt", "1\n");
    let runner = place.start(&two_tasks(3), &[]);
    let steady = wait_for(&place, "it runs", "steady", |t| t["state"] == "Running");
    let pid: u32 = steady["pod"].as_str().unwrap().parse().unwrap();
    weir_testkit::process::freeze(pid).unwrap();
    runner.interrupt().unwrap();
    // Two signals in one instant are one signal, so the second follows the answer to the first.
    runner.stderr.wait_for("the first is heard", DEADLINE, |line| line.contains("a second signal ends at once")).unwrap();
    runner.interrupt().unwrap();
    assert_eq!(runner.wait(DEADLINE).unwrap().code(), Some(130));
}

#[test]
fn runner_secrets_come_from_documents_then_from_the_folder() {
    let place = Place::new("secrets");
    place.write("input/0.txt", "1\n");
    let manifest = r#"apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {name: two}
spec:
  trigger: {manual: {}}
  taskRetry: {maxRetries: 0}
  tasks:
  - name: task
    queries:
    - name: q
      sources: [{name: lines, format: text, optionsFrom: [{secretRef: {name: place}}]}]
      sql: SELECT value FROM lines
      sink: {format: noop}
      trigger: {availableNow: {}}
      checkpointLocation: ck
"#;
    let missing = place.run_once(manifest, &[]);
    missing.assert_code(20);
    assert!(missing.stderr.contains("the Secret place"), "{}", missing.stderr);
    place.write("secrets/place/path", "input\n");
    place.run_once(manifest, &["--secrets-dir", "secrets"]).assert_code(0);
    let document = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: place}\nstringData: {path: input}\n";
    let ended = place.run_once(&format!("{manifest}{document}"), &[]);
    ended.assert_code(0);
    assert!(!ended.stderr.contains("stringData"));
}
