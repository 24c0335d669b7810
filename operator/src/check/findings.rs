//! What the program found, and what that means for the `Accepted` condition.

use serde::Deserialize;
use weir_crds::finding::{Finding, Severity};
use weir_supervisor::conditions::Reason;
use weir_supervisor::text::{MESSAGE_BYTES, cut};

use super::Verdict;

/// Errors that a message names.
const ERRORS_NAMED: usize = 10;
/// Exit code of a manifest that is refused.
const REFUSED: i32 = 20;

/// A finding as `weir check --output json` prints it; fields that are not shown are left out.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Error,
    Warning,
}

#[derive(Debug, Deserialize)]
struct Found {
    severity: Level,
    #[serde(default)]
    path: String,
    message: String,
    #[serde(default)]
    allowed: Vec<String>,
    #[serde(default)]
    nearest: Option<String>,
    #[serde(default)]
    remedy: String,
}

impl Found {
    fn is_error(&self) -> bool {
        matches!(self.severity, Level::Error)
    }

    /// Field and sentence; line and column belong to a file that nobody has.
    fn text(self) -> String {
        let severity = if self.is_error() { Severity::Error } else { Severity::Warning };
        let place = if self.path.is_empty() { String::new() } else { format!("{}: ", self.path) };
        let finding = Finding {
            severity,
            rule: "",
            path: self.path,
            found: None,
            message: self.message,
            allowed: self.allowed,
            nearest: self.nearest,
            remedy: self.remedy,
        };
        format!("{place}{}", finding.sentence())
    }
}

/// The verdict of a program that ended by itself; None when its end is no verdict.
pub(super) fn verdict(code: i32, stdout: &[u8]) -> Option<Verdict> {
    let found: Vec<Found> = serde_json::from_slice(stdout).ok()?;
    let (errors, warnings): (Vec<Found>, Vec<Found>) = found.into_iter().partition(Found::is_error);
    match code {
        0 if errors.is_empty() => Some(Verdict::Accepted { warnings: warnings.into_iter().map(Found::text).collect() }),
        REFUSED if !errors.is_empty() => Some(Verdict::Rejected { reason: Reason::SpecInvalid, message: joined(errors) }),
        _ => None,
    }
}

fn joined(errors: Vec<Found>) -> String {
    let more = errors.len().saturating_sub(ERRORS_NAMED);
    let tail = if more == 0 { String::new() } else { format!("; and {more} more") };
    let texts: Vec<String> = errors.into_iter().take(ERRORS_NAMED).map(Found::text).collect();
    let named = cut(&texts.join("; "), MESSAGE_BYTES - tail.len());
    format!("{named}{tail}")
}
