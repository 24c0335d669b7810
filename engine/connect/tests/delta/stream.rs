//! A batch loop in the small: plans, reads and remembers as the engine's driver does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow::record_batch::RecordBatch;
use serde_json::{Value, json};
use weir_connect::open::{MalformedRecords, SourceContext, SourcePlace};
use weir_connect::registry::prepare_source;
use weir_connect::{Backlog, ReadLimits, Scan, Source};
use weir_core::checkpoint::{Fence, FencedLog};
use weir_core::{Offset, Result};

use super::query::storage;

/// A stream of a Delta table with its checkpoint, which outlives its runs.
#[derive(Clone, Debug)]
pub struct Stream {
    pub checkpoint: PathBuf,
    pub options: BTreeMap<String, String>,
    pub planned: BTreeMap<u64, Offset>,
    pub committed: u64,
}

/// What a run was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    AvailableNow,
    /// Until nothing is new.
    Continuous,
    Once,
}

/// What a batch came to; the last one of a run is idle.
#[derive(Debug)]
pub struct Batch {
    pub id: u64,
    pub description: String,
    pub start: Option<Offset>,
    pub end: Option<Offset>,
    pub rows: Vec<Value>,
    pub metrics: BTreeMap<String, String>,
    pub backlog: Backlog,
}

impl Stream {
    pub fn of(table: &Path, checkpoint: &Path) -> Self {
        let options = BTreeMap::from([("path".to_owned(), table.to_str().unwrap().to_owned())]);
        Self { checkpoint: checkpoint.to_owned(), options, planned: BTreeMap::new(), committed: 0 }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.options.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Opens the source as a new attempt of the query does.
    pub async fn open(&self) -> Result<Box<dyn Source>> {
        let context = SourceContext { storage: storage(), conf: BTreeMap::new(), malformed: MalformedRecords::ByMode };
        let folder = storage().open(self.checkpoint.to_str().unwrap())?;
        let log = FencedLog::new(folder.child("sources/0"), Fence::new(folder.child("_weir/epochs"), 1));
        let prepared = prepare_source("delta", &self.options, None, context).await?;
        let mut source = prepared.bind(SourcePlace { log, query_id: uuid::Uuid::new_v4() }).await?;
        source.open(self.planned.values().last()).await?;
        Ok(source)
    }

    /// A whole run; an error leaves what was planned and committed before it.
    pub async fn run(&mut self, trigger: Trigger) -> Result<Vec<Batch>> {
        let mut source = self.open().await?;
        if trigger == Trigger::AvailableNow {
            source.freeze_available_now().await?;
        }
        let limits = if trigger == Trigger::Once { ReadLimits::Ignore } else { ReadLimits::Apply };
        let mut batches = Vec::new();
        loop {
            let (batch, is_idle) = self.next_batch(source.as_mut(), limits).await?;
            batches.push(batch);
            if is_idle || trigger == Trigger::Once {
                return Ok(batches);
            }
        }
    }

    /// The next batch: one planned before, or a new one; idle when nothing is new.
    pub async fn next_batch(&mut self, source: &mut dyn Source, limits: ReadLimits) -> Result<(Batch, bool)> {
        let id = self.committed;
        let logged = id.checked_sub(1).map(|last| self.planned[&last].clone());
        let start = match &logged {
            Some(offset) => Some(offset.clone()),
            None => source.initial_offset().await?,
        };
        let end = match self.planned.get(&id) {
            Some(end) => Some(end.clone()),
            None => source.plan(start.as_ref(), limits, 1_000_000).await?.end,
        };
        let is_idle = end.is_none() || end == logged;
        let mut rows = Vec::new();
        if let Some(end) = end.as_ref().filter(|_| !is_idle) {
            self.planned.insert(id, end.clone());
            if let Some(logged) = &logged {
                source.commit(logged).await?;
            }
            rows = read(source, start.as_ref(), end).await?;
            self.committed += 1;
        }
        let metrics = source.metrics(end.as_ref(), None);
        let backlog = source.backlog(end.as_ref(), 2_000_000).await?;
        Ok((Batch { id, description: source.description(), start: logged, end, rows, metrics, backlog }, is_idle))
    }
}

/// All rows of batches, sorted by their text.
pub fn rows_of(batches: &[Batch]) -> Vec<Value> {
    let mut rows: Vec<Value> = batches.iter().flat_map(|batch| batch.rows.clone()).collect();
    rows.sort_by_key(ToString::to_string);
    rows
}

/// The rows of a range with all columns, as JSON arrays in reading order.
pub async fn read(source: &mut dyn Source, start: Option<&Offset>, end: &Offset) -> Result<Vec<Value>> {
    // When Spark ran its cases is nothing to compare.
    let schema = source.schema();
    let columns = (0..schema.fields().len()).filter(|column| schema.field(*column).name() != "_commit_timestamp").collect();
    read_columns(source, start, end, columns).await
}

pub async fn read_columns(source: &mut dyn Source, start: Option<&Offset>, end: &Offset, columns: Vec<usize>) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    let scan = Scan { columns, max_rows: 7, max_bytes: 1 << 20 };
    let schema = source.schema().project(&scan.columns).unwrap();
    for mut reader in source.partitions(start, end, &scan).await? {
        while let Some(batch) = reader.next().await? {
            assert!(batch.num_rows() <= 7 && batch.schema().as_ref() == &schema);
            rows.extend((0..batch.num_rows()).map(|row| to_json(&batch, row)));
        }
    }
    Ok(rows)
}

fn to_json(batch: &RecordBatch, row: usize) -> Value {
    let values = batch.columns().iter().map(|column| match column.data_type() {
        _ if column.is_null(row) => Value::Null,
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
        DataType::Int32 => json!(column.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(row)),
        DataType::Timestamp(..) => json!(column.as_primitive::<TimestampMicrosecondType>().value(row)),
        other => panic!("the tests have no {other}"),
    });
    Value::Array(values.collect())
}
