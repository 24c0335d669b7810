//! The options of a file sink: format, compression, what values look like.
//!
//! Read once when the sink is opened. Which columns a format can hold is
//! checked here too, so that a query fails before its first batch.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, SchemaRef};
use weir_core::{Error, Result};
use weir_decode::JsonWriteOptions;
use weir_decode::spark_type::spark_field_type_name;

use super::csv::CsvWriteOptions;
use crate::files::read::csv::options::require_utf8;
use crate::files::read::options::{option_error, session_zone};
use crate::options::{Options, invalid};

/// Compression of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// None.
    Plain,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
    /// Snappy pages, parquet only.
    Snappy,
    /// LZ4 pages, parquet only.
    Lz4Raw,
}

/// A format with its options.
#[derive(Clone, Debug)]
pub enum WriteFormat {
    /// `json`.
    Json(JsonWriteOptions),
    /// `csv`.
    Csv(Box<CsvWriteOptions>),
    /// `text`.
    Text,
    /// `parquet`.
    Parquet,
}

/// How files are written.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The format.
    pub format: WriteFormat,
    /// The compression.
    pub compression: Compression,
    /// `lineSep`.
    pub line_separator: String,
}

impl WriteOptions {
    /// Reads the options of a format.
    pub fn parse(format: &str, options: &Options, conf: &BTreeMap<String, String>) -> Result<Self> {
        if let Some(encoding) = options.first(&["encoding", "charset"]) {
            require_utf8(encoding)?;
        }
        let zone = session_zone(conf)?;
        let format = match format {
            "json" => WriteFormat::Json(JsonWriteOptions::parse(zone, options.pairs()).map_err(|e| option_error(&e))?),
            "csv" => WriteFormat::Csv(Box::new(CsvWriteOptions::parse(options, zone)?)),
            "text" => WriteFormat::Text,
            "parquet" => WriteFormat::Parquet,
            other => {
                return Err(Error::config(
                    "DATA_SOURCE_NOT_FOUND",
                    format!("'{other}' is not a file format; use json, csv, text or parquet"),
                ));
            }
        };
        let line_separator = match options.get("lineSep") {
            Some("") => return Err(invalid("lineSep", "", "must not be empty")),
            Some(text) => text.to_owned(),
            None => "\n".to_owned(),
        };
        Ok(Self { compression: compression(&format, options, conf)?, format, line_separator })
    }

    /// Refuses columns that the format cannot hold.
    pub fn check(&self, data: &SchemaRef) -> Result<()> {
        match self.format {
            WriteFormat::Json(_) | WriteFormat::Parquet => Ok(()),
            WriteFormat::Csv(_) => match data.fields().iter().find(|field| field.data_type().is_nested()) {
                None => Ok(()),
                Some(field) => Err(Error::config(
                    "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
                    format!(
                        "The CSV datasource doesn't support the column `{}` of the type \"{}\"; write it with to_json({}) or choose another format",
                        field.name(),
                        spark_field_type_name(field),
                        field.name()
                    ),
                )),
            },
            WriteFormat::Text => match data.fields().as_ref() {
                [field] if *field.data_type() == DataType::Utf8 => Ok(()),
                [field] => Err(Error::config(
                    "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
                    format!(
                        "The Text datasource doesn't support the column `{}` of the type \"{}\"; cast it to STRING",
                        field.name(),
                        spark_field_type_name(field)
                    ),
                )),
                fields => Err(Error::config(
                    "_LEGACY_ERROR_TEMP_1290",
                    format!(
                        "Text data source supports only a single column, and you have {} columns; select one column beside those of partitionBy",
                        fields.len()
                    ),
                )),
            },
        }
    }

    /// `part-00000-<uuid>-c000.json`; with partition folders Spark writes a dot before the counter.
    pub fn file_name(&self, lane: usize, id: &uuid::Uuid, partitioned: bool) -> String {
        let before_counter = if partitioned { '.' } else { '-' };
        let extension = match (&self.format, self.compression) {
            (WriteFormat::Parquet, Compression::Plain) => ".parquet".to_owned(),
            (WriteFormat::Parquet, Compression::Snappy) => ".snappy.parquet".to_owned(),
            (WriteFormat::Parquet, Compression::Zstd) => ".zstd.parquet".to_owned(),
            (WriteFormat::Parquet, Compression::Lz4Raw) => ".lz4raw.parquet".to_owned(),
            (WriteFormat::Parquet, Compression::Gzip) => ".gz.parquet".to_owned(),
            (format, compression) => {
                let name = match format {
                    WriteFormat::Json(_) => "json",
                    WriteFormat::Csv(_) => "csv",
                    WriteFormat::Text | WriteFormat::Parquet => "txt",
                };
                let codec = match compression {
                    Compression::Gzip => ".gz",
                    Compression::Zstd => ".zst",
                    Compression::Plain | Compression::Snappy | Compression::Lz4Raw => "",
                };
                format!(".{name}{codec}")
            }
        };
        format!("part-{lane:05}-{id}{before_counter}c000{extension}")
    }
}

fn compression(format: &WriteFormat, options: &Options, conf: &BTreeMap<String, String>) -> Result<Compression> {
    let is_parquet = matches!(format, WriteFormat::Parquet);
    let asked = match is_parquet {
        true => options
            .first(&["compression", "parquet.compression"])
            .or_else(|| conf.get("spark.sql.parquet.compression.codec").map(String::as_str)),
        false => options.first(&["compression", "codec"]),
    };
    let Some(asked) = asked else { return Ok(if is_parquet { Compression::Snappy } else { Compression::Plain }) };
    match (asked.to_ascii_lowercase().as_str(), is_parquet) {
        ("none" | "uncompressed", _) => Ok(Compression::Plain),
        ("zstd", _) => Ok(Compression::Zstd),
        ("gzip", _) => Ok(Compression::Gzip),
        ("snappy", true) => Ok(Compression::Snappy),
        ("lz4_raw", true) => Ok(Compression::Lz4Raw),
        (_, true) => Err(invalid("compression", asked, "must be one of none, uncompressed, snappy, gzip, zstd, lz4_raw")),
        (_, false) => Err(invalid("compression", asked, "must be one of none, uncompressed, gzip, zstd")),
    }
}
