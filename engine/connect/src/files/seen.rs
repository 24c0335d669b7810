//! Which files were taken already, and which are too old to look at.
//!
//! A file is new when its key is unknown and its time is not before the
//! threshold of the last purge. The threshold is the newest time seen minus
//! `maxFileAge` and moves only with purges, so nothing is missed between two
//! of them (Spark's `FileStreamSource.SeenFilesMap`).

use std::collections::HashMap;

/// The identity of a file: its URI, or its last segment under `fileNameOnly`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The whole URI.
    Uri,
    /// The last segment.
    FileName,
}

/// The files taken so far.
#[derive(Clone, Debug)]
pub struct SeenFiles {
    identity: Identity,
    max_age_ms: i64,
    times: HashMap<Box<str>, i64>,
    newest_ms: i64,
    threshold_ms: i64,
}

impl SeenFiles {
    /// Nothing seen.
    pub fn new(identity: Identity, max_age_ms: i64) -> Self {
        Self { identity, max_age_ms, times: HashMap::new(), newest_ms: 0, threshold_ms: 0 }
    }

    fn key<'a>(&self, uri: &'a str) -> &'a str {
        match self.identity {
            Identity::Uri => uri,
            Identity::FileName => uri.rsplit('/').next().unwrap_or(uri),
        }
    }

    /// Records a file.
    pub fn add(&mut self, uri: &str, time_ms: i64) {
        self.times.insert(self.key(uri).into(), time_ms);
        self.newest_ms = self.newest_ms.max(time_ms);
    }

    /// Forgets a file that was not taken after all.
    pub fn remove(&mut self, uri: &str) {
        let key = self.key(uri).to_owned();
        self.times.remove(key.as_str());
    }

    /// Whether a file was taken.
    pub fn has(&self, uri: &str) -> bool {
        self.times.contains_key(self.key(uri))
    }

    /// Whether a file should be read.
    pub fn is_new(&self, uri: &str, time_ms: i64) -> bool {
        time_ms >= self.threshold_ms && !self.has(uri)
    }

    /// Forgets what is older than the threshold, which moves up.
    pub fn purge(&mut self) {
        let threshold = self.newest_ms.saturating_sub(self.max_age_ms);
        if threshold != self.threshold_ms {
            self.threshold_ms = threshold;
            self.times.retain(|_, time| *time >= threshold);
        }
    }

    /// Files remembered.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn age_counts_from_the_newest_file_seen() {
        let mut seen = SeenFiles::new(Identity::Uri, 10);
        assert!(seen.is_new("file:///a", 1));
        seen.add("file:///a", 5);
        assert!(!seen.is_new("file:///a", 5));
        seen.add("file:///b", 15);
        // The threshold moves with the purge, not before.
        assert!(seen.is_new("file:///c", 4));
        seen.purge();
        assert!(!seen.is_new("file:///c", 4));
        assert!(seen.is_new("file:///c", 5));
        assert_eq!(seen.len(), 2);
        seen.add("file:///d", 16);
        seen.purge();
        assert_eq!(seen.len(), 2);
        assert!(!seen.is_new("file:///a", 5));
    }

    #[test]
    fn names_alone_can_be_the_identity() {
        let mut seen = SeenFiles::new(Identity::FileName, i64::MAX);
        seen.add("file:///x/a.json", 1);
        assert!(!seen.is_new("file:///y/a.json", 1));
        assert!(seen.is_new("file:///y/b.json", 1));
    }

    proptest! {
        #[test]
        fn nothing_is_new_twice(files in proptest::collection::vec((0u8..20, 0i64..100), 0..60), age in 0i64..120) {
            let mut seen = SeenFiles::new(Identity::Uri, age);
            let mut taken = std::collections::HashSet::new();
            for (name, _) in files {
                // A file keeps its time: derive it from the name.
                let (uri, time) = (format!("file:///{name}"), i64::from(name) * 5);
                if seen.is_new(&uri, time) {
                    prop_assert!(taken.insert(uri.clone()));
                    seen.add(&uri, time);
                }
                seen.purge();
            }
        }
    }
}
