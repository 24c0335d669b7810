//! `IN (SELECT ..)` in WHERE, as a semi or anti join.
//!
//! Only whole conditions of a WHERE's AND chain, and only subqueries that do not
//! refer to the query around them; everything else is refused in `expr`.

use datafusion::common::JoinType;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as Sql, Query};
use weir_core::Error;

use super::expr::Cx;
use super::{Analyzer, Relation, Result, Typed};

impl Analyzer<'_> {
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
            let equal = this.compare(value, Operator::Eq, member, "=")?;
            if !negated {
                return Ok(Some(equal));
            }
            // A null on either side makes NOT IN unknown, which keeps the row out.
            let unknown = Typed { expr: Expr::IsNull(Box::new(equal.expr.clone())), ..equal.clone() };
            Ok(Some(this.or(equal, unknown)?))
        })
    }
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
