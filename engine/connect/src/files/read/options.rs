//! Which format a source reads, with its options read and checked.
//!
//! Options that belong to listing or to the stream are read in `files::options`;
//! here are those that decide how the bytes of a file become rows.

use std::collections::BTreeMap;

use weir_core::{Error, Result};
use weir_decode::time::Zone;
use weir_decode::{DecodeError, Formats, JsonOptions, ParseMode};

use super::csv::CsvOptions;
use super::csv::options::{line_separator, require_utf8};
use super::frame::Framing;
use crate::options::Options;

/// A file format with its options.
#[derive(Clone, Debug)]
pub enum FormatOptions {
    /// `json`.
    Json(JsonOptions),
    /// `csv`.
    Csv(Box<CsvOptions>),
    /// `text`.
    Text(TextOptions),
    /// `parquet`.
    Parquet(ParquetOptions),
}

/// Options of `text`.
#[derive(Clone, Debug)]
pub struct TextOptions {
    framing: Framing,
    /// For partition values.
    formats: Formats,
}

/// Options of `parquet`.
#[derive(Clone, Debug)]
pub struct ParquetOptions {
    /// `mergeSchema`, for schema inference only.
    pub merge_schema: bool,
    /// For partition values.
    formats: Formats,
}

/// The zone of the session.
pub fn session_zone(conf: &BTreeMap<String, String>) -> Result<Zone> {
    let text = conf.get("spark.sql.session.timeZone").map_or("UTC", String::as_str);
    Zone::parse(text).ok_or_else(|| {
        Error::config(
            "INVALID_TIMEZONE",
            format!("the setting spark.sql.session.timeZone is '{text}', which is no time zone; write a name such as UTC or Europe/Berlin"),
        )
    })
}

/// An error of option parsing in the decoder.
pub fn option_error(error: &DecodeError) -> Error {
    Error::config(error.condition().to_owned(), error.message().to_owned())
}

impl FormatOptions {
    /// The column that takes records which do not fit the schema, where the format has one.
    pub fn corrupt_record_column(&self) -> Option<&str> {
        match self {
            Self::Json(options) => Some(&options.corrupt_record_column),
            Self::Csv(options) => Some(&options.corrupt_column),
            Self::Text(_) | Self::Parquet(_) => None,
        }
    }

    /// Has malformed records left out, so that whoever reads can put them elsewhere; false where the format knows none.
    pub fn set_malformed_apart(&mut self) -> Result<bool> {
        let mode = match self {
            Self::Json(options) => &mut options.mode,
            Self::Csv(options) => &mut options.mode,
            Self::Text(_) | Self::Parquet(_) => return Ok(false),
        };
        if *mode == ParseMode::FailFast {
            let text = "the mode FAILFAST ends the query at the first bad record, and badRecords keeps bad records so that it goes on; remove the \
                        option mode, or the field badRecords";
            return Err(Error::config("BAD_RECORDS_UNDER_FAILFAST", text).in_field("options.mode"));
        }
        *mode = ParseMode::DropMalformed;
        Ok(true)
    }

    /// Reads the options of a format.
    pub fn parse(format: &str, options: &Options, conf: &BTreeMap<String, String>) -> Result<Self> {
        let session = session_zone(conf)?;
        if let Some(encoding) = options.first(&["encoding", "charset"]) {
            require_utf8(encoding)?;
        }
        let partition_formats = Formats::iso(session.clone());
        match format.to_ascii_lowercase().as_str() {
            "json" => {
                let mut json = JsonOptions::parse(weir_decode::Origin::File, session, options.pairs()).map_err(|e| option_error(&e))?;
                if options.get("columnNameOfCorruptRecord").is_none()
                    && let Some(name) = conf.get("spark.sql.columnNameOfCorruptRecord")
                {
                    json.corrupt_record_column.clone_from(name);
                }
                Ok(Self::Json(json))
            }
            "csv" => {
                let zone = match options.get("timeZone") {
                    None => session,
                    Some(text) => Zone::parse(text).ok_or_else(|| crate::options::invalid("timeZone", text, "must be a time zone"))?,
                };
                let formats =
                    Formats::new(zone, options.get("timestampFormat"), options.get("timestampNTZFormat"), options.get("dateFormat"));
                Ok(Self::Csv(Box::new(CsvOptions::parse(options, formats.map_err(|e| option_error(&e))?)?)))
            }
            "text" => {
                let framing = match (options.flag("wholetext", false)?, line_separator(options)?) {
                    (true, _) => Framing::Whole,
                    (false, Some(separator)) => Framing::Separator(separator),
                    (false, None) => Framing::Lines,
                };
                Ok(Self::Text(TextOptions { framing, formats: partition_formats }))
            }
            "parquet" => {
                Ok(Self::Parquet(ParquetOptions { merge_schema: options.flag("mergeSchema", false)?, formats: partition_formats }))
            }
            other => Err(Error::config("DATA_SOURCE_NOT_FOUND", format!("'{other}' is not a file format; use json, csv, text or parquet"))),
        }
    }

    /// How partition values are read.
    pub fn partition_formats(&self) -> &Formats {
        match self {
            Self::Json(json) => &json.formats,
            Self::Csv(csv) => &csv.formats,
            Self::Text(text) => &text.formats,
            Self::Parquet(parquet) => &parquet.formats,
        }
    }

    /// How records are found; parquet has none.
    pub fn framing(&self) -> Framing {
        match self {
            Self::Json(json) if json.multi_line => Framing::Whole,
            Self::Json(json) => {
                json.line_sep.as_ref().map_or(Framing::Lines, |separator| Framing::Separator(separator.clone().into_bytes()))
            }
            Self::Csv(csv) => csv.framing.clone(),
            Self::Text(text) => text.framing.clone(),
            Self::Parquet(_) => Framing::Whole,
        }
    }
}
