//! One query over tables that are all there: `weir sql`.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::physical_plan::collect;
use datafusion::sql::sqlparser::ast::visit_relations;
use weir_core::Result;

use crate::analyzer::{Analyzer, Table, names};
use crate::compile::{QueryText, catalog, finished, named};
use crate::conf::SqlConf;
use crate::error::{from_datafusion, from_planning};
use crate::exec::{BatchTime, base_state};
use crate::parser::parse_query;

/// The tables that the SQL of a query names with a schema, or a catalog and a schema, each once and as it is written, without
/// quotes. Neither a view nor a column has such a name.
pub fn tables_by_name(text: &QueryText) -> Result<Vec<Vec<String>>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for sql in text.views.iter().map(|(_, sql)| sql).chain([&text.sql]) {
        let _ = visit_relations(&parse_query(sql)?, |name| {
            let parts = names::parts(name);
            let is_known =
                |known: &Vec<String>| known.len() == parts.len() && known.iter().zip(&parts).all(|(a, b)| a.eq_ignore_ascii_case(b));
            if parts.len() > 1 && !found.iter().any(is_known) {
                found.push(parts);
            }
            ControlFlow::<()>::Continue(())
        });
    }
    Ok(found)
}

/// The tables that a query names by their place, as in ``delta.`/data/x` ``: format and place, each once.
/// The query finds such a table under both, with a dot between.
pub fn tables_by_path(sql: &str, is_format: impl Fn(&str) -> bool) -> Result<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    let _ = visit_relations(&parse_query(sql)?, |name| {
        if let [format, path] = names::parts(name).as_slice()
            && is_format(format)
            && !found.iter().any(|(f, p)| f == format && p == path)
        {
            found.push((format.clone(), path.clone()));
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(found)
}

/// Runs a query by the machine's clock.
pub async fn run_batch_sql(
    conf: &SqlConf,
    tables: Vec<(String, Arc<dyn TableProvider>)>,
    sql: &str,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    run_batch_sql_at(conf, tables, sql, chrono::Utc::now().timestamp_micros()).await
}

/// Runs a query whose `current_timestamp()` is the given instant.
pub async fn run_batch_sql_at(
    conf: &SqlConf,
    tables: Vec<(String, Arc<dyn TableProvider>)>,
    sql: &str,
    now_micros: i64,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    conf.zone()?;
    let tables = tables.into_iter().map(|(name, provider)| Table { name, provider, stream: None }).collect();
    let catalog = catalog(tables, &QueryText::default())?;
    let query = parse_query(sql)?;
    let analyzer = Analyzer::new(conf, &catalog, BatchTime::at(now_micros));
    let (plan, schema) = finished(analyzer.query(&query)?)?;
    let state = base_state(conf, None);
    let plan = state.optimize(&plan).map_err(from_planning)?;
    let physical = state.query_planner().create_physical_plan(&plan, &state).await.map_err(from_datafusion)?;
    let batches = collect(physical, state.task_ctx()).await.map_err(from_datafusion)?;
    let batches = batches.into_iter().map(|b| named(b, &schema).map_err(from_datafusion)).collect::<Result<Vec<_>>>()?;
    Ok((schema, batches))
}
