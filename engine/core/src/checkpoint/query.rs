//! The driver's handle on a claimed checkpoint: plan, commit, recover, purge.
//!
//! Every write is create-if-absent under the fence; every step passes its
//! failpoints. Entries are read newest first and only as many as recovery
//! needs, so the cost does not grow with the age of the query.

use uuid::Uuid;

use super::checksum::Seal;
use super::claim::Claim;
use super::entries::{CommitEntry, OffsetEntry, damaged};
use super::fence::Fence;
use super::log::{Appended, FencedLog};
use super::numbered::HIGHEST;
use super::recovery::{self, Facts, Recovery};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::storage::Folder;

/// `offsets/`, `commits/` and `_weir/sink` of one query under one epoch.
#[derive(Debug)]
pub struct QueryLog {
    root: Folder,
    claim: Claim,
    offsets: FencedLog,
    commits: FencedLog,
}

/// Whether a plan was ours or stood there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The proposed plan is the batch's plan.
    AsProposed,
    /// An earlier life of the query planned the batch; this is the plan.
    Stored(OffsetEntry),
}

/// Which sink of a query a checkpoint is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindSink {
    /// The one of its rows.
    Rows,
    /// The one of its bad records.
    BadRecords,
}

impl BindSink {
    /// The file in `_weir/` that says that the sink was made ready for rows under a nonce.
    fn begun(self, nonce: u64) -> String {
        format!("{}-begun.{nonce}", self.file())
    }

    /// The file in `_weir/` that names the sink; those of reset nonces end with `.<nonce>`.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Rows => "sink",
            Self::BadRecords => "sink-bad-records",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Rows => "sink",
            Self::BadRecords => "sink of bad records",
        }
    }
}

/// What the sinks of a query have recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The one of its rows.
    pub rows: Option<u64>,
    /// The one of its bad records, which has no entry for batches without any.
    pub bad_records: Option<u64>,
}

/// How a checkpoint and a sink belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundSink {
    /// The first batch that the sink was to get.
    pub since: u64,
    /// Whether the sink was not made ready for rows yet, so that none of them can be there.
    pub is_new: bool,
}

impl QueryLog {
    /// The logs of a claimed checkpoint.
    pub fn new(root: Folder, claim: Claim) -> Self {
        let log = |name: &str| FencedLog::new(root.child(name), claim.fence.clone());
        Self { offsets: log("offsets"), commits: log("commits"), root, claim }
    }

    /// The query's id.
    pub fn query_id(&self) -> Uuid {
        self.claim.query_id
    }

    /// The claim.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The fence.
    pub fn fence(&self) -> &Fence {
        &self.claim.fence
    }

    /// The checkpoint's folder.
    pub fn root(&self) -> &Folder {
        &self.root
    }

    /// The log of source number `source`.
    pub fn source_log(&self, source: usize) -> FencedLog {
        FencedLog::new(self.root.child(&format!("sources/{source}")), self.claim.fence.clone())
    }

    /// Records which sink this checkpoint belongs to, or refuses another one; so for each of the query's sinks.
    ///
    /// `nonce` is the query's `checkpointResetNonce`: a changed nonce allows a
    /// changed sink, and each nonce keeps its own record.
    pub async fn bind_sink(&self, sink: BindSink, identity: &str, nonce: u64) -> Result<BoundSink> {
        let name = of_nonce(sink.file(), nonce);
        let since = self.next_batch().await?;
        let mut record = sink_record(&name, identity.as_bytes())?;
        record.insert(SINCE.to_owned(), since.into());
        record.insert(QUERY.to_owned(), self.query_id().to_string().into());
        record.insert(INSTANCE.to_owned(), self.claim.instance().to_string().into());
        let body = serde_json::to_vec(&record).expect("an identity is strings");
        failpoint::hit("claim.sink-identity.before")?;
        if let Some(stored) = self.claim.weir().create_or_read(&name, body).await? {
            let place = format!("{}/{name}", self.claim.weir().url());
            let recorded = sink_record(&place, &stored)?;
            if let Some(other) = other_query(&recorded, self.query_id()) {
                return Err(damaged(&format!("{}/metadata", self.root.url()), other_id(&place, &other, self.query_id())));
            }
            if !same_sink(&recorded, &record) {
                return Err(self.sink_changed(sink, &recorded, &record));
            }
            failpoint::hit("claim.sink-identity.after")?;
            let since = recorded.get(SINCE).and_then(serde_json::Value::as_u64).unwrap_or(0);
            // An answer that got lost makes a record of one's own look like an older one. Whoever writes the query's id
            // into the record says too when rows may come.
            let has_begun = recorded.get(QUERY).is_none() || self.claim.weir().read_small(&sink.begun(nonce)).await?.is_some();
            return Ok(BoundSink { since, is_new: recorded.get(INSTANCE) == record.get(INSTANCE) || !has_begun });
        }
        failpoint::hit("claim.sink-identity.after")?;
        Ok(BoundSink { since, is_new: true })
    }

    /// Records that rows may come to a sink that was bound just now: from here on it is not new, whoever looks.
    pub async fn sink_begins(&self, sink: BindSink, nonce: u64) -> Result<()> {
        failpoint::hit("claim.sink-begin.before")?;
        self.claim.weir().create_or_read(&sink.begun(nonce), "{}").await?;
        failpoint::hit("claim.sink-begin.after")
    }

    /// Records the id of the sink's table, which may be made long after the sink was bound, or refuses another table, and none
    /// where there was one. For a sink that has no record of every batch nothing else tells.
    pub async fn bind_table(&self, sink: BindSink, table_id: Option<&str>, nonce: u64) -> Result<()> {
        let (bound, name) = (of_nonce(sink.file(), nonce), of_nonce(&format!("{}-table", sink.file()), nonce));
        let weir = self.claim.weir();
        let recorded = |name: &str, bytes: &[u8]| -> Result<Option<String>> {
            let record = sink_record(&format!("{}/{name}", weir.url()), bytes)?;
            Ok(record.get(TABLE_ID).and_then(serde_json::Value::as_str).map(str::to_owned))
        };
        let known = match table_id {
            Some(id) => {
                let body = serde_json::json!({TABLE_ID: id}).to_string();
                weir.create_or_read(&name, body).await?.map(|bytes| recorded(&name, &bytes)).transpose()?.flatten()
            }
            None => {
                let mut known = None;
                for name in [name, bound] {
                    if let Some(bytes) = weir.read(&name).await? {
                        known = known.or(recorded(&name, &bytes)?);
                    }
                }
                known
            }
        };
        match known {
            Some(known) if table_id != Some(known.as_str()) => Err(Error::incompatible(
                "CHECKPOINT_SINK_CHANGED",
                format!(
                    "the table (id {known}) of the {} of the checkpoint {} {}: what earlier batches wrote is not in it; restore it, or set a changed checkpointResetNonce to go on from here",
                    sink.words(),
                    self.root.url(),
                    table_id.map_or_else(|| "was deleted".to_owned(), |now| format!("was deleted and made anew (its id is {now} now)")),
                ),
            )),
            _ => Ok(()),
        }
    }

    fn sink_changed(&self, sink: BindSink, recorded: &SinkRecord, now: &SinkRecord) -> Error {
        let (checkpoint, words) = (self.root.url(), sink.words());
        let text = |record: &SinkRecord| {
            let identity = record.iter().filter(|(field, _)| is_of_identity(field)).map(|(field, value)| (field.clone(), value.clone()));
            serde_json::Value::Object(identity.collect()).to_string()
        };
        let is_place = |field: &&str| recorded.get(*field) == now.get(*field);
        let what = if ["format", "location"].iter().all(is_place) {
            format!(
                "the {words} {} of the checkpoint {checkpoint} was deleted and made anew (its id was {} and is {}): the rows of earlier batches \
                 are not in it; restore it, set a changed checkpointResetNonce to go on from here",
                recorded.get("location").map(ToString::to_string).unwrap_or_default(),
                recorded.get(TABLE_ID).map(ToString::to_string).unwrap_or_default(),
                now.get(TABLE_ID).map(ToString::to_string).unwrap_or_default(),
            )
        } else {
            format!(
                "the checkpoint {checkpoint} was written for the {words} {}, and the query now writes to {}: rows that the old sink holds \
                 would be missing in the new one; restore the sink",
                text(recorded),
                text(now)
            )
        };
        Error::incompatible(
            "CHECKPOINT_SINK_CHANGED",
            format!("{what}, or set a new checkpointLocation with a changed checkpointResetNonce"),
        )
    }

    /// The batch that the next execution is of: the newest planned one while
    /// it is uncommitted.
    async fn next_batch(&self) -> Result<u64> {
        let planned = self.offsets.ids().await?.last().copied();
        let committed = self.commits.ids().await?.last().copied();
        Ok(planned.map_or(0, |newest| if committed == Some(newest) { newest + 1 } else { newest }))
    }

    /// Where to go on, and what the sink of the rows has recorded. `read_sinks` reads that;
    /// `records_since` is the first batch that a sink which records every batch
    /// (Delta) has.
    ///
    /// A predecessor that was cut off may finish the batch that it had begun
    /// between the sink's reading and the lists, so a sink that seems behind is
    /// read again before it is refused. `went_back` says of two plans what of the later lies before the earlier; a plan
    /// that vouches for itself is not asked about.
    pub async fn recover<F>(
        &self,
        read_sinks: impl Fn() -> F,
        records_since: Option<u64>,
        sources: usize,
        went_back: impl Fn(&OffsetEntry, &OffsetEntry) -> Option<String>,
    ) -> Result<(Recovery, Option<u64>)>
    where
        F: Future<Output = Result<Recorded>>,
    {
        let Recorded { rows: sink_recorded, bad_records: bad_records_recorded } = read_sinks().await?;
        failpoint::hit("claim.sink-read.after")?;
        let planned = self.offsets.ids().await?;
        let committed = self.commits.ids().await?;
        let newest = planned.last().copied();
        let before = newest.and_then(|id| id.checked_sub(1));
        let (newest_entry, before_entry) = (self.offset_entry(newest).await?, self.offset_entry(before).await?);
        if let (Some(batch), Some((entry, Seal::Absent)), Some((before, _))) = (newest, &newest_entry, &before_entry)
            && let Some(why) = went_back(before, entry)
        {
            return Err(damaged(&self.name("offsets", batch), why));
        }
        let mut facts = Facts {
            location: self.root.url().to_string(),
            newest: newest_entry.map(|(entry, _)| entry),
            before_newest: before_entry.map(|(entry, _)| entry),
            newest_commit: self.commit_entry(committed.last().copied()).await?,
            planned,
            committed,
            sink_recorded,
            bad_records_recorded,
            sink_recorded_after: None,
            records_since,
            sources,
        };
        if recovery::sink_seems_behind(&facts) {
            facts.sink_recorded_after = read_sinks().await?.rows;
        }
        let recorded = sink_recorded.max(facts.sink_recorded_after);
        let recovery = recovery::decide(facts)?;
        failpoint::hit("claim.recovery.after")?;
        Ok((recovery, recorded))
    }

    /// Writes the plan of a batch ahead, or takes the one that is there.
    pub async fn plan(&self, batch: u64, entry: &OffsetEntry) -> Result<Planned> {
        failpoint::hit("batch.offsets.before")?;
        let appended = self.offsets.append(&batch.to_string(), entry.to_text(batch)).await?;
        failpoint::hit("batch.offsets.after")?;
        match appended {
            Appended::New => Ok(Planned::AsProposed),
            Appended::Stored(bytes) => {
                OffsetEntry::parse(&self.name("offsets", batch), batch, &bytes).map(|(entry, _)| Planned::Stored(entry))
            }
        }
    }

    /// Marks a batch as done.
    pub async fn commit(&self, batch: u64, entry: &CommitEntry) -> Result<()> {
        failpoint::hit("batch.commits.before")?;
        self.commits.append(&batch.to_string(), entry.to_text()).await?;
        failpoint::hit("batch.commits.after")
    }

    /// Deletes the one entry of each log that leaves the retention when
    /// `batch` is planned. `weir checkpoint` finds older leftovers. The commit
    /// goes first: one without its plan would be damage.
    pub async fn purge(&self, batch: u64, retain: u64) -> Result<()> {
        let last = batch.checked_sub(retain + 1).map(|last| last.to_string());
        if let Some(last) = &last {
            self.commits.delete(last).await?;
        }
        failpoint::hit("batch.purge.between")?;
        if let Some(last) = &last {
            self.offsets.delete(last).await?;
        }
        failpoint::hit("batch.purge.after")
    }

    /// Deletes everything below the retention; once per start, since a killed
    /// process may have left entries that `purge` passed by.
    pub async fn purge_all(&self, batch: u64, retain: u64) -> Result<()> {
        for log in [&self.commits, &self.offsets] {
            for id in log.ids().await?.into_iter().filter(|id| id.saturating_add(retain) < batch) {
                log.delete(&id.to_string()).await?;
            }
        }
        Ok(())
    }

    fn name(&self, log: &str, id: u64) -> String {
        format!("{}/{log}/{id}", self.root.url())
    }

    async fn offset_entry(&self, id: Option<u64>) -> Result<Option<(OffsetEntry, Seal)>> {
        let Some(id) = id else { return Ok(None) };
        let bytes = self.offsets.folder().read_small(&id.to_string()).await?;
        bytes.map(|bytes| OffsetEntry::parse(&self.name("offsets", id), id, &bytes)).transpose()
    }

    async fn commit_entry(&self, id: Option<u64>) -> Result<Option<CommitEntry>> {
        let Some(id) = id else { return Ok(None) };
        let bytes = self.commits.folder().read_small(&id.to_string()).await?;
        bytes.map(|bytes| CommitEntry::parse(&self.name("commits", id), &bytes)).transpose()
    }
}

/// Identities agree where both say something: a table that did not exist when
/// the checkpoint began has no id in its record.
fn same_sink(recorded: &SinkRecord, now: &SinkRecord) -> bool {
    now.iter().filter(|(field, _)| is_of_identity(field)).all(|(field, value)| recorded.get(field).is_none_or(|known| known == value))
}

fn is_of_identity(field: &str) -> bool {
    ![SINCE, INSTANCE, QUERY].contains(&field)
}

/// The name of a file in `_weir/` that each reset nonce has; the first has none in it.
fn of_nonce(file: &str, nonce: u64) -> String {
    if nonce == 0 { file.to_owned() } else { format!("{file}.{nonce}") }
}

pub(super) type SinkRecord = serde_json::Map<String, serde_json::Value>;

/// Field of the identity: the table's own id.
const TABLE_ID: &str = "tableId";
/// Field of the record beside the identity: the first batch of the sink.
const SINCE: &str = "sinceBatch";
/// Another one: the process that wrote it.
const INSTANCE: &str = "instance";
/// And the query that was bound to the sink, by its id.
const QUERY: &str = "queryId";

/// Reads the record of a sink; `name` is the file, for errors.
pub(super) fn sink_record(name: &str, bytes: &[u8]) -> Result<SinkRecord> {
    let record: SinkRecord = serde_json::from_slice(bytes).map_err(|e| damaged(name, format!("it is not a JSON object ({e})")))?;
    match record.get(SINCE) {
        Some(since) if since.as_u64().is_none_or(|since| since > HIGHEST) => {
            Err(damaged(name, format!("its {SINCE} is {since}, which is no batch")))
        }
        _ => Ok(record),
    }
}

/// The id of the query that a record of a sink is of, where it is not this one.
pub(super) fn other_query(record: &SinkRecord, query_id: Uuid) -> Option<String> {
    let recorded = record.get(QUERY)?.as_str().unwrap_or_default();
    (recorded != query_id.to_string()).then(|| recorded.to_owned())
}

/// What is wrong with `metadata` then.
pub(super) fn other_id(record: &str, recorded: &str, query_id: Uuid) -> String {
    format!("it names the query {query_id}, and {record} was written by the query {recorded}, whose batches the sink knows")
}

#[cfg(test)]
mod tests;
