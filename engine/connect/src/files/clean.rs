//! What happens to source files whose batch is final: nothing, deletion, or a
//! move below an archive folder that keeps the whole path.
//!
//! The archive must be in the same store and must not be a place that the
//! source itself would read, compared component by component to the shallower
//! depth of the two (Spark's `FileStreamSourceCleaner`). Failures are logged;
//! they never fail a batch.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use weir_core::storage::{Folder, Storage};
use weir_core::{Error, Result};

use super::location::{Location, glob};
use super::options::CleanSource;
use super::uri::UriSpelling;

/// Cleans the files of final batches.
#[derive(Clone, Debug)]
pub struct Cleaner {
    action: Action,
    spelling: UriSpelling,
    store: Arc<dyn ObjectStore>,
}

#[derive(Clone, Debug)]
enum Action {
    Nothing,
    Delete,
    Archive(Folder),
}

impl Cleaner {
    /// Checks the options against the source's location.
    pub fn new(clean: &CleanSource, location: &Location, storage: &Storage) -> Result<Self> {
        let action = match clean {
            CleanSource::Off => Action::Nothing,
            CleanSource::Delete => Action::Delete,
            CleanSource::Archive(folder) => Action::Archive(archive(folder, location, storage)?),
        };
        Ok(Self { action, spelling: location.spelling().clone(), store: location.folder().store().clone() })
    }

    /// Whether there is anything to do.
    pub fn is_active(&self) -> bool {
        !matches!(self.action, Action::Nothing)
    }

    /// Deletes or moves one file.
    pub async fn clean(&self, uri: &str) {
        if let Err(error) = self.try_clean(uri).await {
            tracing::warn!(file = uri, %error, "could not clean a source file");
        }
    }

    async fn try_clean(&self, uri: &str) -> Result<()> {
        let path = self.spelling.path(uri)?;
        let failed = |error: object_store::Error| Error::retryable("STORAGE_FAILURE", format!("could not clean {uri}")).with_source(error);
        let done = match &self.action {
            Action::Nothing => Ok(()),
            Action::Delete => self.store.delete(&path).await,
            Action::Archive(folder) => {
                let to = Path::parse(format!("{}/{path}", folder.prefix()))
                    .map_err(|e| Error::config("INVALID_LOCATION", format!("cannot archive {uri} below {}: {e}", folder.url())))?;
                self.store.rename(&path, &to).await
            }
        };
        match done {
            // Gone already: an earlier life cleaned it.
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

fn archive(text: &str, location: &Location, storage: &Storage) -> Result<Folder> {
    let folder = storage.open(text)?;
    if UriSpelling::of(&folder) != *location.spelling() {
        return Err(Error::config(
            "INVALID_ARCHIVE_DIR",
            format!(
                "requirement failed: Base archive path is located on a different file system than the source files. source path: {} / base archive path: {text}",
                location.text()
            ),
        ));
    }
    let source = location.components();
    let target: Vec<String> = folder.prefix().parts().map(|part| part.as_ref().to_owned()).collect();
    let mut matches = true;
    for (pattern, component) in source.iter().zip(&target) {
        let same = pattern == component || glob(pattern)?.is_match(component);
        matches = matches && same;
    }
    if matches {
        let text = "requirement failed: Base archive path cannot be set to the path where archived path can possibly match with source pattern. Ensure the base archive path doesn't match with source pattern in depth, where the depth is minimum of depth on both paths.";
        return Err(Error::config("INVALID_ARCHIVE_DIR", text));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::storage;

    fn allowed(source: &str, target: &str) -> bool {
        let location = Location::new(source, &storage()).unwrap();
        Cleaner::new(&CleanSource::Archive(target.to_owned()), &location, &storage()).is_ok()
    }

    #[test]
    fn the_archive_is_outside_the_pattern() {
        assert!(!allowed("/data/in", "/data/in/archive"));
        assert!(!allowed("/data/in", "/data"));
        assert!(!allowed("/data/*/x", "/data/y"));
        assert!(allowed("/data/in", "/data/archive"));
        assert!(allowed("/data/i*", "/data/archive"));
        assert!(!allowed("/data/in", "s3://bucket/archive"));
    }

    #[tokio::test]
    async fn files_move_with_their_path() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("in")).unwrap();
        std::fs::write(root.join("in/a b.json"), "x").unwrap();
        let location = Location::new(root.join("in").to_str().unwrap(), &storage()).unwrap();
        let archive = root.join("old");
        let clean = CleanSource::Archive(archive.to_str().unwrap().to_owned());
        let cleaner = Cleaner::new(&clean, &location, &storage()).unwrap();
        let path = Path::parse(format!("{}/in/a b.json", root.to_str().unwrap())).unwrap();
        cleaner.clean(&location.spelling().uri(&path)).await;
        cleaner.clean(&location.spelling().uri(&path)).await;
        assert!(!root.join("in/a b.json").exists());
        let moved = format!("{}{}/in/a b.json", archive.display(), root.display());
        assert!(std::path::Path::new(&moved).exists(), "{moved}");
    }
}
