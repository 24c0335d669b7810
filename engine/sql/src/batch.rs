//! One query over tables that are all there: `weir sql`.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use datafusion::sql::sqlparser::ast::{SetExpr, TableFactor, TableWithJoins, visit_relations};
use weir_core::Result;

use crate::analyzer::{Analyzer, Table, names, unsupported};
use crate::compile::{QueryText, catalog, finished, named};
use crate::conf::SqlConf;
use crate::error::{from_datafusion, from_planning};
use crate::exec::folding::while_planning;
use crate::exec::{BatchTime, base_state, shielded};
use crate::parser::parse_query;
use crate::types::spark_field_type_name;

/// The tables that the SQL of a query names with a schema, or a catalog and a schema, each once and as it is written, without
/// quotes. Neither a view nor a column has such a name, and what `tables_by_path` has is none.
pub fn tables_by_name(text: &QueryText, is_format: impl Fn(&str) -> bool) -> Result<Vec<Vec<String>>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for sql in text.views.iter().map(|(_, sql)| sql).chain([&text.sql]) {
        let _ = visit_relations(&parse_query(sql)?, |name| {
            let parts = names::parts(name);
            let is_known =
                |known: &Vec<String>| known.len() == parts.len() && known.iter().zip(&parts).all(|(a, b)| a.eq_ignore_ascii_case(b));
            let is_path = parts.len() == 2 && is_format(&parts[0]);
            if parts.len() > 1 && !is_path && !found.iter().any(is_known) {
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

/// What `weir sql` is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// The rows of a query.
    Query(String),
    /// `DESCRIBE [TABLE] t`, `DESCRIBE [QUERY] query`: the columns of what this query reads.
    Describe(String),
    /// `SHOW COLUMNS IN t`: their names alone.
    ShowColumns(String),
}

impl Statement {
    /// Tells statements apart by their first words; the rest is read where it is run.
    pub fn of(sql: &str) -> Result<Self> {
        let (first, rest) = word(sql);
        match first.as_str() {
            "DESCRIBE" | "DESC" => {
                let (second, after) = word(rest);
                match second.as_str() {
                    "SELECT" | "WITH" | "VALUES" | "FROM" => Ok(Self::Describe(rest.to_owned())),
                    "QUERY" => Ok(Self::Describe(after.to_owned())),
                    "TABLE" => Ok(Self::Describe(whole(after)?)),
                    _ => Ok(Self::Describe(whole(rest)?)),
                }
            }
            "SHOW" => match word(rest) {
                (columns, rest) if columns == "COLUMNS" => match word(rest) {
                    (from, table) if from == "IN" || from == "FROM" => Ok(Self::ShowColumns(whole(table)?)),
                    _ => Err(unsupported("SHOW COLUMNS", "write SHOW COLUMNS IN and a table")),
                },
                _ => Err(unsupported("SHOW", "only SHOW COLUMNS IN a table is known; tables are those of --table")),
            },
            _ => Ok(Self::Query(sql.to_owned())),
        }
    }

    /// The query that it runs or describes.
    pub fn query(&self) -> &str {
        match self {
            Self::Query(sql) | Self::Describe(sql) | Self::ShowColumns(sql) => sql,
        }
    }
}

/// The first word in upper case, and what follows it.
fn word(sql: &str) -> (String, &str) {
    let sql = sql.trim_start();
    let end = sql.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(sql.len());
    (sql[..end].to_ascii_uppercase(), sql[end..].trim_start())
}

/// The query that reads all columns of one table.
fn whole(table: &str) -> Result<String> {
    let sql = format!("SELECT * FROM {table}");
    let refused =
        || unsupported(&format!("`{}` after DESCRIBE or SHOW COLUMNS", table.trim()), "write the name of one table, and nothing after it");
    let query = parse_query(&sql).map_err(|_| refused())?;
    match query.body.as_ref() {
        SetExpr::Select(select) if query.order_by.is_none() && query.limit_clause.is_none() && select.selection.is_none() => {
            match select.from.as_slice() {
                [TableWithJoins { relation: TableFactor::Table { alias: None, args: None, .. }, joins }] if joins.is_empty() => Ok(sql),
                _ => Err(refused()),
            }
        }
        _ => Err(refused()),
    }
}

/// Runs a statement by the machine's clock.
pub async fn run_statement(
    conf: &SqlConf,
    tables: Vec<(String, Arc<dyn TableProvider>)>,
    statement: &Statement,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let Statement::Query(sql) = statement else {
        let now = chrono::Utc::now().timestamp_micros();
        let (_, schema) = planned_at(conf, tables, statement.query(), now).map_err(|mut error| {
            // It is of a text that nobody wrote.
            error.take_place();
            error
        })?;
        return columns_of(&schema, matches!(statement, Statement::Describe(_)));
    };
    run_batch_sql(conf, tables, sql).await
}

/// The columns of a schema as rows, as Spark's DESCRIBE and SHOW COLUMNS give them.
fn columns_of(schema: &Schema, with_types: bool) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let names: ArrayRef = Arc::new(schema.fields().iter().map(|field| Some(field.name())).collect::<StringArray>());
    let types: ArrayRef = Arc::new(schema.fields().iter().map(|field| Some(spark_field_type_name(field))).collect::<StringArray>());
    let comments: ArrayRef = new_null_array(&DataType::Utf8, names.len());
    let (fields, columns) = match with_types {
        true => (vec![text("col_name"), text("data_type"), text("comment")], vec![names, types, comments]),
        false => (vec![text("col_name")], vec![names]),
    };
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(|e| from_planning(e.into()))?;
    Ok((schema, vec![batch]))
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
    let (plan, schema) = planned_at(conf, tables, sql, now_micros)?;
    let state = base_state(conf, None);
    let plan = shielded(plan).and_then(|plan| while_planning(|| state.optimize(&plan))).map_err(from_planning)?;
    let physical = state.query_planner().create_physical_plan(&plan, &state).await.map_err(from_datafusion)?;
    let batches = collect(physical, state.task_ctx()).await.map_err(from_datafusion)?;
    let batches = batches.into_iter().map(|b| named(b, &schema).map_err(from_datafusion)).collect::<Result<Vec<_>>>()?;
    Ok((schema, batches))
}

/// The plan of a query, and its columns.
fn planned_at(
    conf: &SqlConf,
    tables: Vec<(String, Arc<dyn TableProvider>)>,
    sql: &str,
    now_micros: i64,
) -> Result<(LogicalPlan, SchemaRef)> {
    conf.zone()?;
    let tables = tables.into_iter().map(|(name, provider)| Table { name, provider, stream: None }).collect();
    let catalog = catalog(tables, &QueryText::default())?;
    let query = parse_query(sql)?;
    let analyzer = Analyzer::new(conf, &catalog, BatchTime::at(now_micros));
    finished(analyzer.query(&query)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn statements_are_told_apart_by_their_first_words() {
        for sql in ["DESCRIBE t", "desc table t", "DESCRIBE QUERY SELECT * FROM t", " describe SELECT * FROM t", "SHOW COLUMNS IN t"] {
            assert_eq!(Statement::of(sql).unwrap().query(), "SELECT * FROM t", "{sql}");
        }
        assert_eq!(Statement::of("DESCRIBE delta.`/data/x y`").unwrap().query(), "SELECT * FROM delta.`/data/x y`");
        assert_eq!(Statement::of("SELECT 1").unwrap(), Statement::Query("SELECT 1".to_owned()));
        assert!(matches!(Statement::of("show columns from t").unwrap(), Statement::ShowColumns(_)));
        for sql in [
            "DESCRIBE",
            "DESCRIBE EXTENDED t",
            "DESCRIBE t a",
            "DESCRIBE t; DROP TABLE t",
            "SHOW TABLES",
            "SHOW COLUMNS t",
            "SHOW COLUMNS IN t IN d",
        ] {
            assert_eq!(Statement::of(sql).unwrap_err().condition(), "WEIR_UNSUPPORTED_SQL", "{sql}");
        }
    }
}
