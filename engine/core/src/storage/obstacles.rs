//! What is on a disk where a file should be: a folder, a pipe, a link to nowhere.
//!
//! A pipe would be waited for without end, a folder or a link to nowhere lets
//! nothing be created and shows nothing to read. Looks at names and kinds only,
//! and opens nothing.

use std::fs;
use std::io;
use std::path::Path;

/// What stands at `path` or above it and lets no file (or folder) be there, in words.
pub fn find(path: &Path, is_file_meant: bool) -> Option<String> {
    if is_file_meant && path.is_file() {
        return None;
    }
    let above = path.ancestors().skip(usize::from(is_file_meant)).find(|above| fs::symlink_metadata(above).is_ok());
    if let Some(above) = above.filter(|above| !above.is_dir()) {
        return Some(format!("{} is {}, where a folder should be", above.display(), kind(above)));
    }
    let is_there = is_file_meant && fs::symlink_metadata(path).is_ok();
    // Looked at last: it may have been made meanwhile.
    (is_there && !path.is_file()).then(|| format!("{} is {}, where a file should be", path.display(), kind(path)))
}

fn kind(path: &Path) -> &'static str {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => "a folder",
        Ok(found) if found.is_file() => "a file",
        Ok(_) => "neither file nor folder (a pipe, socket or device)",
        Err(_) => "a link that leads nowhere",
    }
}

/// The names in a folder, in order, and of each whether it is a file, links followed; a folder that is not there has none.
pub fn names(folder: &Path) -> io::Result<Vec<(String, bool)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(folder).is_err() => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // What has just been deleted is neither there nor in the way.
        let is_file = match entry.file_type() {
            Ok(kind) if kind.is_file() => true,
            _ if fs::symlink_metadata(entry.path()).is_err() => continue,
            _ => entry.path().is_file(),
        };
        names.push((name, is_file));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::ErrorClass;
    use crate::storage::{Created, Durability, Storage};

    #[tokio::test]
    async fn what_is_no_file_is_refused_and_never_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("log/folder")).unwrap();
        fs::write(root.join("log/5"), "x").unwrap();
        symlink("5", root.join("log/link")).unwrap();
        symlink("nowhere", root.join("log/broken")).unwrap();
        symlink("loop", root.join("log/loop")).unwrap();
        std::os::unix::net::UnixListener::bind(root.join("log/socket")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(root.join("log/pipe")).status().unwrap().success());
        let folder = Storage::new(Durability::PageCache).open(root.to_str().unwrap()).unwrap();
        let log = folder.child("log");
        let of = |names: Vec<(String, bool)>| names.into_iter().filter(|(_, is_file)| *is_file).map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(of(log.names().await.unwrap()), ["5", "link"]);
        assert_eq!(log.names().await.unwrap().len(), 7);
        assert!(folder.child("absent").names().await.unwrap().is_empty());
        for (name, words) in [
            ("folder", "is a folder, where a file should be"),
            ("pipe", "is neither file nor folder"),
            ("socket", "is neither file nor folder"),
            ("broken", "is a link that leads nowhere"),
            ("loop", "is a link that leads nowhere"),
            ("5/below", "log/5 is a file, where a folder should be"),
        ] {
            for error in [log.read(name).await.unwrap_err(), log.create_or_read(name, "new").await.unwrap_err()] {
                assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "NOT_A_FILE"), "{name}: {error}");
                assert!(error.message().contains(words) && error.message().contains("restore"), "{error}");
            }
        }
        assert_eq!(log.read("link").await.unwrap().unwrap(), "x");
        assert_eq!(log.child("5").names().await.unwrap_err().condition(), "NOT_A_FILE");
        assert_eq!(log.create_new("6", "y").await.unwrap(), Created::New);
    }

    #[tokio::test]
    async fn a_file_of_any_size_is_not_read_into_memory() {
        let dir = tempfile::tempdir().unwrap();
        fs::File::create(dir.path().join("0")).unwrap().set_len(1 << 40).unwrap();
        let folder = Storage::new(Durability::PageCache).open(dir.path().to_str().unwrap()).unwrap();
        for error in [folder.read("0").await.unwrap_err(), folder.read_small("0").await.unwrap_err()] {
            assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "FILE_TOO_LARGE"), "{error}");
        }
    }
}
