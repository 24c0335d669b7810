//! The table function `range`: numbers that are made as they are read.
//!
//! Source: Spark's `org.apache.spark.sql.catalyst.plans.logical.Range`. However many numbers there are, a slice of them is in memory.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;

/// The column `id` from `start` to before `end`; `step` is not 0.
pub fn table(start: i64, end: i64, step: i64) -> Result<StreamingTable> {
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let numbers = Numbers { start, end, step, schema: Arc::clone(&schema) };
    StreamingTable::try_new(schema, vec![Arc::new(numbers)])
}

#[derive(Debug)]
struct Numbers {
    start: i64,
    end: i64,
    step: i64,
    schema: SchemaRef,
}

impl PartitionStream for Numbers {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (end, step, schema) = (self.end, self.step, Arc::clone(&self.schema));
        let size = context.session_config().batch_size();
        let mut next = Some(self.start);
        let batches = std::iter::from_fn(move || {
            let mut values = Vec::new();
            while let Some(value) = next.filter(|value| values.len() < size && if step > 0 { *value < end } else { *value > end }) {
                values.push(value);
                next = value.checked_add(step);
            }
            (!values.is_empty()).then(|| Ok(RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(values))])?))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::iter(batches)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use futures::StreamExt;

    use super::*;

    async fn first(start: i64, end: i64, step: i64, count: usize) -> Vec<i64> {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let mut batches = Numbers { start, end, step, schema }.execute(Arc::new(TaskContext::default()));
        let mut found = Vec::new();
        while found.len() < count
            && let Some(batch) = batches.next().await
        {
            found.extend_from_slice(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
        }
        found.truncate(count);
        found
    }

    #[tokio::test]
    async fn numbers_are_made_as_they_are_read_and_end_where_no_further_one_fits() {
        assert_eq!(first(0, i64::MAX, 1, 3).await, [0, 1, 2]);
        assert_eq!(first(5, -2, -3, 9).await, [5, 2, -1]);
        assert_eq!(first(i64::MAX - 3, i64::MAX, 2, 9).await, [i64::MAX - 3, i64::MAX - 1]);
        assert!(first(0, 0, 1, 9).await.is_empty() && first(0, 9, -1, 9).await.is_empty());
        assert_eq!(first(0, 20_000, 1, 30_000).await.len(), 20_000);
    }
}
