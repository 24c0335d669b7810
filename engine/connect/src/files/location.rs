//! A path of a manifest that may be a glob, split into folder and pattern.
//!
//! Hadoop's rules: a path is a glob when it holds one of `{ } [ ] * ? \`; no
//! wildcard crosses a slash, so a pattern matches paths of exactly its own
//! depth. What matches is a root: a file, or a folder whose files are read.
//! Object stores have no folders, so roots are recognised in the paths of files.

use globset::{GlobBuilder, GlobMatcher};
use object_store::path::Path;
use weir_core::storage::{Folder, Storage};
use weir_core::{Error, Result};

use super::uri::UriSpelling;

/// A path of a manifest, split at its first wildcard.
#[derive(Clone, Debug)]
pub struct SplitPath {
    text: String,
    fixed: String,
    pattern: Option<Pattern>,
}

/// Where files are read from.
#[derive(Clone, Debug)]
pub struct Location {
    split: SplitPath,
    folder: Folder,
    spelling: UriSpelling,
}

#[derive(Clone, Debug)]
struct Pattern {
    components: Vec<GlobMatcher>,
    text: String,
}

/// Whether Hadoop takes the text for a glob.
pub fn is_glob(text: &str) -> bool {
    text.contains(['{', '}', '[', ']', '*', '?', '\\'])
}

impl SplitPath {
    /// Splits a path; nothing is opened.
    pub fn new(text: &str) -> Result<Self> {
        let components: Vec<&str> = text.trim().split('/').collect();
        let first_glob = components.iter().position(|component| is_glob(component));
        let fixed = first_glob.map_or_else(|| text.trim().to_owned(), |at| components[..at].join("/"));
        let fixed = match (fixed.is_empty(), text.starts_with('/')) {
            (true, true) => "/".to_owned(),
            (true, false) if first_glob.is_some() => ".".to_owned(),
            _ => fixed,
        };
        let pattern = match first_glob {
            None => None,
            Some(at) => {
                let wild: Vec<&str> = components[at..].iter().copied().filter(|part| !part.is_empty()).collect();
                let matchers = wild.iter().map(|part| glob(part)).collect::<Result<Vec<_>>>()?;
                Some(Pattern { components: matchers, text: wild.join("/") })
            }
        };
        Ok(Self { text: text.trim().to_owned(), fixed, pattern })
    }

    /// The folder before the first wildcard, as it is written.
    pub fn folder(&self) -> &str {
        &self.fixed
    }

    /// How many of the components below the folder belong to a root; `None` when they are below none.
    pub fn root_below<T: AsRef<str>>(&self, mut below: impl Iterator<Item = T>) -> Option<usize> {
        let Some(pattern) = &self.pattern else { return Some(0) };
        let matches = pattern.components.iter().all(|matcher| below.next().is_some_and(|part| matcher.is_match(part.as_ref())));
        matches.then_some(pattern.components.len())
    }
}

impl Location {
    /// Splits and opens a path; nothing is read.
    pub fn new(text: &str, storage: &Storage) -> Result<Self> {
        let split = SplitPath::new(text)?;
        let folder = storage.open(split.folder())?;
        Ok(Self { split, spelling: UriSpelling::of(&folder), folder })
    }

    /// The folder before the first wildcard.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// How the files are spelled in logs.
    pub fn spelling(&self) -> &UriSpelling {
        &self.spelling
    }

    /// The path as the manifest has it.
    pub fn text(&self) -> &str {
        &self.split.text
    }

    /// Whether there are wildcards.
    pub fn is_pattern(&self) -> bool {
        self.split.pattern.is_some()
    }

    /// The path as Spark's description of the source has it.
    pub fn qualified(&self) -> String {
        let fixed = self.folder.prefix().as_ref();
        match &self.split.pattern {
            None => self.spelling.hadoop(fixed),
            Some(pattern) if fixed.is_empty() => self.spelling.hadoop(&pattern.text),
            Some(pattern) => self.spelling.hadoop(&format!("{fixed}/{}", pattern.text)),
        }
    }

    /// The components of the path, wildcards included.
    pub fn components(&self) -> Vec<String> {
        let fixed = self.folder.prefix().as_ref().split('/').filter(|part| !part.is_empty());
        let wild = self.split.pattern.iter().flat_map(|pattern| pattern.text.split('/'));
        fixed.chain(wild).map(str::to_owned).collect()
    }

    /// The number of components that belong to the root of `path`; `None` when
    /// the path is not below a root.
    pub fn root_depth(&self, path: &Path) -> Option<usize> {
        let prefix = self.folder.prefix();
        Some(prefix.parts_count() + self.split.root_below(path.prefix_match(prefix)?)?)
    }
}

/// One component of a Hadoop glob.
pub fn glob(pattern: &str) -> Result<GlobMatcher> {
    let built = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).empty_alternates(true).build();
    built.map(|glob| glob.compile_matcher()).map_err(|e| {
        Error::config("INVALID_GLOB", format!("the pattern '{pattern}' is not a valid glob: {}; correct the option path", e.kind()))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::storage;

    fn depth(pattern: &str, path: &str) -> Option<usize> {
        Location::new(pattern, &storage()).unwrap().root_depth(&Path::parse(path).unwrap())
    }

    #[test]
    fn a_pattern_matches_its_own_depth_only() {
        assert_eq!(depth("/in", "in/a/b.json"), Some(1));
        assert_eq!(depth("/in/a.json", "in/a.json"), Some(2));
        assert_eq!(depth("/in/*.json", "in/a.json"), Some(2));
        assert_eq!(depth("/in/*.json", "in/x/a.json"), None);
        assert_eq!(depth("/in/*", "in/x/a.json"), Some(2));
        assert_eq!(depth("/in/d{1,2}/[ab]*/", "in/d2/b7/x"), Some(3));
        assert_eq!(depth("/in/d{1,2}/[^ab]*/", "in/d2/b7/x"), None);
        assert_eq!(depth("/other", "in/a"), None);
    }

    #[test]
    fn qualified_paths_are_hadoops() {
        let qualified = |text: &str| Location::new(text, &storage()).unwrap().qualified();
        assert_eq!(qualified("/data/in/"), "file:/data/in");
        assert_eq!(qualified("/data/*/x?.json"), "file:/data/*/x?.json");
        assert_eq!(qualified("file:///data/in"), "file:/data/in");
    }
}
