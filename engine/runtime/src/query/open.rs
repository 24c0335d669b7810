//! Opening a query: compile, claim, open the sink, recover, in the protocol's
//! order (protocol.md section 3).
//!
//! Everything that the manifest and this machine decide is decided before the
//! claim, in `prepare`, so that a query that cannot work leaves no trace in its
//! checkpoint; `check` does the same for `weir check` and looks at what comes
//! later as well, as far as that needs no service. The sink's record is read
//! before the logs are listed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use uuid::Uuid;
use weir_connect::expressions::Expressions;
use weir_connect::open::{MalformedRecords, SinkContext, SinkRole, SinkSettings, SourceContext, SourcePlace};
use weir_connect::{PreparedSource, RecordColumns, Scan, Sink, Source, Standing};
use weir_connect::{bad_records, registry, source_logs};
use weir_core::checkpoint::{BindSink, Claimant, Owner, QueryLog, Recorded, Recovery, claim};
use weir_core::storage::{Durability, Storage};
use weir_core::{Error, Result};
use weir_crds::finding::did_you_mean;
use weir_sql::{CompiledQuery, StaticInput, StreamInput};

use super::bad_records::BadRecordsSink;
use super::batch::SourceScan;
use super::definition::{InputDefinition, QueryDefinition, SinkDefinition};
use crate::environment::TaskEnvironment;
use crate::event_time::{Case, event_column};
use crate::expressions::SqlExpressions;
use crate::lanes::Lanes;
use crate::places;

/// A source with what the driver needs to know about it.
pub struct OpenSource {
    /// The source.
    pub source: Box<dyn Source>,
    /// Delay of its watermark, ms.
    pub watermark_delay_ms: Option<i64>,
}

/// A query that is ready for its first trigger.
pub struct OpenQuery {
    /// The claimed checkpoint.
    pub log: QueryLog,
    /// Sources in plan order.
    pub sources: Vec<OpenSource>,
    /// How each source is read.
    pub scans: Arc<Vec<SourceScan>>,
    /// The sink.
    pub sink: Arc<dyn Sink>,
    /// The sink of bad records, where the query has one.
    pub bad_records: Option<Arc<BadRecordsSink>>,
    /// The lanes.
    pub lanes: Lanes,
    /// Where to go on.
    pub recovery: Recovery,
    /// What the sink had recorded when it was opened.
    pub sink_recorded: Option<u64>,
}

/// Opens the query under the task's epoch.
pub async fn open(definition: &QueryDefinition, environment: &TaskEnvironment) -> Result<OpenQuery> {
    let storage = Storage::new(durability(definition));
    let root = storage.open(&definition.checkpoint)?;

    let Prepared { mut sources, scans, compiled } = prepare(definition, &storage).await?;
    let schema = compiled.schema();
    let expressions = SqlExpressions::shared(&definition.sql_conf);
    let settings = settings(definition, &definition.sink, &schema, &storage, &expressions);
    registry::check_sink(settings).map_err(in_sink)?;
    let bad_schema = bad_records::schema();
    let bad_settings = definition.bad_records.as_ref().map(|sink| self::settings(definition, sink, &bad_schema, &storage, &expressions));
    bad_settings.map(registry::check_sink).transpose().map_err(in_bad_records)?;
    for (source, input) in sources.iter_mut().zip(&definition.sources) {
        source.make_clients().map_err(|e| in_source(e, input))?;
    }
    let order = compiled.stream_order().to_vec();

    let claimant = claimant(definition, environment);
    let claimed = claim(&root, &claimant).await?;
    let query_id = claimed.query_id;
    let log = QueryLog::new(root.clone(), claimed);

    let place = |number: usize| SourcePlace { log: log.source_log(number), query_id };
    let sources = bind_sources(definition, sources, &order, place).await?;
    let context = SinkContext { query_id, fence: log.fence().clone(), role: SinkRole::Rows };
    let sink: Arc<dyn Sink> = Arc::from(registry::open_sink(settings, &context).await?);
    let bound = log.bind_sink(BindSink::Rows, &identity(&*sink), definition.reset_nonce).await?;
    let bad_records = match bad_settings {
        Some(settings) => {
            let context = SinkContext { role: SinkRole::BadRecords, ..context };
            let sink: Arc<dyn Sink> = Arc::from(registry::open_sink(settings, &context).await.map_err(|e| e.context("bad records"))?);
            log.bind_sink(BindSink::BadRecords, &identity(&*sink), definition.reset_nonce).await?;
            let names = order.iter().map(|at| definition.sources[*at].name.clone()).collect();
            let bad_records = BadRecordsSink::new(sink, definition.name.clone(), names, definition.reset_nonce);
            bad_records.bind(&log).await?;
            Some(Arc::new(bad_records))
        }
        None => None,
    };
    let recorded = || async {
        let bad_records = match &bad_records {
            Some(bad_records) => bad_records.recorded_batch(query_id).await?,
            None => None,
        };
        Ok(Recorded { rows: sink.recorded_batch(query_id).await?, bad_records })
    };
    let recovered = log.recover(recorded, sink.records_every_batch().then_some(bound.since), order.len(), source_logs::went_back).await;
    let (recovery, sink_recorded) = match recovered {
        Ok(recovered) => recovered,
        Err(error) => {
            // A process that slept compares what it read of the sink with what a
            // successor wrote since; then the successor is the reason, not damage.
            log.fence().check().await?;
            return Err(error);
        }
    };
    sink.resume(standing(&recovery, bound.is_new)).await?;
    if bound.is_new {
        log.sink_begins(BindSink::Rows, definition.reset_nonce).await?;
    }
    log.claim().clean_up().await?;
    let lanes = Lanes::new(&definition.name, Arc::new(compiled), definition.session.lanes.unwrap_or(environment.lanes));
    Ok(OpenQuery { log, sources, scans: Arc::new(scans), sink, bad_records, lanes, recovery, sink_recorded })
}

fn identity(sink: &dyn Sink) -> String {
    serde_json::to_string(&sink.identity()).expect("an identity is strings")
}

/// What a sink has to know of the checkpoint.
fn standing(recovery: &Recovery, is_new: bool) -> Standing {
    match recovery {
        Recovery::Fresh => Standing { committed: None, in_doubt: None, is_new },
        Recovery::Next { batch, .. } => Standing { committed: batch.checked_sub(1), in_doubt: None, is_new },
        Recovery::Replay { batch, .. } => Standing { committed: batch.checked_sub(1), in_doubt: Some(*batch), is_new },
    }
}

/// What the task would refuse before its first batch, as far as this machine alone can tell: nothing is written.
/// Of its sinks only those are looked at whose options are all known. `storage` decides what may be looked at; in a sealed one
/// the manifest stands alone.
pub async fn check(definition: &QueryDefinition, known: &[SinkRole], storage: &Storage) -> Result<()> {
    let compiled = prepare(definition, storage).await?.compiled;
    let expressions = SqlExpressions::shared(&definition.sql_conf);
    let rows = (SinkRole::Rows, &definition.sink, compiled.schema());
    let bad_records = definition.bad_records.as_ref().map(|sink| (SinkRole::BadRecords, sink, bad_records::schema()));
    for (role, sink, schema) in std::iter::once(rows).chain(bad_records).filter(|(role, ..)| known.contains(role)) {
        let placed = match role {
            SinkRole::Rows => in_sink,
            SinkRole::BadRecords => in_bad_records,
        };
        let settings = settings(definition, sink, &schema, storage, &expressions);
        registry::check_sink(settings).map_err(placed)?;
        registry::check_sink_table(settings).await.map_err(placed)?;
    }
    // The plan that a lane makes when its first batch begins.
    let planned = async { compiled.lane()?.begin_batch(0).await };
    planned.await.map_err(|e| e.in_field("sql"))
}

fn settings<'a>(
    definition: &'a QueryDefinition,
    sink: &'a SinkDefinition,
    schema: &'a SchemaRef,
    storage: &'a Storage,
    expressions: &'a Arc<dyn Expressions>,
) -> SinkSettings<'a> {
    let SinkDefinition { format, options, partition_by, upsert } = sink;
    SinkSettings { format, options, schema, partition_by, upsert: upsert.as_ref(), storage, conf: &definition.conf, expressions }
}

fn in_sink(error: Error) -> Error {
    error.within("sink")
}

fn in_bad_records(error: Error) -> Error {
    error.within("badRecords").context("bad records")
}

fn in_source(error: Error, input: &InputDefinition) -> Error {
    error.within(&format!("sources[{}]", input.name)).context(format!("source {}", input.name))
}

/// What is known before the claim.
struct Prepared {
    /// In the manifest's order; none has touched the checkpoint.
    sources: Vec<Box<dyn PreparedSource>>,
    /// In the order of the plan.
    scans: Vec<SourceScan>,
    compiled: CompiledQuery,
}

async fn prepare(definition: &QueryDefinition, storage: &Storage) -> Result<Prepared> {
    let checkpoint = storage.open(&definition.checkpoint).and_then(|place| place.refuse_file("checkpointLocation"));
    checkpoint.map_err(|e| e.in_field("checkpointLocation"))?;
    places::check_own(definition, storage)?;
    let mut sources = Vec::with_capacity(definition.sources.len());
    for input in &definition.sources {
        let malformed = if definition.bad_records.is_some() { MalformedRecords::SetApart } else { MalformedRecords::ByMode };
        let context = SourceContext { storage: storage.clone(), conf: definition.conf.clone(), malformed };
        let source = registry::prepare_source(&input.format, &input.options, input.schema.clone(), context).await;
        sources.push(source.map_err(|e| in_source(e, input))?);
    }
    let schemas: Vec<SchemaRef> = sources.iter().map(|source| source.schema()).collect();
    let compiled = compile(definition, &schemas, storage).await?;
    let scan_of = |at: &usize| scan(definition, &compiled, *at, &schemas[*at], sources[*at].record_columns());
    let scans = compiled.stream_order().iter().map(scan_of).collect::<Result<Vec<_>>>()?;
    let are_set_apart = || sources.iter().any(|source| source.sets_malformed_apart()) || scans.iter().any(|scan| scan.judged.is_some());
    if definition.bad_records.is_some() && !are_set_apart() {
        return Err(nothing_to_set_apart());
    }
    Ok(Prepared { sources, scans, compiled })
}

fn nothing_to_set_apart() -> Error {
    let text = "nothing of the query is set apart: badRecords takes records of json and csv files, and records of topics that the SQL decodes by \
                from_json or from_csv in a select list or WHERE, outside of CASE, AND and OR; decode them there, or remove badRecords";
    Error::config("BAD_RECORDS_WITHOUT_SOURCE", text).in_field("badRecords")
}

fn durability(definition: &QueryDefinition) -> Durability {
    if definition.session.checkpoint_fsync { Durability::Fsync } else { Durability::PageCache }
}

fn claimant(definition: &QueryDefinition, environment: &TaskEnvironment) -> Claimant {
    Claimant {
        owner: Owner {
            job_uid: environment.job_uid.clone(),
            namespace: environment.namespace.clone(),
            job: environment.job.clone(),
            task: environment.task.clone(),
            query: definition.name.clone(),
        },
        epoch: environment.epoch,
        instance: environment.instance,
        pod_uid: environment.pod_uid.clone(),
        adopt: environment.adopt_checkpoint,
        now_ms: environment.clock.now_ms(),
        new_query_id: Uuid::new_v4(),
    }
}

/// The sources that the plan reads, numbered as it reads them.
async fn bind_sources(
    definition: &QueryDefinition,
    prepared: Vec<Box<dyn PreparedSource>>,
    order: &[usize],
    place: impl Fn(usize) -> SourcePlace,
) -> Result<Vec<OpenSource>> {
    let mut prepared: BTreeMap<usize, Box<dyn PreparedSource>> = prepared.into_iter().enumerate().collect();
    let mut opened = Vec::with_capacity(order.len());
    for (number, at) in order.iter().enumerate() {
        let (input, source) = (&definition.sources[*at], prepared.remove(at).expect("the plan reads each source once"));
        let source = source.bind(place(number)).await.map_err(|e| e.context(format!("source {}", input.name)))?;
        opened.push(OpenSource { source, watermark_delay_ms: input.watermark.as_ref().map(|w| w.delay_ms) });
    }
    Ok(opened)
}

async fn compile(definition: &QueryDefinition, schemas: &[SchemaRef], storage: &Storage) -> Result<CompiledQuery> {
    let streams = definition.sources.iter().zip(schemas);
    let stream = |(input, schema): (&InputDefinition, &SchemaRef)| StreamInput {
        name: input.name.clone(),
        schema: Arc::clone(schema),
        has_watermark: input.watermark.is_some(),
    };
    let streams = streams.map(stream).collect();
    let mut statics = Vec::with_capacity(definition.tables.len());
    for table in &definition.tables {
        statics.push(static_input(table, storage, &definition.conf).await?);
    }
    let compiled = weir_sql::compile(&definition.sql_conf, streams, statics, &definition.text, definition.output_mode)?;
    check_partition_columns(&definition.sink.partition_by, &compiled.schema()).map_err(|e| e.in_field("sink.partitionBy"))?;
    Ok(compiled)
}

/// Every `partitionBy` column is one of the query's, in any case, and some
/// other column remains to be written.
fn check_partition_columns(partition_by: &[String], schema: &SchemaRef) -> Result<()> {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let known = |column: &String| names.iter().any(|name| name.eq_ignore_ascii_case(column));
    if let Some(column) = partition_by.iter().find(|column| !known(column)) {
        return Err(Error::config(
            "_LEGACY_ERROR_TEMP_1196",
            format!(
                "partitionBy names the column '{column}', which the query does not have{}; its columns are {}",
                did_you_mean(column, names.iter().copied()),
                names.join(", ")
            ),
        ));
    }
    if !partition_by.is_empty() && partition_by.len() >= names.len() {
        return Err(Error::config(
            "ALL_PARTITION_COLUMNS_NOT_ALLOWED",
            "partitionBy names every column of the query; leave at least one to be written into the files",
        ));
    }
    Ok(())
}

/// Opens a static table; read again each batch.
async fn static_input(table: &InputDefinition, storage: &Storage, conf: &BTreeMap<String, String>) -> Result<StaticInput> {
    let provider = weir_connect::tables::open_table_with_conf(&table.format, &table.options, table.schema.clone(), storage, conf)
        .await
        .map_err(|e| e.in_field(format!("tables[{}]", table.name)).context(format!("table {}", table.name)))?;
    Ok(StaticInput { name: table.name.clone(), table: provider })
}

/// The columns to read: those of the plan, and the watermark's.
fn scan(
    definition: &QueryDefinition,
    compiled: &CompiledQuery,
    at: usize,
    schema: &SchemaRef,
    record: Option<RecordColumns>,
) -> Result<SourceScan> {
    let input = &definition.sources[at];
    let wanted = compiled.required_columns(at);
    let case = if definition.session.case_sensitive { Case::Counts } else { Case::Ignored };
    let event_column = input.watermark.as_ref().map(|watermark| event_column(&input.name, &watermark.column, schema, case));
    let event_column = event_column.transpose().map_err(|e| e.in_field(format!("sources[{}].watermark.column", input.name)))?;
    let mut columns = wanted.clone();
    columns.extend(event_column);
    let record = record.filter(|_| compiled.tells_misfits(at));
    columns.extend(record.iter().flat_map(|record| record.all()));
    columns.sort_unstable();
    columns.dedup();
    let position = |column: usize| columns.iter().position(|c| *c == column).expect("every wanted column is read");
    Ok(SourceScan {
        plan_columns: wanted.iter().map(|column| position(*column)).collect(),
        event_time: event_column.map(position),
        judged: record.map(|record| record.moved(position)),
        scan: Scan { max_rows: definition.session.batch_max_rows, max_bytes: SLICE_BYTES, columns: columns.clone() },
    })
}

/// Bytes of a slice beyond which it is cut, whatever its rows.
pub const SLICE_BYTES: usize = 4 << 20;
