//! Streams as table providers: the input of a run is taken from a slot.
//!
//! The table has the stream's full schema; a scan asks for the columns that it
//! needs, and the slot holds the union of what all scans of the stream need, in
//! the stream's order (`CompiledQuery::required_columns`).

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use parking_lot::Mutex;

use super::observe::Accumulators;

/// One stream's place in a lane.
#[derive(Debug, Default)]
pub struct Slot {
    /// Indexes into the stream's schema of the columns that the batch has.
    pub columns: Vec<usize>,
    batch: Mutex<Option<RecordBatch>>,
}

impl Slot {
    /// An empty slot for batches with these columns.
    pub fn new(columns: Vec<usize>) -> Self {
        Self { columns, batch: Mutex::new(None) }
    }

    /// Puts the next input in, or nothing.
    pub fn put(&self, batch: Option<RecordBatch>) {
        *self.batch.lock() = batch;
    }
}

/// What a lane's physical plan shares with the lane.
pub struct LaneState {
    /// One per stream of the query.
    pub slots: Vec<Arc<Slot>>,
    /// One per observation in the plan.
    pub accumulators: Vec<Arc<Accumulators>>,
}

/// A stream in a plan.
#[derive(Debug)]
pub struct StreamTable {
    /// The index among the query's streams.
    pub index: usize,
    /// The stream's columns.
    pub schema: SchemaRef,
}

#[async_trait]
impl TableProvider for StreamTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = session
            .config()
            .get_extension::<LaneState>()
            .ok_or_else(|| DataFusionError::Internal("a stream was planned outside of a lane".to_owned()))?;
        let slot = Arc::clone(&state.slots[self.index]);
        let wanted: Vec<usize> = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let positions = wanted
            .iter()
            .map(|column| {
                slot.columns
                    .iter()
                    .position(|c| c == column)
                    .ok_or_else(|| DataFusionError::Internal(format!("column {column} is not among the required columns of the stream")))
            })
            .collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(self.schema.project(&wanted)?);
        let partition = SlotPartition { slot, positions, schema: Arc::clone(&schema) };
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(partition)], None, [], false, None)?))
    }
}

struct SlotPartition {
    slot: Arc<Slot>,
    positions: Vec<usize>,
    schema: SchemaRef,
}

impl fmt::Debug for SlotPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotPartition({:?})", self.positions)
    }
}

impl PartitionStream for SlotPartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        // Cloned, not taken: a stream may be scanned twice in one plan.
        let batch = self.slot.batch.lock().clone();
        let projected = batch.map(|batch| {
            let columns = self.positions.iter().map(|p| Arc::clone(batch.column(*p))).collect();
            let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), futures::stream::iter(projected)))
    }
}
