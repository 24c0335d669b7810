//! Static inputs: files, Delta tables and Kafka topics as tables of DataFusion.
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
use crate::kafka::{self, KafkaSourceOptions, ending_offsets};
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
    let (format, parsed) = check(format, Role::Table, options)?;
    let view = Options::new(options.iter());
    match format {
        Format::Json | Format::Csv | Format::Text | Format::Parquet => {
            Ok(Arc::new(FileTable::open(format.as_str(), &view, schema, storage, conf).await?))
        }
        Format::Delta if parsed.bool("readChangeFeed") => crate::delta::open_changes(&parsed, storage, conf).await,
        Format::Delta => crate::delta::open_table(view.required("delta", "path")?, options, storage).await,
        Format::Kafka => kafka::table(KafkaSourceOptions::from_parsed(&parsed, conf)?, ending_offsets(&parsed)),
        other => Err(Error::config(
            "DATA_SOURCE_NOT_FOUND",
            format!("the format '{}' cannot be read as a table; use json, csv, text, parquet, delta or kafka", other.as_str()),
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::storage;
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;

    async fn table(format: &str, options: &[(&str, &str)]) -> Result<Arc<dyn TableProvider>> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        open_table(format, &options, None, &storage()).await
    }

    #[tokio::test]
    async fn a_cached_plan_sees_new_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        std::fs::create_dir(dir.path().join("k=7")).unwrap();
        std::fs::write(dir.path().join("k=7/a.json"), "{\"v\":1}\n{\"v\":2}\n").unwrap();
        let session = SessionContext::new();
        session.register_table("t", table("json", &[("path", path)]).await.unwrap()).unwrap();
        let frame = session.sql("SELECT k, v FROM t WHERE v <> 2 ORDER BY v").await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let print = async || {
            // State of an earlier run must not be met again, so the plan is reset as the driver does.
            let plan = datafusion::physical_plan::execution_plan::reset_plan_states(plan.clone()).unwrap();
            let rows = collect(plan, session.task_ctx()).await.unwrap();
            pretty_format_batches(&rows).unwrap().to_string().lines().skip(3).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(print().await[..1], ["| 7 | 1 |"]);
        std::fs::write(dir.path().join("k=7/b.json"), "{\"v\":4}\n").unwrap();
        assert_eq!(print().await[..2], ["| 7 | 1 |", "| 7 | 4 |"]);
    }

    #[tokio::test]
    async fn refusals_name_what_is_wrong() {
        assert_eq!(table("json", &[("path", "/no/such/folder")]).await.unwrap_err().condition(), "PATH_NOT_FOUND");
        assert!(table("json", &[("path", "/tmp"), ("multiLin", "true")]).await.unwrap_err().message().contains("multiLine"));
        assert!(table("avro", &[("path", "/tmp")]).await.is_err());
        let servers = ("kafka.bootstrap.servers", "k:9092");
        let kafka = table("kafka", &[servers, ("subscribe", "t")]).await.unwrap();
        assert_eq!(kafka.schema().fields().len(), 7);
        let refusal = table("kafka", &[servers, ("subscribe", "t"), ("startingOffsets", "latest")]).await.unwrap_err();
        assert!(refusal.message().contains("can't be latest for batch queries"), "{refusal}");
    }
}
