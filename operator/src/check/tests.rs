//! The check with shell scripts in the program's place.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;

pub(crate) struct Script {
    folder: TempDir,
    pub(crate) limits: Limits,
}

impl Script {
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("weir");
        std::fs::write(&program, format!("#!/bin/sh\ncd {}\n{text}\n", folder.path().display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, limits: Limits { timeout: Duration::from_secs(60), ..Limits::default() } }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    fn checker(&self) -> Checker {
        Checker::new(self.file("weir"), self.limits, 2)
    }

    async fn verdict(&self) -> Verdict {
        self.checker().check(r#"{"kind":"StreamingJob"}"#, Lane::Common).await
    }

    async fn unavailable(&self) -> String {
        match self.verdict().await {
            Verdict::Unavailable { message } => message,
            other => panic!("{other:?}"),
        }
    }

    async fn exceeded(&self) -> String {
        match self.verdict().await {
            Verdict::Exceeded { message } => message,
            other => panic!("{other:?}"),
        }
    }
}

fn is_alive(pid: &str) -> bool {
    // A process that is dead but not yet reaped is a zombie.
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn eventually(mut holds: impl FnMut() -> bool) {
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(std::time::Instant::now() < limit, "not within a minute");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_clean_manifest_is_accepted_with_its_warnings() {
    let script = Script::new(
        r#"echo "$@" > arguments; cat > document
echo '[{"file":"f","line":1,"column":2,"severity":"warning","rule":"r","path":"spec.conf","message":"Not known."}]'"#,
    );
    assert_eq!(script.verdict().await, Verdict::Accepted { warnings: vec!["spec.conf: Not known.".to_owned()] });
    assert_eq!(script.read("arguments"), format!("check --sealed --die-with {} --output json -\n", std::process::id()));
    assert_eq!(script.read("document"), r#"{"kind":"StreamingJob"}"#);
}

#[tokio::test]
async fn errors_reject_it_with_field_and_remedy() {
    let script = Script::new(
        r#"echo '[{"file":"f","line":1,"column":2,"severity":"error","rule":"unknown-option","path":"startingOfsets",
"found":"x","message":"unknown option.","nearest":"startingOffsets","remedy":"rename it"},
{"severity":"warning","message":"w"},{"severity":"error","message":"second","allowed":["a","b"]}]'; exit 20"#,
    );
    let message = "startingOfsets: unknown option; did you mean `startingOffsets`?; rename it; second (allowed: a, b)";
    assert_eq!(script.verdict().await, Verdict::Rejected { reason: Reason::SpecInvalid, message: message.to_owned() });
}

#[tokio::test]
async fn any_other_end_says_nothing_about_the_manifest() {
    for (text, expected) in [
        ("echo 'thread main panicked' >&2; exit 101", "code 101 and no findings: thread main panicked"),
        ("exit 20", "code 20"),
        ("echo '[]'; exit 20", "code 20"),
        ("echo '[]'; exit 2", "code 2"),
        (r#"echo '[{"severity":"error","message":"m"}]'"#, "code 0"),
        ("echo 'no JSON'", "code 0"),
    ] {
        let message = Script::new(text).unavailable().await;
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[tokio::test]
async fn a_program_that_does_not_read_the_manifest_is_judged_by_its_end() {
    let document = json!({"sql": "x".repeat(1 << 20)});
    let verdict = Script::new("exec <&-; echo '[]'").checker().check(&document.to_string(), Lane::Common).await;
    assert_eq!(verdict, Verdict::Accepted { warnings: Vec::new() });
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let checker = Checker::new("/nowhere/weir".into(), Limits::default(), 1);
    let Verdict::Unavailable { message } = checker.check("{}", Lane::Common).await else { panic!("no program") };
    assert!(message.starts_with("/nowhere/weir could not be started"), "{message}");
}

#[tokio::test]
async fn a_check_that_takes_too_long_is_killed_with_its_children() {
    let mut script = Script::new("sleep 600 & echo $! > child; echo $$ > self; wait");
    script.limits.timeout = Duration::from_secs(2);
    assert!(script.exceeded().await.contains("did not end within 2s"));
    eventually(|| !is_alive(&script.read("self")) && !is_alive(&script.read("child"))).await;
}

#[tokio::test]
async fn a_check_that_nobody_waits_for_is_killed() {
    let script = Script::new("echo $$ > unfinished; mv unfinished self; sleep 600");
    let checker = script.checker();
    let task = tokio::spawn(async move { checker.check("{}", Lane::Common).await });
    eventually(|| script.file("self").exists()).await;
    task.abort();
    eventually(|| !is_alive(&script.read("self"))).await;
}

#[tokio::test]
async fn output_and_memory_are_bounded() {
    let script = Script::new("yes");
    assert!(script.exceeded().await.contains("more than 1048576 bytes"));
    assert!(Script::new("kill -9 $$").exceeded().await.contains("signal 9"));
    // The limits hold from before the document is there, so for all that is done with it.
    let mut script = Script::new("cat > /dev/null; ulimit -d > limit; head -c 1G /dev/zero | tail -c 1G | wc -c >&2; exit 3");
    script.limits.memory = 64 << 20;
    let message = script.unavailable().await;
    assert!(message.ends_with("code 3 and no findings: 0"), "{message}");
    assert_eq!(script.read("limit").trim(), (64 << 10).to_string());
}

#[tokio::test]
async fn complaints_without_end_do_not_block_the_check() {
    let script = Script::new("yes | head -c 1000000 >&2; echo '[]'");
    assert_eq!(script.verdict().await, Verdict::Accepted { warnings: Vec::new() });
}

#[tokio::test]
async fn as_many_run_at_once_as_are_allowed_and_no_more() {
    // Each of the first two ends only once the other has begun; a third beside them finds no place.
    let script = Script::new(
        "if mkdir one; then other=two; mine=one; elif mkdir two; then other=one; mine=two; else exit 3; fi
touch seen-$mine; while [ ! -e seen-$other ]; do sleep 0.01; done; sleep 0.1; rmdir $mine; echo '[]'",
    );
    let checker = script.checker();
    let verdicts = futures::future::join_all((0..5).map(|_| checker.check("{}", Lane::Common))).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Accepted { warnings: Vec::new() }), "{verdicts:?}");
}

proptest! {
    #[test]
    fn a_message_fits_and_counts_what_it_leaves_out(texts in prop::collection::vec(".{0,400}", 1..30)) {
        let found: Vec<_> = texts.iter().map(|text| json!({"severity": "error", "message": text})).collect();
        let printed = serde_json::to_vec(&found).unwrap();
        let Some(Verdict::Rejected { message, .. }) = findings::verdict(20, &printed) else { panic!("errors reject") };
        prop_assert!(message.len() <= MESSAGE_BYTES);
        prop_assert_eq!(texts.len() > 10, message.ends_with(&format!("and {} more", texts.len().saturating_sub(10))));
    }

    #[test]
    fn no_output_makes_it_panic(code in any::<i32>(), printed in prop::collection::vec(any::<u8>(), 0..200)) {
        findings::verdict(code, &printed);
    }
}
