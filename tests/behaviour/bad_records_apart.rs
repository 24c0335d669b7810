//! Records that cannot be parsed have a place of their own: together with the rows they are all that came in, once each,
//! wherever the task is killed.

use serde_json::{Value, json};
use weir_testkit::judge::{Input, Judge};
use weir_testkit::kafka::{Broker, Message};
use weir_testkit::process::Guarded;

use crate::jobs::{AVAILABLE_NOW, Query, job_without_retries};
use crate::support::{DEADLINE, Place, weir};

/// Files of each source; a batch takes one of each.
const FILES: u64 = 4;

const TABLE: &str = "time TIMESTAMP, query STRING, query_id STRING, batch_id BIGINT, source STRING, reason STRING, record STRING, \
                     file_path STRING, record_number BIGINT, byte_offset BIGINT, topic STRING, partition INT, offset BIGINT";

fn with_files(name: &str) -> Place {
    let place = Place::new(name);
    for n in 0..FILES {
        let modified_ms = 1_700_000_000_000 + n;
        let lines = format!("{{\"k\":\"j{n}\",\"v\":1}}\nbroken {n}\n{{\"k\":\"t{n}\",\"v\":\"x\"}}\n");
        place.write_at(&format!("json/{n}.json"), &lines, modified_ms);
        place.write_at(&format!("csv/{n}.csv"), &format!("c{n},1\nd{n},x\n"), modified_ms);
    }
    place
}

/// A query over both folders. It reads only the column that is never bad.
fn manifest(sink: &str, bad_records: &str) -> String {
    let json = "{name: a, format: json, schema: 'k STRING, v BIGINT', options: {path: json, maxFilesPerTrigger: '1'}}";
    let csv = "{name: b, format: csv, schema: 'k STRING, v BIGINT', options: {path: csv, maxFilesPerTrigger: '1', mode: DROPMALFORMED}}";
    let fields = &[&*format!("badRecords: {bad_records}")];
    let sql = "SELECT k FROM a UNION ALL SELECT k FROM b";
    job_without_retries(&[Query { name: "query", sources: &[json, csv], sql, sink, trigger: AVAILABLE_NOW, fields }])
}

/// A task that the test supervises; its exit code, none for a signal.
fn task(place: &Place, epoch: usize, failpoints: &str) -> Option<i32> {
    let mut command = weir();
    command.current_dir(place.path()).env("FAILPOINTS", failpoints);
    command.args(["task", "job.yaml", "--job", "job", "--task", "task", "--job-uid", "uid", "--epoch", &epoch.to_string()]);
    command.args(["--termination-log", &place.at("exit.json")]);
    Guarded::spawn(&format!("task {epoch}"), command).unwrap().wait(DEADLINE).unwrap().code()
}

/// Both tables, by Spark: each record that came in is in one of them, once, and bad ones say where they stood.
fn judge(place: &Place, sink: &str, bad_records: &str) {
    let table = |format: &str, folder: &str, schema: &str| match format {
        "delta" => Input::at("delta", place.at(folder)),
        _ => Input::at(format, place.at(folder)).schema(schema),
    };
    let rows = Judge::shared().query(&table(sink, "output", "k STRING"), "SELECT k FROM source ORDER BY k").unwrap().rows;
    let kept: Vec<Vec<Value>> = ["c", "j"].iter().flat_map(|k| (0..FILES).map(move |n| vec![json!(format!("{k}{n}"))])).collect();
    assert_eq!(rows, kept);
    let bad = "SELECT source, substring_index(file_path, '/', -1) AS file, record_number, byte_offset, record, batch_id, query,
                      reason <> '' AND query_id <> '' AND time > '2020-01-01' AS told, topic, partition, offset
               FROM source ORDER BY source, file, record_number";
    let rows = Judge::shared().query(&table(bad_records, "bad", TABLE), bad).unwrap().rows;
    let row = |source: &str, n: u64, number: u64, byte: u64, record: &str| {
        let file = format!("{n}.{}", if source == "a" { "json" } else { "csv" });
        let common = [json!(source), json!(file), json!(number), json!(byte), json!(record), json!(n), json!("query"), json!(true)];
        common.into_iter().chain([Value::Null, Value::Null, Value::Null]).collect::<Vec<_>>()
    };
    let of_json = (0..FILES).flat_map(|n| {
        let other_type = format!("{{\"k\":\"t{n}\",\"v\":\"x\"}}");
        [row("a", n, 2, 17, &format!("broken {n}")), row("a", n, 3, 26, &other_type)]
    });
    let of_csv = (0..FILES).map(|n| row("b", n, 2, 5, &format!("d{n},x")));
    assert_eq!(rows, of_json.chain(of_csv).collect::<Vec<_>>());
}

#[test]
fn bad_records_apart_add_up_wherever_the_task_is_killed() {
    let kills = [
        // Between the two commits of batch 0: bad records are there, rows are not.
        "sink.commit.before=1*off->return(kill)",
        // Both are there, and the checkpoint does not say so.
        "sink.commit.after=return(kill)",
        // Between the commits of batch 1, the other way; then before anything is committed, or only rows are owed.
        "sink.commit.after=return(kill)",
        "sink.commit.before=return(kill)",
        "batch.slice.after=return(kill)",
        "batch.commits.before=return(kill)",
    ];
    for (sink, bad_records) in [("json", "json"), ("delta", "delta")] {
        let place = with_files("bad-apart-killed");
        let to = |format: &str, path: &str| format!("{{format: {format}, options: {{path: {path}}}}}");
        place.write("job.yaml", &manifest(&to(sink, "output"), &to(bad_records, "bad")));
        for (epoch, failpoints) in kills.iter().enumerate() {
            assert_eq!(task(&place, epoch + 1, failpoints), None, "{sink} {bad_records}: {failpoints} was not passed");
        }
        assert_eq!(task(&place, kills.len() + 1, ""), Some(0));
        judge(&place, sink, bad_records);
        // Another place would not have what this one has.
        place.write("job.yaml", &manifest(&to(sink, "output"), &to(bad_records, "elsewhere")));
        assert_eq!(task(&place, kills.len() + 2, ""), Some(21));
    }
}

#[test]
fn bad_records_apart_are_counted_and_may_begin_late() {
    let place = with_files("bad-apart-counted");
    let sink = "{format: parquet, options: {path: output}}";
    let with = manifest(sink, "{format: csv, options: {path: bad, header: 'true'}}");
    let without: String = with.lines().filter(|line| !line.contains("badRecords")).map(|line| format!("{line}\n")).collect();
    let ended = place.run_once(&without, &[]);
    ended.assert_code(0);
    assert_eq!(ended.progress("query")[0]["sink"].get("metrics"), None, "Spark has no such figure");
    for n in FILES..FILES + 8 {
        place.write_at(&format!("csv/{n}.csv"), &format!("e{n},1\n{n},{n},{n}\n"), 1_700_000_000_000 + n);
    }
    let ended = place.run_once(&with, &[]);
    ended.assert_code(0);
    let counts: Vec<Value> = ended.progress("query").iter().map(|progress| progress["sink"]["metrics"]["numBadRecords"].clone()).collect();
    assert_eq!(counts, vec![json!("1"); 8]);
    let table = Input::at("csv", place.at("bad")).schema(TABLE).option("header", true);
    let mut rows = Judge::shared().query(&table, "SELECT batch_id, record FROM source").unwrap().rows;
    rows.sort_by_key(|row| row[0].as_u64());
    assert_eq!(rows, (FILES..FILES + 8).map(|n| vec![json!(n), json!(format!("{n},{n},{n}"))]).collect::<Vec<_>>());
}

/// Records of a topic are told by their places, into a sink that takes effect in transactions, wherever the task is killed.
#[test]
fn bad_records_apart_of_a_topic() {
    let broker = Broker::shared();
    let (from, to) = (broker.new_topic("bad-apart", 2, &[]).unwrap(), broker.new_topic("bad-apart-out", 1, &[]).unwrap());
    let text = |n: u64| match n % 4 {
        1 => format!("broken {n}"),
        3 => format!("{{\"n\":\"x{n}\"}}"),
        _ => format!("{{\"n\":{n}}}"),
    };
    let of = |numbers: std::ops::Range<u64>| numbers.map(|n| Message::of(text(n)).partition((n / 20) as i32));
    broker.produce(&from, of(0..40)).unwrap();
    let servers = broker.bootstrap_servers();
    let source = format!(
        "{{name: raw, format: kafka, options: {{kafka.bootstrap.servers: '{servers}', subscribe: {from}, startingOffsets: earliest, \
         maxOffsetsPerTrigger: '20'}}}}"
    );
    let sink =
        format!("{{format: kafka, options: {{kafka.bootstrap.servers: '{servers}', topic: {to}, deliveryGuarantee: exactly-once}}}}");
    let sql = "SELECT CAST(d.n AS STRING) AS value FROM (SELECT from_json(CAST(value AS STRING), 'n BIGINT') AS d FROM raw WHERE value IS NOT NULL)";
    let place = Place::new("bad-apart-topic");
    let fields = ["badRecords: {format: delta, options: {path: bad}}"];
    let query = Query { name: "query", sources: &[&source], sql, sink: &sink, trigger: AVAILABLE_NOW, fields: &fields };
    place.write("job.yaml", &job_without_retries(&[query]));
    for (epoch, failpoints) in
        ["batch.slice.after=return(kill)", "sink.marker.before=return(kill)", "batch.commits.before=1*off->return(kill)"].iter().enumerate()
    {
        assert_eq!(task(&place, epoch + 1, failpoints), None, "{failpoints} was not passed");
    }
    assert_eq!(task(&place, 4, ""), Some(0));
    let mut good: Vec<u64> = broker.read_all(&to).unwrap().iter().map(|record| record.text().parse().unwrap()).collect();
    good.sort_unstable();
    assert_eq!(good, (0..40).filter(|n| n % 2 == 0).collect::<Vec<_>>());
    let sql = "SELECT record, partition, offset, topic, source, file_path FROM source";
    let mut rows = Judge::shared().query(&Input::at("delta", place.at("bad")), sql).unwrap().rows;
    rows.sort_by_key(|row| (row[1].as_u64(), row[2].as_u64()));
    let bad = |n: u64| vec![json!(text(n)), json!(n / 20), json!(n % 20), json!(from), json!("raw"), Value::Null];
    assert_eq!(rows, (0..40).filter(|n| n % 2 == 1).map(bad).collect::<Vec<_>>());
}
