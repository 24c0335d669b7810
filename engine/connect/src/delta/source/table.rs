//! The table of a stream as it was when the query started.
//!
//! Its columns are those that the whole run reads, as in Spark. Files of a
//! snapshot are listed by the kernel and put into Delta's order. Reading files
//! is in `read`.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Fields, Int64Type, Schema, SchemaRef};
use delta_kernel::engine::arrow_conversion::TryIntoArrow as _;
use delta_kernel::engine::arrow_data::EngineDataArrowExt as _;
use delta_kernel::scan::{ScanBuilder, StatsOptions};
use delta_kernel::snapshot::SnapshotRef;
use delta_kernel::{DeltaResult, Engine};
use weir_core::{Error, Result};

use super::compat::Columns;
use super::entry::{DataFile, FileFacts};
use crate::delta::action::Protocol;
use crate::delta::location::{TableLocation, version_of};
use crate::delta::provider::not_found;
use crate::delta::state::{facts_of, flatten, kernel_snapshot};

/// A table that a stream reads.
pub struct SourceTable {
    /// Where it is.
    pub location: TableLocation,
    /// The kernel over its store.
    pub engine: Arc<dyn Engine>,
    /// Its newest version at the start.
    pub snapshot: SnapshotRef,
    /// Its id.
    pub id: String,
    /// Its columns.
    pub columns: Columns,
    /// What reading it takes.
    pub protocol: Protocol,
    /// Its columns in Arrow's types, all of them nullable.
    pub schema: SchemaRef,
}

impl std::fmt::Debug for SourceTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceTable").field("url", &self.location.url().as_str()).field("version", &self.version()).finish_non_exhaustive()
    }
}

impl SourceTable {
    /// Reads the newest version's metadata.
    pub async fn open(location: TableLocation) -> Result<Self> {
        if !location.log_names().await?.iter().any(|name| version_of(name).is_some()) {
            return Err(not_found(&location));
        }
        let snapshot = kernel_snapshot(&location, None).await?;
        let (metadata, protocol) = facts_of(&location, &snapshot)?;
        let schema: Schema = snapshot.schema().as_ref().try_into_arrow().map_err(|e| {
            Error::config(
                "DELTA_UNSUPPORTED_DATA_TYPE",
                format!("the columns of the Delta table {} have no types that Weir reads", location.url()),
            )
            .with_source(e)
        })?;
        if schema.fields().is_empty() {
            let text = format!(
                "Table schema is not set. The Delta table {} has no columns; write data into it, or add columns with ALTER TABLE",
                location.url()
            );
            return Err(Error::config("DELTA_SCHEMA_NOT_SET", text));
        }
        let engine = location.log_store().engine(None);
        let (columns, schema) = (Columns::of(&metadata)?, plain_schema(&schema));
        Ok(Self { location, engine, snapshot, id: metadata.id, columns, protocol, schema })
    }

    /// The newest version at the start.
    pub fn version(&self) -> u64 {
        self.snapshot.version()
    }

    /// The folder as Spark prints it.
    pub fn path(&self) -> String {
        self.location.url().as_str().replacen("file:///", "file:/", 1)
    }

    /// The columns of an older version.
    pub async fn columns_at(&self, version: u64) -> Result<Columns> {
        let snapshot = kernel_snapshot(&self.location, Some(version)).await?;
        Columns::of(&facts_of(&self.location, &snapshot)?.0)
    }

    /// All files of a version in Delta's order: by time, then by path.
    pub async fn files_at(&self, version: u64) -> Result<Vec<DataFile>> {
        let snapshot = if version == self.version() {
            Arc::clone(&self.snapshot)
        } else {
            kernel_snapshot(&self.location, Some(version)).await.map_err(|e| self.lagging(version, e))?
        };
        let engine = Arc::clone(&self.engine);
        let listed = tokio::task::spawn_blocking(move || list(snapshot, engine.as_ref())).await;
        let mut files = flatten(&self.location, "list the files of", Some(version), listed).await?;
        files.sort_by(|a, b| (a.modified_ms, &a.path).cmp(&(b.modified_ms, &b.path)));
        Ok(files)
    }

    /// The version of a first snapshot that was not read to its end is gone.
    fn lagging(&self, version: u64, error: Error) -> Error {
        if error.class() == weir_core::ErrorClass::Retryable {
            return error;
        }
        Error::incompatible(
            "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
            format!("the stream has not read all of version {version} of the Delta table {}, whose log cannot make that version any more: the query is lagging behind the table's log retention. Use a new checkpointLocation with a new checkpointResetNonce, and increase delta.logRetentionDuration", self.location.url()),
        )
        .with_source(error)
    }
}

fn list(snapshot: SnapshotRef, engine: &dyn Engine) -> DeltaResult<Vec<DataFile>> {
    let scan = ScanBuilder::new(snapshot).with_stats(StatsOptions::none()).without_row_transforms().build()?;
    let mut files = Vec::new();
    for found in scan.scan_metadata(engine)? {
        let rows = Arc::new(found?.scan_files.apply_selection_vector()?.try_into_record_batch()?);
        let missing = |name: &str| delta_kernel::Error::generic(format!("the kernel lists files without {name}"));
        let paths = rows.column_by_name("path").and_then(|column| column.as_string_opt::<i32>()).ok_or_else(|| missing("path"))?;
        let number =
            |name: &str| rows.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>()).ok_or_else(|| missing(name));
        let (sizes, times) = (number("size")?, number("modificationTime")?);
        for row in 0..rows.num_rows() {
            files.push(DataFile {
                path: paths.value(row).to_owned(),
                size: u64::try_from(sizes.value(row)).unwrap_or_default(),
                modified_ms: times.value(row),
                facts: FileFacts::Scanned { rows: Arc::clone(&rows), row },
            });
        }
    }
    Ok(files)
}

/// Without the log's notes on fields, which would make equal types differ. Columns that came later are null in older files.
fn plain_schema(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(|field| plain(field).with_nullable(true)).collect::<Vec<_>>()))
}

fn plain(field: &Field) -> Field {
    let nested = |field: &Arc<Field>| Arc::new(plain(field));
    let data_type = match field.data_type() {
        DataType::List(element) => DataType::List(nested(element)),
        DataType::Map(entries, sorted) => DataType::Map(nested(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(nested).collect::<Fields>()),
        other => other.clone(),
    };
    Field::new(field.name(), data_type, field.is_nullable())
}
