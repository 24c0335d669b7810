//! Brokers that are down, die, lose records or grow partitions, and disks that
//! are full: visible in `.status`, retried, nothing lost and nothing twice.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_testkit::judge::{Input, Judge};
use weir_testkit::kafka::{Broker, Message, numbered_messages};
use weir_testkit::process::{Guarded, kill_by_id, run};
use weir_testkit::wait::eventually;

use crate::jobs::{AVAILABLE_NOW, Query, job, job_without_retries};
use crate::support::{DEADLINE, Ended, Place, weir};

const DELTA: &str = "{format: delta, options: {path: table}}";
const DECODE: &str = "SELECT d.n FROM (SELECT from_json(CAST(value AS STRING), 'n BIGINT') AS d FROM raw)";

fn kafka(broker: &Broker, topic: &str, options: &str) -> String {
    let servers = broker.bootstrap_servers();
    format!(
        "{{name: raw, format: kafka, options: {{kafka.bootstrap.servers: '{servers}', subscribe: {topic}, startingOffsets: earliest, {options}}}}}"
    )
}

fn to_delta<'a>(sources: &'a [&'a str], trigger: &'a str) -> Query<'a> {
    Query { name: "query", sources, sql: DECODE, sink: DELTA, trigger, fields: &[] }
}

/// The task's row in the status.
fn task(place: &Place) -> Value {
    place.status("job").map(|status| status["tasks"][0].clone()).unwrap_or_default()
}

fn wait_for<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    eventually(what, DEADLINE, ask).unwrap()
}

fn numbers(place: &Place) -> Vec<i64> {
    if !place.path().join("table/_delta_log/00000000000000000000.json").is_file() {
        return Vec::new();
    }
    let rows = place.sql("SELECT n FROM t ORDER BY n", &[("t", "delta:table")]);
    rows.iter().map(|row| row["n"].as_i64().unwrap()).collect()
}

fn wait_for_numbers(place: &Place, count: usize) {
    wait_for(&format!("{count} rows are in the table"), || (numbers(place).len() >= count).then_some(()));
}

fn stop(runner: &Guarded) {
    runner.interrupt().unwrap();
    assert_eq!(runner.wait(DEADLINE).unwrap().code(), Some(0));
}

/// The outside judge reads each number of the range once.
fn judged(place: &Place, expected: impl Iterator<Item = i64>) {
    let rows = Judge::shared().read_delta(place.at("table")).unwrap();
    let mut found: Vec<i64> = rows.first_column().iter().map(|n| n.as_i64().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn fault_broker_down_at_start() {
    let broker = Broker::start().unwrap();
    let topic = broker.new_topic("down", 2, &[]).unwrap();
    broker.stop().unwrap();
    let place = Place::new("broker-down");
    let source = kafka(&broker, &topic, "fetchOffset.numRetries: '1'");
    let runner = place.start(&job(&[to_delta(&[&source], "{processingTime: 100ms}")]), &[]);
    let waiting = wait_for("the failure shows", || Some(task(&place)).filter(|task| task["nextRetryTime"].is_string()));
    let message = waiting["lastExit"]["message"].as_str().unwrap();
    assert!(message.contains(&broker.bootstrap_servers()), "{message}");
    assert_eq!(waiting["lastExit"]["exitCode"], 10);
    assert_eq!(waiting["lastExit"]["reason"], "KAFKA_BROKER_UNREACHABLE");
    assert_eq!(waiting["lastExit"]["query"], "query");
    wait_for("it is tried again", || (task(&place)["attempt"].as_u64() >= Some(2)).then_some(()));
    broker.start_again().unwrap();
    broker.produce(&topic, numbered_messages(0..50, 2)).unwrap();
    wait_for_numbers(&place, 50);
    wait_for("the task runs", || (task(&place)["state"] == "Running").then_some(()));
    stop(&runner);
    judged(&place, 0..50);
}

#[test]
fn fault_broker_killed_while_running() {
    let broker = Broker::start().unwrap();
    let topic = broker.new_topic("killed", 3, &[]).unwrap();
    let place = Place::new("broker-killed");
    let options = "fetchOffset.numRetries: '1', kafkaConsumer.pollTimeoutMs: '5000', maxOffsetsPerTrigger: '300'";
    let source = kafka(&broker, &topic, options);
    broker.produce(&topic, numbered_messages(0..2_000, 3)).unwrap();
    let runner = place.start(&job(&[to_delta(&[&source], "{processingTime: 100ms}")]), &[]);
    wait_for_numbers(&place, 300);
    broker.kill().unwrap();
    wait_for("the failure shows", || (task(&place)["lastExit"]["exitCode"] == 10).then_some(()));
    broker.start_again().unwrap();
    broker.produce(&topic, numbered_messages(2_000..2_500, 3)).unwrap();
    wait_for_numbers(&place, 2_500);
    stop(&runner);
    judged(&place, 0..2_500);
}

/// `weir task` of the job in the folder; a minute is its stop timeout.
fn bare_task(place: &Place, query: Query<'_>) -> Guarded {
    place.write("job.yaml", &job(&[query]));
    let mut command = weir();
    command.current_dir(place.path()).args(["task", "job.yaml", "--job", "job", "--task", "task", "--job-uid", "uid", "--epoch", "1"]);
    command.args(["--termination-log", &place.at("exit.json")]);
    Guarded::spawn("weir task", command).unwrap()
}

/// Stops a task whose broker does not answer: at once, cleanly, released.
fn stops_at_once(place: &Place, task: &Guarded) {
    let begun = Instant::now();
    task.terminate().unwrap();
    assert_eq!(task.wait(DEADLINE).unwrap().code(), Some(0));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "the stop took {took:?}");
    let report: Value = serde_json::from_str(&fs::read_to_string(place.path().join("exit.json")).unwrap()).unwrap();
    assert_eq!(report["class"], "stopped");
    assert!(place.path().join("checkpoint-query/_weir/released/000000000001").exists(), "the claim is released");
}

/// Whether something was sent to a port of this machine that its owner has not read yet.
fn has_unread_bytes(port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let is_unread = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(local), Some(queues)) = (fields.get(1), fields.get(4)) else { return false };
        local.ends_with(&format!(":{port:04X}")) && queues.split_once(':').is_some_and(|(_, received)| received.contains(|c| c != '0'))
    };
    tables.iter().flat_map(|table| table.lines()).any(is_unread)
}

/// A broker that holds its connections and says nothing must not hold a stop.
#[test]
fn fault_frozen_broker_does_not_hold_a_stop() {
    let broker = Broker::start().unwrap();
    let topic = broker.new_topic("frozen", 1, &[]).unwrap();
    let place = Place::new("broker-frozen");
    let source = kafka(&broker, &topic, "");
    broker.produce(&topic, numbered_messages(0..10, 1)).unwrap();
    let process = bare_task(&place, to_delta(&[&source], "{processingTime: 100ms}"));
    wait_for_numbers(&place, 10);
    broker.freeze().unwrap();
    wait_for("a question waits for an answer", || has_unread_bytes(broker.port()).then_some(()));
    stops_at_once(&place, &process);
    // A job that goes on from its checkpoint is not ready before its source has answered, and ends at once as well.
    let runner = place.start(&job(&[to_delta(&[&source], "{processingTime: 100ms}")]), &[]);
    let is_asking = |task: &Value| task["queries"][0]["message"].as_str().is_some_and(|text| text.starts_with("Getting offsets"));
    let asking = wait_for("the source is asked", || Some(task(&place)).filter(is_asking));
    assert_eq!(asking["state"], "Starting", "{asking}");
    let ready = place.status("job").unwrap()["conditions"][0].clone();
    assert_eq!((&ready["type"], &ready["status"], &ready["reason"]), (&json!("Ready"), &json!("False"), &json!("RunStarting")));
    let begun = Instant::now();
    stop(&runner);
    assert!(begun.elapsed() < Duration::from_secs(5), "the stop took {:?}", begun.elapsed());
    let last = place.status("job").unwrap()["lastRun"].clone();
    assert_eq!((&last["result"], &last["cause"]), (&json!("Stopped"), &json!("Request")), "{last}");
    broker.thaw().unwrap();
    judged(&place, 0..10);
}

#[test]
fn fault_broker_down_at_start_does_not_hold_a_stop() {
    let broker = Broker::start().unwrap();
    let topic = broker.new_topic("down", 1, &[]).unwrap();
    broker.stop().unwrap();
    for (name, trigger) in [("down-continuous", "{processingTime: 100ms}"), ("down-available", AVAILABLE_NOW)] {
        let place = Place::new(name);
        let source = kafka(&broker, &topic, "");
        let task = bare_task(&place, to_delta(&[&source], trigger));
        let claim = place.path().join("checkpoint-query/_weir/epochs/000000000001");
        wait_for("the checkpoint is claimed", || claim.exists().then_some(()));
        stops_at_once(&place, &task);
    }
}

/// A batch whose rows nobody acknowledges is left to the next run.
#[test]
fn fault_brokers_that_take_no_rows_do_not_hold_a_stop() {
    let place = Place::new("sink-down");
    let servers = format!("127.0.0.1:{}", weir_testkit::ports::reserve().unwrap());
    let sink = format!("{{format: kafka, options: {{kafka.bootstrap.servers: '{servers}', topic: t}}}}");
    let (sources, sql) =
        (&["{name: raw, format: rate, options: {rowsPerSecond: '10'}}"][..], "SELECT CAST(value AS STRING) AS value FROM raw");
    let query = || Query { name: "query", sources, sql, sink: &sink, trigger: "{processingTime: 100ms}", fields: &[] };
    let manifest = || job(&[query()]);
    let task = bare_task(&place, query());
    let planned = place.path().join("checkpoint-query/offsets/1");
    wait_for("a batch with rows is planned", || planned.exists().then_some(()));
    stops_at_once(&place, &task);
    assert!(!place.path().join("checkpoint-query/commits/1").exists());
    // Whoever looks is told who does not answer.
    let runner = place.start(&manifest(), &[]);
    let words = format!("the Kafka servers {servers} do not answer: ");
    wait_for("the servers are named", || {
        self::task(&place)["queries"][0]["message"].as_str().is_some_and(|text| text.starts_with(&words)).then_some(())
    });
    stop(&runner);
}

/// Ten rows are read, ten more are produced of which five are aged out.
fn aged_out(place: &Place, broker: &Broker) -> String {
    let topic = broker.new_topic("aged", 1, &[]).unwrap();
    broker.produce(&topic, numbered_messages(0..10, 1)).unwrap();
    let source = kafka(broker, &topic, "");
    place.run_once(&job_without_retries(&[to_delta(&[&source], AVAILABLE_NOW)]), &[]).assert_code(0);
    broker.produce(&topic, numbered_messages(10..20, 1)).unwrap();
    broker.delete_records(&topic, 0, 15).unwrap();
    topic
}

#[test]
fn fault_records_aged_out_are_a_failure() {
    let (place, broker) = (Place::new("aged-out"), Broker::shared());
    let topic = aged_out(&place, broker);
    let source = kafka(broker, &topic, "");
    let manifest = job_without_retries(&[to_delta(&[&source], AVAILABLE_NOW)]);
    let ended = place.run_once(&manifest, &[]);
    ended.assert_code(20);
    for word in ["KAFKA_DATA_LOSS", &format!("[10, 20) of {topic}-0"), "failOnDataLoss"] {
        assert!(ended.stderr.contains(word), "'{word}' is not in: {}", ended.stderr);
    }
    // Under the supervisor only an edit, or a long time, can help.
    let runner = place.start(&manifest, &[]);
    let stalled = |status: &Value| {
        let conditions = status["conditions"].as_array().unwrap().iter();
        conditions.filter(|condition| condition["type"] == "Stalled" && condition["status"] == "True").count() == 1
    };
    // It has read the manifest by then; what the status says may be of the run before.
    let holder =
        || std::fs::read_to_string(place.path().join(".weir/default/job/lock")).is_ok_and(|id| id.trim() == runner.id().to_string());
    wait_for("the runner has its job", || holder().then_some(()));
    wait_for("the job is stalled", || place.status("job").filter(stalled).map(drop));
    place.write("job.yaml", &manifest.replace("startingOffsets: earliest,", "startingOffsets: earliest, failOnDataLoss: 'false',"));
    wait_for_numbers(&place, 15);
    stop(&runner);
    judged(&place, (0..10).chain(15..20));
}

#[test]
fn fault_records_aged_out_are_left_out() {
    let (place, broker) = (Place::new("aged-out-skipped"), Broker::shared());
    let topic = aged_out(&place, broker);
    let source = kafka(broker, &topic, "failOnDataLoss: 'false'");
    let ended = place.run_once(&job_without_retries(&[to_delta(&[&source], AVAILABLE_NOW)]), &[]);
    ended.assert_code(0);
    assert!(ended.stderr.contains(&format!("{topic}-0")) && ended.stderr.contains("failOnDataLoss is false"), "{}", ended.stderr);
    judged(&place, (0..10).chain(15..20));
}

#[test]
fn fault_topic_recreated_while_the_job_was_away() {
    let (place, broker) = (Place::new("recreated"), Broker::shared());
    let topic = broker.new_topic("recreated", 1, &[]).unwrap();
    broker.produce(&topic, numbered_messages(0..10, 1)).unwrap();
    let source = kafka(broker, &topic, "");
    let manifest = job_without_retries(&[to_delta(&[&source], AVAILABLE_NOW)]);
    place.run_once(&manifest, &[]).assert_code(0);
    broker.delete_topic(&topic).unwrap();
    broker.create_topic(&topic, 1, &[]).unwrap();
    broker.produce(&topic, numbered_messages(100..103, 1)).unwrap();
    let ended = place.run_once(&manifest, &[]);
    ended.assert_code(20);
    for word in ["KAFKA_DATA_LOSS", &format!("{topic}-0"), "created anew", "failOnDataLoss"] {
        assert!(ended.stderr.contains(word), "'{word}' is not in: {}", ended.stderr);
    }
    judged(&place, 0..10);
}

#[test]
fn fault_new_partitions_are_picked_up() {
    let (place, broker) = (Place::new("partitions"), Broker::shared());
    let topic = broker.new_topic("growing", 1, &[]).unwrap();
    broker.produce(&topic, numbered_messages(0..10, 1)).unwrap();
    let source = kafka(broker, &topic, "");
    let runner = place.start(&job(&[to_delta(&[&source], "{processingTime: 100ms}")]), &[]);
    wait_for_numbers(&place, 10);
    let epoch = task(&place)["epoch"].clone();
    broker.add_partitions(&topic, 3).unwrap();
    broker.produce(&topic, numbered_messages(10..40, 3)).unwrap();
    wait_for_numbers(&place, 40);
    assert_eq!(task(&place)["epoch"], epoch, "without a restart");
    stop(&runner);
    judged(&place, 0..40);
}

#[test]
fn fault_kafka_to_kafka_over_a_broker_that_dies() {
    let broker = Broker::start().unwrap();
    let (from, to) = (broker.new_topic("from", 2, &[]).unwrap(), broker.new_topic("to", 2, &[]).unwrap());
    let place = Place::new("kafka-to-kafka");
    let message = |n: u64| Message::of(format!("v{n}")).key(format!("k{n}")).header("trace", format!("t{n}")).partition((n % 2) as i32);
    broker.produce(&from, (0..100).map(message)).unwrap();
    let source = kafka(&broker, &from, "includeHeaders: 'true', fetchOffset.numRetries: '1', kafkaConsumer.pollTimeoutMs: '5000'");
    let sink = format!(
        "{{format: kafka, options: {{kafka.bootstrap.servers: '{}', topic: {to}, kafka.delivery.timeout.ms: '5000', \
         kafka.request.timeout.ms: '4000', includeHeaders: 'true'}}}}",
        broker.bootstrap_servers()
    );
    let sql = "SELECT key, upper(CAST(value AS STRING)) AS value, headers FROM raw";
    let query = Query { name: "query", sources: &[&source], sql, sink: &sink, trigger: "{processingTime: 100ms}", fields: &[] };
    let runner = place.start(&job(&[query]), &[]);
    let received = || broker.read_all(&to).unwrap();
    wait_for("the first rows arrive", || (received().len() >= 100).then_some(()));
    let first = received();
    assert_eq!(first.len(), 100, "nothing twice without a fault");
    let one = first.iter().find(|message| message.text() == "V7").unwrap();
    assert_eq!(one.key.as_deref(), Some(&b"k7"[..]));
    assert_eq!(one.headers, [("trace".to_owned(), Some(b"t7".to_vec()))]);
    broker.kill().unwrap();
    wait_for("the failure shows", || (task(&place)["lastExit"]["exitCode"] == 10).then_some(()));
    broker.start_again().unwrap();
    broker.produce(&from, (100..200).map(message)).unwrap();
    let all = (0..200).map(|n| format!("V{n}")).collect::<BTreeSet<_>>();
    wait_for("all rows arrive", || (received().iter().map(|m| m.text()).collect::<BTreeSet<_>>() == all).then_some(()));
    stop(&runner);
}

/// The runner's own state: the job outlives a full disk.
#[test]
fn fault_disk_full_under_the_runner() {
    let place = Place::new("disk-full-runner");
    let disk = SmallDisk::new(&place, ".weir");
    place.write_at("input/0.json", &noise(0..5), 1_700_000_000_000);
    let query = || Query { sql: "SELECT n FROM e", ..disk_query(&[NOISE], DELTA) };
    let runner = place.start(&job(&[query()]), &[]);
    wait_for("the task runs", || (task(&place)["state"] == "Running").then_some(()));
    wait_for_numbers(&place, 5);
    let pid: u32 = task(&place)["pod"].as_str().unwrap().parse().unwrap();
    disk.fill_up_to(0);
    // An edit that restarts the task: it has to wait, the task that runs goes on.
    place.write("job.yaml", &job(&[Query { sql: "SELECT n + 1000 AS n FROM e", ..query() }]));
    runner.stderr.wait_for("the trouble", DEADLINE, |line| line.contains("No space left on device")).unwrap();
    place.write_at("input/1.json", &noise(5..10), 1_700_000_001_000);
    wait_for_numbers(&place, 10);
    assert!(weir_testkit::process::is_alive(pid));
    // Without a durable epoch it is not started again, and nobody is told that it runs.
    kill_by_id(pid).unwrap();
    let status = || {
        let mut command = weir();
        command.current_dir(place.path()).args(["status", "-o", "wide"]);
        let finished = run("weir status", command, DEADLINE).unwrap();
        finished.stdout.lines().nth(1).map(str::to_owned)
    };
    let row = wait_for("the status is not believed", || status().filter(|row| row.contains("StateNotWritten")));
    assert!(row.contains("Unknown") && row.contains("status.json"), "{row}");
    wait_for("the task is gone", || (!weir_testkit::process::is_alive(pid)).then_some(()));
    disk.make_room();
    wait_for("the edit is in force", || place.status("job").filter(|status| status["observedGeneration"] == 2).map(drop));
    wait_for("the task was restarted", || {
        let task = task(&place);
        (task["state"] == "Running" && task["pod"] != pid.to_string()).then_some(())
    });
    place.write_at("input/2.json", &noise(10..15), 1_700_000_002_000);
    wait_for_numbers(&place, 15);
    stop(&runner);
    judged(&place, (0..10).chain(1010..1015));
}

/// A disk of few megabytes in a folder of the test, unmounted at the end.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    fn new(place: &Place, name: &str) -> Self {
        let folder = place.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "weir-test"]).arg(&folder).status().unwrap();
        assert!(mounted.success(), "a disk that gets full needs the right to mount a tmpfs on {}", folder.display());
        Self { folder }
    }

    /// Leaves only this much space.
    fn fill_up_to(&self, left: u64) {
        let status = rustix::fs::statvfs(&self.folder).unwrap();
        let free = status.f_bavail * status.f_frsize;
        fs::write(self.folder.join("ballast"), vec![1; (free - left) as usize]).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.folder.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that is about to end may still hold a file.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

/// Rows that cannot be compressed.
fn noise(rows: std::ops::Range<u64>) -> String {
    let text = |n: u64| {
        let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut letter = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'!' + (state % 90) as u8)
        };
        let noise: String = (0..1000).map(|_| letter()).filter(|c| !matches!(c, '"' | '\\')).collect();
        format!("{{\"n\":{n},\"text\":\"{noise}\"}}\n")
    };
    rows.map(text).collect()
}

fn disk_query<'a>(sources: &'a [&'a str], sink: &'a str) -> Query<'a> {
    Query { name: "query", sources, sql: "SELECT n, text FROM e", sink, trigger: "{processingTime: 100ms}", fields: &[] }
}

const NOISE: &str = "{name: e, format: json, schema: 'n BIGINT, text STRING', options: {path: input, maxFilesPerTrigger: '1'}}";

/// Files of rows below a folder, hidden ones and logs left out.
fn data_files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() && !name.starts_with('_') {
            found.extend(data_files(&entry.path()));
        } else if name.contains("part-") && !name.starts_with(['_', '.']) {
            found.push(name);
        }
    }
    found
}

/// Writes a batch, fills the disk, sees the failure and that the first batch
/// alone is there, makes room, and expects all rows.
fn full_disk(format: &str) {
    let place = Place::new(&format!("disk-full-{format}"));
    let disk = SmallDisk::new(&place, "disk");
    place.write_at("input/0.json", &noise(0..100), 1_700_000_000_000);
    let sink = format!("{{format: {format}, options: {{path: disk/output}}}}");
    let table = match format {
        "delta" => "delta:disk/output".to_owned(),
        _ => "json:disk/output?schema=n BIGINT, text STRING".to_owned(),
    };
    let count = || place.sql("SELECT count(*) AS c, count(DISTINCT n) AS d FROM t", &[("t", &table)])[0].clone();
    let committed = |batch: u64| {
        let path = place.path().join(format!("checkpoint-query/commits/{batch}"));
        wait_for("the batch is committed", || path.exists().then_some(()));
    };
    let runner = place.start(&job(&[disk_query(&[NOISE], &sink)]), &[]);
    committed(0);
    let before = data_files(&disk.folder.join("output"));
    disk.fill_up_to(200 << 10);
    place.write_at("input/1.json", &noise(100..1_000), 1_700_000_001_000);
    let failed = wait_for("the failure shows", || Some(task(&place)).filter(|task| task["lastExit"]["exitCode"] == 10));
    let message = failed["lastExit"]["message"].as_str().unwrap();
    assert!(message.contains("No space left on device"), "{message}");
    assert!(message.contains("output"), "it names the place: {message}");
    assert_eq!(failed["lastExit"]["class"], "Retryable");
    assert_eq!(count(), json!({"c": 100, "d": 100}), "no half batch is visible");
    wait_for("it is tried again", || (task(&place)["attempt"].as_u64() >= Some(3)).then_some(()));
    wait_for("nothing of the failed batch is left between attempts", || {
        (task(&place)["nextRetryTime"].is_string() && data_files(&disk.folder.join("output")) == before).then_some(())
    });
    disk.make_room();
    committed(1);
    assert_eq!(count(), json!({"c": 1000, "d": 1000}));
    stop(&runner);
    let input = match format {
        "delta" => Input::at("delta", place.at("disk/output")),
        _ => Input::at("json", place.at("disk/output")).schema("n BIGINT, text STRING"),
    };
    let rows = Judge::shared().query(&input, "SELECT count(*) AS c, count(DISTINCT n) AS d, sum(n) AS s FROM source").unwrap();
    assert_eq!(rows.rows, [[json!(1000), json!(1000), json!(499_500)]]);
}

#[test]
fn fault_disk_full_delta() {
    full_disk("delta");
}

#[test]
fn fault_disk_full_json() {
    full_disk("json");
}

#[test]
fn fault_disk_full_checkpoint() {
    let place = Place::new("disk-full-checkpoint");
    let disk = SmallDisk::new(&place, "checkpoint-query");
    place.write_at("input/0.json", &noise(0..5), 1_700_000_000_000);
    let run = || -> Ended { place.run_once(&job_without_retries(&[Query { trigger: AVAILABLE_NOW, ..disk_query(&[NOISE], DELTA) }]), &[]) };
    run().assert_code(0);
    disk.fill_up_to(0);
    place.write_at("input/1.json", &noise(5..10), 1_700_000_001_000);
    let ended = run();
    ended.assert_code(10);
    assert!(ended.stderr.contains("No space left on device") && ended.stderr.contains("checkpoint-query"), "{}", ended.stderr);
    assert_eq!(numbers(&place).len(), 5);
    disk.make_room();
    run().assert_code(0);
    judged(&place, 0..10);
    let mut verify = weir();
    verify.current_dir(place.path()).args(["checkpoint", "verify", "checkpoint-query"]);
    crate::support::finish("weir checkpoint verify", verify).assert_code(0);
}
