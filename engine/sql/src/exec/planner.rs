//! The physical side of Weir's own logical nodes.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use datafusion::execution::context::QueryPlanner;
use futures::StreamExt;

use super::observe::{Accumulators, Feed, ObserveNode, feeds};
use super::slot::LaneState;

/// DataFusion's planner with Weir's nodes.
#[derive(Debug)]
pub struct WeirQueryPlanner;

#[async_trait]
impl QueryPlanner for WeirQueryPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(ObservePlanner)])
            .create_physical_plan(plan, session)
            .await
    }
}

struct ObservePlanner;

#[async_trait]
impl ExtensionPlanner for ObservePlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(observe) = node.as_any().downcast_ref::<ObserveNode>() else { return Ok(None) };
        let state = session.config().get_extension::<LaneState>().ok_or_else(|| {
            DataFusionError::Internal("an observation was planned outside of a lane".to_owned())
        })?;
        Ok(Some(Arc::new(ObserveExec {
            input: Arc::clone(&physical_inputs[0]),
            accumulators: Arc::clone(&state.accumulators[observe.index]),
            feeds: feeds(&observe.aggregates, logical_inputs[0].schema())?,
        })))
    }
}

/// Feeds rows into accumulators and passes them on.
#[derive(Clone)]
struct ObserveExec {
    input: Arc<dyn ExecutionPlan>,
    accumulators: Arc<Accumulators>,
    feeds: Vec<Feed>,
}

impl fmt::Debug for ObserveExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObserveExec")
    }
}

impl DisplayAs for ObserveExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObserveExec")
    }
}

impl ExecutionPlan for ObserveExec {
    fn name(&self) -> &str {
        "ObserveExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children
            .pop()
            .ok_or_else(|| DataFusionError::Internal("an observation needs an input".to_owned()))?;
        Ok(Arc::new(Self { input, ..Self::clone(&self) }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(datafusion::physical_plan::ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (accumulators, feeds) = (Arc::clone(&self.accumulators), self.feeds.clone());
        let stream = input.map(move |batch| {
            let batch = batch?;
            accumulators.update(&feeds, &batch)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), stream)))
    }
}
