//! UNION, INTERSECT and EXCEPT.
//!
//! Both sides are brought to common types, pair by pair from the left as Spark
//! does. A chain of UNION ALL becomes one node with all its parts: nested, each
//! part would be planned again at every level above it.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, WindowFrame, WindowFunctionDefinition};
use datafusion::sql::sqlparser::ast::{SetExpr, SetOperator, SetQuantifier};
use weir_core::Error;

use super::from::unsupported;
use super::orderable::check_distinct;
use super::query::project;
use super::scope::Visibility;
use super::{Analyzer, Finding, Relation, Result, Scope, ScopeCol, coerce};
use crate::error::from_planning;

/// The types that one column of a chain of unions has, from pair to pair: the
/// number of the pair from which on it has the type.
type TypeSteps = Vec<(usize, DataType)>;

/// Whether an operation only puts rows together.
pub(super) fn is_union_all(op: SetOperator, quantifier: SetQuantifier) -> bool {
    op == SetOperator::Union && quantifier == SetQuantifier::All
}

impl Analyzer<'_> {
    /// A chain of UNION ALL, leaning left as the parser builds it.
    pub(super) fn union_all(&self, body: &SetExpr) -> Result<Relation> {
        let mut parts = Vec::new();
        let mut next = body;
        while let SetExpr::SetOperation { left, op, set_quantifier, right } = next
            && is_union_all(*op, *set_quantifier)
        {
            parts.push(right.as_ref());
            next = left;
        }
        parts.push(next);
        let relations = parts.into_iter().rev().map(|part| self.set_expr(part)).collect::<Result<Vec<_>>>()?;
        let first = relations.first().expect("a union has parts");
        let mut streaming = first.streaming;
        let mut steps: Vec<TypeSteps> = first.scope.cols.iter().map(|col| vec![(0, col.ty.clone())]).collect();
        for (pair, right) in relations.iter().skip(1).enumerate() {
            self.check_pair(SetOperator::Union, (first.scope.cols.len(), streaming), (right.scope.cols.len(), right.streaming))?;
            streaming |= right.streaming;
            for ((col, steps), other) in first.scope.cols.iter().zip(&mut steps).zip(&right.scope.cols) {
                let (_, now) = steps.last().expect("a column has a type");
                let wider = self.wider("UNION", (&col.name, now), (&other.name, &other.ty))?;
                if wider != *now {
                    steps.push((pair, wider));
                }
            }
        }
        let aliases: Vec<String> = steps.iter().map(|_| self.fresh("c")).collect();
        let mut inputs = Vec::with_capacity(relations.len());
        for (index, part) in relations.iter().enumerate() {
            let mut exprs = Vec::with_capacity(aliases.len());
            for ((col, steps), alias) in part.scope.cols.iter().zip(&steps).zip(&aliases) {
                let mut value = col.typed();
                for ty in types_from(steps, index.saturating_sub(1)) {
                    value = self.explicit_cast(value, ty, self.set_mode(), None)?;
                }
                exprs.push(value.expr.alias(alias));
            }
            inputs.push(Arc::new(project(part.plan.clone(), exprs)?));
        }
        let types = steps.iter().map(|steps| steps.last().expect("a column has a type").1.clone());
        let scope = output(&first.scope, types, aliases);
        Ok(Relation {
            plan: LogicalPlan::Union(Union::try_new_with_loose_types(inputs).map_err(from_planning)?),
            scope,
            streaming,
            aggregated: relations.iter().any(|part| part.aggregated),
            filtered: relations.iter().any(|part| part.filtered),
            fallible: relations.iter().any(|part| part.fallible),
        })
    }

    /// What must hold of the two sides of an operation, given the columns of each and whether it is a stream.
    fn check_pair(&self, op: SetOperator, left: (usize, bool), right: (usize, bool)) -> Result<()> {
        if left.0 != right.0 {
            return Err(Error::config(
                "NUM_COLUMNS_MISMATCH",
                format!(
                    "{op} needs the same number of columns on both sides, but there are {} and {}; select as many on each",
                    left.0, right.0
                ),
            ));
        }
        match (op, left.1, right.1) {
            (SetOperator::Union, a, b) if a != b => self.found(Finding::UnionOfStreamAndTable),
            (SetOperator::Intersect, true, _) | (SetOperator::Intersect, _, true) => self.found(Finding::Intersect),
            (SetOperator::Except | SetOperator::Minus, _, true) => self.found(Finding::ExceptOnRight),
            (SetOperator::Except | SetOperator::Minus, true, false) => self.found(Finding::Except),
            _ => {}
        }
        Ok(())
    }

    /// The common type of two columns, each with its name.
    fn wider(&self, operation: &str, a: (&str, &DataType), b: (&str, &DataType)) -> Result<DataType> {
        coerce::wider(a.1, b.1, self.conf.ansi).ok_or_else(|| {
            Error::config(
                "INCOMPATIBLE_COLUMN_TYPE",
                format!(
                    "{operation} cannot bring the columns {} ({}) and {} ({}) together; CAST one of them",
                    a.0,
                    crate::spark_type_name(a.1),
                    b.0,
                    crate::spark_type_name(b.1)
                ),
            )
        })
    }

    pub(super) fn set_operation(&self, l: Relation, op: SetOperator, quantifier: SetQuantifier, r: Relation) -> Result<Relation> {
        if matches!(quantifier, SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName) {
            return Err(unsupported(&format!("{op} BY NAME"), "select the columns in one order"));
        }
        let name = op.to_string();
        self.check_pair(op, (l.scope.cols.len(), l.streaming), (r.scope.cols.len(), r.streaming))?;
        let streaming = l.streaming || r.streaming;
        let pairs = l.scope.cols.iter().zip(&r.scope.cols);
        let types = pairs.map(|(a, b)| self.wider(&name, (&a.name, &a.ty), (&b.name, &b.ty))).collect::<Result<Vec<_>>>()?;
        let all = quantifier == SetQuantifier::All;
        check_distinct(l.scope.cols.iter().chain(&r.scope.cols))?;
        let aliases: Vec<String> = types.iter().map(|_| self.fresh("c")).collect();
        let side = |relation: &Relation| -> Result<LogicalPlan> {
            let mut exprs = Vec::new();
            for ((col, ty), alias) in relation.scope.cols.iter().zip(&types).zip(&aliases) {
                let value = self.explicit_cast(col.typed(), ty, self.set_mode(), None)?;
                exprs.push(value.expr.alias(alias));
            }
            project(relation.plan.clone(), exprs)
        };
        let (lp, rp) = (side(&l)?, side(&r)?);
        let plan = match op {
            SetOperator::Union => {
                if streaming {
                    self.found(Finding::Distinct);
                }
                LogicalPlanBuilder::from(lp).union(rp).and_then(LogicalPlanBuilder::distinct).and_then(LogicalPlanBuilder::build)
            }
            _ if all => {
                let number = self.fresh("n");
                let (lp, rp) = (numbered(lp, &aliases, &number)?, numbered(rp, &aliases, &number)?);
                let met = match op {
                    SetOperator::Intersect => LogicalPlanBuilder::intersect(lp, rp, true),
                    _ => LogicalPlanBuilder::except(lp, rp, true),
                };
                met.and_then(|met| LogicalPlanBuilder::from(met).project(columns(&aliases)).and_then(LogicalPlanBuilder::build))
            }
            SetOperator::Intersect => LogicalPlanBuilder::intersect(lp, rp, false),
            SetOperator::Except | SetOperator::Minus => LogicalPlanBuilder::except(lp, rp, false),
        }
        .map_err(from_planning)?;
        let scope = output(&l.scope, types, aliases);
        Ok(Relation {
            plan,
            scope,
            streaming,
            aggregated: l.aggregated || r.aggregated,
            filtered: l.filtered || r.filtered,
            fallible: l.fallible || r.fallible,
        })
    }
}

/// The types that a part takes on that joins at `pair`: the one in force there, then all later ones.
fn types_from(steps: &TypeSteps, pair: usize) -> impl Iterator<Item = &DataType> {
    let first = steps.iter().rposition(|(from, _)| *from <= pair).unwrap_or(0);
    steps.iter().skip(first).map(|(_, ty)| ty)
}

fn columns(names: &[String]) -> Vec<Expr> {
    names.iter().map(|name| Expr::Column(Column::new_unqualified(name))).collect()
}

/// The rows, with which of its equals each is: the second of a kind meets the second of that kind on the other side.
fn numbered(plan: LogicalPlan, names: &[String], number: &str) -> Result<LogicalPlan> {
    let call = Expr::WindowFunction(Box::new(WindowFunction {
        fun: WindowFunctionDefinition::WindowUDF(row_number_udwf()),
        params: WindowFunctionParams {
            args: vec![],
            partition_by: columns(names),
            order_by: vec![],
            window_frame: WindowFrame::new(None),
            filter: None,
            null_treatment: None,
            distinct: false,
        },
    }));
    let made = Expr::Column(Column::new_unqualified(call.schema_name().to_string())).alias(number);
    let plan = LogicalPlanBuilder::window_plan(plan, [call]).map_err(from_planning)?;
    project(plan, columns(names).into_iter().chain([made]).collect())
}

/// The columns of the result: named as those of the first part.
fn output(first: &Scope, types: impl IntoIterator<Item = DataType>, aliases: Vec<String>) -> Scope {
    let cols = first.cols.iter().zip(types).zip(aliases).map(|((col, ty), alias)| ScopeCol {
        qualifier: None,
        name: col.name.clone(),
        column: Column::new_unqualified(alias),
        ty,
        spark_type: col.spark_type.clone(),
        visibility: Visibility::Shown,
    });
    Scope { cols: cols.collect() }
}
