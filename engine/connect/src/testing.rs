//! Contexts over a temporary folder for the unit tests of this crate.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::DFSchema;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use futures::future::BoxFuture;
use weir_core::checkpoint::{Fence, FencedLog};
use weir_core::storage::{Durability, Storage};
use weir_core::{Error, Result};

use crate::expressions::{Evaluator, Expressions, Planned};
use crate::open::{MalformedRecords, SinkContext, SinkRole, SourceContext, SourcePlace};

/// Opens a folder of the temporary checkpoint.
pub fn storage() -> Storage {
    Storage::new(Durability::PageCache)
}

/// A source context without settings.
pub fn source_context() -> SourceContext {
    SourceContext { storage: storage(), conf: std::collections::BTreeMap::new(), malformed: MalformedRecords::ByMode }
}

/// `sources/0` of a checkpoint.
pub fn source_place(checkpoint: &std::path::Path) -> SourcePlace {
    let root = storage().open(checkpoint.to_str().unwrap()).unwrap();
    let log = FencedLog::new(root.child("sources/0"), Fence::new(root.child("_weir/epochs"), 1));
    SourcePlace { log, query_id: uuid::Uuid::nil() }
}

/// The place of a sink of a query with the given id.
pub fn sink_context(checkpoint: &std::path::Path, query_id: uuid::Uuid) -> SinkContext {
    let root = storage().open(checkpoint.to_str().unwrap()).unwrap();
    SinkContext { query_id, fence: Fence::new(root.child("_weir/epochs"), 1), role: SinkRole::Rows }
}

/// SQL as DataFusion has it, for tables with expressions.
pub fn expressions() -> Arc<dyn Expressions> {
    Arc::new(PlainSql)
}

#[derive(Debug)]
struct PlainSql;

#[derive(Clone)]
struct PlainExpressions {
    columns: usize,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
}

impl Expressions for PlainSql {
    fn plan(&self, columns: &SchemaRef, expressions: &[String]) -> Result<Arc<dyn Planned>> {
        let session = SessionContext::new();
        let schema = DFSchema::try_from(columns.as_ref().clone()).unwrap();
        let planned = expressions.iter().map(|text| {
            let parsed = session.parse_sql_expr(text, &schema).and_then(|expr| session.create_physical_expr(expr, &schema));
            parsed.map_err(|e| Error::config("PARSE_SYNTAX_ERROR", e.to_string()))
        });
        Ok(Arc::new(PlainExpressions { columns: columns.fields().len(), expressions: planned.collect::<Result<_>>()? }))
    }
}

impl Planned for PlainExpressions {
    fn columns(&self) -> Vec<usize> {
        (0..self.columns).collect()
    }

    fn evaluator(&self) -> Result<Box<dyn Evaluator>> {
        Ok(Box::new(self.clone()))
    }
}

impl Evaluator for PlainExpressions {
    fn evaluate(&mut self, rows: RecordBatch) -> BoxFuture<'_, Result<Vec<ArrayRef>>> {
        let value = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&rows).and_then(|value| value.into_array(rows.num_rows())).unwrap();
        let values = self.expressions.iter().map(value).collect();
        async move { Ok(values) }.boxed()
    }
}
