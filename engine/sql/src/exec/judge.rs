//! Which rows of a stream hold text that the SQL cannot decode: what `badRecords` takes of `from_json` and `from_csv`.
//!
//! A call counts where it is surely made: in a projection or filter, outside of branches (CASE, AND, OR, functions that stop
//! at a value), over columns that come from one stream through projections, filters and observations alone. Then it is an
//! expression over that stream's columns, made for the rows that the filters below it let pass. A plan beside the query's own
//! evaluates these expressions, one column each, for the rows of a slice in their order. Calls elsewhere are left to their mode.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Case, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Volatility};

use super::clock;
use super::slot::StreamTable;
use crate::udf::{Kernel, SparkFn};

/// For each decoder in a plan, by its name and constants, the kernel that tells why a text does not fit.
pub type Judges = BTreeMap<(String, String), Kernel>;

/// Functions that may not look at all of their arguments.
const STOPPING: [&str; 7] = ["coalesce", "ifnull", "nvl", "nvl2", "if", "iff", "nullif"];

/// By stream, the plan whose columns tell of each of its rows why it cannot be decoded, null where it can.
pub(crate) fn judge_plans(plan: &LogicalPlan, judges: &Judges) -> Result<BTreeMap<usize, LogicalPlan>> {
    let mut found: BTreeMap<usize, (LogicalPlan, Vec<Expr>)> = BTreeMap::new();
    plan.apply(|node| {
        if !matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Filter(_)) {
            return Ok(TreeNodeRecursion::Continue);
        }
        for input in node.inputs() {
            let Some(base) = Base::of(input)? else { continue };
            for call in node.expressions().iter().flat_map(sure_calls) {
                let Some(why) = base.why(call, input.schema(), judges)? else { continue };
                let (_, all) = found.entry(base.stream).or_insert_with(|| (base.scan.clone(), Vec::new()));
                if !all.contains(&why) {
                    all.push(why);
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let plan_of = |(scan, exprs): (LogicalPlan, Vec<Expr>)| {
        let columns = exprs.into_iter().enumerate().map(|(number, expr)| expr.alias(format!("why{number}"))).collect();
        Projection::try_new(columns, Arc::new(scan)).map(LogicalPlan::Projection)
    };
    found.into_iter().map(|(stream, judged)| Ok((stream, plan_of(judged)?))).collect()
}

/// A relation that is one stream's rows, some left out.
struct Base {
    stream: usize,
    scan: LogicalPlan,
    /// Its columns, made of those of the scan.
    columns: Vec<Expr>,
    /// What lets a row pass.
    guards: Vec<Expr>,
}

impl Base {
    fn of(plan: &LogicalPlan) -> Result<Option<Self>> {
        Ok(match plan {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source)?;
                let Some(stream) = provider.downcast_ref::<StreamTable>() else { return Ok(None) };
                // All scans of a stream are the same one here.
                let whole = LogicalPlanBuilder::scan("judged", Arc::clone(&scan.source), None)?.build()?;
                let all: Vec<Expr> = whole.schema().columns().into_iter().map(Expr::Column).collect();
                let columns = match &scan.projection {
                    Some(taken) => taken.iter().map(|at| all[*at].clone()).collect(),
                    None => all,
                };
                Some(Self { stream: stream.index, scan: whole, columns, guards: Vec::new() })
            }
            LogicalPlan::SubqueryAlias(alias) => Self::of(&alias.input)?,
            LogicalPlan::Extension(extension) if matches!(extension.node.name(), "Observe" | "Barrier") => {
                match extension.node.inputs().as_slice() {
                    [input] => Self::of(input)?,
                    _ => None,
                }
            }
            LogicalPlan::Projection(projection) => {
                let Some(below) = Self::of(&projection.input)? else { return Ok(None) };
                let columns = projection.expr.iter().map(|expr| below.over(expr.clone().unalias(), projection.input.schema()));
                let Some(columns) = columns.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
                Some(Self { columns, ..below })
            }
            LogicalPlan::Filter(filter) => {
                let Some(mut below) = Self::of(&filter.input)? else { return Ok(None) };
                let Some(guard) = below.over(filter.predicate.clone(), filter.input.schema())? else { return Ok(None) };
                below.guards.push(guard);
                Some(below)
            }
            _ => None,
        })
    }

    /// An expression over this relation, whose schema is given, as one over the scan.
    fn over(&self, expr: Expr, schema: &DFSchema) -> Result<Option<Expr>> {
        let mut is_whole = true;
        let replaced = expr.transform_up(|part| {
            let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
            match schema.maybe_index_of_column(column).and_then(|at| self.columns.get(at)) {
                Some(made_of) => Ok(Transformed::yes(made_of.clone())),
                None => {
                    is_whole = false;
                    Ok(Transformed::no(part))
                }
            }
        })?;
        Ok(Some(replaced.data).filter(|_| is_whole))
    }

    /// Why the text of a call does not fit, where that can be told before the query runs.
    fn why(&self, call: &ScalarFunction, schema: &DFSchema, judges: &Judges) -> Result<Option<Expr>> {
        let Some((name, key)) = call.func.inner().downcast_ref::<SparkFn>().map(SparkFn::name_and_key) else { return Ok(None) };
        let Some(kernel) = judges.get(&(name.to_owned(), key.to_owned())) else { return Ok(None) };
        let args = call.args.iter().map(|arg| self.over(arg.clone(), schema)).collect::<Result<Option<Vec<_>>>>()?;
        let Some(args) = args else { return Ok(None) };
        let kernel = Arc::clone(kernel);
        let why = SparkFn::new(format!("{name}_misfit"), key, DataType::Utf8, move |rows| kernel(rows)).call(args);
        let passes = self.guards.iter().cloned().reduce(Expr::and);
        let why = match passes {
            Some(passes) => Expr::Case(Case::new(None, vec![(Box::new(passes), Box::new(why))], None)),
            None => why,
        };
        Ok(Some(why).filter(gives_the_same_again))
    }
}

/// The calls of an expression that are made for every row.
fn sure_calls(expr: &Expr) -> Vec<&ScalarFunction> {
    let mut calls = Vec::new();
    // The visitor never fails.
    let _ = expr.apply(|part| {
        Ok(match part {
            Expr::Case(_) => TreeNodeRecursion::Jump,
            Expr::BinaryExpr(binary) if matches!(binary.op, Operator::And | Operator::Or) => TreeNodeRecursion::Jump,
            Expr::ScalarFunction(call) if STOPPING.contains(&call.func.name()) => TreeNodeRecursion::Jump,
            Expr::ScalarFunction(call) => {
                calls.push(call);
                TreeNodeRecursion::Continue
            }
            _ => TreeNodeRecursion::Continue,
        })
    });
    calls
}

/// Whether a second evaluation says the same; the clock of a batch does.
fn gives_the_same_again(expr: &Expr) -> bool {
    let differs = |part: &Expr| {
        matches!(part, Expr::ScalarFunction(call)
            if call.func.signature().volatility == Volatility::Volatile && call.func.name() != clock::NAME)
    };
    !expr.exists(|part| Ok(differs(part))).unwrap_or(true)
}
