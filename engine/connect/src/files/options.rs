//! The options of a file source beside those of its format.
//!
//! Read once when the source is opened; combinations that Spark refuses at the
//! start of a query are refused here, with its sentences
//! (`FileStreamOptions`). Format options are read by the formats.

use weir_core::{Error, Result};
use weir_crds::duration::{TimeUnit, parse_time_string};

use super::seen::Identity;
use super::select::{Caching, Limit};
use crate::options::{Options, invalid};

/// What happens to files whose batch is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CleanSource {
    /// They stay.
    Off,
    /// They are deleted.
    Delete,
    /// They move below this folder, with their whole path.
    Archive(String),
}

/// Which of the new files come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The oldest.
    OldestFirst,
    /// `latestFirst`.
    NewestFirst,
}

/// Options of a file source.
#[derive(Clone, Debug, PartialEq)]
pub struct FileSourceOptions {
    /// The path or glob.
    pub path: String,
    /// Limit of one trigger.
    pub limit: Limit,
    /// Reading order.
    pub order: Order,
    /// `fileNameOnly`.
    pub identity: Identity,
    /// `maxFileAge` in milliseconds; switched off by `latestFirst` with a limit.
    pub max_file_age_ms: i64,
    /// What is kept of a listing.
    pub caching: Caching,
    /// `cleanSource` and `sourceArchiveDir`.
    pub clean: CleanSource,
    /// Which files of a folder are looked at.
    pub listing: ListingOptions,
}

/// Options of listing that streams and tables share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListingOptions {
    /// `pathGlobFilter`, on the last segment.
    pub name_filter: Option<String>,
    /// `recursiveFileLookup`: all folders, no partitions.
    pub recursive: bool,
    /// `basePath`: where partition folders begin.
    pub base_path: Option<String>,
    /// `modifiedAfter` and `modifiedBefore` in milliseconds, for tables only.
    pub modified: ModifiedWindow,
}

/// A window of modification times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModifiedWindow {
    /// Files at or before this are left out.
    pub after_ms: Option<i64>,
    /// Files at or after this are left out.
    pub before_ms: Option<i64>,
}

impl ListingOptions {
    /// Reads the options that streams and tables share.
    pub fn parse(options: &Options) -> Result<Self> {
        let name_filter = options.get("pathGlobFilter").map(str::to_owned);
        if let Some(pattern) = &name_filter {
            super::location::glob(pattern)?;
        }
        Ok(Self {
            name_filter,
            recursive: options.flag("recursiveFileLookup", false)?,
            base_path: options.get("basePath").map(str::to_owned),
            modified: ModifiedWindow::default(),
        })
    }
}

impl FileSourceOptions {
    /// Reads and checks the options of a stream.
    pub fn parse(format: &str, options: &Options) -> Result<Self> {
        let path = options.required(format, "path")?.to_owned();
        for name in ["modifiedBefore", "modifiedAfter"] {
            if options.get(name).is_some() {
                let text = format!("option '{}' is not allowed in file stream sources", name.to_ascii_lowercase());
                return Err(Error::config("OPTION_NOT_ALLOWED", text));
            }
        }
        let max_files =
            options.first(&["maxFilesPerTrigger"]).map(|text| positive("maxFilesPerTrigger", text, i64::from(i32::MAX))).transpose()?;
        let max_bytes = options.first(&["maxBytesPerTrigger"]).map(|text| positive("maxBytesPerTrigger", text, i64::MAX)).transpose()?;
        let limit = match (max_files, max_bytes) {
            (Some(_), Some(_)) => {
                let text = "Options 'maxFilesPerTrigger' and 'maxBytesPerTrigger' can't be both set at the same time";
                return Err(Error::config("CONFLICTING_OPTIONS", text));
            }
            (Some(files), None) => Limit::Files(files),
            (None, Some(bytes)) => Limit::Bytes(bytes),
            (None, None) => Limit::All,
        };
        let latest_first = options.flag("latestFirst", false)?;
        let age = options.get("maxFileAge").unwrap_or("7d");
        let age = parse_time_string(age, TimeUnit::Milliseconds).map_err(|_| {
            let text = "Time must be specified as seconds (s), milliseconds (ms), microseconds (us), minutes (m or min), hour (h), or day (d). E.g. 50s, 100ms, or 250us.";
            Error::config("INVALID_OPTION_VALUE", format!("{text}\nFailed to parse time string: {}", age.to_ascii_lowercase()))
        })?;
        let ageless = latest_first && limit != Limit::All;
        Ok(Self {
            path,
            limit,
            order: if latest_first { Order::NewestFirst } else { Order::OldestFirst },
            identity: if options.flag("fileNameOnly", false)? { Identity::FileName } else { Identity::Uri },
            max_file_age_ms: if ageless { i64::MAX } else { i64::try_from(age.as_millis()).unwrap_or(i64::MAX) },
            caching: Caching { max_files: cached_files(options)?, discard_ratio: discard_ratio(options)? },
            clean: clean_source(options)?,
            listing: ListingOptions::parse(options)?,
        })
    }
}

fn positive(name: &str, text: &str, most: i64) -> Result<u64> {
    let value = text.trim().parse::<i64>().ok().filter(|value| (1..=most).contains(value));
    value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| invalid(name, text, "must be a positive integer"))
}

fn cached_files(options: &Options) -> Result<usize> {
    let name = "maxCachedFiles";
    let allowed = "must be an integer greater than or equal to 0";
    let text = options.get(name).unwrap_or("10000");
    text.trim().parse::<i32>().ok().and_then(|value| usize::try_from(value).ok()).ok_or_else(|| invalid(name, text, allowed))
}

fn discard_ratio(options: &Options) -> Result<f64> {
    let name = "discardCachedInputRatio";
    let text = options.get(name).unwrap_or("0.2");
    let ratio = text.trim().parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| invalid(name, text, "must be a positive float between 0 and 1"))
}

fn clean_source(options: &Options) -> Result<CleanSource> {
    let Some(text) = options.get("cleanSource") else { return Ok(CleanSource::Off) };
    match text.to_ascii_lowercase().as_str() {
        "off" => Ok(CleanSource::Off),
        "delete" => Ok(CleanSource::Delete),
        "archive" => match options.get("sourceArchiveDir") {
            Some(folder) => Ok(CleanSource::Archive(folder.to_owned())),
            None => Err(Error::config("MISSING_OPTION", "Archive mode must be used with 'sourceArchiveDir' option.")),
        },
        _ => {
            let text = format!("Invalid mode for clean source option Some({text}). Must be one of ARCHIVE,DELETE,OFF");
            Err(Error::config("INVALID_OPTION_VALUE", text))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(values: &[(&str, &str)]) -> Result<FileSourceOptions> {
        let path = [("path", "/in")];
        FileSourceOptions::parse("json", &Options::new(path.iter().chain(values).map(|(k, v)| (*k, *v))))
    }

    #[test]
    fn refusals_are_sparks() {
        let cases = [
            (vec![("maxFilesPerTrigger", "0")], "Invalid value '0' for option 'maxFilesPerTrigger', must be a positive integer"),
            (vec![("maxFilesPerTrigger", "x")], "Invalid value 'x' for option 'maxFilesPerTrigger', must be a positive integer"),
            (
                vec![("maxFilesPerTrigger", "1"), ("maxBytesPerTrigger", "1")],
                "Options 'maxFilesPerTrigger' and 'maxBytesPerTrigger' can't be both set at the same time",
            ),
            (vec![("latestFirst", "maybe")], "Invalid value 'maybe' for option 'latestFirst', must be 'true' or 'false'"),
            (vec![("cleanSource", "zip")], "Invalid mode for clean source option Some(zip). Must be one of ARCHIVE,DELETE,OFF"),
            (vec![("cleanSource", "archive")], "Archive mode must be used with 'sourceArchiveDir' option."),
            (vec![("modifiedBefore", "2024-01-01")], "option 'modifiedbefore' is not allowed in file stream sources"),
            (
                vec![("maxCachedFiles", "-1")],
                "Invalid value '-1' for option 'maxCachedFiles', must be an integer greater than or equal to 0",
            ),
            (
                vec![("discardCachedInputRatio", "2")],
                "Invalid value '2' for option 'discardCachedInputRatio', must be a positive float between 0 and 1",
            ),
        ];
        for (options, message) in cases {
            assert_eq!(parse(&options).unwrap_err().message(), message);
        }
        assert!(parse(&[("maxFileAge", "abc")]).unwrap_err().message().ends_with("Failed to parse time string: abc"));
    }

    #[test]
    fn latest_first_with_a_limit_has_no_age() {
        assert_eq!(parse(&[]).unwrap().max_file_age_ms, 604_800_000);
        assert_eq!(parse(&[("latestFirst", "true")]).unwrap().max_file_age_ms, 604_800_000);
        assert_eq!(parse(&[("latestFirst", "true"), ("maxFilesPerTrigger", "1")]).unwrap().max_file_age_ms, i64::MAX);
    }
}
