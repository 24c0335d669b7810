//! Generators in FROM, UNPIVOT and TABLESAMPLE: `FROM explode(array(1, 2)) AS x(c)`,
//! `t, LATERAL inline(t.items) AS i`, `t UNPIVOT (v FOR name IN (a, b))`,
//! `t TABLESAMPLE (10 PERCENT)`.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{LogicalPlanBuilder, Operator};
use datafusion::sql::sqlparser::ast::{
    Expr as Sql, ExprWithAlias, Function, FunctionArg, FunctionArgumentList, FunctionArguments, Ident, JoinConstraint, JoinOperator,
    NullInclusion, ObjectName, TableAlias, TableFactor, TableSampleKind, TableSampleQuantity, TableSampleUnit, Value,
};

use super::expr::Cx;
use super::from::unsupported;
use super::generate::as_generator;
use super::query::{filter, name_columns};
use super::{Analyzer, Finding, Relation, Result, Typed};
use crate::error::from_planning;
use crate::parser::wrong;

impl Analyzer<'_> {
    /// A generator over the rows before it.
    pub(super) fn table_function(
        &self,
        input: Relation,
        name: &ObjectName,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
        outer: bool,
    ) -> Result<Relation> {
        let list = FunctionArgumentList { duplicate_treatment: None, args: args.to_vec(), clauses: vec![] };
        let function = Sql::Function(Function {
            name: name.clone(),
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(list),
            filter: None,
            null_treatment: None,
            over: None,
            within_group: vec![],
        });
        let Some(function) = as_generator(&function) else {
            let remedy = "use explode, posexplode, inline, stack, json_tuple or range";
            return Err(unsupported(&format!("the table function {}", name.to_string().to_ascii_lowercase()), remedy));
        };
        let (mut relation, mut made) = self.generate(input, function, outer)?;
        if let Some(alias) = alias {
            let columns: Vec<Ident> = alias.columns.iter().map(|column| column.name.clone()).collect();
            name_columns(&mut made, &columns)?;
            for col in &mut made {
                col.qualifier = Some(alias.name.value.clone());
            }
        }
        relation.scope.cols.extend(made);
        Ok(relation)
    }

    /// `JOIN LATERAL inline(t.items) AS i`; none if the right side is no generator.
    pub(super) fn join_generator(&self, left: &Relation, right: &TableFactor, operator: &JoinOperator) -> Option<Result<Relation>> {
        let TableFactor::Function { lateral: true, name, args, alias, .. } = right else { return None };
        let (outer, constraint) = match operator {
            JoinOperator::Join(c) | JoinOperator::Inner(c) | JoinOperator::CrossJoin(c) => (false, c),
            JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (true, c),
            _ => return Some(Err(unsupported("this join with LATERAL", "use JOIN LATERAL, CROSS JOIN LATERAL or LEFT JOIN LATERAL"))),
        };
        let is_true = match constraint {
            JoinConstraint::None => true,
            JoinConstraint::On(Sql::Value(value)) => value.value == Value::Boolean(true),
            _ => false,
        };
        if !is_true {
            return Some(Err(unsupported("a condition of JOIN LATERAL other than ON true", "put it into WHERE")));
        }
        Some(self.table_function(left.clone(), name, args, alias.as_ref(), outer))
    }

    /// Some of a table's rows: the first ones, or each by chance.
    pub(super) fn sampled(&self, mut relation: Relation, sample: Option<&TableSampleKind>) -> Result<Relation> {
        let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample else {
            return Ok(relation);
        };
        if relation.streaming {
            self.found(Finding::Sample);
            return Ok(relation);
        }
        let number = |shown: String| shown.parse::<f64>().map_err(|_| wrong(&format!("`{shown}` in TABLESAMPLE is no number")));
        let share = match (&sample.quantity, &sample.bucket) {
            (Some(TableSampleQuantity { value, unit: Some(TableSampleUnit::Rows), .. }), _) => {
                let rows = value.to_string();
                let rows = rows.parse().map_err(|_| wrong(&format!("`{rows}` in TABLESAMPLE is no number of rows")))?;
                let limited = LogicalPlanBuilder::from(relation.plan).limit(0, Some(rows));
                relation.plan = limited.and_then(LogicalPlanBuilder::build).map_err(from_planning)?;
                return Ok(relation);
            }
            (Some(TableSampleQuantity { value, unit: Some(TableSampleUnit::Percent), .. }), _) => number(value.to_string())? / 100.0,
            (_, Some(bucket)) if bucket.on.is_none() => number(bucket.bucket.to_string())? / number(bucket.total.to_string())?,
            _ => return Err(unsupported("this TABLESAMPLE", "use TABLESAMPLE (10 PERCENT) or TABLESAMPLE (5 ROWS)")),
        };
        if !(0.0..=1.0).contains(&share) {
            return Err(wrong(&format!("a share of {share} in TABLESAMPLE is not from 0 to 1")));
        }
        let share = Typed::literal(ScalarValue::Float64(Some(share)), "share");
        let chosen = self.compare(self.build_function("rand", vec![])?, Operator::Lt, share, "<")?;
        relation.plan = filter(relation.plan, chosen.expr)?;
        Ok(relation)
    }

    /// `UNPIVOT (value FOR name IN (a, b AS x))`: a row for each of the columns.
    pub(super) fn unpivot(
        &self,
        input: Relation,
        value: &Sql,
        name: &Ident,
        columns: &[ExprWithAlias],
        nulls: Option<&NullInclusion>,
    ) -> Result<Relation> {
        let Sql::Identifier(value) = value else {
            return Err(unsupported("UNPIVOT of several columns at once", "use stack(n, 'name', a, b, ..) in the select list"));
        };
        let cx = Cx::new(&input.scope, "UNPIVOT");
        let mut args = vec![Typed::int(i32::try_from(columns.len()).unwrap_or(i32::MAX))];
        for column in columns {
            let cell = self.expr(&column.expr, &cx)?;
            if !matches!(cell.expr, datafusion::logical_expr::Expr::Column(_)) {
                return Err(wrong(&format!("`{}` in UNPIVOT is no column", column.expr)));
            }
            let shown = column.alias.as_ref().map_or_else(|| cell.name.clone(), |alias| alias.value.clone());
            args.extend([Typed::string(shown), cell]);
        }
        let used: Vec<_> = args.iter().skip(2).step_by(2).map(|cell| cell.expr.clone()).collect();
        let (rows, fields) = self.stack(args)?;
        let (mut relation, mut made) = self.expand(input, rows, fields, false)?;
        name_columns(&mut made, &[name.clone(), value.clone()])?;
        let cell = made[1].typed();
        relation.scope.cols.retain(|col| !used.contains(&datafusion::logical_expr::Expr::Column(col.column.clone())));
        relation.scope.cols.extend(made);
        if nulls != Some(&NullInclusion::IncludeNulls) {
            relation.plan = filter(relation.plan, cell.expr.is_not_null())?;
        }
        Ok(relation)
    }
}
