//! A Delta table as the source of another: a new column restarts the task.

use std::process::Command;

use serde_json::{Value, json};
use weir_testkit::process::Guarded;
use weir_testkit::wait::eventually;

use crate::support::{DEADLINE, FileJob, Place, weir};

struct Copying {
    place: Place,
    epoch: u64,
    rows: u64,
}

impl Copying {
    fn new(name: &str) -> Self {
        let place = Place::new(name);
        place.write(
            "copy.yaml",
            r#"apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {name: copy}
spec:
  trigger: {continuous: {}}
  tasks:
  - name: task
    queries:
    - name: query
      sources: [{name: source, format: delta, options: {path: source, maxFilesPerTrigger: "1"}}]
      sql: SELECT * FROM source
      sink: {format: delta, options: {path: target, mergeSchema: "true"}}
      trigger: {processingTime: 50ms}
      checkpointLocation: copied
"#,
        );
        Self { place, epoch: 0, rows: 0 }
    }

    /// Appends rows to the source, each in a commit of its own.
    fn fill(&mut self, rows: u64, schema: &str) {
        let first = self.rows;
        self.rows += rows;
        for row in first..self.rows {
            self.place.write_at(&format!("input/{row}.json"), &format!("{{\"v\":{row},\"w\":{row}}}\n"), 1_700_000_000_000 + row * 1000);
        }
        let job = FileJob {
            schema,
            options: "maxFilesPerTrigger: '1'",
            sql: "SELECT * FROM events",
            sink: "{format: delta, options: {path: source, mergeSchema: 'true'}}",
            trigger: "{availableNow: {}}",
            extra: "",
        };
        self.place.run_once(&job.manifest(), &[]).assert_code(0);
    }

    fn task(&mut self, failpoints: &str, arguments: &[&str]) -> Guarded {
        self.epoch += 1;
        let mut command: Command = weir();
        command.current_dir(self.place.path()).env("FAILPOINTS", failpoints);
        command.args(["task", "copy.yaml", "--job", "copy", "--task", "task", "--job-uid", "uid"]).args(arguments);
        command.args(["--epoch", &self.epoch.to_string(), "--termination-log", &self.place.at("exit.json")]);
        Guarded::spawn(&format!("task {}", self.epoch), command).unwrap()
    }

    fn target(&self, query: &str) -> Value {
        json!(self.place.sql(query, &[("t", "delta:target")]))
    }
}

#[test]
fn delta_source_with_a_new_column_ends_its_attempt() {
    let mut copying = Copying::new("delta-column");
    copying.fill(1, "v BIGINT");
    let running = copying.task("", &[]);
    let commit = |place: &Place| place.path().join("copied/commits/0").exists();
    eventually("the first batch is committed", DEADLINE, || commit(&copying.place).then_some(())).unwrap();
    copying.fill(1, "v BIGINT, w BIGINT");
    let status = running.wait(DEADLINE).unwrap();
    let report: Value = serde_json::from_str(&std::fs::read_to_string(copying.place.at("exit.json")).unwrap()).unwrap();
    assert_eq!((status.code(), &report["reason"], &report["class"]), (Some(10), &json!("SchemaChanged"), &json!("retryable")), "{report}");
    assert!(report["sourceVersion"].as_str().is_some_and(|version| version.ends_with("@1")), "{report}");
    assert_eq!(copying.task("", &["--available-now"]).wait(DEADLINE).unwrap().code(), Some(0));
    assert_eq!(copying.target("SELECT v, w FROM t ORDER BY v"), json!([{"v": 0}, {"v": 1, "w": 1}]));
}
