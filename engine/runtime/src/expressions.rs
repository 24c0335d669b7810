//! The SQL of a sink's table, evaluated as the query's own SQL is.
//!
//! Constraints and generated columns mean what they mean to Spark under the settings of the query: ANSI mode, time zone,
//! case of names.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use futures::FutureExt;
use futures::future::BoxFuture;
use weir_connect::expressions::{Evaluator, Expressions, Planned};
use weir_core::{Error, Result};
use weir_sql::{CompiledQuery, Lane, SqlConf, compile_expressions};

/// Evaluates expressions under the settings of a query.
#[derive(Debug)]
pub struct SqlExpressions(SqlConf);

impl SqlExpressions {
    /// For a sink of a query with these settings.
    pub fn shared(conf: &SqlConf) -> Arc<dyn Expressions> {
        Arc::new(Self(conf.clone()))
    }
}

impl Expressions for SqlExpressions {
    fn plan(&self, columns: &SchemaRef, expressions: &[String]) -> Result<Arc<dyn Planned>> {
        let mut compiled = compile_expressions(&self.0, columns, expressions);
        if let Err(error) = &mut compiled {
            // It is a place in the table's text, not in the manifest.
            error.take_place();
        }
        Ok(Arc::new(PlannedExpressions(compiled?)))
    }
}

struct PlannedExpressions(CompiledQuery);

impl Planned for PlannedExpressions {
    fn columns(&self) -> Vec<usize> {
        self.0.required_columns(0)
    }

    fn evaluator(&self) -> Result<Box<dyn Evaluator>> {
        Ok(Box::new(LaneEvaluator { lane: self.0.lane()?, begun: false }))
    }
}

struct LaneEvaluator {
    lane: Lane,
    begun: bool,
}

impl Evaluator for LaneEvaluator {
    fn evaluate(&mut self, rows: RecordBatch) -> BoxFuture<'_, Result<Vec<ArrayRef>>> {
        async move {
            if !self.begun {
                self.lane.begin_batch(chrono::Utc::now().timestamp_millis()).await?;
                self.begun = true;
            }
            let batches = self.lane.execute(0, rows).await?;
            let one = arrow::compute::concat_batches(&self.lane.schema(), &batches);
            let one =
                one.map_err(|e| Error::retryable("TASK_WRITE_FAILED", "the table's expressions could not be evaluated").with_source(e))?;
            Ok(one.columns().to_vec())
        }
        .boxed()
    }
}
