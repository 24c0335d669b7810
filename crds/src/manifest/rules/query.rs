//! Rules of one query: its trigger, its names, its checkpoint, parameters in its SQL.

use std::collections::BTreeMap;

use super::Context;
use crate::checkpoint::checkpoint_location;
use crate::finding::Finding;
use crate::options::{Format, Role};
use crate::resource::QuerySpec;

pub(super) fn check(context: &Context<'_>, query: &QuerySpec, findings: &mut Vec<Finding>) {
    trigger(context, query, findings);
    names(context, query, findings);
    checkpoint(context, query, findings);
    let path = context.path;
    context.parameters_in(&format!("{path}.sql"), &query.sql, findings);
    for view in &query.views {
        context.parameters_in(&format!("{path}.views[{}].sql", view.name), &view.sql, findings);
    }
    for observe in &query.observe {
        for metric in &observe.metrics {
            let path = format!("{path}.observe[{}].metrics[{}].expr", observe.name, metric.name);
            context.parameters_in(&path, &metric.expr, findings);
        }
    }
}

fn trigger(context: &Context<'_>, query: &QuerySpec, findings: &mut Vec<Finding>) {
    let Some(trigger) = &query.trigger else { return };
    let path = format!("{}.trigger", context.path);
    let given = [
        ("processingTime", trigger.processing_time.is_some()),
        ("availableNow", trigger.available_now.is_some()),
        ("once", trigger.once.is_some()),
    ];
    let given: Vec<&str> = given.into_iter().filter_map(|(name, given)| given.then_some(name)).collect();
    if given.len() > 1 {
        findings.push(
            Finding::error(
                "at-most-one",
                &path,
                format!("gives {}; at most one of processingTime, availableNow, once is allowed", given.join(" and ")),
            )
            .remedy("keep one"),
        );
    }
    if let Some(interval) = &trigger.processing_time
        && let Err(error) = crate::duration::parse_processing_time(interval)
    {
        findings.push(Finding::error("interval", format!("{path}.processingTime"), error.to_string()).found(interval));
    }
}

fn names(context: &Context<'_>, query: &QuerySpec, findings: &mut Vec<Finding>) {
    let path = context.path;
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let inputs = query.sources.iter().map(|source| ("sources", &source.name));
    let tables = query.tables.iter().map(|table| ("tables", &table.name));
    let views = query.views.iter().map(|view| ("views", &view.name));
    for (list, name) in inputs.chain(tables).chain(views).filter(|(_, name)| !name.is_empty()) {
        let own = format!("{list}[{name}]");
        if let Some(other) = taken.insert(name.to_ascii_lowercase(), own.clone())
            && other != own
        {
            findings.push(
                Finding::error(
                    "duplicate-name",
                    format!("{path}.{own}.name"),
                    format!("`{name}` is also the name of {other}; names in SQL compare without regard to case"),
                )
                .remedy("choose another name"),
            );
        }
    }
    let known: Vec<&str> = query
        .sources
        .iter()
        .map(|source| source.name.as_str())
        .chain(query.tables.iter().map(|table| table.name.as_str()))
        .chain(query.views.iter().map(|view| view.name.as_str()))
        .collect();
    for observe in &query.observe {
        if !observe.view.is_empty() && !known.iter().any(|name| name.eq_ignore_ascii_case(&observe.view)) {
            findings.push(
                Finding::error(
                    "unknown-view",
                    format!("{path}.observe[{}].view", observe.name),
                    format!("`{}` is neither a source, nor a table, nor a view of this query", observe.view),
                )
                .found(&observe.view)
                .allowed(known.iter().copied())
                .nearest_of(&observe.view, known.iter().copied()),
            );
        }
    }
}

fn checkpoint(context: &Context<'_>, query: &QuerySpec, findings: &mut Vec<Finding>) {
    let path = format!("{}.checkpointLocation", context.path);
    if let Some(location) = &query.checkpoint_location
        && location.contains("${")
    {
        findings.push(
            Finding::error(
                "checkpoint-parameter",
                &path,
                "parameters are not replaced in a checkpoint location: it names one place for ever",
            )
            .found(location)
            .remedy("write the location out"),
        );
    }
    let task = context.path.split(['[', ']']).nth(1).unwrap_or_default();
    if checkpoint_location(context.job, task, query).is_some() {
        return;
    }
    let format = match (&query.sink.format, &query.sink.table) {
        (Some(name), _) => match Format::find(name, Role::Sink) {
            Ok(format) => format,
            Err(_) => return,
        },
        (None, Some(_)) => Format::Delta,
        (None, None) => return,
    };
    if !format.takes_temporary_checkpoint() {
        findings.push(
            Finding::error("missing-checkpoint", path, format!("a query into {} needs a checkpoint", format.as_str()))
                .remedy("add checkpointLocation to the query, or checkpointRoot to the spec"),
        );
    }
}
