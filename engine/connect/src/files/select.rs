//! Which of the new files make the next batch, and which are kept for later.
//!
//! Pure decisions of Spark's `FileStreamSource.fetchMaxOffset`: the limit, at
//! least one file under `maxBytesPerTrigger`, the cached remainder that is
//! thrown away when it is too small, so that a batch is not starved while new
//! files wait.

use super::listing::FoundFile;

/// The limit of one trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// All files.
    All,
    /// `maxFilesPerTrigger`.
    Files(u64),
    /// `maxBytesPerTrigger`.
    Bytes(u64),
}

/// What may be kept of a listing for the next triggers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caching {
    /// `maxCachedFiles`; 0 keeps nothing.
    pub max_files: usize,
    /// `discardCachedInputRatio`.
    pub discard_ratio: f64,
}

/// The outcome of a selection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selected {
    /// Files of the batch.
    pub batch: Vec<FoundFile>,
    /// Files to go on with before listing again.
    pub cached: Vec<FoundFile>,
    /// New files that are not in the batch.
    pub left_files: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// Modification time of the oldest of them.
    pub left_oldest_ms: Option<i64>,
}

/// Splits new files, which are in reading order.
pub fn select(mut files: Vec<FoundFile>, limit: Limit, caching: Option<Caching>) -> Selected {
    let taken = match limit {
        Limit::All => files.len(),
        Limit::Files(most) => files.len().min(usize::try_from(most).unwrap_or(usize::MAX)),
        Limit::Bytes(most) => within_bytes(&files, most),
    };
    let mut rest = files.split_off(taken);
    let left_files = rest.len() as u64;
    let left_bytes: u64 = rest.iter().map(|file| file.size).sum();
    let left_oldest_ms = rest.iter().map(|file| file.modified_ms).min();
    let big_enough = |caching: &Caching| match limit {
        Limit::All => false,
        Limit::Files(most) => left_files as f64 >= most as f64 * caching.discard_ratio,
        Limit::Bytes(most) => left_bytes as f64 >= most as f64 * caching.discard_ratio,
    };
    match caching.filter(big_enough) {
        Some(caching) => rest.truncate(caching.max_files),
        None => rest.clear(),
    }
    Selected { batch: files, cached: rest, left_files, left_bytes, left_oldest_ms }
}

fn within_bytes(files: &[FoundFile], most: u64) -> usize {
    let mut sum = 0u64;
    let mut taken = 0;
    for file in files {
        sum = sum.saturating_add(file.size);
        if taken > 0 && sum > most {
            break;
        }
        taken += 1;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::path::Path;
    use proptest::prelude::*;

    fn files(sizes: &[u64]) -> Vec<FoundFile> {
        let file = |(at, size): (usize, &u64)| FoundFile {
            uri: format!("file:///{at}"),
            path: Path::from(at.to_string()),
            size: *size,
            modified_ms: at as i64,
            root_depth: 0,
        };
        sizes.iter().enumerate().map(file).collect()
    }

    #[test]
    fn bytes_take_at_least_one_file() {
        let selected = select(files(&[50, 1, 1]), Limit::Bytes(10), None);
        assert_eq!((selected.batch.len(), selected.left_files, selected.left_bytes), (1, 2, 2));
        assert_eq!(select(files(&[5, 5, 1]), Limit::Bytes(10), None).batch.len(), 2);
    }

    #[test]
    fn a_small_remainder_is_thrown_away() {
        let caching = Some(Caching { max_files: 100, discard_ratio: 0.2 });
        assert_eq!(select(files(&[1; 11]), Limit::Files(10), caching).cached.len(), 0);
        assert_eq!(select(files(&[1; 12]), Limit::Files(10), caching).cached.len(), 2);
        let caching = Some(Caching { max_files: 3, discard_ratio: 0.2 });
        let selected = select(files(&[1; 30]), Limit::Files(10), caching);
        assert_eq!((selected.cached.len(), selected.left_files), (3, 20));
        assert!(select(files(&[1; 30]), Limit::Files(10), None).cached.is_empty());
    }

    proptest! {
        #[test]
        fn order_is_kept_and_nothing_is_lost(sizes in proptest::collection::vec(0u64..20, 0..40), most in 1u64..50) {
            for limit in [Limit::All, Limit::Files(most), Limit::Bytes(most)] {
                let caching = Some(Caching { max_files: usize::MAX, discard_ratio: 0.0 });
                let selected = select(files(&sizes), limit, caching);
                let mut all = selected.batch.clone();
                all.extend(selected.cached.clone());
                if limit != Limit::All || selected.left_files == 0 {
                    prop_assert_eq!(&all, &files(&sizes));
                }
                prop_assert!(sizes.is_empty() || !selected.batch.is_empty());
            }
        }
    }
}
