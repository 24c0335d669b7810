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

/// What a hand has done to a checkpoint: whoever looks and whoever runs say the same, and neither waits or dies of it.
#[test]
fn damage_by_hand_is_told_by_verify_and_run() {
    let place = base("by-hand");
    let checkpoint = place.path().join("checkpoint");
    let whole = place.path().join("whole");
    let copy = |from: &Path, to: &Path| {
        let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(copied.success());
    };
    copy(&checkpoint, &whole);
    let change = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(checkpoint.join(file)).unwrap();
        assert!(text.contains(from), "{file}: {text}");
        write(checkpoint.join(file), &text.replace(from, to));
    };
    let unsealed = |file: &str, from: &str, to: &str| {
        let text = fs::read_to_string(checkpoint.join(file)).unwrap();
        let at = text.find(",\"weirChecksum\"").unwrap();
        let rest = at + text[at..].find('}').unwrap();
        write(checkpoint.join(file), &format!("{}{}", &text[..at], &text[rest..]).replace(from, to));
    };
    let id =
        |file: &str| serde_json::from_str::<serde_json::Value>(&fs::read_to_string(checkpoint.join(file)).unwrap()).unwrap()["id"].clone();
    let other_id = || change("metadata", id("metadata").as_str().unwrap(), "00000000-0000-4000-8000-000000000000");
    let pipe = || {
        fs::remove_file(checkpoint.join("offsets/2")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(checkpoint.join("offsets/2")).status().unwrap().success());
    };
    let huge = || fs::File::options().write(true).open(checkpoint.join("offsets/2")).unwrap().set_len(1 << 30).unwrap();
    let cases: [(&str, &dyn Fn()); 8] = [
        ("offsets/2 is damaged: its text was changed", &|| change("offsets/2", "\"logOffset\":2", "\"logOffset\":1")),
        ("offsets/2 is damaged: it ends at ", &|| unsealed("offsets/2", "\"logOffset\":2", "\"logOffset\":0")),
        ("18446744073709551615 is damaged", &|| {
            drop(fs::copy(checkpoint.join("offsets/2"), checkpoint.join("offsets/18446744073709551615")))
        }),
        ("metadata is damaged: it names the query 00000000", &other_id),
        ("sources/0/3 is damaged: its text was changed", &|| {
            drop(fs::copy(checkpoint.join("sources/0/2"), checkpoint.join("sources/0/3")))
        }),
        ("offsets/1 is missing between kept batches", &|| fs::remove_file(checkpoint.join("offsets/1")).unwrap()),
        ("offsets/2 is damaged: it is not a file", &pipe),
        ("offsets/2 has 1073741824 bytes", &huge),
    ];
    for (words, damage) in cases {
        damage();
        let mut verify = crate::support::weir();
        verify.current_dir(place.path()).args(["checkpoint", "verify", "checkpoint"]);
        for ended in [crate::support::finish("weir checkpoint verify", verify), place.run_once(&job(), &[])] {
            ended.assert_code(21);
            assert!(ended.stderr.contains(words) && ended.stderr.contains("restore"), "'{words}' is not in: {}", ended.stderr);
        }
        fs::remove_dir_all(&checkpoint).unwrap();
        copy(&whole, &checkpoint);
    }
    let ended = place.run_once(&job(), &[]);
    ended.assert_code(0);
    assert_eq!(ended.progress("query").len(), 1, "the whole one goes on");
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
