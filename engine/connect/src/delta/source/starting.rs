//! Where a new query begins, and how that is stored.
//!
//! Resolved once against the table and stored as entry `0` of the source's
//! log, an offset under the line `v1`. A checkpoint of Spark has no such
//! entry: there the end of its first batch tells, as Spark itself infers it.

use weir_core::checkpoint::{Appended, FencedLog};
use weir_core::{Error, Offset, Result};

use super::offset::{DeltaOffset, Mark, Stage};
use super::options::Starting;
use super::plan::beginning_of;
use super::table::SourceTable;
use crate::delta::location::version_of;
use crate::delta::provider::commit_times;

/// The name of the entry in `sources/<n>/`.
const ENTRY: &str = "0";

/// The stored beginning.
pub async fn stored(log: &FencedLog, table: &SourceTable) -> Result<Option<DeltaOffset>> {
    let Some(entry) = log.read(ENTRY).await? else { return Ok(None) };
    from_entry(&entry, log, table).map(Some)
}

/// Stores a beginning; one that is there wins.
pub async fn store(log: &FencedLog, beginning: &DeltaOffset, table: &SourceTable) -> Result<DeltaOffset> {
    match log.append(ENTRY, format!("v1\n{}", beginning.to_offset().json())).await? {
        Appended::New => Ok(beginning.clone()),
        Appended::Stored(entry) => from_entry(&entry, log, table),
    }
}

fn from_entry(entry: &[u8], log: &FencedLog, table: &SourceTable) -> Result<DeltaOffset> {
    let parsed = DeltaOffset::from_checkpoint(&offset_of(entry, log)?, &table.id, table.location.url().as_str());
    parsed.map_err(|e| e.context(place(log)))
}

/// What a run cannot read of the log of a source with this newest offset, whatever its table.
pub async fn damage(log: &FencedLog, last: Option<&Offset>) -> Result<()> {
    last.map(DeltaOffset::read).transpose()?;
    let Some(entry) = log.read(ENTRY).await? else { return Ok(()) };
    DeltaOffset::read(&offset_of(&entry, log)?).map(drop).map_err(|e| e.context(place(log)))
}

fn place(log: &FencedLog) -> String {
    format!("{}/{ENTRY}", log.folder().url())
}

fn offset_of(entry: &[u8], log: &FencedLog) -> Result<Offset> {
    let place = place(log);
    let json = std::str::from_utf8(entry).ok().and_then(|text| text.strip_prefix("v1\n")).ok_or_else(|| {
        Error::incompatible(
            "DELTA_INVALID_SOURCE_OFFSET_FORMAT",
            format!("the beginning of the Delta source in {place} cannot be read; restore the file, or use a new checkpointLocation"),
        )
    })?;
    // An offset is one line.
    Ok(Offset::new(json.trim().replace(['\n', '\r'], " ")))
}

/// What the options mean for the table now.
pub async fn resolve(starting: Starting, table: &SourceTable) -> Result<DeltaOffset> {
    let at = |version, stage| DeltaOffset { table_id: table.id.clone(), mark: Mark::before(version), stage };
    Ok(match starting {
        Starting::Snapshot => at(table.version(), Stage::FirstSnapshot),
        Starting::Latest => at(table.version() + 1, Stage::Log),
        Starting::Version(version) => {
            let names = table.location.log_names().await?;
            let versions = || names.iter().filter(|name| name.ends_with(".json")).filter_map(|name| version_of(name));
            let (oldest, newest) = (versions().min().unwrap_or_default(), versions().max().unwrap_or_default());
            if !(oldest..=newest).contains(&version) {
                return Err(Error::config(
                    "DELTA_VERSION_NOT_FOUND",
                    format!(
                        "Cannot time travel Delta table to version {version}. Available versions: [{oldest}, {newest}]. Set startingVersion to one of them, or to latest, for the table {}",
                        table.location.url()
                    ),
                ));
            }
            at(version, Stage::Log)
        }
        Starting::Timestamp(time) => at(version_at(time, table).await?, Stage::Log),
    })
}

/// Where a first batch began that Spark planned.
pub async fn implied_by(planned: &DeltaOffset, starting: Starting, table: &SourceTable) -> Result<DeltaOffset> {
    match starting {
        Starting::Snapshot => Ok(beginning_of(planned)),
        Starting::Version(_) | Starting::Timestamp(_) => resolve(starting, table).await,
        Starting::Latest => Err(Error::incompatible(
            "DELTA_UNKNOWN_BEGINNING",
            "the first batch of the checkpoint was planned by Spark with startingVersion latest, which does not tell where it began; let Spark finish it, or set startingVersion to the version behind which it began",
        )),
    }
}

async fn version_at(time: i64, table: &SourceTable) -> Result<u64> {
    let commits = commit_times(&table.location).await?;
    first_since(&commits, time).ok_or_else(|| {
        let shown = |ms: i64| chrono::DateTime::from_timestamp_millis(ms).map(|at| at.to_rfc3339()).unwrap_or_default();
        let newest = commits.last().map(|(_, at)| shown(*at)).unwrap_or_default();
        Error::config(
            "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
            format!("Timestamp {} is after the latest version of the table {} ({newest}). Use a startingTimestamp at or before {newest}, or startingVersion: latest", shown(time), table.location.url()),
        )
    })
}

/// The first version at or after a time.
fn first_since(commits: &[(u64, i64)], time: i64) -> Option<u64> {
    commits.iter().find(|(_, at)| *at >= time).map(|(version, _)| *version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_since_a_time() {
        let commits = [(3, 100), (4, 200), (5, 300)];
        for (time, version) in [(0, Some(3)), (100, Some(3)), (101, Some(4)), (300, Some(5)), (301, None)] {
            assert_eq!(first_since(&commits, time), version);
        }
    }
}
