//! The schema of a file source: declared or inferred columns, then partition
//! columns.
//!
//! A stream needs a declared schema unless it reads text or
//! `spark.sql.streaming.schemaInference` is on; a static table may infer its
//! own. Partition columns are found in the folder names once, when the source
//! is opened, and stand behind the others; a declared column of the same name
//! gives its type. Everything is nullable. The hidden column `_metadata` is last.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use object_store::ObjectStore;
use weir_core::{Error, Result};

use super::infer;
use super::listing::Listing;
use super::options::ListingOptions;
use super::partitions;
use super::read::{FormatOptions, conf_flag, metadata};

/// The schema of a file source and where its parts come from.
#[derive(Clone, Debug)]
pub struct FileSchema {
    /// All columns: data, then partitions, then the hidden `_metadata`.
    pub table: SchemaRef,
    /// The columns that files hold.
    pub data: SchemaRef,
    /// Names of the partition columns.
    partitions: Vec<String>,
    /// The depth at which partition folders begin, when `basePath` says so.
    pub base_depth: Option<usize>,
}

impl FileSchema {
    /// Whether a column's values are in folder names.
    pub fn is_partition(&self, name: &str) -> bool {
        self.partitions.iter().any(|partition| partition == name)
    }

    /// Puts data and partition columns together. `metadata` gives way to a column of its name.
    pub fn new(data: Vec<Field>, mut partitions: Vec<Field>, base_depth: Option<usize>, metadata: Field) -> Self {
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        for partition in &mut partitions {
            if let Some(declared) = data.iter().find(|field| same(field.name(), partition.name())) {
                *partition = declared.clone();
            }
        }
        let data: Vec<Field> =
            data.into_iter().filter(|field| !partitions.iter().any(|partition| same(partition.name(), field.name()))).collect();
        let nullable = |field: Field| field.with_nullable(true);
        let data: Vec<Field> = data.into_iter().map(nullable).collect();
        let partitions: Vec<Field> = partitions.into_iter().map(nullable).collect();
        let names = partitions.iter().map(|field| field.name().clone()).collect();
        let mut table = data.iter().cloned().chain(partitions).collect::<Vec<_>>();
        if !table.iter().any(|field| same(field.name(), metadata.name())) {
            table.push(metadata);
        }
        Self { table: Arc::new(Schema::new(table)), data: Arc::new(Schema::new(data)), partitions: names, base_depth }
    }
}

/// Whether a schema may be taken from the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inference {
    /// The manifest must declare it.
    Refused,
    /// The files decide where nothing is declared.
    Allowed,
}

/// Spark's error for a stream without a schema.
fn schema_required() -> Error {
    Error::config(
        "_LEGACY_ERROR_TEMP_2048",
        "Schema must be specified when creating a streaming source DataFrame. Declare it as the source's schema, for example `id BIGINT, name STRING`, or set spark.sql.streaming.schemaInference to true.",
    )
}

/// The schema of a stream.
pub async fn for_stream(
    format: &FormatOptions,
    declared: Option<SchemaRef>,
    listed: &Listing,
    listing: &ListingOptions,
    conf: &BTreeMap<String, String>,
    store: &Arc<dyn ObjectStore>,
) -> Result<FileSchema> {
    let inference = if conf_flag(conf, "spark.sql.streaming.schemaInference")? { Inference::Allowed } else { Inference::Refused };
    resolve(format, declared, listed, listing, inference, conf, store).await
}

/// The columns that are known without looking at files.
pub fn declared_data(format: &FormatOptions, declared: Option<&SchemaRef>, inference: Inference) -> Result<Option<Vec<Field>>> {
    let fields = declared.map(|schema| schema.fields().iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>());
    match (format, fields) {
        (FormatOptions::Text(_), Some(fields)) => Ok(Some(fields)),
        (FormatOptions::Text(_), None) => Ok(Some(vec![Field::new("value", DataType::Utf8, true)])),
        (_, Some(fields)) => Ok(Some(fields)),
        (_, None) if inference == Inference::Refused => Err(schema_required()),
        (_, None) => Ok(None),
    }
}

/// The schema of a stream or table over listed files.
pub async fn resolve(
    format: &FormatOptions,
    declared: Option<SchemaRef>,
    listed: &Listing,
    listing: &ListingOptions,
    inference: Inference,
    conf: &BTreeMap<String, String>,
    store: &Arc<dyn ObjectStore>,
) -> Result<FileSchema> {
    let known = declared_data(format, declared.as_ref(), inference)?;
    let mut partitions = match listing.recursive {
        true => Vec::new(),
        false => partitions::infer(&listed.files, format.partition_formats())?,
    };
    let typed = conf.get("spark.sql.sources.partitionColumnTypeInference.enabled").is_none_or(|value| !value.eq_ignore_ascii_case("false"));
    if !typed {
        partitions = partitions.into_iter().map(|field| field.with_data_type(DataType::Utf8)).collect();
    }
    let data = match known {
        Some(data) => data,
        None => infer::data_columns(format, &listed.files, store).await?,
    };
    let base_depth = listing.base_path.as_ref().and_then(|_| listed.files.first().map(|file| file.root_depth));
    let schema = FileSchema::new(data, partitions, base_depth, metadata::field(format));
    if matches!(format, FormatOptions::Text(_)) {
        check_text(&schema)?;
    }
    Ok(schema)
}

fn check_text(schema: &FileSchema) -> Result<()> {
    match schema.data.fields().as_ref() {
        [value] if *value.data_type() == DataType::Utf8 => Ok(()),
        fields => Err(Error::config(
            "_LEGACY_ERROR_TEMP_1290",
            format!(
                "Text data source supports only a single column of type STRING, and the schema has {} columns; leave the schema out",
                fields.len()
            ),
        )),
    }
}
