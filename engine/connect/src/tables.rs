//! Static inputs: files and Delta tables as tables of DataFusion.
//!
//! A table is read anew each time its plan runs, so a cached plan of a
//! streaming query sees new files in its next batch. Files go through the same
//! readers as the streaming source, so a query over a folder and a stream of it
//! give the same rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use weir_core::storage::Storage;
use weir_core::{Error, Result};
use weir_crds::options::{Format, Role};

use crate::files::FileTable;
use crate::options::Options;
use crate::registry::check;

/// Opens a static table under Spark's default settings.
pub async fn open_table(
    format: &str,
    options: &BTreeMap<String, String>,
    schema: Option<SchemaRef>,
    storage: &Storage,
) -> Result<Arc<dyn TableProvider>> {
    open_table_with_conf(format, options, schema, storage, &BTreeMap::new()).await
}

/// Opens a static table under the settings of a job.
pub async fn open_table_with_conf(
    format: &str,
    options: &BTreeMap<String, String>,
    schema: Option<SchemaRef>,
    storage: &Storage,
    conf: &BTreeMap<String, String>,
) -> Result<Arc<dyn TableProvider>> {
    let (format, _) = check(format, Role::Table, options)?;
    let view = Options::new(options.iter());
    match format {
        Format::Json | Format::Csv | Format::Text | Format::Parquet => {
            Ok(Arc::new(FileTable::open(format.as_str(), &view, schema, storage, conf).await?))
        }
        Format::Delta => crate::delta::open_table(view.required("delta", "path")?, options, storage).await,
        other => Err(Error::config(
            "DATA_SOURCE_NOT_FOUND",
            format!("the format '{}' cannot be read as a table; use json, csv, text, parquet or delta", other.as_str()),
        )),
    }
}
