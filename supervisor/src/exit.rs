//! The end of an instance: what it reports and what that means.
//!
//! The exit report is believed over the exit code, and the code over guesses.
//! Only a report of `completed` ends a task as succeeded. A report of another
//! epoch is stale and is not read. Nothing here counts or schedules: `classify`
//! only names what happened. What comes from outside is cut to the sizes of
//! status here, whichever shell has read it.

use crate::observed::{Exit, ExitCause};
use crate::text::{NAME_BYTES, QUERY_NAME_BYTES, cut};

pub use weir_crds::exit::{CHECKPOINT_ADOPTED, ExitClass, ExitReport, SCHEMA_CHANGED};

/// What an end means for the task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The task is done.
    Completed,
    /// A failure of the task itself, of one of the three failing classes.
    Failed(ExitClass),
    /// A source gained columns; the version identifies the change.
    SchemaChanged {
        /// `<query>@<source version>`.
        version: String,
    },
    /// A newer epoch exists; nobody's failure.
    Fenced,
    /// Another owner has the checkpoint.
    Adopted,
    /// The surroundings ended it, or nobody knows why it ended cleanly.
    Disrupted {
        /// CamelCase word.
        reason: String,
    },
}

/// Names what happened to an instance of `epoch` that nobody had ordered to stop.
pub fn classify(exit: &Exit, epoch: u64) -> Verdict {
    let Some(report) = own_report(exit, epoch) else { return classify_code(exit) };
    match report.class {
        ExitClass::Completed => Verdict::Completed,
        ExitClass::Fenced | ExitClass::Incompatible if report.reason == CHECKPOINT_ADOPTED => Verdict::Adopted,
        ExitClass::Fenced => Verdict::Fenced,
        ExitClass::Config | ExitClass::Incompatible => Verdict::Failed(report.class),
        ExitClass::Stopped => disrupted_or(exit, "StoppedWithoutOrder"),
        ExitClass::Retryable if report.reason == SCHEMA_CHANGED => {
            let query = report.query.as_deref().unwrap_or_default();
            let version = report.source_version.as_deref().unwrap_or_default();
            Verdict::SchemaChanged { version: format!("{}@{}", cut(query, QUERY_NAME_BYTES), cut(version, NAME_BYTES)) }
        }
        ExitClass::Retryable => match &exit.cause {
            ExitCause::Disruption { reason } => Verdict::Disrupted { reason: cut(reason, NAME_BYTES) },
            ExitCause::Own | ExitCause::OutOfMemory => Verdict::Failed(ExitClass::Retryable),
        },
    }
}

/// The report, unless it is a leftover of another epoch.
pub fn own_report(exit: &Exit, epoch: u64) -> Option<&ExitReport> {
    exit.report.as_ref().filter(|report| report.epoch == epoch)
}

/// The CamelCase word for an end, for `lastExit.reason`.
pub fn reason(exit: &Exit, epoch: u64) -> String {
    if let Some(report) = own_report(exit, epoch).filter(|report| !report.reason.is_empty()) {
        return cut(&report.reason, NAME_BYTES);
    }
    let reported = own_report(exit, epoch).map(|report| report.class);
    match (&exit.cause, exit.code) {
        (ExitCause::Own, Some(0)) if reported == Some(ExitClass::Stopped) => "Stopped".to_owned(),
        (ExitCause::Own, Some(0)) if reported == Some(ExitClass::Completed) => "Completed".to_owned(),
        (ExitCause::OutOfMemory, _) => "OOMKilled".to_owned(),
        (ExitCause::Disruption { reason }, _) => cut(reason, NAME_BYTES),
        (ExitCause::Own, Some(0)) => "NoExitReport".to_owned(),
        (ExitCause::Own, Some(20)) => "ConfigurationRejected".to_owned(),
        (ExitCause::Own, Some(21)) => "CheckpointIncompatible".to_owned(),
        (ExitCause::Own, Some(22)) => "FencedOut".to_owned(),
        (ExitCause::Own, Some(101)) => "Panicked".to_owned(),
        (ExitCause::Own, Some(137)) => "Killed".to_owned(),
        (ExitCause::Own, Some(143)) => "Terminated".to_owned(),
        (ExitCause::Own, Some(_)) => "Error".to_owned(),
        (ExitCause::Own, None) => "ExitUnknown".to_owned(),
    }
}

fn classify_code(exit: &Exit) -> Verdict {
    match exit.code {
        // The engine always leaves a report; a clean code without one was not the engine's doing.
        Some(0) => disrupted_or(exit, "NoExitReport"),
        None => disrupted_or(exit, "ExitUnknown"),
        Some(20) => Verdict::Failed(ExitClass::Config),
        Some(21) => Verdict::Failed(ExitClass::Incompatible),
        Some(22) => Verdict::Fenced,
        Some(_) => match &exit.cause {
            ExitCause::Disruption { reason } => Verdict::Disrupted { reason: cut(reason, NAME_BYTES) },
            ExitCause::Own | ExitCause::OutOfMemory => Verdict::Failed(ExitClass::Retryable),
        },
    }
}

fn disrupted_or(exit: &Exit, otherwise: &str) -> Verdict {
    let reason = match &exit.cause {
        ExitCause::Disruption { reason } => cut(reason, NAME_BYTES),
        ExitCause::Own | ExitCause::OutOfMemory => otherwise.to_owned(),
    };
    Verdict::Disrupted { reason }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn an_end_without_a_word_is_named_by_its_class() {
        let exit = |class: Option<ExitClass>| {
            let report = class.map(|class| ExitReport::new(class, 3));
            Exit { code: Some(0), report, cause: ExitCause::Own, log_tail: String::new(), at: Timestamp::UNIX_EPOCH }
        };
        let named = [Some(ExitClass::Stopped), Some(ExitClass::Completed), None].map(|class| reason(&exit(class), 3));
        assert_eq!(named, ["Stopped", "Completed", "NoExitReport"]);
        assert_eq!(reason(&exit(Some(ExitClass::Stopped)), 4), "NoExitReport", "a report of another epoch is none");
    }

    #[test]
    fn words_of_a_report_are_cut() {
        let long = "é".repeat(5_000);
        let report = ExitReport { query: Some(long.clone()), reason: long.clone(), ..ExitReport::new(ExitClass::Retryable, 3) };
        let at = Timestamp::UNIX_EPOCH;
        let exit = |report, cause| Exit { code: Some(10), report, cause, log_tail: String::new(), at };
        assert!(reason(&exit(Some(report.clone()), ExitCause::Own), 3).len() <= NAME_BYTES);
        let changed = ExitReport { reason: SCHEMA_CHANGED.into(), source_version: Some(long.clone()), ..report };
        let Verdict::SchemaChanged { version } = classify(&exit(Some(changed), ExitCause::Own), 3) else { panic!("a schema change") };
        assert!(version.len() <= 2 * NAME_BYTES + 1);
        let drained = exit(None, ExitCause::Disruption { reason: long });
        assert!(reason(&drained, 3).len() <= NAME_BYTES);
        assert!(matches!(classify(&drained, 3), Verdict::Disrupted { reason } if reason.len() <= NAME_BYTES));
    }
}
