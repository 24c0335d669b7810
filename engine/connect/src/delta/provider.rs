//! A Delta table as a table of DataFusion: static inputs and `weir sql`.
//!
//! Without a version the newest snapshot is taken at each scan, so a query
//! that joins against the table sees it anew in every batch. The schema is the
//! one at opening; columns added later are not seen, any other change of the
//! schema is an error that a restart heals. Deletion vectors and column
//! mapping are the Delta library's, which reads them.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use deltalake_core::DeltaTable;
use deltalake_core::datafusion::catalog::{Session, TableProvider};
use deltalake_core::datafusion::common::{DataFusionError, Result as DfResult};
use deltalake_core::datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use deltalake_core::datafusion::physical_plan::ExecutionPlan;
use deltalake_core::delta_datafusion::{DeltaScanConfig, DeltaScanNext};
use deltalake_core::kernel::Snapshot;
use deltalake_core::logstore::LogStoreRef;
use futures::TryStreamExt;
use object_store::ObjectStore;
use weir_core::storage::Storage;
use weir_core::{Error, Result};

use super::damage;
use super::location::{TableLocation, version_of};
use super::options::{ReadVersion, read_version};
use super::state::{kernel_snapshot, with_file};

/// Opens a table for reading.
pub async fn open_table(path: &str, options: &BTreeMap<String, String>, storage: &Storage) -> Result<Arc<dyn TableProvider>> {
    let location = TableLocation::in_folder(&storage.open(path)?);
    let version = resolve(&location, read_version(options)?).await?;
    let log_store = location.log_store();
    let snapshot = match Snapshot::try_new(log_store.as_ref(), version).await {
        Ok(snapshot) => snapshot,
        Err(error) => return Err(explained(&location, version, error).await),
    };
    let provider = provider_of(Arc::new(snapshot.clone())).map_err(|e| {
        Error::config(
            "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
            format!("the Delta table {} cannot be read; it may need a newer version of Weir", location.url()),
        )
        .with_source(e)
    })?;
    let schema = provider.schema();
    let fixed = version.map(|_| Arc::new(snapshot));
    Ok(Arc::new(DeltaTableSource { location, version, log_store, schema, fixed }))
}

/// Why the library could not read a table: the kernel alone says it, the library's error has lost it.
async fn explained(location: &TableLocation, version: Option<u64>, error: impl StdError + Send + Sync + 'static) -> Error {
    match kernel_snapshot(location, version).await {
        Err(error) => error,
        Ok(_) => {
            let what = format!("could not read the Delta table {}", location.url());
            with_file(location, version, Error::retryable("DELTA_LOG_FAILURE", what).with_source(error)).await
        }
    }
}

async fn resolve(location: &TableLocation, version: ReadVersion) -> Result<Option<u64>> {
    let names = location.log_names().await?;
    if !names.iter().any(|name| version_of(name).is_some()) {
        return Err(not_found(location));
    }
    match version {
        ReadVersion::Newest => {
            if let Some(newest) = names.iter().filter_map(|name| version_of(name)).max() {
                damage::newest_entry(location, newest).await?;
            }
            Ok(None)
        }
        ReadVersion::Version(wanted) => {
            let newest = names.iter().filter_map(|name| version_of(name)).max().unwrap_or(0);
            let oldest = names.iter().filter_map(|name| version_of(name)).min().unwrap_or(0);
            if !(oldest..=newest).contains(&wanted) {
                return Err(Error::config(
                    "DELTA_VERSION_NOT_FOUND",
                    format!("the Delta table {} has no version {wanted}; the log holds versions {oldest} to {newest}", location.url()),
                ));
            }
            Ok(Some(wanted))
        }
        ReadVersion::Timestamp(wanted) => {
            let commits = commit_times(location).await?;
            at_time(&commits, wanted).map(Some).ok_or_else(|| {
                Error::config(
                    "DELTA_TIMESTAMP_NOT_FOUND",
                    format!("the Delta table {} has no version that old; its log begins at {}", location.url(), oldest_time(&commits)),
                )
            })
        }
    }
}

/// There is no log.
pub fn not_found(location: &TableLocation) -> Error {
    Error::config("DELTA_TABLE_NOT_FOUND", format!("there is no Delta table at {}; check the path, or write to it first", location.url()))
}

/// The versions in the log with their times, which never go back.
pub async fn commit_times(location: &TableLocation) -> Result<Vec<(u64, i64)>> {
    let folder = location.path_of("_delta_log")?;
    let objects: Vec<_> = location.store().list(Some(&folder)).try_collect().await.map_err(|e| location.failed("list", "_delta_log", e))?;
    let entry = |name: &str| name.ends_with(".json").then(|| version_of(name)).flatten();
    let mut commits: Vec<(u64, i64)> =
        objects.iter().filter_map(|object| Some((entry(object.location.filename()?)?, object.last_modified.timestamp_millis()))).collect();
    commits.sort_unstable();
    // Times never go back along the log (Delta protocol, "In-Commit Timestamps", legacy rule).
    for index in 1..commits.len() {
        commits[index].1 = commits[index].1.max(commits[index - 1].1 + 1);
    }
    Ok(commits)
}

/// The newest version at or before a time.
pub fn at_time(commits: &[(u64, i64)], wanted: i64) -> Option<u64> {
    commits.iter().rfind(|(_, at)| *at <= wanted).map(|(version, _)| *version)
}

fn oldest_time(commits: &[(u64, i64)]) -> String {
    let first = commits.first().and_then(|(_, at)| chrono::DateTime::from_timestamp_millis(*at));
    first.map_or_else(|| "no commit at all".to_owned(), |at| at.to_rfc3339())
}

/// The library's scan of a snapshot, with Arrow's plain types: neither views
/// nor dictionaries, so that every input of a query has the same ones.
fn provider_of(snapshot: Arc<Snapshot>) -> DfResult<DeltaScanNext> {
    let config = DeltaScanConfig { schema_force_view_types: false, wrap_partition_values: false, ..DeltaScanConfig::new() };
    DeltaScanNext::new(snapshot, config)
}

#[derive(Debug)]
struct DeltaTableSource {
    location: TableLocation,
    version: Option<u64>,
    log_store: LogStoreRef,
    schema: SchemaRef,
    fixed: Option<Arc<Snapshot>>,
}

impl DeltaTableSource {
    async fn current(&self) -> DfResult<DeltaScanNext> {
        let snapshot = match &self.fixed {
            Some(snapshot) => Arc::clone(snapshot),
            None => match Snapshot::try_new(self.log_store.as_ref(), None).await {
                Ok(snapshot) => Arc::new(snapshot),
                Err(error) => return Err(DataFusionError::External(Box::new(explained(&self.location, None, error).await))),
            },
        };
        provider_of(snapshot)
    }
}

/// Where the columns of `opened` are in `now`.
fn positions(url: &str, opened: &Schema, now: &Schema) -> DfResult<Vec<usize>> {
    let find = |field: &Arc<arrow::datatypes::Field>| {
        now.fields().iter().position(|other| other.name() == field.name() && other.data_type() == field.data_type()).ok_or_else(|| {
            DataFusionError::External(Box::new(Error::retryable(
                "DELTA_SCHEMA_CHANGED",
                format!("the column `{}` of the Delta table {url} was changed or removed since the query started; the query is restarted with the new schema", field.name()),
            )))
        })
    };
    opened.fields().iter().map(find).collect()
}

#[async_trait]
impl TableProvider for DeltaTableSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        // Files are skipped by statistics; every row is filtered once more above.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        // The library looks its files up in the session's stores.
        DeltaTable::new(Arc::clone(&self.log_store)).update_datafusion_session(state)?;
        let provider = self.current().await?;
        let positions = positions(self.location.url().as_str(), &self.schema, &provider.schema())?;
        let wanted: Vec<usize> = match projection {
            Some(columns) => columns.iter().map(|column| positions[*column]).collect(),
            None => positions,
        };
        match provider.scan(state, Some(&wanted), filters, limit).await {
            Ok(plan) => Ok(plan),
            // The files of the log that only a scan reads.
            Err(error) => match damage::find(&self.location, self.version).await {
                Ok(Some(found)) => Err(DataFusionError::External(Box::new(found))),
                _ => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_at_a_time() {
        let commits = [(3, 100), (4, 200), (5, 300)];
        assert_eq!(at_time(&commits, 99), None);
        assert_eq!(at_time(&commits, 100), Some(3));
        assert_eq!(at_time(&commits, 299), Some(4));
        assert_eq!(at_time(&commits, 900), Some(5));
    }
}
