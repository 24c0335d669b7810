//! Reading a checkpoint as a bystander: what it holds and what is damaged.
//!
//! Serves `weir checkpoint show` and `verify`. Reads every entry that is kept,
//! claims nothing, writes nothing, and reports all damage instead of the first.
//! `below` finds the checkpoints of a job's `checkpointRoot`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use uuid::Uuid;

use super::entries::{self, CommitEntry, OffsetEntry};
use super::fence;
use super::owner::Owner;
use super::query::{BindSink, sink_record};
use crate::error::{Error, Result};
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
    match root.read("metadata").await? {
        Some(bytes) => found.query_id = noted(entries::parse_metadata(&name("metadata"), &bytes), &mut found.damage),
        None => found.damage.push(format!("{} is missing", name("metadata"))),
    }
    weir_files(root, &mut found).await?;
    let (offsets, commits) = (root.child("offsets"), root.child("commits"));
    found.planned = fence::claims(&offsets).await?;
    found.committed = fence::claims(&commits).await?;
    for batch in found.planned.clone() {
        let bytes = offsets.read(&batch.to_string()).await?.unwrap_or_default();
        let entry = noted(OffsetEntry::parse(&name(&format!("offsets/{batch}")), &bytes), &mut found.damage);
        found.plans.extend(entry.map(|entry| (batch, entry)));
    }
    for batch in found.committed.clone() {
        let bytes = commits.read(&batch.to_string()).await?.unwrap_or_default();
        noted(CommitEntry::parse(&name(&format!("commits/{batch}")), &bytes), &mut found.damage);
    }
    for batch in without_plan(&found.planned, &found.committed) {
        found.damage.push(format!("{} has no plan: {} is missing", name(&format!("commits/{batch}")), name(&format!("offsets/{batch}"))));
    }
    gaps(&mut found, root.url().as_str());
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
    if let Some(number) = fence::highest(&fence::claims(&owners).await?) {
        let bytes = owners.read(&number.to_string()).await?.unwrap_or_default();
        let parsed = serde_json::from_slice(&bytes)
            .map_err(|e| entries::damaged(&format!("{}/{number}", owners.url()), format!("it is not JSON ({e})")));
        found.owner = noted(parsed, &mut found.damage);
    }
    found.epoch = fence::highest(&fence::claims(&weir.child("epochs")).await?);
    let released = fence::claims(&weir.child("released")).await?;
    found.released = found.epoch.is_some_and(|epoch| released.contains(&epoch));
    for object in weir.list().await? {
        // One for each reset nonce; the first has none in its name.
        let Some(file) = object.location.filename() else { continue };
        let is_of = |sink: &BindSink| file.strip_prefix(sink.file()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let Some(sink) = [BindSink::Rows, BindSink::BadRecords].into_iter().find(is_of) else { continue };
        let bytes = weir.read(file).await?.unwrap_or_default();
        let record = noted(sink_record(&format!("{}/{file}", weir.url()), &bytes), &mut found.damage);
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

/// Commits that lack their plan. One that is older than all plans is of a process that was frozen in its batch and went on when
/// its successors had let go of it: it means nothing, and the next start deletes it.
fn without_plan(planned: &[u64], committed: &[u64]) -> Vec<u64> {
    let is_left_over = |batch: u64| planned.first().is_some_and(|oldest| batch < *oldest);
    committed.iter().copied().filter(|batch| !planned.contains(batch) && !is_left_over(*batch)).collect()
}

/// A plan that is missing between two kept ones. One that was never committed, though later ones were, is left over in the same way.
fn gaps(found: &mut Inspection, location: &str) {
    let newest = found.committed.last().copied();
    for pair in found.planned.windows(2) {
        if newest > Some(pair[0]) && !found.committed.contains(&pair[0]) {
            continue;
        }
        match (pair[0] + 1, pair[1] - 1) {
            (first, last) if first > last => {}
            (first, last) if first == last => found.damage.push(format!("{location}/offsets/{first} is missing between kept batches")),
            (first, last) => {
                found.damage.push(format!("{location}/offsets/{first} to {location}/offsets/{last} are missing between kept batches"));
            }
        }
    }
}

fn noted<T>(parsed: Result<T, Error>, damage: &mut Vec<String>) -> Option<T> {
    parsed.map_err(|error| damage.push(error.message().to_owned())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_frozen_process_leaves_is_no_damage() {
        let found = |planned: &[u64], committed: &[u64]| {
            let mut found = Inspection { planned: planned.to_vec(), committed: committed.to_vec(), ..Inspection::default() };
            found.damage = without_plan(planned, committed).into_iter().map(|batch| format!("ck/commits/{batch}")).collect();
            gaps(&mut found, "ck");
            found.damage
        };
        assert_eq!(found(&[57, 58, 59], &[54, 57, 58]), Vec::<String>::new(), "the commit that it made late");
        assert_eq!(found(&[53, 57, 58], &[57, 58]), Vec::<String>::new(), "the plan that it made late");
        assert_eq!(found(&[57, 59], &[57]), ["ck/offsets/58 is missing between kept batches"]);
        assert_eq!(found(&[57, 59], &[57, 58]), ["ck/commits/58", "ck/offsets/58 is missing between kept batches"]);
    }

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
