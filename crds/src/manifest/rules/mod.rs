//! What a manifest must obey beyond its shape: the twins of the CRD's CEL rules, and what CEL cannot decide.
//!
//! Rules read the typed job and give findings with paths; the loader locates them. Each rule
//! reports all of its violations. None of them reads a file or knows the clock.

mod inputs;
mod job;
mod pod;
mod query;
mod sharing;
mod sink;

use std::collections::BTreeMap;

use super::objects::{Objects, merged_options};
use super::substitute::substitute;
use crate::finding::{Finding, Severity};
use crate::options::{Completeness, Format, Kind, Role, eventhubs, kafka_client, parse};
use crate::resource::{OptionsFromSpec, StreamingJob};

pub(super) use sharing::shared_checkpoints;

/// The rule that queries under a schedule end by themselves.
pub(super) const NEEDS_END: &str = "schedule-needs-end";

/// All findings of one job.
pub(super) fn check(job: &StreamingJob, objects: &Objects) -> Vec<Finding> {
    let mut findings = Vec::new();
    job::check(job, &mut findings);
    for task in &job.spec.tasks {
        pod::check(task, &mut findings);
        for query in &task.queries {
            let path = format!("spec.tasks[{}].queries[{}]", task.name, query.name);
            let context = Context { job, objects, path: &path };
            query::check(&context, query, &mut findings);
            inputs::check(&context, query, &mut findings);
            sink::check(&context, query, &mut findings);
        }
    }
    findings
}

struct Context<'a> {
    job: &'a StreamingJob,
    objects: &'a Objects,
    path: &'a str,
}

impl Context<'_> {
    fn namespace(&self) -> &str {
        crate::checkpoint::namespace_of(self.job)
    }

    /// The option tables over one source, static table or sink.
    fn options(
        &self,
        path: &str,
        format: Format,
        role: Role,
        options: &BTreeMap<String, String>,
        from: &[OptionsFromSpec],
        findings: &mut Vec<Finding>,
    ) {
        self.check_references(path, from, findings);
        let options_path = super::locate::child(path, "options");
        if format == Format::Kafka {
            secrets_are_referred_to(&options_path, options, findings);
        }
        let mut literal = BTreeMap::new();
        for (name, text) in options {
            match substitute(text, &self.job.spec.parameters) {
                Ok(replaced) => {
                    literal.insert(name.clone(), replaced);
                }
                Err(undefined) => {
                    let path = super::locate::child(&options_path, name);
                    findings.extend(undefined.iter().map(|one| self.undefined(&path, &one.name)));
                    // What the value will be is not known; the option counts as given.
                    literal.insert(name.clone(), text.clone());
                }
            }
        }
        let (all, completeness) = self.merged(&literal, from);
        for mut finding in parse(format, role, &all, completeness).findings {
            let written = options.iter().find(|(name, _)| name.eq_ignore_ascii_case(&finding.path));
            match written {
                Some((_, text)) if text.contains("${") && substitute(text, &self.job.spec.parameters).is_err() => continue,
                Some((name, _)) => finding.path = super::locate::child(&options_path, name),
                None if all.keys().any(|name| name.eq_ignore_ascii_case(&finding.path)) => {
                    finding = redacted(finding, format, role, path);
                }
                None => finding.path = super::locate::child(&options_path, &finding.path),
            }
            findings.push(finding);
        }
    }

    /// All options, as far as their objects are among the files.
    fn merged(&self, literal: &BTreeMap<String, String>, from: &[OptionsFromSpec]) -> (BTreeMap<String, String>, Completeness) {
        let data = |entry: &OptionsFromSpec| self.objects.find(self.namespace(), entry).map(|data| data.0.clone());
        match merged_options(literal, from, data) {
            Ok(all) => (all, Completeness::Complete),
            Err(_) => (literal.clone(), Completeness::MayGrow),
        }
    }

    /// The format of a source, static table or sink; where it is a Kafka in other clothes, the refusal says how to write it.
    fn format(
        &self,
        path: &str,
        name: &str,
        role: Role,
        options: &BTreeMap<String, String>,
        from: &[OptionsFromSpec],
        findings: &mut Vec<Finding>,
    ) -> Option<Format> {
        let mut finding = match Format::find(name, role) {
            Ok(format) => return Some(format),
            Err(finding) => finding,
        };
        finding.path = format!("{path}.format");
        if name.eq_ignore_ascii_case("eventhubs") {
            finding.allowed.clear();
            finding.remedy = eventhubs::kafka_block(role, &self.merged(options, from).0);
        }
        findings.push(finding);
        None
    }

    fn check_references(&self, path: &str, from: &[OptionsFromSpec], findings: &mut Vec<Finding>) {
        for (index, entry) in from.iter().enumerate() {
            if entry.secret_ref.is_some() == entry.config_map_ref.is_some() {
                findings.push(Finding::error(
                    "exactly-one",
                    format!("{path}.optionsFrom[{index}]"),
                    "give exactly one of secretRef, configMapRef",
                ));
            }
        }
    }

    fn undefined(&self, path: &str, name: &str) -> Finding {
        let known = || self.job.spec.parameters.keys().map(String::as_str);
        Finding::error("undefined-parameter", path, format!("parameter `${{{name}}}` has no value"))
            .found(&format!("${{{name}}}"))
            .allowed(known())
            .nearest_of(name, known())
            .remedy("add it to spec.parameters, or give it by -p name=value")
    }

    /// Undefined parameters of a text that is SQL.
    fn parameters_in(&self, path: &str, text: &str, findings: &mut Vec<Finding>) {
        if let Err(undefined) = substitute(text, &self.job.spec.parameters) {
            findings.extend(undefined.iter().map(|one| self.undefined(path, &one.name)));
        }
    }
}

/// Who may read a job may read its options, so passwords and keys stand in a Secret.
fn secrets_are_referred_to(path: &str, options: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    for name in options.keys().filter(|name| kafka_client::is_secret(name)) {
        findings.push(
            Finding::error(
                "secret-in-manifest",
                super::locate::child(path, name),
                format!("option '{name}' holds a secret, which everybody could read who may read the job"),
            )
            .remedy(format!(
                "move it into a Secret, under the key `{name}`, and refer to that beside `options`: `optionsFrom: [{{secretRef: {{name: kafka-credentials}}}}]`"
            )),
        );
    }
}

/// A finding about an option that comes from a Secret or ConfigMap: without its value. Who found something says what, in `found`.
fn redacted(finding: Finding, format: Format, role: Role, path: &str) -> Finding {
    let name = finding.path.clone();
    let message = match (finding.found.as_ref(), format.rows(role).find(|row| row.is_named(&name)).map(|row| row.kind)) {
        (Some(_), kind) => {
            let must = kind.map_or_else(String::new, |kind: Kind| format!("; it must be {}", kind.in_words()));
            format!("the value of option '{name}' from optionsFrom is not allowed{must}")
        }
        _ => format!("from optionsFrom: {}", finding.message),
    };
    Finding {
        message,
        found: None,
        path: format!("{path}.optionsFrom"),
        severity: Severity::min(finding.severity, Severity::Warning),
        ..finding
    }
}
