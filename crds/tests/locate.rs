//! Places inside SQL, and what `-p` does to a job.

use std::collections::BTreeMap;

use weir_crds::manifest::{End, ManifestFile, load, substituted};

const MANIFEST: &str = "\
apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {name: demo}
spec:
  trigger: {manual: {}}
  parameters: {env: test, rate: '1'}
  tasks:
  - name: main
    queries:
    - name: q
      sources: [{name: s, format: rate, options: {rowsPerSecond: '${rate}'}}]
      views:
      - {name: plain, sql: SELECT value FROM s}
      - {name: quoted, sql: 'SELECT value FROM s'}
      sql: |
        SELECT '${env}' AS env,
          valeu
        FROM s
      sink: {format: noop}
";

fn job(parameters: &[(&str, &str)]) -> weir_crds::manifest::LoadedJob {
    let file = ManifestFile { name: "m.yaml".to_owned(), text: MANIFEST.to_owned() };
    let parameters: BTreeMap<String, String> = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut loaded = load(&[file], &parameters).into_result().expect("a good manifest");
    loaded.jobs.remove(0)
}

#[test]
fn a_place_in_sql_is_a_place_in_the_file() {
    let locator = job(&[]).locator;
    let at = |path: &str, line, column| {
        let at = locator.inside(&format!("spec.tasks[main].queries[q].{path}"), line, column);
        let text: String = MANIFEST.lines().nth(at.line - 1).expect("a line").chars().skip(at.column - 1).take(5).collect();
        (at.line, text)
    };
    assert_eq!(at("sql", 2, 3), (17, "valeu".to_owned()));
    assert_eq!(at("views[plain].sql", 1, 8), (13, "value".to_owned()));
    assert_eq!(at("views[quoted].sql", 1, 8), (14, "value".to_owned()));
    assert_eq!(locator.find("spec.tasks[main].queries[q].checkpointLocation", End::Value).line, 10);
}

#[test]
fn parameters_from_the_command_line_win_everywhere() {
    let loaded = job(&[("env", "prod"), ("rate", "7")]);
    let spec = substituted(&loaded.job.spec);
    let query = &spec.tasks[0].queries[0];
    assert!(query.sql.starts_with("SELECT 'prod' AS env"));
    assert_eq!(query.sources[0].options["rowsPerSecond"], "7");
    assert!(loaded.document.contains(r#""env":"prod""#));
    let again = load(&[ManifestFile { name: "again".to_owned(), text: loaded.document }], &BTreeMap::new());
    assert_eq!(again.jobs[0].job, loaded.job);
}
