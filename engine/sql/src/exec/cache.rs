//! Static inputs: read once per batch, replayed for its other slices.
//!
//! The physical plan of a query with static inputs is made anew for each batch,
//! which drops the rows kept here and lets the provider list its files again.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream, collect,
};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

/// A static input of a streaming query.
#[derive(Debug)]
pub struct StaticTable(pub Arc<dyn TableProvider>);

#[async_trait]
impl TableProvider for StaticTable {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        self.0.table_type()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.0.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = self.0.scan(session, projection, filters, limit).await?;
        Ok(Arc::new(CacheExec::new(input)))
    }
}

type Kept = Arc<Mutex<Option<Arc<Vec<RecordBatch>>>>>;

/// Reads its input once and replays the rows afterwards.
pub struct CacheExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    kept: Kept,
}

impl CacheExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { input, properties: Arc::new(properties), kept: Kept::default() }
    }
}

impl fmt::Debug for CacheExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheExec")
    }
}

impl DisplayAs for CacheExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheExec")
    }
}

impl ExecutionPlan for CacheExec {
    fn name(&self) -> &str {
        "CacheExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    // The input is a leaf to the optimizer: it is run by `collect`, all partitions at once.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(&self, _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (input, kept) = (Arc::clone(&self.input), Arc::clone(&self.kept));
        let rows = async move {
            if let Some(rows) = kept.lock().clone() {
                return Ok::<_, DataFusionError>(rows);
            }
            let rows = Arc::new(collect(input, context).await?);
            *kept.lock() = Some(Arc::clone(&rows));
            Ok(rows)
        };
        let stream = futures::stream::once(rows).map_ok(|rows| futures::stream::iter(rows.as_ref().clone()).map(Ok)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), stream)))
    }
}
