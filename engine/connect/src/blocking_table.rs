//! A table whose rows come from readers, opened anew each time a plan runs.
//!
//! Some readers wait for brokers or files where they are called, so all of them
//! are opened and read on a blocking thread, one after the other. What is read
//! and from where to where is `Rows`' business; nothing is kept between scans
//! here, and none is promised to be read only once.

use std::fmt;
use std::sync::Arc;

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

use crate::source::{PartitionReader, Scan};

/// Soft bound of a batch's bytes.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Batches that wait for who reads the table.
const BATCHES_AHEAD: usize = 2;

/// Readers of one scan, in order; each may be made when its turn comes.
pub type Readers<'a> = Box<dyn Iterator<Item = Result<Box<dyn PartitionReader>>> + 'a>;

/// What a table of readers reads.
pub trait Rows: fmt::Debug + Send + Sync {
    /// All columns.
    fn schema(&self) -> &SchemaRef;

    /// The readers of a scan. Called on a thread that may wait; `runtime` waits for what is asynchronous.
    fn readers<'a>(&'a self, scan: &'a Scan, runtime: &Handle) -> Result<Readers<'a>>;
}

/// The table.
#[derive(Debug)]
pub struct BlockingTable(Arc<dyn Rows>);

impl BlockingTable {
    /// A table of these rows.
    pub fn of(rows: impl Rows + 'static) -> Arc<dyn TableProvider> {
        Arc::new(Self(Arc::new(rows)))
    }
}

#[async_trait]
impl TableProvider for BlockingTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.0.schema())
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
        let columns = projection.cloned().unwrap_or_else(|| (0..self.0.schema().fields().len()).collect());
        let schema = Arc::new(self.0.schema().project(&columns)?);
        let all = Arc::new(AllRows { rows: Arc::clone(&self.0), columns, schema: Arc::clone(&schema) });
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![all], None, [], false, limit)?))
    }
}

/// The one partition of a scan.
#[derive(Debug)]
struct AllRows {
    rows: Arc<dyn Rows>,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl PartitionStream for AllRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let scan = Scan { columns: self.columns.clone(), max_rows: context.session_config().batch_size(), max_bytes: BATCH_BYTES };
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), BATCHES_AHEAD);
        let (rows, out) = (Arc::clone(&self.rows), builder.tx());
        builder.spawn_blocking(move || read(&*rows, &scan, &out).map_err(|error| DataFusionError::External(Box::new(error))));
        builder.build()
    }
}

/// Reads reader after reader until all are read or nobody takes the rows any more.
fn read(rows: &dyn Rows, scan: &Scan, out: &Sender<DfResult<RecordBatch>>) -> Result<()> {
    let runtime =
        Handle::try_current().map_err(|e| Error::retryable("INTERNAL_ERROR", "a table was read outside of the runtime").with_source(e))?;
    for reader in rows.readers(scan, &runtime)? {
        let mut reader = reader?;
        while let Some(batch) = runtime.block_on(reader.next())? {
            if out.blocking_send(Ok(batch)).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
