//! Kafka behind a login and TLS, as Event Hubs' Kafka endpoint is: a manifest as people have it, its secret beside it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use weir_testkit::kafka::{Broker, CONNECTION_STRING, numbered_messages};

use crate::jobs::{AVAILABLE_NOW, Query, job_without_retries};
use crate::support::{Ended, Place, rows_by_batch};

/// The manifest as it is written for an event hub; host, topic and secret are the only parts that are ours.
fn manifest(topic: &str, password: &str) -> String {
    let secured = Broker::shared().secured();
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "eventhub"},
        "stringData": {
            "kafka.sasl.jaas.config": format!(
                "kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required username=\"$ConnectionString\" password=\"{password}\";"
            ),
            "kafka.ssl.truststore.certificates": secured.authority.pem().unwrap(),
        },
    });
    let source = format!(
        r"name: readings
        format: kafka
        options:
          kafka.bootstrap.servers: {}
          kafka.security.protocol: SASL_SSL
          kafka.sasl.mechanism: PLAIN
          subscribe: {topic}
          startingOffsets: earliest
        optionsFrom: [{{secretRef: {{name: eventhub}}}}]",
        secured.tls()
    );
    let (sql, sink) = ("SELECT CAST(value AS STRING) AS v FROM readings", "{format: json, options: {path: output}}");
    let query = Query { name: "query", sources: &[&source], sql, sink, trigger: AVAILABLE_NOW, fields: &[] };
    format!("{}---\n{secret}\n", job_without_retries(&[query]))
}

/// Runs it with all that the log can say, and looks for the secret in everything that is left.
fn run(place: &Place, topic: &str, password: &str) -> Ended {
    let ended = place.run_once_with(&manifest(topic, password), &[], &[("RUST_LOG", "debug")]);
    let told = format!("{:?}\n{}", ended.events, ended.stderr);
    assert!(!told.contains("Z2VoZWlt"), "the secret is told: {told}");
    assert_no_secret(place.path());
    ended
}

/// Only the runner's copy of the manifest holds the secret, for its owner alone.
fn assert_no_secret(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_no_secret(&path);
        } else if !path.ends_with("job.yaml") {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            let is_kept = path.parent().unwrap().ends_with("generations") && mode == 0o600;
            assert!(!text.contains("Z2VoZWlt") || is_kept, "the secret is in {} ({mode:o})", path.display());
        }
    }
}

#[test]
fn the_manifest_of_an_event_hub_runs_and_its_secret_is_nowhere() {
    let (broker, place) = (Broker::shared(), Place::new("event-hub"));
    let topic = broker.new_topic("event-hub", 2, &[]).unwrap();
    broker.produce(&topic, numbered_messages(0..10, 2)).unwrap();
    run(&place, &topic, CONNECTION_STRING).assert_code(0);
    let rows: usize = rows_by_batch(&place.path().join("output")).values().map(Vec::len).sum();
    assert_eq!(rows, 10);
}

#[test]
fn a_wrong_secret_ends_the_run_with_what_to_correct() {
    let (broker, place) = (Broker::shared(), Place::new("event-hub-wrong"));
    let topic = broker.new_topic("event-hub-wrong", 1, &[]).unwrap();
    let ended = run(&place, &topic, "wrong-Z2VoZWlt");
    ended.assert_code(10);
    assert!(ended.stderr.contains("KAFKA_AUTHENTICATION_FAILED") && ended.stderr.contains("kafka.sasl.jaas.config"), "{}", ended.stderr);
    let status = place.status("job").unwrap().to_string();
    assert!(status.contains("KAFKA_AUTHENTICATION_FAILED"), "{status}");
}
