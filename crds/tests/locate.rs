//! Places inside SQL, and what `-p` does to a job.

use std::collections::BTreeMap;

use weir_crds::manifest::{End, ManifestFile, load, substituted};

const MANIFEST: &str = r#"apiVersion: weir.dev/v1alpha1
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
      - {name: quoted, sql: 'SELECT ''x'' AS x, value FROM s'}
      - {name: double, sql: "SELECT \"a\" AS a,\n \u0062, \
          value FROM s"}
      - name: wrapped
        sql: SELECT 1,
          value FROM s
      - name: folded
        # what follows is one line
        sql: >-

          SELECT 1,
            2,
          value

          FROM s
      observe:
      - {name: o, view: plain, metrics: [{name: m, expr: sum( value)}]}
      sql: |2

          SELECT '${env}' AS env, $${x} ${rate} valeu,
            valeu
          FROM s
      sink: {format: noop}
"#;

fn job(parameters: &[(&str, &str)]) -> weir_crds::manifest::LoadedJob {
    let file = ManifestFile { name: "m.yaml".to_owned(), text: MANIFEST.to_owned() };
    let parameters: BTreeMap<String, String> = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut loaded = load(&[file], &parameters).into_result().expect("a good manifest");
    loaded.jobs.remove(0)
}

/// Where a word of a field's text, as the engine gets it, is in the file.
fn place_of(job: &weir_crds::manifest::LoadedJob, field: &str, text: &str, word: &str) -> (usize, String) {
    let before = &text[..text.find(word).expect("the word")];
    let (line, column) = (before.matches('\n').count() + 1, before.rsplit('\n').next().unwrap_or_default().chars().count() + 1);
    let at = job.locator.inside(&format!("spec.tasks[main].queries[q].{field}"), &job.job.spec.parameters, line, column);
    (at.line, MANIFEST.lines().nth(at.line - 1).expect("a line").chars().skip(at.column - 1).take(5).collect())
}

#[test]
fn a_place_in_sql_is_a_place_in_the_file_however_it_is_written() {
    let job = job(&[]);
    let spec = substituted(&job.job.spec);
    let query = &spec.tasks[0].queries[0];
    let line_of = |text: &str| MANIFEST.lines().position(|line| line.contains(text)).expect("a line") + 1;
    for view in &query.views {
        let line = match view.name.as_str() {
            "plain" | "quoted" => line_of(&format!("name: {}", view.name)),
            "double" => line_of("name: double") + 1,
            "wrapped" => line_of("name: wrapped") + 2,
            _ => line_of("sql: >-") + 4,
        };
        let found = place_of(&job, &format!("views[{}].sql", view.name), &view.sql, "value");
        assert_eq!(found, (line, "value".to_owned()), "{}", view.name);
    }
    let sql = line_of("sql: |2");
    assert_eq!(place_of(&job, "sql", &query.sql, "valeu,"), (sql + 2, "valeu".to_owned()));
    assert_eq!(place_of(&job, "sql", &query.sql, "valeu\n"), (sql + 3, "valeu".to_owned()));
    assert_eq!(place_of(&job, "sql", &query.sql, "test"), (sql + 2, "${env".to_owned()));
    assert_eq!(place_of(&job, "sql", &query.sql, "${x}"), (sql + 2, "${x} ".to_owned()));
    assert_eq!(place_of(&job, "observe[o].metrics[m].expr", "sum( value)", "value").1, "value");
    assert_eq!(place_of(&job, "observe[o].metrics[m].expr", "sum( value)", " value").1, " valu");
    let missing = job.locator.find("spec.tasks[main].queries[q].checkpointLocation", End::Value);
    assert_eq!(missing.line, line_of("- name: q"));
}

#[test]
fn a_place_in_a_document_of_json_is_found_too() {
    let text = r#"{"apiVersion": "weir.dev/v1alpha1", "kind": "StreamingJob", "metadata": {"name": "j"}, "spec": {"trigger": {"manual": {}},
        "tasks": [{"name": "t", "queries": [{"name": "q", "sources": [{"name": "s", "format": "rate"}], "sink": {"format": "noop"},
        "sql": "SELECT 'a\\b' AS a,\n  \"x\"  AS x, valeu\nFROM s"}]}]}}"#;
    let mut loaded = load(&[ManifestFile { name: "j.json".to_owned(), text: text.to_owned() }], &BTreeMap::new());
    assert!(loaded.problems.iter().all(|problem| !problem.is_error()), "{:?}", loaded.problems);
    let at = loaded.jobs.remove(0).locator.inside("spec.tasks[t].queries[q].sql", &BTreeMap::new(), 2, 14);
    assert!(text.lines().nth(at.line - 1).is_some_and(|line| line[at.column - 1..].starts_with("valeu")), "{at:?}");
}

#[test]
fn parameters_from_the_command_line_win_everywhere() {
    let loaded = job(&[("env", "prod"), ("rate", "7")]);
    let spec = substituted(&loaded.job.spec);
    let query = &spec.tasks[0].queries[0];
    assert!(query.sql.trim_start().starts_with("SELECT 'prod' AS env"));
    assert_eq!(query.sources[0].options["rowsPerSecond"], "7");
    assert!(loaded.document.contains(r#""env":"prod""#));
    let again = load(&[ManifestFile { name: "again".to_owned(), text: loaded.document }], &BTreeMap::new());
    assert_eq!(again.jobs[0].job, loaded.job);
}
