//! Bad manifests and bad options: refused before anything is read or written,
//! with exit 20 and a sentence that tells what to write instead.

use crate::support::{FileJob, Place, finish, weir};

fn manifest(options: &str, sql: &str, sink: &str, trigger: &str, mode: &str) -> String {
    FileJob { schema: "k STRING, v BIGINT", options, sql, sink, trigger, extra: &format!("      outputMode: {mode}\n") }.manifest()
}

fn ordinary() -> String {
    manifest("maxFilesPerTrigger: '1'", "SELECT k FROM events", "{format: noop}", "{availableNow: {}}", "Append")
}

/// Expects a refusal by `weir check` and by `weir run`, and no trace on disk.
fn refused(name: &str, manifest: &str, words: &[&str]) {
    let place = Place::new(name);
    place.write("input/0.json", "{\"k\":\"a\",\"v\":1}\n");
    let file = place.write("job.yaml", manifest);
    let mut command = weir();
    command.current_dir(place.path()).arg("check").arg(file);
    let checked = command.output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(20), "{text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
    let ended = place.run_once(manifest, &[]);
    ended.assert_code(20);
    assert!(!place.path().join("checkpoint").exists() && !place.path().join("output").exists());
}

#[test]
fn refused_options_of_the_matrix() {
    let cases: &[(&str, &str)] = &[
        ("maxFilesPerTrigger: '0'", "maxFilesPerTrigger"),
        ("maxFilesPerTrigger: x", "maxFilesPerTrigger"),
        ("maxFilesPerTrigger: '1', maxBytesPerTrigger: '10'", "maxBytesPerTrigger"),
        ("latestFirst: maybe", "latestFirst"),
        ("cleanSource: zip", "cleanSource"),
        ("cleanSource: archive", "sourceArchiveDir"),
        ("modifiedBefore: '2024-01-01T00:00:00'", "modifiedBefore"),
        ("maxCachedFiles: '-1'", "maxCachedFiles"),
        ("discardCachedInputRatio: '2'", "discardCachedInputRatio"),
        ("maxFileAge: abc", "maxFileAge"),
        ("maxFilesPerTriger: '1'", "maxFilesPerTrigger"),
    ];
    for (options, word) in cases {
        refused("bad-option", &manifest(options, "SELECT k FROM events", "{format: noop}", "{availableNow: {}}", "Append"), &[word]);
    }
}

#[test]
fn refused_output_modes_and_triggers() {
    let noop = "{format: noop}";
    let available = "{availableNow: {}}";
    refused(
        "complete",
        &manifest("", "SELECT k FROM events", noop, available, "Complete"),
        &["STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"],
    );
    refused("mode", &manifest("", "SELECT k FROM events", noop, available, "Sometimes"), &["Append"]);
    refused(
        "aggregation",
        &manifest("", "SELECT k, count(*) FROM events GROUP BY k", noop, available, "Append"),
        &["STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"],
    );
    refused("interval", &manifest("", "SELECT k FROM events", noop, "{processingTime: soon}", "Append"), &["processingTime"]);
    refused("two triggers", &manifest("", "SELECT k FROM events", noop, "{availableNow: {}, once: {}}", "Append"), &["trigger"]);
    refused("continuous", &manifest("", "SELECT k FROM events", noop, "{continuous: 1s}", "Append"), &["processingTime: 0s"]);
    let update = manifest("", "SELECT k FROM events", "{format: json, options: {path: output}}", available, "Update");
    refused("file sink in update mode", &update, &["outputMode"]);
}

#[test]
fn refused_sql() {
    let noop = "{format: noop}";
    let available = "{availableNow: {}}";
    let sql = |text: &str| manifest("", text, noop, available, "Append");
    refused("parse", &sql("SELEC k FROM events"), &["PARSE_SYNTAX_ERROR"]);
    refused("column", &sql("SELECT kk FROM events"), &["UNRESOLVED_COLUMN", "`k`"]);
    refused("function", &sql("SELECT uper(k) FROM events"), &["UNRESOLVED_ROUTINE", "upper"]);
    refused("table", &sql("SELECT k FROM event"), &["TABLE_OR_VIEW_NOT_FOUND"]);
}

#[test]
fn refused_manifests_tell_all_at_once() {
    let broken = ordinary()
        .replace("trigger: {continuous: {}}", "trigger: {continuous: {}, manual: {}}")
        .replace("checkpointLocation", "checkpointLocatio")
        .replace("format: noop", "format: json, options: {path: output}");
    refused("broken", &broken, &["exactly one", "checkpointLocatio", "checkpointLocation"]);
}

#[test]
fn once_with_an_endless_query_is_refused() {
    let place = Place::new("endless");
    let endless = manifest("", "SELECT k FROM events", "{format: noop}", "{processingTime: 1s}", "Append");
    let ended = place.run_once(&endless, &[]);
    ended.assert_code(20);
    assert!(ended.stderr.contains("--available-now"), "{}", ended.stderr);
}

#[test]
fn usage_errors_exit_with_2() {
    let mut command = weir();
    command.args(["run"]);
    assert_eq!(finish("weir run", command).code, Some(2));
}
