//! Analysis: syntax tree to DataFusion logical plan, with Spark's rules.
//!
//! Names, types, coercion, generators, aggregates and lambdas are resolved here
//! and nowhere else; the plan that comes out needs no type coercion by
//! DataFusion. Every column inside a plan has a unique internal name, so that
//! Spark's duplicate output names are no problem; Spark's names live in
//! `Scope` and are put on at the very end.

mod aggregate;
mod binary;
mod case;
mod checks;
pub mod coerce;
mod expr;
mod from;
mod generate;
mod group;
mod lambda;
mod lateral;
mod literal;
pub(crate) mod names;
mod orderable;
mod query;
mod range;
mod scope;
mod set_operation;
mod size;
mod special;
mod star;
mod subquery;
mod table_function;
mod typed;
mod window;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{Expr as Sql, Query};
use weir_core::Error;

use crate::conf::SqlConf;
use crate::exec::{BatchTime, Judges};
use crate::planned::Malformed;

pub use aggregate::NAMES as AGGREGATES;
pub use checks::{Finding, OutputMode, check};
pub use expr::Cx;
pub use from::{metric_field, unsupported, view_field};
pub use lambda::{Lambda, arity, as_lambda};
pub use orderable::check_arguments;
pub use scope::{Scope, ScopeCol};
pub use typed::Typed;

/// The names of the aggregate functions.
pub fn aggregate_names() -> &'static [&'static str] {
    AGGREGATES
}

/// The names of the functions that need OVER.
pub fn window_names() -> &'static [&'static str] {
    window::NAMES
}

/// The names of the generators.
pub fn generator_names() -> &'static [&'static str] {
    generate::NAMES
}

type Result<T, E = Error> = std::result::Result<T, E>;

/// A named input of a query.
pub struct Table {
    /// The name in SQL.
    pub name: String,
    /// What is scanned.
    pub provider: Arc<dyn TableProvider>,
    /// The index among the streams, if it is one.
    pub stream: Option<usize>,
}

/// An observation with its metrics parsed.
pub struct ParsedObservation {
    /// The observation's name.
    pub name: String,
    /// The view or table that is observed.
    pub view: String,
    /// Metric names and expressions.
    pub metrics: Vec<(String, Sql)>,
}

/// What names in FROM can stand for.
pub struct Catalog {
    /// Streams and static tables.
    pub tables: Vec<Table>,
    /// Named SQL steps.
    pub views: Vec<(String, Query)>,
    /// Observations of views.
    pub observations: Vec<ParsedObservation>,
}

/// A plan with the names and types that SQL sees.
#[derive(Clone)]
pub struct Relation {
    /// The plan.
    pub plan: LogicalPlan,
    /// Its visible columns.
    pub scope: Scope,
    /// Whether a stream is below.
    pub streaming: bool,
    /// Whether a streaming aggregation is below.
    pub aggregated: bool,
    /// Whether rows were filtered below.
    pub filtered: bool,
    /// Whether a column below may fail on a row.
    pub fallible: bool,
}

/// A common table expression in scope.
#[derive(Clone)]
struct Cte {
    query: Query,
    columns: Vec<String>,
    /// The CTEs that its text may use: those defined before it.
    visible: HashMap<String, Arc<Cte>>,
}

/// The analysis of one query.
pub struct Analyzer<'a> {
    /// Settings.
    pub conf: &'a SqlConf,
    /// Inputs.
    pub catalog: &'a Catalog,
    /// The clock of the batch, read by `current_timestamp()`.
    pub batch_time: Arc<BatchTime>,
    /// Used streams in order of first appearance.
    pub used_streams: RefCell<Vec<usize>>,
    /// What the plan does to streams, for the checks.
    pub findings: RefCell<Vec<Finding>>,
    /// Observations placed in the plan.
    pub observed: RefCell<Vec<crate::exec::Observer>>,
    /// Counters of malformed records, one per call that decodes.
    pub malformed: RefCell<Vec<Malformed>>,
    /// What judges the texts of calls that decode.
    pub misfits: RefCell<Judges>,
    /// Whether some call that decodes fails at the first text that does not fit.
    pub fails_fast: Cell<bool>,
    ctes: RefCell<HashMap<String, Arc<Cte>>>,
    open_views: RefCell<Vec<String>>,
    /// What a subquery sees of the queries around it, the innermost last.
    outer: RefCell<Vec<Scope>>,
    next_id: Cell<usize>,
    /// How large the plan is so far.
    steps: Cell<usize>,
    /// How large each view was when it was read first.
    view_steps: RefCell<HashMap<String, usize>>,
}

impl<'a> Analyzer<'a> {
    /// A fresh analysis.
    pub fn new(conf: &'a SqlConf, catalog: &'a Catalog, batch_time: Arc<BatchTime>) -> Self {
        Self {
            conf,
            catalog,
            batch_time,
            used_streams: RefCell::default(),
            findings: RefCell::default(),
            observed: RefCell::default(),
            malformed: RefCell::default(),
            misfits: RefCell::default(),
            fails_fast: Cell::new(false),
            ctes: RefCell::default(),
            open_views: RefCell::default(),
            outer: RefCell::default(),
            next_id: Cell::new(0),
            steps: Cell::new(0),
            view_steps: RefCell::default(),
        }
    }

    /// A name that no other column or relation of this plan has.
    pub(crate) fn fresh(&self, prefix: &str) -> String {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        format!("__{prefix}{id}")
    }

    pub(crate) fn found(&self, finding: Finding) {
        self.findings.borrow_mut().push(finding);
    }
}
