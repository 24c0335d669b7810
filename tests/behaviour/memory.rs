//! A planned batch of any size runs in bounded memory: slices, one commit.

use std::fs;

use weir_testkit::cgroup::Limited;
use weir_testkit::kafka::{Broker, Message};
use weir_testkit::length::Length;
use weir_testkit::process::run;

use crate::jobs::{Query, job_without_retries};
use crate::support::{DEADLINE, Place};

#[test]
fn memory_a_batch_larger_than_the_pod() {
    // The long form is the soak's: 20 million rows under 256 MiB.
    let (rows, limit) = Length::of_this_run().pick((1_000_000u64, 96u64 << 20), (20_000_000, 256 << 20));
    let broker = Broker::shared();
    let topic = broker.new_topic("memory", 2, &[]).unwrap();
    let message = |n: u64| {
        Message::of(format!("{{\"n\":{n},\"text\":\"some words that make the row as long as rows are {n}\"}}")).partition((n % 2) as i32)
    };
    broker.produce(&topic, (0..rows).map(message)).unwrap();
    let place = Place::new("memory");
    let source = format!(
        "{{name: raw, format: kafka, options: {{kafka.bootstrap.servers: '{}', subscribe: {topic}, startingOffsets: earliest}}}}",
        broker.bootstrap_servers()
    );
    let sql = "SELECT d.n, d.text FROM (SELECT from_json(CAST(value AS STRING), 'n BIGINT, text STRING') AS d FROM raw)";
    let sink = "{format: delta, options: {path: table}}";
    let query = Query { name: "query", sources: &[&source], sql, sink, trigger: "{once: {}}", fields: &[] };
    place.write("job.yaml", &job_without_retries(&[query]));
    let limited = Limited::new(limit).unwrap();
    let mut command = limited.command(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(place.path());
    command.args(["task", "job.yaml", "--job", "job", "--task", "task", "--job-uid", "uid", "--epoch", "1"]);
    command.args(["--termination-log", &place.at("exit.json")]);
    let finished = run("weir task under a memory limit", command, DEADLINE * 10).unwrap();
    assert!(finished.status.success(), "{:?} {}", finished.status, finished.stderr);
    assert_eq!(limited.killed_for_memory().unwrap(), 0);
    eprintln!("{rows} rows in one batch, peak {} MiB of {} MiB", limited.peak_bytes().unwrap() >> 20, limit >> 20);
    let commits = fs::read_dir(place.path().join("table/_delta_log")).unwrap();
    let commits = commits.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "json")).count();
    assert!(commits <= 2, "the table's creation and one commit, not {commits}");
    let counted = place.sql("SELECT count(*) AS n, count(DISTINCT n) AS d FROM t", &[("t", "delta:table")]);
    assert_eq!((counted[0]["n"].as_u64(), counted[0]["d"].as_u64()), (Some(rows), Some(rows)));
}
