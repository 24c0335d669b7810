//! Observed metrics: aggregates over the rows that pass a view.
//!
//! A logical node passes rows on unchanged; its physical node feeds them into
//! the lane's accumulators. Partial states of all lanes are merged per batch,
//! and the metrics, which may be expressions over several aggregates, are
//! computed from the merged values.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, DFSchemaRef, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Accumulator, Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateFunctionExpr, LoweredAggregateBuilder};
use parking_lot::Mutex;
use weir_core::Error;

use crate::compile::Compiled;
use crate::conf::SqlConf;
use crate::error::from_datafusion;

/// One aggregate of an observation.
#[derive(Clone, Debug)]
pub struct AggregateSpec {
    /// The name by which `outputs` refer to it.
    pub name: String,
    /// The aggregate function call.
    pub expr: Expr,
}

/// One observation in a plan.
#[derive(Clone, Debug)]
pub struct Observer {
    /// The observation's name.
    pub name: String,
    /// What is accumulated.
    pub aggregates: Vec<AggregateSpec>,
    /// Metric names and expressions over the aggregates.
    pub outputs: Vec<(String, Expr, Option<String>)>,
    /// The schema of the rows observed.
    pub input: DFSchemaRef,
}

/// The logical node.
#[derive(Clone)]
pub struct ObserveNode {
    /// Whose rows are observed.
    pub input: LogicalPlan,
    /// The index among the observers of the query.
    pub index: usize,
    /// The aggregate calls.
    pub aggregates: Vec<Expr>,
}

impl fmt::Debug for ObserveNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observe({})", self.index)
    }
}

impl PartialEq for ObserveNode {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.aggregates == other.aggregates && self.input == other.input
    }
}

impl Eq for ObserveNode {}

impl PartialOrd for ObserveNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.index.partial_cmp(&other.index).filter(|o| *o != Ordering::Equal || self == other)
    }
}

impl Hash for ObserveNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.index.hash(state);
        self.aggregates.hash(state);
    }
}

impl UserDefinedLogicalNodeCore for ObserveNode {
    fn name(&self) -> &str {
        "Observe"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.aggregates.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Observe: {}", self.index)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("an observation needs an input".to_owned()))?;
        Ok(Self { input, index: self.index, aggregates: exprs })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut needed: BTreeSet<usize> = output_columns.iter().copied().collect();
        for expr in &self.aggregates {
            for column in expr.column_refs() {
                needed.extend(self.input.schema().maybe_index_of_column(column));
            }
        }
        Some(vec![needed.into_iter().collect()])
    }
}

/// One lane's accumulators of one observation.
pub struct Accumulators(Mutex<Vec<Box<dyn Accumulator>>>);

impl fmt::Debug for Accumulators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Accumulators")
    }
}

/// An aggregate ready to be fed.
#[derive(Debug, Clone)]
pub struct Feed {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

type Aggregate = (Arc<AggregateFunctionExpr>, Option<Arc<dyn PhysicalExpr>>);

fn physical(expr: &Expr, input: &DFSchema) -> Result<Aggregate> {
    let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let lowered =
        LoweredAggregateBuilder::new(expr, input, input.as_arrow(), &props, &context).with_name(expr.schema_name().to_string()).build()?;
    Ok((lowered.aggregate, lowered.filter))
}

/// How the aggregates read a row of this schema.
pub fn feeds(aggregates: &[Expr], input: &DFSchema) -> Result<Vec<Feed>> {
    aggregates
        .iter()
        .map(|expr| {
            let (aggregate, filter) = physical(expr, input)?;
            Ok(Feed { arguments: aggregate.expressions(), filter })
        })
        .collect()
}

impl Accumulators {
    /// Empty accumulators.
    pub fn new(observer: &Observer) -> Result<Self> {
        Ok(Self(Mutex::new(fresh(observer)?)))
    }

    /// Feeds rows.
    pub fn update(&self, feeds: &[Feed], batch: &RecordBatch) -> Result<()> {
        let mut accumulators = self.0.lock();
        for (accumulator, feed) in accumulators.iter_mut().zip(feeds) {
            let filtered;
            let rows = match &feed.filter {
                None => batch,
                Some(filter) => {
                    let mask = filter.evaluate(batch)?.into_array(batch.num_rows())?;
                    let mask: &BooleanArray = crate::udf::downcast(&mask)?;
                    filtered = filter_record_batch(batch, mask)?;
                    &filtered
                }
            };
            let arguments =
                feed.arguments.iter().map(|a| a.evaluate(rows)?.into_array(rows.num_rows())).collect::<Result<Vec<ArrayRef>>>()?;
            accumulator.update_batch(&arguments)?;
        }
        Ok(())
    }

    /// Takes the states out and starts anew.
    pub fn take(&self, observer: &Observer) -> Result<Vec<Vec<ScalarValue>>> {
        let mut accumulators = self.0.lock();
        let states = accumulators.iter_mut().map(|a| a.state()).collect::<Result<Vec<_>>>()?;
        *accumulators = fresh(observer)?;
        Ok(states)
    }
}

fn fresh(observer: &Observer) -> Result<Vec<Box<dyn Accumulator>>> {
    observer.aggregates.iter().map(|spec| physical(&spec.expr, &observer.input)?.0.create_accumulator()).collect()
}

/// What one lane observed in one batch.
#[derive(Clone)]
pub struct ObservedPartial {
    /// Per observation, per aggregate, the state.
    pub(crate) states: Vec<Vec<Vec<ScalarValue>>>,
    /// The query that was observed.
    pub(crate) query: Arc<Compiled>,
}

/// Merges the lanes' parts of a batch into the metrics by observation name.
pub fn merge_observed(parts: Vec<ObservedPartial>) -> Result<BTreeMap<String, serde_json::Value>, Error> {
    match parts.first().map(|part| Arc::clone(&part.query)) {
        Some(query) => merge(&query.observers, &parts, &query.conf),
        None => Ok(BTreeMap::new()),
    }
}

fn merge(observers: &[Observer], parts: &[ObservedPartial], conf: &SqlConf) -> Result<BTreeMap<String, serde_json::Value>, Error> {
    let mut out = BTreeMap::new();
    for (index, observer) in observers.iter().enumerate() {
        let states = parts.iter().filter_map(|p| p.states.get(index));
        let row = merged_row(observer, states).map_err(from_datafusion)?;
        let text = crate::json_row::rows_to_json(&row, conf)?.concat();
        let value = serde_json::from_str(&text)
            .map_err(|e| Error::retryable("WEIR_EXECUTION_FAILED", format!("metrics of {} are no JSON: {e}", observer.name)))?;
        out.insert(observer.name.clone(), value);
    }
    Ok(out)
}

fn merged_row<'a>(observer: &Observer, parts: impl Iterator<Item = &'a Vec<Vec<ScalarValue>>>) -> Result<RecordBatch> {
    let mut accumulators = fresh(observer)?;
    for part in parts {
        for (accumulator, state) in accumulators.iter_mut().zip(part) {
            let arrays = state.iter().map(|s| s.to_array()).collect::<Result<Vec<_>>>()?;
            accumulator.merge_batch(&arrays)?;
        }
    }
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (spec, accumulator) in observer.aggregates.iter().zip(&mut accumulators) {
        let value = accumulator.evaluate()?;
        fields.push(Field::new(&spec.name, value.data_type(), true));
        columns.push(value.to_array()?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
    let schema = DFSchema::try_from(row.schema().as_ref().clone())?;
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (name, expr, spark_type) in &observer.outputs {
        let physical = crate::compile::physical_expr(expr, &schema)?;
        let column = physical.evaluate(&row)?.into_array(1)?;
        let mut field = Field::new(name, column.data_type().clone(), true);
        if let Some(spark_type) = spark_type {
            field = field.with_metadata([(crate::types::SPARK_TYPE_KEY.to_owned(), spark_type.clone())].into());
        }
        fields.push(field);
        columns.push(column);
    }
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}
