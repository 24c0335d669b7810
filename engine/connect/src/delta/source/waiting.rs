//! What lies unread behind an offset: files, bytes, and how old they are.
//!
//! Sizes by version, filled as the log is read and, where the stream is far
//! behind, some versions further with each batch; until the end of the log was
//! seen the figures are of what was seen so far. Sums only.

use std::collections::BTreeMap;

use super::entry::{Commit, DataFile};
use super::offset::{DeltaOffset, Mark, Stage};

/// Files that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// How many.
    pub files: u64,
    /// Their sizes.
    pub bytes: u64,
    /// When the oldest was committed, milliseconds since the epoch.
    pub oldest_ms: Option<i64>,
}

impl Outstanding {
    fn add(&mut self, sizes: &[u64], time_ms: Option<i64>) {
        if !sizes.is_empty() {
            self.files += sizes.len() as u64;
            self.bytes += sizes.iter().sum::<u64>();
            self.oldest_ms = self.oldest_ms.into_iter().chain(time_ms).min();
        }
    }
}

#[derive(Clone, Debug)]
struct Sizes {
    files: Vec<u64>,
    time_ms: Option<i64>,
}

/// The sizes of what the log holds.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    versions: BTreeMap<u64, Sizes>,
}

impl Waiting {
    /// Notes a commit's files.
    pub fn note(&mut self, commit: &Commit, readable: &[DataFile]) {
        let files = readable.iter().map(|file| file.size).collect();
        let time_ms = commit.time_ms.or_else(|| readable.iter().map(|file| file.modified_ms).min());
        self.versions.insert(commit.version, Sizes { files, time_ms });
    }

    /// The first version behind `from` that was not noted.
    pub fn next_behind(&self, from: u64) -> u64 {
        self.versions.last_key_value().map_or(from, |(version, _)| from.max(version + 1))
    }

    /// Everything before a mark was read.
    pub fn forget_before(&mut self, mark: Mark) {
        self.versions = self.versions.split_off(&mark.version);
    }

    /// What is behind `offset`; `snapshot` has the files of its version where it stands in a first snapshot.
    pub fn behind(&self, offset: &DeltaOffset, snapshot: &[DataFile]) -> Outstanding {
        let mut sum = Outstanding::default();
        let taken = offset.mark.file.map_or(0, |file| usize::try_from(file).unwrap_or(usize::MAX).saturating_add(1));
        let first = match offset.stage {
            Stage::FirstSnapshot => {
                let left = snapshot.get(taken..).unwrap_or_default();
                let sizes: Vec<u64> = left.iter().map(|file| file.size).collect();
                sum.add(&sizes, left.first().map(|file| file.modified_ms));
                offset.mark.version + 1
            }
            Stage::Log => offset.mark.version,
        };
        for (version, sizes) in self.versions.range(first..) {
            let taken = if *version == offset.mark.version { taken } else { 0 };
            sum.add(sizes.files.get(taken..).unwrap_or_default(), sizes.time_ms);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::delta::source::entry::FileFacts;

    fn file(size: u64, modified_ms: i64) -> DataFile {
        let facts = FileFacts::Logged { partition_values: BTreeMap::new(), deletion_vector: None };
        DataFile { path: String::new(), size, modified_ms, facts }
    }

    #[test]
    fn what_is_behind_an_offset_is_summed() {
        let mut waiting = Waiting::default();
        for (version, sizes) in [(3, vec![10, 20]), (4, vec![]), (5, vec![7])] {
            let mut commit = Commit::parse(version, "", b"{}").unwrap();
            commit.time_ms = Some(100 * i64::try_from(version).unwrap());
            waiting.note(&commit, &sizes.into_iter().map(|size| file(size, 0)).collect::<Vec<_>>());
        }
        let at = |version, file, stage| DeltaOffset { table_id: String::new(), mark: Mark { version, file }, stage };
        let sums = |offset: &DeltaOffset, snapshot: &[DataFile]| {
            let sum = waiting.behind(offset, snapshot);
            (sum.files, sum.bytes, sum.oldest_ms)
        };
        assert_eq!(sums(&at(3, None, Stage::Log), &[]), (3, 37, Some(300)));
        assert_eq!(sums(&at(3, Some(0), Stage::Log), &[]), (2, 27, Some(300)));
        assert_eq!(sums(&at(4, None, Stage::Log), &[]), (1, 7, Some(500)));
        assert_eq!(sums(&at(6, None, Stage::Log), &[]), (0, 0, None));
        let snapshot = [file(1, 11), file(2, 12)];
        assert_eq!(sums(&at(2, None, Stage::FirstSnapshot), &snapshot), (5, 40, Some(11)));
        assert_eq!(sums(&at(2, Some(0), Stage::FirstSnapshot), &snapshot), (4, 39, Some(12)));
        assert_eq!((waiting.next_behind(2), waiting.next_behind(9)), (6, 9));
    }
}
