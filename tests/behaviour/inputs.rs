//! What goes in and how it is shown: compressed and partitioned files, CSV and
//! Parquet (PySpark as the other side), static tables that change between
//! batches, observed metrics, the console, and the commands that show things.

use std::fs;
use std::io::Write;
use std::process::Command;

use serde_json::{Value, json};
use weir_crds::options::{Effect, FORMATS, Kind, Role};
use weir_testkit::judge::{Input, Judge, OutputTo};
use weir_testkit::process::run;
use weir_testkit::wait::eventually;

use crate::jobs::{AVAILABLE_NOW, Query, job, job_without_retries};
use crate::support::{DEADLINE, Ended, Place, repository, weir};

const JSON_SINK: &str = "{format: json, options: {path: output}}";

/// Runs one query to its end.
fn run_query(place: &Place, source: &str, sql: &str, sink: &str, fields: &[&str]) -> Ended {
    let query = Query { name: "query", sources: &[source], sql, sink, trigger: AVAILABLE_NOW, fields };
    let ended = place.run_once(&job_without_retries(&[query]), &[]);
    ended.assert_code(0);
    ended
}

/// A command of the binary in the place's folder: exit code, stdout, stderr.
fn command(place: &Place, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = weir();
    command.current_dir(place.path()).args(arguments);
    let finished = run("weir", command, DEADLINE).unwrap();
    (finished.status.code(), finished.stdout, finished.stderr)
}

fn bytes(place: &Place, name: &str, bytes: &[u8]) {
    let path = place.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn inputs_compressed_files() {
    let place = Place::new("compressed");
    place.write("input/0.json", "{\"v\":0}\n");
    bytes(&place, "input/1.json.gz", &gzip("{\"v\":1}\n{\"v\":2}\n"));
    bytes(&place, "input/2.json.zst", &zstd::encode_all(&b"{\"v\":3}\n"[..], 3).unwrap());
    // Two members one after the other are one file.
    bytes(&place, "input/3.json.gz", &[gzip("{\"v\":4}\n"), gzip("{\"v\":5}\n")].concat());
    let ended = run_query(&place, "{name: e, format: json, schema: 'v BIGINT', options: {path: input}}", "SELECT v FROM e", JSON_SINK, &[]);
    assert_eq!(ended.progress("query")[0]["numInputRows"], 6);
    let rows = place.sql("SELECT v FROM t ORDER BY v", &[("t", "json:output?schema=v BIGINT")]);
    assert_eq!(rows, (0..6).map(|v| json!({"v": v})).collect::<Vec<_>>());
}

#[test]
fn inputs_partitioned_folders() {
    let place = Place::new("partitioned");
    for (folder, v) in
        [("day=2024-01-01/region=eu", 1), ("day=2024-01-01/region=us", 2), ("day=2024-01-02/region=__HIVE_DEFAULT_PARTITION__", 3)]
    {
        place.write(&format!("input/{folder}/0.json"), &format!("{{\"v\":{v}}}\n"));
    }
    let schema = "v BIGINT, day DATE, region STRING";
    let source = format!("{{name: e, format: json, schema: '{schema}', options: {{path: input}}}}");
    run_query(&place, &source, "SELECT v, day, region FROM e", "{format: parquet, options: {path: output}}", &[]);
    let judge = Judge::shared();
    let expected = judge.query(&Input::at("json", place.at("input")).schema(schema), "SELECT v, day, region FROM source").unwrap();
    assert_eq!(judge.read(&Input::at("parquet", place.at("output"))).unwrap(), expected);
    assert_eq!(expected.rows.len(), 3);
}

/// Spark is asked by path, where it knows `_metadata` in SQL.
#[test]
fn inputs_metadata_column_of_files() {
    let place = Place::new("metadata");
    place.write_at("input/day=2024-01-01/a b%.json", "{\"v\":1}\n{\"v\":2}\n", 1_700_000_000_123);
    place.write_at("input/day=2024-01-02/c.json", "{\"v\":3}\n", 1_700_000_001_000);
    let judge = Judge::shared();
    let written = OutputTo::at("parquet", place.at("columns"));
    judge.write("SELECT id AS v FROM range(0, 20000, 1, 1)", &written, "overwrite").unwrap();
    for (format, input, fields) in [("json", "input", "v, day"), ("parquet", "columns", "v")] {
        let select = |from: &str| format!("SELECT {fields}, _metadata.*, _metadata FROM {from} WHERE v % 1999 < 9");
        let expected = judge.sql(&select(&format!("{format}.`{}`", place.at(input))), &[]).unwrap();
        assert!(expected.rows.len() >= 3);
        let source = format!("{{name: e, format: {format}, schema: 'v BIGINT', options: {{path: {input}}}}}");
        let output = format!("output-{format}");
        let sink = format!("{{format: parquet, options: {{path: {output}}}}}");
        let query = Query { name: format, sources: &[&source], sql: &select("e"), sink: &sink, trigger: AVAILABLE_NOW, fields: &[] };
        place.run_once(&job_without_retries(&[query]), &[]).assert_code(0);
        assert_eq!(judge.read(&Input::at("parquet", place.at(&output))).unwrap(), expected);
        let stars = place.sql("SELECT * FROM t WHERE _metadata.file_size < 0", &[("t", &format!("{format}:{input}"))]);
        assert!(stars.is_empty());
    }
    let rows = place.sql("SELECT * FROM t ORDER BY v LIMIT 1", &[("t", "json:input")]);
    assert_eq!(rows, [json!({"v": 1, "day": "2024-01-01"})]);
}

#[test]
fn inputs_csv_with_header() {
    let place = Place::new("csv-header");
    place.write("input/0.csv", "name;amount;at\n\"Ann; A.\";1.50;2024-01-01 10:00:00\n;2;\n\"say \"\"hi\"\"\";3.25;2024-02-29\n");
    let schema = "name STRING, amount DECIMAL(10,2), at TIMESTAMP";
    let source = format!("{{name: e, format: csv, schema: '{schema}', options: {{path: input, header: 'true', sep: ';', escape: '\"'}}}}");
    run_query(&place, &source, "SELECT name, amount, at FROM e", "{format: parquet, options: {path: output}}", &[]);
    let judge = Judge::shared();
    let input = Input::at("csv", place.at("input")).schema(schema).option("header", true).option("sep", ";").option("escape", "\"");
    assert_eq!(judge.read(&Input::at("parquet", place.at("output"))).unwrap(), judge.read(&input).unwrap());
}

const TYPED: &str = "SELECT id, CAST(id AS INT) AS i, CAST(id AS DOUBLE) / 4 AS d, CAST(id AS DECIMAL(20,3)) AS c, id % 2 = 0 AS b, \
                     concat('t', id) AS s, CAST(concat('b', id) AS BINARY) AS y, date_add(DATE'2024-02-28', CAST(id AS INT)) AS day, \
                     timestampadd(HOUR, CAST(id AS INT), TIMESTAMP'2024-01-01 00:00:00.123456') AS at, array(id, NULL) AS a, \
                     map('k', id) AS m, named_struct('x', id, 'y', array(named_struct('z', 'w'))) AS st, \
                     CASE WHEN id > 2 THEN id END AS n FROM range(5)";

#[test]
fn inputs_parquet_both_ways() {
    let (place, judge) = (Place::new("parquet-ways"), Judge::shared());
    judge.write(TYPED, &OutputTo::at("parquet", place.at("input")), "errorifexists").unwrap();
    let columns = "id BIGINT, i INT, d DOUBLE, c DECIMAL(20,3), b BOOLEAN, s STRING, y BINARY, day DATE, at TIMESTAMP, a ARRAY<BIGINT>, \
                   m MAP<STRING, BIGINT>, st STRUCT<x: BIGINT, y: ARRAY<STRUCT<z: STRING>>>, n BIGINT";
    let source = format!("{{name: e, format: parquet, schema: '{columns}', options: {{path: input}}}}");
    let sink = "{format: parquet, options: {path: output}, partitionBy: [day, s]}";
    run_query(&place, &source, "SELECT * FROM e", sink, &[]);
    let columns = "id, i, d, c, b, s, CAST(y AS STRING) AS y, day, at, a, m, st, n";
    let read = |folder: &str| judge.query(&Input::at("parquet", place.at(folder)), &format!("SELECT {columns} FROM source")).unwrap();
    let (input, output) = (read("input"), read("output"));
    assert_eq!(output, input);
    assert_eq!(input.rows.len(), 5);
    assert!(place.path().join("output/day=2024-02-29/s=t1").is_dir());
}

/// Rows of the output by value.
fn labels(place: &Place) -> Vec<(i64, Option<String>)> {
    if !place.path().join("output/_spark_metadata/0").exists() {
        return Vec::new();
    }
    let rows = place.sql("SELECT v, label FROM t ORDER BY v", &[("t", "json:output?schema=v BIGINT, label STRING")]);
    rows.iter().map(|row| (row["v"].as_i64().unwrap(), row["label"].as_str().map(str::to_owned))).collect()
}

/// A table is joined, changes while the query runs, and the next batch sees it.
fn joined_while_it_changes(name: &str, table: &str, write: impl Fn(&Place, &str)) {
    let place = Place::new(name);
    write(&place, "(1, 'one'), (2, 'two')");
    place.write_at("input/0.json", "{\"v\":1}\n{\"v\":3}\n", 1_700_000_000_000);
    let query = Query {
        name: "query",
        sources: &["{name: e, format: json, schema: 'v BIGINT', options: {path: input}}"],
        sql: "SELECT e.v, d.label FROM e LEFT JOIN d ON e.v = d.id",
        sink: JSON_SINK,
        trigger: "{processingTime: 100ms}",
        fields: &[&format!("tables: [{table}]")],
    };
    let runner = place.start(&job(&[query]), &[]);
    let until =
        |count: usize| eventually("the rows are joined", DEADLINE, || Some(labels(&place)).filter(|rows| rows.len() == count)).unwrap();
    let own = |v: i64, label: Option<&str>| (v, label.map(str::to_owned));
    assert_eq!(until(2), [own(1, Some("one")), own(3, None)]);
    write(&place, "(2, 'zwei'), (3, 'drei')");
    place.write_at("input/1.json", "{\"v\":2}\n{\"v\":4}\n", 1_700_000_001_000);
    assert_eq!(until(4), [own(1, Some("one")), own(2, Some("zwei")), own(3, None), own(4, None)]);
    runner.interrupt().unwrap();
    assert_eq!(runner.wait(DEADLINE).unwrap().code(), Some(0));
}

#[test]
fn inputs_static_delta_table() {
    joined_while_it_changes("static-delta", "{name: d, format: delta, options: {path: labels}}", |place, values| {
        let sql = format!("SELECT CAST(id AS BIGINT) AS id, label FROM VALUES {values} AS t(id, label)");
        Judge::shared().write(&sql, &OutputTo::at("delta", place.at("labels")), "overwrite").unwrap();
    });
}

#[test]
fn inputs_static_files() {
    let table = "{name: d, format: csv, schema: 'id BIGINT, label STRING', options: {path: labels}}";
    joined_while_it_changes("static-files", table, |place, values| {
        let text = values.trim_matches(['(', ')']).replace("), (", "\n").replace(", ", ",").replace('\'', "") + "\n";
        // The old file goes and a new one comes, as jobs that write folders do.
        let _ = fs::remove_dir_all(place.path().join("labels"));
        place.write(&format!("labels/{}.csv", text.len()), &text);
    });
}

#[test]
fn inputs_observed_metrics() {
    let place = Place::new("observed");
    place.write_at("input/0.json", "{\"v\":1}\n{\"v\":2}\n{}\n", 1_700_000_000_000);
    place.write_at("input/1.json", "{}\n", 1_700_000_001_000);
    let source = "{name: e, format: json, schema: 'v BIGINT', options: {path: input, maxFilesPerTrigger: '1'}}";
    let fields = [
        "views: [{name: doubled, sql: SELECT v * 2 AS w FROM e}]",
        "observe: [{name: quality, view: doubled, metrics: [{name: rows, expr: count(*)}, {name: bad, expr: count_if(w IS NULL)}, {name: most, expr: max(w)}]}]",
    ];
    let ended = run_query(&place, source, "SELECT w FROM doubled WHERE w > 2", "{format: noop}", &fields);
    let observed: Vec<Value> = ended.progress("query").iter().map(|p| p["observedMetrics"]["quality"].clone()).collect();
    assert_eq!(observed[0], json!({"rows": 3, "bad": 1, "most": 4}));
    assert_eq!((&observed[1]["rows"], &observed[1]["bad"], &observed[1]["most"]), (&json!(1), &json!(1), &Value::Null));
}

#[test]
fn inputs_console_sink() {
    let place = Place::new("console");
    place.write("input/0.json", "{\"k\":\"a\",\"v\":1}\n{\"k\":\"a rather long text for a column\",\"v\":null}\n");
    let source = "{name: e, format: json, schema: 'k STRING, v BIGINT', options: {path: input}}";
    let query = Query {
        name: "query",
        sources: &[source],
        sql: "SELECT k, v FROM e",
        sink: "{format: console}",
        trigger: AVAILABLE_NOW,
        fields: &[],
    };
    place.write("job.yaml", &job_without_retries(&[query]));
    let (code, stdout, stderr) = command(&place, &["run", "job.yaml", "--once"]);
    assert_eq!(code, Some(0), "{stderr}");
    let expected = "\
-------------------------------------------
Batch: 0
-------------------------------------------
+--------------------+----+
|                   k|   v|
+--------------------+----+
|                   a|   1|
|a rather long tex...|NULL|
+--------------------+----+
";
    assert!(stdout.contains(expected), "{stdout}");
    assert!(stderr.contains("batch 0") && stderr.contains("2 rows"), "a plain line per batch: {stderr}");
    place.write("input/1.json", "{\"k\":\"b\",\"v\":2}\n");
    let (code, stdout, stderr) = command(&place, &["run", "job.yaml", "--once", "--progress", "json"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "events alone: {stdout}");
    assert!(stderr.contains("|  b|  2|"), "the console's rows are beside them: {stderr}");
}

#[test]
fn inputs_two_queries_over_one_folder() {
    let place = Place::new("two-queries");
    place.write("input/0.json", "{\"v\":1}\n{\"v\":2}\n{\"v\":3}\n");
    let source = "{name: e, format: json, schema: 'v BIGINT', options: {path: input}}";
    let sources = [source];
    let query = |name, sql, sink| Query { name, sources: &sources, sql, sink, trigger: AVAILABLE_NOW, fields: &[] };
    let odd = query("odd", "SELECT v FROM e WHERE v % 2 = 1", "{format: delta, options: {path: odd}}");
    let even = query("even", "SELECT v FROM e WHERE v % 2 = 0", "{format: delta, options: {path: even}}");
    let ended = place.run_once(&job_without_retries(&[odd, even]), &[]);
    ended.assert_code(0);
    let ids = [&ended.progress("odd")[0]["id"], &ended.progress("even")[0]["id"]].map(Value::to_string);
    assert_ne!(ids[0], ids[1]);
    let values = |table: &str| place.sql("SELECT v FROM t ORDER BY v", &[("t", &format!("delta:{table}"))]);
    assert_eq!(values("odd"), [json!({"v": 1}), json!({"v": 3})]);
    assert_eq!(values("even"), [json!({"v": 2})]);
}

/// An option that is accepted without a warning is one that the engine looks at.
#[test]
fn inputs_options_that_are_accepted_are_read() {
    let mut sources = String::new();
    let mut folders = vec![repository().join("engine")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push_str(&fs::read_to_string(path).unwrap().to_ascii_lowercase());
            }
        }
    }
    let mut unread = Vec::new();
    for (format, role) in FORMATS.iter().flat_map(|format| [(format, Role::Source), (format, Role::Table), (format, Role::Sink)]) {
        let obeyed = format.rows(role).filter(|row| row.effect == Effect::Obeyed);
        // One allowed value is no choice: giving it changes nothing.
        let chosen = obeyed.filter(|row| !matches!(row.kind, Kind::Choice([_])));
        let is_read = |name: &str| sources.contains(&format!("\"{}\"", name.to_ascii_lowercase()));
        unread.extend(chosen.filter(|row| !is_read(row.name)).map(|row| format!("{}: {}", format.as_str(), row.name)));
    }
    assert!(unread.is_empty(), "{unread:#?}");
}

#[test]
fn command_sql_prints_three_forms() {
    let place = Place::new("sql-forms");
    place.write("t.json", "{\"a\":1,\"b\":\"x, \\\"y\\\"\"}\n{\"a\":null,\"b\":\"z\"}\n");
    let table = format!("t=json:{}?schema=a BIGINT, b STRING", place.at("t.json"));
    let sql = |query: &str, output: &str| command(&place, &["sql", query, "--table", &table, "--output", output]);
    let query = "SELECT b, a, a + 1 AS c FROM t ORDER BY b";
    assert_eq!(sql(query, "json").1, "{\"b\":\"x, \\\"y\\\"\",\"a\":1,\"c\":2}\n{\"b\":\"z\"}\n");
    assert_eq!(sql(query, "csv").1, "b,a,c\n\"x, \"\"y\"\"\",1,2\nz,,\n");
    let table_text = sql(query, "table").1;
    assert!(table_text.contains("| b ") && table_text.contains("| x, \"y\" | 1    | 2    |"), "{table_text}");
    assert!(table_text.contains("| z      | NULL | NULL |"), "{table_text}");
    let by_place = command(&place, &["sql", "SELECT count(*) AS n FROM json.`t.json`", "--output", "json"]);
    assert_eq!(by_place.1, "{\"n\":2}\n", "{}", by_place.2);
    assert_eq!(sql("SELECT b FROM t WHERE a > 7", "csv").1, "b\n", "a header also without rows");
    assert_eq!(sql("SELECT b FROM t WHERE a > 7", "json").1, "");
    let (code, _, stderr) = sql("SELECT nope FROM t", "json");
    assert_eq!(code, Some(20));
    assert!(stderr.contains("[UNRESOLVED_COLUMN.WITH_SUGGESTION]"), "{stderr}");
    let (code, _, stderr) = sql("SELECT 1 / 0 AS x", "json");
    assert_eq!(code, Some(20));
    assert_eq!(stderr.matches("[DIVIDE_BY_ZERO]").count(), 1, "{stderr}");
    let (code, stdout, _) = command(&place, &["sql", "SELECT 1 / 0 AS x", "--conf", "spark.sql.ansi.enabled=false", "--output", "json"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "{}\n"));
    assert_eq!(command(&place, &["sql"]).0, Some(2), "usage");
    let servers = format!("127.0.0.1:{}", weir_testkit::ports::reserve().unwrap());
    let silent = format!("t=kafka:events?kafka.bootstrap.servers={servers}&kafka.request.timeout.ms=1500&fetchOffset.numRetries=1");
    let (code, _, stderr) = command(&place, &["sql", "SELECT count(*) FROM t", "--table", &silent]);
    assert_eq!(code, Some(10), "{stderr}");
    assert!(stderr.contains("[KAFKA_BROKER_UNREACHABLE]") && stderr.contains("kafka.request.timeout.ms is 1500"), "{stderr}");
}

/// A job that has run once in a place of its own.
fn ran(name: &str) -> Place {
    let place = Place::new(name);
    place.write("input/0.json", "{\"v\":1}\n");
    let source = "{name: e, format: json, schema: 'v BIGINT', options: {path: input}}";
    run_query(&place, source, "SELECT v FROM e", "{format: noop}", &[]);
    place
}

#[test]
fn command_status_has_kubectls_columns() {
    let place = ran("status");
    let heading = |text: &str| text.lines().next().unwrap().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let columns = ["NAME", "READY", "STATUS", "RUN", "TASKS", "FAILURES", "NEXT-RESTART", "LAST-COMMIT"];
    let (code, text, _) = command(&place, &["status"]);
    assert_eq!((code, heading(&text)), (Some(0), columns.map(str::to_owned).to_vec()), "{text}");
    let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[0], "job");
    let (_, text, _) = command(&place, &["status", "-o", "wide"]);
    assert_eq!(heading(&text)[8..], ["LAG", "EPOCH", "MESSAGE"]);
    let (_, text, _) = command(&place, &["status", "job", "-o", "json"]);
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status["lastRun"]["result"], "Succeeded", "{status}");
    let (_, text, _) = command(&place, &["status", "job", "-o", "yaml"]);
    let yaml: Value = serde_yaml_ng::from_str(&text).unwrap();
    assert_eq!(yaml, status);
    let (code, _, stderr) = command(&place, &["status", "nope"]);
    assert_eq!(code, Some(20));
    assert!(stderr.contains("nope"), "{stderr}");
}

#[test]
fn command_checkpoint_shows_what_it_holds() {
    let place = ran("checkpoint-show");
    let (code, text, stderr) = command(&place, &["checkpoint", "show", "checkpoint-query"]);
    assert_eq!(code, Some(0), "{stderr}");
    let shown: Value = serde_yaml_ng::from_str(&text).unwrap();
    let metadata: Value = serde_json::from_str(&fs::read_to_string(place.path().join("checkpoint-query/metadata")).unwrap()).unwrap();
    assert_eq!(shown["queryId"], metadata["id"], "{text}");
    for word in ["planned", "committed", "epoch", "owner", "logOffset"] {
        assert!(text.contains(word), "'{word}' is not in {text}");
    }
    let (code, text, stderr) = command(&place, &["checkpoint", "show", "."]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(serde_yaml_ng::from_str::<Value>(&text).unwrap()["queries"], json!(["checkpoint-query"]), "{text}");
    let (code, _, stderr) = command(&place, &["checkpoint", "verify", "."]);
    assert!(code == Some(20) && stderr.contains("below it: checkpoint-query"), "{stderr}");
    let (code, _, stderr) = command(&place, &["checkpoint", "show", "nowhere"]);
    assert_eq!(code, Some(20));
    assert!(stderr.contains("there is no checkpoint at"), "{stderr}");
    assert!(!place.path().join("nowhere").exists(), "looking leaves no trace");
}

#[test]
fn command_completion_is_a_script() {
    let place = Place::new("completion");
    let (code, text, _) = command(&place, &["completion", "bash"]);
    assert_eq!(code, Some(0));
    let script = place.write("weir.bash", &text);
    assert!(Command::new("bash").arg("-n").arg(&script).status().unwrap().success());
    let ask = format!(". '{}'; COMP_WORDS=(weir che); COMP_CWORD=1; _weir weir che weir; echo \"${{COMPREPLY[@]}}\"", script.display());
    let mut bash = Command::new("bash");
    bash.args(["-c", &ask]);
    assert_eq!(run("bash", bash, DEADLINE).unwrap().stdout.trim(), "check checkpoint");
}

#[test]
fn command_helps_have_examples() {
    let place = Place::new("help");
    let commands: &[&[&str]] = &[
        &[],
        &["run"],
        &["check"],
        &["task"],
        &["status"],
        &["checkpoint"],
        &["checkpoint", "show"],
        &["checkpoint", "verify"],
        &["sql"],
        &["completion"],
    ];
    for words in commands {
        let arguments: Vec<&str> = words.iter().copied().chain(["--help"]).collect();
        let (code, text, _) = command(&place, &arguments);
        assert_eq!(code, Some(0));
        let example = format!("  weir {}", words.join(" "));
        assert!(text.contains("Example") && text.contains(example.trim_end()), "{words:?}: {text}");
    }
}
