//! A word of warning when a table is made of many small files.
//!
//! A stream makes at least a file per batch, lane and partition. The sink counts the small ones that it commits; after a
//! thousand of them, at most once an hour, the newest version is looked at whole, beside the commits: OPTIMIZE may have
//! compacted them, or other writers made more.

use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use delta_kernel::engine::arrow_data::EngineDataArrowExt;
use parking_lot::Mutex;
use weir_core::Result;

use super::location::TableLocation;
use super::state::{flatten, kernel_snapshot};
use crate::sink::WrittenFile;

/// Files below this size are small.
const SMALL: u64 = 16 << 20;
/// Small files that are many.
const MANY: u64 = 1_000;
const LOOK_EVERY: Duration = Duration::from_secs(3_600);

/// Small files of one sink.
#[derive(Debug, Default)]
pub struct SmallFiles(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Small files committed since the last look.
    own: u64,
    looked: Option<Instant>,
}

/// The files of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    all: u64,
    small: u64,
}

/// Whether the table is worth a look.
fn is_due(own: u64, since: Option<Duration>) -> bool {
    own >= MANY && since.is_none_or(|since| since >= LOOK_EVERY)
}

impl Count {
    fn add(&mut self, size: u64) {
        self.all += 1;
        self.small += u64::from(size < SMALL);
    }

    fn warning(self, url: &str) -> Option<String> {
        (self.small >= MANY).then(|| {
            format!(
                "{} of the {} files of the Delta table {url} are smaller than {} MiB, which makes reading it slow: run OPTIMIZE on it from time to time (and VACUUM after it), or write fewer and larger files: a longer trigger interval, more per batch (maxFilesPerTrigger, maxOffsetsPerTrigger), fewer partitions",
                self.small,
                self.all,
                SMALL >> 20
            )
        })
    }
}

impl SmallFiles {
    /// Takes a commit's files into account.
    pub fn committed(&self, files: &[WrittenFile]) {
        self.0.lock().own += files.iter().filter(|file| file.size < SMALL).count() as u64;
    }

    /// Looks at the version if that is due, and warns.
    pub async fn look(&self, location: &TableLocation, version: u64) -> Result<()> {
        {
            let mut seen = self.0.lock();
            if !is_due(seen.own, seen.looked.map(|at| at.elapsed())) {
                return Ok(());
            }
            *seen = Seen { own: 0, looked: Some(Instant::now()) };
        }
        if let Some(text) = count(location, version).await?.warning(location.url().as_str()) {
            tracing::warn!(table = %location.url(), version, "{text}");
        }
        Ok(())
    }
}

async fn count(location: &TableLocation, version: u64) -> Result<Count> {
    let snapshot = kernel_snapshot(location, Some(version)).await?;
    let engine = location.log_store().engine(None);
    let counted = tokio::task::spawn_blocking(move || {
        let mut count = Count::default();
        for files in snapshot.scan_builder().build()?.scan_metadata(engine.as_ref())? {
            let batch = files?.scan_files.apply_selection_vector()?.try_into_record_batch()?;
            let sizes = batch.column_by_name("size").and_then(|sizes| sizes.as_primitive_opt::<Int64Type>());
            sizes.into_iter().flatten().flatten().for_each(|size| count.add(size.unsigned_abs()));
        }
        Ok::<_, delta_kernel::Error>(count)
    });
    flatten(location, "list the files of", Some(version), counted.await).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::delta::tests::{Query, kv, storage};

    #[tokio::test]
    async fn the_files_of_a_version_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let query = Query::to(path);
        let sink = query.open(kv(&[]).schema()).await.unwrap();
        for batch in 0..3 {
            query.write(&sink, batch, &[kv(&[("a", 0)])]).await.unwrap();
        }
        let location = TableLocation::in_folder(&storage().open(path).unwrap());
        assert_eq!(count(&location, 2).await.unwrap(), Count { all: 3, small: 3 });
    }

    #[test]
    fn the_table_is_looked_at_rarely_and_the_warning_names_the_remedy() {
        let hour = Duration::from_secs(3_600);
        for (own, since, due) in [(999, None, false), (1_000, None, true), (5_000, Some(hour / 2), false), (1_000, Some(hour), true)] {
            assert_eq!(is_due(own, since), due, "{own} {since:?}");
        }
        let mut count = Count::default();
        (0..1_100).for_each(|file| count.add(if file < 100 { SMALL } else { 1 }));
        let text = count.warning("s3://lake/t").unwrap_or_default();
        assert!(
            text.starts_with("1000 of the 1100 files of the Delta table s3://lake/t are smaller than 16 MiB") && text.contains("OPTIMIZE")
        );
        count.small -= 1;
        assert_eq!(count.warning("t"), None);
    }
}
