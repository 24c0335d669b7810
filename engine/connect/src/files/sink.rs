//! The streaming file sink.
//!
//! Files are written under unique names and become visible when the batch's
//! entry of `_spark_metadata` names them, created under the fence; a batch at or
//! below the newest entry is skipped and its own files deleted (Spark's
//! `FileStreamSink`). `_weir/owner` beside the log records the query at its first
//! commit, because another query's batches would be skipped without a word.
//! Opening writes nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use weir_core::checkpoint::FencedLog;
use weir_core::storage::{Created, Folder};
use weir_core::{Error, Result, failpoint};
use weir_crds::duration::{TimeUnit, parse_time_string};
use weir_crds::finding::did_you_mean;
use weir_decode::spark_type::spark_field_type_name;
use weir_decode::time::Zone;

use super::compactible::{Added, CompactibleLog, LogSettings, Retention};
use super::read::options::session_zone;
use super::sink_log::SinkFileStatus;
use super::uri::UriSpelling;
use super::write::{Bounds, FilesWriter, Partitioner, WriteOptions, WriteSettings, delete, path_below};
use crate::open::{SinkContext, SinkRole, SinkSettings};
use crate::options::{Options, invalid};
use crate::sink::{BatchId, Committed, Delivery, OutputRows, Sink, SinkIdentity, SinkWriter, Written, WrittenFile};

/// A sink of files.
pub struct FileSink {
    format: String,
    schema: SchemaRef,
    settings: Arc<WriteSettings>,
    spelling: UriSpelling,
    log: CompactibleLog<SinkFileStatus>,
    retention: Option<Duration>,
    query_id: uuid::Uuid,
    role: SinkRole,
    claimed: OnceCell<()>,
}

/// What `_weir/owner` holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    query_id: uuid::Uuid,
}

/// What options and columns alone decide.
pub struct Plan {
    folder: Folder,
    write: WriteOptions,
    partitions: PartitionColumns,
    data: Vec<usize>,
    data_schema: SchemaRef,
    retention: Option<Duration>,
    log: LogSettings,
    zone: Zone,
}

impl Plan {
    /// Checks options, columns and settings; nothing is read but whether the path is a file.
    pub fn new(settings: &SinkSettings<'_>) -> Result<Self> {
        let SinkSettings { format, schema, partition_by, storage, conf, .. } = *settings;
        let options = &Options::new(settings.options.iter());
        let folder = storage.open(options.required(format, "path")?)?;
        folder.refuse_file("the sink's option path")?;
        let write = WriteOptions::parse(format, options, conf)?;
        let (partitions, data) = columns(schema, partition_by)?;
        let data_schema = Arc::new(schema.project(&data).map_err(|e| Error::config("INTERNAL_ERROR", e.to_string()))?);
        write.check(&data_schema)?;
        let retention = options
            .get("retention")
            .map(|text| parse_time_string(text, TimeUnit::Milliseconds).map_err(|e| invalid("retention", text, &e)))
            .transpose()?;
        let (log, zone) = (LogSettings::from_conf(conf, "fileSink")?, session_zone(conf)?);
        Ok(Self { folder, write, partitions, data, data_schema, retention, log, zone })
    }
}

impl FileSink {
    /// Checks options, columns and the folder's owner, and opens the log.
    pub async fn open(settings: &SinkSettings<'_>, context: &SinkContext) -> Result<Self> {
        let Plan { folder, write, partitions, data, data_schema, retention, log: log_settings, zone } = Plan::new(settings)?;
        check_owner(&folder, context.query_id).await?;
        let log = FencedLog::new(folder.child("_spark_metadata"), context.fence.clone());
        Ok(Self {
            format: settings.format.to_owned(),
            schema: Arc::clone(settings.schema),
            spelling: UriSpelling::of(&folder),
            log: CompactibleLog::open(log, log_settings).await?,
            retention,
            query_id: context.query_id,
            role: context.role,
            claimed: OnceCell::new(),
            settings: Arc::new(WriteSettings {
                folder,
                data: data_schema,
                partitioner: Partitioner::new(partitions, data, zone),
                options: write,
                bounds: Bounds::default(),
            }),
        })
    }

    fn retention(&self) -> Retention {
        let oldest = self.retention.map(|retention| now_ms().saturating_sub(i64::try_from(retention.as_millis()).unwrap_or(i64::MAX)));
        Retention { oldest_ms: oldest }
    }

    fn entry(&self, file: &WrittenFile) -> Result<SinkFileStatus> {
        let path = path_below(&self.settings.folder, "", &file.path)?;
        Ok(SinkFileStatus::added(self.spelling.uri(&path), file.size, file.modification_time_ms))
    }

    async fn discard(&self, parts: &[Written], kept: &[SinkFileStatus]) -> Result<()> {
        for file in parts.iter().flat_map(|part| &part.files) {
            let entry = self.entry(file)?;
            if !kept.iter().any(|kept| kept.path == entry.path) {
                delete(&self.settings.folder, &file.path).await;
            }
        }
        Ok(())
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Folder names and indexes of the partition columns.
type PartitionColumns = Vec<(String, usize)>;

/// The partition columns, and the indexes of the others.
fn columns(schema: &Schema, partition_by: &[String]) -> Result<(PartitionColumns, Vec<usize>)> {
    for (at, field) in schema.fields().iter().enumerate() {
        if schema.fields().iter().take(at).any(|before| before.name().to_lowercase() == field.name().to_lowercase()) {
            let name = field.name();
            let text = format!("The column `{name}` already exists (case does not count); give one of them another name with AS.");
            return Err(Error::config("COLUMN_ALREADY_EXISTS", text));
        }
    }
    let find = |name: &String| {
        let exact = schema.fields().iter().position(|field| field.name() == name);
        exact.or_else(|| schema.fields().iter().position(|field| field.name().eq_ignore_ascii_case(name)))
    };
    let mut partitions = Vec::new();
    for name in partition_by {
        let Some(at) = find(name) else {
            let existing: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let existing_names = existing.join(", ");
            let meant = did_you_mean(name, existing);
            let end = if meant.is_empty() { "." } else { meant.as_str() };
            return Err(Error::config(
                "_LEGACY_ERROR_TEMP_1196",
                format!("Partition column {name} not found in existing columns ({existing_names}){end}"),
            ));
        };
        if schema.field(at).data_type().is_nested() {
            let text = format!(
                "Cannot use the column `{name}` of the type {} for partition column; partition by a simple value",
                spark_field_type_name(schema.field(at))
            );
            return Err(Error::config("INVALID_PARTITION_COLUMN_DATA_TYPE", text));
        }
        partitions.push((name.clone(), at));
    }
    let data: Vec<usize> = (0..schema.fields().len()).filter(|at| !partitions.iter().any(|(_, partition)| partition == at)).collect();
    if data.is_empty() && !partitions.is_empty() {
        return Err(Error::config(
            "ALL_PARTITION_COLUMNS_NOT_ALLOWED",
            "Cannot use all columns for partition columns; leave at least one out of partitionBy.",
        ));
    }
    Ok((partitions, data))
}

/// Refuses another query's folder; tells whether the folder has an owner.
async fn check_owner(folder: &Folder, query_id: uuid::Uuid) -> Result<bool> {
    let place = folder.child("_weir");
    let Some(stored) = place.read("owner").await? else { return Ok(false) };
    let owner: Owner = serde_json::from_slice(&stored).map_err(|e| {
        Error::incompatible("DAMAGED_SINK_OWNER", format!("{}/owner is damaged: {e}; restore it, or write to a new path", place.url()))
    })?;
    if owner.query_id == query_id {
        return Ok(true);
    }
    Err(Error::incompatible(
        "SINK_OWNED_BY_ANOTHER_QUERY",
        format!(
            "the folder {} belongs to the query {}, and this is the query {query_id}: its batches would be taken for batches that are already there. Write to a new path, or use the checkpoint of the query {}",
            folder.url(),
            owner.query_id,
            owner.query_id
        ),
    ))
}

/// Records the query as the folder's owner, or refuses another query's folder.
async fn claim(folder: &Folder, query_id: uuid::Uuid) -> Result<()> {
    let body = serde_json::to_string(&Owner { query_id }).map_err(|e| Error::config("INTERNAL_ERROR", e.to_string()))?;
    loop {
        if check_owner(folder, query_id).await? || folder.child("_weir").create_new("owner", body.clone()).await? == Created::New {
            return Ok(());
        }
    }
}

#[async_trait]
impl Sink for FileSink {
    fn description(&self) -> String {
        format!("FileSink[{}]", self.spelling.hadoop(self.settings.folder.prefix().as_ref()))
    }

    fn identity(&self) -> SinkIdentity {
        SinkIdentity { format: self.format.clone(), location: self.settings.folder.url().to_string(), table_id: None }
    }

    fn output_rows(&self) -> OutputRows {
        OutputRows::Unknown
    }

    fn records_every_batch(&self) -> bool {
        true
    }

    fn needs_every_batch(&self) -> bool {
        true
    }

    fn delivery(&self) -> Delivery {
        Delivery::Fenced
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    async fn recorded_batch(&self, _query_id: uuid::Uuid) -> Result<Option<u64>> {
        let latest = self.log.latest().await?;
        if let Some(latest) = latest {
            // What the next compaction will ask for; found missing only then, newer batches would lie on the gap already.
            self.log.all(latest).await?;
        }
        Ok(latest)
    }

    async fn writer(&self, _batch: &BatchId, lane: usize) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(FilesWriter::new(self.settings.clone(), lane)))
    }

    async fn commit(&self, batch: &BatchId, parts: Vec<Written>) -> Result<Committed> {
        failpoint::hit("sink.commit.before")?;
        self.claimed.get_or_try_init(|| claim(&self.settings.folder, self.query_id)).await?;
        if self.log.latest().await?.is_some_and(|latest| latest >= batch.batch) {
            self.discard(&parts, &[]).await?;
            return Ok(Committed::Before);
        }
        if self.role == SinkRole::BadRecords {
            // Bad records may be kept from any batch on.
            self.log.go_on_at(batch.batch).await?;
        }
        let entries = parts.iter().flat_map(|part| &part.files).map(|file| self.entry(file)).collect::<Result<Vec<_>>>()?;
        let committed = match self.log.add(batch.batch, entries, &self.retention()).await? {
            Added::New => Committed::Now,
            Added::Stored(stored) => {
                self.discard(&parts, &stored).await?;
                Committed::Before
            }
        };
        failpoint::hit("sink.commit.after")?;
        Ok(committed)
    }

    async fn maintain(&self, batch: u64) -> Result<()> {
        if self.log.is_compaction(batch) {
            self.log.delete_expired(batch, now_ms()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
