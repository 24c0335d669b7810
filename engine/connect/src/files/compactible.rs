//! The log format that a file source and a file sink share.
//!
//! Entry `k` is the file `k`: a line `v1`, then one JSON object a line. Every
//! `interval` entries the file is `k.compact` and holds everything before it
//! too, so that older files may go after a delay (Spark's
//! `CompactibleFileStreamLog`). Entries are created under the fence and never
//! change. The interval of an existing log wins over the setting as far as
//! Spark lets it.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_core::checkpoint::checksum;
use weir_core::checkpoint::entries::object;
use weir_core::checkpoint::numbered::{self, COMPACT, Naming, Numbered};
use weir_core::checkpoint::{Appended, FencedLog};
use weir_core::{Error, ErrorClass, Result};
use weir_crds::duration::{TimeUnit, parse_time_string};

const SUFFIX: &str = COMPACT;
/// How much of a damaged text is told.
const SHOWN: usize = 40;

/// What one line of such a log is.
pub trait LogEntry: Serialize + DeserializeOwned + Clone + Send + Sync {
    /// Whether a file of the log carries a checksum.
    const IS_SEALED: bool;

    /// Whether a compaction keeps the entry.
    fn keep(&self, retention: &Retention) -> bool;

    /// What is wrong with the lines of the file of entry `id`, which begins with the entry `first`.
    fn objection(_lines: &[Self], _first: u64, _id: u64) -> Option<String> {
        None
    }
}

/// How old an entry may be, at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Entries before this time go; none when absent.
    pub oldest_ms: Option<i64>,
}

/// Settings of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Entries between two compactions.
    pub compact_interval: u64,
    /// Whether old files are deleted.
    pub deletion: bool,
    /// How long old files stay.
    pub cleanup_delay_ms: i64,
    /// Batches that must stay recoverable.
    pub min_batches: u64,
}

impl LogSettings {
    /// The settings under `spark.sql.streaming.<which>.log.*`.
    pub fn from_conf(conf: &BTreeMap<String, String>, which: &str) -> Result<Self> {
        let get = |name: &str| conf.get(&format!("spark.sql.streaming.{which}.log.{name}")).map(String::as_str);
        let bad = |name: &str, value: &str, allowed: &str| {
            Error::config(
                "INVALID_CONF_VALUE",
                format!("the setting spark.sql.streaming.{which}.log.{name} is '{value}'; it must be {allowed}"),
            )
        };
        let interval = get("compactInterval").unwrap_or("10");
        let compact_interval = interval.trim().parse().ok().filter(|n| *n > 0);
        let delay = get("cleanupDelay").unwrap_or("10min");
        let cleanup = parse_time_string(delay, TimeUnit::Milliseconds).map_err(|e| bad("cleanupDelay", delay, &e))?;
        let deletion = get("deletion").unwrap_or("true");
        let batches = conf.get("spark.sql.streaming.minBatchesToRetain").map_or("100", String::as_str);
        Ok(Self {
            compact_interval: compact_interval.ok_or_else(|| bad("compactInterval", interval, "a whole number above 0"))?,
            deletion: deletion.trim().to_ascii_lowercase().parse().map_err(|_| bad("deletion", deletion, "true or false"))?,
            cleanup_delay_ms: i64::try_from(cleanup.as_millis()).unwrap_or(i64::MAX),
            min_batches: batches.trim().parse().map_err(|_| {
                Error::config(
                    "INVALID_CONF_VALUE",
                    format!("the setting spark.sql.streaming.minBatchesToRetain is '{batches}'; it must be a whole number"),
                )
            })?,
        })
    }
}

/// The id in the name of a log file.
pub fn id_of(name: &str) -> Option<u64> {
    numbered::id_of(name, Naming::Compactible)
}

/// Whether entry `id` is a compaction.
pub fn is_compaction(id: u64, interval: u64) -> bool {
    (id + 1).is_multiple_of(interval)
}

/// The file name of entry `id`.
pub fn name_of(id: u64, interval: u64) -> String {
    if is_compaction(id, interval) { format!("{id}{SUFFIX}") } else { id.to_string() }
}

/// The interval to go on with, given the compactions that exist.
pub fn interval_for(names: &[String], default: u64) -> u64 {
    let mut compactions: Vec<u64> = names.iter().filter(|name| name.ends_with(SUFFIX)).filter_map(|name| id_of(name)).collect();
    compactions.sort_unstable();
    match compactions.as_slice() {
        [] => default,
        [only] => {
            // The smallest divisor that is not below the default keeps the existing file a compaction.
            let count = only + 1;
            if count <= default {
                return count;
            }
            let divisors =
                (1..=count.isqrt()).filter(|divisor| count.is_multiple_of(*divisor)).flat_map(|divisor| [divisor, count / divisor]);
            divisors.filter(|divisor| (default..=count / 2).contains(divisor)).min().unwrap_or(count)
        }
        [.., previous, latest] => latest - previous,
    }
}

/// The interval of a log whose writer's setting is not known: `usual` where its names fit, else the one that they tell.
pub fn interval_of(names: &[String], usual: u64) -> u64 {
    let plain = || names.iter().filter(|name| !name.ends_with(SUFFIX)).filter_map(|name| id_of(name));
    let fitting = interval_for(names, usual);
    if plain().any(|id| is_compaction(id, fitting)) {
        // Longer than the log: one compaction is then the first, none is none yet.
        return interval_for(names, names.iter().filter_map(|name| id_of(name)).max().unwrap_or(0) + 2);
    }
    fitting
}

/// Everything that the file of entry `id` holds.
pub fn render<E: LogEntry>(id: u64, entries: &[E]) -> Result<String> {
    let mut text = String::from("v1");
    for entry in entries {
        text.push('\n');
        text.push_str(&serde_json::to_string(entry).map_err(|e| Error::config("INTERNAL_ERROR", format!("cannot write a log line: {e}")))?);
    }
    // The first entry carries it, so that a file that was cut off is told too.
    Ok(if E::IS_SEALED { checksum::seal(id, &text, 1) } else { text })
}

/// The error of a damaged file of a log.
pub fn damaged_log(name: &str, why: &str) -> Error {
    Error::incompatible(
        "DAMAGED_FILE_LOG",
        format!(
            "the log file {name} is damaged: {why}; restore it from a backup, or use a new checkpointLocation with a new checkpointResetNonce"
        ),
    )
}

/// Reads an entry's file, whose name is `name`.
pub fn parse<E: LogEntry>(body: &[u8], name: &str) -> Result<Vec<E>> {
    let damaged = |why: String| damaged_log(name, &why);
    let text = std::str::from_utf8(body).map_err(|e| damaged(e.to_string()))?;
    let id = name.rsplit('/').next().and_then(id_of).unwrap_or_default();
    let (text, _) = checksum::open(id, text).map_err(|why| damaged(why.to_owned()))?;
    let mut lines = text.lines();
    match lines.next() {
        None => return Err(damaged("it is empty".to_owned())),
        Some("v1") => {}
        Some(version) => {
            let newer = version.strip_prefix('v').and_then(|digits| digits.parse::<u64>().ok()).is_some_and(|n| n > 1);
            let why = if newer {
                format!("its version is {version}, this build reads v1")
            } else {
                format!("it begins with '{}' instead of v1", version.chars().take(SHOWN).collect::<String>())
            };
            return Err(damaged(why));
        }
    }
    let parse_line = |(at, line): (usize, &str)| object(line.as_bytes()).map_err(|e| damaged(format!("line {}: {e}", at + 2)));
    lines.enumerate().filter(|(_, line)| !line.is_empty()).map(parse_line).collect()
}

/// The entry that counts after an addition.
#[derive(Clone, Debug, PartialEq)]
pub enum Added<E> {
    /// Ours.
    New,
    /// One that was there before; all lines of its file.
    Stored(Vec<E>),
}

/// A log of lists of files.
#[derive(Clone, Debug)]
pub struct CompactibleLog<E> {
    log: FencedLog,
    settings: LogSettings,
    interval: u64,
    entry: PhantomData<E>,
}

impl<E: LogEntry> CompactibleLog<E> {
    /// Opens a log and settles its interval.
    pub async fn open(log: FencedLog, settings: LogSettings) -> Result<Self> {
        let found = numbered::files(log.folder(), Naming::Compactible).await?;
        let interval = interval_for(&found.names, settings.compact_interval);
        Ok(Self { log, settings, interval, entry: PhantomData })
    }

    /// Opens a log that somebody else writes, under the interval that its names tell of.
    pub async fn to_look_at(log: FencedLog) -> Result<Self> {
        let settings = LogSettings::from_conf(&BTreeMap::new(), "")?;
        let interval = interval_of(&log.names().await?, settings.compact_interval);
        Ok(Self { log, settings, interval, entry: PhantomData })
    }

    /// The files that cannot be read, a sentence each.
    pub async fn unreadable(&self) -> Result<Vec<String>> {
        let Numbered { names, strange: mut found, .. } = numbered::look(self.log.folder(), Naming::Compactible).await?;
        for name in names {
            let Some(id) = id_of(&name) else { continue };
            let read = self.log.read(&name).await.and_then(|body| self.checked(id, &name, &body.unwrap_or_default()));
            match read {
                Err(error) if error.class() == ErrorClass::Incompatible => found.push(error.message().to_owned()),
                read => drop(read?),
            }
        }
        Ok(found)
    }

    /// Where the log is.
    pub fn url(&self) -> &url::Url {
        self.log.folder().url()
    }

    /// The id of the newest entry.
    pub async fn latest(&self) -> Result<Option<u64>> {
        Ok(self.log.names().await?.iter().filter_map(|name| id_of(name)).max())
    }

    fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.log.folder().url())
    }

    /// All lines of the file of entry `id`; a compaction holds earlier ones too.
    pub async fn file(&self, id: u64) -> Result<Option<Vec<E>>> {
        let name = name_of(id, self.interval);
        match self.log.read(&name).await? {
            Some(body) => self.checked(id, &name, &body).map(Some),
            None => Ok(None),
        }
    }

    fn checked(&self, id: u64, name: &str, body: &[u8]) -> Result<Vec<E>> {
        let lines: Vec<E> = parse(body, &self.place(name))?;
        let first = if name.ends_with(SUFFIX) { 0 } else { id };
        match E::objection(&lines, first, id) {
            Some(why) => Err(damaged_log(&self.place(name), &why)),
            None => Ok(lines),
        }
    }

    async fn existing_file(&self, id: u64) -> Result<Vec<E>> {
        self.file(id).await?.ok_or_else(|| {
            let name = name_of(id, self.interval);
            Error::incompatible(
                "MISSING_FILE_LOG",
                format!(
                    "the log file {} is missing; restore it from a backup, or use a new checkpointLocation with a new checkpointResetNonce",
                    self.place(&name)
                ),
            )
        })
    }

    /// Everything up to and including entry `latest`, oldest first.
    pub async fn all(&self, latest: u64) -> Result<Vec<E>> {
        let from = ((latest + 1) / self.interval * self.interval).saturating_sub(1);
        let mut entries = Vec::new();
        for id in from..=latest {
            entries.extend(self.existing_file(id).await?);
        }
        Ok(entries)
    }

    /// Makes a log whole that had no entries for a while before entry `id`, as at its beginning: what a later compaction
    /// will ask for stands there without new lines.
    pub async fn go_on_at(&self, id: u64) -> Result<()> {
        let latest = self.latest().await?;
        let mut missing = latest.map_or(0, |latest| latest + 1);
        let compaction = (id / self.interval * self.interval).checked_sub(1).filter(|compaction| *compaction >= missing);
        if let Some(compaction) = compaction {
            let before = match latest {
                Some(latest) => self.all(latest).await?,
                None => Vec::new(),
            };
            self.log.append(&name_of(compaction, self.interval), render(compaction, &before)?).await?;
            missing = compaction + 1;
        }
        for empty in missing..id {
            self.log.append(&name_of(empty, self.interval), render::<E>(empty, &[])?).await?;
        }
        Ok(())
    }

    /// Adds entry `id`.
    pub async fn add(&self, id: u64, entries: Vec<E>, retention: &Retention) -> Result<Added<E>> {
        let mut lines = Vec::new();
        if is_compaction(id, self.interval) && id > 0 {
            lines = self.all(id - 1).await?;
        }
        lines.extend(entries);
        if is_compaction(id, self.interval) {
            lines.retain(|entry| entry.keep(retention));
        }
        let name = name_of(id, self.interval);
        match self.log.append(&name, render(id, &lines)?).await? {
            Appended::New => Ok(Added::New),
            Appended::Stored(body) => self.checked(id, &name, &body).map(Added::Stored),
        }
    }

    /// Deletes files that a compaction made useless, after their delay.
    pub async fn delete_expired(&self, latest: u64, now_ms: i64) -> Result<()> {
        let Some(before) = self.useless_before(latest).filter(|_| self.settings.deletion) else { return Ok(()) };
        let expired_ms = now_ms.saturating_sub(self.settings.cleanup_delay_ms);
        for object in self.log.folder().list().await? {
            let Some(name) = object.location.filename() else { continue };
            if id_of(name).is_some_and(|id| id < before) && object.last_modified.timestamp_millis() <= expired_ms {
                self.log.delete(name).await?;
            }
        }
        Ok(())
    }

    /// The compaction at or below the oldest batch that must stay recoverable.
    fn useless_before(&self, latest: u64) -> Option<u64> {
        let oldest_needed = (latest + 1).checked_sub(self.settings.min_batches)?;
        let compaction = ((oldest_needed + 1) / self.interval * self.interval).checked_sub(1)?;
        (compaction > 0).then_some(compaction)
    }

    /// Whether clean-up is worth a listing now.
    pub fn is_compaction(&self, id: u64) -> bool {
        is_compaction(id, self.interval)
    }
}

#[cfg(test)]
mod tests;
