//! The metric families of jobs: one row each, and their text.
//!
//! The text format wants all lines of a family together, so the families are
//! walked one after the other over one snapshot of the board.

use std::fmt::Write;

use weir_crds::resource::CONDITION_TYPES;

use super::board::{BUCKETS, Entry, Histogram, Snapshot};
use super::view::Held;
use crate::names::JobId;

/// A piece of text ends after about this many bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// One metric family.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    write: fn(&mut Lines<'_>, &Entry),
}

const FAMILIES: [Family; 15] = [
    gauge("condition", "1 for the status that a condition has, 0 for the others", |lines, entry| {
        for (kind, held) in CONDITION_TYPES.iter().zip(entry.view.conditions) {
            for (status, is) in [("true", Held::True), ("false", Held::False), ("unknown", Held::Unknown)] {
                if held != Held::Absent {
                    lines.line("", &[("type", kind), ("status", status)], u8::from(held == is));
                }
            }
        }
    }),
    gauge("info", "Always 1; image of the run and generation of the spec", |lines, entry| {
        lines.line("", &[("image", &entry.view.image), ("generation", &entry.view.generation.to_string())], 1);
    }),
    Family {
        name: "restarts_total",
        kind: "counter",
        help: "Starts of runs and tasks by cause, since the job was created",
        write: |lines, entry| {
            let totals = entry.view.restarts;
            for (cause, total) in [
                ("Application", totals.application),
                ("StartUp", totals.start_up),
                ("Disruption", totals.disruption),
                ("Spec", totals.spec),
            ] {
                lines.line("", &[("cause", cause)], total);
            }
        },
    },
    gauge("consecutive_failures", "Failed runs in a row", |lines, entry| lines.line("", &[], entry.view.consecutive_failures)),
    gauge("epoch", "The newest epoch given out", |lines, entry| lines.known(entry.view.epoch)),
    gauge("run_number", "Number of the run that is alive", |lines, entry| lines.known(entry.view.run_number)),
    gauge(
        "last_commit_timestamp_seconds",
        "Last commit of the running query that is furthest back; of any query while none runs",
        |lines, entry| {
            lines.known(entry.view.last_commit);
        },
    ),
    gauge("next_restart_timestamp_seconds", "When the next run begins, while it is waited for", |lines, entry| {
        lines.known(entry.view.next_restart);
    }),
    gauge("generation_lag", "Generations of the spec that the status does not speak of yet", |lines, entry| {
        let observed = entry.view.observed_generation.unwrap_or(0);
        lines.line("", &[], entry.view.generation.saturating_sub(observed).max(0));
    }),
    gauge("backlog_records", "Records still to be read", |lines, entry| lines.known(entry.view.backlog_records)),
    gauge("backlog_bytes", "Bytes still to be read", |lines, entry| lines.known(entry.view.backlog_bytes)),
    gauge("backlog_seconds", "Age of the oldest unread record", |lines, entry| lines.known(entry.view.backlog_seconds)),
    gauge("backlog_files", "Files still to be read", |lines, entry| lines.known(entry.view.backlog_files)),
    histogram("run_start_seconds", "From the start of a run to all its tasks being ready", |lines, entry| {
        lines.histogram(&entry.run_start);
    }),
    histogram("gap_between_runs_seconds", "From the end of a run to the start of the next", |lines, entry| lines.histogram(&entry.gap)),
];

const fn gauge(name: &'static str, help: &'static str, write: fn(&mut Lines<'_>, &Entry)) -> Family {
    Family { name, kind: "gauge", help, write }
}

const fn histogram(name: &'static str, help: &'static str, write: fn(&mut Lines<'_>, &Entry)) -> Family {
    Family { name, kind: "histogram", help, write }
}

/// The lines of one job in one family.
struct Lines<'a> {
    out: &'a mut String,
    family: &'static str,
    job: &'a JobId,
}

impl Lines<'_> {
    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let Lines { out, family, job } = self;
        // Names of Kubernetes objects need no escape.
        let _ = write!(out, "weir_streamingjob_{family}{suffix}{{namespace=\"{}\",name=\"{}\"", job.namespace, job.name);
        for (name, value) in labels {
            let _ = write!(out, ",{name}=\"");
            escape(out, value);
            out.push('"');
        }
        let _ = writeln!(out, "}} {value}");
    }

    /// A line, unless the value is not known.
    fn known(&mut self, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.line("", &[], value);
        }
    }

    fn histogram(&mut self, histogram: &Histogram) {
        let mut total = 0_u64;
        for (at, count) in histogram.counts.iter().enumerate() {
            total += u64::from(*count);
            let bound = BUCKETS.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            self.line("_bucket", &[("le", &bound)], total);
        }
        self.line("_sum", &[], histogram.sum);
        self.line("_count", &[], total);
    }
}

fn escape(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// The text of all jobs, piece by piece.
pub(super) fn pieces(jobs: Snapshot) -> impl Iterator<Item = String> + Send + 'static {
    let mut family = 0;
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut piece = String::new();
        while piece.len() < PIECE_BYTES {
            let Some(Family { name, kind, help, write }) = FAMILIES.get(family) else { break };
            if at == 0 {
                let _ = write!(piece, "# HELP weir_streamingjob_{name} {help}\n# TYPE weir_streamingjob_{name} {kind}\n");
            }
            match jobs.get(at) {
                Some((job, entry)) => {
                    write(&mut Lines { out: &mut piece, family: name, job }, entry);
                    at += 1;
                }
                None => (family, at) = (family + 1, 0),
            }
        }
        (!piece.is_empty()).then_some(piece)
    })
}
