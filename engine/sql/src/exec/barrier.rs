//! A node that predicates do not cross.
//!
//! Put between two filters where merging them would evaluate a failing
//! predicate on rows that the lower filter takes away, and below a filter over
//! the result of a decoder, which would be called a second time if the filter
//! were pushed below the projection that calls it. Also below what looks at
//! columns whose expressions, put in for them from step to step, are large: each
//! step may use the column of the step before it twice. Passes rows on.

use std::cmp::Ordering;
use std::collections::HashMap;
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

/// The most parts of a condition with the expressions of its columns put in.
const MOST_PARTS: u64 = 1000;

/// The plan with barriers that keep conditions above projections where pushing them below would cost more than it spares.
pub(crate) fn shielded(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut parts = Parts::default();
    plan.transform_up(|node| match node {
        LogicalPlan::Filter(filter) if parts.of(&filter.predicate) > MOST_PARTS || looks_at_decoded(&filter) => {
            let input = behind_barrier(filter.input);
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(filter.predicate, input)?)))
        }
        LogicalPlan::Join(mut join) if join.filter.as_ref().is_some_and(|condition| parts.of(condition) > MOST_PARTS) => {
            (join.left, join.right) = (behind_barrier(join.left), behind_barrier(join.right));
            Ok(Transformed::yes(LogicalPlan::Join(join)))
        }
        other => {
            if let LogicalPlan::Projection(projection) = &other {
                parts.learn(&projection.expr);
            }
            Ok(Transformed::no(other))
        }
    })
    .map(|transformed| transformed.data)
}

fn behind_barrier(input: Arc<LogicalPlan>) -> Arc<LogicalPlan> {
    let barrier = BarrierNode { input: Arc::unwrap_or_clone(input) };
    Arc::new(LogicalPlan::Extension(Extension { node: Arc::new(barrier) }))
}

/// How many parts the expression of a column has with those of the columns below it put in. Names inside plans are
/// unique but for the inputs of a union, of which the largest counts.
#[derive(Default)]
struct Parts(HashMap<String, u64>);

impl Parts {
    fn learn(&mut self, projected: &[Expr]) {
        for expr in projected {
            if let Expr::Alias(alias) = expr {
                let parts = self.of(&alias.expr);
                let known = self.0.entry(alias.name.clone()).or_default();
                *known = parts.max(*known);
            }
        }
    }

    fn of(&self, expr: &Expr) -> u64 {
        let mut parts = 0_u64;
        // The visitor never fails.
        let _ = expr.apply(|part| {
            let own = match part {
                Expr::Column(column) => self.0.get(&column.name).copied().unwrap_or(1),
                _ => 1,
            };
            parts = parts.saturating_add(own);
            Ok(TreeNodeRecursion::Continue)
        });
        parts
    }
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
