//! Many triggers on end: memory and logs stay where they were.

use std::fs;
use std::path::Path;

use weir_testkit::length::Length;
use weir_testkit::process::{Guarded, resident_bytes};
use weir_testkit::wait::eventually;

use crate::support::{DEADLINE, Place, weir};

#[test]
fn soak_triggers_do_not_grow_anything() {
    let (warm, end) = Length::of_this_run().pick((500u64, 3_000u64), (10_000, 100_000));
    let place = Place::new("soak");
    let manifest = r#"apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {name: soak}
spec:
  trigger: {continuous: {}}
  conf: {weir.checkpoint.fsync: "false"}
  tasks:
  - name: task
    queries:
    - name: query
      sources:
      - {name: tick, format: rate-micro-batch, options: {rowsPerBatch: "10", numPartitions: "1"}}
      sql: SELECT value, timestamp FROM tick WHERE value % 2 = 0
      sink: {format: noop}
      checkpointLocation: checkpoint
"#;
    place.write("job.yaml", manifest);
    let mut command = weir();
    command.current_dir(place.path());
    command.args(["task", "job.yaml", "--job", "soak", "--task", "task", "--job-uid", "uid", "--epoch", "1"]);
    command.args(["--termination-log", &place.at("exit.json")]);
    let task = Guarded::spawn("soak", command).unwrap();
    let newest = || newest(&place.path().join("checkpoint/commits"));
    let deadline = DEADLINE * Length::of_this_run().pick(2, 100);
    let reach = |batch: u64| eventually("the trigger is reached", deadline, || newest().filter(|id| *id >= batch).map(drop)).unwrap();
    reach(warm);
    let before = resident_bytes(task.id()).unwrap();
    reach(end);
    let after = resident_bytes(task.id()).unwrap();
    eprintln!("resident {} KiB at trigger {warm}, {} KiB at trigger {end}", before >> 10, after >> 10);
    // Five percent, and at least what one arena of the allocator takes.
    let allowed = (before / 20).max(2 << 20);
    assert!(after <= before + allowed, "resident memory grew from {before} to {after}");
    task.interrupt().unwrap();
    assert_eq!(task.wait(DEADLINE).unwrap().code(), Some(0));
    for log in ["offsets", "commits"] {
        let kept = fs::read_dir(place.path().join("checkpoint").join(log)).unwrap().count();
        assert!(kept <= 102, "{log} holds {kept} entries");
    }
    assert_eq!(fs::read_dir(place.path().join("checkpoint/_weir/epochs")).unwrap().count(), 1);
}

fn newest(log: &Path) -> Option<u64> {
    let names = fs::read_dir(log).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).max()
}
