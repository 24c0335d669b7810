//! SQL that a table brings along: constraints, generated columns, defaults.
//!
//! Connectors know no SQL; who opens a sink hands in who evaluates it. Expressions are planned once over columns of given
//! names and types; an evaluator belongs to one lane.

use std::fmt;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::future::BoxFuture;
use weir_core::Result;

/// Plans SQL expressions.
pub trait Expressions: fmt::Debug + Send + Sync {
    /// The expressions over rows with these columns.
    fn plan(&self, columns: &SchemaRef, expressions: &[String]) -> Result<Arc<dyn Planned>>;
}

/// Expressions with names and types resolved.
pub trait Planned: Send + Sync {
    /// Indexes of the columns that they read, ascending.
    fn columns(&self) -> Vec<usize>;

    /// An evaluator for one lane.
    fn evaluator(&self) -> Result<Box<dyn Evaluator>>;
}

/// Evaluates planned expressions.
pub trait Evaluator: Send {
    /// One array per expression; `rows` has the columns that the plan reads and no others.
    fn evaluate(&mut self, rows: RecordBatch) -> BoxFuture<'_, Result<Vec<ArrayRef>>>;
}
