//! The house rules, each a check that names the file, the line and what to do.
//!
//! `sources` looks at Rust files, `manifests` at Cargo.toml files, `texts` at every tracked file, `dependencies` at who may use whom,
//! `operator` at where the operator changes what is in a cluster, `events` and `conditions` at whether each event and reason is used,
//! `incidents` at the tests that the table of incidents names, `recovery` at whether each condition that waits for a human is explained.
//! Exceptions are part of the check that they except from, with their reason.

pub mod conditions;
pub mod dependencies;
pub mod events;
pub mod incidents;
pub mod manifests;
pub mod operator;
pub mod recovery;
pub mod sources;
pub mod texts;

use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::generated;

/// A broken rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub path: String,
    /// Counted from one; zero where the file as a whole is meant.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}", self.path, self.message),
            line => write!(out, "{}:{line}: {}", self.path, self.message),
        }
    }
}

fn finding(path: &str, line: usize, message: impl Into<String>) -> Finding {
    Finding { path: path.to_owned(), line, message: message.into() }
}

/// Runs every check over the checkout.
pub fn check_repository(repository: &Path) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut rust_files = Vec::new();
    for path in tracked_files(repository)? {
        // A file that git still lists may have been deleted in the work tree, and some files are not text.
        let Ok(text) = std::fs::read_to_string(repository.join(&path)) else { continue };
        findings.extend(texts::check(&path, &text));
        if path.ends_with(".rs") {
            findings.extend(sources::check(&path, &text));
        }
        if path.ends_with("Cargo.toml") && path != "Cargo.toml" {
            findings.extend(manifests::check(&path, &text));
        }
        if path.ends_with(".rs") {
            rust_files.push((path, text));
        }
    }
    findings.extend(operator::check(&rust_files));
    findings.extend(events::check(&rust_files));
    findings.extend(conditions::check(&rust_files));
    let incidents = std::fs::read_to_string(repository.join("docs/incidents.md")).unwrap_or_default();
    findings.extend(incidents::check(&incidents, &rust_files));
    let recovery = std::fs::read_to_string(repository.join("docs/recovery.md")).unwrap_or_default();
    findings.extend(recovery::check(&recovery, &rust_files));
    findings.extend(stale_files(repository));
    findings.extend(dependencies::check_workspace(repository)?);
    Ok(findings)
}

fn stale_files(repository: &Path) -> Vec<Finding> {
    let is_stale = |file: &generated::Generated| std::fs::read_to_string(repository.join(file.path)).ok().as_deref() != Some(&file.text);
    let all = generated::all();
    all.iter()
        .filter(|file| is_stale(file))
        .map(|file| finding(file.path, 0, "is not what the code generates: run `cargo xtask codegen`"))
        .collect()
}

/// What git tracks, and what it would if everything were added.
fn tracked_files(repository: &Path) -> Result<Vec<String>> {
    let listed = run(repository, "git", &["ls-files", "--cached", "--others", "--exclude-standard", "-z"])?;
    Ok(listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output().with_context(|| format!("running {program}"))?;
    if !output.status.success() {
        bail!("{program} {} ended with {}: {}", arguments.join(" "), output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("the output of {program} is no UTF-8"))
}
