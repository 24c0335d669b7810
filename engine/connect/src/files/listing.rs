//! Which files there are: names filtered as Spark filters them, the log of a
//! file sink honoured.
//!
//! Hidden names (`_x` without `=`, `.x`, `x._COPYING_`) hide whatever is below
//! them. A folder without partition folders gives its own files only, one with
//! `k=v` folders or under `recursiveFileLookup` those of every depth. Where a
//! `_spark_metadata` log stands, only the files in it exist. Listing reads
//! names and sizes, never contents.

use futures::TryStreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;
use weir_core::storage::{Storage, failure};
use weir_core::{Error, Result};

use super::compactible;
use super::location::{Location, glob};
use super::options::ListingOptions;
use super::partitions;
use super::sink_log::SinkFileStatus;

/// A file that may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// As Java spells it; the identity in logs.
    pub uri: String,
    /// In the store.
    pub path: Path,
    /// Bytes.
    pub size: u64,
    /// Modification time in milliseconds.
    pub modified_ms: i64,
    /// How many components belong to the root, before partition folders.
    pub root_depth: usize,
}

/// What decides which files exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The folder's contents.
    Folder,
    /// The log of a file sink.
    SinkLog,
}

/// A listing and what it went by.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The files, in order of their paths.
    pub files: Vec<FoundFile>,
    /// What they were found by.
    pub origin: Origin,
}

/// Spark's rule for names that are not data.
pub fn is_hidden(name: &str) -> bool {
    let excluded = (name.starts_with('_') && !name.contains('=')) || name.starts_with('.') || name.ends_with("._COPYING_");
    excluded && !name.starts_with("_common_metadata") && !name.starts_with("_metadata")
}

/// Lists what a location holds.
pub async fn list(location: &Location, options: &ListingOptions, storage: &Storage) -> Result<Listing> {
    if !location.is_pattern()
        && let Some(files) = from_sink_log(location).await?
    {
        let files = filter_names(files, options)?;
        return Ok(Listing { files, origin: Origin::SinkLog });
    }
    let found = everything(location).await?;
    let base = base_depth(location, options, storage)?;
    let mut files: Vec<FoundFile> = found.into_iter().filter_map(|object| visible(object, location)).collect();
    if !options.recursive {
        let partitioned = files.iter().any(|file| partitions::is_partitioned(&file.path, base.unwrap_or(file.root_depth)));
        if !partitioned {
            files.retain(|file| file.path.parts_count() <= file.root_depth + 1);
        }
    }
    if let Some(base) = base {
        for file in &mut files {
            file.root_depth = base;
        }
    }
    let mut files = filter_names(files, options)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Listing { files, origin: Origin::Folder })
}

/// Whether a path without wildcards exists.
pub async fn exists(location: &Location) -> Result<bool> {
    let folder = location.folder();
    if folder.is_sealed() {
        return Ok(true);
    }
    if folder.is_local() {
        return Ok(std::path::Path::new(&format!("/{}", folder.prefix())).exists());
    }
    let mut below = folder.store().list(Some(folder.prefix()));
    match below.try_next().await {
        Ok(Some(_)) => Ok(true),
        Ok(None) => match folder.store().get_opts(folder.prefix(), head()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(failed(location, error)),
        },
        Err(error) => Err(failed(location, error)),
    }
}

fn head() -> object_store::GetOptions {
    object_store::GetOptions { head: true, ..object_store::GetOptions::default() }
}

async fn everything(location: &Location) -> Result<Vec<ObjectMeta>> {
    let folder = location.folder();
    let listed: Result<Vec<ObjectMeta>, _> = folder.store().list(Some(folder.prefix())).try_collect().await;
    let objects = match listed {
        Ok(objects) => objects,
        Err(object_store::Error::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(failed(location, error)),
    };
    if !objects.is_empty() || location.is_pattern() {
        return Ok(objects);
    }
    // A single file is not below itself.
    match folder.store().get_opts(folder.prefix(), head()).await {
        Ok(found) => Ok(vec![found.meta]),
        Err(object_store::Error::NotFound { .. }) => Ok(Vec::new()),
        // A folder is not an object; some stores say so with an error of their own.
        Err(_) => Ok(Vec::new()),
    }
}

fn visible(object: ObjectMeta, location: &Location) -> Option<FoundFile> {
    let root_depth = location.root_depth(&object.location)?;
    let fixed = location.folder().prefix().parts_count();
    // A file that is itself the root is read whatever its name is.
    let first_checked = if object.location.parts_count() <= fixed { usize::MAX } else { fixed };
    if object.location.parts().skip(first_checked).any(|part| is_hidden(part.as_ref())) {
        return None;
    }
    Some(FoundFile {
        uri: location.spelling().uri(&object.location),
        size: object.size,
        modified_ms: object.last_modified.timestamp_millis(),
        path: object.location,
        root_depth,
    })
}

fn filter_names(mut files: Vec<FoundFile>, options: &ListingOptions) -> Result<Vec<FoundFile>> {
    if let Some(pattern) = &options.name_filter {
        let matcher = glob(pattern)?;
        files.retain(|file| file.path.filename().is_some_and(|name| matcher.is_match(name)));
    }
    let window = options.modified;
    files.retain(|file| window.after_ms.is_none_or(|after| file.modified_ms > after));
    files.retain(|file| window.before_ms.is_none_or(|before| file.modified_ms < before));
    Ok(files)
}

/// The depth at which `basePath` says that partition folders begin.
fn base_depth(location: &Location, options: &ListingOptions, storage: &Storage) -> Result<Option<usize>> {
    let Some(base) = &options.base_path else { return Ok(None) };
    let folder = storage.open(base)?;
    let own = location.folder().prefix();
    let is_above = own.prefix_matches(folder.prefix()) && location.spelling() == &super::uri::UriSpelling::of(&folder);
    if !is_above {
        return Err(Error::config(
            "INVALID_BASE_PATH",
            format!("the option basePath '{base}' is not a folder above the path '{}'; name one of its parents", location.text()),
        ));
    }
    Ok(Some(folder.prefix().parts_count()))
}

async fn from_sink_log(location: &Location) -> Result<Option<Vec<FoundFile>>> {
    let folder = location.folder();
    if folder.is_local() && std::path::Path::new(&format!("/{}", folder.prefix())).is_file() {
        return Ok(None);
    }
    let log = folder.child("_spark_metadata");
    let objects = log.list().await?;
    let names: Vec<String> = objects.iter().filter_map(|object| object.location.filename()).map(str::to_owned).collect();
    let Some(latest) = names.iter().filter_map(|name| compactible::id_of(name)).max() else { return Ok(None) };
    let interval = compactible::interval_for(&names, 10);
    let from = ((latest + 1) / interval * interval).saturating_sub(1);
    let root_depth = folder.prefix().parts_count();
    let mut files = Vec::new();
    for id in from..=latest {
        let name = compactible::name_of(id, interval);
        let place = format!("{}/{name}", log.url());
        let body = log.read(&name).await?.ok_or_else(|| {
            Error::incompatible(
                "MISSING_FILE_LOG",
                format!("the log file {place} is missing, so the files of the folder cannot be known; restore it"),
            )
        })?;
        for entry in compactible::parse::<SinkFileStatus>(&body, &place)? {
            if entry.is_dir || entry.action != "add" {
                continue;
            }
            files.push(FoundFile {
                path: location.spelling().path(&entry.path)?,
                uri: entry.path,
                size: entry.size,
                modified_ms: entry.modification_time,
                root_depth,
            });
        }
    }
    Ok(Some(files))
}

fn failed(location: &Location, error: object_store::Error) -> Error {
    failure("STORAGE_FAILURE", format!("could not list {}", location.text()), error)
}

/// Spark's error for a path that is not there.
pub fn path_not_found(path: &str) -> Error {
    Error::config(
        "PATH_NOT_FOUND",
        format!(
            "Path does not exist: {path}. Create it, or correct the option path; a relative path is taken from the folder where weir is started."
        ),
    )
}

#[cfg(test)]
mod tests;
