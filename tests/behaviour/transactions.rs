//! Batches that are longer than Kafka's transactions, and brokers that fall silent within one.

use std::time::Duration;

use weir_testkit::kafka::Broker;
use weir_testkit::process::Guarded;
use weir_testkit::wait::eventually;

use crate::support::{DEADLINE, Place, weir};

const ROWS: u64 = 4000;

/// A job that reads some files in one batch, 200 rows a slice, into a topic.
fn place(name: &str, servers: &str, topic: &str, timeout_ms: u32) -> Place {
    let place = Place::new(name);
    for (file, numbers) in [0..ROWS / 4, ROWS / 4..ROWS / 2, ROWS / 2..ROWS].into_iter().enumerate() {
        place.write(&format!("input/{file}.json"), &numbers.map(|n| format!("{{\"n\":{n}}}\n")).collect::<String>());
    }
    let manifest = format!(
        r#"apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {{name: long}}
spec:
  trigger: {{continuous: {{}}}}
  taskRetry: {{maxRetries: 0}}
  conf: {{weir.batch.maxRows: "200"}}
  tasks:
  - name: t
    queries:
    - name: q
      sources:
      - {{name: raw, format: json, schema: 'n BIGINT', options: {{path: input}}}}
      sql: SELECT CAST(n AS STRING) AS value FROM raw
      sink:
        format: kafka
        options: {{kafka.bootstrap.servers: "{servers}", topic: {topic}, deliveryGuarantee: exactly-once, kafka.transaction.timeout.ms: "{timeout_ms}"}}
      trigger: {{processingTime: 100ms}}
      checkpointLocation: checkpoint
"#
    );
    place.write("job.yaml", &manifest);
    place
}

fn task(place: &Place, epoch: u64, failpoints: &str) -> Guarded {
    let mut command = weir();
    command.current_dir(place.path()).env("FAILPOINTS", failpoints);
    command.args(["task", "job.yaml", "--job", "long", "--task", "t", "--job-uid", "uid", "--available-now"]);
    command.args(["--epoch", &epoch.to_string(), "--termination-log", &place.at(&format!("exit-{epoch}.json"))]);
    Guarded::spawn("weir task", command).unwrap()
}

/// A batch of at least five seconds, in transactions of three at most, killed in its third second: readers have seen a part of
/// it by then, and the next run adds the rest.
#[test]
fn a_batch_outlives_its_transaction_and_its_process() {
    let broker = Broker::shared();
    let topic = broker.new_topic("long", 2, &[]).unwrap();
    let place = place("long", &broker.bootstrap_servers(), &topic, 3000);
    let slow = task(&place, 1, "batch.slice.after=sleep(400)");
    let seen = || broker.read_all(&topic).unwrap();
    let part = eventually("a part of the batch to be seen", DEADLINE, || Some(seen().len()).filter(|count| *count > 0)).unwrap();
    slow.kill_hard().unwrap();
    assert!((part as u64) < ROWS && !place.path().join("checkpoint/commits/0").exists(), "{part}");
    assert_eq!(task(&place, 2, "batch.slice.after=sleep(250)").wait(DEADLINE).unwrap().code(), Some(0));
    let mut numbers: Vec<u64> = seen().iter().map(|record| record.text().parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..ROWS), "{} rows", numbers.len());
}

/// A raised nonce begins anew at another topic. A process that is killed before its first record there has sent nothing, and the next
/// one knows it; once rows may have come, a record that is gone leaves them in doubt.
#[test]
fn a_new_beginning_that_was_cut_off_is_begun_again() {
    let broker = Broker::shared();
    let (old, new) = (broker.new_topic("before", 1, &[]).unwrap(), broker.new_topic("after", 1, &[]).unwrap());
    let place = place("nonce", &broker.bootstrap_servers(), &old, 600_000);
    let killed = |epoch: u64, failpoint: &str| {
        assert_eq!(task(&place, epoch, &format!("{failpoint}=return(kill)")).wait(DEADLINE).unwrap().code(), None, "{failpoint}");
    };
    killed(1, "batch.refence.after");
    let manifest = std::fs::read_to_string(place.path().join("job.yaml")).unwrap();
    let raised = manifest
        .replace(&old, &new)
        .replace("checkpointLocation: checkpoint", "checkpointLocation: checkpoint\n      checkpointResetNonce: 1");
    place.write("job.yaml", &raised);
    for (epoch, failpoint) in
        [(2, "claim.sink-identity.after"), (3, "sink.marker.before"), (4, "claim.sink-begin.before"), (5, "batch.refence.after")]
    {
        killed(epoch, failpoint);
    }
    let metadata: serde_json::Value = serde_json::from_slice(&std::fs::read(place.path().join("checkpoint/metadata")).unwrap()).unwrap();
    broker.delete_group(&format!("weir-{}", metadata["id"].as_str().unwrap())).unwrap();
    assert_eq!(task(&place, 6, "").wait(DEADLINE).unwrap().code(), Some(21), "the record is lost after rows may have come");
    place.write("job.yaml", &raised.replace("ResetNonce: 1", "ResetNonce: 2"));
    assert_eq!(task(&place, 7, "").wait(DEADLINE).unwrap().code(), Some(0));
    assert_eq!((broker.read_all(&old).unwrap().len(), broker.read_all(&new).unwrap().len() as u64), (0, ROWS));
}

/// A broker that does not answer keeps no stop waiting, and what was begun is finished once by the next run.
#[test]
fn a_stop_does_not_wait_for_the_commit_of_a_silent_broker() {
    let broker = Broker::start().unwrap();
    let topic = broker.new_topic("silent", 1, &[]).unwrap();
    // Longer than the silence: a broker that rolls a transaction back by itself, while it is cut off from its controller, leaves
    // out the mark of it in partitions without leader (docs/sinks.md).
    let place = place("silent", &broker.bootstrap_servers(), &topic, 600_000);
    let old = task(&place, 1, "sink.marker.before=1*off->return(stop)");
    let id = old.id();
    eventually("the task to stand before its commit", DEADLINE, || (weir_testkit::process::state_of(id) == Some('T')).then_some(()))
        .unwrap();
    broker.freeze().unwrap();
    old.thaw().unwrap();
    old.interrupt().unwrap();
    let status = old.wait(Duration::from_secs(30)).unwrap();
    assert_eq!(status.code(), Some(0), "a clean stop");
    broker.thaw().unwrap();
    assert_eq!(task(&place, 2, "").wait(DEADLINE).unwrap().code(), Some(0));
    let (seen, all) = (broker.read_all(&topic).unwrap().len(), broker.read_all_uncommitted(&topic).unwrap().len());
    assert_eq!(seen as u64, ROWS, "of {all} records with those that were aborted");
}
