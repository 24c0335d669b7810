//! A node that predicates do not cross.
//!
//! Put between two filters where merging them would evaluate a failing
//! predicate on rows that the lower filter takes away. Passes rows on.

use std::cmp::Ordering;
use std::fmt;

use datafusion::common::{DFSchemaRef, DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

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
