//! The examples of the repository: each runs twice and cleans twice, and the
//! SQL of the quickstart gives the same rows over the files and as a stream.

use std::path::Path;
use std::process::Command;

use weir_testkit::kafka::{Broker, Message};
use weir_testkit::process::run;

use crate::support::{DEADLINE, Place, repository};

/// A copy of an example in a folder of the test's own.
fn copied(name: &str) -> Place {
    let place = Place::new(name);
    let from = repository().join("examples").join(name);
    let status = Command::new("cp").arg("-r").arg(from).arg(place.path().join("example")).status().unwrap();
    assert!(status.success());
    script(&place, "clean.sh", &[]);
    place
}

fn script(place: &Place, name: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new("bash");
    command.arg(place.path().join("example").join(name)).env("WEIR", env!("CARGO_BIN_EXE_weir")).envs(variables.iter().copied());
    let finished = run(name, command, DEADLINE).unwrap();
    let text = finished.stdout;
    assert!(finished.status.success(), "{name}: {text}\n{}", finished.stderr);
    text
}

#[test]
fn example_quickstart() {
    let place = copied("quickstart");
    for _ in 0..2 {
        let text = script(&place, "run.sh", &[]);
        assert!(text.contains("EWR") && text.contains("JFK") && text.contains("LGA"), "{text}");
    }
    same_rows_without_a_stream(&place);
    script(&place, "clean.sh", &[]);
    script(&place, "clean.sh", &[]);
    assert!(!place.path().join("example/out").exists());
}

/// The view and the query of the manifest as one batch query over the files.
fn same_rows_without_a_stream(place: &Place) {
    let schema = "origin STRING, time TIMESTAMP, temp DOUBLE, humid DOUBLE, wind_speed DOUBLE, pressure DOUBLE";
    let raw = format!("json:example/input?schema={schema}");
    let batch = "SELECT origin, time, CAST(time AS DATE) AS day, round((temp - 32) * 5 / 9, 1) AS celsius, humid, pressure, wind_speed
        FROM (SELECT *, CASE WHEN temp IS NULL THEN 'no temperature' WHEN pressure IS NULL THEN 'no pressure'
                             WHEN wind_speed > 250 THEN 'impossible wind' END AS defect FROM raw) WHERE defect IS NULL ORDER BY origin, time";
    let stream = "SELECT origin, time, day, celsius, humid, pressure, wind_speed FROM readings ORDER BY origin, time";
    let expected = place.sql(batch, &[("raw", &raw)]);
    assert!(expected.len() > 300, "{}", expected.len());
    assert_eq!(place.sql(stream, &[("readings", "delta:example/out/readings")]), expected);
}

#[test]
fn example_kafka_to_delta() {
    let broker = Broker::shared();
    if broker.partition_count("sensor-readings").unwrap().is_none() {
        broker.create_topic("sensor-readings", 2, &[]).unwrap();
    }
    let reading =
        |n: u64| Message::of(format!("{{\"device_id\":\"d{}\",\"temperature\":{}.5,\"timestamp\":\"2024-06-01T10:00:00Z\"}}", n % 3, n));
    broker.produce("sensor-readings", (0..100).map(reading)).unwrap();
    let place = copied("kafka-to-delta");
    let servers = broker.bootstrap_servers();
    let text = script(&place, "run.sh", &[("BOOTSTRAP", &servers)]);
    assert!(text.contains("100"), "{text}");
    broker.produce("sensor-readings", (100..150).map(reading)).unwrap();
    let text = script(&place, "run.sh", &[("BOOTSTRAP", &servers)]);
    assert!(text.contains("150"), "{text}");
    script(&place, "clean.sh", &[]);
    script(&place, "clean.sh", &[]);
    assert!(!Path::new(&place.at("example/out")).exists());
}

#[test]
fn example_bad_records() {
    let place = copied("bad-records");
    let run = |orders: usize| {
        let text = script(&place, "run.sh", &[]);
        assert!(text.contains("the value 'n/a' does not fit the column amount"), "{text}");
        assert_eq!(place.sql("SELECT order_id FROM t", &[("t", "delta:example/out/orders")]).len(), orders);
        let bad = place.sql("SELECT record_number FROM t ORDER BY file_path, record_number", &[("t", "delta:example/out/bad_records")]);
        assert_eq!(bad.iter().map(|row| row["record_number"].as_i64().unwrap()).collect::<Vec<_>>(), [3, 4, 2, 5]);
    };
    run(6);
    run(6);
    assert!(script(&place, "repair.sh", &[]).ends_with("ordered_at\n1003,Grace,7.80,2024-06-01 10:20:00\n"));
    run(7);
    script(&place, "clean.sh", &[]);
    script(&place, "clean.sh", &[]);
    assert!(!place.path().join("example/out").exists());
}

#[test]
fn example_two_tasks() {
    let place = copied("two-tasks");
    for _ in 0..2 {
        let text = script(&place, "run.sh", &[]);
        assert!(text.contains("odd runs again, attempt 2"), "{text}");
    }
    for table in ["even", "odd"] {
        let query = "SELECT count(*) AS n, count(DISTINCT value) AS d, max(value) AS m FROM t";
        let row = &place.sql(query, &[("t", &format!("delta:example/out/{table}"))])[0];
        assert_eq!(row["n"], row["d"], "nothing twice");
        let (numbers, greatest) = (row["n"].as_i64().unwrap(), row["m"].as_i64().unwrap());
        assert_eq!(numbers, greatest / 2 + 1, "nothing missing");
    }
    script(&place, "clean.sh", &[]);
    script(&place, "clean.sh", &[]);
}
