//! Rules of the sink: table or path, output mode, partitions, options; and of the place for bad records.

use super::Context;
use super::inputs::{table_name, volumes};
use crate::finding::Finding;
use crate::options::{Format, Role};
use crate::resource::{BadRecordsSpec, OutputMode, QuerySpec, SinkSpec};

pub(super) fn check(context: &Context<'_>, query: &QuerySpec, findings: &mut Vec<Finding>) {
    bad_records(context, query, findings);
    let sink = &query.sink;
    let path = format!("{}.sink", context.path);
    let Some(format) = format_of(context, &path, sink, findings) else { return };
    output_mode(context, query, format, findings);
    partitions(&path, sink, format, findings);
    upserts(&path, sink, format, findings);
    options(context, &path, sink, format, findings);
}

/// The options of a sink; a table's name stands for its path.
fn options(context: &Context<'_>, path: &str, sink: &SinkSpec, format: Format, findings: &mut Vec<Finding>) {
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
    volumes(context.job, path, &sink.options, findings);
    context.options(path, format, Role::Sink, &options, &sink.options_from, findings);
}

/// A place that takes each batch once, and columns of several types.
fn bad_records(context: &Context<'_>, query: &QuerySpec, findings: &mut Vec<Finding>) {
    let Some(bad_records) = query.bad_records.as_ref().map(BadRecordsSpec::to_sink) else { return };
    let path = format!("{}.badRecords", context.path);
    let Some(format) = format_of(context, &path, &bad_records, findings) else { return };
    if !BAD_RECORDS.contains(&format) {
        findings.push(
            Finding::error(
                "bad-records",
                format!("{path}.format"),
                format!(
                    "{} cannot take bad records: a place for them keeps columns of several types and takes each batch once",
                    format.as_str()
                ),
            )
            .found(bad_records.format.as_deref().unwrap_or_default())
            .allowed(BAD_RECORDS.iter().map(|format| format.as_str())),
        );
        return;
    }
    options(context, &path, &bad_records, format, findings);
}

/// The formats of places for bad records.
const BAD_RECORDS: [Format; 4] = [Format::Delta, Format::Json, Format::Csv, Format::Parquet];

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
    let merges = !query.sink.upsert_keys.is_empty();
    let allowed: &[OutputMode] = match format {
        format if format.is_files() => &[OutputMode::Append],
        Format::Delta if merges => &[OutputMode::Append, OutputMode::Update],
        Format::Delta => &[OutputMode::Append, OutputMode::Complete],
        _ => &[OutputMode::Append, OutputMode::Update, OutputMode::Complete],
    };
    let remedy = match (format, mode) {
        (Format::Delta, OutputMode::Update) => "name the columns that identify a row in sink.upsertKeys: rows are merged by them",
        (Format::Delta, OutputMode::Complete) => "remove sink.upsertKeys: a complete result replaces the table",
        _ => "",
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
            .allowed(allowed.iter().map(|mode| mode.as_str()))
            .remedy(remedy),
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

fn upserts(path: &str, sink: &SinkSpec, format: Format, findings: &mut Vec<Finding>) {
    let (keys, order) = (format!("{path}.upsertKeys"), format!("{path}.upsertOrderBy"));
    if sink.upsert_keys.is_empty() {
        if sink.upsert_order_by.is_some() {
            findings.push(Finding::error("upsert", order, "has no meaning without upsertKeys").remedy("add upsertKeys, or remove it"));
        }
        return;
    }
    if format != Format::Delta {
        findings.push(
            Finding::error("upsert", keys, format!("{} cannot merge rows by key", format.as_str()))
                .remedy("write to delta, or remove upsertKeys"),
        );
        return;
    }
    for (index, column) in sink.upsert_keys.iter().enumerate() {
        if sink.upsert_keys[..index].iter().any(|other| other.eq_ignore_ascii_case(column)) {
            findings.push(Finding::error("duplicate-name", format!("{keys}[{index}]"), format!("column `{column}` is given twice")));
        }
    }
    if let Some(column) = sink.upsert_order_by.as_ref().filter(|order| sink.upsert_keys.iter().any(|key| key.eq_ignore_ascii_case(order))) {
        findings.push(
            Finding::error("upsert", order, format!("column `{column}` is a key, so all rows of a key have the same value in it"))
                .remedy("name a column that grows from one version of a row to the next, such as a time or a sequence number"),
        );
    }
}
