//! Topics as a table, as `spark.read.format("kafka")` reads them: from an offset
//! to an offset, then it ends.
//!
//! Both ends are asked of the brokers each time a plan runs, so a static table
//! of a stream sees new records in its next batch. The client waits for brokers
//! where it is called, so everything is read on a blocking thread. No offset is
//! kept anywhere, and none is promised to be read only once.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;
use weir_core::{Error, Result};

use super::lookup::Lookup;
use super::options::KafkaSourceOptions;
use super::plan::{self, OffsetRange};
use super::pool::ConsumerPool;
use super::reader::{RangeReader, ReadPolicy};
use super::rows;
use super::source::resolve_offsets;
use super::starting::{End, StartingOffsets};
use crate::source::{PartitionReader, Scan};

/// Soft bound of a batch's bytes.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Batches that wait for who reads the table.
const BATCHES_AHEAD: usize = 2;

/// The table.
#[derive(Debug)]
pub struct KafkaTable {
    topics: Arc<Topics>,
}

/// What every scan needs.
struct Topics {
    options: KafkaSourceOptions,
    ending: StartingOffsets,
    schema: SchemaRef,
    /// Made, with certificates loaded, when the table is first read: who only checks a query need not have them.
    clients: Mutex<Option<Arc<Clients>>>,
}

/// Who asks the brokers and who fetches.
struct Clients {
    lookup: Lookup,
    pool: Arc<ConsumerPool>,
}

impl Clients {
    fn new(options: &KafkaSourceOptions) -> Result<Arc<Self>> {
        let group = options.group.of_reader(uuid::Uuid::new_v4());
        Ok(Arc::new(Self { lookup: Lookup::new(options)?, pool: Arc::new(ConsumerPool::new(options, &group)) }))
    }
}

impl fmt::Debug for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topics({:?})", self.options.topics)
    }
}

impl KafkaTable {
    /// A table of the options; no client is made yet.
    pub fn new(options: KafkaSourceOptions, ending: StartingOffsets) -> Result<Self> {
        Lookup::check(&options)?;
        Ok(Self { topics: Arc::new(Topics { schema: rows::schema(options.headers), options, ending, clients: Mutex::default() }) })
    }
}

#[async_trait]
impl TableProvider for KafkaTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.topics.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.topics.schema.fields().len()).collect());
        let schema = Arc::new(self.topics.schema.project(&columns)?);
        let all = Arc::new(AllRanges { topics: Arc::clone(&self.topics), columns, schema: Arc::clone(&schema) });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![all], None, [], false, limit)?))
    }
}

/// The one partition of a scan.
#[derive(Debug)]
struct AllRanges {
    topics: Arc<Topics>,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl PartitionStream for AllRanges {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let scan = Scan { columns: self.columns.clone(), max_rows: context.session_config().batch_size(), max_bytes: BATCH_BYTES };
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), BATCHES_AHEAD);
        let (topics, out) = (Arc::clone(&self.topics), builder.tx());
        builder.spawn_blocking(move || topics.read(&scan, &out).map_err(|error| DataFusionError::External(Box::new(error))));
        builder.build()
    }
}

impl Topics {
    /// Reads range after range until all are read or nobody takes the rows any more.
    fn read(&self, scan: &Scan, out: &Sender<DfResult<RecordBatch>>) -> Result<()> {
        let runtime = Handle::try_current()
            .map_err(|e| Error::retryable("INTERNAL_ERROR", "a Kafka table was read outside of the runtime").with_source(e))?;
        let policy = ReadPolicy { data_loss: self.options.data_loss, poll_timeout: self.options.poll_timeout };
        let clients = self.clients()?;
        for range in self.ranges(&clients)? {
            let mut reader = RangeReader::new(range, &self.schema, scan, Arc::clone(&clients.pool), policy)?;
            while let Some(rows) = runtime.block_on(reader.next())? {
                if out.blocking_send(Ok(rows)).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn clients(&self) -> Result<Arc<Clients>> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clients) = &*clients {
            return Ok(Arc::clone(clients));
        }
        let options = KafkaSourceOptions { client: self.options.client.clone().loaded()?, ..self.options.clone() };
        Ok(Arc::clone(clients.insert(Clients::new(&options)?)))
    }

    fn ranges(&self, clients: &Clients) -> Result<Vec<OffsetRange>> {
        // The end first: a partition that is made in between is not read yet.
        let end = resolve_offsets(&self.ending, &clients.lookup, End::Ending)?;
        let start = resolve_offsets(&self.options.starting, &clients.lookup, End::Starting)?;
        clients.pool.expect(&end);
        let ranges = plan::between(&start, &end);
        Ok(plan::split(ranges, self.options.min_partitions, self.options.max_records_per_partition))
    }
}
