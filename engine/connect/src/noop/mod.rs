//! The `noop` sink: takes every row, keeps none, counts all.
//!
//! For tests and for measuring a query without its output, as Spark's.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use weir_core::Result;

use crate::sink::{BatchId, Committed, Delivery, OutputRows, Sink, SinkIdentity, SinkWriter, Written};

/// The sink.
#[derive(Debug)]
pub struct NoopSink {
    schema: SchemaRef,
}

impl NoopSink {
    /// A sink for rows of `schema`.
    pub fn new(schema: SchemaRef) -> Self {
        Self { schema }
    }
}

struct NoopWriter {
    rows: u64,
}

#[async_trait]
impl SinkWriter for NoopWriter {
    async fn write(&mut self, slice: RecordBatch) -> Result<()> {
        self.rows += slice.num_rows() as u64;
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Written> {
        Ok(Written { rows: self.rows, ..Written::default() })
    }

    async fn abort(self: Box<Self>) {}
}

#[async_trait]
impl Sink for NoopSink {
    fn description(&self) -> String {
        "NoopTable".to_owned()
    }

    fn identity(&self) -> SinkIdentity {
        SinkIdentity { format: "noop".to_owned(), location: String::new(), table_id: None }
    }

    fn output_rows(&self) -> OutputRows {
        OutputRows::Counted
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    async fn recorded_batch(&self, _query_id: uuid::Uuid) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn writer(&self, _batch: &BatchId, _lane: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(NoopWriter { rows: 0 }))
    }

    async fn commit(&self, _batch: &BatchId, _parts: Vec<Written>) -> Result<Committed> {
        Ok(Committed::Now)
    }

    async fn maintain(&self, _batch: u64) -> Result<()> {
        Ok(())
    }
}
