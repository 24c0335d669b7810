//! One query over tables that are all there: `weir sql`.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::physical_plan::collect;
use weir_core::Result;

use crate::analyzer::{Analyzer, Table};
use crate::compile::{QueryText, catalog, finished, named};
use crate::conf::SqlConf;
use crate::error::{from_datafusion, from_planning};
use crate::exec::{BatchTime, base_state};
use crate::parser::parse_query;

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
