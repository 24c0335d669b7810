//! Symbolic links followed in paths of which the end may not be there yet.
//!
//! The system's own way (`canonicalize`) knows only what is there; a sink's folder is made later, and a link may lead to a
//! folder that is. Looks at names only.

use std::path::{Component, Path, PathBuf};

/// More links than a path has in earnest; the system gives up at this number, too.
const MOST_LINKS: usize = 40;

/// The path without links, as far as it is there; what is not there stays as it is written.
pub fn follow(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Some((real, missing)) = split(&path) else { break };
        let Some(first) = missing.components().next() else { return real };
        // A link that leads to nothing yet.
        let Ok(target) = std::fs::read_link(real.join(first)) else { return plain(&real.join(&missing)) };
        path = real.join(target).join(missing.strip_prefix(first).unwrap_or(Path::new("")));
    }
    path
}

/// The longest beginning that is there, without links, and the rest.
fn split(path: &Path) -> Option<(PathBuf, PathBuf)> {
    path.ancestors().find_map(|there| Some((there.canonicalize().ok()?, path.strip_prefix(there).ok()?.to_owned())))
}

/// Dots that the target of a link brought are taken out.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_whether_their_end_is_there_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/in")).unwrap();
        for (link, target) in [("link", "real"), ("new", "real/in/new"), ("up", "real/../later/x"), ("a", "b"), ("b", "a")] {
            symlink(target, root.join(link)).unwrap();
        }
        for (path, expected) in [
            ("real/in", "real/in"),
            ("link/in", "real/in"),
            ("link/in/out/deep", "real/in/out/deep"),
            ("new", "real/in/new"),
            ("new/part", "real/in/new/part"),
            ("up/y", "later/x/y"),
            ("absent/x", "absent/x"),
        ] {
            assert_eq!(follow(&root.join(path)), root.join(expected), "{path}");
        }
        // A ring has no end, and no harm comes of it.
        follow(&root.join("a/x"));
    }
}
