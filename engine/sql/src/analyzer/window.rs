//! Window functions: `row_number() OVER (PARTITION BY k ORDER BY v)`.
//!
//! Calls are collected while a select list is analysed and stand as columns, as
//! aggregate calls do; they are computed after grouping and before QUALIFY. Only
//! tables can have them: over a stream the checks refuse the plan.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNanoType};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::sql::sqlparser::ast::{
    Function, NamedWindowDefinition, NamedWindowExpr, NullTreatment as SqlNulls, OrderByExpr, WindowFrame as SqlFrame,
    WindowFrameBound as SqlBound, WindowFrameUnits as SqlUnits, WindowSpec, WindowType,
};
use weir_core::Error;

use super::expr::Cx;
use super::query::project;
use super::{Analyzer, Result, Typed, names};
use crate::error::from_planning;
use crate::functions::args;
use crate::planned::constant;
use crate::udf::Rows;

/// The functions that need OVER.
pub const NAMES: &[&str] =
    &["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value", "first_value", "last_value"];

/// Those of them that are aggregate functions too.
const ALSO_AGGREGATES: &[&str] = &["first_value", "last_value"];

/// How the names of the columns of window calls begin.
pub(super) const WINDOW_COLUMN: &str = "__win";

/// The window calls of a select list, and the windows that have names.
pub struct Windows<'q> {
    /// `WINDOW w AS (..)`.
    pub named: &'q [NamedWindowDefinition],
    /// The calls so far.
    pub calls: RefCell<Vec<WindowCall>>,
}

/// One collected window call.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// The column that stands for it.
    pub name: String,
    /// The call.
    pub expr: Expr,
}

/// A window with everything decided.
struct Window {
    partition_by: Vec<Expr>,
    order_by: Vec<SortExpr>,
    frame: WindowFrame,
    has_frame: bool,
    shown: String,
    parts: Vec<Typed>,
}

/// Whether a function without OVER is an error.
pub(super) fn needs_over(name: &str) -> bool {
    NAMES.contains(&name) && !ALSO_AGGREGATES.contains(&name)
}

impl Analyzer<'_> {
    /// Analyses a call with OVER and returns the column that stands for it.
    pub(super) fn window_call(&self, name: &str, function: &Function, over: &WindowType, cx: &Cx) -> Result<Typed> {
        let Some(windows) = cx.windows else {
            return Err(Error::config(
                "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE",
                format!("it is not allowed to use window functions inside {}; compute {name} in a subquery and use its column", cx.clause),
            ));
        };
        let inner = Cx { windows: None, ..*cx };
        let (spec, before) = spec(over, windows.named)?;
        let window = self.window(spec, before, &inner)?;
        // `last_value(x, true)` is the aggregate function, which leaves nulls out.
        let is_aggregate = ALSO_AGGREGATES.contains(&name) && super::special::raw_args(function)?.len() == 2;
        if !NAMES.contains(&name) || is_aggregate {
            if !super::aggregate::is_aggregate(name) {
                return Err(Error::config(
                    "UNSUPPORTED_EXPR_FOR_WINDOW",
                    format!("the expression {name}(..) is not supported within a window function; leave OVER out"),
                ));
            }
            let value = self.aggregate_of(name, function, &inner, |call| {
                if call.distinct || !call.order_by.is_empty() {
                    return Err(Error::config(
                        "DISTINCT_WINDOW_FUNCTION_UNSUPPORTED",
                        format!("DISTINCT, collect_set, max_by and min_by cannot have OVER, but {name} does; compute it in a subquery with GROUP BY"),
                    ));
                }
                let definition = WindowFunctionDefinition::AggregateUDF(call.function);
                Ok(self.collected(windows, &window, definition, call.args, call.filter, None))
            })?;
            let shown = format!("{} OVER ({})", value.name, window.shown);
            return Ok(value.failing_like(&window.parts).named(shown));
        }
        let args = self.plain_args(function, &inner)?;
        let nulls = match function.null_treatment {
            Some(SqlNulls::IgnoreNulls) => Some(NullTreatment::IgnoreNulls),
            _ => None,
        };
        let shown = names::call(name, args.iter().map(|arg| arg.name.as_str()));
        // Ranks have a frame of rows of their own.
        let shown = format!("{shown} OVER ({})", window.shown.replace(" RANGE BETWEEN UNBOUNDED", " ROWS BETWEEN UNBOUNDED"));
        if window.order_by.is_empty() && !matches!(name, "first_value" | "last_value" | "nth_value") {
            return Err(Error::config(
                "WINDOW_FUNCTION_FRAME_NOT_ORDERED",
                format!("the window function {name}() requires its window to be ordered; add ORDER BY: OVER (PARTITION BY .. ORDER BY ..)"),
            ));
        }
        let (args, ty) = self.window_args(name, args)?;
        let function = datafusion::functions_window::all_default_window_functions()
            .into_iter()
            .find(|f| f.name() == name)
            .ok_or_else(|| super::special::unresolved_routine(name))?;
        let exprs = args.iter().map(|arg| arg.expr.clone()).collect();
        let fields: Vec<FieldRef> = args.iter().map(|a| Arc::new(Field::new(&a.name, a.ty.clone(), true))).collect();
        let definition = WindowFunctionDefinition::WindowUDF(function);
        let made = definition.return_field(&fields, name).map_err(from_planning)?.data_type().clone();
        let column = self.collected(windows, &window, definition, exprs, None, nulls);
        let mut value = Typed::new(column, made.clone(), shown.clone());
        if made != ty {
            let target = ty.clone();
            value = self.call("ranked", "", ty, &[value], move |rows: Rows| Ok(arrow::compute::cast(&rows.args[0], &target)?));
        }
        value.spark_type = args.first().and_then(|arg| arg.spark_type.clone());
        Ok(value.failing_like(&window.parts).failing_like(&args).named(shown))
    }

    /// The arguments as the engine's function takes them, and the type that Spark gives the result.
    fn window_args(&self, name: &str, mut list: Vec<Typed>) -> Result<(Vec<Typed>, DataType)> {
        let literal = |arg: Typed| -> Result<Typed> {
            let number = self.cast(arg, &DataType::Int64)?;
            match constant(&number.expr) {
                Some(value @ ScalarValue::Int64(Some(_))) => Ok(Typed::literal(value, number.name)),
                _ => Err(args::wrong_type(name, &number, "an integer, written out")),
            }
        };
        Ok(match name {
            "row_number" | "rank" | "dense_rank" => {
                args::count(name, &list, 0, 0)?;
                (list, DataType::Int32)
            }
            "percent_rank" | "cume_dist" => {
                args::count(name, &list, 0, 0)?;
                (list, DataType::Float64)
            }
            "ntile" => {
                args::count(name, &list, 0, 1)?;
                (vec![literal(list.pop().unwrap_or_else(|| Typed::int(1)))?], DataType::Int32)
            }
            "lag" | "lead" => {
                args::count(name, &list, 1, 3)?;
                let default = if list.len() == 3 { list.pop() } else { None };
                let offset = if list.len() == 2 { list.pop() } else { None };
                let ty = list[0].ty.clone();
                list.push(literal(offset.unwrap_or_else(|| Typed::int(1)))?);
                if let Some(default) = default.filter(|default| default.ty != DataType::Null) {
                    let shown = default.name.clone();
                    let default = self.cast(default, &ty)?;
                    let value = constant(&default.expr).ok_or_else(|| {
                        super::from::unsupported(&format!("the default `{shown}` of {name}"), "write a literal, or use coalesce")
                    })?;
                    list.push(Typed::literal(value, shown));
                }
                (list, ty)
            }
            "nth_value" => {
                args::count(name, &list, 2, 2)?;
                let ty = list[0].ty.clone();
                let place = literal(list.swap_remove(1))?;
                list.push(place);
                (list, ty)
            }
            _ => {
                args::count(name, &list, 1, 1)?;
                let ty = list[0].ty.clone();
                (list, ty)
            }
        })
    }

    /// The column of a call; equal calls share one.
    fn collected(
        &self,
        windows: &Windows,
        window: &Window,
        fun: WindowFunctionDefinition,
        args: Vec<Expr>,
        filter: Option<Expr>,
        null_treatment: Option<NullTreatment>,
    ) -> Expr {
        let expr = Expr::WindowFunction(Box::new(WindowFunction {
            fun,
            params: WindowFunctionParams {
                args,
                partition_by: window.partition_by.clone(),
                order_by: window.order_by.clone(),
                window_frame: window.frame.clone(),
                filter: filter.map(Box::new),
                null_treatment,
                distinct: false,
            },
        }));
        let mut calls = windows.calls.borrow_mut();
        let name = match calls.iter().find(|call| call.expr == expr) {
            Some(known) => known.name.clone(),
            None => {
                let name = self.fresh(WINDOW_COLUMN.trim_start_matches('_'));
                calls.push(WindowCall { name: name.clone(), expr });
                name
            }
        };
        Expr::Column(Column::new_unqualified(name))
    }

    fn window(&self, spec: &WindowSpec, named: &[NamedWindowDefinition], cx: &Cx) -> Result<Window> {
        let base = match &spec.window_name {
            Some(name) => {
                let (spec, before) = defined(&name.value, named)?;
                Some(self.window(spec, before, cx)?)
            }
            None => None,
        };
        let partitions = spec.partition_by.iter().map(|sql| self.expr(sql, cx)).collect::<Result<Vec<_>>>()?;
        let mut keys = Vec::new();
        for key in &spec.order_by {
            let value = self.expr(&key.expr, cx)?;
            keys.push((self.sort_expr(value.clone(), key)?, value, key));
        }
        let mut shown = Vec::new();
        if !partitions.is_empty() {
            shown.push(format!("PARTITION BY {}", partitions.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ")));
        }
        if !keys.is_empty() {
            shown.push(format!("ORDER BY {}", keys.iter().map(|(_, value, key)| shown_key(value, key)).collect::<Vec<_>>().join(", ")));
        }
        let parts: Vec<Typed> = partitions.iter().chain(keys.iter().map(|(_, value, _)| value)).cloned().collect();
        let mut window = Window {
            partition_by: partitions.into_iter().map(|p| self.comparable(p).expr).collect(),
            order_by: keys.iter().map(|(sort, ..)| sort.clone()).collect(),
            frame: WindowFrame::new(None),
            has_frame: false,
            shown: shown.join(" "),
            parts,
        };
        if let Some(base) = base {
            window.partition_by.splice(0..0, base.partition_by);
            window.order_by.splice(0..0, base.order_by);
            window.parts.extend(base.parts);
            if base.has_frame {
                window.frame = base.frame;
                window.has_frame = true;
            }
        }
        match &spec.window_frame {
            Some(frame) => {
                let by = keys.first().map(|(_, value, _)| &value.ty);
                window.frame = self.frame(frame, by, cx)?;
                window.has_frame = true;
                let end = frame.end_bound.as_ref().unwrap_or(&SqlBound::CurrentRow);
                window.shown = format!("{} {} BETWEEN {} AND {end}", window.shown, frame.units, frame.start_bound);
            }
            None if !window.has_frame && !window.order_by.is_empty() => {
                window.frame = WindowFrame::new(Some(false));
                window.shown.push_str(" RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW");
            }
            None if !window.has_frame => window.shown.push_str(" ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"),
            None => {}
        }
        window.shown = window.shown.trim().to_owned();
        Ok(window)
    }

    fn frame(&self, frame: &SqlFrame, by: Option<&DataType>, cx: &Cx) -> Result<WindowFrame> {
        let units = match frame.units {
            SqlUnits::Rows => WindowFrameUnits::Rows,
            SqlUnits::Range => WindowFrameUnits::Range,
            SqlUnits::Groups => return Err(super::from::unsupported("a frame of GROUPS", "use ROWS or RANGE")),
        };
        if units == WindowFrameUnits::Range && by.is_none() {
            return Err(Error::config(
                "DATATYPE_MISMATCH.RANGE_FRAME_WITHOUT_ORDER",
                "a range window frame cannot be used in an unordered window specification; add ORDER BY, or use ROWS",
            ));
        }
        let distance = |sql: &Option<Box<datafusion::sql::sqlparser::ast::Expr>>| -> Result<ScalarValue> {
            let Some(sql) = sql else { return Ok(ScalarValue::UInt64(None)) };
            let value = self.expr(sql, cx)?;
            let wrong = || args::wrong_type("a window frame", &value, "a bound that is a literal of the type that rows are ordered by");
            let scalar = constant(&value.expr).filter(|scalar| !scalar.is_null()).ok_or_else(wrong)?;
            match (units, by) {
                (WindowFrameUnits::Rows, _) => {
                    let rows = scalar.cast_to(&DataType::Int64).ok();
                    let Some(ScalarValue::Int64(Some(rows))) = rows else { return Err(wrong()) };
                    Ok(ScalarValue::UInt64(Some(u64::try_from(rows).map_err(|_| wrong())?)))
                }
                (_, Some(DataType::Timestamp(..) | DataType::Date32)) => match scalar {
                    ScalarValue::DurationMicrosecond(Some(micros)) => Ok(ScalarValue::IntervalMonthDayNano(Some(
                        IntervalMonthDayNanoType::make_value(0, 0, micros.checked_mul(1000).ok_or_else(wrong)?),
                    ))),
                    ScalarValue::IntervalYearMonth(Some(months)) => {
                        Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNanoType::make_value(months, 0, 0))))
                    }
                    days if by == Some(&DataType::Date32) => match days.cast_to(&DataType::Int32) {
                        Ok(ScalarValue::Int32(Some(days))) => {
                            Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNanoType::make_value(0, days, 0))))
                        }
                        _ => Err(wrong()),
                    },
                    _ => Err(wrong()),
                },
                (_, Some(by)) => scalar.cast_to(by).map_err(|_| wrong()),
                (_, None) => Err(wrong()),
            }
        };
        let bound = |bound: &SqlBound| -> Result<WindowFrameBound> {
            Ok(match bound {
                SqlBound::CurrentRow => WindowFrameBound::CurrentRow,
                SqlBound::Preceding(by) => WindowFrameBound::Preceding(distance(by)?),
                SqlBound::Following(by) => WindowFrameBound::Following(distance(by)?),
            })
        };
        let start = bound(&frame.start_bound)?;
        let end = frame.end_bound.as_ref().map_or(Ok(WindowFrameBound::CurrentRow), bound)?;
        Ok(WindowFrame::new_bounds(units, start, end))
    }

    /// The plan with the columns of the calls.
    pub(super) fn plan_windows(&self, plan: LogicalPlan, calls: Vec<WindowCall>) -> Result<LogicalPlan> {
        if calls.is_empty() {
            return Ok(plan);
        }
        let mut exprs: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        for call in &calls {
            exprs.push(Expr::Column(Column::new_unqualified(call.expr.schema_name().to_string())).alias(&call.name));
        }
        let plan = LogicalPlanBuilder::window_plan(plan, calls.into_iter().map(|call| call.expr)).map_err(from_planning)?;
        project(plan, exprs)
    }
}

/// A specification, and the named windows that it may build on.
type Specified<'q> = (&'q WindowSpec, &'q [NamedWindowDefinition]);

fn spec<'q>(over: &'q WindowType, named: &'q [NamedWindowDefinition]) -> Result<Specified<'q>> {
    match over {
        WindowType::WindowSpec(spec) => Ok((spec, named)),
        WindowType::NamedWindow(name) => defined(&name.value, named),
    }
}

/// A named window builds on those before it only, so this ends.
fn defined<'q>(name: &str, named: &'q [NamedWindowDefinition]) -> Result<Specified<'q>> {
    let place = named.iter().position(|definition| definition.0.value.eq_ignore_ascii_case(name));
    match place.map(|place| (&named[place].1, &named[..place])) {
        Some((NamedWindowExpr::WindowSpec(spec), before)) => Ok((spec, before)),
        Some((NamedWindowExpr::NamedWindow(other), before)) => defined(&other.value, before),
        None => Err(Error::config(
            "MISSING_WINDOW_SPECIFICATION",
            format!("the window `{name}` is not defined in the WINDOW clause; add WINDOW {name} AS (PARTITION BY .. ORDER BY ..)"),
        )),
    }
}

fn shown_key(value: &Typed, key: &OrderByExpr) -> String {
    let ascending = key.options.asc.unwrap_or(true);
    let nulls_first = key.options.nulls_first.unwrap_or(ascending);
    format!("{} {} NULLS {}", value.name, if ascending { "ASC" } else { "DESC" }, if nulls_first { "FIRST" } else { "LAST" })
}
