//! A batch loop in the small: plans, reads and remembers as the engine's driver does.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow::record_batch::RecordBatch;
use serde_json::{Value, json};
use weir_connect::kafka::{KafkaSource, KafkaSourceOptions, PreparedKafka};
use weir_connect::open::SourcePlace;
use weir_connect::{PlannedRange, ReadLimits, Scan, Source};
use weir_core::checkpoint::{Fence, FencedLog};
use weir_core::storage::{Durability, Storage};
use weir_core::{Error, Offset, Result};
use weir_crds::finding::Finding;
use weir_crds::options::{Completeness, Format, parse_source};

/// A checkpoint that outlives its sources.
pub struct Checkpoint {
    folder: tempfile::TempDir,
    pub planned: BTreeMap<u64, Offset>,
    pub committed: u64,
}

/// What a batch came to.
#[derive(Debug)]
pub struct Batch {
    pub id: u64,
    pub end: Option<Offset>,
    pub latest: Option<Offset>,
    pub metrics: BTreeMap<String, String>,
    pub rows: Vec<Value>,
}

impl Checkpoint {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), planned: BTreeMap::new(), committed: 0 }
    }

    pub fn open(&self, options: &BTreeMap<String, String>) -> Result<KafkaSource> {
        let storage = Storage::new(Durability::PageCache);
        let folder = storage.open(self.folder.path().to_str().unwrap())?;
        let log = FencedLog::new(folder.child("sources/0"), Fence::new(folder.child("_weir/epochs"), 1));
        let place = SourcePlace { log, query_id: uuid::Uuid::new_v4() };
        KafkaSource::new(PreparedKafka::new(parse(options)?)?, place)
    }

    pub fn entry(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("sources/0/0")).unwrap()
    }

    /// Puts an entry where another writer of the log would have put it.
    pub fn put_entry(&self, entry: &[u8]) {
        std::fs::create_dir_all(self.folder.path().join("sources/0")).unwrap();
        std::fs::write(self.folder.path().join("sources/0/0"), entry).unwrap();
    }

    /// The next batch: one planned before, or a new one; `Err(idle)` when nothing is new.
    pub async fn next_batch(&mut self, source: &mut KafkaSource, limits: ReadLimits, now_ms: i64) -> Result<Result<Batch, Batch>> {
        let id = self.committed;
        let before = id.checked_sub(1).map(|last| self.planned[&last].clone());
        let start = match &before {
            Some(offset) => offset.clone(),
            None => source.initial_offset().await?.unwrap(),
        };
        let planned = match self.planned.get(&id) {
            Some(end) => PlannedRange { end: Some(end.clone()), latest: None },
            None => source.plan(Some(&start), limits, now_ms).await?,
        };
        let metrics = source.metrics(planned.end.as_ref(), planned.latest.as_ref());
        let mut batch = Batch { id, end: planned.end.clone(), latest: planned.latest, metrics, rows: Vec::new() };
        let Some(end) = planned.end.filter(|end| before.as_ref() != Some(end)) else { return Ok(Err(batch)) };
        self.planned.insert(id, end.clone());
        batch.rows = read(source, &start, &end).await?;
        self.committed += 1;
        source.commit(&end).await?;
        Ok(Ok(batch))
    }
}

/// Options as a manifest gives them; what `weir check` refuses is an error.
pub fn parse(options: &BTreeMap<String, String>) -> Result<KafkaSourceOptions> {
    let parsed = parse_source(Format::Kafka, options, Completeness::Complete).into_result().map_err(|findings| {
        let sentences: Vec<String> = findings.iter().map(Finding::sentence).collect();
        Error::config("INVALID_OPTIONS", sentences.join("; "))
    })?;
    KafkaSourceOptions::from_parsed(&parsed, &BTreeMap::new())
}

/// The rows of a range with all columns, as JSON objects.
pub async fn read(source: &mut KafkaSource, start: &Offset, end: &Offset) -> Result<Vec<Value>> {
    let columns = (0..source.schema().fields().len()).collect();
    let mut rows = Vec::new();
    for batch in read_batches(source, start, end, &Scan { columns, max_rows: 7, max_bytes: 1 << 20 }).await? {
        rows.extend((0..batch.num_rows()).map(|row| to_json(&batch, row)));
    }
    Ok(rows)
}

/// The slices of a range, partition after partition.
pub async fn read_batches(source: &mut KafkaSource, start: &Offset, end: &Offset, scan: &Scan) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for mut reader in source.partitions(Some(start), end, scan).await? {
        while let Some(batch) = reader.next().await? {
            batches.push(batch);
        }
    }
    Ok(batches)
}

fn to_json(batch: &RecordBatch, row: usize) -> Value {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    let schema = batch.schema();
    let values = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let value = match field.name().as_str() {
            _ if column.is_null(row) => Value::Null,
            "key" | "value" => text(column.as_binary::<i32>().value(row)),
            "topic" => json!(column.as_string::<i32>().value(row)),
            "partition" | "timestampType" => json!(column.as_primitive::<Int32Type>().value(row)),
            "offset" => json!(column.as_primitive::<Int64Type>().value(row)),
            "timestamp" => json!(column.as_primitive::<TimestampMicrosecondType>().value(row)),
            _ => {
                let list = column.as_list::<i32>().value(row);
                let entries = list.as_struct();
                let (keys, values) = (entries.column(0).as_string::<i32>(), entries.column(1).as_binary::<i32>());
                let pair = |i: usize| json!([keys.value(i), if values.is_null(i) { Value::Null } else { text(values.value(i)) }]);
                (0..entries.len()).map(pair).collect()
            }
        };
        (field.name().clone(), value)
    });
    Value::Object(values.collect())
}
