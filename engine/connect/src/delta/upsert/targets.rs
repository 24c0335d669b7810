//! The files of a table at one version that a batch may have to look into.
//!
//! The list is the kernel's replay of the log; files that cannot hold a key of
//! the batch are left out while it runs, so what is in memory grows with the
//! batch's reach and not with the table. Deletion vectors are read through the
//! kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StructArray};
use arrow::datatypes::{Int32Type, Int64Type};
use delta_kernel::actions::deletion_vector::DeletionVectorDescriptor as KernelVector;
use delta_kernel::engine::arrow_data::EngineDataArrowExt;
use delta_kernel::scan::StatsOptions;
use deltalake_core::kernel::DeletionVectorDescriptor;
use percent_encoding::percent_decode_str;
use weir_core::{Error, Result};

use super::super::action::Remove;
use super::super::location::TableLocation;
use super::super::state::{flatten, kernel_snapshot};
use super::prune::Pruner;
use super::read::TableFile;

/// A file of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Its path as the log spells it.
    pub path: String,
    /// Name and partition values.
    pub file: TableFile,
    /// Size in bytes.
    pub size: i64,
    /// The rows of it that are deleted already.
    pub vector: Option<DeletionVectorDescriptor>,
}

impl Target {
    /// What tells the file, in the state that it is in, from every other.
    pub fn identity(&self) -> String {
        match &self.vector {
            Some(vector) => format!("{} {}{}@{:?}", self.path, vector.storage_type, vector.path_or_inline_dv, vector.offset),
            None => self.path.clone(),
        }
    }

    /// The log's word that the file is no longer part of the table.
    pub fn remove(&self, now_ms: i64) -> Remove {
        Remove {
            path: self.path.clone(),
            deletion_timestamp: now_ms,
            data_change: true,
            extended_file_metadata: true,
            partition_values: self.file.values.clone(),
            size: self.size,
            deletion_vector: self.vector.clone(),
        }
    }

    /// The numbers of the rows that are deleted already, ascending.
    pub async fn deleted(&self, location: &TableLocation) -> Result<Vec<u64>> {
        let Some(vector) = self.vector.clone() else { return Ok(Vec::new()) };
        let (engine, root) = (location.log_store().engine(None), location.root_url());
        let read = tokio::task::spawn_blocking(move || KernelVector::try_from(vector)?.row_indexes(engine.storage_handler(), &root));
        let mut rows = flatten(location, "read a deletion vector of", None, read.await).await?;
        rows.sort_unstable();
        Ok(rows)
    }
}

/// The files of a version that may hold a key of the batch.
pub async fn list(location: &TableLocation, version: u64, pruner: Arc<Pruner>) -> Result<Vec<Target>> {
    let snapshot = kernel_snapshot(location, Some(version)).await?;
    let engine = location.log_store().engine(None);
    let listed = tokio::task::spawn_blocking(move || {
        let scan = snapshot.scan_builder().with_stats(StatsOptions::json_only()).build()?;
        let mut rows = Vec::new();
        for files in scan.scan_metadata(engine.as_ref())? {
            let batch = files?.scan_files.apply_selection_vector()?.try_into_record_batch()?;
            rows.push(candidates(&batch, &pruner));
        }
        Ok::<_, delta_kernel::Error>(rows)
    });
    let mut targets = Vec::new();
    for part in flatten(location, "list the files of", Some(version), listed.await).await? {
        targets.extend(part?);
    }
    for target in &mut targets {
        target.file.name = relative(location, &target.path)?;
    }
    Ok(targets)
}

/// The rows of the kernel's list that the batch may match.
fn candidates(batch: &RecordBatch, pruner: &Pruner) -> Result<Vec<Target>> {
    let columns = Columns::of(batch).ok_or_else(|| {
        Error::retryable("DELTA_LOG_FAILURE", "the list of the table's files has another form than this version of Weir knows")
    })?;
    let mut found = Vec::new();
    for row in 0..batch.num_rows() {
        let values = columns.values(row);
        if columns.paths.is_null(row) || !pruner.may_match(&values, columns.stats(row))? {
            continue;
        }
        found.push(Target {
            path: columns.paths.as_string::<i32>().value(row).to_owned(),
            file: TableFile { name: String::new(), values },
            size: columns.sizes.as_primitive::<Int64Type>().value(row),
            vector: columns.vector(row),
        });
    }
    Ok(found)
}

/// The columns of the kernel's list (`delta_kernel::scan::scan_row_schema`).
struct Columns<'a> {
    paths: &'a dyn Array,
    sizes: &'a dyn Array,
    stats: &'a dyn Array,
    vectors: &'a StructArray,
    values: &'a dyn Array,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Self> {
        let column = |name: &str| batch.column_by_name(name).map(AsRef::as_ref);
        let found = Self {
            paths: column("path")?,
            sizes: column("size")?,
            stats: column("stats")?,
            vectors: column("deletionVector")?.as_struct_opt()?,
            values: column("fileConstantValues")?.as_struct_opt()?.column_by_name("partitionValues")?.as_ref(),
        };
        let known = found.paths.as_string_opt::<i32>().is_some()
            && found.stats.as_string_opt::<i32>().is_some()
            && found.sizes.as_primitive_opt::<Int64Type>().is_some()
            && found.values.as_map_opt().is_some();
        known.then_some(found)
    }

    fn stats(&self, row: usize) -> Option<&str> {
        self.stats.is_valid(row).then(|| self.stats.as_string::<i32>().value(row))
    }

    fn values(&self, row: usize) -> BTreeMap<String, Option<String>> {
        if self.values.is_null(row) {
            return BTreeMap::new();
        }
        let entries = self.values.as_map().value(row);
        let (Some(keys), Some(texts)) = (entries.column(0).as_string_opt::<i32>(), entries.column(1).as_string_opt::<i32>()) else {
            return BTreeMap::new();
        };
        keys.iter().zip(texts).filter_map(|(key, text)| Some((key?.to_owned(), text.map(str::to_owned)))).collect()
    }

    fn vector(&self, row: usize) -> Option<DeletionVectorDescriptor> {
        let part = |name: &str| self.vectors.column_by_name(name).filter(|column| self.vectors.is_valid(row) && column.is_valid(row));
        Some(DeletionVectorDescriptor {
            storage_type: part("storageType")?.as_string_opt::<i32>()?.value(row).parse().ok()?,
            path_or_inline_dv: part("pathOrInlineDv")?.as_string_opt::<i32>()?.value(row).to_owned(),
            offset: part("offset").and_then(|column| Some(column.as_primitive_opt::<Int32Type>()?.value(row))),
            size_in_bytes: part("sizeInBytes")?.as_primitive_opt::<Int32Type>()?.value(row),
            cardinality: part("cardinality")?.as_primitive_opt::<Int64Type>()?.value(row),
        })
    }
}

/// The name of a file below the table's folder.
fn relative(location: &TableLocation, path: &str) -> Result<String> {
    let inside = path.strip_prefix(location.root_url().as_str()).unwrap_or(path);
    if inside.starts_with('/') || url::Url::parse(inside).is_ok() {
        return Err(Error::config(
            "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
            format!(
                "cannot merge into the Delta table {}: it holds the file {path} of another table (a shallow clone); merge into a table of its own files",
                location.url()
            ),
        ));
    }
    Ok(percent_decode_str(inside).decode_utf8_lossy().into_owned())
}
