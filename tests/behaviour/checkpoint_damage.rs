//! Damaged checkpoints: refused with exit 21, the file named, the remedy told.
//!
//! The entries of Spark's `matrix-checkpoint-damage` that need no state, each
//! against a checkpoint of three committed batches; where Spark goes on, Weir
//! goes on with the same batches.

use std::fs;
use std::path::Path;

use crate::support::{FileJob, Place};

fn job() -> String {
    FileJob {
        schema: "k STRING, v BIGINT",
        options: "maxFilesPerTrigger: '1'",
        sql: "SELECT k, v FROM events",
        sink: "{format: noop}",
        trigger: "{availableNow: {}}",
        extra: "",
    }
    .manifest()
}

fn base(name: &str) -> Place {
    let place = Place::new(name);
    for file in 0..3 {
        place.write_at(&format!("input/{file}.json"), &format!("{{\"k\":\"a\",\"v\":{file}}}\n"), 1_700_000_000_000 + file * 1000);
    }
    place.run_once(&job(), &[]).assert_code(0);
    place.write_at("input/3.json", "{\"k\":\"b\",\"v\":3}\n", 1_700_000_010_000);
    place
}

/// Damages a checkpoint, runs again and expects a refusal with all the words.
fn refused(name: &str, damage: impl FnOnce(&Path), words: &[&str]) {
    let place = base(name);
    damage(&place.path().join("checkpoint"));
    let ended = place.run_once(&job(), &[]);
    ended.assert_code(21);
    for word in words {
        assert!(ended.stderr.contains(word), "'{word}' is not in: {}", ended.stderr);
    }
    assert_eq!(ended.progress("query").len(), 0);
}

/// Damages a checkpoint, runs again and expects these batches.
fn goes_on(name: &str, damage: impl FnOnce(&Path), batches: &[u64]) {
    let place = base(name);
    damage(&place.path().join("checkpoint"));
    let ended = place.run_once(&job(), &[]);
    ended.assert_code(0);
    let ran: Vec<u64> = ended.progress("query").iter().map(|progress| progress["batchId"].as_u64().unwrap()).collect();
    assert_eq!(ran, batches);
}

fn write(path: impl AsRef<Path>, text: &str) {
    fs::write(path, text).unwrap();
}

#[test]
fn damage_missing_metadata() {
    refused(
        "missing-metadata",
        |ck| fs::remove_file(ck.join("metadata")).unwrap(),
        &["STREAMING_CHECKPOINT_MISSING_METADATA_FILE", "metadata is missing"],
    );
}

#[test]
fn damage_corrupt_metadata() {
    refused("corrupt-metadata", |ck| write(ck.join("metadata"), "{\"id\":"), &["metadata is damaged", "restore the file"]);
}

#[test]
fn damage_empty_metadata() {
    refused("empty-metadata", |ck| write(ck.join("metadata"), ""), &["metadata is damaged"]);
}

#[test]
fn damage_empty_last_offset() {
    refused("empty-offset", |ck| write(ck.join("offsets/2"), ""), &["offsets/2 is damaged", "Incomplete log file"]);
}

#[test]
fn damage_garbage_last_offset() {
    refused("garbage-offset", |ck| write(ck.join("offsets/2"), "hello\n"), &["offsets/2", "MALFORMED_LOG_FILE"]);
}

#[test]
fn damage_newer_version() {
    refused("newer-version", |ck| write(ck.join("offsets/2"), "v99\n{}\n{}"), &["INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION", "v99"]);
}

#[test]
fn damage_truncated_offset_json() {
    let truncate = |ck: &Path| {
        let path = ck.join("offsets/2");
        let text = fs::read_to_string(&path).unwrap();
        write(&path, &text[..text.len() - 3]);
    };
    refused("truncated-offset", truncate, &["offsets/2 is damaged", "not JSON"]);
}

#[test]
fn damage_offset_version_line_only() {
    refused("version-line", |ck| write(ck.join("offsets/2"), "v1"), &["offsets/2 is damaged", "after the version line"]);
}

#[test]
fn damage_trailing_blank_in_version_line() {
    let blank = |ck: &Path| {
        let path = ck.join("offsets/2");
        write(&path, &fs::read_to_string(&path).unwrap().replacen("v1\n", "v1 \n", 1));
    };
    refused("blank-version", blank, &["offsets/2", "MALFORMED_LOG_FILE"]);
}

#[test]
fn damage_last_commit_deleted() {
    goes_on("commit-deleted", |ck| fs::remove_file(ck.join("commits/2")).unwrap(), &[2, 3]);
}

#[test]
fn damage_empty_commit() {
    refused(
        "empty-commit",
        |ck| write(ck.join("commits/2"), ""),
        &["commits/2 is damaged", "Incomplete log file in the offset commit log"],
    );
}

#[test]
fn damage_commit_without_json() {
    goes_on("commit-without-json", |ck| write(ck.join("commits/2"), "v1\n"), &[3]);
}

#[test]
fn damage_second_last_offset_deleted() {
    // Spark needs offsets/1 only when batch 2 has to be run again.
    let delete = |ck: &Path| {
        fs::remove_file(ck.join("offsets/1")).unwrap();
        fs::remove_file(ck.join("commits/2")).unwrap();
    };
    refused("offset-gap", delete, &["batch 1 doesn't exist"]);
}

#[test]
fn damage_commit_ahead_of_offset() {
    refused("commit-ahead", |ck| fs::remove_file(ck.join("offsets/2")).unwrap(), &["offsets/2 is damaged", "commits/2 exists"]);
}

#[test]
fn damage_offsets_removed() {
    refused("offsets-removed", |ck| fs::remove_dir_all(ck.join("offsets")).unwrap(), &["commits/2 exists"]);
}

#[test]
fn verify_names_all_damage() {
    let place = base("verify");
    let verify = || {
        let mut command = crate::support::weir();
        command.current_dir(place.path()).args(["checkpoint", "verify", "checkpoint"]);
        crate::support::finish("weir checkpoint verify", command)
    };
    verify().assert_code(0);
    // What a run reads of a source's log: verify says what the run will say.
    let entry = place.path().join("checkpoint/sources/0/2");
    let whole = fs::read_to_string(&entry).unwrap();
    for (text, words) in [(&whole[..whole.len() - 3], "sources/0/2 is damaged"), ("", "sources/0/2 is damaged: it is empty")] {
        write(&entry, text);
        for ended in [verify(), place.run_once(&job(), &[])] {
            ended.assert_code(21);
            assert!(ended.stderr.contains(words), "{}", ended.stderr);
        }
    }
    fs::remove_file(&entry).unwrap();
    for ended in [verify(), place.run_once(&job(), &[])] {
        ended.assert_code(21);
        assert!(ended.stderr.contains("planned up to log entry 2"), "{}", ended.stderr);
    }
    write(&entry, &whole);
    verify().assert_code(0);
    write(place.path().join("checkpoint/_weir/sink"), "{");
    write(place.path().join("checkpoint/offsets/2"), "");
    fs::remove_file(place.path().join("checkpoint/offsets/1")).unwrap();
    let ended = verify();
    ended.assert_code(21);
    for word in ["offsets/2 is damaged", "commits/1 has no plan", "_weir/sink is damaged"] {
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
    }
}
