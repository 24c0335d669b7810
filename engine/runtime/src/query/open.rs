//! Opening a query: compile, claim, open the sink, recover, in the protocol's
//! order (protocol.md section 3).
//!
//! Everything that the manifest alone decides is decided before the claim, so
//! a query that cannot work leaves no trace in its checkpoint. The sink's
//! record is read before the logs are listed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use uuid::Uuid;
use weir_connect::open::{SinkContext, SourceContext, SourcePlace};
use weir_connect::registry;
use weir_connect::{PreparedSource, Scan, Sink, Source};
use weir_core::checkpoint::{Claimant, Owner, QueryLog, Recovery, claim};
use weir_core::storage::{Durability, Storage};
use weir_core::{Error, Result};
use weir_sql::{CompiledQuery, StaticInput, StreamInput};

use super::batch::SourceScan;
use super::definition::{InputDefinition, QueryDefinition, SinkDefinition};
use crate::environment::TaskEnvironment;
use crate::lanes::Lanes;

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

    let Prepared { sources, schemas, compiled } = prepare(definition, &storage).await?;
    check_sink(definition, &compiled)?;
    let order = compiled.stream_order().to_vec();

    let claimant = claimant(definition, environment);
    let claimed = claim(&root, &claimant).await?;
    let query_id = claimed.query_id;
    let log = QueryLog::new(root.clone(), claimed);

    let place = |number: usize| SourcePlace { log: log.source_log(number), query_id };
    let sources = bind_sources(definition, sources, &order, place).await?;
    let scans = order.iter().map(|at| scan(definition, &compiled, *at, &schemas)).collect::<Result<Vec<_>>>()?;
    let context = SinkContext { query_id, fence: log.fence().clone(), storage: storage.clone(), conf: definition.conf.clone() };
    let sink: Arc<dyn Sink> = Arc::from(
        registry::open_sink(&definition.sink.format, &definition.sink.options, compiled.schema(), &definition.sink.partition_by, context)
            .await?,
    );
    let identity = serde_json::to_string(&sink.identity()).expect("an identity is strings");
    let since = log.bind_sink(&identity, definition.reset_nonce).await?;
    let recovered = log.recover(|| sink.recorded_batch(query_id), sink.records_every_batch().then_some(since), order.len()).await;
    let (recovery, sink_recorded) = match recovered {
        Ok(recovered) => recovered,
        Err(error) => {
            // A process that slept compares what it read of the sink with what a
            // successor wrote since; then the successor is the reason, not damage.
            log.fence().check().await?;
            return Err(error);
        }
    };
    log.claim().clean_up().await?;
    let lanes = Lanes::new(&definition.name, Arc::new(compiled), definition.session.lanes.unwrap_or(environment.lanes));
    Ok(OpenQuery { log, sources, scans: Arc::new(scans), sink, lanes, recovery, sink_recorded })
}

/// Compiles a query without touching its checkpoint; what `weir check` does.
pub async fn compile_only(definition: &QueryDefinition) -> Result<CompiledQuery> {
    Ok(prepare(definition, &Storage::new(Durability::PageCache)).await?.compiled)
}

/// Whether the sink can take the query's columns, as far as the manifest tells.
pub fn check_sink(definition: &QueryDefinition, compiled: &CompiledQuery) -> Result<()> {
    let SinkDefinition { format, options, partition_by } = &definition.sink;
    let storage = Storage::new(durability(definition));
    registry::check_sink(format, options, &compiled.schema(), partition_by, &storage, &definition.conf).map_err(|e| e.in_field("sink"))
}

/// Whether the table that the sink finds on this machine can take the query's columns: what the task would meet later.
pub async fn check_sink_table(definition: &QueryDefinition, compiled: &CompiledQuery) -> Result<()> {
    let SinkDefinition { format, options, partition_by } = &definition.sink;
    let storage = Storage::new(durability(definition));
    let checked = registry::check_sink_table(format, options, compiled.schema(), partition_by, &storage, &definition.conf).await;
    checked.map_err(|e| e.in_field("sink"))
}

/// What is known before the claim.
struct Prepared {
    /// In the manifest's order; none has touched the checkpoint.
    sources: Vec<Box<dyn PreparedSource>>,
    schemas: Vec<SchemaRef>,
    compiled: CompiledQuery,
}

async fn prepare(definition: &QueryDefinition, storage: &Storage) -> Result<Prepared> {
    let checkpoint = storage.open(&definition.checkpoint).and_then(|place| place.refuse_file("checkpointLocation"));
    checkpoint.map_err(|e| e.in_field("checkpointLocation"))?;
    let mut sources = Vec::with_capacity(definition.sources.len());
    for input in &definition.sources {
        let context = SourceContext { storage: storage.clone(), conf: definition.conf.clone() };
        let source = registry::prepare_source(&input.format, &input.options, input.schema.clone(), context).await;
        sources.push(source.map_err(|e| e.in_field(format!("sources[{}]", input.name)).context(format!("source {}", input.name)))?);
    }
    let schemas: Vec<SchemaRef> = sources.iter().map(|source| source.schema()).collect();
    let compiled = compile(definition, &schemas, storage).await?;
    Ok(Prepared { sources, schemas, compiled })
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
    let streams = streams.map(|(input, schema)| StreamInput { name: input.name.clone(), schema: Arc::clone(schema) }).collect();
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
            format!("partitionBy names the column '{column}', which the query does not have; its columns are {}", names.join(", ")),
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
fn scan(definition: &QueryDefinition, compiled: &CompiledQuery, at: usize, schemas: &[SchemaRef]) -> Result<SourceScan> {
    let input = &definition.sources[at];
    let schema = &schemas[at];
    let wanted = compiled.required_columns(at);
    let event_column = input
        .watermark
        .as_ref()
        .map(|watermark| {
            schema.index_of(&watermark.column).map_err(|_| {
                Error::config(
                    "UNRESOLVED_COLUMN.WITH_SUGGESTION",
                    format!(
                        "the watermark of source {} names the column '{}', which it does not have; its columns are {}",
                        input.name,
                        watermark.column,
                        schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ")
                    ),
                )
            })
        })
        .transpose()?;
    let mut columns = wanted.clone();
    columns.extend(event_column);
    columns.sort_unstable();
    columns.dedup();
    let position = |column: usize| columns.iter().position(|c| *c == column).expect("every wanted column is read");
    Ok(SourceScan {
        plan_columns: wanted.iter().map(|column| position(*column)).collect(),
        event_time: event_column.map(position),
        scan: Scan { max_rows: definition.session.batch_max_rows, max_bytes: SLICE_BYTES, columns: columns.clone() },
    })
}

/// Bytes of a slice beyond which it is cut, whatever its rows.
pub const SLICE_BYTES: usize = 4 << 20;
