//! `weir check`: everything that can be known without reading data.
//!
//! The manifest's own rules are those of `weir_crds::manifest`; the rest is what
//! the supervisor and the task do at their start, up to what needs a service,
//! done by the same functions. Errors are placed at the field that they come
//! from. All problems are shown at once. A value that only a Secret or ConfigMap
//! may supply, which is not among the files, is left to the task.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use futures::FutureExt;
use weir_connect::open::SinkRole;
use weir_core::error::Place;
use weir_core::storage::{Durability, Storage};
use weir_core::{Error, ErrorClass, Result};
use weir_crds::checkpoint::namespace_of;
use weir_crds::conf::SessionConf;
use weir_crds::finding::Finding;
use weir_crds::manifest::{End, LoadedJob, Problem, Triggers};
use weir_crds::options::{Format, Role};
use weir_crds::policy::JobTrigger;
use weir_crds::resource::{OptionsFromSpec, QuerySpec};
use weir_runtime::places::{self, Written};
use weir_runtime::query::open;
use weir_runtime::resolve::{self, AvailableNowRun, ReferenceKind, Surroundings};
use weir_supervisor::schedule::Schedule;

use crate::arguments::{CheckArguments, CheckOutput, triggers};
use crate::commands::task::runtime;
use crate::manifests::{Files, Manifests, Texts};
use crate::outcome::{Code, Ended};
use crate::output;

/// Where the Secrets and ConfigMaps of `optionsFrom` are.
#[derive(Clone, Copy, Debug)]
pub enum References<'a> {
    /// Among the files and in this folder: the tasks will look nowhere else.
    AllHere(Option<&'a Path>),
    /// Among the files, or where the job will run.
    MayBeElsewhere,
}

/// What of the world a check may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Files of this machine and stores, as a task does.
    Open,
    /// Nothing but the manifest: its writer may not see what this process may.
    Sealed,
}

impl Sight {
    fn storage(self) -> Storage {
        match self {
            Sight::Open => Storage::new(Durability::PageCache),
            Sight::Sealed => Storage::sealed(),
        }
    }
}

/// What an empty world would be told of.
const OF_AN_EMPTY_WORLD: [&str; 3] = ["PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "DELTA_TABLE_NOT_FOUND"];

/// Runs the command.
pub fn run(arguments: &CheckArguments) -> Ended {
    if let Some(parent) = arguments.die_with {
        crate::parent::die_with(parent)?;
    }
    let sight = if arguments.sealed { Sight::Sealed } else { Sight::Open };
    let files = Files::open(&arguments.files);
    if arguments.for_run {
        let triggers = triggers(arguments.available_now);
        runtime()?.block_on(accepted(files.read(), &arguments.parameters, arguments.secrets_dir.as_deref(), triggers))?;
        return Ok(Code::DONE);
    }
    let (manifests, mut problems) = Manifests::of(files.read(), &arguments.parameters, Triggers::AsWritten);
    problems.extend(runtime()?.block_on(check_jobs(&manifests, References::MayBeElsewhere, sight)));
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
pub async fn accepted(texts: Texts, parameters: &[(String, String)], secrets_dir: Option<&Path>, triggers: Triggers) -> Result<Manifests> {
    let (manifests, mut problems) = Manifests::of(texts, parameters, triggers);
    problems.extend(check_jobs(&manifests, References::AllHere(secrets_dir), Sight::Open).await);
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

async fn check_jobs(manifests: &Manifests, references: References<'_>, sight: Sight) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut written = Vec::new();
    let mut places = Vec::new();
    let is_one_job = manifests.loaded_jobs().count() == 1;
    for loaded in manifests.loaded_jobs() {
        problems.extend(check_schedule(loaded));
        if let Some(problem) = check_session_zone(loaded) {
            // Every query would only say so again.
            problems.push(problem);
            continue;
        }
        let name = loaded.job.metadata.name.clone().unwrap_or_default();
        let around = InFiles { manifests, loaded, references, sight };
        for query in around.check_queries(&name, &mut problems).await {
            let of_job = if is_one_job { String::new() } else { format!(" of job {name}") };
            let label = format!("query {} of task {}{of_job}", query.definition.name, query.task);
            written.push(Written::by(label, &query.definition, &sight.storage()));
            places.push((loaded, query.path));
        }
    }
    for (at, error) in places::conflicts(&written) {
        let (loaded, path) = &places[at];
        problems.push(located(loaded, path, error, Certainty::AsWritten));
    }
    problems
}

/// What only the supervisor knows of schedules: the names of time zones, and what a cron expression cannot say.
fn check_schedule(loaded: &LoadedJob) -> Option<Problem> {
    let JobTrigger::Schedule(rules) = loaded.job.spec.policy().ok()?.trigger else { return None };
    let error = Schedule::parse(&rules.cron, &rules.time_zone).err()?;
    let field = if matches!(error, weir_supervisor::schedule::ScheduleError::Zone { .. }) { "timeZone" } else { "cron" };
    let error = Error::config("INVALID_SCHEDULE", error.to_string()).in_field(field);
    Some(located(loaded, "spec.trigger.schedule", error, Certainty::AsWritten))
}

/// The time zone of the session, which all queries share.
fn check_session_zone(loaded: &LoadedJob) -> Option<Problem> {
    let session = SessionConf::parse(&loaded.job.spec.conf).ok()?;
    let error = resolve::sql_conf(&session).zone().err()?.in_field("conf[\"spark.sql.session.timeZone\"]");
    Some(located(loaded, "spec", error, Certainty::AsWritten))
}

/// A query that could be resolved.
struct Resolved {
    task: String,
    path: String,
    definition: weir_runtime::query::QueryDefinition,
}

/// A job among its files.
struct InFiles<'a> {
    manifests: &'a Manifests,
    loaded: &'a LoadedJob,
    references: References<'a>,
    sight: Sight,
}

impl InFiles<'_> {
    fn lookup(&self, kind: ReferenceKind, name: &str) -> Result<BTreeMap<String, String>> {
        let (dir, may_miss) = match self.references {
            References::AllHere(dir) => (dir, false),
            References::MayBeElsewhere => (None, true),
        };
        let found = self.manifests.lookup(namespace_of(&self.loaded.job), kind, name, dir);
        if found.is_err() && may_miss { Ok(BTreeMap::new()) } else { found }
    }

    /// Whether all that is referred to was found.
    fn knows(&self, from: &[OptionsFromSpec]) -> bool {
        let objects = &self.manifests;
        let namespace = namespace_of(&self.loaded.job);
        matches!(self.references, References::AllHere(_)) || from.iter().all(|entry| objects.has(namespace, entry))
    }

    /// Does with every query what its task will do, and gives out those that have a definition.
    async fn check_queries(&self, job: &str, problems: &mut Vec<Problem>) -> Vec<Resolved> {
        let (loaded, spec) = (self.loaded, &self.loaded.job.spec);
        let lookup = |kind, name: &str| self.lookup(kind, name);
        let storage = self.sight.storage();
        let mut resolved = Vec::new();
        for task in &spec.tasks {
            let namespace = namespace_of(&loaded.job);
            let available_now = AvailableNowRun::AsWritten;
            let around = Surroundings { namespace, job, lookup: &lookup, temporary_root: "/tmp", available_now };
            let path = format!("spec.tasks[{}]", task.name);
            let definitions = match resolve::task_queries(spec, &task.name, around) {
                Ok(definitions) => definitions,
                Err(error) => {
                    problems.push(located(loaded, &path, error, Certainty::AsWritten));
                    continue;
                }
            };
            for (definition, query) in definitions.into_iter().zip(&task.queries) {
                let path = format!("{path}.queries[{}]", query.name);
                let bad_records = query.bad_records.iter().map(|to| (SinkRole::BadRecords, &to.options_from));
                let sinks = std::iter::once((SinkRole::Rows, &query.sink.options_from)).chain(bad_records);
                let known: Vec<SinkRole> = sinks.filter(|(_, from)| self.knows(from)).map(|(role, _)| role).collect();
                if let Err(mut error) = unpanicked(open::check(&definition, &known, &storage)).await {
                    let place = error.take_place();
                    let is_unseen = self.sight == Sight::Sealed && OF_AN_EMPTY_WORLD.contains(&error.condition());
                    if let Some(certainty) = self.certainty(query, &place).filter(|_| !is_unseen) {
                        problems.push(placed(loaded, &path, error, place, certainty));
                    }
                }
                resolved.push(Resolved { task: task.name.clone(), path, definition });
            }
        }
        resolved
    }

    /// How sure an error of a query is, by where it is; none where it is nothing but the lack of a Secret or ConfigMap.
    fn certainty(&self, query: &QuerySpec, place: &Place) -> Option<Certainty> {
        let is_of = |own: &str| place.field.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with(".options"));
        let mut inputs = query.sources.iter().chain(&query.tables).map(|input| &input.options_from);
        match query.options_from().find(|(own, _)| is_of(own)).map(|(_, from)| from) {
            Some(from) if !self.knows(from) => None,
            Some(from) if !from.is_empty() => Some(Certainty::OfSecrets),
            // What is not known yet may bring columns.
            _ if inputs.any(|from| !self.knows(from)) => Some(Certainty::MayChange),
            _ if self.sight == Sight::Sealed && has_columns_of_files(query) => Some(Certainty::Unseen),
            _ => Some(Certainty::AsWritten),
        }
    }
}

/// A check that panics is a refusal of what it checks, and of nothing else.
async fn unpanicked(check: impl Future<Output = Result<()>>) -> Result<()> {
    AssertUnwindSafe(check).catch_unwind().await.unwrap_or_else(|cause| {
        let said = weir_core::error::panic_text(cause.as_ref());
        Err(Error::config(
            "WEIR_CHECK_PANICKED",
            format!(
                "this query cannot be checked: {said}; that is a defect of Weir, which the SQL or an option brings out: write it otherwise"
            ),
        ))
    })
}

/// How an error of the engine is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    /// As it is.
    AsWritten,
    /// Values of Secrets may be in its words, so they are left out.
    OfSecrets,
    /// As a warning: options that are not known yet may change it.
    MayChange,
    /// As a warning: files that were not looked at may change it.
    Unseen,
}

/// Whether an input of the query may have columns that only its files tell of, such as those of partition folders.
fn has_columns_of_files(query: &QuerySpec) -> bool {
    let mut formats = query.sources.iter().map(|source| &source.format).chain(query.tables.iter().map(|table| &table.format));
    let brings = |format: &str| Format::find(format, Role::Source).is_ok_and(|format| format.is_files() || format == Format::Delta);
    // A table that a catalog names has no format of its own.
    formats.any(|format| format.as_deref().is_none_or(brings))
}

/// An error of the engine about what stands at `path` as a problem of the manifest.
fn located(loaded: &LoadedJob, path: &str, mut error: Error, certainty: Certainty) -> Problem {
    let place = error.take_place();
    placed(loaded, path, error, place, certainty)
}

/// What depends on the surroundings (a path that is not there yet, a table that cannot
/// be read) is a warning: it may be otherwise when the task starts, and that one knows
/// the right exit.
fn placed(loaded: &LoadedJob, path: &str, error: Error, place: Place, certainty: Certainty) -> Problem {
    let field = if place.field.is_empty() { path.to_owned() } else { format!("{path}.{}", place.field) };
    let depends = error.class() != ErrorClass::Config
        || error.condition() == "PATH_NOT_FOUND"
        || matches!(certainty, Certainty::MayChange | Certainty::Unseen);
    let text = match certainty {
        Certainty::AsWritten => error.to_string(),
        Certainty::OfSecrets => {
            format!("[{}] the options do not fit, those of optionsFrom among them, which are not shown", error.condition())
        }
        Certainty::MayChange => format!("{error} (unless options that optionsFrom will bring change it)"),
        Certainty::Unseen => format!("{error} (unless the files, which are not looked at here, bring other columns)"),
    };
    let make = if depends { Finding::warning } else { Finding::error };
    let finding = make(if depends { "surroundings" } else { "sql" }, &field, text);
    let at = match place.at {
        Some((line, column)) => loaded.locator.inside(&field, &loaded.job.spec.parameters, line, column),
        None => loaded.locator.find(&field, End::Value),
    };
    Problem { file: loaded.file.clone(), line: at.line, column: at.column, finding }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_agree_with_their_nouns() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "problem")), ["0 problems", "1 problem", "2 problems"]);
    }

    /// What a check says of a manifest: severity, place and beginning of each problem.
    fn said(text: &str, references: References<'_>) -> Vec<String> {
        said_in(text, references, Sight::Open)
    }

    fn said_in(text: &str, references: References<'_>, sight: Sight) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("job.yaml");
        std::fs::write(&file, text).unwrap();
        let (manifests, mut problems) = Manifests::of(Files::open(&[file]).read(), &[], Triggers::AsWritten);
        problems.extend(runtime().unwrap().block_on(check_jobs(&manifests, references, sight)));
        let line = |problem: &Problem| {
            let severity = if problem.is_error() { "error" } else { "warning" };
            let words: String = problem.finding.message.chars().take(110).collect();
            format!("{severity} {}:{} {} {words}", problem.line, problem.column, problem.finding.path)
        };
        problems.iter().map(line).collect()
    }

    fn job(queries: &str) -> String {
        format!(
            "apiVersion: weir.dev/v1alpha1\nkind: StreamingJob\nmetadata: {{name: j}}\nspec:\n  trigger: {{manual: {{}}}}\n  tasks:\n  - name: t\n    queries:\n{queries}"
        )
    }

    #[test]
    fn what_a_start_would_refuse_is_refused_here() {
        let watermark = "    - name: w
      sources: [{name: s, format: rate, watermark: {column: timestmp, delay: 1m}}]
      sql: SELECT value FROM s
      sink: {format: noop}
    - name: v
      sources: [{name: s, format: rate, watermark: {column: value, delay: 1m}}]
      sql: SELECT value FROM s
      sink: {format: noop}
";
        let places = "    - name: own
      sources: [{name: s, format: rate}]
      sql: SELECT value FROM s
      sink: {format: json, options: {path: ck/own/data}}
      checkpointLocation: ck/own
    - name: other
      sources: [{name: s, format: rate}]
      sql: SELECT value FROM s
      sink: {format: delta, options: {path: ck/own}}
      checkpointLocation: ck/other
";
        let zone = job(watermark).replace("manual: {}", "schedule: {cron: '0 * * * *', timeZone: Europe/Berln}").replace(
            "sink: {format: noop}",
            "sink: {format: noop}
      trigger: {availableNow: {}}",
        );
        let session = job(watermark).replace("  tasks:", "  conf: {spark.sql.session.timeZone: Europe/Berln}\n  tasks:");
        let cases = [("watermark", job(watermark)), ("places", job(places)), ("schedule", zone), ("session", session)];
        let found = cases.map(|(name, text)| format!("{name}\n{}", said(&text, References::MayBeElsewhere).join("\n")));
        insta::assert_snapshot!(found.join("\n\n"));
    }

    #[test]
    fn a_sealed_check_tells_nothing_of_what_is_there_and_still_judges_the_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token.csv");
        std::fs::write(&token, "header.payload.signature\n").unwrap();
        let table = format!("{{name: k, format: csv, options: {{path: {}, header: \"true\", sep: \".\"}}}}", token.display());
        let query = |sql: &str, tables: &str| {
            job(&format!(
                "    - name: q\n      sources: [{{name: s, format: rate}}]\n      tables: [{tables}]\n      sql: {sql}\n      sink: {{format: noop}}\n"
            ))
        };
        let of = |text: &str, sight: Sight| said_in(text, References::MayBeElsewhere, sight).join("\n");
        let leaking = query("SELECT k.x FROM s CROSS JOIN k", &table);
        assert!(of(&leaking, Sight::Open).contains("UNRESOLVED_COLUMN"), "the columns are those of the file");
        assert_eq!(of(&leaking, Sight::Sealed), "", "what only the file could tell is left to the task");
        let declared = table.replace("options", "schema: a STRING, options");
        let found = of(&query("SELECT k.x FROM s CROSS JOIN k", &declared), Sight::Sealed);
        assert!(found.starts_with("warning") && found.contains("UNRESOLVED_COLUMN"), "{found}");
        assert_eq!(of(&query("SELECT k.a FROM s CROSS JOIN k", &declared), Sight::Sealed), "");
        assert!(of(&query("SELECT vaule FROM s", ""), Sight::Sealed).starts_with("error"));
        let remote = table.replace(&token.display().to_string(), "https://127.0.0.1:9/x");
        assert_eq!(of(&query("SELECT value FROM s CROSS JOIN k", &remote), Sight::Sealed), "", "nobody is asked");
    }

    #[test]
    fn a_check_of_kafka_asks_no_broker_and_opens_no_file() {
        let broker = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        broker.set_nonblocking(true).unwrap();
        let address = broker.local_addr().unwrap();
        // A client that is made fails on the files at once.
        let tls = "kafka.security.protocol: SSL, kafka.ssl.truststore.type: PEM, kafka.ssl.truststore.location: /no/such/ca.pem";
        for more in ["includeHeaders: 'false'", tls] {
            let kafka = |topic: &str| format!("format: kafka, options: {{kafka.bootstrap.servers: '{address}', {topic}, {more}}}");
            let sink = kafka("topic: out").replace("includeHeaders: 'false'", "kafka.acks: all");
            let text = job(&format!(
                "    - name: q\n      sources: [{{name: s, {}}}]\n      tables: [{{name: k, {}}}]\n      sql: SELECT s.value FROM s JOIN k ON \
                 s.key = k.key\n      sink: {{{sink}}}\n      checkpointLocation: /no/such/ck\n",
                kafka("subscribe: t"),
                kafka("subscribe: u")
            ));
            for sight in [Sight::Sealed, Sight::Open] {
                let found = said_in(&text, References::MayBeElsewhere, sight);
                assert!(found.is_empty(), "{sight:?} {found:#?}");
            }
        }
        assert_eq!(broker.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "a broker was asked");
    }

    #[test]
    fn bad_records_need_a_source_that_has_some_and_a_place_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let query = |name: &str, source: &str, bad: &str| {
            format!(
                "    - {{name: {name}, sources: [{{name: s, {source}}}], sql: SELECT * FROM s, sink: {{format: noop}}, badRecords: {bad}, \
                 checkpointLocation: /no/such/{name}}}\n"
            )
        };
        let csv = format!("format: csv, schema: 'a INT', options: {{path: {path}");
        let json = "{format: json, options: {path: /no/such/bad}}";
        let text = job(&[
            query("made-up", "format: rate", json),
            query("strict", &format!("{csv}, mode: FAILFAST}}"), json),
            query("inside", &format!("{csv}}}"), &format!("{{format: csv, options: {{path: {path}/bad}}}}")),
            query("fine", &format!("{csv}, mode: DROPMALFORMED}}"), json.replace("bad", "good").as_str()),
        ]
        .concat());
        let found = said(&text, References::MayBeElsewhere);
        let expected = [
            "queries[made-up].badRecords [BAD_RECORDS_WITHOUT_SOURCE]",
            "queries[strict].sources[s].options.mode [BAD_RECORDS_UNDER_FAILFAST]",
            "queries[inside].badRecords.options.path [OVERLAPPING_LOCATIONS]",
            "queries[strict].badRecords.options.path [OVERLAPPING_LOCATIONS] bad records go to `/no/such/bad`, and so does query made-up",
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with("error") && found.contains(expected), "{found}");
        }
    }

    #[test]
    fn the_place_of_bad_records_may_come_from_elsewhere_and_may_be_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let query = |bad: &str| {
            format!(
                "    - {{name: q, sources: [{{name: s, format: csv, schema: 'a INT', options: {{path: {}}}}}], sql: SELECT * FROM s, \
                 sink: {{format: noop}}, badRecords: {bad}, checkpointLocation: /no/such/q}}\n",
                folder.path().display()
            )
        };
        let from = query("{format: json, optionsFrom: [{configMapRef: {name: bad}}]}");
        let text = job(&from);
        assert_eq!(said(&text, References::MayBeElsewhere), Vec::<String>::new());
        let missing = said(&text, References::AllHere(None));
        assert!(missing.len() == 1 && missing[0].contains("badRecords [REFERENCE_NOT_FOUND]"), "{missing:#?}");
        let config =
            |path: &str| format!("{text}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bad}}\ndata: {{path: '{path}'}}\n");
        assert_eq!(said(&config("/no/such/bad"), References::AllHere(None)), Vec::<String>::new());
        let inside = said(&config(&folder.path().join("bad").display().to_string()), References::AllHere(None));
        assert!(inside.len() == 1 && inside[0].contains("badRecords.options.path [OVERLAPPING_LOCATIONS]"), "{inside:#?}");
        let catalog = |name: &str| format!("spec:\n  catalogs: [{{name: {name}, warehouse: /no/such/w}}]\n");
        let table = job(&query("{table: main.ops.bad}"));
        assert_eq!(said(&table.replacen("spec:\n", &catalog("main"), 1), References::MayBeElsewhere), Vec::<String>::new());
        let unknown = said(&table.replacen("spec:\n", &catalog("other"), 1), References::MayBeElsewhere);
        assert!(!unknown.is_empty() && unknown.iter().all(|text| text.contains("badRecords")), "{unknown:#?}");
    }

    #[test]
    fn references_that_are_here_are_read_and_others_excuse_only_themselves() {
        let queries = "    - name: q
      sources: [{name: s, format: rate, optionsFrom: [{secretRef: {name: rates}}]}]
      sql: SELECT valu FROM s
      sink: {format: console, optionsFrom: [{configMapRef: {name: shown}}]}
";
        let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: rates}\nstringData: {rowsPerSecond: 'p w'}\n";
        let config = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: shown}\ndata: {numRows: '5'}\n";
        let elsewhere = said(&job(queries), References::MayBeElsewhere);
        assert!(
            elsewhere.len() == 1 && elsewhere[0].starts_with("warning 11:19 spec.tasks[t].queries[q].sql [UNRESOLVED_COLUMN"),
            "{elsewhere:#?}"
        );
        let missing = said(&job(queries), References::AllHere(None));
        assert!(missing.len() == 1 && missing[0].contains("sources[s] [REFERENCE_NOT_FOUND]"), "{missing:#?}");
        let bad = said(&format!("{}{secret}{config}", job(queries)), References::MayBeElsewhere).join("\n");
        assert!(bad.starts_with("error") && bad.contains("rowsPerSecond") && !bad.contains("p w"), "{bad}");
        let good = secret.replace("p w", "3");
        let here = said(&format!("{}{good}{config}", job(queries)), References::MayBeElsewhere);
        assert!(here.len() == 1 && here[0].starts_with("error 11:19"), "{here:#?}");
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
        let (manifests, mut problems) = Manifests::of(Files::open(&[file]).read(), &[], Triggers::AsWritten);
        problems.extend(runtime().unwrap().block_on(check_jobs(&manifests, References::MayBeElsewhere, Sight::Open)));
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
