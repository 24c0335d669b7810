//! Reading a checkpoint as a bystander: what it holds and what is damaged.
//!
//! Serves `weir checkpoint show` and `verify`. Reads every entry that is kept,
//! claims nothing, writes nothing, and reports all damage instead of the first.
//! `below` finds the checkpoints of a job's `checkpointRoot`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use uuid::Uuid;

use super::checksum::Seal;
use super::entries::{self, CommitEntry, OffsetEntry};
use super::numbered::{self, Naming};
use super::owner::{self, Owner};
use super::query::{BindSink, other_id, other_query, sink_record};
use super::{fence, shape};
use crate::error::{Error, ErrorClass, Result};
use crate::storage::Folder;

/// What a checkpoint holds.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// Its location.
    pub location: String,
    /// The query's id.
    pub query_id: Option<Uuid>,
    /// The newest owner.
    pub owner: Option<Owner>,
    /// The highest claimed epoch.
    pub epoch: Option<u64>,
    /// Whether that epoch was released by a clean stop.
    pub released: bool,
    /// The sink it belongs to.
    pub sink: Option<serde_json::Value>,
    /// The sink of bad records, where the query has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_records: Option<serde_json::Value>,
    /// Planned batches kept.
    pub planned: Vec<u64>,
    /// Committed batches kept.
    pub committed: Vec<u64>,
    /// The newest plan.
    pub newest: Option<Newest>,
    /// Everything that is damaged, a sentence each.
    pub damage: Vec<String>,
    /// The plans that can be read, by batch: what the sources' own logs are judged by.
    #[serde(skip)]
    pub plans: BTreeMap<u64, OffsetEntry>,
    /// Whether the newest plan vouches for itself.
    #[serde(skip)]
    pub is_newest_sealed: bool,
}

/// The newest planned batch.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Newest {
    /// The batch.
    pub batch: u64,
    /// Whether it is committed.
    pub committed: bool,
    /// Its watermark, ms.
    pub watermark_ms: i64,
    /// Its timestamp, ms.
    pub timestamp_ms: i64,
    /// Its end offsets.
    pub offsets: Vec<serde_json::Value>,
}

/// Reads the checkpoint in `root`.
pub async fn inspect(root: &Folder) -> Result<Inspection> {
    let mut found = Inspection { location: root.url().to_string(), ..Inspection::default() };
    let name = |file: &str| format!("{}/{file}", root.url());
    match noted(root.read_small("metadata").await, &mut found.damage)? {
        Some(Some(bytes)) => found.query_id = noted(entries::parse_metadata(&name("metadata"), &bytes), &mut found.damage)?,
        Some(None) => found.damage.push(format!("{} is missing", name("metadata"))),
        None => {}
    }
    weir_files(root, &mut found).await?;
    let (offsets, commits) = (root.child("offsets"), root.child("commits"));
    found.planned = ids(&offsets, Naming::Plain, &mut found.damage).await?;
    found.committed = ids(&commits, Naming::Plain, &mut found.damage).await?;
    for batch in found.planned.clone() {
        let read = offsets.read_small(&batch.to_string()).await;
        let entry = read.and_then(|bytes| OffsetEntry::parse(&name(&format!("offsets/{batch}")), batch, &bytes.unwrap_or_default()));
        if let Some((entry, seal)) = noted(entry, &mut found.damage)? {
            found.is_newest_sealed = seal == Seal::Whole;
            found.plans.insert(batch, entry);
        }
    }
    for batch in found.committed.clone() {
        let read = commits.read_small(&batch.to_string()).await;
        let entry = read.and_then(|bytes| CommitEntry::parse(&name(&format!("commits/{batch}")), &bytes.unwrap_or_default()));
        noted(entry, &mut found.damage)?;
    }
    found.damage.extend(shape::holes(root.url().as_str(), &found.planned, &found.committed));
    let newest = found.planned.last().and_then(|batch| found.plans.get_key_value(batch));
    found.newest = newest.map(|(batch, entry)| Newest {
        batch: *batch,
        committed: found.committed.contains(batch),
        watermark_ms: entry.watermark_ms,
        timestamp_ms: entry.timestamp_ms,
        offsets: entry.offsets.iter().map(|o| o.as_ref().map_or(serde_json::Value::Null, |o| o.to_value())).collect(),
    });
    Ok(found)
}

/// The checkpoints below a folder, by their paths from it, in order.
pub async fn below(root: &Folder) -> Result<Vec<String>> {
    let objects = root.list_recursive().await?;
    let names = objects.iter().filter_map(|object| {
        let parts: Vec<String> = object.location.prefix_match(root.prefix())?.map(|part| part.as_ref().to_owned()).collect();
        Some(parts.join("/"))
    });
    Ok(checkpoints_among(&names.collect::<BTreeSet<_>>()))
}

/// A checkpoint is a folder with its `metadata` and a log, whichever of them was written.
fn checkpoints_among(objects: &BTreeSet<String>) -> Vec<String> {
    let has = |prefix: &str| objects.range(prefix.to_owned()..).next().is_some_and(|name| name.starts_with(prefix));
    let folders = objects.iter().filter_map(|name| name.strip_suffix("/metadata"));
    let is_checkpoint = |folder: &&str| ["offsets", "commits", "_weir"].iter().any(|log| has(&format!("{folder}/{log}/")));
    folders.filter(is_checkpoint).map(str::to_owned).collect()
}

async fn weir_files(root: &Folder, found: &mut Inspection) -> Result<()> {
    let weir = root.child("_weir");
    let owners = weir.child("owner");
    if let Some(number) = ids(&owners, Naming::Plain, &mut found.damage).await?.last().copied() {
        found.owner = noted(owner::read(&owners, number).await, &mut found.damage)?;
    }
    found.epoch = fence::highest(&ids(&weir.child("epochs"), Naming::Epochs, &mut found.damage).await?);
    let released = fence::claims(&weir.child("released")).await?;
    found.released = found.epoch.is_some_and(|epoch| released.contains(&epoch));
    for (file, _) in weir.names().await? {
        // One for each reset nonce; the first has none in its name.
        let is_of = |sink: &BindSink| file.strip_prefix(sink.file()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let Some(sink) = [BindSink::Rows, BindSink::BadRecords].into_iter().find(is_of) else { continue };
        let place = format!("{}/{file}", weir.url());
        let record = weir.read_small(&file).await.and_then(|bytes| sink_record(&place, &bytes.unwrap_or_default()));
        let record = noted(record, &mut found.damage)?;
        if let (Some(record), Some(query_id)) = (&record, found.query_id)
            && let Some(other) = other_query(record, query_id)
        {
            found.damage.push(entries::damage_of(&format!("{}/metadata", root.url()), other_id(&place, &other, query_id)));
        }
        let shown = match sink {
            BindSink::Rows => &mut found.sink,
            BindSink::BadRecords => &mut found.bad_records,
        };
        if file == sink.file() {
            *shown = record.map(serde_json::Value::Object);
        }
    }
    Ok(())
}

/// The numbers in a folder; what is strange there is damage.
async fn ids(folder: &Folder, naming: Naming, damage: &mut Vec<String>) -> Result<Vec<u64>> {
    let looked = noted(numbered::look(folder, naming).await, damage)?.unwrap_or_default();
    damage.extend(looked.strange);
    Ok(looked.ids)
}

/// What was read; what does not fit is noted as damage, anything else that went wrong is not.
fn noted<T>(read: Result<T, Error>, damage: &mut Vec<String>) -> Result<Option<T>> {
    match read {
        Err(error) if error.class() == ErrorClass::Incompatible => {
            damage.push(error.message().to_owned());
            Ok(None)
        }
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_told_from_what_lies_in_it() {
        let names = [
            "default/j/t/a/_weir/epochs/1",
            "default/j/t/a/metadata",
            "default/j/t/a/offsets/0",
            "default/j/t/a/state/0/0/_metadata/metadata",
            "default/j/t/b.c/commits/0",
            "default/j/t/b.c/metadata",
            "default/notes/metadata",
            "other",
        ];
        let found = checkpoints_among(&names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(found, ["default/j/t/a", "default/j/t/b.c"]);
        assert!(checkpoints_among(&BTreeSet::new()).is_empty());
    }
}
