//! The log of a file source: which files make which step of its offset.
//!
//! `sources/<n>/<k>` holds `{"path":uri,"timestamp":ms,"batchId":k}` a line
//! (Spark's `FileStreamSourceLog`); `k` counts up only when files were found.
//! A compaction keeps everything, so a step is always the lines with its id.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use weir_core::checkpoint::FencedLog;
use weir_core::checkpoint::entries::object;
use weir_core::checkpoint::numbered::{HIGHEST, LATEST_MS};
use weir_core::{Error, ErrorClass, Offset, Result};

use super::compactible::{Added, CompactibleLog, LogEntry, Retention, damaged_log};

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
    const IS_SEALED: bool = true;

    fn keep(&self, _retention: &Retention) -> bool {
        true
    }

    /// A step has files, and a compaction has all steps in order.
    fn objection(lines: &[Self], first: u64, id: u64) -> Option<String> {
        let mut next = first;
        for line in lines {
            let is_next = line.batch_id == next;
            let is_more = Some(line.batch_id) == next.checked_sub(1) && next > first;
            if line.batch_id > id || line.batch_id < first {
                return Some(format!("{} names the step {}, which has no place there", line.path, line.batch_id));
            }
            if !is_next && !is_more {
                return Some(format!("its step {next} is missing, or not in order"));
            }
            // One beyond would make all others look too old.
            if !(-LATEST_MS..=LATEST_MS).contains(&line.timestamp) {
                return Some(format!("{} has the timestamp {}, and no file has such a time", line.path, line.timestamp));
            }
            next = line.batch_id + 1;
        }
        (next != id + 1).then(|| format!("it names no file of the step {next}"))
    }
}

#[derive(Deserialize)]
struct LogOffset {
    #[serde(rename = "logOffset")]
    log_offset: u64,
}

/// The step that an offset names; none before the first file.
pub fn step_of(offset: Option<&Offset>) -> Result<Option<u64>> {
    let Some(offset) = offset else { return Ok(None) };
    let parsed: Result<LogOffset, _> = object(offset.json().as_bytes());
    // Spark 1.x wrote bare numbers; Spark still reads them.
    let step = parsed.map(|offset| offset.log_offset).or_else(|_| offset.json().trim().parse());
    step.ok().filter(|step| *step <= HIGHEST).map(Some).ok_or_else(|| {
        Error::incompatible(
            "INVALID_SOURCE_OFFSET",
            format!("the checkpoint holds the offset {offset} where the file source keeps {{\"logOffset\":n}}, a step from 0; restore the checkpoint of this source, or use a new checkpointLocation"),
        )
    })
}

/// The newest step and every file of the log, for a source whose newest planned step is `planned`.
pub async fn known(log: &CompactibleLog<FileEntry>, planned: Option<u64>) -> Result<(Option<u64>, Vec<FileEntry>)> {
    let latest = log.latest().await?;
    if planned > latest {
        return Err(Error::incompatible(
            "MISSING_FILE_LOG",
            format!(
                "a batch was planned up to log entry {} of the file source, but the newest one in {} is {}; restore the folder sources/ of the checkpoint, or use a new checkpointLocation with a new checkpointResetNonce",
                planned.unwrap_or(0),
                log.url(),
                latest.map_or_else(|| "missing".to_owned(), |step| step.to_string())
            ),
        ));
    }
    let entries = match latest {
        Some(latest) => log.all(latest).await?,
        None => Vec::new(),
    };
    if let Some(path) = listed_twice(&entries) {
        return Err(damaged_log(
            log.url().as_str(),
            &format!("it names the file {path} twice with one timestamp, so that its rows would be read twice"),
        ));
    }
    Ok((latest, entries))
}

/// A file that two lines name. One that was written anew has another timestamp.
fn listed_twice(entries: &[FileEntry]) -> Option<&str> {
    let mut seen = HashSet::with_capacity(entries.len());
    entries.iter().find(|entry| !seen.insert((entry.path.as_str(), entry.timestamp))).map(|entry| entry.path.as_str())
}

/// What a run cannot read of the log: `last` is the newest planned offset, `run_again` the one that the planned batch
/// begins with, if that batch is uncommitted.
pub async fn damage(log: FencedLog, last: Option<&Offset>, run_again: Option<Option<&Offset>>) -> Result<Vec<String>> {
    let log = CompactibleLog::<FileEntry>::to_look_at(log).await?;
    let mut found = log.unreadable().await?;
    let looked = async {
        let planned = step_of(last)?;
        known(&log, planned).await?;
        if let (Some(before), Some(to)) = (run_again, planned) {
            steps(&log, step_of(before)?.map_or(0, |step| step + 1), to).await?;
        }
        Ok::<_, Error>(())
    };
    match looked.await {
        Err(error) if error.class() != ErrorClass::Incompatible => return Err(error),
        Err(error) if !found.iter().any(|known| known == error.message()) => found.push(error.message().to_owned()),
        _ => {}
    }
    Ok(found)
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
