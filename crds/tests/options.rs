//! Option tables against the texts that Spark 4.3 gave for bad options, and the getters.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_crds::finding::Severity;
use weir_crds::options::kafka_client::{Certificates, PROPERTIES, StoreFile};
use weir_crds::options::{Completeness, FORMATS, Format, Offsets, Role, parse, parse_sink, parse_source};

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn messages(format: Format, entries: &[(&str, &str)]) -> Vec<String> {
    parse_source(format, &map(entries), Completeness::Complete)
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.message.clone())
        .collect()
}

/// Case of `matrix-bad-options`, format, options beside `path`, text of Spark's cause.
type BadOption = (&'static str, Format, &'static [(&'static str, &'static str)], &'static str);

const BAD_OPTIONS: &[BadOption] = &[
    (
        "badopt_maxFiles0",
        Format::Text,
        &[("maxFilesPerTrigger", "0")],
        "Invalid value '0' for option 'maxFilesPerTrigger', must be a positive integer",
    ),
    (
        "badopt_maxFilesNaN",
        Format::Text,
        &[("maxFilesPerTrigger", "x")],
        "Invalid value 'x' for option 'maxFilesPerTrigger', must be a positive integer",
    ),
    (
        "badopt_both",
        Format::Text,
        &[("maxFilesPerTrigger", "1"), ("maxBytesPerTrigger", "1")],
        "Options 'maxFilesPerTrigger' and 'maxBytesPerTrigger' can't be both set at the same time",
    ),
    (
        "badopt_latestFirst",
        Format::Text,
        &[("latestFirst", "maybe")],
        "Invalid value 'maybe' for option 'latestFirst', must be 'true' or 'false'",
    ),
    (
        "badopt_cleanSource",
        Format::Text,
        &[("cleanSource", "zip")],
        "Invalid mode for clean source option Some(zip). Must be one of ARCHIVE,DELETE,OFF",
    ),
    ("badopt_archiveNoDir", Format::Text, &[("cleanSource", "archive")], "Archive mode must be used with 'sourceArchiveDir' option."),
    (
        "badopt_archiveInside",
        Format::Text,
        &[("cleanSource", "archive"), ("sourceArchiveDir", "/in/archive")],
        "Base archive path cannot be set to the path where archived path can possibly match with source pattern. Ensure the base archive path doesn't match with source pattern in depth, where the depth is minimum of depth on both paths.",
    ),
    (
        "badopt_modifiedBefore",
        Format::Text,
        &[("modifiedbefore", "2026-01-01T00:00:00")],
        "option 'modifiedbefore' is not allowed in file stream sources",
    ),
    (
        "badopt_maxCached",
        Format::Text,
        &[("maxCachedFiles", "-1")],
        "Invalid value '-1' for option 'maxCachedFiles', must be an integer greater than or equal to 0",
    ),
    (
        "badopt_ratio",
        Format::Text,
        &[("discardCachedInputRatio", "2")],
        "Invalid value '2' for option 'discardCachedInputRatio', must be a positive float between 0 and 1",
    ),
    (
        "badopt_maxFileAge",
        Format::Text,
        &[("maxFileAge", "abc")],
        "Time must be specified as seconds (s), milliseconds (ms), microseconds (us), minutes (m or min), hour (h), or day (d). E.g. 50s, 100ms, or 250us.",
    ),
    ("src_rate_bad", Format::Rate, &[("rowsPerSecond", "0")], "Invalid value '0'. The option 'rowsPerSecond' must be positive"),
    ("src_ratemb_missing", Format::RateMicroBatch, &[], "Invalid value '0'. The option 'rowsPerBatch' must be positive"),
];

#[test]
fn bad_options_are_refused_in_sparks_words() {
    for (case, format, options, expected) in BAD_OPTIONS {
        let mut entries = options.to_vec();
        if format.is_files() {
            entries.push(("path", "/in"));
        }
        let found = messages(*format, &entries);
        assert_eq!(found.len(), 1, "{case}: {found:?}");
        assert!(found[0].starts_with(expected), "{case}: {}", found[0]);
    }
}

#[test]
fn values_are_typed_and_defaulted() {
    let options =
        parse_source(Format::Json, &map(&[("PATH", "/in"), ("maxfilespertrigger", "5"), ("maxFileAge", "1h")]), Completeness::Complete)
            .into_result()
            .expect("good options");
    assert_eq!(options.str("path"), "/in");
    assert_eq!(options.opt_i64("maxFilesPerTrigger"), Some(5));
    assert_eq!(options.opt_i64("maxBytesPerTrigger"), None);
    assert_eq!(options.duration("maxFileAge"), Duration::from_secs(3600));
    assert_eq!(options.str("mode"), "PERMISSIVE");
    assert!(options.bool("allowSingleQuotes") && !options.is_given("allowSingleQuotes"));
    assert_eq!(options.effective()["maxCachedFiles"], "10000");
}

#[test]
fn kafka_settings_become_librdkafkas() {
    let options = parse_source(
        Format::Kafka,
        &map(&[
            ("kafka.bootstrap.servers", "a:1, b:2"),
            ("subscribe", "t, u"),
            ("startingOffsets", r#"{"t":{"0":-2},"u":{"0":7}}"#),
            ("kafka.security.protocol", "SASL_SSL"),
            ("kafka.sasl.mechanism", "SCRAM-SHA-512"),
            ("kafka.sasl.jaas.config", "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\" password=\"p\";"),
            ("kafka.ssl.truststore.type", "PEM"),
            ("kafka.ssl.truststore.location", "/ca.pem"),
            ("kafka.fetch.max.wait.ms", "100"),
            ("kafka.request.timeout.ms", "600000"),
            ("kafka.receive.buffer.bytes", "-1"),
        ]),
        Completeness::Complete,
    );
    assert_eq!(options.warnings().count(), 1, "{:?}", options.findings);
    let options = options.into_result().expect("good options");
    let expected = map(&[
        ("bootstrap.servers", "a:1, b:2"),
        ("security.protocol", "sasl_ssl"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", "u"),
        ("sasl.password", "p"),
        ("fetch.wait.max.ms", "100"),
        ("socket.timeout.ms", "300000"),
        ("socket.receive.buffer.bytes", "0"),
    ]);
    assert_eq!(options.kafka_client(), &expected);
    let trust = options.kafka_stores().trust.clone();
    assert!(matches!(trust, Some(Certificates::File(file)) if file == StoreFile { path: "/ca.pem".to_owned(), password: None }));
    assert!(!format!("{options:?}").contains("\"p\"") && format!("{options:?}").contains("sasl.password"));
    assert_eq!(options.list("subscribe"), ["t", "u"]);
    assert!(matches!(options.opt_offsets("startingOffsets"), Some(Offsets::Specific(map)) if map["u"][&0] == 7));
}

#[test]
fn a_kafka_sink_keeps_javas_partitions() {
    let given = [("kafka.bootstrap.servers", "a:1"), ("topic", "t"), ("kafka.buffer.memory", "33554432")];
    let options = parse_sink(Format::Kafka, &map(&given), Completeness::Complete).into_result().expect("good options");
    assert_eq!(options.kafka_client()["partitioner"], "murmur2_random");
    assert_eq!(options.kafka_client()["queue.buffering.max.kbytes"], "32768");
}

#[test]
fn what_options_from_may_supply_is_not_missed() {
    assert!(parse_source(Format::Kafka, &map(&[]), Completeness::MayGrow).findings.is_empty());
    assert_eq!(parse_source(Format::Kafka, &map(&[]), Completeness::Complete).findings.len(), 2);
}

#[test]
fn refused_client_settings_are_sparks() {
    for name in ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"] {
        let found = messages(Format::Kafka, &[("kafka.bootstrap.servers", "a:1"), ("subscribe", "t"), (&format!("kafka.{name}"), "x")]);
        assert!(found.len() == 1 && found[0].starts_with(&format!("Kafka option '{name}' is not supported")), "{found:?}");
    }
    for name in ["key.serializer", "value.serializer"] {
        let given = map(&[("kafka.bootstrap.servers", "a:1"), (&format!("kafka.{name}"), "x")]);
        assert!(parse(Format::Kafka, Role::Sink, &given, Completeness::Complete).into_result().is_err(), "{name}");
    }
}

#[test]
fn a_number_that_is_too_great_is_told_the_greatest() {
    let most = ", and at most 2147483647";
    for value in ["9223372036854775807", "99999999999999999999", "2147483648"] {
        let found = messages(Format::RateMicroBatch, &[("rowsPerBatch", "1"), ("advanceMillisPerBatch", value)]);
        assert!(found.len() == 1 && found[0].ends_with(most) && found[0].contains(value), "{found:?}");
    }
    for value in ["-1", "x", ""] {
        let found = messages(Format::RateMicroBatch, &[("rowsPerBatch", "1"), ("advanceMillisPerBatch", value)]);
        assert!(found.len() == 1 && !found[0].contains("at most"), "{found:?}");
    }
}

/// Names of `ConsumerConfig` and `ProducerConfig` of Kafka's clients 3.9.2, which Spark 4.2 has.
#[test]
fn every_setting_of_sparks_kafka_client_is_in_the_table() {
    let known: Vec<&str> = PROPERTIES.iter().map(|property| property.name).collect();
    let missing: Vec<&str> = include_str!("kafka_client_settings.txt").lines().filter(|name| !known.contains(name)).collect();
    assert!(missing.is_empty(), "neither translated nor refused: {missing:?}");
}

/// Options of Spark 4.2's readers and writers, as its classes have them, and of Delta 4.4's `DeltaOptions`.
#[test]
fn every_option_of_spark_is_known_or_refused_with_a_reason() {
    for line in include_str!("spark_options.txt").lines() {
        let (format, names) = line.split_once(' ').expect("a format and its options");
        let format = FORMATS.into_iter().find(|known| known.as_str() == format).expect("a format");
        for name in names.split(' ') {
            let roles = [Role::Source, Role::Table, Role::Sink].into_iter().filter(|role| format.can_be(*role));
            let known = roles.flat_map(|role| format.rows(role)).any(|row| row.is_named(name));
            assert!(known, "{} has no row for {name}", format.as_str());
        }
    }
}
