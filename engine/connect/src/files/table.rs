//! A folder of files as a table that is listed each time it is read.
//!
//! Its schema is settled when it is opened. Each partition of a plan lists the
//! files itself when it runs and takes those whose names hash to it, so no two
//! partitions read one file even while files arrive.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::stream;
use weir_core::storage::Storage;
use weir_core::{Error, Result};
use weir_decode::time::parse_timestamp;

use super::listing::{self, FoundFile};
use super::location::Location;
use super::options::{ListingOptions, ModifiedWindow};
use super::read::options::session_zone;
use super::read::{FileTask, FormatOptions, ReadSettings, Unreadable, partition_readers};
use super::schema::{self, Inference};
use crate::options::{Options, invalid};
use crate::source::{PartitionReader, Scan};

/// Soft bound of a batch's bytes.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// The table.
#[derive(Debug)]
pub struct FileTable {
    files: Arc<Files>,
}

/// What every scan needs.
struct Files {
    location: Location,
    listing: ListingOptions,
    storage: Storage,
    settings: Arc<ReadSettings>,
    schema: SchemaRef,
    base_depth: Option<usize>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Files({})", self.location.text())
    }
}

impl FileTable {
    /// Lists the files once and settles the schema.
    pub async fn open(
        format: &str,
        options: &Options,
        declared: Option<SchemaRef>,
        storage: &Storage,
        conf: &BTreeMap<String, String>,
    ) -> Result<Self> {
        let location = Location::new(options.required(format, "path")?, storage)?;
        let mut listing_options = ListingOptions::parse(options)?;
        listing_options.modified = modified(options, conf)?;
        let read = FormatOptions::parse(format, options, conf)?;
        let listed = listing::list(&location, &listing_options, storage).await?;
        if listed.files.is_empty() && (location.is_pattern() || !listing::exists(&location).await?) {
            return Err(listing::path_not_found(location.text()));
        }
        let store = location.folder().store().clone();
        let schema = schema::resolve(&read, declared, &listed, &listing_options, Inference::Allowed, conf, &store).await?;
        let settings = Arc::new(ReadSettings::new(read, schema.clone(), store, Unreadable::parse(options, conf)?));
        let base_depth = schema.base_depth;
        let files = Files { location, listing: listing_options, storage: storage.clone(), settings, schema: schema.table, base_depth };
        Ok(Self { files: Arc::new(files) })
    }
}

fn modified(options: &Options, conf: &BTreeMap<String, String>) -> Result<ModifiedWindow> {
    let zone = session_zone(conf)?;
    let time = |name: &str| {
        options
            .get(name)
            .map(|text| {
                let micros = parse_timestamp(text.as_bytes(), &zone);
                micros
                    .map(|micros| micros.div_euclid(1000))
                    .ok_or_else(|| invalid(name, text, "must be a timestamp such as 2024-06-01T13:00:00"))
            })
            .transpose()
    };
    Ok(ModifiedWindow { after_ms: time("modifiedAfter")?, before_ms: time("modifiedBefore")? })
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        self.files.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.files.schema.fields().len()).collect());
        let schema = Arc::new(self.files.schema.project(&columns)?);
        let count = state.config().target_partitions().max(1);
        let partition = |number| {
            let stream = FilesOfPartition { files: self.files.clone(), columns: columns.clone(), schema: schema.clone(), number, count };
            Arc::new(stream) as Arc<dyn PartitionStream>
        };
        let partitions = (0..count).map(partition).collect();
        Ok(Arc::new(StreamingTableExec::try_new(schema, partitions, None, [], false, limit)?))
    }
}

/// One partition of a scan.
#[derive(Debug)]
struct FilesOfPartition {
    files: Arc<Files>,
    columns: Vec<usize>,
    schema: SchemaRef,
    number: usize,
    count: usize,
}

impl FilesOfPartition {
    fn owns(&self, file: &FoundFile) -> bool {
        let mut hasher = DefaultHasher::new();
        file.uri.hash(&mut hasher);
        hasher.finish() % self.count as u64 == self.number as u64
    }
}

impl PartitionStream for FilesOfPartition {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let scan = Scan { columns: self.columns.clone(), max_rows: context.session_config().batch_size(), max_bytes: BATCH_BYTES };
        let listing = Listing {
            files: self.files.clone(),
            scan,
            owned: FilesOfPartition {
                files: self.files.clone(),
                columns: self.columns.clone(),
                schema: self.schema.clone(),
                number: self.number,
                count: self.count,
            },
        };
        let rows = stream::try_unfold(Progress::Unlisted(listing), |progress| async move { progress.step().await.map_err(to_datafusion) });
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), rows))
    }
}

struct Listing {
    files: Arc<Files>,
    scan: Scan,
    owned: FilesOfPartition,
}

/// How far a partition is.
enum Progress {
    Unlisted(Listing),
    Reading(Vec<Box<dyn PartitionReader>>),
}

impl Progress {
    async fn step(self) -> Result<Option<(RecordBatch, Self)>> {
        let mut readers = match self {
            Self::Reading(readers) => readers,
            Self::Unlisted(listing) => listing.readers().await?,
        };
        while let Some(reader) = readers.last_mut() {
            match reader.next().await? {
                Some(batch) => return Ok(Some((batch, Self::Reading(readers)))),
                None => drop(readers.pop()),
            }
        }
        Ok(None)
    }
}

impl Listing {
    async fn readers(self) -> Result<Vec<Box<dyn PartitionReader>>> {
        let files = &self.files;
        let listed = listing::list(&files.location, &files.listing, &files.storage).await?;
        let own = listed.files.into_iter().filter(|file| self.owned.owns(file));
        let task = |file: FoundFile| FileTask { root_depth: files.base_depth.unwrap_or(file.root_depth), path: file.path, uri: file.uri };
        partition_readers(&files.settings, own.map(task).collect(), &self.scan, 1)
    }
}

fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
