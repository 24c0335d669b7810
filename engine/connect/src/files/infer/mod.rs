//! Schemas taken from files, as Spark's readers infer them.
//!
//! JSON looks at every record, CSV at names and, under `inferSchema`, at every
//! value, parquet at one footer (all with `mergeSchema`). Files are streamed;
//! only the types seen so far are kept.

mod csv;
mod json;

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use object_store::ObjectStore;
use weir_core::{Error, Result};
use weir_decode::spark_type::spark_field_type_name;

use super::listing::FoundFile;
use super::read::bytes::ByteStream;
use super::read::frame::Framer;
use super::read::{FormatOptions, corrupt_file};
use super::widen::plain;

/// The data columns of some files.
pub async fn data_columns(format: &FormatOptions, files: &[FoundFile], store: &Arc<dyn ObjectStore>) -> Result<Vec<Field>> {
    if files.is_empty() {
        return Err(Error::config(
            "UNABLE_TO_INFER_SCHEMA",
            "Unable to infer schema: there is no file yet to take it from. Declare the schema, or start with at least one file.",
        ));
    }
    match format {
        FormatOptions::Json(options) => {
            let mut found = json::Inferred::new(options);
            for file in files {
                each_record(format, file, store, |record| found.add(record)).await?;
            }
            Ok(found.fields())
        }
        FormatOptions::Csv(options) => {
            let mut found = csv::Inferred::new(options);
            for file in files {
                found.begin_file();
                each_record(format, file, store, |record| found.add(record)).await?;
            }
            Ok(found.fields())
        }
        FormatOptions::Text(_) => Ok(vec![Field::new("value", arrow::datatypes::DataType::Utf8, true)]),
        FormatOptions::Parquet(options) => parquet(files, options.merge_schema, store).await,
    }
}

async fn each_record(format: &FormatOptions, file: &FoundFile, store: &Arc<dyn ObjectStore>, mut each: impl FnMut(&[u8])) -> Result<()> {
    let mut bytes = ByteStream::open(store, &file.path, &file.uri).await?;
    let mut framer = Framer::new(format.framing());
    loop {
        let more = bytes.read_more(framer.fill()).await?;
        if !more {
            framer.end();
        }
        while let Some(record) = framer.next_record() {
            each(record.bytes);
        }
        if !more {
            return Ok(());
        }
        if framer.is_overfull() {
            return Err(corrupt_file(&file.uri, "a record is larger than 256 MiB"));
        }
    }
}

async fn parquet(files: &[FoundFile], merge: bool, store: &Arc<dyn ObjectStore>) -> Result<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    let looked_at = if merge { files.len() } else { 1 };
    for file in &files[..looked_at] {
        let footer = super::read::parquet_footer(store, file).await?;
        for field in plain_fields(&footer, &file.uri)? {
            match fields.iter().find(|known| known.name() == field.name()) {
                None => fields.push(field),
                Some(known) if known.data_type() == field.data_type() => {}
                Some(known) => {
                    return Err(Error::config(
                        "CANNOT_MERGE_SCHEMAS",
                        format!(
                            "Failed merging schemas: the column `{}` is {} in {} and {} in files before it; declare the schema",
                            field.name(),
                            spark_field_type_name(&field),
                            file.uri,
                            spark_field_type_name(known)
                        ),
                    ));
                }
            }
        }
    }
    Ok(fields)
}

fn plain_fields(schema: &Schema, uri: &str) -> Result<Vec<Field>> {
    let one = |field: &Arc<Field>| {
        plain(field.data_type()).map(|data_type| Field::new(field.name(), data_type, true)).ok_or_else(|| {
            Error::config(
                "PARQUET_TYPE_NOT_SUPPORTED",
                format!(
                    "the column `{}` of {uri} has the type {}, which Spark does not have; leave it out of the schema",
                    field.name(),
                    field.data_type()
                ),
            )
        })
    };
    schema.fields().iter().map(one).collect()
}
