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
    // As the operator hands it over.
    command.current_dir(place.path()).args(["check", "-"]).stdin(std::fs::File::open(file).unwrap());
    let checked = command.output().unwrap();
    let text = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(20), "{name}: {text}");
    for word in words {
        assert!(text.contains(word), "'{word}' is not in: {text}");
    }
    let ended = place.run_once(manifest, &[]);
    ended.assert_code(20);
    assert!(!place.path().join("checkpoint").exists() && !place.path().join("output").exists());
}

const NOOP: &str = "{format: noop}";
const AVAILABLE: &str = "{availableNow: {}}";
const SELECT: &str = "SELECT k FROM events";

/// The manifest of an entry of `matrix-bad-options`, and a word of the refusal.
fn entry(name: &str) -> Option<(String, &'static str)> {
    let options = |options: &str| manifest(options, SELECT, NOOP, AVAILABLE, "Append");
    let writer = |sink: &str, trigger: &str, mode: &str| manifest("", SELECT, sink, trigger, mode);
    let source = |format: &str| {
        let other = format!("      - {{name: events, {format}}}");
        let ordinary = options("").lines().map(str::to_owned).collect::<Vec<_>>();
        let at = ordinary.iter().position(|line| line.contains("- name: events")).unwrap();
        let mut lines = ordinary[..at].to_vec();
        lines.push(other);
        lines.extend_from_slice(&ordinary[at + 4..]);
        lines.join("\n").replace(SELECT, "SELECT value FROM events")
    };
    let json = "{format: json, options: {path: output}}";
    Some(match name {
        "badopt_maxFiles0" => (options("maxFilesPerTrigger: '0'"), "maxFilesPerTrigger"),
        "badopt_maxFilesNaN" => (options("maxFilesPerTrigger: x"), "maxFilesPerTrigger"),
        "badopt_both" => (options("maxFilesPerTrigger: '1', maxBytesPerTrigger: '10'"), "maxBytesPerTrigger"),
        "badopt_latestFirst" => (options("latestFirst: maybe"), "latestFirst"),
        "badopt_cleanSource" => (options("cleanSource: zip"), "cleanSource"),
        "badopt_archiveNoDir" => (options("cleanSource: archive"), "sourceArchiveDir"),
        "badopt_archiveInside" => (options("cleanSource: archive, sourceArchiveDir: input"), "sourceArchiveDir"),
        "badopt_modifiedBefore" => (options("modifiedBefore: '2024-01-01T00:00:00'"), "modifiedBefore"),
        "badopt_maxCached" => (options("maxCachedFiles: '-1'"), "maxCachedFiles"),
        "badopt_ratio" => (options("discardCachedInputRatio: '2'"), "discardCachedInputRatio"),
        "badopt_maxFileAge" => (options("maxFileAge: abc"), "maxFileAge"),
        "src_rate_bad" => (source("format: rate, options: {rowsPerSecond: '0'}"), "rowsPerSecond"),
        "src_ratemb_missing" => (source("format: rate-micro-batch"), "rowsPerBatch"),
        "writer_bad_mode" => (writer(NOOP, AVAILABLE, "Sometimes"), "Append"),
        "writer_complete_noagg" => (writer(NOOP, AVAILABLE, "Complete"), "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"),
        "writer_file_update" => (writer(json, AVAILABLE, "Update"), "outputMode"),
        "writer_file_agg_complete" => {
            (manifest("", "SELECT k, count(*) AS n FROM events GROUP BY k", json, AVAILABLE, "Complete"), "outputMode")
        }
        "writer_no_checkpoint_file" => {
            (writer(json, AVAILABLE, "Append").replace("      checkpointLocation: checkpoint\n", ""), "checkpointLocation")
        }
        "writer_bad_trigger_neg" => (writer(NOOP, "{processingTime: -1 second}", "Append"), "processingTime"),
        "writer_bad_trigger_str" => (writer(NOOP, "{processingTime: soon}", "Append"), "processingTime"),
        "writer_continuous_file" => (writer(NOOP, "{continuous: 1s}", "Append"), "processingTime: 0s"),
        "writer_partitionby_missing" => {
            (writer("{format: json, options: {path: output}, partitionBy: [nowhere]}", AVAILABLE, "Append"), "nowhere")
        }
        _ => return None,
    })
}

/// Entries that ask for what Weir has not, each with the reason that
/// `docs/spark-differences.md` gives.
const NOT_REPLAYED: &[&str] = &[
    "src_path_missing", // has a test of its own: the path may be there when the task starts
    "src_socket_missing",
    "src_kafka_missing",
    "writer_memory_no_name",
    "writer_rt_short",
    "writer_rt_append",
    "writer_rt_file_source",
    "writer_rt_rate_source",
    "writer_rt_noop_sink",
    "writer_rt_foreachbatch",
    "writer_async_foreachbatch",
    "writer_async_availnow",
    "writer_async_stateful",
    "writer_batch_df_writestream",
    "streaming_df_show",
    "streaming_df_count",
];

#[test]
fn refused_options_of_the_matrix() {
    let matrix: serde_json::Value = serde_json::from_str(&crate::support::golden("matrix-bad-options.json")).unwrap();
    for name in matrix["cases"].as_object().unwrap().keys() {
        match entry(name) {
            Some((manifest, word)) => refused(name, &manifest, &[word]),
            None => assert!(NOT_REPLAYED.contains(&name.as_str()), "the entry {name} is neither replayed nor listed"),
        }
    }
    let misspelt = manifest("maxFilesPerTriger: '1'", SELECT, NOOP, AVAILABLE, "Append");
    refused("misspelt", &misspelt, &["maxFilesPerTrigger"]);
}

#[test]
fn a_missing_path_is_found_by_the_task() {
    let place = Place::new("missing-path");
    let ended = place.run_once(&ordinary(), &[]);
    ended.assert_code(20);
    assert!(ended.stderr.contains("PATH_NOT_FOUND"), "{}", ended.stderr);
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
    let file = place.write("job.yaml", &endless);
    let mut command = weir();
    // As other commands, this one reads standard input.
    command.current_dir(place.path()).args(["run", "-", "--once"]).stdin(std::fs::File::open(file).unwrap());
    let ended = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(20), "{stderr}");
    assert!(stderr.contains("-: the query query of job job never ends") && stderr.contains("--available-now"), "{stderr}");
}

#[test]
fn usage_errors_exit_with_2() {
    let mut command = weir();
    command.args(["run"]);
    assert_eq!(finish("weir run", command).code, Some(2));
}

#[test]
fn refused_paths_that_are_files() {
    for (name, file, sink) in [
        ("refused-checkpoint-file", "checkpoint", "{format: noop}"),
        ("refused-sink-file", "output", "{format: json, options: {path: output}}"),
        ("refused-table-file", "output", "{format: delta, options: {path: output}}"),
    ] {
        let place = Place::new(name);
        place.write("input/0.json", "{\"k\":\"a\",\"v\":1}\n");
        place.write(file, "");
        let manifest = manifest("", SELECT, sink, AVAILABLE, "Append");
        let path = place.write("job.yaml", &manifest);
        let mut command = weir();
        let checked = command.current_dir(place.path()).arg("check").arg(path).output().unwrap();
        let text = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert_eq!(checked.status.code(), Some(20), "{name}: {text}");
        assert!(text.contains("is a file") && text.contains("1 error, "), "{name}: {text}");
        place.run_once(&manifest, &[]).assert_code(20);
    }
}

#[test]
fn refused_column_that_the_table_lacks() {
    let place = Place::new("refused-added-column");
    place.write("input/0.json", "{\"k\":\"a\",\"v\":1}\n");
    let to_delta = |sql: &str| manifest("", sql, "{format: delta, options: {path: output}}", AVAILABLE, "Append");
    place.run_once(&to_delta(SELECT), &[]).assert_code(0);
    let ended = place.run_once(&to_delta("SELECT k, v FROM events"), &[]);
    ended.assert_code(20);
    assert!(ended.stderr.contains("`v`") && ended.stderr.contains("mergeSchema"), "{}", ended.stderr);
}
