//! Rules of the sink: table or path, output mode, partitions, options.

use super::Context;
use super::inputs::{table_name, volumes};
use crate::finding::Finding;
use crate::options::{Format, Role};
use crate::resource::{OutputMode, QuerySpec, SinkSpec};

pub(super) fn check(context: &Context<'_>, query: &QuerySpec, findings: &mut Vec<Finding>) {
    let sink = &query.sink;
    let path = format!("{}.sink", context.path);
    let Some(format) = format_of(context, &path, sink, findings) else { return };
    output_mode(context, query, format, findings);
    partitions(&path, sink, format, findings);
    upserts(&path, sink, findings);
    let mut options = sink.options.clone();
    if sink.table.is_some() {
        if options.keys().any(|name| name.eq_ignore_ascii_case("path")) {
            findings.push(
                Finding::error("exactly-one", format!("{path}.options.path"), "give table or options.path, not both")
                    .remedy("keep one of them"),
            );
        }
        options.entry("path".to_owned()).or_insert_with(|| "/".to_owned());
    }
    volumes(context.job, &path, &sink.options, findings);
    context.options(&path, format, Role::Sink, &options, &sink.options_from, findings);
}

fn format_of(context: &Context<'_>, path: &str, sink: &SinkSpec, findings: &mut Vec<Finding>) -> Option<Format> {
    if let Some(table) = &sink.table {
        findings.extend(table_name(context.job, &format!("{path}.table"), table));
        match &sink.format {
            Some(format) if !format.eq_ignore_ascii_case("delta") => findings.push(
                Finding::error("table-format", format!("{path}.format"), "a table by name is written as delta")
                    .found(format)
                    .remedy("remove format"),
            ),
            _ => {}
        }
        return Some(Format::Delta);
    }
    let Some(name) = &sink.format else {
        findings.push(Finding::error("exactly-one", path, "give format, or table for a Delta table by name"));
        return None;
    };
    context.format(path, name, Role::Sink, &sink.options, &sink.options_from, findings)
}

/// What the format alone decides; what the query's operators decide is known after its SQL is planned.
fn output_mode(context: &Context<'_>, query: &QuerySpec, format: Format, findings: &mut Vec<Finding>) {
    let mode = query.output_mode;
    let allowed: &[OutputMode] = match format {
        format if format.is_files() => &[OutputMode::Append],
        Format::Delta => &[OutputMode::Append, OutputMode::Complete],
        _ => &[OutputMode::Append, OutputMode::Update, OutputMode::Complete],
    };
    if !allowed.contains(&mode) {
        findings.push(
            Finding::error(
                "output-mode",
                format!("{}.outputMode", context.path),
                format!(
                    "[STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE] Invalid streaming output mode: {}. This output mode is not supported in Data Source {}",
                    mode.as_str().to_ascii_lowercase(),
                    format.as_str()
                ),
            )
            .found(mode.as_str())
            .allowed(allowed.iter().map(|mode| mode.as_str())),
        );
    }
}

fn partitions(path: &str, sink: &SinkSpec, format: Format, findings: &mut Vec<Finding>) {
    if sink.partition_by.is_empty() {
        return;
    }
    let own = format!("{path}.partitionBy");
    if !format.is_files() && format != Format::Delta {
        findings.push(
            Finding::error("partition-by", own, format!("{} has no partitions by column", format.as_str())).remedy("remove partitionBy"),
        );
        return;
    }
    for (index, column) in sink.partition_by.iter().enumerate() {
        if sink.partition_by[..index].iter().any(|other| other.eq_ignore_ascii_case(column)) {
            findings.push(Finding::error("duplicate-name", format!("{own}[{index}]"), format!("column `{column}` is given twice")));
        }
    }
}

fn upserts(path: &str, sink: &SinkSpec, findings: &mut Vec<Finding>) {
    if !sink.upsert_keys.is_empty() {
        findings.push(
            Finding::error("not-available", format!("{path}.upsertKeys"), "merging by key is not available in this version")
                .remedy("remove upsertKeys: rows are appended"),
        );
    } else if sink.upsert_order_by.is_some() {
        findings.push(
            Finding::error("not-available", format!("{path}.upsertOrderBy"), "has no meaning without upsertKeys").remedy("remove it"),
        );
    }
}
