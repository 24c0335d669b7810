//! The check of a changed manifest, in a process of its own.
//!
//! What a check costs is decided by the SQL that it checks, and all tasks die
//! with the runner. So `weir check` judges an edit, within limits of memory and
//! time, and ends with the runner; a check that panics, is killed or does not end
//! is a refusal of that edit. The first check, before anything runs, is the
//! runner's own.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use weir_core::{Error, ErrorClass, Result};

use crate::arguments::RunArguments;
use crate::manifests::Files;
use crate::output;

/// Private writable memory of a check.
const MEMORY: u64 = 2 << 30;
/// Stores that are slow to answer are waited for.
const TIME: Duration = Duration::from_secs(120);
/// How much of what a check said is told where it said nothing of use.
const SAID: usize = 500;

/// Checks the manifests of a command line.
#[derive(Debug)]
pub struct Checker {
    program: PathBuf,
    arguments: Vec<String>,
    memory: u64,
    time: Duration,
}

impl Checker {
    /// For the manifests, parameters and secrets of `weir run`.
    pub fn new(run: &RunArguments) -> Self {
        let mut arguments = vec!["check".to_owned(), "--for-run".to_owned(), "--die-with".to_owned(), std::process::id().to_string()];
        for (key, value) in &run.parameters {
            arguments.extend(["-p".to_owned(), format!("{key}={value}")]);
        }
        if let Some(dir) = &run.secrets_dir {
            arguments.extend(["--secrets-dir".to_owned(), dir.display().to_string()]);
        }
        if run.available_now {
            arguments.push("--available-now".to_owned());
        }
        // This very program, also where its file has been replaced.
        Self { program: "/proc/self/exe".into(), arguments, memory: MEMORY, time: TIME }
    }

    /// Passes the manifests or says why not. Warnings are printed.
    pub async fn check(&self, files: &Files) -> Result<()> {
        let not_run = |e| Error::retryable("CHECK_NOT_RUN", "the manifest could not be checked; save it again").with_source(e);
        let (paths, kept) = files.for_another();
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .arg("--")
            .args(paths)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            // A Ctrl-C on the terminal is for the runner.
            .process_group(0)
            .spawn()
            .map_err(not_run)?;
        if let Some(pid) = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let most = Rlimit { current: Some(self.memory), maximum: Some(self.memory) };
            prlimit(Some(pid), Resource::Data, most).map_err(|e| not_run(e.into()))?;
        }
        let mut stdin = child.stdin.take();
        let ended = async {
            if let Some(mut pipe) = stdin.take() {
                // A child that does not read has its reasons, which it tells by its end.
                let _ = pipe.write_all(&kept).await;
            }
            child.wait_with_output().await
        };
        let Ok(ended) = tokio::time::timeout(self.time, ended).await else {
            return Err(refused(&format!("its check did not end within {} s", self.time.as_secs()), ""));
        };
        let ended = ended.map_err(not_run)?;
        let said = String::from_utf8_lossy(&ended.stderr);
        match (ended.status.code(), ended.status.signal()) {
            (Some(0), _) => {
                said.lines().for_each(output::say);
                Ok(())
            }
            (Some(code), _) => Err(match said.split_once("error: [").and_then(|(_, error)| error.split_once("] ")) {
                Some((condition, message)) => Error::new(class_of(code), condition.to_owned(), message.trim_end()),
                None => refused(&format!("its check ended with code {code}"), &said),
            }),
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                let limit = self.memory >> 20;
                Err(refused(&format!("its check was ended by signal {signal} (its memory is limited to {limit} MiB)"), &said))
            }
        }
    }
}

fn class_of(code: i32) -> ErrorClass {
    let is_it = |class: &ErrorClass| i32::from(class.exit_code()) == code;
    [ErrorClass::Config, ErrorClass::Incompatible].into_iter().find(is_it).unwrap_or(ErrorClass::Retryable)
}

fn refused(why: &str, said: &str) -> Error {
    let said = said.trim();
    let tail: String = said.chars().skip(said.chars().count().saturating_sub(SAID)).collect();
    let words = if tail.is_empty() { String::new() } else { format!("; it said: {tail}") };
    Error::config("MANIFEST_NOT_CHECKED", format!("{why}; `weir check` shows which query costs so much: write it otherwise{words}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    async fn said(script: &str) -> Result<()> {
        let program = PathBuf::from("/bin/sh");
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        let checker = Checker { program, arguments, memory: MEMORY, time: Duration::from_millis(500) };
        checker.check(&Files::open(&[])).await
    }

    #[tokio::test]
    async fn whatever_becomes_of_a_check_is_a_verdict_of_that_edit_alone() {
        said("echo 'a warning' >&2").await.unwrap();
        let refusal = said("echo 'error: [MANIFEST_INVALID] 1 problem\njob.yaml:1:1: no\n' >&2; exit 20").await.unwrap_err();
        assert_eq!(refusal.to_string(), "[MANIFEST_INVALID] 1 problem\njob.yaml:1:1: no");
        assert_eq!(refusal.class(), ErrorClass::Config);
        for (script, words) in [
            ("echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$", "signal 6"),
            ("exit 101", "code 101"),
            ("exec sleep 600", "did not end within"),
        ] {
            let refusal = said(script).await.unwrap_err();
            assert_eq!(refusal.condition(), "MANIFEST_NOT_CHECKED");
            assert!(refusal.to_string().contains(words), "{script}: {refusal}");
        }
        let refusal = said("echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$").await.unwrap_err();
        assert!(refusal.to_string().contains("memory allocation of 9 bytes failed"), "{refusal}");
    }
}
