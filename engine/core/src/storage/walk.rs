//! What a folder of the local disk holds, entry by entry.
//!
//! Symbolic links are followed, broken ones passed by. What cannot be an object
//! is passed by too, with a warning the first time: a link that leads back to a
//! folder above it (its files are listed there), and a name with control
//! characters, bytes that are not UTF-8 or a trailing `#<number>`, for which the
//! store has no path. One such entry must not hide all the others for ever.

use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path as OsPath, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::UNIX_EPOCH;

use object_store::path::Path;
use object_store::{ObjectMeta, Result};
use walkdir::{DirEntry, WalkDir};

use super::local::STORE;

/// The error number of a link that leads to itself; std has no stable name for it.
const ELOOP: i32 = 40;
/// Entries whose warning is remembered; later ones are warned of again.
const REMEMBERED: usize = 4096;

/// How deep to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The folder's own entries.
    One,
    /// Everything below it.
    All,
}

/// An entry that has a path in the store.
#[derive(Debug)]
pub enum Entry {
    /// A file.
    File(ObjectMeta),
    /// A folder.
    Folder(Path),
}

/// Walks below `folder`; a folder that is not there is empty.
pub fn walk(folder: PathBuf, depth: Depth) -> impl Iterator<Item = Result<Entry>> + Send + 'static {
    let walk = WalkDir::new(folder).min_depth(1).follow_links(true);
    let walk = if depth == Depth::One { walk.max_depth(1) } else { walk };
    walk.into_iter().filter_map(|found| match found {
        Ok(found) => entry(&found).transpose(),
        Err(error) => problem(&error),
    })
}

fn entry(found: &DirEntry) -> Result<Option<Entry>> {
    let kind = found.file_type();
    if !kind.is_dir() && !kind.is_file() {
        return Ok(None);
    }
    let Some(path) = path_of(found.path()) else { return Ok(None) };
    if kind.is_dir() {
        return Ok(Some(Entry::Folder(path)));
    }
    match found.metadata() {
        Ok(metadata) => Ok(Some(Entry::File(object(&metadata, path)))),
        Err(error) => problem(&error).transpose(),
    }
}

/// Time and tag are those that the store gives for a single file.
fn object(metadata: &Metadata, location: Path) -> ObjectMeta {
    let modified = metadata.modified().unwrap_or(UNIX_EPOCH);
    let micros = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    let e_tag = Some(format!("{:x}-{micros:x}-{:x}", metadata.ino(), metadata.len()));
    ObjectMeta { location, last_modified: modified.into(), size: metadata.len(), e_tag, version: None }
}

/// An entry that vanished or leads in a circle is none; anything else fails.
fn problem(error: &walkdir::Error) -> Option<Result<Entry>> {
    if error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return None;
    }
    if let (Some(ELOOP), Some(link)) = (error.io_error().and_then(std::io::Error::raw_os_error), error.path()) {
        warn_once(link, || "it is a link that leads to itself".to_owned());
        return None;
    }
    if let (Some(ancestor), Some(link)) = (error.loop_ancestor(), error.path()) {
        warn_once(link, || format!("it is a link back to {}, whose files are listed there", ancestor.display()));
        return None;
    }
    Some(Err(object_store::Error::Generic { store: STORE, source: error.to_string().into() }))
}

/// The path in the store; `None` for a name that it cannot have.
fn path_of(found: &OsPath) -> Option<Path> {
    let text = found.to_str();
    let path = text.and_then(|text| Path::parse(text.strip_prefix('/').unwrap_or(text)).ok());
    match path.filter(|path| !is_reserved(path)) {
        Some(path) => Some(path),
        None => {
            warn_once(found, || {
                "its name has control characters, is not UTF-8 or ends in # and a number, which no object may; rename it and it is \
                 read as a new file"
                    .to_owned()
            });
            None
        }
    }
}

/// `x#1` is the store's name for an unfinished upload of `x`.
fn is_reserved(path: &Path) -> bool {
    let suffix = path.filename().and_then(|name| name.split_once('#')).map(|(_, suffix)| suffix);
    suffix.is_some_and(|suffix| !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_digit()))
}

fn warn_once(entry: &OsPath, why: impl FnOnce() -> String) {
    static WARNED: OnceLock<Mutex<HashSet<PathBuf>>> = OnceLock::new();
    let mut warned = WARNED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if warned.contains(entry) {
        return;
    }
    if warned.len() < REMEMBERED {
        warned.insert(entry.to_owned());
    }
    tracing::warn!(entry = ?entry, "passed by in a listing: {}", why());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    fn names(root: &OsPath, depth: Depth) -> Vec<String> {
        let prefix = format!("{}/", root.display())[1..].to_owned();
        let mut names: Vec<String> = walk(root.to_owned(), depth)
            .map(|entry| match entry.unwrap() {
                Entry::File(object) => object.location.to_string(),
                Entry::Folder(path) => format!("{path}/"),
            })
            .map(|path| path.strip_prefix(&prefix).unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn one_odd_entry_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir(root.join("sub")).unwrap();
        for name in ["a.json", "two\nlines.json", "sub/b %20é.json", "c.json#7"] {
            std::fs::write(root.join(name), "{}").unwrap();
        }
        std::fs::write(root.join(OsStr::from_bytes(b"\xff.json")), "{}").unwrap();
        symlink(root, root.join("sub/up")).unwrap();
        symlink("self", root.join("self")).unwrap();
        symlink("nowhere", root.join("broken")).unwrap();
        symlink("a.json", root.join("link.json")).unwrap();
        assert_eq!(names(root, Depth::All), ["a.json", "link.json", "sub/", "sub/b %20é.json"]);
        assert_eq!(names(root, Depth::One), ["a.json", "link.json", "sub/"]);
        assert!(names(&root.join("absent"), Depth::All).is_empty());
    }
}
