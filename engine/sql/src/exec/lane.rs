//! A lane: one physical plan, run once per slice.
//!
//! Not shared between threads. `begin_batch` sets the clock and, where static
//! inputs are read again, makes the plan anew; `execute` puts one slice into its
//! slot and runs a fresh copy of the plan's state (`reset_plan_states`), so that
//! neither metrics nor join tables outlive a slice; `finish_batch` takes the
//! observations.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use weir_core::{Error, Result};

use super::barrier::shielded;
use super::clock::{BatchTime, bind_batch_time};
use super::folding::while_planning;
use super::observe::{Accumulators, ObservedPartial};
use super::planner::WeirQueryPlanner;
use super::slot::{LaneState, Slot};
use crate::compile::Compiled;
use crate::conf::SqlConf;
use crate::error::{from_datafusion, from_planning};
use crate::planned::Malformed;

/// Most memory that the operators of one lane may hold (DataFusion's pool).
pub const LANE_POOL_BYTES: usize = 64 << 20;

/// The session that plans and runs: one partition, no surprises.
pub(crate) fn base_state(conf: &SqlConf, lane: Option<Arc<LaneState>>) -> SessionState {
    let mut options = ConfigOptions::new();
    options.execution.target_partitions = 1;
    options.execution.time_zone = Some(conf.time_zone.clone());
    options.execution.enable_ansi_mode = conf.ansi;
    options.execution.parquet.schema_force_view_types = false;
    options.optimizer.repartition_joins = false;
    // Names inside plans are Weir's own and never shown; Spark's checks are done by then.
    options.optimizer.skip_failed_rules = false;
    let config = SessionConfig::from(options);
    let builder = SessionStateBuilder::new().with_default_features().with_query_planner(Arc::new(WeirQueryPlanner));
    match lane {
        None => builder.with_config(config).build(),
        Some(lane) => {
            // Bounds what joins with static inputs may hold; everything else streams through.
            let bounded = RuntimeEnv { memory_pool: Arc::new(GreedyMemoryPool::new(LANE_POOL_BYTES)), ..RuntimeEnv::default() };
            builder.with_config(config.with_extension(lane)).with_runtime_env(Arc::new(bounded)).build()
        }
    }
}

/// The optimised logical plan.
pub(crate) fn optimize(conf: &SqlConf, plan: &LogicalPlan) -> Result<LogicalPlan> {
    let plan = shielded(plan.clone()).map_err(from_planning)?;
    while_planning(|| base_state(conf, None).optimize(&plan)).map_err(from_planning)
}

/// One thread's copy of a query.
pub struct Lane {
    query: Arc<Compiled>,
    clock: Arc<BatchTime>,
    state: SessionState,
    shared: Arc<LaneState>,
    logical: LogicalPlan,
    physical: Option<Arc<dyn ExecutionPlan>>,
    /// By stream, what tells which rows cannot be decoded.
    misfits: BTreeMap<usize, (LogicalPlan, Option<Arc<dyn ExecutionPlan>>)>,
    context: Arc<TaskContext>,
}

impl Lane {
    pub(crate) fn new(query: Arc<Compiled>) -> Result<Self> {
        let accumulators = query
            .observers
            .iter()
            .map(|o| Accumulators::new(o).map(Arc::new))
            .collect::<datafusion::common::Result<Vec<_>>>()
            .map_err(from_planning)?;
        let slots = query.required.iter().map(|c| Arc::new(Slot::new(c.clone()))).collect();
        let shared = Arc::new(LaneState { slots, accumulators });
        let state = base_state(&query.conf, Some(Arc::clone(&shared)));
        let clock = BatchTime::at(0);
        let logical = bind_batch_time(query.plan.clone(), &clock).map_err(from_planning)?;
        let bound = |plan: &LogicalPlan| bind_batch_time(plan.clone(), &clock).map_err(from_planning);
        let misfits = query.misfits.iter().map(|(stream, plan)| Ok((*stream, (bound(plan)?, None)))).collect::<Result<_>>()?;
        let context = state.task_ctx();
        Ok(Self { query, clock, state, shared, logical, physical: None, misfits, context })
    }

    /// Starts a batch: its instant, and static inputs as they are now.
    pub async fn begin_batch(&mut self, batch_timestamp_ms: i64) -> Result<()> {
        self.clock.set(batch_timestamp_ms.saturating_mul(1000));
        // A batch that failed half way may have left observations behind.
        self.finish_batch()?;
        if self.physical.is_none() || self.query.has_statics {
            let plan = self.state.query_planner().create_physical_plan(&self.logical, &self.state).await.map_err(from_datafusion)?;
            self.physical = Some(plan);
        }
        for (logical, physical) in self.misfits.values_mut().filter(|(_, physical)| physical.is_none()) {
            *physical = Some(self.state.query_planner().create_physical_plan(logical, &self.state).await.map_err(from_datafusion)?);
        }
        Ok(())
    }

    /// Of each row of a slice, as `execute` takes it, why text in it cannot be decoded, null where it can; none if all can, or if
    /// the stream's rows are not judged.
    pub async fn misfits(&self, stream: usize, input: &RecordBatch) -> Result<Option<StringArray>> {
        let Some((_, Some(plan))) = self.misfits.get(&stream) else { return Ok(None) };
        let slot = &self.shared.slots[stream];
        slot.put(Some(self.query.canonical_input(stream, input.clone())?));
        let judged = self.collected(plan).await;
        slot.put(None);
        let mut why: Vec<Option<String>> = Vec::with_capacity(input.num_rows());
        for batch in judged? {
            let texts: Vec<&StringArray> = batch.columns().iter().filter_map(|column| column.as_string_opt()).collect();
            why.extend((0..batch.num_rows()).map(|row| {
                let first = texts.iter().find(|texts| texts.is_valid(row));
                first.map(|texts| texts.value(row).to_owned())
            }));
        }
        if why.len() != input.num_rows() {
            let text = format!("{} of {} rows were judged", why.len(), input.num_rows());
            return Err(Error::retryable("INTERNAL_ERROR", text));
        }
        Ok(why.iter().any(Option::is_some).then(|| why.into()))
    }

    /// Runs one slice of one stream, which has the required columns in the order
    /// of `CompiledQuery::required_columns`; the other streams are empty.
    pub async fn execute(&mut self, stream: usize, input: RecordBatch) -> Result<Vec<RecordBatch>> {
        let slot = self
            .shared
            .slots
            .get(stream)
            .ok_or_else(|| Error::config("WEIR_UNKNOWN_STREAM", format!("the query has no stream number {stream}")))?;
        let input = self.query.canonical_input(stream, input)?;
        slot.put(Some(input));
        let result = self.run().await;
        self.shared.slots[stream].put(None);
        result
    }

    async fn run(&self) -> Result<Vec<RecordBatch>> {
        let plan =
            self.physical.as_ref().ok_or_else(|| Error::config("WEIR_LANE_NOT_STARTED", "a slice was executed before begin_batch"))?;
        let batches = self.collected(plan).await?;
        batches.into_iter().filter(|b| b.num_rows() > 0).map(|b| self.query.named(b).map_err(from_datafusion)).collect()
    }

    async fn collected(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>> {
        let fresh = reset_plan_states(Arc::clone(plan)).map_err(from_datafusion)?;
        collect(fresh, Arc::clone(&self.context)).await.map_err(from_datafusion)
    }

    /// Records that `from_json` and `from_csv` found malformed since the last
    /// call, on whichever lane: the sum over calls is exact, the moment is not.
    pub fn take_malformed(&self) -> u64 {
        self.query.malformed.iter().map(Malformed::take).sum()
    }

    /// Ends a batch: what this lane observed in it.
    pub fn finish_batch(&mut self) -> Result<ObservedPartial> {
        let states = self
            .shared
            .accumulators
            .iter()
            .zip(&self.query.observers)
            .map(|(accumulators, observer)| accumulators.take(observer))
            .collect::<datafusion::common::Result<Vec<_>>>()
            .map_err(from_datafusion)?;
        Ok(ObservedPartial { states, query: Arc::clone(&self.query) })
    }

    /// The columns of the results.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.query.schema)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};

    use super::*;
    use crate::{OutputMode, QueryText, StreamInput, compile};

    fn kept_metrics(lane: &Lane) -> usize {
        let mut kept = 0;
        lane.physical
            .as_ref()
            .unwrap()
            .apply(|node| {
                kept += node.metrics().map_or(0, |m| m.iter().count());
                Ok(TreeNodeRecursion::Continue)
            })
            .unwrap();
        kept
    }

    #[test]
    fn a_filter_over_decoded_columns_does_not_decode_twice() {
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Utf8, true)]));
        let stream = StreamInput { name: "s".into(), schema, has_watermark: false };
        let sql = "SELECT x.d.a, x.d.b FROM (SELECT from_json(v, 'a INT, b STRING') AS d FROM s) AS x WHERE x.d.a > 1";
        let text = QueryText { sql: sql.into(), ..QueryText::default() };
        let query = compile(&SqlConf::default(), vec![stream], vec![], &text, OutputMode::Append).unwrap();
        let plan = query.lane().unwrap().logical.display_indent().to_string();
        assert_eq!(plan.matches("from_json(").count(), 1, "{plan}");
    }

    #[tokio::test]
    async fn rows_that_cannot_be_decoded_are_told_before_the_query_runs() {
        let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8, true), Field::new("v", DataType::Binary, true)]));
        let input = |rows: &[(&str, Option<&str>)]| {
            let texts: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|(t, _)| t)));
            let values: Vec<Option<&[u8]>> = rows.iter().map(|(_, v)| v.map(str::as_bytes)).collect();
            RecordBatch::try_new(Arc::clone(&schema), vec![texts, Arc::new(arrow::array::BinaryArray::from(values))]).unwrap()
        };
        let rows =
            [("a", Some("{\"x\":1}")), ("a", Some("no")), ("b", Some("{\"x\":\"y\"}")), ("b", Some("2,3")), ("a", None), ("b", Some(""))];
        let compiled = |sql: &str| {
            let stream = StreamInput { name: "s".into(), schema: Arc::clone(&schema), has_watermark: false };
            let text = QueryText { sql: sql.into(), undecodable: crate::Undecodable::SetApart, ..QueryText::default() };
            compile(&SqlConf::default(), vec![stream], vec![], &text, OutputMode::Append)
        };
        let json = "from_json(CAST(v AS STRING), 'x INT')";
        for (sql, bad) in [
            (format!("SELECT t, d.x FROM (SELECT t, {json} AS d FROM s)"), vec![1, 2, 3]),
            (format!("SELECT {json}.x, t FROM s WHERE t = 'a'"), vec![1]),
            (
                format!(
                    "SELECT {json}.x, t FROM s WHERE t = 'a' UNION ALL SELECT from_csv(CAST(v AS STRING), 'x INT, y INT').x, t FROM s WHERE t = 'b'"
                ),
                vec![1, 2, 5],
            ),
            (
                format!(
                    "WITH w AS (SELECT upper(t) AS u, CAST(v AS STRING) AS w FROM s) SELECT from_json(q.w, 'x INT').x, q.u FROM w AS q WHERE q.u = 'B'"
                ),
                vec![2, 3],
            ),
            (format!("SELECT t, d.x FROM (SELECT t, {json} AS d FROM s) WHERE d.x > 0"), vec![1, 2, 3]),
            (format!("SELECT t, CASE WHEN t = 'a' THEN {json} END AS d, v FROM s"), vec![]),
            (format!("SELECT t, coalesce({json}.x, 1) AS x FROM s"), vec![]),
            (format!("SELECT {json}.x, t FROM s WHERE rand() < 0.5"), vec![]),
        ] {
            let query = compiled(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
            let mut lane = query.lane().unwrap();
            assert_eq!(query.tells_misfits(0), !bad.is_empty(), "{sql}");
            for batch in 0..2 {
                lane.begin_batch(batch).await.unwrap();
                let input = input(&rows).project(&query.required_columns(0)).unwrap();
                let why = lane.misfits(0, &input).await.unwrap();
                let found: Vec<usize> =
                    why.iter().flat_map(|why| (0..why.len()).filter(|row| why.is_valid(*row)).collect::<Vec<_>>()).collect();
                assert_eq!(found, bad, "{sql}: {why:?}");
                lane.execute(0, input.slice(0, 1)).await.unwrap();
                let good = input.slice(0, 1);
                assert!(lane.misfits(0, &good).await.unwrap().is_none());
            }
        }
        let error = compiled("SELECT from_json(t, 'x INT', map('mode', 'FAILFAST')) AS d FROM s").err().unwrap();
        assert_eq!(error.condition(), "BAD_RECORDS_UNDER_FAILFAST");
    }

    #[tokio::test]
    async fn runs_leave_nothing_in_the_cached_plan() {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("v", DataType::Int64, true)]));
        let stream = StreamInput { name: "s".into(), schema: Arc::clone(&schema), has_watermark: false };
        let text = QueryText {
            sql: "SELECT k, explode(array(v, v + 1)) AS w FROM s WHERE v > 0 UNION ALL SELECT upper(k), v FROM s".into(),
            ..QueryText::default()
        };
        let query = compile(&SqlConf::default(), vec![stream], vec![], &text, OutputMode::Append).unwrap();
        let mut lane = query.lane().unwrap();
        let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(vec!["a", "b"])), Arc::new(Int64Array::from(vec![1, -1]))];
        let input = RecordBatch::try_new(schema, columns).unwrap();
        let mut after = Vec::new();
        for batch in 0..200 {
            lane.begin_batch(batch).await.unwrap();
            let rows: usize = lane.execute(0, input.clone()).await.unwrap().iter().map(RecordBatch::num_rows).sum();
            assert_eq!(rows, 4);
            after.push(kept_metrics(&lane));
        }
        assert_eq!(after.first(), after.last());
    }
}
