//! The log of a file source: which files make which step of its offset.
//!
//! `sources/<n>/<k>` holds `{"path":uri,"timestamp":ms,"batchId":k}` a line
//! (Spark's `FileStreamSourceLog`); `k` counts up only when files were found.
//! A compaction keeps everything, so a step is always the lines with its id.

use serde::{Deserialize, Serialize};
use weir_core::{Error, Result};

use super::compactible::{Added, CompactibleLog, LogEntry, Retention};

/// One file of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileEntry {
    /// The file as Java spells it.
    pub path: String,
    /// Modification time in milliseconds.
    pub timestamp: i64,
    /// The step.
    pub batch_id: u64,
}

impl LogEntry for FileEntry {
    fn keep(&self, _retention: &Retention) -> bool {
        true
    }
}

/// The files of the steps `from..=to`, in order.
pub async fn steps(log: &CompactibleLog<FileEntry>, from: u64, to: u64) -> Result<Vec<FileEntry>> {
    let mut entries = Vec::new();
    let mut missing = Vec::new();
    for id in from..=to {
        match log.file(id).await? {
            Some(file) => entries.extend(file.into_iter().filter(|entry| entry.batch_id == id)),
            None => missing.push(id),
        }
    }
    if missing.is_empty() {
        return Ok(entries);
    }
    // The files of old steps may be gone; a later compaction still has their lines.
    let latest = log.latest().await?.unwrap_or(0);
    let known = if latest > to { log.all(latest).await? } else { Vec::new() };
    let found: Vec<FileEntry> = known.into_iter().filter(|entry| missing.contains(&entry.batch_id)).collect();
    if let Some(lost) = missing.iter().find(|id| !found.iter().any(|entry| entry.batch_id == **id)) {
        return Err(Error::incompatible(
            "MISSING_FILE_LOG",
            format!(
                "the file source's log has no entry {lost} although a batch was planned with it; restore the folder sources/ of the checkpoint, or use a new checkpointLocation with a new checkpointResetNonce"
            ),
        ));
    }
    entries.extend(found);
    entries.sort_by_key(|entry| entry.batch_id);
    Ok(entries)
}

/// Adds step `id`; the files that count afterwards.
pub async fn add(log: &CompactibleLog<FileEntry>, id: u64, entries: Vec<FileEntry>) -> Result<Vec<FileEntry>> {
    match log.add(id, entries.clone(), &Retention::default()).await? {
        Added::New => Ok(entries),
        Added::Stored(stored) => Ok(stored.into_iter().filter(|entry| entry.batch_id == id).collect()),
    }
}
