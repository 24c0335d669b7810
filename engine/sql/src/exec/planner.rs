//! The physical side of Weir's own logical nodes.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;

use super::barrier::BarrierNode;
use super::observe::{Accumulators, Feed, ObserveNode, feeds};
use super::slot::LaneState;

/// DataFusion's planner with Weir's nodes.
#[derive(Debug)]
pub struct WeirQueryPlanner;

#[async_trait]
impl QueryPlanner for WeirQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(ObservePlanner)]).create_physical_plan(plan, session).await
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
        if node.as_any().is::<BarrierNode>() {
            return Ok(Some(Arc::new(PassExec { input: Arc::clone(&physical_inputs[0]), observed: None })));
        }
        let Some(observe) = node.as_any().downcast_ref::<ObserveNode>() else { return Ok(None) };
        let state = session
            .config()
            .get_extension::<LaneState>()
            .ok_or_else(|| DataFusionError::Internal("an observation was planned outside of a lane".to_owned()))?;
        let accumulators = Arc::clone(&state.accumulators[observe.index]);
        let feeds = feeds(&observe.aggregates, logical_inputs[0].schema())?;
        Ok(Some(Arc::new(PassExec { input: Arc::clone(&physical_inputs[0]), observed: Some((accumulators, feeds)) })))
    }
}

/// Passes rows on, feeding them into accumulators if it observes. Predicates do
/// not cross it.
#[derive(Clone)]
struct PassExec {
    input: Arc<dyn ExecutionPlan>,
    observed: Option<(Arc<Accumulators>, Vec<Feed>)>,
}

impl fmt::Debug for PassExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PassExec")
    }
}

impl DisplayAs for PassExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PassExec")
    }
}

impl ExecutionPlan for PassExec {
    fn name(&self) -> &str {
        "PassExec"
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

    fn apply_expressions(&self, _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("an observation needs an input".to_owned()))?;
        Ok(Arc::new(Self { input, ..Self::clone(&self) }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(datafusion::physical_plan::ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let Some((accumulators, feeds)) = self.observed.clone() else { return Ok(input) };
        let stream = input.map(move |batch| {
            let batch = batch?;
            accumulators.update(&feeds, &batch)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), stream)))
    }
}
