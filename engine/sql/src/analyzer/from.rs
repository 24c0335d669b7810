//! FROM: tables, views, CTEs, subqueries, joins, LATERAL VIEW.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::{Column, JoinType, ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableFactor, TableWithJoins,
};
use weir_core::Error;
use weir_core::columns::HIDDEN_KEY;

use super::aggregate::OBSERVATION;
use super::binary::BesideNull;
use super::expr::Cx;
use super::scope::Visibility;
use super::{Analyzer, Finding, Relation, Result, Scope, ScopeCol, Typed, names, range};
use crate::cast::CastMode;
use crate::error::{from_planning, placed};
use crate::exec::{AggregateSpec, ObserveNode, Observer};
use crate::types::canonical;
use crate::udf::Rows;

/// How `weir sql` is told of a table.
fn by_argument(name: &str) -> String {
    let name = if name.chars().all(|c| c.is_alphanumeric() || c == '_') { name } else { "t" };
    format!(
        "say where it is with --table {name}=FORMAT:PATH, for example --table {name}=delta:/data/x, read it as delta.`/data/x`, or as \
         schema.name with --catalog NAME=WAREHOUSE"
    )
}

impl Analyzer<'_> {
    /// The relation of a FROM clause; one row without columns if there is none.
    pub(super) fn from(&self, from: &[TableWithJoins]) -> Result<Relation> {
        let mut found: Option<Relation> = None;
        for item in from {
            let lateral = match (&item.relation, found.as_ref()) {
                (factor @ TableFactor::Function { lateral: true, .. }, Some(left)) => {
                    self.join_generator(left, factor, &JoinOperator::CrossJoin(JoinConstraint::None))
                }
                _ => None,
            };
            let is_lateral = lateral.is_some();
            let mut relation = match lateral {
                Some(relation) => placed(relation, &item.relation)?,
                None => self.factor(&item.relation)?,
            };
            for join in &item.joins {
                relation = placed(self.join(relation, join), join)?;
            }
            found = Some(match found {
                Some(left) if !is_lateral => self.join_on(left, relation, JoinType::Inner, "Cross", |_, _| Ok(None))?,
                _ => relation,
            });
        }
        match found {
            Some(relation) => Ok(relation),
            None => self.one_row(),
        }
    }

    /// One row without columns.
    fn one_row(&self) -> Result<Relation> {
        let one = Expr::Literal(ScalarValue::Boolean(Some(true)), None).alias(self.fresh("one"));
        let plan = LogicalPlanBuilder::empty(true).project(vec![one]).and_then(LogicalPlanBuilder::build).map_err(from_planning)?;
        Ok(Relation { plan, scope: Scope::default(), streaming: false, aggregated: false, filtered: false, fallible: false })
    }

    fn factor(&self, factor: &TableFactor) -> Result<Relation> {
        placed(self.factor_of_kind(factor), factor)
    }

    fn factor_of_kind(&self, factor: &TableFactor) -> Result<Relation> {
        match factor {
            TableFactor::Table { name, alias, sample, args: None, .. } => {
                let relation = self.sampled(self.named_table(name)?, sample.as_ref())?;
                self.aliased(relation, alias.as_ref(), Some(names::parts(name).pop().unwrap_or_default()))
            }
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                let text = name.to_string().to_ascii_lowercase();
                if text == "identifier" {
                    let scope = Scope::default();
                    let name = self.identifier(&self.table_args(&args.args, &Cx::new(&scope, "FROM"))?)?;
                    let own = name.last().cloned();
                    let name = ObjectName::from(name.into_iter().map(Ident::new).collect::<Vec<_>>());
                    return self.aliased(self.named_table(&name)?, alias.as_ref(), own);
                }
                if text == "range" {
                    let args: Vec<_> = args.args.iter().map(ToString::to_string).collect();
                    return self.aliased(self.range(&args)?, alias.as_ref(), None);
                }
                self.table_function(self.one_row()?, name, &args.args, alias.as_ref(), false)
            }
            TableFactor::Function { name, args, alias, .. } => self.table_function(self.one_row()?, name, args, alias.as_ref(), false),
            TableFactor::Unpivot { table, value, name, columns, null_inclusion, alias } => {
                let relation = self.unpivot(self.factor(table)?, value, name, columns, null_inclusion.as_ref())?;
                self.aliased(relation, alias.as_ref(), None)
            }
            TableFactor::Derived { subquery, alias, lateral: false, sample } => {
                let relation = self.sampled(self.query(subquery)?, sample.as_ref())?;
                self.aliased(relation, alias.as_ref(), None)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let relation = self.from(std::slice::from_ref(table_with_joins))?;
                match alias {
                    Some(_) => self.aliased(relation, alias.as_ref(), None),
                    None => Ok(relation),
                }
            }
            other => Err(unsupported(&format!("`{other}` in FROM"), "use a table, a view or a subquery")),
        }
    }

    fn table_args(&self, args: &[FunctionArg], cx: &Cx) -> Result<Vec<Typed>> {
        let exprs = args.iter().map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(sql)) => Ok(sql),
            other => Err(crate::parser::wrong(&format!("unexpected `{other}` in FROM"))),
        });
        self.arguments(exprs.collect::<Result<Vec<_>>>()?, cx)
    }

    /// `TABLE name`: its columns as `SELECT *` gives them.
    pub(super) fn whole_table(&self, name: &str) -> Result<Relation> {
        let mut relation = self.named_table(&ObjectName::from(vec![Ident::new(name)]))?;
        relation.scope.cols.retain(ScopeCol::is_shown);
        self.aliased(relation, None, Some(name.to_owned()))
    }

    fn range(&self, args: &[String]) -> Result<Relation> {
        let numbers: Vec<i64> = args.iter().filter_map(|a| a.trim_end_matches(['L', 'l']).parse().ok()).collect();
        let (start, end, step) = match numbers.as_slice() {
            [end] => (0, *end, 1),
            [start, end] => (*start, *end, 1),
            [start, end, step, ..] if *step != 0 => (*start, *end, *step),
            _ => return Err(Error::config("WRONG_NUM_ARGS.WITHOUT_SUGGESTION", "range takes 1 to 3 integers")),
        };
        let table = range::table(start, end, step).map_err(from_planning)?;
        self.scan(Arc::new(table), None)
    }

    /// A relation under its alias, with column aliases if there are any.
    fn aliased(&self, mut relation: Relation, alias: Option<&TableAlias>, own: Option<String>) -> Result<Relation> {
        let name = alias.map(|a| a.name.value.clone()).or(own);
        if let Some(name) = name {
            relation.scope = relation.scope.qualified(&name);
        }
        if let Some(alias) = alias.filter(|a| !a.columns.is_empty()) {
            let shown = relation.scope.shown().count();
            if alias.columns.len() != shown {
                return Err(Error::config(
                    "ASSIGNMENT_ARITY_MISMATCH",
                    format!(
                        "the number of column aliases does not match the number of columns: {} and {}; write one alias a column",
                        alias.columns.len(),
                        shown
                    ),
                ));
            }
            for (col, alias) in relation.scope.cols.iter_mut().filter(|col| col.is_shown()).zip(&alias.columns) {
                col.name.clone_from(&alias.name.value);
            }
        }
        Ok(relation)
    }

    fn named_table(&self, name: &ObjectName) -> Result<Relation> {
        let parts = names::parts(name);
        let full = parts.join(".");
        let same = |other: &str| {
            if self.conf.case_sensitive { other == full } else { other.eq_ignore_ascii_case(&full) }
        };
        let cte = self.ctes.borrow().iter().find(|(n, _)| same(n)).map(|(_, c)| Arc::clone(c));
        if let Some(cte) = cte {
            let outer = self.ctes.replace(cte.visible.clone());
            let around = self.outer.take();
            let relation = self.query(&cte.query);
            self.outer.replace(around);
            self.ctes.replace(outer);
            let mut relation = relation?;
            for (col, name) in relation.scope.cols.iter_mut().zip(&cte.columns) {
                col.name.clone_from(name);
            }
            return Ok(relation);
        }
        let relation = if let Some((name, query)) = self.catalog.views.iter().find(|(n, _)| same(n)) {
            if self.open_views.borrow().contains(name) {
                return Err(Error::config("RECURSIVE_VIEW", format!("the view {name} uses itself; read a source or another view in it")));
            }
            self.grow_by_view(name)?;
            let before = self.steps.get();
            self.open_views.borrow_mut().push(name.clone());
            let outer = self.ctes.replace(Default::default());
            let around = self.outer.take();
            let relation = self.query(query);
            self.outer.replace(around);
            self.ctes.replace(outer);
            self.open_views.borrow_mut().pop();
            self.view_steps.borrow_mut().entry(name.clone()).or_insert(self.steps.get() - before);
            relation.map_err(|e| e.in_field(view_field(name)).context(format!("view {name}")))?
        } else if let Some(table) = self.catalog.tables.iter().find(|t| same(&t.name)) {
            if let Some(stream) = table.stream {
                let mut used = self.used_streams.borrow_mut();
                if !used.contains(&stream) {
                    used.push(stream);
                }
            }
            self.scan(Arc::clone(&table.provider), table.stream)?
        } else {
            return Err(self.table_not_found(&full));
        };
        self.observe(relation, &full)
    }

    fn table_not_found(&self, name: &str) -> Error {
        let mut known: Vec<(usize, &str)> = self
            .catalog
            .tables
            .iter()
            .map(|t| t.name.as_str())
            .chain(self.catalog.views.iter().map(|(n, _)| n.as_str()))
            .map(|n| (strsim::damerau_levenshtein(&name.to_lowercase(), &n.to_lowercase()), n))
            .collect();
        known.sort_unstable();
        let all = known.iter().map(|(_, n)| format!("`{n}`")).collect::<Vec<_>>().join(", ");
        let in_job = self.catalog.tables.iter().any(|t| t.stream.is_some());
        let hint = match (known.first(), in_job) {
            (Some((distance, nearest)), _) if *distance <= name.chars().count().div_ceil(2) => {
                format!("; did you mean `{nearest}`? Known are {all}")
            }
            (_, true) => format!(
                "; known are {all}: use one of them, declare it under the query's sources, tables or views, or write schema.name of spec.catalogs"
            ),
            (None, false) => format!("; {}", by_argument(name)),
            (Some(_), false) => format!("; known are {all}: use one of them, or {}", by_argument(name)),
        };
        Error::config("TABLE_OR_VIEW_NOT_FOUND", format!("the table or view `{name}` cannot be found{hint}"))
    }

    /// A scan whose columns have unique names and canonical types.
    fn scan(&self, provider: Arc<dyn TableProvider>, stream: Option<usize>) -> Result<Relation> {
        let alias = self.fresh("t");
        let schema = provider.schema();
        let builder = LogicalPlanBuilder::scan(alias.clone(), provider_as_source(provider), None).map_err(from_planning)?;
        let mut exprs = Vec::new();
        let mut cols = Vec::new();
        for field in schema.fields() {
            let ty = canonical(field.data_type()).ok_or_else(|| {
                Error::config(
                    "UNSUPPORTED_DATATYPE",
                    format!(
                        "the column {} has the type {}, which Spark SQL does not have; give the column another type where it is written",
                        field.name(),
                        field.data_type()
                    ),
                )
            })?;
            let column = Expr::Column(Column::new(Some(TableReference::bare(alias.as_str())), field.name()));
            let expr = if field.data_type() == &ty {
                column
            } else {
                let target = ty.clone();
                let raw = Typed::new(column, ty.clone(), field.name().clone());
                self.call("canonical", "", ty.clone(), &[raw], move |rows: Rows| {
                    crate::functions::nested::to_canonical(&rows.args[0], &target)
                })
                .expr
            };
            let name = self.fresh("c");
            exprs.push(expr.alias(&name));
            cols.push(ScopeCol {
                qualifier: None,
                name: field.name().clone(),
                column: Column::new_unqualified(name),
                ty,
                spark_type: field.metadata().get(crate::types::SPARK_TYPE_KEY).cloned(),
                visibility: if field.metadata().contains_key(HIDDEN_KEY) { Visibility::Metadata } else { Visibility::Shown },
            });
        }
        let plan = builder.project(exprs).and_then(LogicalPlanBuilder::build).map_err(from_planning)?;
        Ok(Relation { plan, scope: Scope { cols }, streaming: stream.is_some(), aggregated: false, filtered: false, fallible: false })
    }

    /// Puts the observations of this view into the plan, each once.
    fn observe(&self, mut relation: Relation, name: &str) -> Result<Relation> {
        for observation in &self.catalog.observations {
            if !observation.view.eq_ignore_ascii_case(name) || self.observed.borrow().iter().any(|o| o.name == observation.name) {
                continue;
            }
            let calls = std::cell::RefCell::new(Vec::new());
            let cx = Cx { aggregates: Some(&calls), ..Cx::new(&relation.scope, OBSERVATION) };
            let mut outputs = Vec::new();
            for (metric, sql) in &observation.metrics {
                let value = self
                    .expr(sql, &cx)
                    .and_then(|v| self.over_groups(v, &[], &relation.scope))
                    .map_err(|e| e.in_field(metric_field(&observation.name, metric)))
                    .map_err(|e| e.context(format!("observation {}, metric {metric}", observation.name)))?;
                outputs.push((metric.clone(), value.expr, value.spark_type));
            }
            let calls = calls.into_inner();
            let index = self.observed.borrow().len();
            let node = ObserveNode { input: relation.plan.clone(), index, aggregates: calls.iter().map(|c| c.expr.clone()).collect() };
            self.observed.borrow_mut().push(Observer {
                name: observation.name.clone(),
                aggregates: calls.into_iter().map(|c| AggregateSpec { name: c.name, expr: c.expr }).collect(),
                outputs,
                input: Arc::clone(relation.plan.schema()),
            });
            relation.plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
        }
        Ok(relation)
    }

    fn join(&self, left: Relation, join: &Join) -> Result<Relation> {
        if let Some(joined) = self.join_generator(&left, &join.relation, &join.join_operator) {
            return joined;
        }
        let right = self.factor(&join.relation)?;
        let (kind, shown, constraint) = match &join.join_operator {
            JoinOperator::Join(c) | JoinOperator::Inner(c) => (JoinType::Inner, "Inner", c),
            JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (JoinType::Left, "LeftOuter", c),
            JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (JoinType::Right, "RightOuter", c),
            JoinOperator::FullOuter(c) => (JoinType::Full, "FullOuter", c),
            JoinOperator::CrossJoin(c) => (JoinType::Inner, "Cross", c),
            JoinOperator::Semi(c) | JoinOperator::LeftSemi(c) => (JoinType::LeftSemi, "LeftSemi", c),
            JoinOperator::Anti(c) | JoinOperator::LeftAnti(c) => (JoinType::LeftAnti, "LeftAnti", c),
            other => return Err(unsupported(&format!("{other:?}"), "use INNER, LEFT, RIGHT, FULL, CROSS, LEFT SEMI or LEFT ANTI JOIN")),
        };
        let using: Vec<String> = match constraint {
            JoinConstraint::Using(columns) => columns.iter().map(|c| names::parts(c).join(".")).collect(),
            JoinConstraint::Natural => left
                .scope
                .shown()
                .filter(|l| right.scope.shown().any(|r| r.name.eq_ignore_ascii_case(&l.name)))
                .map(|l| l.name.clone())
                .collect(),
            _ => vec![],
        };
        if using.is_empty() {
            return self.join_on(left, right, kind, shown, |this, cx| match constraint {
                JoinConstraint::On(on) => Ok(Some(this.boolean(this.expr(on, cx)?)?)),
                _ => Ok(None),
            });
        }
        let pick = |scope: &Scope, name: &String| -> Result<Typed> {
            match scope.resolve(std::slice::from_ref(name), self.conf.case_sensitive)? {
                super::scope::Resolved::Column(col, _) => Ok(col.typed()),
                super::scope::Resolved::Missing => Err(scope.unresolved(std::slice::from_ref(name))),
            }
        };
        let mut pairs = Vec::new();
        for name in &using {
            pairs.push((name.clone(), pick(&left.scope, name)?, pick(&right.scope, name)?));
        }
        let on = pairs.clone();
        let mut joined = self.join_on(left, right, kind, shown, move |this, _| {
            let mut all: Option<Typed> = None;
            for (_, l, r) in on {
                let equal = this.compare_keys(l, datafusion::logical_expr::Operator::Eq, r, "=", BesideNull::Looks)?;
                all = Some(match all {
                    None => equal,
                    Some(before) => this.and(before, equal)?,
                });
            }
            Ok(all)
        })?;
        // The joined columns come first and once.
        let mut merged = Vec::new();
        for (name, l, r) in pairs {
            let value = match kind {
                JoinType::Right => r.clone(),
                JoinType::Full => crate::functions::build(self, "coalesce", vec![l.clone(), r.clone()]).unwrap_or_else(|| Ok(l.clone()))?,
                _ => l.clone(),
            };
            for col in &mut joined.scope.cols {
                let column = Expr::Column(col.column.clone());
                if column == l.expr || column == r.expr {
                    col.visibility = Visibility::OtherSide;
                }
            }
            merged.push((name, value));
        }
        let mut exprs: Vec<Expr> = joined.plan.schema().columns().into_iter().map(Expr::Column).collect();
        let mut cols = Vec::new();
        for (name, value) in merged {
            let alias = self.fresh("c");
            exprs.push(value.expr.alias(&alias));
            cols.push(ScopeCol {
                qualifier: None,
                name,
                column: Column::new_unqualified(alias),
                ty: value.ty,
                spark_type: value.spark_type,
                visibility: Visibility::Shown,
            });
        }
        cols.append(&mut joined.scope.cols);
        joined.scope.cols = cols;
        joined.plan = LogicalPlanBuilder::from(joined.plan).project(exprs).and_then(LogicalPlanBuilder::build).map_err(from_planning)?;
        Ok(joined)
    }

    pub(super) fn join_on(
        &self,
        left: Relation,
        right: Relation,
        kind: JoinType,
        shown: &'static str,
        condition: impl FnOnce(&Self, &Cx) -> Result<Option<Typed>>,
    ) -> Result<Relation> {
        match (left.streaming, right.streaming) {
            (true, true) => self.found(Finding::StreamStreamJoin(shown)),
            (true, false) if matches!(kind, JoinType::Right | JoinType::Full) => self.found(Finding::StaticOuterJoin(shown)),
            (false, true) if !matches!(kind, JoinType::Inner | JoinType::Right) => self.found(Finding::StaticOuterJoin(shown)),
            _ => {}
        }
        let both = Scope { cols: left.scope.cols.iter().chain(&right.scope.cols).cloned().collect() };
        let on = condition(self, &Cx::new(&both, "JOIN"))?;
        let on_exprs: Vec<Expr> = match on {
            Some(on) => vec![on.expr],
            None => vec![Expr::Literal(ScalarValue::Boolean(Some(true)), None)],
        };
        let plan = LogicalPlanBuilder::from(left.plan)
            .join_on(right.plan, kind, on_exprs)
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_planning)?;
        let scope = if matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti) { left.scope } else { both };
        Ok(Relation {
            plan,
            scope,
            streaming: left.streaming || right.streaming,
            aggregated: left.aggregated || right.aggregated,
            filtered: left.filtered || right.filtered,
            fallible: left.fallible || right.fallible,
        })
    }

    /// The mode in which set operations bring columns together.
    pub(super) fn set_mode(&self) -> CastMode {
        self.cast_mode()
    }
}

/// The path of a view's SQL in the definition of its query.
pub fn view_field(view: &str) -> String {
    format!("views[{view}].sql")
}

/// The path of a metric's expression in the definition of its query.
pub fn metric_field(observation: &str, metric: &str) -> String {
    format!("observe[{observation}].metrics[{metric}].expr")
}

/// The error for syntax that Weir does not run.
pub fn unsupported(what: &str, remedy: &str) -> Error {
    Error::config("WEIR_UNSUPPORTED_SQL", format!("{what} is not supported; {remedy}"))
}
