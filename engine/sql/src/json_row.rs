//! Rows as lines of JSON: what `weir sql` prints and what observed metrics are.
//!
//! As Spark's `to_json` of the whole row, in the session's zone. A column of a
//! type that has no JSON form (calendar intervals) is shown as its text.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::FieldRef;
use weir_core::Error;
use weir_decode::json::{JsonWriteOptions, JsonWriter, write_string};

use crate::cast::to_strings;
use crate::conf::SqlConf;
use crate::error::from_datafusion;
use crate::planned::{planning, running};

/// Each row of a batch as a JSON object; null columns are left out.
pub fn rows_to_json(batch: &RecordBatch, conf: &SqlConf) -> Result<Vec<String>, Error> {
    let zone = conf.zone()?;
    let options = JsonWriteOptions::parse(zone, []).map_err(|e| planning(&e))?;
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let shown = match JsonWriter::new(field, column, &options) {
            Ok(_) => Arc::clone(column),
            Err(_) => Arc::new(to_strings(column, zone, None).map_err(from_datafusion)?) as ArrayRef,
        };
        Ok((field, shown))
    });
    let columns = columns.collect::<Result<Vec<(&FieldRef, ArrayRef)>, Error>>()?;
    let mut members = Vec::with_capacity(columns.len());
    for (field, column) in &columns {
        let mut name = Vec::new();
        write_string(field.name().as_bytes(), &mut name);
        name.push(b':');
        members.push((name, JsonWriter::new(field, column, &options).map_err(|e| planning(&e))?));
    }
    let mut rows = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        let mut line = vec![b'{'];
        for (name, value) in members.iter().filter(|(_, value)| !value.is_null(row)) {
            if line.len() > 1 {
                line.push(b',');
            }
            line.extend_from_slice(name);
            value.write(row, &mut line).map_err(|e| from_datafusion(running(&e)))?;
        }
        line.push(b'}');
        rows.push(String::from_utf8_lossy(&line).into_owned());
    }
    Ok(rows)
}
