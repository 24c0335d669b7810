//! Rules of sources and static tables: what they read, their schema, watermark and options.

use std::collections::BTreeMap;

use super::Context;
use crate::catalog;
use crate::duration::parse_delay;
use crate::finding::Finding;
use crate::options::{Format, Role};
use crate::resource::{QuerySpec, SourceSpec, StreamingJob};

pub(super) fn check(context: &Context<'_>, query: &QuerySpec, findings: &mut Vec<Finding>) {
    for source in &query.sources {
        let path = format!("{}.sources[{}]", context.path, source.name);
        input(context, &path, source, Role::Source, findings);
    }
    for table in &query.tables {
        let path = format!("{}.tables[{}]", context.path, table.name);
        input(context, &path, table, Role::Table, findings);
    }
}

fn input(context: &Context<'_>, path: &str, source: &SourceSpec, role: Role, findings: &mut Vec<Finding>) {
    if let Some(watermark) = &source.watermark {
        if role == Role::Table {
            findings.push(
                Finding::error(
                    "watermark",
                    format!("{path}.watermark"),
                    "a static table has no watermark: it is read whole for each batch",
                )
                .remedy("remove it here, and put it on the stream"),
            );
        } else if let Err(error) = parse_delay(&watermark.delay) {
            findings.push(Finding::error("interval", format!("{path}.watermark.delay"), error.to_string()).found(&watermark.delay));
        }
    }
    let format = match (&source.format, &source.table) {
        (Some(_), Some(_)) | (None, None) => {
            findings.push(
                Finding::error("exactly-one", path, "give exactly one of format, table")
                    .remedy("write format for files, Kafka and generated rows, table for a Delta table by name"),
            );
            return;
        }
        (None, Some(table)) => {
            findings.extend(table_name(context.job, &format!("{path}.table"), table));
            if source.options.keys().any(|name| name.eq_ignore_ascii_case("path")) {
                findings.push(Finding::error("exactly-one", format!("{path}.options.path"), "give table or options.path, not both"));
                return;
            }
            Format::Delta
        }
        (Some(name), None) => match context.format(path, name, role, &source.options, &source.options_from, findings) {
            Some(format) => format,
            None => return,
        },
    };
    schema(context, path, source, format, role, findings);
    let mut options = source.options.clone();
    if source.table.is_some() {
        // The name stands for the path.
        options.insert("path".to_owned(), "/".to_owned());
    }
    volumes(context.job, path, &source.options, findings);
    context.options(path, format, role, &options, &source.options_from, findings);
}

fn schema(context: &Context<'_>, path: &str, source: &SourceSpec, format: Format, role: Role, findings: &mut Vec<Finding>) {
    let own = format!("{path}.schema");
    match (&source.schema, format) {
        (Some(_), Format::Kafka | Format::Rate | Format::RateMicroBatch) => findings.push(
            Finding::error("fixed-schema", own, format!("{} has a fixed schema, a user-specified one is not allowed", format.as_str()))
                .remedy("remove it, and cast the columns in the SQL"),
        ),
        (Some(_), Format::Delta) => findings.push(
            Finding::error("fixed-schema", own, "a Delta table carries its schema").remedy("remove it, and cast the columns in the SQL"),
        ),
        (None, Format::Json | Format::Csv | Format::Parquet) if role == Role::Source => {
            let inferred = context.job.spec.conf.get("spark.sql.streaming.schemaInference");
            if !inferred.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
                findings.push(
                    Finding::error("missing-schema", own, format!("Schema must be specified when creating a streaming source of {} files", format.as_str()))
                        .remedy("add `schema` as DDL, for example `device_id STRING, temperature DOUBLE`, or set spark.sql.streaming.schemaInference: \"true\" in conf"),
                );
            }
        }
        _ => {}
    }
}

/// Whether a table's name can be found in the catalogs.
pub(super) fn table_name(job: &StreamingJob, path: &str, table: &str) -> Option<Finding> {
    let Some(parts) = catalog::table_parts(table) else {
        return Some(
            Finding::error("table-name", path, format!("`{table}` is not the name of a table"))
                .found(table)
                .remedy("write catalog.schema.name, schema.name or name; for a folder use format: delta with options.path"),
        );
    };
    let names = || job.spec.catalogs.iter().map(|catalog| catalog.name.as_str());
    if job.spec.catalogs.is_empty() {
        return Some(
            Finding::error("unknown-catalog", path, "tables by name need a catalog, and spec.catalogs is empty")
                .remedy("add for example `catalogs: [{name: main, warehouse: s3://lake/warehouse}]`, or use options.path"),
        );
    }
    if parts.len() == 3 && !names().any(|name| name.eq_ignore_ascii_case(parts[0])) {
        return Some(
            Finding::error("unknown-catalog", path, format!("`{}` is not one of spec.catalogs", parts[0]))
                .found(table)
                .allowed(names())
                .nearest_of(parts[0], names()),
        );
    }
    None
}

/// `/Volumes/<catalog>/…` needs a catalog with volumes.
pub(super) fn volumes(job: &StreamingJob, path: &str, options: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    for (name, value) in options {
        let Some(rest) = value.strip_prefix("/Volumes/") else { continue };
        let catalog = rest.split('/').next().unwrap_or_default();
        if catalog.contains("${") {
            continue;
        }
        let own = crate::manifest::locate::child(&format!("{path}.options"), name);
        match job.spec.catalogs.iter().find(|known| known.name.eq_ignore_ascii_case(catalog)) {
            Some(known) if known.volumes.is_some() => {}
            Some(_) => findings.push(
                Finding::error("unknown-catalog", own, format!("catalog `{catalog}` has no volumes"))
                    .remedy(format!("add `volumes` to spec.catalogs[{catalog}]")),
            ),
            None => {
                let names = || job.spec.catalogs.iter().map(|catalog| catalog.name.as_str());
                findings.push(
                    Finding::error(
                        "unknown-catalog",
                        own,
                        format!("`{catalog}` is not one of spec.catalogs, so /Volumes/{catalog} is nowhere"),
                    )
                    .allowed(names())
                    .nearest_of(catalog, names())
                    .remedy("add it to spec.catalogs with `volumes`"),
                );
            }
        }
    }
}
