//! Who may use a checkpoint: restored copies, other jobs, changed sinks, and
//! the ceremony-free way on after a clean stop.

use std::fs;
use std::path::Path;

use crate::support::{FileJob, Place};

fn job(name: &str, sink: &str, nonce: u64) -> String {
    let manifest = FileJob {
        schema: "k STRING, v BIGINT",
        options: "maxFilesPerTrigger: '1'",
        sql: "SELECT k, v FROM events",
        sink,
        trigger: "{availableNow: {}}",
        extra: &format!("      checkpointResetNonce: {nonce}\n"),
    };
    manifest.manifest().replace("metadata: {name: job}", &format!("metadata: {{name: {name}}}"))
}

const DELTA: &str = "{format: delta, options: {path: table}}";

fn add(place: &Place, file: u64) {
    place.write_at(&format!("input/{file}.json"), &format!("{{\"k\":\"a\",\"v\":{file}}}\n"), 1_700_000_000_000 + file * 1000);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn values(place: &Place) -> Vec<i64> {
    let rows = place.sql("SELECT v FROM t ORDER BY v", &[("t", "delta:table")]);
    rows.iter().map(|row| row["v"].as_i64().unwrap()).collect()
}

#[test]
fn a_restored_old_copy_is_refused() {
    let place = Place::new("restored");
    add(&place, 0);
    place.run_once(&job("job", DELTA, 0), &[]).assert_code(0);
    copy(&place.path().join("checkpoint"), &place.path().join("backup"));
    add(&place, 1);
    add(&place, 2);
    place.run_once(&job("job", DELTA, 0), &[]).assert_code(0);
    fs::remove_dir_all(place.path().join("checkpoint")).unwrap();
    fs::rename(place.path().join("backup"), place.path().join("checkpoint")).unwrap();
    let ended = place.run_once(&job("job", DELTA, 0), &[]);
    ended.assert_code(21);
    for word in ["CHECKPOINT_BEHIND_SINK", "recorded batch 2", "weir checkpoint copy --new-query-id"] {
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
    }
    assert_eq!(values(&place), [0, 1, 2]);
    // The remedy that was named: a fork goes on from where the copy stands, into another table.
    let mut command = crate::support::weir();
    command.current_dir(place.path()).args(["checkpoint", "copy", "checkpoint", "forked", "--new-query-id"]);
    crate::support::finish("weir checkpoint copy", command).assert_code(0);
    let fork =
        job("job", "{format: delta, options: {path: other}}", 1).replace("checkpointLocation: checkpoint", "checkpointLocation: forked");
    place.run_once(&fork, &[]).assert_code(0);
    let rows = place.sql("SELECT v FROM t ORDER BY v", &[("t", "delta:other")]);
    assert_eq!(rows.iter().map(|row| row["v"].as_i64().unwrap()).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn another_jobs_checkpoint_is_refused() {
    let place = Place::new("foreign");
    add(&place, 0);
    place.run_once(&job("first", "{format: noop}", 0), &[]).assert_code(0);
    let ended = place.run_once(&job("second", "{format: noop}", 0), &[]);
    ended.assert_code(21);
    for word in ["CHECKPOINT_OWNED_BY_ANOTHER", "default/first", "default/second", "weir.dev/adopt-checkpoint"] {
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
    }
}

#[test]
fn a_changed_sink_needs_a_changed_nonce() {
    let place = Place::new("sink-changed");
    add(&place, 0);
    place.run_once(&job("job", DELTA, 0), &[]).assert_code(0);
    add(&place, 1);
    let other = "{format: delta, options: {path: other}}";
    let ended = place.run_once(&job("job", other, 0), &[]);
    ended.assert_code(21);
    assert!(ended.stderr.contains("CHECKPOINT_SINK_CHANGED") && ended.stderr.contains("checkpointResetNonce"), "{}", ended.stderr);
    place.run_once(&job("job", other, 1), &[]).assert_code(0);
}

#[test]
fn a_refused_edit_runs_the_last_good_generation_and_says_that_it_is_not_what_was_asked() {
    let place = Place::new("refused-edit");
    add(&place, 0);
    let good = job("job", DELTA, 0);
    place.run_once(&good, &[]).assert_code(0);
    add(&place, 1);
    let moved = good.replace("checkpointLocation: checkpoint", "checkpointLocation: elsewhere");
    let ended = place.run_once(&moved, &[]);
    ended.assert_code(20);
    let last = ended.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: [MANIFEST_REFUSED] job job: what ran is its last good generation, 1,"), "{}", ended.stderr);
    assert!(last.contains("checkpointResetNonce"), "it names the way: {last}");
    assert_eq!(values(&place), [0, 1], "the last good generation ran");
    place.run_once(&good, &[]).assert_code(0);
}

#[test]
fn a_job_applied_again_after_a_clean_stop_goes_on() {
    let place = Place::new("applied-again");
    add(&place, 0);
    place.run_once(&job("job", DELTA, 0), &[]).assert_code(0);
    // The state directory holds the job's UID: without it this is a new job of the same name.
    fs::remove_dir_all(place.path().join(".weir")).unwrap();
    add(&place, 1);
    place.run_once(&job("job", DELTA, 0), &[]).assert_code(0);
    assert_eq!(values(&place), [0, 1]);
}

#[test]
fn a_checkpoint_left_by_a_crash_is_not_taken_by_another_uid() {
    let place = Place::new("crashed-owner");
    add(&place, 0);
    let ended = place.run_once_with(&job("job", DELTA, 0), &[], &[("FAILPOINTS", "batch.commits.after=return(error)")]);
    ended.assert_code(10);
    fs::remove_dir_all(place.path().join(".weir")).unwrap();
    let ended = place.run_once(&job("job", DELTA, 0), &[]);
    ended.assert_code(21);
    assert!(ended.stderr.contains("weir.dev/adopt-checkpoint: \"1\""), "{}", ended.stderr);
    let adopted =
        job("job", DELTA, 0).replace("metadata: {name: job}", "metadata: {name: job, annotations: {weir.dev/adopt-checkpoint: '1'}}");
    place.run_once(&adopted, &[]).assert_code(0);
    assert_eq!(values(&place), [0]);
}

#[test]
fn a_replaced_table_is_refused() {
    let place = Place::new("replaced-table");
    add(&place, 0);
    place.run_once(&job("job", DELTA, 0), &[]).assert_code(0);
    fs::remove_dir_all(place.path().join("table")).unwrap();
    add(&place, 1);
    let ended = place.run_once(&job("job", DELTA, 0), &[]);
    ended.assert_code(21);
}
