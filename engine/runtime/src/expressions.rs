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

/// A value that an expression cannot take is in the rows each time they come, so that no attempt would end otherwise; what
/// is Weir's own, memory for one, may pass.
fn of_the_rows(error: Error) -> Error {
    if error.condition().starts_with("WEIR_") {
        return error;
    }
    let text = format!(
        "an expression of the sink's table cannot take a value of the rows: {}; mend such rows in the query's SQL",
        error.message()
    );
    Error::config(error.condition().to_owned(), text)
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
            let batches = self.lane.execute(0, rows).await.map_err(of_the_rows)?;
            let one = arrow::compute::concat_batches(&self.lane.schema(), &batches);
            let one =
                one.map_err(|e| Error::retryable("TASK_WRITE_FAILED", "the table's expressions could not be evaluated").with_source(e))?;
            Ok(one.columns().to_vec())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::StringArray;
    use arrow::datatypes::{DataType, Field, Schema};
    use weir_core::ErrorClass;

    #[tokio::test]
    async fn a_value_that_an_expression_cannot_take_is_no_reason_to_try_again() {
        let columns = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true)]));
        let plan = SqlExpressions(SqlConf::default()).plan(&columns, &["CAST(k AS INT) + 1".to_owned()]).unwrap();
        let mut evaluator = plan.evaluator().unwrap();
        let rows = |text: &str| RecordBatch::try_new(Arc::clone(&columns), vec![Arc::new(StringArray::from(vec![text]))]).unwrap();
        assert_eq!(evaluator.evaluate(rows("1")).await.unwrap()[0].len(), 1);
        let error = evaluator.evaluate(rows("x")).await.unwrap_err();
        assert_eq!((error.class(), error.condition()), (ErrorClass::Config, "CAST_INVALID_INPUT"));
        assert!(error.message().contains("mend such rows"), "{error}");
        assert_eq!(evaluator.evaluate(rows("2")).await.unwrap()[0].len(), 1);
        assert_eq!(of_the_rows(Error::retryable("WEIR_OUT_OF_MEMORY", "x")).class(), ErrorClass::Retryable);
    }
}
