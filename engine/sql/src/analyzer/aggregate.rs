//! Aggregate functions and GROUP BY.
//!
//! While the select list is analysed, aggregate calls are collected and stand
//! as columns; afterwards every part that equals a grouping expression becomes
//! that group's column, and what is then left of the input is an error.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{AggregateUDF, Expr, SortExpr};
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr as Sql, Function, FunctionArg, FunctionArgExpr, FunctionArguments, NullTreatment, Query, Visit, Visitor,
};
use weir_core::Error;

use super::expr::Cx;
use super::orderable::{check_order, contains_map};
use super::star::{Star, table_columns};
use super::{Analyzer, Finding, Result, Scope, Typed, coerce, names};
use crate::functions::arithmetic::Overflow;
use crate::functions::sums::{self, Made};
use crate::parser::wrong;
use crate::types::{day_time_interval, list_of, quoted_type, year_month_interval};

/// The clause of an observation's metrics, whose rows pass and are not kept.
pub const OBSERVATION: &str = "an observation";

/// One collected aggregate call.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// The column that stands for it.
    pub name: String,
    /// The call.
    pub expr: Expr,
}

/// A call in the engine's terms, before it is known what it is computed over.
pub(super) struct Call {
    /// The engine's function.
    pub function: Arc<AggregateUDF>,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// Whether equal arguments count once.
    pub distinct: bool,
    /// The rows that count.
    pub filter: Option<Expr>,
    /// The order that the function sees its rows in.
    pub order_by: Vec<SortExpr>,
}

/// The aggregate functions, by Spark's names.
pub const NAMES: &[&str] = &[
    "count",
    "sum",
    "avg",
    "mean",
    "min",
    "max",
    "first",
    "first_value",
    "any_value",
    "last",
    "last_value",
    "collect_list",
    "array_agg",
    "collect_set",
    "approx_count_distinct",
    "stddev",
    "stddev_samp",
    "std",
    "stddev_pop",
    "variance",
    "var_samp",
    "var_pop",
    "count_if",
    "bool_and",
    "every",
    "bool_or",
    "some",
    "any",
    "corr",
    "covar_pop",
    "covar_samp",
    "median",
    "listagg",
    "string_agg",
    "percentile",
    "percentile_approx",
    "approx_percentile",
    "try_sum",
    "try_avg",
    "max_by",
    "min_by",
    "bit_and",
    "bit_or",
    "bit_xor",
];

/// Those that give one of the values, and may be told to leave nulls out.
const ONE_OF_ALL: &[&str] = &["first", "first_value", "any_value", "last", "last_value"];

/// Those that keep every value.
const BY_RANK: &[&str] = &["percentile", "percentile_approx", "approx_percentile"];

/// `first(x, true)` or `first(x) IGNORE NULLS`.
fn ignores_nulls(name: &str, told: Option<&Typed>, treatment: Option<&NullTreatment>) -> Result<bool> {
    match told {
        None => Ok(treatment == Some(&NullTreatment::IgnoreNulls)),
        Some(told) => match told.value() {
            Some(ScalarValue::Boolean(Some(ignores))) => Ok(*ignores),
            _ => Err(Error::config(
                "_LEGACY_ERROR_TEMP_1210",
                format!("the second argument of {name} should be a boolean literal, but is \"{}\"; write true or false", told.name),
            )),
        },
    }
}

/// Whether a function is an aggregate.
pub fn is_aggregate(name: &str) -> bool {
    NAMES.contains(&name)
}

fn udaf(name: &str) -> Option<Arc<AggregateUDF>> {
    datafusion::functions_aggregate::all_default_aggregate_functions()
        .into_iter()
        .find(|f| f.name() == name || f.aliases().iter().any(|a| a == name))
}

impl Analyzer<'_> {
    /// Analyses an aggregate call and returns the column that stands for it.
    pub(super) fn aggregate_call(&self, name: &str, function: &Function, cx: &Cx) -> Result<Typed> {
        let Some(calls) = cx.aggregates else {
            return Err(Error::config(
                if cx.clause == "WHERE" { "INVALID_WHERE_CONDITION" } else { "MISSING_GROUP_BY" },
                format!("the aggregate function {name} cannot be used in {}", cx.clause),
            ));
        };
        let inner = Cx::new(cx.scope, "the arguments of an aggregate function");
        self.aggregate_of(name, function, &inner, |call| {
            let Call { function, args, distinct, filter, order_by } = call;
            if cx.clause == OBSERVATION && (!order_by.is_empty() || BY_RANK.contains(&name)) {
                return Err(super::from::unsupported(&format!("{name} in an observation"), "observe max or min"));
            }
            let expr = Expr::AggregateFunction(AggregateFunction::new_udf(function, args, distinct, filter.map(Box::new), order_by, None));
            let mut calls = calls.borrow_mut();
            let column = match calls.iter().find(|c| c.expr == expr) {
                Some(known) => known.name.clone(),
                None => {
                    let column = self.fresh("agg");
                    calls.push(AggregateCall { name: column.clone(), expr });
                    column
                }
            };
            Ok(Expr::Column(Column::new_unqualified(column)))
        })
    }

    /// Analyses a call; `computed` gives the column that stands for it.
    pub(super) fn aggregate_of(
        &self,
        name: &str,
        function: &Function,
        inner: &Cx,
        computed: impl FnOnce(Call) -> Result<Expr>,
    ) -> Result<Typed> {
        let (mut args, mut distinct) = (Vec::new(), false);
        if let FunctionArguments::List(list) = &function.args {
            distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
            for arg in &list.args {
                let FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) = arg else {
                    return Err(wrong(&format!("unexpected `{arg}` in {name}")));
                };
                match Star::of_argument(e).transpose()? {
                    Some(star) if name == "count" && list.args.len() == 1 => args.extend(self.counted(&star, distinct, inner)?),
                    Some(star) => args.extend(self.star_of(&star, inner)?),
                    None => args.push(self.expr(e, inner)?),
                }
            }
        }
        if distinct {
            self.found(Finding::DistinctAggregate);
        }
        let shown = names::call(name, args.iter().map(|a| a.name.as_str()));
        let shown = if distinct { shown.replacen('(', "(DISTINCT ", 1) } else { shown };
        let filter = match &function.filter {
            Some(filter) => Some(self.boolean(self.expr(filter, inner)?)?),
            None => None,
        };
        let (least, most) = match name {
            "count" => (1, usize::MAX),
            "corr" | "covar_pop" | "covar_samp" | "max_by" | "min_by" => (2, 2),
            "approx_count_distinct" => (1, 2),
            _ if ONE_OF_ALL.contains(&name) => (1, 2),
            _ if BY_RANK.contains(&name) => (2, 3),
            "listagg" | "string_agg" => (1, 2),
            _ => (1, 1),
        };
        crate::functions::args::count(name, &args, least, most)?;
        let ignores_nulls = ONE_OF_ALL.contains(&name) && ignores_nulls(name, args.get(1), function.null_treatment.as_ref())?;
        let arg_ty = args[0].ty.clone();
        let units = args[0].spark_type.clone();
        let summand = |this: &Self, arg: &Typed| -> Result<Typed> {
            match &arg.ty {
                DataType::Int8 | DataType::Int16 | DataType::Int32 => this.cast(arg.clone(), &DataType::Int64),
                DataType::Float32 | DataType::Utf8 | DataType::Null => this.cast(arg.clone(), &DataType::Float64),
                t if coerce::is_numeric(t) || *t == day_time_interval() || *t == year_month_interval() => Ok(arg.clone()),
                t => Err(Error::config(
                    "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
                    format!("{name} requires a number or an interval, but \"{}\" is {}; CAST it", arg.name, quoted_type(t)),
                )),
            }
        };
        let double = |this: &Self, arg: &Typed| this.cast(arg.clone(), &DataType::Float64);
        let mut own = None;
        // DataFusion's function, its arguments, the type Spark gives the result.
        let (df, df_args, ty): (&str, Vec<Typed>, DataType) = match name {
            "count" if args.len() > 1 && distinct => {
                let named = args.iter().enumerate().flat_map(|(at, arg)| [Typed::string(format!("col{at}")), arg.clone()]);
                ("count", vec![self.build_function("named_struct", named.collect())?], DataType::Int64)
            }
            "count" => ("count", vec![args[0].clone()], DataType::Int64),
            "count_if" => {
                let condition = self.boolean(args[0].clone())?;
                let one = Typed::literal(ScalarValue::Int64(Some(1)), "1");
                ("count", vec![self.branches(vec![condition], vec![one])?], DataType::Int64)
            }
            "sum" | "try_sum" => {
                let arg = summand(self, &args[0])?;
                let ty = match &arg.ty {
                    DataType::Decimal128(p, s) => coerce::bounded(i32::from(*p) + 10, i32::from(*s)),
                    t => t.clone(),
                };
                own = Some(sums::function(Made::Sum, Overflow::of(name == "try_sum", self.conf.ansi), &arg.ty, &ty));
                (name, vec![arg], ty)
            }
            "avg" | "mean" | "try_avg" => {
                let arg = summand(self, &args[0])?;
                let (arg, ty) = match &arg.ty {
                    DataType::Decimal128(p, s) => {
                        let ty = coerce::bounded(i32::from(*p) + 4, i32::from(*s) + 4);
                        (arg, ty)
                    }
                    t if coerce::is_interval(t) => (arg.clone(), t.clone()),
                    _ => (self.cast(arg, &DataType::Float64)?, DataType::Float64),
                };
                own = Some(sums::function(Made::Mean, Overflow::of(name == "try_avg", self.conf.ansi), &arg.ty, &ty));
                (name, vec![arg], ty)
            }
            "collect_set" if contains_map(&arg_ty) => {
                return Err(Error::config(
                    "DATATYPE_MISMATCH.UNSUPPORTED_INPUT_TYPE",
                    format!("cannot resolve \"{shown}\": collect_set cannot take {}; use collect_list", quoted_type(&arg_ty)),
                ));
            }
            "min" | "max" => {
                check_order(name, &shown, &arg_ty)?;
                (name, vec![args[0].clone()], arg_ty)
            }
            "first" | "first_value" | "any_value" => ("first_value", vec![args[0].clone()], arg_ty),
            "last" | "last_value" => ("last_value", vec![args[0].clone()], arg_ty),
            "collect_list" | "array_agg" | "collect_set" => ("array_agg", vec![args[0].clone()], list_of(arg_ty)),
            "approx_count_distinct" => ("approx_distinct", vec![args[0].clone()], DataType::Int64),
            "stddev" | "stddev_samp" | "std" => ("stddev", vec![double(self, &args[0])?], DataType::Float64),
            "stddev_pop" => ("stddev_pop", vec![double(self, &args[0])?], DataType::Float64),
            "variance" | "var_samp" => ("var", vec![double(self, &args[0])?], DataType::Float64),
            "var_pop" => ("var_pop", vec![double(self, &args[0])?], DataType::Float64),
            "bool_and" | "every" => ("bool_and", vec![self.boolean(args[0].clone())?], DataType::Boolean),
            "bool_or" | "some" | "any" => ("bool_or", vec![self.boolean(args[0].clone())?], DataType::Boolean),
            "max_by" | "min_by" => {
                check_order(name, &shown, &args[1].ty)?;
                ("first_value", vec![args[0].clone()], arg_ty)
            }
            "bit_and" | "bit_or" | "bit_xor" => {
                if !coerce::is_integral(&arg_ty) {
                    return Err(crate::functions::args::wrong_type(name, &args[0], "an integer"));
                }
                (name, vec![args[0].clone()], arg_ty)
            }
            "listagg" | "string_agg" => ("array_agg", vec![self.cast(args[0].clone(), &DataType::Utf8)?], list_of(DataType::Utf8)),
            name if BY_RANK.contains(&name) => {
                let (function, number, ty) = crate::functions::percentile::build(self, name, &args)?;
                own = Some(function);
                (name, vec![number], ty)
            }
            "median" => ("median", vec![double(self, &args[0])?], DataType::Float64),
            "corr" | "covar_pop" | "covar_samp" => (name, vec![double(self, &args[0])?, double(self, &args[1])?], DataType::Float64),
            other => return Err(super::special::unresolved_routine(other)),
        };
        let null = df_args[0].ty == DataType::Null;
        let df_args = if null && name != "count" {
            df_args.into_iter().map(|a| self.cast(a, &DataType::Int32)).collect::<Result<Vec<_>>>()?
        } else {
            df_args
        };
        let within_group = &function.within_group;
        let separator = args.get(1).cloned().unwrap_or_else(|| Typed::string(""));
        let function = own
            .or_else(|| udaf(df))
            .ok_or_else(|| Error::config("UNRESOLVED_ROUTINE", format!("there is no aggregate function {df}; use another")))?;
        // Spark leaves nulls out of collected arrays.
        let collecting = matches!(name, "collect_list" | "array_agg" | "collect_set");
        let joining = matches!(name, "listagg" | "string_agg");
        let needed: &[Typed] = match name {
            _ if collecting || joining || ignores_nulls => &args[..1],
            "count" if args.len() > 1 => &args,
            "max_by" | "min_by" => &args[1..],
            _ => &[],
        };
        let not_null = needed.iter().map(|arg| Expr::IsNotNull(Box::new(arg.expr.clone()))).reduce(Expr::and);
        // The first value by the other argument, among the rows that have it.
        let order_by = match name {
            _ if joining => {
                let keys = within_group.iter();
                keys.map(|key| self.sort_expr(self.expr(&key.expr, inner)?, key)).collect::<Result<_>>()?
            }
            _ if !within_group.is_empty() => {
                return Err(super::from::unsupported(&format!("WITHIN GROUP beside {name}"), "use listagg, or percentile(value, share)"));
            }
            "max_by" | "min_by" => vec![SortExpr::new(self.comparable(args[1].clone()).expr, name == "min_by", false)],
            _ => vec![],
        };
        let filter = match (filter.map(|f| f.expr), not_null) {
            (Some(a), Some(b)) => Some(a.and(b)),
            (a, b) => a.or(b),
        };
        let df_fields: Vec<FieldRef> = df_args.iter().map(|a| Arc::new(Field::new(&a.name, a.ty.clone(), true))).collect();
        let df_ty = function.return_field(&df_fields).map_err(crate::error::from_planning)?.data_type().clone();
        let args = df_args.into_iter().map(|a| a.expr).collect();
        let column = computed(Call { function, args, distinct: distinct || name == "collect_set", filter, order_by })?;
        let mut value = Typed::new(column, df_ty.clone(), shown);
        if joining {
            let name = value.name.clone();
            value = self.build_function("array_join", vec![value, separator])?.named(name);
        } else if collecting {
            // Spark gives an empty array where DataFusion gives null.
            let result = ty.clone();
            value = Typed {
                name: value.name.clone(),
                ..self.call("empty_for_null", "", result, &[value.clone()], |rows| crate::functions::nested::empty_for_null(&rows.args[0]))
            };
        } else if df_ty == DataType::UInt64 {
            value = Typed {
                name: value.name.clone(),
                ..self.call("bigint", "", ty.clone(), &[value.clone()], move |rows| Ok(arrow::compute::cast(&rows.args[0], &ty)?))
            };
        } else if df_ty != ty {
            value = self.cast(value, &ty)?;
        }
        if matches!(name, "sum" | "try_sum") {
            // The units of an interval stay.
            value.spark_type = units;
        }
        Ok(value)
    }

    /// What `count(*)`, `count(DISTINCT *)` or `count(d.*)` counts.
    fn counted(&self, star: &Star, distinct: bool, cx: &Cx) -> Result<Vec<Typed>> {
        if star.is_all() && !distinct {
            return Ok(vec![Typed::literal(ScalarValue::Int64(Some(1)), "1")]);
        }
        if let Some(table) = star.qualifier.last()
            && !table_columns(cx.scope, table).is_empty()
        {
            return Err(Error::config(
                "INVALID_USAGE_OF_STAR_WITH_TABLE_IDENTIFIER_IN_COUNT",
                format!("count({table}.*) is not allowed; use count(*), or name the columns as in count(col1, col2)"),
            ));
        }
        self.star_of(star, cx)
    }

    /// Replaces the parts that are grouping expressions by their columns and
    /// refuses what is then left of the input.
    pub(super) fn over_groups(&self, value: Typed, groups: &[(Typed, String)], input: &Scope) -> Result<Typed> {
        let expr = value
            .expr
            .transform_down(|e| {
                Ok(match groups.iter().find(|(g, _)| g.expr == e) {
                    Some((_, name)) => Transformed::new(Expr::Column(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump),
                    None => Transformed::no(e),
                })
            })
            .map_err(crate::error::from_planning)?
            .data;
        let left = RefCell::new(None);
        expr.apply(|e| {
            if let Expr::Column(column) = e
                && let Some(col) = input.cols.iter().find(|c| &c.column == column)
            {
                *left.borrow_mut() = Some(col.name.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .map_err(crate::error::from_planning)?;
        if let Some(name) = left.into_inner() {
            return Err(Error::config(
                "MISSING_AGGREGATION",
                format!(
                    "the non-aggregating expression \"{name}\" is based on columns that are not in GROUP BY; add it there or wrap it in any_value()"
                ),
            ));
        }
        Ok(Typed { expr, ..value })
    }
}

/// Whether a syntax tree calls an aggregate function.
pub fn contains_aggregate(sql: &Sql) -> bool {
    let mut calls = AggregateCalls { queries: 0, found: false };
    let _ = sql.visit(&mut calls);
    calls.found
}

/// Looks for aggregate calls; those of a subquery are its own.
struct AggregateCalls {
    queries: usize,
    found: bool,
}

impl Visitor for AggregateCalls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, e: &Sql) -> ControlFlow<()> {
        if let Sql::Function(f) = e
            && self.queries == 0
            && f.over.is_none()
            && is_aggregate(&f.name.to_string().to_ascii_lowercase())
            && !matches!(&f.args, FunctionArguments::List(l) if l.args.iter().any(|a| matches!(a, FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) if super::lambda::as_lambda(e).is_some())))
        {
            self.found = true;
        }
        ControlFlow::Continue(())
    }
}
