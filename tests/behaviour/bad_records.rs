//! Bad records: treated by the mode asked for, as Spark treats them, counted
//! in progress, never a panic.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::Value;
use weir_testkit::judge::{Input, Judge, Rows};
use weir_testkit::kafka::{Broker, Message};

use crate::jobs::{AVAILABLE_NOW, Query, job_without_retries};
use crate::support::{Ended, Place, sorted};

const SCHEMA: &str = "k STRING, v BIGINT, _corrupt_record STRING";

/// One of each kind.
fn records() -> Vec<Vec<u8>> {
    let deep = format!("{{\"k\":\"deep\",\"v\":6,\"other\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let deep_column = format!("{{\"k\":\"column\",\"v\":{}7{}}}", "[".repeat(5_000), "]".repeat(5_000));
    vec![
        b"{\"k\":\"good\",\"v\":1}".to_vec(),
        b"not JSON".to_vec(),
        b"{\"k\":\"type\",\"v\":\"x\"}".to_vec(),
        b"{\"k\":\"\xff\xfe\",\"v\":3}".to_vec(),
        b"\xff\xfe\xfd".to_vec(),
        format!("{{\"k\":\"{}\",\"v\":4}}", "x".repeat(10 << 20)).into_bytes(),
        b"".to_vec(),
        b"   ".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"{}".to_vec(),
        b"{\"k\":\"cut\",\"v\":".to_vec(),
        b"{\"k\":\"large\",\"v\":99999999999999999999999}".to_vec(),
        deep.into_bytes(),
        deep_column.into_bytes(),
        b"{\"k\":\"last\",\"v\":9}".to_vec(),
    ]
}

const SEEN: &str = "length(k) AS n, left(k, 10) AS k, v, _corrupt_record IS NULL AS good, left(_corrupt_record, 20) AS text";

/// Rows of the judge as objects without nulls.
fn objects(rows: &Rows) -> Vec<String> {
    let object = |row: &Vec<Value>| {
        let fields: BTreeMap<&str, &Value> = rows.columns.iter().map(String::as_str).zip(row).collect();
        sorted(&serde_json::to_string(&fields).unwrap())
    };
    let mut objects: Vec<String> = rows.rows.iter().map(object).collect();
    objects.sort();
    objects
}

/// What a job wrote into the folder `output`.
fn written(place: &Place, columns: &str) -> Vec<String> {
    in_order(&place.sql("SELECT * FROM t", &[("t", &format!("json:output?schema={columns}"))]))
}

fn in_order(rows: &[Value]) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(|row| sorted(&row.to_string())).collect();
    rows.sort();
    rows
}

/// No reader sees a row, and no file of the failed batch is left behind.
fn nothing_written(place: &Place) {
    let output = place.path().join("output");
    assert!(!output.join("_spark_metadata/0").exists());
    let files = std::fs::read_dir(&output).into_iter().flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = files.filter(|name| !name.starts_with('_')).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn malformed(ended: &Ended) -> u64 {
    let progress = ended.progress("query");
    let counts = progress.iter().filter_map(|p| p["sources"][0]["metrics"]["malformedRecords"].as_str());
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
}

/// Runs a query over a source and expects its end.
fn run(place: &Place, source: &str, sql: &str, code: i32) -> Ended {
    let sink = "{format: json, options: {path: output}}";
    let query = Query { name: "query", sources: &[source], sql, sink, trigger: AVAILABLE_NOW, fields: &[] };
    let ended = place.run_once(&job_without_retries(&[query]), &[]);
    ended.assert_code(code);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    ended
}

/// A folder of one file with these lines.
fn lines(name: &str, file: &str, records: &[Vec<u8>]) -> Place {
    let place = Place::new(name);
    place.write("input/.keep", "");
    let mut bytes = records.join(&b'\n');
    bytes.push(b'\n');
    std::fs::write(place.path().join("input").join(file), bytes).unwrap();
    place
}

fn json_mode(mode: &str, schema: &str, seen: &str) -> (Place, Ended, Rows) {
    let place = lines(&format!("bad-json-{}", mode.to_lowercase()), "0.json", &records());
    let source = format!("{{name: events, format: json, schema: '{schema}', options: {{path: input, mode: {mode}}}}}");
    let ended = run(&place, &source, &format!("SELECT {seen} FROM events"), 0);
    let input = Input::at("json", place.at("input")).schema(schema).option("mode", mode);
    let expected = Judge::shared().query(&input, &format!("SELECT {seen} FROM source")).unwrap();
    (place, ended, expected)
}

#[test]
fn bad_json_lines_permissive() {
    let (place, ended, expected) = json_mode("PERMISSIVE", SCHEMA, SEEN);
    assert_eq!(written(&place, "n INT, k STRING, v BIGINT, good BOOLEAN, text STRING"), objects(&expected));
    let bad = expected.rows.iter().filter(|row| row[3] == false).count();
    assert_eq!(malformed(&ended), bad as u64, "{:?}", ended.progress("query"));
}

#[test]
fn bad_json_lines_dropmalformed() {
    let (place, ended, expected) = json_mode("DROPMALFORMED", "k STRING, v BIGINT", "length(k) AS n, left(k, 10) AS k, v");
    assert_eq!(written(&place, "n INT, k STRING, v BIGINT"), objects(&expected));
    let (_, permissive, _) = json_mode("PERMISSIVE", SCHEMA, SEEN);
    assert_eq!(malformed(&ended), malformed(&permissive), "the same records are counted, dropped or not");
}

#[test]
fn bad_json_lines_failfast() {
    let place = lines("bad-json-failfast", "0.json", &records());
    let source = "{name: events, format: json, schema: 'k STRING, v BIGINT', options: {path: input, mode: FAILFAST}}";
    let ended = run(&place, source, "SELECT k, v FROM events", 20);
    for word in ["MALFORMED_RECORD_IN_PARSING", "0.json", "FAILFAST"] {
        assert!(ended.stderr.contains(word), "'{word}' is not in: {}", ended.stderr);
    }
    assert_eq!(ended.progress("query").len(), 0);
    nothing_written(&place);
}

/// A field more, another type, nulls inside and out: rows or counted rows, none lost; a null partition has its folder.
#[test]
fn bad_json_that_drifts_and_partitions_that_are_null() {
    let drifting = [
        r#"{"k":"a","v":1,"s":{"a":1}}"#,
        r#"{"k":"a","v":2,"s":{"a":2,"new":true},"new":[{"x":1}]}"#,
        r#"{"k":null,"v":3,"s":null}"#,
        r#"{"v":4,"s":{"a":null}}"#,
        r#"{"k":"","v":5,"s":{}}"#,
        r#"{"k":"b","v":"six","s":{"a":6}}"#,
        r#"{"k":"b","v":7,"s":"text"}"#,
        r#"{"k":"b","v":8,"s":{"a":{"deep":8}}}"#,
        r#"{"k":{"now":"a struct"},"v":9,"s":{"a":9}}"#,
    ];
    let records: Vec<Vec<u8>> = drifting.iter().map(|line| line.as_bytes().to_vec()).collect();
    let place = lines("bad-json-drift", "0.json", &records);
    let schema = "k STRING, v BIGINT, s STRUCT<a: BIGINT>, _corrupt_record STRING";
    let source = format!("{{name: events, format: json, schema: '{schema}', options: {{path: input}}}}");
    let sources = [source.as_str()];
    let sql = "SELECT v, s.a AS a, _corrupt_record IS NULL AS good, k FROM events";
    let query = |name, sink| Query { name, sources: &sources, sql, sink, trigger: AVAILABLE_NOW, fields: &[] };
    let queries = [
        query("query", "{format: delta, options: {path: table}, partitionBy: [k]}"),
        query("files", "{format: json, options: {path: output}, partitionBy: [k]}"),
    ];
    let ended = place.run_once(&job_without_retries(&queries), &[]);
    ended.assert_code(0);
    let input = Input::at("json", place.at("input")).schema(schema);
    let seen = "SELECT v, s.a AS a, _corrupt_record IS NULL AS good, nullif(k, '') AS k FROM source";
    let expected = Judge::shared().query(&input, seen).unwrap();
    let bad = expected.rows.iter().filter(|row| row[2] == false).count();
    assert_eq!((expected.rows.len(), malformed(&ended)), (drifting.len(), bad as u64));
    let table = place.sql("SELECT v, a, good, nullif(k, '') AS k FROM t", &[("t", "delta:table")]);
    assert_eq!(in_order(&table), objects(&expected));
    let files = Judge::shared()
        .query(&Input::at("json", place.at("output")).schema("v BIGINT, a BIGINT, good BOOLEAN, k STRING"), seen_again(seen).as_str());
    assert_eq!(objects(&files.unwrap()), objects(&expected));
    for folder in ["table", "output"] {
        assert!(place.path().join(folder).join("k=__HIVE_DEFAULT_PARTITION__").is_dir(), "{folder}");
    }
}

/// The same columns of what was written.
fn seen_again(seen: &str) -> String {
    seen.replace("s.a AS a, _corrupt_record IS NULL AS good", "a, good")
}

#[test]
fn bad_places_without_rights_are_named() {
    for (name, sink, checkpoint) in
        [("rights-sink", "/sys/weir/out", "checkpoint"), ("rights-checkpoint", "output", "/sys/weir/checkpoint")]
    {
        let place = lines(name, "0.json", &[b"{\"k\":\"a\"}".to_vec()]);
        let sink = format!("{{format: json, options: {{path: {sink}}}}}");
        let source = ["{name: events, format: json, schema: 'k STRING', options: {path: input}}"];
        let query =
            Query { name: "query", sources: &source, sql: "SELECT k FROM events", sink: &sink, trigger: AVAILABLE_NOW, fields: &[] };
        let manifest =
            job_without_retries(&[query]).replace("checkpointLocation: checkpoint-query", &format!("checkpointLocation: {checkpoint}"));
        let ended = place.run_once(&manifest, &[]);
        ended.assert_code(10);
        for word in ["/sys/weir/", "not permitted", "the rights"] {
            assert!(ended.stderr.contains(word), "'{word}' is not in: {}", ended.stderr);
        }
    }
}

#[test]
fn bad_csv_lines() {
    let records: Vec<Vec<u8>> =
        ["a,1", "b,x", "c", "d,4,5", "", "\"e\ne\",6", "\"open,7", "g,99999999999999999999", "h,8"].map(|l| l.as_bytes().to_vec()).into();
    for mode in ["PERMISSIVE", "DROPMALFORMED"] {
        let place = lines("bad-csv", "0.csv", &records);
        let source = format!("{{name: events, format: csv, schema: '{SCHEMA}', options: {{path: input, mode: {mode}}}}}");
        let ended = run(&place, &source, "SELECT k, v, _corrupt_record AS text FROM events", 0);
        let input = Input::at("csv", place.at("input")).schema(SCHEMA).option("mode", mode);
        let expected = Judge::shared().query(&input, "SELECT k, v, _corrupt_record AS text FROM source").unwrap();
        assert_eq!(written(&place, "k STRING, v BIGINT, text STRING"), objects(&expected), "{mode}");
        assert!(malformed(&ended) >= 4, "{mode}: {:?}", ended.progress("query"));
    }
    let place = lines("bad-csv", "0.csv", &records);
    let source = "{name: events, format: csv, schema: 'k STRING, v BIGINT', options: {path: input, mode: FAILFAST}}";
    let ended = run(&place, source, "SELECT k, v FROM events", 20);
    assert!(ended.stderr.contains("MALFORMED_RECORD_IN_PARSING") && ended.stderr.contains("0.csv"), "{}", ended.stderr);
}

/// Whole files that are not what their name says.
#[test]
fn bad_files_are_named_or_left_out() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all("{\"k\":\"a\"}\n".repeat(10_000).as_bytes()).unwrap();
    let cut = &gzip.finish().unwrap()[..8];
    let cases = [
        ("parquet", "0.parquet", &b"PAR1 but no more"[..]),
        ("json", "0.json.gz", b"no gzip"),
        ("json", "1.json.gz", cut),
        ("json", "0.json.zst", b"no zstd"),
    ];
    for (format, file, bytes) in cases {
        let place = Place::new("bad-files");
        place.write("input/.keep", "");
        std::fs::write(place.path().join("input").join(file), bytes).unwrap();
        let source = |ignore: &str| {
            format!("{{name: events, format: {format}, schema: 'k STRING', options: {{path: input, ignoreCorruptFiles: '{ignore}'}}}}")
        };
        let ended = run(&place, &source("false"), "SELECT k FROM events", 20);
        assert!(ended.stderr.contains(file) && ended.stderr.contains("ignoreCorruptFiles"), "{format}: {}", ended.stderr);
        let ended = run(&place, &source("true"), "SELECT k FROM events", 0);
        assert_eq!(ended.progress("query")[0]["numInputRows"], 0, "{file}");
    }
}

/// A topic with one record of each kind, and a tombstone.
fn topic() -> String {
    let topic = Broker::shared().new_topic("bad-records", 1, &[("max.message.bytes", "20000000")]).unwrap();
    let messages = records().into_iter().map(Message::of).chain([Message::tombstone("key")]);
    Broker::shared().produce(&topic, messages).unwrap();
    topic
}

fn kafka_source(topic: &str) -> String {
    let servers = Broker::shared().bootstrap_servers();
    format!(
        "{{name: raw, format: kafka, options: {{kafka.bootstrap.servers: '{servers}', subscribe: {topic}, startingOffsets: earliest}}}}"
    )
}

#[test]
fn bad_values_in_kafka_permissive() {
    let (topic, place) = (topic(), Place::new("bad-kafka"));
    let decoded =
        |input: &str| format!("SELECT offset, from_json(CAST(value AS STRING), '{SCHEMA}', map('mode', 'PERMISSIVE')) AS d FROM {input}");
    let seen = |input: &str| {
        format!(
            "SELECT offset, length(d.k) AS n, left(d.k, 10) AS k, d.v, d._corrupt_record IS NULL AS good, d IS NULL AS absent FROM ({})",
            decoded(input)
        )
    };
    let ended = run(&place, &kafka_source(&topic), &seen("raw"), 0);
    let mut input = Input::of("kafka").option("subscribe", &topic).option("startingOffsets", "earliest");
    input = input.option("kafka.bootstrap.servers", Broker::shared().bootstrap_servers());
    let expected = Judge::shared().query(&input, &seen("source")).unwrap();
    assert_eq!(expected.rows.len(), records().len() + 1);
    assert_eq!(written(&place, "offset BIGINT, n INT, k STRING, v BIGINT, good BOOLEAN, absent BOOLEAN"), objects(&expected));
    let bad = expected.rows.iter().filter(|row| row[4] == false).count();
    assert_eq!(malformed(&ended), bad as u64, "{:?}", ended.progress("query"));
    // The topic as a table, from its beginning to its end, is what Spark's batch read of it is.
    let table = format!("kafka:{topic}?kafka.bootstrap.servers={}", Broker::shared().bootstrap_servers());
    assert_eq!(in_order(&place.sql(&seen("source"), &[("source", &table)])), objects(&expected));
    let two = place.sql("SELECT count(*) AS n FROM source", &[("source", &format!("{table}&endingOffsets={{\"{topic}\":{{\"0\":2}}}}"))]);
    assert_eq!(two, [serde_json::json!({"n": 2})]);
}

#[test]
fn bad_values_in_kafka_are_counted_once_under_a_filter() {
    let (topic, place) = (topic(), Place::new("bad-kafka-filter"));
    let sql = format!(
        "SELECT d.k, d.v FROM (SELECT from_json(CAST(value AS STRING), '{SCHEMA}') AS d FROM raw) WHERE d.v > 1 AND d.k IS NOT NULL"
    );
    let ended = run(&place, &kafka_source(&topic), &sql, 0);
    let permissive = run(&Place::new("bad-kafka-plain"), &kafka_source(&topic), &sql.replace("WHERE d.v > 1 AND d.k IS NOT NULL", ""), 0);
    assert!(malformed(&permissive) > 0);
    assert_eq!(malformed(&ended), malformed(&permissive));
}

#[test]
fn bad_values_in_kafka_failfast() {
    let (topic, place) = (topic(), Place::new("bad-kafka-failfast"));
    let sql = "SELECT d.k, d.v FROM (SELECT from_json(CAST(value AS STRING), 'k STRING, v BIGINT', map('mode', 'FAILFAST')) AS d FROM raw)";
    let ended = run(&place, &kafka_source(&topic), sql, 10);
    assert_eq!(ended.stderr.matches("[MALFORMED_RECORD_IN_PARSING").count(), 1, "a failure is told once: {}", ended.stderr);
    nothing_written(&place);
}

#[test]
fn bad_values_in_kafka_dropmalformed_is_refused() {
    let place = Place::new("bad-kafka-drop");
    let source = "{name: raw, format: kafka, options: {kafka.bootstrap.servers: '127.0.0.1:1', subscribe: t}}";
    let sql = "SELECT from_json(CAST(value AS STRING), 'k STRING', map('mode', 'DROPMALFORMED')) AS d FROM raw";
    let ended = run(&place, source, sql, 20);
    assert!(ended.stderr.contains("PARSE_MODE_UNSUPPORTED"), "{}", ended.stderr);
}
