//! From SQL text and inputs to a compiled streaming query.
//!
//! `compile` decides everything that needs no data: names, types, which streams
//! are used in which order and with which columns, and whether the plan may run
//! in the output mode. `CompiledQuery::lane` makes one independent copy to run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::Query;
use weir_core::{Error, Result};

use crate::analyzer::{Analyzer, Catalog, OutputMode, ParsedObservation, Relation, Table, check, metric_field, view_field};
use crate::conf::SqlConf;
use crate::error::from_planning;
use crate::exec::{BatchTime, Lane, Observer, StaticTable, StreamTable, judge_plans, optimize};
use crate::functions::nested::to_canonical;
use crate::parser::{parse_expression, parse_query};
use crate::planned::Malformed;
use crate::types::{SPARK_TYPE_KEY, canonical_schema};

/// A stream that SQL can read.
#[derive(Clone, Debug)]
pub struct StreamInput {
    /// The name in SQL.
    pub name: String,
    /// The columns of its batches.
    pub schema: SchemaRef,
    /// Whether it has a watermark.
    pub has_watermark: bool,
}

/// A table that is read again for each batch.
#[derive(Clone, Debug)]
pub struct StaticInput {
    /// The name in SQL.
    pub name: String,
    /// What is scanned.
    pub table: Arc<dyn TableProvider>,
}

/// Metrics over the rows of a view.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The key in `observedMetrics`.
    pub name: String,
    /// The view, source or table whose rows are observed.
    pub view: String,
    /// Metric names and aggregate expressions.
    pub metrics: Vec<(String, String)>,
}

/// The SQL of a query.
#[derive(Clone, Debug, Default)]
pub struct QueryText {
    /// Named steps: name and SQL.
    pub views: Vec<(String, String)>,
    /// The query itself.
    pub sql: String,
    /// Observations of views.
    pub observe: Vec<Observation>,
    /// What becomes of texts that calls in it cannot decode.
    pub undecodable: Undecodable,
}

/// What becomes of rows of a stream that hold text which `from_json` or `from_csv` cannot decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undecodable {
    /// What the call's mode says.
    #[default]
    ByMode,
    /// They can be told before the query runs over them (`Lane::misfits`).
    SetApart,
}

/// What lanes share.
pub(crate) struct Compiled {
    pub conf: SqlConf,
    pub plan: LogicalPlan,
    pub schema: SchemaRef,
    pub observers: Vec<Observer>,
    pub has_statics: bool,
    /// Where `from_json` and `from_csv` count.
    pub malformed: Vec<Malformed>,
    /// Per stream, the columns that the plan reads.
    pub required: Vec<Vec<usize>>,
    /// By stream, the plan that tells which of its rows cannot be decoded.
    pub misfits: BTreeMap<usize, LogicalPlan>,
    /// Per stream, its schema in canonical types.
    streams: Vec<SchemaRef>,
    order: Vec<usize>,
}

/// A query that passed all checks.
#[derive(Clone)]
pub struct CompiledQuery(Arc<Compiled>);

/// Compiles a streaming query.
pub fn compile(
    conf: &SqlConf,
    streams: Vec<StreamInput>,
    statics: Vec<StaticInput>,
    text: &QueryText,
    mode: OutputMode,
) -> Result<CompiledQuery> {
    compile_with(conf, streams, statics, text, || parse_query(&text.sql), mode)
}

fn in_sql(error: Error) -> Error {
    error.in_field("sql")
}

/// Compiles a streaming query whose own SQL is made by `sql`.
pub(crate) fn compile_with(
    conf: &SqlConf,
    streams: Vec<StreamInput>,
    statics: Vec<StaticInput>,
    text: &QueryText,
    sql: impl FnOnce() -> Result<Query>,
    mode: OutputMode,
) -> Result<CompiledQuery> {
    conf.zone()?;
    let mut tables = Vec::new();
    let mut schemas: Vec<SchemaRef> = Vec::new();
    for (index, stream) in streams.iter().enumerate() {
        let schema =
            canonical_schema(&stream.schema).map_err(|e| Error::config("UNSUPPORTED_DATATYPE", format!("source {}: {e}", stream.name)))?;
        let schema = Arc::new(schema);
        schemas.push(Arc::clone(&schema));
        let provider = Arc::new(StreamTable { index, schema });
        tables.push(Table { name: stream.name.clone(), provider, stream: Some(index) });
    }
    let has_statics = !statics.is_empty();
    for table in statics {
        tables.push(Table { name: table.name, provider: Arc::new(StaticTable(table.table)), stream: None });
    }
    let catalog = catalog(tables, text)?;
    let sql = sql().map_err(in_sql)?;
    let analyzer = Analyzer::new(conf, &catalog, BatchTime::at(0));
    let relation = analyzer.query(&sql).map_err(in_sql)?;
    let order = analyzer.used_streams.take();
    if relation.streaming {
        check(&analyzer.findings.take(), mode, streams.iter().any(|stream| stream.has_watermark)).map_err(in_sql)?;
    }
    for (index, stream) in streams.iter().enumerate() {
        if !order.contains(&index) {
            return Err(Error::config(
                "WEIR_UNUSED_SOURCE",
                format!("the source {} is not used in the SQL; read it there or remove it", stream.name),
            )
            .in_field(format!("sources[{}]", stream.name)));
        }
    }
    let observers = analyzer.observed.take();
    for observation in &catalog.observations {
        if !observers.iter().any(|o| o.name == observation.name) {
            return Err(Error::config(
                "WEIR_UNUSED_OBSERVATION",
                format!(
                    "the observation {} is over `{}`, which the query does not use; read it in the SQL, or remove the observation",
                    observation.name, observation.view
                ),
            )
            .in_field(format!("observe[{}]", observation.name)));
        }
    }
    let (plan, schema) = finished(relation)?;
    let judged = match text.undecodable {
        Undecodable::ByMode => BTreeMap::new(),
        Undecodable::SetApart if analyzer.fails_fast.get() => return Err(in_sql(fails_fast())),
        Undecodable::SetApart => judge_plans(&plan, &analyzer.misfits.borrow()).map_err(from_planning)?,
    };
    let plan = optimize(conf, &plan)?;
    let mut required = required_columns(&plan, &schemas)?;
    let mut misfits = BTreeMap::new();
    for (stream, judged) in judged {
        let judged = optimize(conf, &judged)?;
        for (columns, more) in required.iter_mut().zip(required_columns(&judged, &schemas)?) {
            columns.extend(more);
            columns.sort_unstable();
            columns.dedup();
        }
        misfits.insert(stream, judged);
    }
    let malformed = analyzer.malformed.take();
    // Constants were decoded while planning.
    for counter in &malformed {
        counter.take();
    }
    let conf = conf.clone();
    Ok(CompiledQuery(Arc::new(Compiled {
        conf,
        plan,
        schema,
        observers,
        has_statics,
        malformed,
        required,
        misfits,
        streams: schemas,
        order,
    })))
}

fn fails_fast() -> Error {
    let text = "the mode FAILFAST of from_json or from_csv ends the query at the first bad record, and badRecords keeps bad records so that it goes on; \
                leave out the mode, or the field badRecords";
    Error::config("BAD_RECORDS_UNDER_FAILFAST", text)
}

/// Parses views and observations.
pub(crate) fn catalog(tables: Vec<Table>, text: &QueryText) -> Result<Catalog> {
    let mut views = Vec::new();
    for (name, sql) in &text.views {
        views.push((name.clone(), parse_query(sql).map_err(|e| e.in_field(view_field(name)).context(format!("view {name}")))?));
    }
    let mut observations = Vec::new();
    for observation in &text.observe {
        let mut metrics = Vec::new();
        for (name, expr) in &observation.metrics {
            let expr = parse_expression(expr)
                .map_err(|e| e.in_field(metric_field(&observation.name, name)))
                .map_err(|e| e.context(format!("observation {}, metric {name}", observation.name)))?;
            metrics.push((name.clone(), expr));
        }
        observations.push(ParsedObservation { name: observation.name.clone(), view: observation.view.clone(), metrics });
    }
    Ok(Catalog { tables, views, observations })
}

/// The plan with its columns in order, and the schema with Spark's names.
pub(crate) fn finished(relation: Relation) -> Result<(LogicalPlan, SchemaRef)> {
    let exprs: Vec<Expr> = relation.scope.cols.iter().map(|c| Expr::Column(c.column.clone())).collect();
    let fields: Vec<Field> = relation
        .scope
        .cols
        .iter()
        .map(|c| {
            let field = Field::new(&c.name, c.ty.clone(), true);
            match &c.spark_type {
                Some(name) => field.with_metadata([(SPARK_TYPE_KEY.to_owned(), name.clone())].into()),
                None => field,
            }
        })
        .collect();
    let plan = Projection::try_new(exprs, Arc::new(relation.plan)).map(LogicalPlan::Projection).map_err(from_planning)?;
    Ok((plan, Arc::new(Schema::new(fields))))
}

/// The columns of every stream that its scans read.
fn required_columns(plan: &LogicalPlan, streams: &[SchemaRef]) -> Result<Vec<Vec<usize>>> {
    let mut required: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); streams.len()];
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(stream) = provider.downcast_ref::<StreamTable>()
        {
            match &scan.projection {
                Some(columns) => required[stream.index].extend(columns),
                None => required[stream.index].extend(0..stream.schema.fields().len()),
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_planning)?;
    Ok(required.into_iter().map(|c| c.into_iter().collect()).collect())
}

/// A physical expression over a schema, outside of any plan.
pub(crate) fn physical_expr(expr: &Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>, DataFusionError> {
    datafusion::physical_expr::create_physical_expr(expr, schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())
}

impl Compiled {
    /// A slice in the types that the plan expects.
    pub fn canonical_input(&self, stream: usize, input: RecordBatch) -> Result<RecordBatch> {
        let columns = &self.required[stream];
        if input.num_columns() != columns.len() {
            return Err(Error::config(
                "WEIR_WRONG_COLUMNS",
                format!("a slice has {} columns, the plan requires {} (see required_columns)", input.num_columns(), columns.len()),
            ));
        }
        let schema = self.streams[stream].project(columns).map_err(|e| from_planning(e.into()))?;
        let arrays = input
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(array, field)| to_canonical(array, field.data_type()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(crate::error::from_datafusion)?;
        let options = RecordBatchOptions::new().with_row_count(Some(input.num_rows()));
        // Sources may say NOT NULL more strictly than the data is.
        let fields: Vec<_> = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(|e| crate::error::from_datafusion(e.into()))
    }

    /// A result with Spark's column names.
    pub fn named(&self, batch: RecordBatch) -> Result<RecordBatch, DataFusionError> {
        named(batch, &self.schema)
    }
}

/// A result with Spark's column names.
pub(crate) fn named(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, DataFusionError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}

impl CompiledQuery {
    /// The columns of the result, with Spark's names and types.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }

    /// Indexes of the streams in order of first appearance in the plan.
    pub fn stream_order(&self) -> &[usize] {
        &self.0.order
    }

    /// Indexes of the columns of a stream that the plan reads, ascending. A slice
    /// given to `Lane::execute` has exactly these, in this order.
    pub fn required_columns(&self, stream: usize) -> Vec<usize> {
        self.0.required.get(stream).cloned().unwrap_or_default()
    }

    /// Whether rows of a stream are told apart that cannot be decoded.
    pub fn tells_misfits(&self, stream: usize) -> bool {
        self.0.misfits.contains_key(&stream)
    }

    /// Whether static inputs are read again for each batch.
    pub fn reads_static_inputs(&self) -> bool {
        self.0.has_statics
    }

    /// An independent copy to run on one thread.
    pub fn lane(&self) -> Result<Lane> {
        Lane::new(Arc::clone(&self.0))
    }
}
