//! A query that writes to a Delta table, without the rest of the engine.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, StringArray};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use uuid::Uuid;
use weir_connect::delta::{DeltaSink, SinkColumns, SinkOptions, TableLocation};
use weir_connect::open::UpsertBy;
use weir_connect::{BatchId, Committed, Sink};
use weir_core::storage::{Durability, Storage};
use weir_runtime::expressions::SqlExpressions;
use weir_sql::SqlConf;

#[derive(Clone, Debug)]
pub struct Query {
    pub id: Uuid,
    pub options: BTreeMap<String, String>,
    pub partition_by: Vec<String>,
    pub upsert: Option<UpsertBy>,
}

impl Query {
    pub fn to(path: &Path) -> Self {
        let path = path.to_str().unwrap().to_owned();
        Self { id: Uuid::new_v4(), options: BTreeMap::from([("path".to_owned(), path)]), partition_by: Vec::new(), upsert: None }
    }

    pub fn with_options(mut self, options: &BTreeMap<String, String>) -> Self {
        self.options.extend(options.clone());
        self
    }

    pub async fn open(&self, schema: SchemaRef) -> weir_core::Result<DeltaSink> {
        let options = SinkOptions { upsert: self.upsert.clone(), ..SinkOptions::parse(&self.options, &BTreeMap::new())? };
        let folder = storage().open(&options.path)?;
        let expressions = SqlExpressions::shared(&SqlConf::default());
        let columns = SinkColumns { query: schema, partition_by: self.partition_by.clone(), expressions };
        DeltaSink::open(TableLocation::in_folder(&folder), options, columns, self.id).await
    }

    pub async fn write(&self, sink: &DeltaSink, batch: u64, rows: &RecordBatch) -> weir_core::Result<Committed> {
        let id = BatchId { query_id: self.id, batch, epoch: 1 };
        let mut writer = sink.writer(&id, 0).await?;
        writer.write(rows.clone()).await?;
        let part = writer.finish().await?;
        sink.commit(&id, vec![part]).await
    }
}

pub fn storage() -> Storage {
    Storage::new(Durability::PageCache)
}

pub fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

pub fn kv(values: &[(&str, i32)]) -> RecordBatch {
    let keys: ArrayRef = Arc::new(StringArray::from_iter_values(values.iter().map(|(k, _)| k)));
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(values.iter().map(|(_, v)| *v)));
    rows(vec![("k", keys), ("v", numbers)])
}
