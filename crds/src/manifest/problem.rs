//! A finding with its place in a file, as people and machines read it.

use std::fmt;

use serde::Serialize;

use crate::finding::{Finding, Severity};

/// One thing that is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What was found: severity, rule, path of the field, message, allowed values, nearest name, remedy.
    #[serde(flatten)]
    pub finding: Finding,
}

impl Problem {
    /// Whether it refuses the job.
    pub fn is_error(&self) -> bool {
        self.finding.severity == Severity::Error
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:{}:{}: {severity}[{}]", self.file, self.line, self.column, self.finding.rule)?;
        if !self.finding.path.is_empty() {
            write!(f, " {}", self.finding.path)?;
        }
        write!(f, ": {}", self.finding.sentence())
    }
}
