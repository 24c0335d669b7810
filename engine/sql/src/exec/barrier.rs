//! A node that predicates do not cross.
//!
//! Put between two filters where merging them would evaluate a failing
//! predicate on rows that the lower filter takes away, and below a filter over
//! the result of a decoder, which would be called a second time if the filter
//! were pushed below the projection that calls it. Passes rows on.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, DataFusionError, Result};
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, UserDefinedLogicalNodeCore};

/// The node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BarrierNode {
    /// Whose rows are passed on.
    pub input: LogicalPlan,
}

impl PartialOrd for BarrierNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for BarrierNode {
    fn name(&self) -> &str {
        "Barrier"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Barrier")
    }

    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("a barrier needs an input".to_owned()))?;
        Ok(Self { input })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}

/// Functions that cost more than all the rows that a filter could spare them.
const DECODERS: [&str; 3] = ["from_json", "from_csv", "from_xml"];

/// The plan with barriers that keep filters above the projections whose decoded columns they look at.
pub(crate) fn shield_decoders(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up(|node| match node {
        LogicalPlan::Filter(filter) if looks_at_decoded(&filter) => {
            let barrier = BarrierNode { input: Arc::unwrap_or_clone(filter.input) };
            let input = LogicalPlan::Extension(Extension { node: Arc::new(barrier) });
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(input))?)))
        }
        other => Ok(Transformed::no(other)),
    })
    .map(|transformed| transformed.data)
}

fn looks_at_decoded(filter: &Filter) -> bool {
    let looked_at = filter.predicate.column_refs();
    // A projection's or an alias's columns have the same positions as its schema, whatever their qualifiers.
    let mut positions: Vec<usize> = looked_at.iter().filter_map(|column| filter.input.schema().maybe_index_of_column(column)).collect();
    let mut below = filter.input.as_ref();
    loop {
        match below {
            LogicalPlan::SubqueryAlias(alias) => below = alias.input.as_ref(),
            LogicalPlan::Projection(projection) => {
                let exprs = positions.iter().filter_map(|at| projection.expr.get(*at));
                if exprs.clone().any(decodes) {
                    return true;
                }
                let columns = exprs.flat_map(|expr| expr.column_refs()).collect::<Vec<_>>();
                positions = columns.iter().filter_map(|column| projection.input.schema().maybe_index_of_column(column)).collect();
                below = projection.input.as_ref();
            }
            _ => return false,
        }
    }
}

fn decodes(expr: &Expr) -> bool {
    let mut found = false;
    // The visitor never fails.
    let _ = expr.apply(|part| {
        found |= matches!(part, Expr::ScalarFunction(call) if DECODERS.contains(&call.func.name()));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
