//! The `console` sink: each batch as a table, for looking at a stream.
//!
//! Prints what Spark prints: a header with the batch, then `show(numRows,
//! truncate)`. Only so many rows as are shown are kept in memory; all are
//! counted. Nothing is recorded, so a batch that runs again prints again.

mod table;

use std::io::Write;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use parking_lot::Mutex;
use weir_core::{Error, Result};
use weir_decode::time::Zone;

pub use table::Truncate;

use crate::options::{Options, invalid};
use crate::sink::{BatchId, Committed, Delivery, OutputRows, Sink, SinkIdentity, SinkWriter, Written};

/// Where tables are printed.
pub type Output = Arc<Mutex<dyn Write + Send>>;

/// How much of a batch is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// `numRows`.
    pub rows: usize,
    /// `truncate`.
    pub truncate: Truncate,
}

impl Shown {
    /// Reads the options.
    pub fn parse(options: &Options) -> Result<Self> {
        let rows = options.number("numRows", "must be a whole number from 0")?.unwrap_or(20);
        let text = options.get("truncate").unwrap_or("true").trim().to_ascii_lowercase();
        let truncate = match text.as_str() {
            "true" => Truncate::At(20),
            "false" | "0" => Truncate::Never,
            number => {
                Truncate::At(number.parse().map_err(|_| invalid("truncate", number, "must be true, false or a number of characters"))?)
            }
        };
        Ok(Self { rows, truncate })
    }
}

/// The sink.
pub struct ConsoleSink {
    schema: SchemaRef,
    shown: Shown,
    zone: Zone,
    output: Output,
}

impl ConsoleSink {
    /// A sink that prints to `output`.
    pub fn new(schema: SchemaRef, shown: Shown, zone: Zone, output: Output) -> Self {
        Self { schema, shown, zone, output }
    }
}

struct ConsoleWriter {
    written: Written,
    most_shown: usize,
}

#[async_trait]
impl SinkWriter for ConsoleWriter {
    async fn write(&mut self, slice: RecordBatch) -> Result<()> {
        self.written.rows += slice.num_rows() as u64;
        let have: usize = self.written.shown.iter().map(RecordBatch::num_rows).sum();
        if have < self.most_shown && slice.num_rows() > 0 {
            let taken = slice.num_rows().min(self.most_shown - have);
            self.written.shown.push(slice.slice(0, taken));
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Written> {
        Ok(self.written)
    }

    async fn abort(self: Box<Self>) {}
}

#[async_trait]
impl Sink for ConsoleSink {
    fn description(&self) -> String {
        "org.apache.spark.sql.execution.streaming.ConsoleTable$@0".to_owned()
    }

    fn identity(&self) -> SinkIdentity {
        SinkIdentity { format: "console".to_owned(), location: String::new(), table_id: None }
    }

    fn output_rows(&self) -> OutputRows {
        OutputRows::Counted
    }

    fn delivery(&self) -> Delivery {
        Delivery::AtLeastOnce
    }

    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    async fn recorded_batch(&self, _query_id: uuid::Uuid) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn writer(&self, _batch: &BatchId, _lane: usize) -> Result<Box<dyn SinkWriter>> {
        // One row more than is shown tells whether something was left out.
        Ok(Box::new(ConsoleWriter { written: Written::default(), most_shown: self.shown.rows.saturating_add(1) }))
    }

    async fn commit(&self, batch: &BatchId, parts: Vec<Written>) -> Result<Committed> {
        let rows: Vec<RecordBatch> = parts.into_iter().flat_map(|part| part.shown).collect();
        let table = table::render(&self.schema, &rows, self.shown, &self.zone);
        let rule = "-".repeat(43);
        let text = format!("{rule}\nBatch: {}\n{rule}\n{table}\n", batch.batch);
        let mut output = self.output.lock();
        output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|e| {
            Error::retryable("CONSOLE_FAILURE", format!("could not print batch {} to the console", batch.batch)).with_source(e)
        })?;
        Ok(Committed::Now)
    }

    async fn maintain(&self, _batch: u64) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    async fn print(options: &[(&str, &str)], rows: usize) -> String {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("v", DataType::Int64, true)]));
        let output: Arc<Mutex<Vec<u8>>> = Arc::new(Mutex::new(Vec::new()));
        let shown = Shown::parse(&Options::new(options.iter().copied())).unwrap();
        let sink = ConsoleSink::new(schema.clone(), shown, Zone::UTC, output.clone());
        let batch = BatchId { query_id: uuid::Uuid::nil(), batch: 7, epoch: 1 };
        let mut writer = sink.writer(&batch, 0).await.unwrap();
        let keys = StringArray::from_iter((0..rows).map(|n| if n == 1 { None } else { Some("a long text beyond twenty characters") }));
        let values = Int64Array::from_iter_values(0..rows as i64);
        writer.write(RecordBatch::try_new(schema, vec![Arc::new(keys), Arc::new(values)]).unwrap()).await.unwrap();
        let written = writer.finish().await.unwrap();
        assert_eq!(written.rows, rows as u64);
        sink.commit(&batch, vec![written]).await.unwrap();
        let bytes = output.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[tokio::test]
    async fn tables_look_like_sparks() {
        let expected = "\
-------------------------------------------
Batch: 7
-------------------------------------------
+--------------------+---+
|                   k|  v|
+--------------------+---+
|a long text beyon...|  0|
|                NULL|  1|
+--------------------+---+
only showing top 2 rows

";
        assert_eq!(print(&[("numRows", "2")], 3).await, expected);
        let whole = print(&[("truncate", "false")], 1).await;
        assert!(whole.contains("|a long text beyond twenty characters|0  |\n"), "{whole}");
        assert!(print(&[], 0).await.ends_with("+---+---+\n|  k|  v|\n+---+---+\n+---+---+\n\n"));
    }
}
