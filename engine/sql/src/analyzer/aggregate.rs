//! Aggregate functions and GROUP BY.
//!
//! While the select list is analysed, aggregate calls are collected and stand
//! as columns; afterwards every part that equals a grouping expression becomes
//! that group's column, and what is then left of the input is an error.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{AggregateUDF, Expr, SortExpr};
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr as Sql, Function, FunctionArg, FunctionArgExpr, FunctionArguments, NullTreatment,
};
use weir_core::Error;

use super::expr::Cx;
use super::orderable::{check_order, contains_map};
use super::{Analyzer, Finding, Result, Scope, Typed, coerce, names};
use crate::parser::wrong;
use crate::types::{list_of, quoted_type};

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

/// `first(x, true)` or `first(x) IGNORE NULLS`.
fn ignores_nulls(name: &str, told: Option<&Typed>, treatment: Option<&NullTreatment>) -> Result<bool> {
    match told {
        None => Ok(treatment == Some(&NullTreatment::IgnoreNulls)),
        Some(told) => match told.value() {
            Some(ScalarValue::Boolean(Some(ignores))) => Ok(*ignores),
            _ => Err(crate::functions::args::wrong_type(name, told, "true or false, written out")),
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
        let inner = Cx { scope: cx.scope, enclosing: None, aggregates: None, clause: "the arguments of an aggregate function" };
        let (mut args, mut distinct) = (Vec::new(), false);
        if let FunctionArguments::List(list) = &function.args {
            distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
            for arg in &list.args {
                match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => args.push(self.expr(e, &inner)?),
                    FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" => {
                        args.push(Typed::literal(ScalarValue::Int64(Some(1)), "1"));
                    }
                    other => {
                        return Err(wrong(&format!("unexpected `{other}` in {name}")));
                    }
                }
            }
        }
        if distinct {
            self.found(Finding::DistinctAggregate);
        }
        let shown = names::call(name, args.iter().map(|a| a.name.as_str()));
        let shown = if distinct { shown.replacen('(', "(DISTINCT ", 1) } else { shown };
        let filter = match &function.filter {
            Some(filter) => Some(self.boolean(self.expr(filter, &inner)?)?),
            None => None,
        };
        let (least, most) = match name {
            "count" => (1, usize::MAX),
            "corr" | "covar_pop" | "covar_samp" | "max_by" | "min_by" => (2, 2),
            "approx_count_distinct" => (1, 2),
            _ if ONE_OF_ALL.contains(&name) => (1, 2),
            _ => (1, 1),
        };
        crate::functions::args::count(name, &args, least, most)?;
        let ignores_nulls = ONE_OF_ALL.contains(&name) && ignores_nulls(name, args.get(1), function.null_treatment.as_ref())?;
        let arg_ty = args[0].ty.clone();
        let number = |this: &Self, arg: &Typed| -> Result<Typed> {
            match &arg.ty {
                DataType::Int8 | DataType::Int16 | DataType::Int32 => this.cast(arg.clone(), &DataType::Int64),
                DataType::Float32 | DataType::Utf8 | DataType::Null => this.cast(arg.clone(), &DataType::Float64),
                t if coerce::is_numeric(t) => Ok(arg.clone()),
                t => Err(Error::config(
                    "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
                    format!("{name} requires a number, but \"{}\" is {}; CAST it", arg.name, quoted_type(t)),
                )),
            }
        };
        let double = |this: &Self, arg: &Typed| this.cast(arg.clone(), &DataType::Float64);
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
                let arg = number(self, &args[0])?;
                let ty = match &arg.ty {
                    DataType::Decimal128(p, s) => coerce::bounded(i32::from(*p) + 10, i32::from(*s)),
                    t => t.clone(),
                };
                ("sum", vec![arg], ty)
            }
            "avg" | "mean" | "try_avg" => {
                let arg = number(self, &args[0])?;
                match &arg.ty {
                    DataType::Decimal128(p, s) => {
                        let ty = coerce::bounded(i32::from(*p) + 4, i32::from(*s) + 4);
                        ("avg", vec![arg], ty)
                    }
                    _ => ("avg", vec![self.cast(arg, &DataType::Float64)?], DataType::Float64),
                }
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
                if cx.clause == OBSERVATION {
                    return Err(super::from::unsupported(&format!("{name} in an observation"), "observe max or min"));
                }
                ("first_value", vec![args[0].clone()], arg_ty)
            }
            "bit_and" | "bit_or" | "bit_xor" => {
                if !coerce::is_integral(&arg_ty) {
                    return Err(crate::functions::args::wrong_type(name, &args[0], "an integer"));
                }
                (name, vec![args[0].clone()], arg_ty)
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
        let function =
            udaf(df).ok_or_else(|| Error::config("UNRESOLVED_ROUTINE", format!("there is no aggregate function {df}; use another")))?;
        // Spark leaves nulls out of collected arrays.
        let collecting = matches!(name, "collect_list" | "array_agg" | "collect_set");
        let needed: &[Typed] = match name {
            _ if collecting || ignores_nulls => &args[..1],
            "count" if args.len() > 1 => &args,
            "max_by" | "min_by" => &args[1..],
            _ => &[],
        };
        let not_null = needed.iter().map(|arg| Expr::IsNotNull(Box::new(arg.expr.clone()))).reduce(Expr::and);
        // The first value by the other argument, among the rows that have it.
        let order_by = match name {
            "max_by" | "min_by" => vec![SortExpr::new(self.comparable(args[1].clone()).expr, name == "min_by", false)],
            _ => vec![],
        };
        let filter = match (filter.map(|f| f.expr), not_null) {
            (Some(a), Some(b)) => Some(a.and(b)),
            (a, b) => a.or(b),
        };
        let df_fields: Vec<FieldRef> = df_args.iter().map(|a| Arc::new(Field::new(&a.name, a.ty.clone(), true))).collect();
        let expr = Expr::AggregateFunction(AggregateFunction::new_udf(
            function.clone(),
            df_args.into_iter().map(|a| a.expr).collect(),
            distinct || name == "collect_set",
            filter.map(Box::new),
            order_by,
            None,
        ));
        let df_ty = function.return_field(&df_fields).map_err(crate::error::from_planning)?.data_type().clone();
        let mut calls = calls.borrow_mut();
        let column = match calls.iter().find(|c| c.expr == expr) {
            Some(known) => known.name.clone(),
            None => {
                let column = self.fresh("agg");
                calls.push(AggregateCall { name: column.clone(), expr });
                column
            }
        };
        let mut value = Typed::new(Expr::Column(Column::new_unqualified(column)), df_ty.clone(), shown);
        if collecting {
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
        Ok(value)
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
    let mut found = false;
    let _ = datafusion::sql::sqlparser::ast::visit_expressions(sql, |e| {
        if let Sql::Function(f) = e
            && f.over.is_none()
            && is_aggregate(&f.name.to_string().to_ascii_lowercase())
            && !matches!(&f.args, FunctionArguments::List(l) if l.args.iter().any(|a| matches!(a, FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) if super::lambda::as_lambda(e).is_some())))
        {
            found = true;
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    found
}
