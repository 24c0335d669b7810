//! Lambda bodies: analysed over their own variables, compiled once.
//!
//! A body sees its parameters and, through captures, the row around it. The
//! compiled body is evaluated over a batch of variables and captured columns,
//! so that one call handles all elements of all rows.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Column, DFSchema};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{Expr as Sql, LambdaFunction};
use weir_core::Error;

use super::expr::Cx;
use super::scope::{Enclosing, Scope, ScopeCol, Visibility};
use super::{Analyzer, Result, Typed};
use crate::error::from_planning;
use crate::functions::bounds::for_rows;

/// A compiled lambda body.
#[derive(Clone)]
pub struct Lambda {
    /// The type of its result.
    pub ty: DataType,
    /// What it uses of the row around it; to be passed to the function as arguments.
    pub captures: Vec<Typed>,
    schema: SchemaRef,
    body: Arc<dyn PhysicalExpr>,
    /// Tells two bodies apart.
    pub key: String,
    /// Spark's printed form.
    pub name: String,
}

impl Lambda {
    /// Evaluates the body; the variables come first, then the captures.
    pub fn evaluate(&self, columns: Vec<ArrayRef>, len: usize) -> datafusion::common::Result<ArrayRef> {
        let options = RecordBatchOptions::new().with_row_count(Some(len));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        for_rows("a lambda function", self.body.evaluate(&batch)?, len)
    }
}

/// Whether an argument is a lambda.
pub fn as_lambda(sql: &Sql) -> Option<&LambdaFunction> {
    match sql {
        Sql::Lambda(lambda) => Some(lambda),
        Sql::Nested(inner) => as_lambda(inner),
        _ => None,
    }
}

/// The number of parameters of a lambda.
pub fn arity(lambda: &LambdaFunction) -> usize {
    lambda.params.len()
}

impl Analyzer<'_> {
    /// Analyses and compiles a lambda for parameters of the given types. The
    /// result is cast to `want` if given.
    pub(crate) fn lambda(&self, lambda: &LambdaFunction, types: &[DataType], want: Option<&DataType>, cx: &Cx) -> Result<Lambda> {
        if lambda.params.len() != types.len() {
            return Err(Error::config(
                "INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH",
                format!("the lambda function has {} parameters, {} are expected; give it that many", lambda.params.len(), types.len()),
            ));
        }
        let cols: Vec<ScopeCol> = lambda
            .params
            .iter()
            .zip(types)
            .map(|(param, ty)| ScopeCol {
                qualifier: None,
                name: param.name.value.clone(),
                column: Column::new_unqualified(self.fresh("var")),
                ty: ty.clone(),
                spark_type: None,
                visibility: Visibility::Shown,
            })
            .collect();
        let variables: Vec<Field> = cols.iter().map(|c| Field::new(&c.column.name, c.ty.clone(), true)).collect();
        let scope = Scope { cols };
        // Captures of an outer lambda are columns of its body, found through its own scope.
        let captures = RefCell::new(Vec::new());
        let around =
            Scope { cols: cx.scope.cols.iter().cloned().chain(cx.enclosing.iter().flat_map(|e| self.captured_scope(e))).collect() };
        let enclosing = Some(Enclosing { scope: &around, captures: &captures });
        // The row of an outer lambda has no columns of a projection below.
        let laterals = if cx.enclosing.is_none() { cx.laterals } else { None };
        let inner = Cx { scope: &scope, enclosing, aggregates: None, windows: None, laterals, clause: cx.clause };
        let mut body = self.expr(&lambda.body, &inner)?;
        if let Some(want) = want {
            body = self.cast(body, want)?;
        }
        let params: Vec<_> = lambda.params.iter().map(|_| "namedlambdavariable()").collect();
        let mut captured = captures.into_inner();
        // The clock is captured too, so that the lane's clock is found in the plan around.
        let clock = self.now();
        let clock_name = self.fresh("cap");
        let body_expr = replace(body.expr, &clock.expr, &clock_name)?;
        if body_expr.1 {
            captured.push(super::scope::Capture { name: clock_name, outer: clock });
        }
        let mut fields = variables;
        fields.extend(captured.iter().map(|c| Field::new(&c.name, c.outer.ty.clone(), true)));
        let schema = Arc::new(Schema::new(fields));
        let df_schema = DFSchema::try_from(schema.as_ref().clone()).map_err(from_planning)?;
        let physical = crate::compile::physical_expr(&body_expr.0, &df_schema).map_err(from_planning)?;
        Ok(Lambda {
            ty: body.ty,
            captures: captured.into_iter().map(|c| c.outer).collect(),
            schema,
            key: body_expr.0.to_string(),
            body: physical,
            name: format!("lambdafunction({}, {})", body.name, params.join(", ")),
        })
    }

    /// What a nested lambda sees of the scope around its outer lambda: every
    /// column there, captured by the outer lambda when it is used.
    fn captured_scope(&self, enclosing: &Enclosing) -> Vec<ScopeCol> {
        enclosing
            .scope
            .cols
            .iter()
            .map(|col| {
                let captured = self.capture(col.typed(), enclosing);
                let mut col = col.clone();
                if let datafusion::logical_expr::Expr::Column(column) = captured.expr {
                    col.column = column;
                }
                col
            })
            .collect()
    }
}

fn replace(
    expr: datafusion::logical_expr::Expr,
    what: &datafusion::logical_expr::Expr,
    name: &str,
) -> Result<(datafusion::logical_expr::Expr, bool)> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    expr.transform_up(|e| {
        if &e == what {
            Ok(Transformed::yes(datafusion::logical_expr::Expr::Column(Column::new_unqualified(name))))
        } else {
            Ok(Transformed::no(e))
        }
    })
    .map(|t| (t.data, t.transformed))
    .map_err(from_planning)
}
