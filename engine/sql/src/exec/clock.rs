//! The clock of a batch: one instant for all of its slices.
//!
//! `current_timestamp()` is a function over a shared cell. The analysed plan
//! holds one cell; every lane puts in its own, which `begin_batch` sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::array::{ArrayRef, TimestampMicrosecondArray};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::types::timestamp;
use crate::udf::SparkFn;

pub(super) const NAME: &str = "weir_batch_time";

/// Microseconds since the epoch of the batch's trigger.
#[derive(Debug, Default)]
pub struct BatchTime(AtomicI64);

impl BatchTime {
    /// A clock that shows an instant.
    pub fn at(micros: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(micros)))
    }

    /// The instant.
    pub fn micros(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }

    /// Sets the instant.
    pub fn set(&self, micros: i64) {
        self.0.store(micros, Ordering::Release);
    }
}

/// `current_timestamp()` by this clock.
pub fn batch_time_expr(clock: &Arc<BatchTime>) -> Expr {
    let clock = Arc::clone(clock);
    SparkFn::new(NAME, format!("{:p}", Arc::as_ptr(&clock)), timestamp(), move |rows| {
        let value = clock.micros();
        Ok(Arc::new(TimestampMicrosecondArray::from(vec![value; rows.len]).with_timezone("UTC")) as ArrayRef)
    })
    .volatile()
    .call(vec![])
}

/// The plan with every `current_timestamp()` read from this clock.
pub fn bind_batch_time(plan: LogicalPlan, clock: &Arc<BatchTime>) -> Result<LogicalPlan> {
    plan.transform_up(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match &expr {
                Expr::ScalarFunction(call) if call.func.name() == NAME => Ok(Transformed::yes(batch_time_expr(clock))),
                _ => Ok(Transformed::no(expr)),
            })
        })
    })
    .map(|t| t.data)
}
