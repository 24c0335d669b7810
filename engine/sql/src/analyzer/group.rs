//! GROUP BY and HAVING of a SELECT.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{Expr as Sql, GroupByExpr, Select};
use weir_core::Error;

use super::aggregate::{AggregateCall, contains_aggregate};
use super::expr::Cx;
use super::from::unsupported;
use super::lateral::Laterals;
use super::query::{Item, filter};
use super::window::Windows;
use super::{Analyzer, Finding, Relation, Result, Scope, Typed};
use crate::error::from_planning;

impl Analyzer<'_> {
    /// Analyses a select list over groups. The aggregation itself is planned when
    /// ORDER BY has been analysed too.
    pub(super) fn grouped(
        &self,
        input: Relation,
        select: &Select,
        items: &[Item],
        windows: &Windows,
        laterals: &Laterals,
    ) -> Result<(Relation, Vec<Typed>, Option<Grouped>)> {
        if items.iter().any(|i| matches!(i, Item::Columns(_))) {
            return Err(Error::config(
                "UNSUPPORTED_GENERATOR.NESTED_IN_EXPRESSIONS",
                "a generator beside aggregation is not supported; put one of them into a subquery",
            ));
        }
        let calls = RefCell::new(Vec::new());
        let cx = Cx { aggregates: Some(&calls), windows: Some(windows), laterals: Some(laterals), ..Cx::new(&input.scope, "SELECT") };
        let analysed = self.items(items, &cx)?;
        let mut groups: Vec<(Typed, String)> = Vec::new();
        match &select.group_by {
            GroupByExpr::Expressions(exprs, _) => {
                for sql in exprs {
                    if matches!(sql, Sql::Rollup(_) | Sql::Cube(_) | Sql::GroupingSets(_)) {
                        return Err(unsupported("GROUP BY with ROLLUP, CUBE or GROUPING SETS", "group by each level on its own"));
                    }
                    let value = self.group_key(sql, &input.scope, items, &analysed)?;
                    if !groups.iter().any(|(g, _)| g.expr == value.expr) {
                        groups.push((value, self.fresh("grp")));
                    }
                }
            }
            GroupByExpr::All(_) => {
                for (item, value) in items.iter().zip(&analysed) {
                    if matches!(item, Item::Sql(sql, _) if !contains_aggregate(sql)) {
                        groups.push((value.clone(), self.fresh("grp")));
                    }
                }
            }
        }
        if input.streaming {
            self.found(Finding::Aggregation);
        }
        let out = analysed.into_iter().map(|v| self.over_groups(v, &groups, &input.scope)).collect::<Result<Vec<_>>>()?;
        let having = match &select.having {
            Some(having) => {
                let having = replace_aliases(having, items);
                let cx = Cx { aggregates: Some(&calls), ..Cx::new(&input.scope, "HAVING") };
                let value = self.boolean(self.expr(&having, &cx)?)?;
                Some(self.over_groups(value, &groups, &input.scope)?)
            }
            None => None,
        };
        let grouped = Grouped { input: input.scope.clone(), groups, calls, having };
        Ok((Relation { aggregated: true, ..input }, out, Some(grouped)))
    }

    fn group_key(&self, sql: &Sql, scope: &Scope, items: &[Item], analysed: &[Typed]) -> Result<Typed> {
        if let Sql::Value(v) = sql
            && let Ok(position) = v.value.to_string().parse::<usize>()
        {
            return analysed.get(position.wrapping_sub(1)).cloned().ok_or_else(|| {
                Error::config(
                    "GROUP_BY_POS_OUT_OF_RANGE",
                    format!("GROUP BY position {position} is not in the select list; write a position that is, or the expression"),
                )
            });
        }
        match self.expr(sql, &Cx::new(scope, "GROUP BY")) {
            Ok(value) => Ok(value),
            Err(error) => {
                if let Sql::Identifier(name) = sql {
                    let by_alias = items.iter().zip(analysed).find_map(|(item, value)| match item {
                        Item::Sql(_, Some(alias)) if alias.eq_ignore_ascii_case(&name.value) => Some(value.clone()),
                        _ => None,
                    });
                    if let Some(value) = by_alias {
                        return Ok(value);
                    }
                }
                Err(error)
            }
        }
    }
}

/// An aggregation whose calls are still being collected.
pub(super) struct Grouped {
    input: Scope,
    groups: Vec<(Typed, String)>,
    calls: RefCell<Vec<AggregateCall>>,
    having: Option<Typed>,
}

impl Grouped {
    pub(super) fn analyse(
        &self,
        analyzer: &Analyzer,
        sql: &Sql,
        windows: &Windows,
        laterals: &Laterals,
        clause: &'static str,
    ) -> Result<Typed> {
        let cx = Cx { aggregates: Some(&self.calls), windows: Some(windows), laterals: Some(laterals), ..Cx::new(&self.input, clause) };
        let value = analyzer.expr(sql, &cx)?;
        analyzer.over_groups(value, &self.groups, &self.input)
    }

    /// A window call over the groups' columns.
    pub(super) fn over_groups(&self, analyzer: &Analyzer, call: Expr) -> Result<Expr> {
        Ok(analyzer.over_groups(Typed::new(call, DataType::Null, "OVER"), &self.groups, &self.input)?.expr)
    }

    pub(super) fn plan(self, analyzer: &Analyzer, input: LogicalPlan) -> Result<LogicalPlan> {
        let groups: Vec<Expr> = self.groups.iter().map(|(g, name)| analyzer.comparable(g.clone()).expr.alias(name)).collect();
        let mut calls: Vec<Expr> = self.calls.into_inner().into_iter().map(|c| c.expr.alias(c.name)).collect();
        if groups.is_empty() && calls.is_empty() {
            let count = datafusion::functions_aggregate::count::count_all();
            calls.push(count.alias(analyzer.fresh("agg")));
        }
        let plan = Aggregate::try_new(Arc::new(input), groups, calls).map(LogicalPlan::Aggregate).map_err(from_planning)?;
        match self.having {
            Some(having) => filter(plan, having.expr),
            None => Ok(plan),
        }
    }
}

fn replace_aliases(having: &Sql, items: &[Item]) -> Sql {
    let mut having = having.clone();
    let _ = datafusion::sql::sqlparser::ast::visit_expressions_mut(&mut having, |e| {
        if let Sql::Identifier(name) = e {
            for item in items {
                if let Item::Sql(sql, Some(alias)) = item
                    && alias.eq_ignore_ascii_case(&name.value)
                    && contains_aggregate(sql)
                {
                    *e = Sql::Nested(Box::new((*sql).clone()));
                    break;
                }
            }
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    having
}
