//! The entries of a table's log, read one small object at a time.
//!
//! Keeps those of the batch at hand, since planning and reading both want
//! them, and tells an entry that is not there yet from one that is not there
//! any more: below the newest version known it must have been; above it the
//! folder is listed now and then. Judges no entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::{Error, Result};

use super::entry::Commit;
use super::offset::other_table;
use super::options::Loss;
use super::table::SourceTable;
use crate::delta::location::{commit_name, version_of};
use crate::delta::state::{facts_of, kernel_snapshot};

/// Entries kept at most.
const KEPT: usize = 256;
/// How often an idle stream looks whether its log is still the one that it knows.
const LOOK_EVERY_MS: i64 = 10_000;

/// Whether an entry must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It may not have been written yet; the time is that of the question.
    Perhaps(i64),
    /// A batch was planned with it.
    Certainly,
}

/// The log of a table.
#[derive(Debug)]
pub struct CommitLog {
    table: Arc<SourceTable>,
    loss: Loss,
    kept: BTreeMap<u64, Arc<Commit>>,
    newest: u64,
    looked_ms: Option<i64>,
}

impl CommitLog {
    /// The log of a table that was just opened.
    pub fn new(table: Arc<SourceTable>, loss: Loss) -> Self {
        Self { newest: table.version(), table, loss, kept: BTreeMap::new(), looked_ms: None }
    }

    /// The commit of a version; where it is gone and may be, the next one that is there.
    pub async fn commit(&mut self, version: u64, expect: Expect) -> Result<Option<Arc<Commit>>> {
        if let Some(commit) = self.read(version).await? {
            return Ok(Some(commit));
        }
        let next = match expect {
            Expect::Certainly => self.next_behind(version).await?,
            Expect::Perhaps(_) if version <= self.newest => self.next_behind(version).await?,
            Expect::Perhaps(now_ms) if self.looked_ms.is_none_or(|at| now_ms - at >= LOOK_EVERY_MS) => {
                self.looked_ms = Some(now_ms);
                let next = self.next_behind(version).await?;
                if next.is_none() {
                    return Ok(None);
                }
                next
            }
            Expect::Perhaps(_) => return Ok(None),
        };
        // Written between the two looks.
        if let Some(commit) = self.read(version).await? {
            return Ok(Some(commit));
        }
        let lost = lost(&self.table, version, next);
        if self.loss == Loss::Fail {
            return Err(lost);
        }
        tracing::warn!("{lost}; the query goes on, because failOnDataLoss is false");
        match next {
            Some(next) => self.read(next).await,
            None => Ok(None),
        }
    }

    /// The commit of a version, if it is there.
    pub async fn read(&mut self, version: u64) -> Result<Option<Arc<Commit>>> {
        if let Some(commit) = self.kept.get(&version) {
            return Ok(Some(Arc::clone(commit)));
        }
        let name = commit_name(version);
        let Some(body) = self.table.location.read(&name).await? else { return Ok(None) };
        let commit = Arc::new(Commit::parse(version, &name, &body)?);
        self.newest = self.newest.max(version);
        if self.kept.len() < KEPT {
            self.kept.insert(version, Arc::clone(&commit));
        }
        Ok(Some(commit))
    }

    /// Everything below a version was read.
    pub fn forget_below(&mut self, version: u64) {
        self.kept = self.kept.split_off(&version);
    }

    /// The first version behind `version` that the log has; fails where the log is another one or goes less far.
    async fn next_behind(&self, version: u64) -> Result<Option<u64>> {
        let names = self.table.location.log_names().await?;
        let newest = names.iter().filter_map(|name| version_of(name)).max();
        if newest.is_none_or(|newest| newest + 1 < version) {
            return Err(self.why_shorter(version, newest).await);
        }
        Ok(names.iter().filter(|name| name.ends_with(".json")).filter_map(|name| version_of(name)).filter(|v| *v > version).min())
    }

    async fn why_shorter(&self, version: u64, newest: Option<u64>) -> Error {
        let location = &self.table.location;
        let facts = async { facts_of(location, &kernel_snapshot(location, None).await?) };
        match (newest, facts.await) {
            (None, _) => Error::incompatible(
                "DELTA_TABLE_NOT_FOUND",
                format!(
                    "the Delta table {} was deleted while it was read; restore it, or use a new checkpointLocation with a new checkpointResetNonce",
                    location.url()
                ),
            ),
            (_, Ok((metadata, _))) if metadata.id != self.table.id => other_table(location.url().as_str(), &metadata.id, &self.table.id),
            (Some(newest), _) => Error::incompatible(
                "DELTA_VERSION_NOT_FOUND",
                format!(
                    "the stream has read the Delta table {} up to version {}, but its log ends with version {newest}; restore the log, or use a new checkpointLocation with a new checkpointResetNonce",
                    location.url(),
                    version.saturating_sub(1)
                ),
            ),
        }
    }
}

/// Delta's words for versions that are not in the log any more.
fn lost(table: &SourceTable, version: u64, next: Option<u64>) -> Error {
    let earliest = next
        .map_or_else(|| "none is there".to_owned(), |next| format!("the earliest available version in the _delta_log directory is {next}"));
    Error::incompatible(
        "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
        format!(
            "The stream from your Delta table {} was expecting process data from version {version}, but {earliest}. The files in the transaction log may have been deleted due to log cleanup. In order to avoid losing data, we recommend that you restart your stream with a new checkpointLocation and a new checkpointResetNonce, and increase delta.logRetentionDuration. If you would like to ignore the missed data and continue your stream from where it left off, set the option failOnDataLoss to false",
            table.location.url()
        ),
    )
}
