//! The Delta sink: appends or merges by key, each batch exactly once.
//!
//! The record of a query is the `txn` action with its id (that of its bad
//! records has a name of its own). Every attempt to
//! commit begins with the newest state of the table, looks at the record in
//! that state, and writes the version after it by create-if-absent; a lost
//! race or a lost response starts over with the look (protocol.md section 5).
//! Concurrent appends, metadata changes and other queries only cost another
//! turn; a merge is made anew onto the version that it meets. Files are deleted
//! only when it is certain that no commit of the batch names them.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use chrono::Utc;
use tokio::sync::Mutex;
use weir_core::{Error, Result, failpoint};

use super::action::{read_commit, write_commit};
use super::commit::{Batch, Change, Decision, LayoutsInUse, Tried, actions, decide};
use super::layout::{InUse, Layout, Request};
use super::location::{Put, TableLocation, commit_name};
use super::maintain::Maintenance;
use super::options::SinkOptions;
use super::small_files::SmallFiles;
use super::state::{self, Fingerprint, TableState, Trail, refresh};
use super::upsert::{Merged, Merging};
use super::writer::{DATA, DeltaWriter, WriterSettings};
use crate::expressions::Expressions;
use crate::sink::{BatchId, Committed, Delivery, OutputRows, Sink, SinkIdentity, SinkWriter, Written, WrittenFile};

/// Bytes at which a file is closed, unless `delta.targetFileSize` says otherwise.
const TARGET_FILE_SIZE: u64 = 128 << 20;
/// Attempts of one commit whose response was lost or that failed in the store.
const DOUBTFUL_ATTEMPTS: usize = 3;
/// Refusals of one version, one after the other, by an entry that cannot be read.
const BLIND_REFUSALS: u64 = 10;

/// An open Delta sink.
pub struct DeltaSink {
    location: TableLocation,
    options: SinkOptions,
    request: Request,
    /// Under which the table records the batches.
    app_id: String,
    opened_table: Option<String>,
    shared: Mutex<Shared>,
    maintenance: Maintenance,
    small_files: SmallFiles,
}

/// What a sink is to take, and who knows what its table has of SQL.
#[derive(Clone, Debug)]
pub struct SinkColumns {
    /// The query's output schema.
    pub query: SchemaRef,
    /// The manifest's `partitionBy`.
    pub partition_by: Vec<String>,
    /// Evaluates constraints, generated columns and defaults.
    pub expressions: Arc<dyn Expressions>,
}

struct Shared {
    /// The table as last seen; `None` while there is none.
    table: Option<TableState>,
    /// The id of the table that this run writes to, once there is one.
    table_id: Option<String>,
    layout: Arc<Layout>,
    in_use: LayoutsInUse,
}

/// The merge of a batch, if rows are merged, through the attempts to commit it.
#[derive(Default)]
struct MergeInHand {
    merging: Option<Merging>,
    /// What the last attempt tried to commit.
    last: Option<Merged>,
    /// Whether an attempt before it named other files.
    changed: bool,
}

impl DeltaSink {
    /// Opens the sink: reads the table and lays the query's columns over it.
    pub async fn open(location: TableLocation, options: SinkOptions, columns: SinkColumns, app_id: impl Into<String>) -> Result<Self> {
        let app_id = app_id.into();
        let table = state::load(&location, &app_id).await?;
        let request = request(&location, &options, columns);
        let layout = Arc::new(Layout::plan(&request, table.as_ref())?);
        let table_id = table.as_ref().map(|table| table.metadata.id.clone());
        let maintenance = Maintenance::new(location.clone());
        let opened_table = table_id.clone();
        let shared = Mutex::new(Shared { table, table_id, layout, in_use: LayoutsInUse::new() });
        Ok(Self { location, options, request, app_id, opened_table, shared, maintenance, small_files: SmallFiles::default() })
    }

    /// Refuses columns that no table could take; reads nothing.
    pub fn check(location: &TableLocation, options: &SinkOptions, columns: SinkColumns) -> Result<()> {
        Layout::check(&request(location, options, columns))
    }

    async fn renew(&self, shared: &mut Shared) -> Result<state::Refreshed> {
        let known = shared.table.clone();
        let was_there = known.is_some();
        let refreshed = refresh(&self.location, known, &self.app_id).await?;
        let id = refreshed.state.as_ref().map(|table| table.metadata.id.clone());
        check_same_table(self.location.url().as_str(), shared.table_id.as_deref(), id.as_deref())?;
        if !was_there
            || shared.table.as_ref().map(|t| (&t.metadata, &t.protocol)) != refreshed.state.as_ref().map(|t| (&t.metadata, &t.protocol))
        {
            shared.layout = Arc::new(Layout::plan(&self.request, refreshed.state.as_ref())?);
        }
        shared.table.clone_from(&refreshed.state);
        shared.table_id = id;
        Ok(refreshed)
    }

    async fn commit_files(&self, batch: &BatchId, files: &[WrittenFile]) -> Result<Committed> {
        let mut shared = self.shared.lock().await;
        let in_use = shared.in_use.remove(&batch.batch).unwrap_or_else(|| InUse::new(Arc::clone(&shared.layout)));
        let written_under = in_use.layout;
        let txn_id = uuid::Uuid::new_v4().to_string();
        let new_table_id = uuid::Uuid::new_v4().to_string();
        let mut tried = Tried::Never;
        let mut doubts = 0;
        let (mut refused_at, mut refusals) = (None, 0);
        let mut merge = MergeInHand::default();
        loop {
            let refreshed = self.renew(&mut shared).await?;
            let recorded = refreshed.state.as_ref().and_then(|table| table.recorded);
            let own_seen = refreshed.txn_ids.contains(&txn_id);
            match decide(recorded, batch.batch, tried, refreshed.trail == Trail::Followed, own_seen) {
                Decision::Own => {
                    drop(shared);
                    if let (Some(merging), Some(merged), false) = (&merge.merging, &merge.last, merge.changed) {
                        self.delete_superfluous(batch, merging.left_over(merged)).await;
                    }
                    return Ok(Committed::Now);
                }
                Decision::Unknown => return Ok(Committed::Before),
                Decision::Other => {
                    drop(shared);
                    self.delete_superfluous(batch, merge.all_files(files)).await;
                    return Ok(Committed::Before);
                }
                Decision::Write => {}
            }
            if !written_under.still_fits(&shared.layout) {
                return Err(Error::retryable(
                    "DELTA_METADATA_CHANGED",
                    format!(
                        "the schema of the Delta table {} changed while batch {} was written; the batch is run again under the new one",
                        self.location.url(),
                        batch.batch
                    ),
                ));
            }
            let merged = match self.merge(&mut merge, &shared, &written_under, files).await {
                Ok(merged) => merged,
                Err(error) => {
                    if tried == Tried::Never {
                        self.delete_superfluous(batch, merge.all_files(files)).await;
                    }
                    return Err(error);
                }
            };
            let parts = Batch {
                id: batch,
                app_id: &self.app_id,
                change: merged.as_ref().map_or(Change::Append(files), Change::Merge),
                txn_id: &txn_id,
                user_metadata: self.options.user_metadata.as_deref(),
                now_ms: Utc::now().timestamp_millis(),
                new_table_id: &new_table_id,
                numbered: in_use.numbers.taken(),
            };
            let body = write_commit(&actions(&parts, shared.table.as_ref(), &shared.layout)?)?;
            let version = shared.table.as_ref().map_or(0, |table| table.version + 1);
            failpoint::hit("sink.commit.before")?;
            match self.location.create(&commit_name(version), body.clone().into()).await? {
                Put::New(entry) => {
                    failpoint::hit("sink.commit.after")?;
                    self.step_over(&mut shared, version, &body, entry)?;
                    drop(shared);
                    self.small_files.committed(parts.change.added());
                    if let (Some(merging), Some(merged)) = (&merge.merging, &merged) {
                        self.delete_superfluous(batch, merging.left_over(merged)).await;
                    }
                    return Ok(Committed::Now);
                }
                Put::Taken => {
                    refusals = if refused_at == Some(version) { refusals + 1 } else { 0 };
                    refused_at = Some(version);
                    if refusals >= BLIND_REFUSALS {
                        return Err(blind(&self.location, version));
                    }
                    tokio::time::sleep(Duration::from_millis(10 * refusals)).await;
                }
                Put::InDoubt(error) => {
                    doubts += 1;
                    if doubts >= DOUBTFUL_ATTEMPTS {
                        return Err(self.location.failed("commit to", &commit_name(version), error));
                    }
                    tracing::warn!(table = %self.location.url(), version, %error, "a commit got no answer; looking whether it took effect");
                }
            }
            tried = Tried::Before;
        }
    }

    /// The state after the entry that was just written.
    fn step_over(&self, shared: &mut Shared, version: u64, body: &[u8], entry: Fingerprint) -> Result<()> {
        let facts = read_commit(&self.location.whole(&commit_name(version)), body)?;
        match &mut shared.table {
            Some(table) => table.advance(&facts, entry, &self.app_id)?,
            None => shared.table = Some(TableState::first(&facts, entry, &self.app_id, self.location.url().as_str())?),
        }
        if facts.metadata.is_some() {
            shared.layout = Arc::new(Layout::plan(&self.request, shared.table.as_ref())?);
        }
        shared.table_id = shared.table.as_ref().map(|table| table.metadata.id.clone());
        Ok(())
    }

    /// The batch as it has to be merged into the table as it is now; `None` where rows are appended.
    async fn merge(&self, hand: &mut MergeInHand, shared: &Shared, layout: &Layout, files: &[WrittenFile]) -> Result<Option<Merged>> {
        let Some(keys) = &layout.upsert else { return Ok(None) };
        let merging = match &mut hand.merging {
            Some(merging) => merging,
            None => {
                let settings = self.writer_settings(shared.table.as_ref());
                hand.merging.insert(Merging::begin(self.location.clone(), layout, keys, files, settings).await?)
            }
        };
        let version = shared.table.as_ref().map(|table| table.version);
        let merged = merging.onto(version, &shared.layout, Utc::now().timestamp_millis()).await?;
        hand.changed |= hand.last.as_ref().is_some_and(|last| last.added != merged.added);
        hand.last = Some(merged.clone());
        Ok(Some(merged))
    }

    fn writer_settings(&self, table: Option<&TableState>) -> WriterSettings {
        let target = table.and_then(|table| table.metadata.configuration.get("delta.targetFileSize"));
        WriterSettings {
            target_file_size: target.and_then(|text| bytes(text)).unwrap_or(TARGET_FILE_SIZE),
            max_records_per_file: self.options.max_records_per_file,
            compression: self.options.compression,
            prefix: DATA,
        }
    }

    async fn delete_superfluous(&self, batch: &BatchId, files: Vec<String>) {
        let left = self.location.delete_quietly(files).await;
        if left > 0 {
            tracing::warn!(table = %self.location.url(), batch = batch.batch, files = left, "files of a batch that no commit names could not be deleted; VACUUM removes them");
        }
    }
}

impl MergeInHand {
    /// All files of the batch: those of the lanes, and those that a merge made.
    fn all_files(&self, files: &[WrittenFile]) -> Vec<String> {
        self.merging.as_ref().map_or_else(|| files.iter().map(|file| file.path.clone()).collect(), Merging::all_files)
    }
}

fn request(location: &TableLocation, options: &SinkOptions, columns: SinkColumns) -> Request {
    let SinkColumns { query, partition_by, expressions } = columns;
    let (evolution, upsert, url) = (options.evolution, options.upsert.clone(), location.url().to_string());
    Request { query, partition_by, evolution, upsert, url, expressions }
}

fn blind(location: &TableLocation, version: u64) -> Error {
    Error::retryable(
        "DELTA_CONCURRENT_WRITE",
        format!(
            "the store refuses {}/{} as taken but shows no such object; another writer may be writing it",
            location.url(),
            commit_name(version)
        ),
    )
}

/// Refuses a table that is not the one this run began with.
fn check_same_table(url: &str, known: Option<&str>, now: Option<&str>) -> Result<()> {
    match (known, now) {
        (None, _) => Ok(()),
        (Some(known), Some(now)) if known == now => Ok(()),
        (Some(known), now) => Err(Error::incompatible(
            "DELTA_TABLE_REPLACED",
            format!(
                "the Delta table {url} (Table ID: {known}) that this query writes to {}; restore it, or give the query a new checkpointLocation together with a new checkpointResetNonce",
                now.map_or_else(|| "was deleted".to_owned(), |now| format!("was replaced by another one (Table ID: {now})")),
            ),
        )),
    }
}

#[async_trait]
impl Sink for DeltaSink {
    fn description(&self) -> String {
        let path = self.options.path.trim();
        let trimmed = path.trim_end_matches('/');
        format!("DeltaSink[{}]", if trimmed.is_empty() { path } else { trimmed })
    }

    fn identity(&self) -> SinkIdentity {
        SinkIdentity { format: "delta".into(), location: self.location.url().to_string(), table_id: self.opened_table.clone() }
    }

    async fn table_id(&self) -> Option<String> {
        self.shared.lock().await.table_id.clone()
    }

    fn output_rows(&self) -> OutputRows {
        OutputRows::Unknown
    }

    fn records_every_batch(&self) -> bool {
        true
    }

    fn delivery(&self) -> Delivery {
        Delivery::Fenced
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.request.query)
    }

    async fn recorded_batch(&self, _query_id: uuid::Uuid) -> Result<Option<u64>> {
        let mut shared = self.shared.lock().await;
        Ok(self.renew(&mut shared).await?.state.and_then(|table| table.recorded))
    }

    async fn writer(&self, batch: &BatchId, lane: usize) -> Result<Box<dyn SinkWriter>> {
        let mut shared = self.shared.lock().await;
        let current = InUse::new(Arc::clone(&shared.layout));
        let in_use = shared.in_use.entry(batch.batch).or_insert(current).clone();
        let settings = self.writer_settings(shared.table.as_ref());
        Ok(Box::new(DeltaWriter::new(self.location.clone(), in_use, settings, lane)))
    }

    async fn commit(&self, batch: &BatchId, parts: Vec<Written>) -> Result<Committed> {
        let files: Vec<WrittenFile> = parts.into_iter().flat_map(|part| part.files).collect();
        self.commit_files(batch, &files).await
    }

    async fn maintain(&self, _batch: u64) -> Result<()> {
        let table = self.shared.lock().await.table.clone();
        match table {
            Some(table) => {
                self.maintenance.run(&table).await?;
                self.small_files.look(&self.location, table.version).await
            }
            None => Ok(()),
        }
    }
}

/// A byte count as `delta.targetFileSize` has it: `104857600`, `100mb`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn target_sizes() {
        for (text, size) in [("1024", Some(1024)), ("100 MB", Some(100 << 20)), ("1g", Some(1 << 30)), ("0", None), ("x", None)] {
            assert_eq!(bytes(text), size, "{text}");
        }
    }

    #[test]
    fn another_table_is_refused_with_the_remedy() {
        check_same_table("u", None, Some("a")).unwrap();
        check_same_table("u", Some("a"), Some("a")).unwrap();
        for now in [None, Some("b")] {
            let error = check_same_table("u", Some("a"), now).unwrap_err();
            assert_eq!(error.class(), weir_core::ErrorClass::Incompatible);
            assert!(error.to_string().contains("checkpointResetNonce"), "{error}");
        }
    }
}
