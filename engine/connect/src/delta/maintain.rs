//! Log checkpoints and log clean-up of a table that a stream appends to.
//!
//! Runs beside the commits. A checkpoint is due after
//! `delta.checkpointInterval` commits (10, as in Spark), but reads the whole
//! state of the table: on large tables it waits until nine tenths of the time
//! would go to other things, at most for ten intervals. Clean-up lists the
//! log folder, so it follows a checkpoint at most once an hour. Both may be
//! done by any writer of the table, any number of times.

use std::time::{Duration, Instant};

use chrono::Utc;
use deltalake_core::checkpoints::cleanup_expired_logs_for;
use tokio::sync::Mutex;
use weir_core::{Error, Result};

use super::location::TableLocation;
use super::state::{TableState, flatten, kernel_snapshot};

const DEFAULT_INTERVAL: u64 = 10;
const DEFAULT_RETENTION: Duration = Duration::from_secs(30 * 24 * 3_600);
const CLEANUP_EVERY: Duration = Duration::from_secs(3_600);

/// The housekeeping of one sink.
pub struct Maintenance {
    location: TableLocation,
    progress: Mutex<Progress>,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    /// Version of the newest checkpoint known.
    checkpoint: Option<u64>,
    /// When the last one ended, and how long it took.
    last: Option<(Instant, Duration)>,
    cleaned: Option<Instant>,
}

/// Whether a checkpoint is due.
fn is_due(commits: u64, interval: u64, last: Option<(Duration, Duration)>) -> bool {
    let affordable = last.is_none_or(|(ago, cost)| ago >= cost * 9);
    commits >= interval && (affordable || commits >= interval.saturating_mul(10))
}

impl Maintenance {
    /// Housekeeping that has done nothing yet.
    pub fn new(location: TableLocation) -> Self {
        Self { location, progress: Mutex::new(Progress::default()) }
    }

    /// Does what is due at the table's version.
    pub async fn run(&self, table: &TableState) -> Result<()> {
        let mut progress = self.progress.lock().await;
        if progress.checkpoint.is_none() {
            progress.checkpoint = Some(self.last_checkpoint().await?.unwrap_or(0));
        }
        let commits = table.version.saturating_sub(progress.checkpoint.unwrap_or(0));
        let last = progress.last.map(|(at, cost)| (at.elapsed(), cost));
        if !is_due(commits, interval(table), last) {
            return Ok(());
        }
        let begun = Instant::now();
        let properties = self.checkpoint(table.version).await?;
        progress.checkpoint = Some(table.version);
        progress.last = Some((Instant::now(), begun.elapsed()));
        let may_clean = progress.cleaned.is_none_or(|at| at.elapsed() >= CLEANUP_EVERY);
        if properties.clean && may_clean {
            self.clean(table.version, properties.retention).await?;
            progress.cleaned = Some(Instant::now());
        }
        Ok(())
    }

    async fn last_checkpoint(&self) -> Result<Option<u64>> {
        #[derive(serde::Deserialize)]
        struct Hint {
            version: u64,
        }
        let hint = self.location.read("_delta_log/_last_checkpoint").await?;
        // The hint is only that: one that cannot be read is as good as none.
        Ok(hint.and_then(|body| serde_json::from_slice::<Hint>(&body).ok()).map(|hint| hint.version))
    }

    async fn checkpoint(&self, version: u64) -> Result<Properties> {
        let snapshot = kernel_snapshot(&self.location, Some(version)).await?;
        let engine = self.location.log_store().engine(None);
        let properties = snapshot.table_properties();
        let found = Properties {
            clean: properties.enable_expired_log_cleanup.unwrap_or(true),
            retention: properties.log_retention_duration.unwrap_or(DEFAULT_RETENTION),
        };
        let written = tokio::task::spawn_blocking(move || snapshot.checkpoint(engine.as_ref(), None).map(|_| ())).await;
        flatten(&self.location, "write a checkpoint of", Some(version), written).await?;
        Ok(found)
    }

    async fn clean(&self, version: u64, retention: Duration) -> Result<()> {
        let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let cutoff = Utc::now().timestamp_millis().saturating_sub(retention);
        let log_store = self.location.log_store();
        cleanup_expired_logs_for(version, log_store.as_ref(), cutoff, None).await.map(|_| ()).map_err(|error| {
            Error::retryable("DELTA_LOG_FAILURE", format!("could not clean the log of {}", self.location.url())).with_source(error)
        })
    }
}

struct Properties {
    clean: bool,
    retention: Duration,
}

fn interval(table: &TableState) -> u64 {
    let set = table.metadata.configuration.get("delta.checkpointInterval");
    set.and_then(|text| text.trim().parse().ok()).filter(|interval| *interval > 0).unwrap_or(DEFAULT_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_waits_until_it_is_affordable() {
        let seconds = Duration::from_secs;
        assert!(!is_due(9, 10, None));
        assert!(is_due(10, 10, None));
        assert!(!is_due(10, 10, Some((seconds(5), seconds(1)))));
        assert!(is_due(10, 10, Some((seconds(9), seconds(1)))));
        assert!(is_due(100, 10, Some((seconds(5), seconds(60)))));
    }
}
