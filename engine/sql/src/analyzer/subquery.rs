//! Subqueries as expressions.
//!
//! `IN (SELECT ..)` is a semi or anti join; only whole conditions of a WHERE's
//! AND chain can be one, and only if the subquery does not refer to the query
//! around it. `(SELECT max(v) FROM t)` and `EXISTS (SELECT ..)` are expressions
//! over tables, and may refer to the query around; beside a stream they are refused.

use std::sync::Arc;

use arrow::array::Int64Array;
use datafusion::common::{JoinType, Spans};
use datafusion::logical_expr::expr::{AggregateFunction, Exists};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Operator, Subquery};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as Sql, Query};
use weir_core::Error;

use super::binary::BesideNull;
use super::expr::Cx;
use super::query::project;
use super::{Analyzer, Relation, Result, Typed};
use crate::error::{from_planning, spark_error};
use crate::udf::{Rows, downcast};

impl Analyzer<'_> {
    /// `(SELECT ..)` as a value.
    pub(super) fn scalar_subquery(&self, query: &Query, cx: &Cx) -> Result<Typed> {
        let relation = self.inner_query(query, cx)?;
        let [col] = relation.scope.cols.as_slice() else {
            return Err(Error::config(
                "INVALID_SUBQUERY_EXPRESSION.SCALAR_SUBQUERY_RETURN_MORE_THAN_ONE_OUTPUT_COLUMN",
                format!("a scalar subquery must return one column, but this one has {}; select only that", relation.scope.cols.len()),
            ));
        };
        let value = col.typed();
        let refers_out = !relation.plan.all_out_ref_exprs().is_empty();
        let plan = if refers_out { project(relation.plan, vec![value.expr.clone()])? } else { self.single_row(relation.plan, &value)? };
        let expr = Expr::ScalarSubquery(subquery(plan));
        Ok(Typed { expr, name: "scalarsubquery()".to_owned(), ..value }.may_fail())
    }

    /// `EXISTS (SELECT ..)`.
    pub(super) fn exists(&self, query: &Query, negated: bool, cx: &Cx) -> Result<Typed> {
        let relation = self.inner_query(query, cx)?;
        let expr = Expr::Exists(Exists::new(subquery(relation.plan), negated));
        let name = if negated { "(NOT exists())" } else { "exists()" };
        Ok(Typed::new(expr, arrow::datatypes::DataType::Boolean, name))
    }

    fn inner_query(&self, query: &Query, cx: &Cx) -> Result<Relation> {
        if self.catalog.tables.iter().any(|t| t.stream.is_some()) {
            return Err(Error::config(
                "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY",
                format!("a subquery in {} is not supported; write it as LEFT SEMI JOIN, LEFT ANTI JOIN or LEFT JOIN", cx.clause),
            ));
        }
        self.outer.borrow_mut().push(cx.scope.clone());
        let relation = self.query(query);
        self.outer.borrow_mut().pop();
        relation
    }

    /// The one value of a subquery: NULL if it has no row, an error if it has several.
    fn single_row(&self, plan: LogicalPlan, value: &Typed) -> Result<LogicalPlan> {
        let first = datafusion::functions_aggregate::first_last::first_value_udaf();
        let first = Expr::AggregateFunction(AggregateFunction::new_udf(first, vec![value.expr.clone()], false, None, vec![], None));
        let (column, count) = (self.fresh("one"), self.fresh("rows"));
        let calls = vec![first.alias(&column), datafusion::functions_aggregate::count::count_all().alias(&count)];
        let plan = Aggregate::try_new(Arc::new(plan), vec![], calls).map(LogicalPlan::Aggregate).map_err(from_planning)?;
        let part = |name: String, ty| Typed::new(Expr::Column(datafusion::common::Column::new_unqualified(name)), ty, "");
        let parts = [part(column, value.ty.clone()), part(count, arrow::datatypes::DataType::Int64)];
        let single = self.call("single_row", "", value.ty.clone(), &parts, |rows: Rows| {
            let counts: &Int64Array = downcast(&rows.args[1])?;
            if counts.iter().flatten().any(|count| count > 1) {
                let message = "more than one row returned by a subquery used as an expression; aggregate it, or add LIMIT 1";
                return Err(spark_error("SCALAR_SUBQUERY_TOO_MANY_ROWS", message));
            }
            Ok(Arc::clone(&rows.args[0]))
        });
        project(plan, vec![single.expr.alias(self.fresh("c"))])
    }

    /// Applies the conditions that are memberships; the others are given back.
    pub(super) fn membership(&self, mut input: Relation, condition: &Sql) -> Result<(Relation, Option<Sql>)> {
        let mut parts = Vec::new();
        conjuncts(condition, &mut parts);
        let mut rest: Option<Sql> = None;
        for part in parts {
            if let Sql::InSubquery { expr, subquery, negated } = part {
                input = self.member(input, expr, subquery, *negated)?;
                continue;
            }
            rest = Some(match rest {
                None => part.clone(),
                Some(before) => Sql::BinaryOp { left: Box::new(before), op: BinaryOperator::And, right: Box::new(part.clone()) },
            });
        }
        Ok((input, rest))
    }

    fn member(&self, input: Relation, expr: &Sql, subquery: &Query, negated: bool) -> Result<Relation> {
        let members = self.query(subquery)?;
        let [member] = members.scope.cols.as_slice() else {
            return Err(Error::config(
                "IN_SUBQUERY_COLUMN_MISMATCH",
                format!("the subquery of IN must have one column, but it has {}; select only that", members.scope.cols.len()),
            ));
        };
        let member = member.typed();
        let value = self.expr(expr, &Cx::new(&input.scope, "WHERE"))?;
        let (kind, shown) = if negated { (JoinType::LeftAnti, "LeftAnti") } else { (JoinType::LeftSemi, "LeftSemi") };
        self.join_on(input, members, kind, shown, |this, _| {
            let equal = this.compare_keys(value, Operator::Eq, member, "=", BesideNull::Looks)?;
            if !negated {
                return Ok(Some(equal));
            }
            // A null on either side makes NOT IN unknown, which keeps the row out.
            let unknown = Typed { expr: Expr::IsNull(Box::new(equal.expr.clone())), ..equal.clone() };
            Ok(Some(this.or(equal, unknown)?))
        })
    }
}

fn subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

/// The conditions of an AND chain in order.
fn conjuncts<'s>(sql: &'s Sql, out: &mut Vec<&'s Sql>) {
    match sql {
        Sql::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(left, out);
            conjuncts(right, out);
        }
        Sql::Nested(inner) if matches!(inner.as_ref(), Sql::InSubquery { .. }) => conjuncts(inner, out),
        other => out.push(other),
    }
}
