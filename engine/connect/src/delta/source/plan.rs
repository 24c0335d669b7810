//! Where a batch ends, and which files lie in it.
//!
//! Delta's admission (`DeltaSource.getFileChanges`, `AdmissionLimits`), as pure
//! steps over versions in order: a file is admitted while anything is left of
//! the limits before it is taken, so a batch has at least one; versions without
//! files cost nothing; behind the last file of a version the offset stands
//! before the next version, and so it does behind a first snapshot.

use std::ops::ControlFlow;

use super::offset::{DeltaOffset, Mark, Stage};

/// How much one batch may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files.
    pub files: u64,
    /// Bytes; the file that goes beyond is still taken.
    pub bytes: u64,
}

/// What is left of the limits.
#[derive(Clone, Copy, Debug)]
struct Budget {
    files: u64,
    bytes: u64,
}

impl Budget {
    fn admit_all(&mut self, sizes: &[u64]) -> bool {
        let has_capacity = self.files > 0 && self.bytes > 0;
        self.files = self.files.saturating_sub(sizes.len() as u64);
        self.bytes = self.bytes.saturating_sub(sizes.iter().sum());
        has_capacity
    }

    fn admit(&mut self, size: u64) -> bool {
        self.admit_all(&[size])
    }
}

/// A way through the versions behind `start`.
#[derive(Debug)]
pub struct Walk {
    start: Mark,
    bound: Option<Mark>,
    budget: Option<Budget>,
    reached: Option<Mark>,
}

impl Walk {
    /// Begins behind `start`; without limits everything up to `bound` is taken.
    pub fn new(start: Mark, bound: Option<Mark>, limits: Option<Limits>) -> Self {
        let budget = limits.map(|limits| Budget { files: limits.files, bytes: limits.bytes });
        Self { start, bound, budget, reached: None }
    }

    /// Whether a version can add nothing, whatever is in it.
    pub fn is_beyond(&self, version: u64) -> bool {
        self.bound.is_some_and(|bound| bound <= Mark::before(version))
    }

    /// Takes a version with the sizes of its files; the batch ends where it breaks.
    pub fn version(&mut self, version: u64, sizes: impl IntoIterator<Item = u64>) -> ControlFlow<()> {
        if version > self.start.version {
            if self.bound.is_some_and(|bound| bound < Mark::before(version)) {
                return ControlFlow::Break(());
            }
            self.reached = Some(Mark::before(version));
        }
        for (file, size) in (0..).zip(sizes) {
            let mark = Mark { version, file: Some(file) };
            if mark <= self.start {
                continue;
            }
            if self.bound.is_some_and(|bound| bound < mark) {
                return ControlFlow::Break(());
            }
            if self.budget.as_mut().is_some_and(|budget| !budget.admit(size)) {
                return ControlFlow::Break(());
            }
            self.reached = Some(mark);
        }
        if self.bound.is_some_and(|bound| bound.version <= version) {
            return ControlFlow::Break(());
        }
        self.reached = Some(Mark::before(version + 1));
        ControlFlow::Continue(())
    }

    /// Takes a version of a change data feed, whole or not at all; behind it the offset stays in the version.
    pub fn changes(&mut self, version: u64, sizes: &[u64]) -> ControlFlow<()> {
        if version > self.start.version {
            if self.bound.is_some_and(|bound| bound < Mark::before(version)) {
                return ControlFlow::Break(());
            }
            self.reached = Some(Mark::before(version));
        }
        let last = (sizes.len() as u64).checked_sub(1).map(|last| Mark { version, file: Some(last) });
        if let Some(mark) = last.filter(|mark| *mark > self.start) {
            if self.bound.is_some_and(|bound| bound < mark) {
                return ControlFlow::Break(());
            }
            if self.budget.as_mut().is_some_and(|budget| !budget.admit_all(sizes)) {
                return ControlFlow::Break(());
            }
            self.reached = Some(mark);
        }
        match self.bound.is_some_and(|bound| bound.version <= version) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Where the batch that began at `start` ends; `start` itself when nothing is new.
    pub fn end(self, start: &DeltaOffset) -> DeltaOffset {
        let mark = self.reached.unwrap_or(start.mark);
        let stage = if mark.version == start.mark.version { start.stage } else { Stage::Log };
        DeltaOffset { table_id: start.table_id.clone(), mark, stage }
    }
}

/// Whether the file `file` of `version` lies behind `start` and not behind `end`.
pub fn lies_between(start: Mark, end: Mark, version: u64, file: u64) -> bool {
    let mark = Mark { version, file: Some(file) };
    start < mark && mark <= end
}

/// The first offset of a batch that Spark planned without saying where it began (`extractStartingState`).
pub fn beginning_of(end: &DeltaOffset) -> DeltaOffset {
    let version = match end.stage {
        Stage::FirstSnapshot => end.mark.version,
        Stage::Log => end.mark.version.saturating_sub(1),
    };
    DeltaOffset { table_id: end.table_id.clone(), mark: Mark::before(version), stage: Stage::FirstSnapshot }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn at(version: u64, file: Option<u64>, stage: Stage) -> DeltaOffset {
        DeltaOffset { table_id: "t".to_owned(), mark: Mark { version, file }, stage }
    }

    /// `log[v]` has the sizes of the files of version v; a first snapshot has `snapshot`.
    fn next(start: &DeltaOffset, bound: Option<Mark>, limits: Option<Limits>, snapshot: &[u64], log: &[Vec<u64>]) -> DeltaOffset {
        let mut walk = Walk::new(start.mark, bound, limits);
        let mut version = start.mark.version;
        if start.stage == Stage::FirstSnapshot {
            if walk.version(version, snapshot.iter().copied()).is_break() {
                return walk.end(start);
            }
            version += 1;
        }
        while let Some(sizes) = log.get(usize::try_from(version).unwrap()).filter(|_| !walk.is_beyond(version)) {
            if walk.version(version, sizes.iter().copied()).is_break() {
                break;
            }
            version += 1;
        }
        walk.end(start)
    }

    const ONE: Option<Limits> = Some(Limits { files: 1, bytes: u64::MAX });

    #[test]
    fn batches_of_the_golden_cases() {
        let log = vec![vec![5], vec![5], vec![5]];
        let begin = at(0, None, Stage::Log);
        let first = next(&begin, None, ONE, &[], &log);
        assert_eq!((first.mark, first.stage), (Mark::before(1), Stage::Log), "s08");
        let all = next(&at(2, None, Stage::FirstSnapshot), None, Some(Limits { files: 1000, bytes: u64::MAX }), &[5, 5, 5], &log);
        assert_eq!(all, at(3, None, Stage::Log), "s01");
        assert_eq!(next(&all, None, ONE, &[], &log), all, "nothing new");
    }

    #[test]
    fn limits_are_soft_and_empty_versions_are_free() {
        let snapshot = at(3, None, Stage::FirstSnapshot);
        let log = vec![vec![]; 4];
        assert_eq!(next(&snapshot, None, ONE, &[9, 9], &log), at(3, Some(0), Stage::FirstSnapshot));
        assert_eq!(next(&at(3, Some(0), Stage::FirstSnapshot), None, ONE, &[9, 9], &log), at(4, None, Stage::Log));
        let log = vec![vec![50, 1], vec![], vec![], vec![7]];
        let bytes = |bytes| Some(Limits { files: u64::MAX, bytes });
        let begin = at(0, None, Stage::Log);
        assert_eq!(next(&begin, None, bytes(10), &[], &log), at(0, Some(0), Stage::Log), "more than the limit, but one file");
        assert_eq!(next(&begin, None, bytes(51), &[], &log), at(3, None, Stage::Log), "empty versions are passed");
        assert_eq!(next(&begin, None, bytes(52), &[], &log), at(4, None, Stage::Log));
    }

    #[test]
    fn versions_of_a_change_feed_are_taken_whole() {
        let log: [&[u64]; 5] = [&[], &[5, 5], &[], &[5, 5, 5], &[]];
        let from = |start: Mark, bound: Option<Mark>, files: u64| {
            let mut walk = Walk::new(start, bound, Some(Limits { files, bytes: u64::MAX }));
            for version in start.version..5 {
                if walk.is_beyond(version) || walk.changes(version, log[usize::try_from(version).unwrap()]).is_break() {
                    break;
                }
            }
            walk.end(&at(start.version, start.file, Stage::Log)).mark
        };
        let mark = |version, file| Mark { version, file: Some(file) };
        assert_eq!(from(Mark::before(0), None, 1), Mark::before(3), "one version beyond the limit, and what is free");
        assert_eq!(from(Mark::before(0), None, 3), Mark::before(4), "some is left, so the next version is taken whole");
        assert_eq!(from(mark(1, 1), Some(mark(3, 2)), 9), mark(3, 2));
        assert_eq!(from(mark(3, 2), Some(mark(3, 2)), 9), mark(3, 2), "nothing is new");
    }

    #[test]
    fn a_bound_is_not_crossed() {
        let log = vec![vec![1, 1], vec![1], vec![1]];
        let begin = at(0, None, Stage::Log);
        assert_eq!(next(&begin, Some(Mark::before(1)), None, &[], &log), at(1, None, Stage::Log));
        assert_eq!(next(&begin, Some(Mark { version: 0, file: Some(0) }), None, &[], &log), at(0, Some(0), Stage::Log));
        assert_eq!(next(&at(1, None, Stage::Log), Some(Mark::before(1)), None, &[], &log), at(1, None, Stage::Log));
    }

    proptest! {
        #[test]
        fn batches_follow_on_each_other_and_take_every_file_once(
            snapshot in proptest::collection::vec(0u64..9, 0..6),
            log in proptest::collection::vec(proptest::collection::vec(0u64..9, 0..4), 0..6),
            files in 1u64..4, bytes in 1u64..12,
        ) {
            // Version 0 is the snapshot's; the log goes on from 1.
            let log: Vec<Vec<u64>> = std::iter::once(Vec::new()).chain(log).collect();
            let limits = Some(Limits { files, bytes });
            let begin = at(0, None, Stage::FirstSnapshot);
            let whole = next(&begin, None, None, &snapshot, &log);
            prop_assert_eq!(whole.mark, Mark::before(log.len() as u64));
            let mut start = begin.clone();
            let mut taken = Vec::new();
            for _ in 0..100 {
                let end = next(&start, Some(whole.mark), limits, &snapshot, &log);
                if end == start {
                    break;
                }
                prop_assert!(start.mark < end.mark);
                let mut batch = 0;
                for (version, sizes) in std::iter::once(&snapshot).chain(&log[1..]).enumerate() {
                    for file in 0..sizes.len() as u64 {
                        if lies_between(start.mark, end.mark, version as u64, file) {
                            taken.push((version as u64, file));
                            batch += 1;
                        }
                    }
                }
                prop_assert!(batch <= files);
                start = end;
            }
            prop_assert_eq!(start, whole);
            let every: Vec<(u64, u64)> = std::iter::once(&snapshot)
                .chain(&log[1..])
                .enumerate()
                .flat_map(|(version, sizes)| (0..sizes.len() as u64).map(move |file| (version as u64, file)))
                .collect();
            prop_assert_eq!(taken, every);
        }
    }
}
