//! `weir check`: everything that can be known without reading data.
//!
//! The manifest's own rules are those of `weir_crds::manifest`; what needs SQL
//! is compiled here, query by query, as the task will, and its errors are
//! placed at the field that they come from. All problems are shown at once.
//! A value that only a Secret or ConfigMap may supply is left to the task.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use weir_core::{Error, ErrorClass, Result};
use weir_crds::checkpoint::namespace_of;
use weir_crds::finding::Finding;
use weir_crds::manifest::{End, LoadedJob, Problem};
use weir_runtime::query::open::{check_sink, check_sink_table, compile_only};
use weir_runtime::resolve::{self, AvailableNowRun, Surroundings};

use crate::arguments::{CheckArguments, CheckOutput};
use crate::commands::task::runtime;
use crate::manifests::Manifests;
use crate::outcome::{Code, Ended};
use crate::output;

/// Runs the command.
pub fn run(arguments: &CheckArguments) -> Ended {
    let (manifests, mut problems) = Manifests::read(&arguments.files, &arguments.parameters, text_of);
    problems.extend(runtime()?.block_on(check_jobs(&manifests)));
    match arguments.output {
        CheckOutput::Json => {
            let text = serde_json::to_string_pretty(&problems).map_err(|e| Error::retryable("NOT_PRINTED", e.to_string()))?;
            output::print(&format!("{text}\n"))?;
        }
        CheckOutput::Text => {
            let mut text = problems.iter().map(|problem| format!("{problem}\n")).collect::<String>();
            let errors = problems.iter().filter(|p| p.is_error()).count();
            let warnings = problems.len() - errors;
            text.push_str(&format!("{}, {}\n", counted(errors, "error"), counted(warnings, "warning")));
            output::print(&text)?;
        }
    }
    Ok(if problems.iter().any(Problem::is_error) { Code::CONFIG } else { Code::DONE })
}

/// The manifests when they pass the check, their warnings printed on stderr; otherwise one error with all problems.
pub async fn accepted(files: &[PathBuf], parameters: &[(String, String)]) -> Result<Manifests> {
    let (manifests, mut problems) = Manifests::read(files, parameters, |file| fs::read_to_string(file));
    problems.extend(check_jobs(&manifests).await);
    let (errors, others): (Vec<_>, Vec<_>) = problems.into_iter().partition(Problem::is_error);
    if !errors.is_empty() {
        let lines: Vec<String> = errors.iter().map(Problem::to_string).collect();
        return Err(Error::config("MANIFEST_INVALID", format!("{}\n{}", counted(lines.len(), "problem"), lines.join("\n"))));
    }
    others.iter().for_each(|warning| output::say(&warning.to_string()));
    Ok(manifests)
}

/// `1 error`, `2 errors`.
fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The text of a file; `-` is standard input. Other commands read a manifest more than once, so only this one takes it.
fn text_of(file: &Path) -> io::Result<String> {
    if file == Path::new("-") { io::read_to_string(io::stdin()) } else { fs::read_to_string(file) }
}

async fn check_jobs(manifests: &Manifests) -> Vec<Problem> {
    let mut problems = Vec::new();
    for loaded in manifests.loaded_jobs() {
        problems.extend(check_queries(loaded).await);
    }
    problems
}

/// Compiles every query of a job that passed the manifest's own rules.
async fn check_queries(loaded: &LoadedJob) -> Vec<Problem> {
    let spec = &loaded.job.spec;
    let nothing = |_, _: &str| Ok(BTreeMap::new());
    let job = loaded.job.metadata.name.clone().unwrap_or_default();
    let mut problems = Vec::new();
    for task in &spec.tasks {
        let around = Surroundings {
            namespace: namespace_of(&loaded.job),
            job: &job,
            lookup: &nothing,
            temporary_root: "/tmp",
            available_now: AvailableNowRun::AsWritten,
        };
        let path = format!("spec.tasks[{}]", task.name);
        let definitions = match resolve::task_queries(spec, &task.name, around) {
            Ok(definitions) => definitions,
            Err(error) => {
                problems.push(located(loaded, &path, error));
                continue;
            }
        };
        for (definition, query) in definitions.iter().zip(&task.queries) {
            let path = format!("{path}.queries[{}]", query.name);
            let sources_refer = query.sources.iter().any(|source| !source.options_from.is_empty());
            match compile_only(definition).await {
                Ok(_) if !query.sink.options_from.is_empty() => {}
                Ok(compiled) => {
                    let checked = match check_sink(definition, &compiled) {
                        Ok(()) => check_sink_table(definition, &compiled).await,
                        Err(error) => Err(error),
                    };
                    problems.extend(checked.err().map(|error| located(loaded, &path, error)));
                }
                Err(_) if sources_refer => {}
                Err(error) => problems.push(located(loaded, &path, error)),
            }
        }
    }
    problems
}

/// An error of the engine about what stands at `path` as a problem of the manifest.
/// What depends on the surroundings (a path that is not there yet, a table that cannot
/// be read) is a warning: it may be otherwise when the task starts, and that one knows
/// the right exit.
fn located(loaded: &LoadedJob, path: &str, error: Error) -> Problem {
    let mut error = error.within(path);
    let about = error.take_place();
    let is_surroundings = error.class() != ErrorClass::Config || error.condition() == "PATH_NOT_FOUND";
    let text = error.to_string();
    let make = if is_surroundings { Finding::warning } else { Finding::error };
    let finding = make(if is_surroundings { "surroundings" } else { "sql" }, &about.field, text);
    let place = match about.at {
        Some((line, column)) => loaded.locator.inside(&about.field, &loaded.job.spec.parameters, line, column),
        None => loaded.locator.find(&about.field, End::Value),
    };
    Problem { file: loaded.file.clone(), line: place.line, column: place.column, finding }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_agree_with_their_nouns() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "problem")), ["0 problems", "1 problem", "2 problems"]);
    }

    #[test]
    fn errors_of_sql_are_where_the_manifest_has_them() {
        let text = "apiVersion: weir.dev/v1alpha1
kind: StreamingJob
metadata: {name: j}
spec:
  trigger: {manual: {}}
  parameters: {sensor: value}
  tasks:
  - name: good
    queries:
    - {name: q, sources: [{name: s, format: rate}], sql: SELECT value FROM s, sink: {format: noop}}
  - name: t
    queries:
    - name: block
      sources: [{name: s, format: rate}]
      sql: |
        -- the first line
        SELECT ${sensor} AS v, vaule
        FROM s
      sink: {format: noop}
    - name: folded
      sources: [{name: s, format: rate}]
      sql: >
        SELECT value
        FORM s
      sink: {format: noop}
    - name: quoted
      sources: [{name: s, format: rate}]
      sql: 'SELECT ''a'' AS a, uppr(value) FROM s'
      sink: {format: noop}
    - name: viewed
      sources: [{name: s, format: rate}, {name: unread, format: rate}]
      views: [{name: v, sql: SELECT value FROM s}]
      sql: SELECT value FROM v
      sink: {format: noop}
";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.yaml");
        std::fs::write(&file, text).unwrap();
        let (manifests, mut problems) = Manifests::read(&[file], &[], text_of);
        problems.extend(runtime().unwrap().block_on(check_jobs(&manifests)));
        let found = problems.iter().map(|problem| {
            let line = text.lines().nth(problem.line - 1).unwrap_or_default();
            (problem.finding.path.as_str(), problem.line, line.chars().skip(problem.column - 1).take(5).collect::<String>())
        });
        let query = "spec.tasks[t].queries";
        let expected = [
            (format!("{query}[block].sql"), 17, "vaule"),
            (format!("{query}[folded].sql"), 24, "s"),
            (format!("{query}[quoted].sql"), 28, "uppr("),
            (format!("{query}[viewed].sources[unread]"), 31, "{name"),
        ];
        let expected = expected.iter().map(|(path, line, text)| (path.as_str(), *line, (*text).to_owned()));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{problems:#?}");
        assert!(!problems[0].finding.message.contains("(line"), "one place is enough: {}", problems[0]);
    }
}
