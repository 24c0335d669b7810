//! Which file of a table's log cannot be read, and what helps.
//!
//! The kernel tells that a log is damaged, often not where. After such a failure the files that a reader of the version
//! needs are looked at one by one: the newest checkpoint, then the entries after it. What is found is class Incompatible,
//! since no retry makes a file whole.

use std::collections::BTreeMap;

use object_store::{ObjectMeta, ObjectStoreExt};
use weir_core::{Error, Result};

use super::action::read_commit;
use super::location::{TableLocation, commit_name, version_of};

const ENTRY_REMEDY: &str = "restore it from a copy of the table; where there is none and it is the newest entry, move it out of \
                            _delta_log: its writer was cut off, and the version that it began was never whole";
const CHECKPOINT_REMEDY: &str = "restore it from a copy of the table; where all entries from version 0 or from an older checkpoint on are \
                                 there, move it and _last_checkpoint out of _delta_log, and the table is read from those";

/// The least bytes of an entry that says anything.
const LEAST_ENTRY: u64 = 8;
/// What every Parquet file ends with, after the length of its footer.
const PARQUET_END: &[u8] = b"PAR1";
/// The least bytes of a Parquet file: its mark at both ends and the length between.
const LEAST_PARQUET: u64 = 12;

/// An entry of the log that cannot be read; `file` is its whole name.
pub fn entry(file: &str, why: &str) -> Error {
    Error::incompatible("DELTA_LOG_DAMAGED", format!("the log entry {file} is damaged: {why}; {ENTRY_REMEDY}"))
}

/// What is known of the entry of the newest version, if it is there. The kernel takes an empty one for a version without
/// actions; its writer was cut off.
pub async fn newest_entry(location: &TableLocation, version: u64) -> Result<Option<ObjectMeta>> {
    let name = commit_name(version);
    match location.head(&name).await? {
        Some(meta) if meta.size < LEAST_ENTRY => {
            let body = location.read(&name).await?.unwrap_or_default();
            read_commit(&location.whole(&name), &body).map(|_| Some(meta))
        }
        found => Ok(found),
    }
}

/// The first damaged or missing file that a reader of `version`, or of the newest one, needs.
pub async fn find(location: &TableLocation, version: Option<u64>) -> Result<Option<Error>> {
    let names = location.log_names().await?;
    let Some(newest) = version.or_else(|| names.iter().filter_map(|name| version_of(name)).max()) else { return Ok(None) };
    let base = match base(location, &names, newest).await? {
        Ok(base) => base,
        Err(error) => return Ok(Some(error)),
    };
    for version in base.map_or(0, |base| base + 1)..=newest {
        let name = commit_name(version);
        let file = location.whole(&name);
        let looked = match location.read(&name).await? {
            Some(body) => read_commit(&file, &body).map(drop),
            None => Err(entry(&file, "it is missing, and no checkpoint stands for it")),
        };
        if let Err(error) = looked {
            return Ok(Some(error));
        }
    }
    Ok(None)
}

/// The version of the newest checkpoint that a reader begins with, or the damage of it. Readers pass over an empty one.
async fn base(location: &TableLocation, names: &[String], newest: u64) -> Result<Result<Option<u64>, Error>> {
    let mut parts: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for name in names.iter().filter(|name| name.ends_with(".parquet")) {
        if let Some(version) = version_of(name).filter(|version| *version <= newest) {
            parts.entry(version).or_default().push(format!("_delta_log/{name}"));
        }
    }
    'versions: for (version, parts) in parts.into_iter().rev() {
        for part in parts {
            match end_of(location, &part).await? {
                End::Empty => continue 'versions,
                End::Whole => {}
                End::Cut => {
                    let file = location.whole(&part);
                    let text = format!(
                        "the log's checkpoint {file} is damaged: it was cut, it does not end as a Parquet file does; {CHECKPOINT_REMEDY}"
                    );
                    return Ok(Err(Error::incompatible("DELTA_LOG_DAMAGED", text)));
                }
            }
        }
        return Ok(Ok(Some(version)));
    }
    Ok(Ok(None))
}

/// What the end of a Parquet file tells of it.
enum End {
    Whole,
    Cut,
    Empty,
}

async fn end_of(location: &TableLocation, name: &str) -> Result<End> {
    let Some(meta) = location.head(name).await?.filter(|meta| meta.size > 0) else { return Ok(End::Empty) };
    if meta.size < LEAST_PARQUET {
        return Ok(End::Cut);
    }
    let end = location.store().get_range(&meta.location, meta.size - PARQUET_END.len() as u64..meta.size).await;
    let end = end.map_err(|e| location.failed("read", name, e))?;
    Ok(if end == PARQUET_END { End::Whole } else { End::Cut })
}
