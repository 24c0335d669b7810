//! What options of one input or output must obey together.
//!
//! Texts that Spark has for these cases are kept (`FileStreamOptions`, `FileStreamSource`,
//! `KafkaSourceProvider`). Rules look at what was given; a required option that may still
//! come from `optionsFrom` is not missed.

use std::collections::BTreeSet;

use super::archive::archive_may_match_source;
use super::formats::Format;
use super::kind::Offsets;
use super::parse::Completeness;
use super::parsed::ParsedOptions;
use super::row::Role;
use crate::finding::Finding;

pub(super) fn check(options: &mut ParsedOptions, completeness: Completeness, findings: &mut Vec<Finding>) {
    match options.format {
        format if format.is_files() && options.role == Role::Source => check_file_source(options, completeness, findings),
        Format::Kafka if options.role != Role::Sink => check_kafka_source(options, completeness, findings),
        Format::Kafka => check_kafka_sink(options, completeness, findings),
        Format::Delta if options.role == Role::Table && options.is_given("versionAsOf") && options.is_given("timestampAsOf") => {
            findings.push(
                Finding::error("exclusive-options", "timestampAsOf", "versionAsOf and timestampAsOf exclude each other")
                    .remedy("keep one of them"),
            );
        }
        Format::Delta if options.role != Role::Sink && options.is_given("startingVersion") && options.is_given("startingTimestamp") => {
            findings.push(
                Finding::error("exclusive-options", "startingTimestamp", "Please either provide 'startingVersion' or 'startingTimestamp'")
                    .remedy("keep one of them"),
            )
        }
        _ => {}
    }
}

fn check_file_source(options: &ParsedOptions, completeness: Completeness, findings: &mut Vec<Finding>) {
    if options.is_given("maxFilesPerTrigger") && options.is_given("maxBytesPerTrigger") {
        findings.push(
            Finding::error(
                "exclusive-options",
                "maxBytesPerTrigger",
                "Options 'maxFilesPerTrigger' and 'maxBytesPerTrigger' can't be both set at the same time",
            )
            .remedy("keep one of them"),
        );
    }
    let archive = options.is_given("cleanSource") && options.str("cleanSource") == "archive";
    match options.opt_str("sourceArchiveDir") {
        None if archive && completeness == Completeness::Complete => findings.push(
            Finding::error("missing-option", "sourceArchiveDir", "Archive mode must be used with 'sourceArchiveDir' option.")
                .remedy("add sourceArchiveDir: a folder outside of the input on the same file system"),
        ),
        Some(folder) if archive && archive_may_match_source(&folder, &options.str("path")) => findings.push(
            Finding::error(
                "archive-inside-source",
                "sourceArchiveDir",
                "Base archive path cannot be set to the path where archived path can possibly match with source pattern. Ensure the base archive path doesn't match with source pattern in depth, where the depth is minimum of depth on both paths.",
            )
            .found(&folder)
            .remedy("choose a folder outside of the input"),
        ),
        Some(_) if archive => {}
        Some(_) => findings.push(Finding::warning(
            "ignored-option",
            "sourceArchiveDir",
            "option 'sourceArchiveDir' has no effect without cleanSource: archive",
        )),
        None => {}
    }
    let limited = options.is_given("maxFilesPerTrigger") || options.is_given("maxBytesPerTrigger");
    if options.bool("latestFirst") && limited && options.is_given("maxFileAge") {
        findings.push(Finding::warning(
            "ignored-option",
            "maxFileAge",
            "option 'maxFileAge' has no effect with latestFirst and a limit per trigger: old files must stay readable",
        ));
    }
}

fn check_kafka_source(options: &ParsedOptions, completeness: Completeness, findings: &mut Vec<Finding>) {
    let ways = ["assign", "subscribe", "subscribePattern"];
    let given: Vec<&str> = ways.into_iter().filter(|way| options.is_given(way)).collect();
    let refused_already = findings.iter().any(|finding| ways.iter().any(|way| way.eq_ignore_ascii_case(&finding.path)));
    match given.as_slice() {
        [_] => {}
        [] if completeness == Completeness::MayGrow || refused_already => {}
        [] => findings.push(
            Finding::error(
                "missing-option",
                "subscribe",
                "One of the following options must be specified for Kafka source: assign, subscribe, subscribePattern",
            )
            .remedy("add for example `subscribe: \"my-topic\"`"),
        ),
        several => findings.push(
            Finding::error(
                "exclusive-options",
                several[1],
                format!("Only one of the following options can be specified for Kafka source: {}", several.join(", ")),
            )
            .remedy("keep one of them"),
        ),
    }
    if options.is_given("subscribe") && options.list("subscribe").is_empty() {
        findings.push(Finding::error(
            "option-value",
            "subscribe",
            "No topics to subscribe to is specified as value for option 'subscribe'",
        ));
    }
    check_assigned_offsets(options, findings);
    if options.role == Role::Source {
        check_kafka_limits(options, findings);
    } else {
        check_kafka_batch(options, findings);
    }
    if options.is_given("groupIdPrefix") && options.client.contains_key("group.id") {
        findings.push(Finding::warning("ignored-option", "groupIdPrefix", "option 'groupIdPrefix' has no effect beside kafka.group.id"));
    }
}

fn check_kafka_limits(options: &ParsedOptions, findings: &mut Vec<Finding>) {
    let (least, most) = (options.opt_i64("minOffsetsPerTrigger"), options.opt_i64("maxOffsetsPerTrigger"));
    if let (Some(least), Some(most)) = (least, most)
        && least > most
    {
        findings.push(
            Finding::error(
                "option-bounds",
                "minOffsetsPerTrigger",
                format!("The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."),
            )
            .remedy("make minOffsetsPerTrigger the smaller one"),
        );
    }
    if options.is_given("maxTriggerDelay") && least.is_none() {
        findings.push(Finding::warning(
            "ignored-option",
            "maxTriggerDelay",
            "option 'maxTriggerDelay' has no effect without minOffsetsPerTrigger",
        ));
    }
}

fn check_kafka_batch(options: &ParsedOptions, findings: &mut Vec<Finding>) {
    let holds = |name: &str, number: i64| match options.opt_offsets(name) {
        Some(Offsets::Specific(map)) => map.values().flat_map(|topic| topic.values()).any(|offset| *offset == number),
        Some(Offsets::Latest) => number == -1,
        Some(Offsets::Earliest) => number == -2,
        None => false,
    };
    if options.is_given("startingOffsets") && holds("startingOffsets", -1) {
        findings.push(
            Finding::error("option-value", "startingOffsets", "starting offset can't be latest for batch queries on Kafka")
                .remedy("write earliest, -2, or an offset"),
        );
    }
    if options.is_given("endingOffsets") && holds("endingOffsets", -2) {
        findings.push(
            Finding::error("option-value", "endingOffsets", "ending offset can't be earliest for batch queries on Kafka")
                .remedy("write latest, -1, or an offset"),
        );
    }
}

/// With `assign` the partitions are known here, so offsets for others, or for not all, are refused here.
fn check_assigned_offsets(options: &ParsedOptions, findings: &mut Vec<Finding>) {
    let Some(assigned) = options.opt_partitions("assign") else { return };
    let assigned: BTreeSet<(&str, i32)> =
        assigned.iter().flat_map(|(topic, numbers)| numbers.iter().map(move |number| (topic.as_str(), *number))).collect();
    if assigned.is_empty() {
        findings.push(Finding::error("option-value", "assign", "No topic partitions to assign are specified for option 'assign'"));
        return;
    }
    for name in ["startingOffsets", "startingOffsetsByTimestamp"] {
        let Some(Offsets::Specific(map)) = options.is_given(name).then(|| options.opt_offsets(name)).flatten() else {
            continue;
        };
        let named: BTreeSet<(&str, i32)> =
            map.iter().flat_map(|(topic, numbers)| numbers.keys().map(move |number| (topic.as_str(), *number))).collect();
        if named != assigned {
            let list =
                |set: &BTreeSet<(&str, i32)>| set.iter().map(|(topic, number)| format!("{topic}-{number}")).collect::<Vec<_>>().join(", ");
            findings.push(
                Finding::error(
                    "option-value",
                    name,
                    format!(
                        "[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] option '{name}' names the partitions {}, but assigned are {}",
                        list(&named),
                        list(&assigned)
                    ),
                )
                .remedy("name exactly the assigned partitions; -2 is earliest, -1 latest"),
            );
        }
    }
}

/// A transaction carries its batch's record beside one topic, and holds only what an idempotent producer sends (KIP-98).
fn check_kafka_sink(options: &ParsedOptions, completeness: Completeness, findings: &mut Vec<Finding>) {
    if options.str("deliveryGuarantee") != "exactly-once" {
        if completeness == Completeness::Complete && options.is_given("markerTopic") {
            findings.push(Finding::warning("ignored-option", "markerTopic", "has no effect unless deliveryGuarantee is exactly-once"));
        }
        return;
    }
    if options.is_given("topic") && options.is_given("markerTopic") {
        let remedy = "remove markerTopic: the record of the last batch is kept with topic; or remove topic, if rows name theirs";
        findings.push(Finding::error("conflicting-options", "markerTopic", "only one of topic, markerTopic can be set").remedy(remedy));
    }
    if completeness == Completeness::Complete && !options.is_given("topic") && !options.is_given("markerTopic") {
        let message = "exactly-once delivery needs the option 'topic', or 'markerTopic' where rows name their topics";
        let remedy = "name the topic of all rows, or any existing topic: the record of the last batch is kept beside it";
        findings.push(Finding::error("required-option", "topic", message).remedy(remedy));
    }
    let contradicts: [(&str, fn(&str) -> bool, &str); 4] = [
        ("acks", |value| !matches!(value, "all" | "-1"), "all"),
        ("enable.idempotence", |value| value.eq_ignore_ascii_case("false"), "true"),
        ("retries", |value| value == "0", "1 or more"),
        ("max.in.flight.requests.per.connection", |value| value.parse::<u64>().is_ok_and(|most| most > 5), "5 at most"),
    ];
    for (name, is_wrong, allowed) in contradicts {
        let Some(value) = options.kafka_client().get(name).map(|value| value.trim()).filter(|value| is_wrong(value)) else { continue };
        findings.push(
            Finding::error("option-value", format!("kafka.{name}"), "exactly-once delivery is by transactions, which exclude this value")
                .found(value)
                .allowed([allowed])
                .remedy("remove the option, or set deliveryGuarantee to at-least-once"),
        );
    }
}
