//! From a map of strings to typed options, with everything that is wrong with it.
//!
//! All problems are collected, none stops the reading. Names compare without regard to case.
//! Values that may be secret never appear in a message.

use std::collections::BTreeMap;

use super::formats::{FORMATS, Format};
use super::parsed::ParsedOptions;
use super::row::{Effect, OptionRow, Role};
use super::{kafka_client, rules};
use crate::finding::{Finding, Severity};

/// Whether all options are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Nothing is added later.
    Complete,
    /// `optionsFrom` may add what is missing.
    MayGrow,
}

/// What a map of options means, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// What could be read; meaningful where there is no error.
    pub options: ParsedOptions,
    /// Everything that is wrong, errors and warnings.
    pub findings: Vec<Finding>,
}

impl Parsed {
    /// The options if nothing is refused, otherwise the errors.
    pub fn into_result(self) -> Result<ParsedOptions, Vec<Finding>> {
        let errors: Vec<Finding> = self.findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
        if errors.is_empty() { Ok(self.options) } else { Err(errors) }
    }

    /// The warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Warning)
    }
}

/// Reads the options of a stream.
pub fn parse_source(format: Format, options: &BTreeMap<String, String>, completeness: Completeness) -> Parsed {
    parse(format, Role::Source, options, completeness)
}

/// Reads the options of a static table.
pub fn parse_table(format: Format, options: &BTreeMap<String, String>, completeness: Completeness) -> Parsed {
    parse(format, Role::Table, options, completeness)
}

/// Reads the options of a sink.
pub fn parse_sink(format: Format, options: &BTreeMap<String, String>, completeness: Completeness) -> Parsed {
    parse(format, Role::Sink, options, completeness)
}

/// Reads the options of a role.
pub fn parse(format: Format, role: Role, options: &BTreeMap<String, String>, completeness: Completeness) -> Parsed {
    let mut parsed = ParsedOptions::new(format, role);
    let mut findings = Vec::new();
    let mut written: BTreeMap<&'static str, &str> = BTreeMap::new();
    let mut client = BTreeMap::new();
    for (name, text) in options {
        let row = format.rows(role).find(|row| row.is_named(name));
        match row {
            Some(row) => {
                if let Some(other) = written.insert(row.name, name) {
                    findings.push(
                        Finding::error(
                            "duplicate-option",
                            name,
                            format!("`{name}` and `{other}` are the same option; names are compared without regard to case"),
                        )
                        .remedy("keep one of them"),
                    );
                    continue;
                }
                read_value(row, name, text, &mut parsed, &mut findings);
            }
            None if format == Format::Kafka && is_client_setting(name) => {
                client.insert(name.clone(), text.clone());
            }
            None => findings.push(unknown(format, role, name)),
        }
    }
    if format == Format::Kafka {
        kafka_client::translate(role, &client, completeness, &mut parsed, &mut findings);
    }
    if completeness == Completeness::Complete {
        for row in format.rows(role).filter(|row| row.required && !written.contains_key(row.name)) {
            findings.push(missing(format, role, row));
        }
    }
    rules::check(&mut parsed, completeness, &mut findings);
    Parsed { options: parsed, findings }
}

fn is_client_setting(name: &str) -> bool {
    name.get(..kafka_client::PREFIX.len()).is_some_and(|prefix| prefix.eq_ignore_ascii_case(kafka_client::PREFIX))
}

fn read_value(row: &'static OptionRow, name: &str, text: &str, parsed: &mut ParsedOptions, findings: &mut Vec<Finding>) {
    match row.effect {
        Effect::Refused(why) => {
            findings.push(Finding::error("refused-option", name, format!("option '{name}' {why}")));
            return;
        }
        Effect::Ignored(why) => {
            findings.push(Finding::warning("ignored-option", name, format!("option '{name}' has no effect: {why}")));
        }
        Effect::Obeyed => {}
    }
    match row.kind.parse(text) {
        Ok(value) => {
            parsed.values.insert(row.name, value);
            parsed.texts.insert(row.name, text.to_owned());
        }
        Err(reason) => {
            let shown = if row.secret { "…" } else { text };
            let message = match row.bad_value {
                // Spark's words for it do not say that there is a greatest value.
                Some(template) => {
                    let most = row.kind.exceeded(text).map_or_else(String::new, |most| format!(", and at most {most}"));
                    template.replace("{}", shown) + &most
                }
                None => format!("Invalid value '{shown}' for option '{}', {reason}", row.name),
            };
            let finding = Finding::error("option-value", name, message).allowed(row.kind.allowed());
            let finding = if row.secret { finding } else { finding.found(text) };
            let words = row.kind.allowed();
            findings.push(finding.nearest_of(text, words.iter().map(String::as_str)));
        }
    }
}

fn missing(format: Format, role: Role, row: &OptionRow) -> Finding {
    // Spark reads a missing rowsPerBatch as 0 and refuses that.
    let message = match (format, row.bad_value) {
        (Format::RateMicroBatch, Some(template)) => template.replace("{}", "0"),
        _ => format!("option '{}' is required by the {} {}", row.name, format.as_str(), role.as_str()),
    };
    Finding::error("missing-option", row.name, message).remedy(format!("add `{}`: {}", row.name, row.doc.trim_end_matches('.')))
}

fn unknown(format: Format, role: Role, name: &str) -> Finding {
    let here: Vec<&'static OptionRow> = format.rows(role).filter(|row| !matches!(row.effect, Effect::Refused(_))).collect();
    for other in [Role::Source, Role::Table, Role::Sink] {
        if other != role && format.can_be(other) && format.rows(other).any(|row| row.is_named(name)) {
            return Finding::error(
                "misplaced-option",
                name,
                format!("`{name}` is an option of a {} {}, not of a {}", format.as_str(), other.as_str(), role.as_str()),
            )
            .remedy("remove it here");
        }
    }
    let elsewhere = FORMATS
        .iter()
        .find(|other| other.can_be(role) && other.rows(role).any(|row| row.name.eq_ignore_ascii_case(name)))
        .map(|other| if other.is_files() { "file formats" } else { other.as_str() });
    let message = match elsewhere {
        Some(other) => format!("`{name}` is an option of {other}, not of {}", format.as_str()),
        None => format!("`{name}` is not an option of the {} {}", format.as_str(), role.as_str()),
    };
    if elsewhere.is_some() {
        return Finding::error("misplaced-option", name, message).remedy("remove it here");
    }
    Finding::error("unknown-option", name, message)
        .allowed(here.iter().map(|row| row.name))
        .nearest_of(name, here.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name])))
}
