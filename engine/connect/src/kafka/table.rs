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
use datafusion::catalog::TableProvider;
use tokio::runtime::Handle;
use weir_core::Result;

use super::lookup::Lookup;
use super::options::KafkaSourceOptions;
use super::plan::{self, OffsetRange};
use super::pool::ConsumerPool;
use super::reader::{RangeReader, ReadPolicy};
use super::rows;
use super::source::resolve_offsets;
use super::starting::{End, StartingOffsets};
use crate::blocking_table::{BlockingTable, Readers, Rows};
use crate::source::{PartitionReader, Scan};

/// The table, and what every scan needs.
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

/// The table of the options; no client is made yet.
pub fn table(options: KafkaSourceOptions, ending: StartingOffsets) -> Result<Arc<dyn TableProvider>> {
    Lookup::check(&options)?;
    Ok(BlockingTable::of(Topics { schema: rows::schema(options.headers), options, ending, clients: Mutex::default() }))
}

impl Rows for Topics {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Range after range; each takes its client when its turn comes.
    fn readers<'a>(&'a self, scan: &'a Scan, _runtime: &Handle) -> Result<Readers<'a>> {
        let policy = ReadPolicy { data_loss: self.options.data_loss, poll_timeout: self.options.poll_timeout };
        let clients = self.clients()?;
        let ranges = self.ranges(&clients)?;
        Ok(Box::new(ranges.into_iter().map(move |range| {
            let reader = RangeReader::new(range, &self.schema, scan, Arc::clone(&clients.pool), policy)?;
            Ok(Box::new(reader) as Box<dyn PartitionReader>)
        })))
    }
}

impl Topics {
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
