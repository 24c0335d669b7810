//! Tables by name: made on demand by a sink, read by a source, declared or merely named in SQL, the same by `weir sql`.

use serde_json::json;

use crate::support::Place;

/// Two jobs over one catalog; names of tables are the same in any case.
const JOBS: &str = r#"apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {name: fill}
spec:
  trigger: {continuous: {}}
  checkpointRoot: checkpoints
  catalogs:
  - {name: main, warehouse: warehouse}
  tasks:
  - name: task
    queries:
    - name: readings
      sources: [{name: events, format: json, schema: "k BIGINT, v STRING", options: {path: input}}]
      sql: SELECT * FROM events
      sink: {table: main.bronze.Readings}
      badRecords: {table: ops.bad}
      trigger: {availableNow: {}}
    - name: names
      sources: [{name: events, format: json, schema: "k BIGINT, v STRING", options: {path: input}}]
      sql: SELECT k, upper(v) AS name FROM events WHERE k < 2
      sink: {table: ref.names}
      trigger: {availableNow: {}}
---
apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {name: join}
spec:
  trigger: {continuous: {}}
  checkpointRoot: checkpoints
  catalogs:
  - {name: main, warehouse: warehouse}
  tasks:
  - name: task
    queries:
    - name: joined
      sources: [{name: readings, table: bronze.readings}]
      tables: [{name: declared, table: MAIN.ref.names}]
      views: [{name: named, sql: "SELECT r.k, n.name FROM readings r JOIN main.REF.names n ON r.k = n.k"}]
      sql: SELECT n.k, n.name, d.name AS again FROM named n JOIN declared d ON d.k = n.k
      sink: {table: joined}
      trigger: {availableNow: {}}
"#;

#[test]
fn tables_are_made_and_read_by_name() {
    let place = Place::new("tables-by-name");
    for row in 0..3 {
        place.write_at(&format!("input/{row}.json"), &format!("{{\"k\":{row},\"v\":\"v{row}\"}}\n"), 1_700_000_000_000 + row * 1000);
    }
    place.write_at("input/bad.json", "broken\n", 1_700_000_000_000);
    for job in JOBS.split("---\n") {
        place.run_once(job, &[]).assert_code(0);
    }
    assert!(place.path().join("warehouse/default/joined/_delta_log").is_dir() && place.path().join("warehouse/bronze/readings").is_dir());
    let rows = place.sql_with("SELECT k, name, again FROM Main.default.joined ORDER BY k", &["--catalog", "main=warehouse"]);
    assert_eq!(json!(rows), json!([{"k": 0, "name": "V0", "again": "V0"}, {"k": 1, "name": "V1", "again": "V1"}]));
    let bad = place.sql_with("SELECT record, source FROM main.ops.bad", &["--catalog", "main=warehouse"]);
    assert_eq!(json!(bad), json!([{"record": "broken", "source": "events"}]));
    assert_eq!(place.sql_with("SELECT * FROM main.bronze.readings", &["--catalog", "main=warehouse"]).len(), 3);
    for (name, words) in [
        ("man.ref.names", "there is no catalog man; the catalogs are [main]"),
        ("main.`ref.names`", "'main.`ref.names`' is not a table name"),
        ("delta.`/x`", "the table or view `delta./x` cannot be found"),
    ] {
        let ended = place.run_once(&JOBS.split("---\n").last().unwrap().replace("main.REF.names", name), &[]);
        ended.assert_code(20);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}
