//! Logs on stderr: text for people or one JSON object a line.
//!
//! Lines carry job, namespace, run, task and epoch by the spans made here, so
//! call sites log sentences and no ids. The filter is the value of `WEIR_LOG`,
//! in the syntax of `tracing-subscriber`'s EnvFilter.

use std::io::IsTerminal;

use tracing::Span;
use tracing_subscriber::EnvFilter;

/// Environment variable of the filter.
pub const FILTER_VARIABLE: &str = "WEIR_LOG";
/// Weir's own information, and warnings of libraries.
pub const DEFAULT_FILTER: &str = "warn,weir_operator=info,weir_supervisor=info";

/// The client logs whole answers that it cannot read or sends on, and tokens of tasks are in pods: never, whatever the filter says.
const ANSWERS: [&str; 2] = ["kube_client::client=error", "kube_client::client::builder=error"];

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logging was not started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("{FILTER_VARIABLE}={value:?} is not a log filter; write for example `info` or `warn,weir_operator=debug`")]
    Filter {
        /// As given.
        value: String,
        /// What is wrong with it.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// Another subscriber is there.
    #[error("logging was started twice in this process")]
    Started(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Starts logging.
pub fn init(format: LogFormat, filter: Option<&str>) -> Result<(), TelemetryError> {
    let builder = tracing_subscriber::fmt().with_env_filter(parsed(filter)?).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_target(false).with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    }
    .map_err(TelemetryError::Started)
}

fn parsed(filter: Option<&str>) -> Result<EnvFilter, TelemetryError> {
    let value = filter.filter(|value| !value.trim().is_empty()).unwrap_or(DEFAULT_FILTER);
    let filter = EnvFilter::try_new(value).map_err(|source| TelemetryError::Filter { value: value.to_owned(), source })?;
    Ok(ANSWERS.iter().fold(filter, |filter, directive| filter.add_directive(directive.parse().expect("the directive is fixed"))))
}

/// The span of one pass over a job. Run and epoch are recorded once they are known, by [`record_run`].
pub fn job_span(namespace: &str, job: &str) -> Span {
    tracing::info_span!("job", namespace, job, run = tracing::field::Empty, epoch = tracing::field::Empty)
}

/// Adds the run and its newest epoch to a job's span.
pub fn record_run(span: &Span, run: u64, epoch: u64) {
    span.record("run", run);
    span.record("epoch", epoch);
}

/// The span of what is done to one instance of a task, inside the job's.
pub fn task_span(task: &str, epoch: u64) -> Span {
    tracing::info_span!("task", task, epoch)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Captured {
        type Writer = Self;

        fn make_writer(&'a self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn a_json_line_carries_the_ids_of_its_spans() {
        let captured = Captured::default();
        let builder = tracing_subscriber::fmt().with_env_filter(parsed(None).unwrap()).with_writer(captured.clone());
        let subscriber = builder.json().flatten_event(true).with_current_span(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            let job = job_span("lake", "orders");
            record_run(&job, 3, 41);
            job.in_scope(|| task_span("bronze", 42).in_scope(|| tracing::info!("pod created")));
        });
        let line: serde_json::Value = serde_json::from_slice(&captured.0.lock()).unwrap();
        assert_eq!(line["message"], "pod created");
        assert_eq!(line["spans"][0]["namespace"], "lake");
        assert_eq!(line["spans"][0]["job"], "orders");
        assert_eq!(line["spans"][0]["run"], 3);
        assert_eq!(line["spans"][1]["task"], "bronze");
        assert_eq!(line["spans"][1]["epoch"], 42);
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_quoted() {
        assert!(parsed(Some(" ")).is_ok());
        let error = parsed(Some("weir=loud=er")).unwrap_err().to_string();
        assert!(error.contains("WEIR_LOG=\"weir=loud=er\""), "{error}");
    }
}
