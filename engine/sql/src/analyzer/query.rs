//! Queries: WITH, SELECT, set operations, ORDER BY, LIMIT.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, LogicalPlanBuilder, Projection, SortExpr};
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr as Sql, GroupByExpr, LimitClause, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Value, WildcardAdditionalOptions,
};
use weir_core::Error;

use super::aggregate::contains_aggregate;
use super::expr::Cx;
use super::from::unsupported;
use super::generate::as_generator;
use super::lateral::{Laterals, Stands};
use super::orderable::{check_distinct, check_order};
use super::scope::Visibility;
use super::set_operation::is_union_all;
use super::size::check_columns;
use super::star::Star;
use super::window::Windows;
use super::{Analyzer, Cte, Finding, Relation, Result, Scope, ScopeCol, Typed, names};
use crate::error::{from_planning, placed};
use crate::exec::BarrierNode;
use crate::parser::wrong;

impl Analyzer<'_> {
    /// A whole query.
    pub fn query(&self, query: &Query) -> Result<Relation> {
        self.grow(1)?;
        let outer = self.ctes.borrow().clone();
        if let Some(with) = &query.with {
            if with.recursive {
                return Err(unsupported("WITH RECURSIVE", "write the steps out"));
            }
            for cte in &with.cte_tables {
                let visible = self.ctes.borrow().clone();
                let columns = cte.alias.columns.iter().map(|c| c.name.value.clone()).collect();
                let cte_entry = Arc::new(Cte { query: (*cte.query).clone(), columns, visible });
                self.ctes.borrow_mut().insert(cte.alias.name.value.clone(), cte_entry);
            }
        }
        let result = self.query_body(query);
        self.ctes.replace(outer);
        result
    }

    fn query_body(&self, query: &Query) -> Result<Relation> {
        let mut relation = match query.body.as_ref() {
            SetExpr::Select(select) => self.select(select, query.order_by.as_ref())?,
            other => {
                let relation = self.set_expr(other)?;
                self.sort_output(relation, query.order_by.as_ref())?
            }
        };
        if let Some(limit) = &query.limit_clause {
            relation = self.limit(relation, limit)?;
        }
        Ok(relation)
    }

    pub(super) fn set_expr(&self, body: &SetExpr) -> Result<Relation> {
        match body {
            SetExpr::Select(select) => self.select(select, None),
            SetExpr::Query(query) => self.query(query),
            SetExpr::Values(values) => {
                let rows: Vec<&Vec<Sql>> = values.rows.iter().map(|r| &r.content).collect();
                self.values(&rows)
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                if is_union_all(*op, *set_quantifier) {
                    return self.union_all(body);
                }
                let (l, r) = (self.set_expr(left)?, self.set_expr(right)?);
                self.set_operation(l, *op, *set_quantifier, r)
            }
            SetExpr::Table(table) => match &table.table_name {
                Some(name) => self.whole_table(name),
                None => Err(unsupported("TABLE", "use SELECT * FROM")),
            },
            other => Err(unsupported(&format!("`{other}`"), "write a SELECT")),
        }
    }

    fn values(&self, rows: &[&Vec<Sql>]) -> Result<Relation> {
        let scope = Scope::default();
        let cx = Cx::new(&scope, "VALUES");
        let width = rows.first().map_or(0, |r| r.len());
        let mut columns: Vec<Vec<Typed>> = vec![Vec::new(); width];
        for row in rows {
            if row.len() != width {
                return Err(Error::config(
                    "INVALID_INLINE_TABLE.NUM_COLUMNS_MISMATCH",
                    "the rows of VALUES differ in their number of columns; give each row as many",
                ));
            }
            for (column, cell) in columns.iter_mut().zip(row.iter()) {
                column.push(self.expr(cell, &cx)?);
            }
        }
        let columns = columns.into_iter().map(|c| self.to_common("VALUES", c)).collect::<Result<Vec<_>>>()?;
        let cells = (0..rows.len()).map(|row| columns.iter().map(|c| c[row].expr.clone()).collect()).collect();
        let plan = LogicalPlanBuilder::values(cells).and_then(LogicalPlanBuilder::build).map_err(from_planning)?;
        let mut exprs = Vec::new();
        let mut cols = Vec::new();
        for (index, (column, cells)) in plan.schema().columns().into_iter().zip(&columns).enumerate() {
            let alias = self.fresh("c");
            exprs.push(Expr::Column(column).alias(&alias));
            cols.push(scope_col(format!("col{}", index + 1), alias, &cells[0]));
        }
        let plan = project(plan, exprs)?;
        Ok(Relation { plan, scope: Scope { cols }, streaming: false, aggregated: false, filtered: false, fallible: false })
    }

    fn select(&self, select: &Select, order_by: Option<&OrderBy>) -> Result<Relation> {
        let mut input = self.from(&select.from)?;
        for view in &select.lateral_views {
            let function = as_generator(&view.lateral_view).ok_or_else(|| {
                unsupported(&format!("LATERAL VIEW {}", view.lateral_view), "use explode, posexplode, inline, stack or json_tuple")
            })?;
            let (relation, mut made) = placed(self.generate(input, function, view.outer), function)?;
            input = relation;
            name_columns(&mut made, &view.lateral_col_alias)?;
            let qualifier = names::parts(&view.lateral_view_name).pop();
            for col in &mut made {
                col.qualifier.clone_from(&qualifier);
            }
            input.scope.cols.extend(made);
        }
        let condition = match &select.selection {
            Some(condition) => {
                let (relation, rest) = self.membership(input, condition)?;
                input = relation;
                rest
            }
            None => None,
        };
        if let Some(condition) = &condition {
            let cx = Cx::new(&input.scope, "WHERE");
            let condition = self.boolean(self.expr(condition, &cx)?)?;
            if input.filtered && (input.fallible || condition.fallible) {
                // Merged with the filter below, it would fail on rows that are filtered out there.
                let node = BarrierNode { input: input.plan };
                input.plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
            }
            input.plan = filter(input.plan, condition.expr)?;
            input.filtered = true;
        }
        let (input, items) = self.generators(input, &select.projection)?;
        let grouped = match &select.group_by {
            GroupByExpr::Expressions(exprs, modifiers) => {
                if !modifiers.is_empty() {
                    return Err(unsupported("GROUP BY WITH ROLLUP or CUBE", "group by each level on its own"));
                }
                !exprs.is_empty()
            }
            GroupByExpr::All(_) => true,
        };
        let windows = Windows { named: &select.named_window, calls: RefCell::default() };
        let aggregated =
            grouped || select.having.is_some() || items.iter().any(|i| matches!(i, Item::Sql(sql, _) if contains_aggregate(sql)));
        let laterals = Laterals::new(if aggregated { Stands::ForExpression } else { Stands::ForColumn });
        let (mut relation, mut out, calls_scope) = if aggregated {
            self.grouped(input, select, &items, &windows, &laterals)?
        } else {
            let cx = Cx { windows: Some(&windows), laterals: Some(&laterals), ..Cx::new(&input.scope, "SELECT") };
            let out = self.items(&items, &cx)?;
            (input, out, None)
        };
        let qualify = match &select.qualify {
            None => None,
            Some(condition) => {
                let condition = match &calls_scope {
                    None => {
                        let cx = Cx { windows: Some(&windows), laterals: Some(&laterals), ..Cx::new(&relation.scope, "QUALIFY") };
                        self.expr(condition, &cx)?
                    }
                    Some(grouped) => grouped.analyse(self, condition, &windows, &laterals, "QUALIFY")?,
                };
                if windows.calls.borrow().is_empty() {
                    return Err(Error::config(
                        "QUALIFY_REQUIRES_WINDOW_FUNCTION",
                        "the QUALIFY clause requires at least one window function in the select list or in itself; use WHERE or HAVING",
                    ));
                }
                Some(self.boolean(condition)?)
            }
        };
        // ORDER BY sees the output's names first, then the input.
        let mut sorts = Vec::new();
        let visible = out.len();
        if let Some(order_by) = order_by {
            for key in order_keys(order_by, visible) {
                let position = self.output_position(&key.expr, &out)?;
                let index = match position {
                    Some(index) => index,
                    None => {
                        let value = match &calls_scope {
                            None => {
                                let cx = Cx { windows: Some(&windows), laterals: Some(&laterals), ..Cx::new(&relation.scope, "ORDER BY") };
                                self.expr(&key.expr, &cx)?
                            }
                            Some(grouped) => grouped.analyse(self, &key.expr, &windows, &laterals, "ORDER BY")?,
                        };
                        out.push(value);
                        out.len() - 1
                    }
                };
                sorts.push((index, key));
            }
        }
        let sort_streaming = relation.streaming && !sorts.is_empty();
        if sort_streaming {
            self.found(Finding::Sort { aggregated: relation.aggregated });
        }
        let mut calls = windows.calls.into_inner();
        if let Some(grouped) = &calls_scope {
            for call in &mut calls {
                call.expr = grouped.over_groups(self, call.expr.clone())?;
            }
        }
        if relation.streaming && !calls.is_empty() {
            self.found(Finding::WindowFunction);
        }
        relation = self.stage(relation, &mut out, laterals)?;
        let mut exprs = Vec::new();
        let mut cols = Vec::new();
        for value in &out {
            let alias = self.fresh("c");
            exprs.push(value.expr.clone().alias(&alias));
            cols.push(scope_col(value.name.clone(), alias, value));
        }
        check_columns(&cols)?;
        if let Some(grouped) = calls_scope {
            relation.plan = grouped.plan(self, relation.plan)?;
        }
        relation.plan = self.plan_windows(relation.plan, calls)?;
        if let Some(condition) = qualify {
            relation.plan = filter(relation.plan, condition.expr)?;
            relation.filtered = true;
        }
        if exprs.is_empty() {
            return Err(wrong("the select list is empty"));
        }
        relation.plan = project(relation.plan, exprs)?;
        relation.fallible |= out.iter().any(|o| o.fallible);
        if let Some(distinct) = &select.distinct {
            match distinct {
                Distinct::Distinct => {
                    if relation.streaming {
                        self.found(Finding::Distinct);
                    }
                    if visible != cols.len() {
                        return Err(Error::config(
                            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
                            "ORDER BY beside DISTINCT can only use columns of the select list; add the column there, or leave it out of ORDER BY",
                        ));
                    }
                    check_distinct(&cols)?;
                    relation.plan =
                        LogicalPlanBuilder::from(relation.plan).distinct().and_then(LogicalPlanBuilder::build).map_err(from_planning)?;
                }
                Distinct::All => {}
                Distinct::On(_) => return Err(unsupported("DISTINCT ON", "use row_number where the table is read")),
            }
        }
        if !sorts.is_empty() {
            let sorts = sorts.into_iter().map(|(index, key)| self.sort_expr(cols[index].typed(), &key)).collect::<Result<Vec<_>>>()?;
            relation.plan = sort(relation.plan, sorts)?;
        }
        if cols.len() > visible {
            cols.truncate(visible);
            let kept = cols.iter().map(|c| Expr::Column(c.column.clone())).collect();
            relation.plan = project(relation.plan, kept)?;
        }
        relation.scope = Scope { cols };
        Ok(relation)
    }

    pub(super) fn sort_expr(&self, value: Typed, key: &OrderByExpr) -> Result<SortExpr> {
        check_order("sortorder", &value.name, &value.ty)?;
        let ascending = key.options.asc.unwrap_or(true);
        let nulls_first = key.options.nulls_first.unwrap_or(ascending);
        Ok(SortExpr::new(self.comparable(value).expr, ascending, nulls_first))
    }

    fn output_position(&self, key: &Sql, out: &[Typed]) -> Result<Option<usize>> {
        match key {
            Sql::Value(v) => {
                let Ok(position) = v.value.to_string().parse::<usize>() else { return Ok(None) };
                if position == 0 || position > out.len() {
                    return Err(Error::config(
                        "ORDER_BY_POS_OUT_OF_RANGE",
                        format!(
                            "ORDER BY position {position} is not in the select list, which has {} columns; write a position that is, or the expression",
                            out.len()
                        ),
                    ));
                }
                Ok(Some(position - 1))
            }
            Sql::Identifier(name) => Ok(out.iter().position(|o| o.name.eq_ignore_ascii_case(&name.value))),
            _ => Ok(None),
        }
    }

    fn sort_output(&self, mut relation: Relation, order_by: Option<&OrderBy>) -> Result<Relation> {
        let Some(order_by) = order_by else { return Ok(relation) };
        if relation.streaming {
            self.found(Finding::Sort { aggregated: relation.aggregated });
        }
        let out: Vec<Typed> = relation.scope.cols.iter().map(ScopeCol::typed).collect();
        let mut sorts = Vec::new();
        for key in order_keys(order_by, out.len()) {
            let value = match self.output_position(&key.expr, &out)? {
                Some(index) => out[index].clone(),
                None => self.expr(&key.expr, &Cx::new(&relation.scope, "ORDER BY"))?,
            };
            sorts.push(self.sort_expr(value, &key)?);
        }
        relation.plan = sort(relation.plan, sorts)?;
        Ok(relation)
    }

    fn limit(&self, mut relation: Relation, clause: &LimitClause) -> Result<Relation> {
        let (limit, offset) = match clause {
            LimitClause::LimitOffset { limit, offset, limit_by } if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|o| &o.value))
            }
            LimitClause::OffsetCommaLimit { offset, limit } => (Some(limit), Some(offset)),
            LimitClause::LimitOffset { .. } => return Err(unsupported("LIMIT BY", "use LIMIT")),
        };
        if relation.streaming {
            if limit.is_some() {
                self.found(Finding::Limit);
            }
            if offset.is_some() {
                self.found(Finding::Offset);
            }
        }
        let count = |sql: Option<&Sql>| -> Result<Option<usize>> {
            let Some(sql) = sql else { return Ok(None) };
            let scope = Scope::default();
            let value = self.expr(sql, &Cx::new(&scope, "LIMIT"))?;
            match value.integer().map(usize::try_from) {
                Some(Ok(n)) => Ok(Some(n)),
                _ if matches!(sql, Sql::Identifier(i) if i.value.eq_ignore_ascii_case("all")) => Ok(None),
                _ => Err(Error::config(
                    "INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE",
                    format!("LIMIT and OFFSET need a number that is not negative, but got {sql}; write such a number"),
                )),
            }
        };
        let (fetch, skip) = (count(limit)?, count(offset)?.unwrap_or(0));
        relation.plan =
            LogicalPlanBuilder::from(relation.plan).limit(skip, fetch).and_then(LogicalPlanBuilder::build).map_err(from_planning)?;
        Ok(relation)
    }

    /// Applies the generator of a select list, if it has one.
    fn generators<'q>(&self, mut input: Relation, projection: &'q [SelectItem]) -> Result<(Relation, Vec<Item<'q>>)> {
        let mut items = Vec::new();
        let mut seen = false;
        for item in projection {
            let (sql, aliases) = match item {
                SelectItem::UnnamedExpr(sql) => (sql, &[][..]),
                SelectItem::ExprWithAlias { expr, alias } => (expr, std::slice::from_ref(alias)),
                SelectItem::ExprWithAliases { expr, aliases } => (expr, aliases.as_slice()),
                SelectItem::Wildcard(options) => {
                    items.push(Item::Star(None, options));
                    continue;
                }
                SelectItem::QualifiedWildcard(kind, options) => {
                    let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                        return Err(unsupported(&format!("`{item}`"), "give the expression a name in a subquery and expand that"));
                    };
                    items.push(Item::Star(Some(name), options));
                    continue;
                }
            };
            match as_generator(sql) {
                Some(function) => {
                    if seen {
                        return Err(Error::config(
                            "UNSUPPORTED_GENERATOR.MULTI_GENERATOR",
                            "only one generator is allowed in a SELECT; use LATERAL VIEW for the others",
                        ));
                    }
                    seen = true;
                    // `*` before this item must not see the new columns, so they stay out of the scope.
                    let (relation, mut made) = placed(self.generate(input, function, false), function)?;
                    input = relation;
                    name_columns(&mut made, aliases)?;
                    items.push(Item::Columns(made));
                }
                None => items.push(Item::Sql(sql, aliases.first().map(|a| a.value.clone()))),
            }
        }
        Ok((input, items))
    }

    /// The columns of a select list; what an alias stands for is known to the items after it.
    pub(super) fn items(&self, items: &[Item], cx: &Cx) -> Result<Vec<Typed>> {
        let mut out = Vec::new();
        for item in items {
            match item {
                Item::Sql(sql, alias) => {
                    let value = self.expr(sql, cx)?;
                    let Some(alias) = alias else {
                        out.push(value);
                        continue;
                    };
                    if let Some(laterals) = cx.laterals {
                        self.define(laterals, alias, &value, out.len());
                    }
                    out.push(value.named(alias.clone()));
                }
                Item::Columns(cols) => {
                    if let Some(laterals) = cx.laterals {
                        self.define_columns(laterals, cols, out.len());
                    }
                    out.extend(cols.iter().map(ScopeCol::typed));
                }
                Item::Star(None, options) => out.extend(self.star(&Star::of_select_list(vec![], options)?, cx.scope)?),
                Item::Star(Some(name), options) => {
                    let star = Star::of_select_list(names::parts(name), options);
                    out.extend(placed(star.and_then(|star| self.star(&star, cx.scope)), *name)?);
                }
            }
        }
        Ok(out)
    }
}

/// An item of the select list.
pub(super) enum Item<'q> {
    Sql(&'q Sql, Option<String>),
    Star(Option<&'q ObjectName>, &'q WildcardAdditionalOptions),
    Columns(Vec<ScopeCol>),
}

fn scope_col(name: String, alias: String, value: &Typed) -> ScopeCol {
    ScopeCol {
        qualifier: None,
        name,
        column: Column::new_unqualified(alias),
        ty: value.ty.clone(),
        spark_type: value.spark_type.clone(),
        visibility: Visibility::Shown,
    }
}

pub(super) fn name_columns(made: &mut [ScopeCol], aliases: &[datafusion::sql::sqlparser::ast::Ident]) -> Result<()> {
    if aliases.is_empty() {
        return Ok(());
    }
    if aliases.len() != made.len() {
        return Err(Error::config(
            "UDTF_ALIAS_NUMBER_MISMATCH",
            format!(
                "the number of aliases does not match the number of columns that the generator makes: {} and {}",
                aliases.len(),
                made.len()
            ),
        ));
    }
    for (col, alias) in made.iter_mut().zip(aliases) {
        col.name.clone_from(&alias.value);
    }
    Ok(())
}

/// What is sorted by; `ALL` stands for the columns of the result in order.
fn order_keys(order_by: &OrderBy, columns: usize) -> Vec<OrderByExpr> {
    match &order_by.kind {
        OrderByKind::Expressions(keys) => keys.clone(),
        OrderByKind::All(options) => (1..=columns)
            .map(|position| OrderByExpr {
                expr: Sql::Value(Value::Number(position.to_string(), false).into()),
                options: *options,
                with_fill: None,
            })
            .collect(),
    }
}

pub(super) fn project(plan: LogicalPlan, exprs: Vec<Expr>) -> Result<LogicalPlan> {
    Projection::try_new(exprs, Arc::new(plan)).map(LogicalPlan::Projection).map_err(from_planning)
}

pub(super) fn filter(plan: LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    Filter::try_new(condition, Arc::new(plan)).map(LogicalPlan::Filter).map_err(from_planning)
}

fn sort(plan: LogicalPlan, sorts: Vec<SortExpr>) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(plan).sort(sorts).and_then(LogicalPlanBuilder::build).map_err(from_planning)
}
