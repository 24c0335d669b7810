//! What the sink knows of its table between commits.
//!
//! Version, metadata, protocol and the batch recorded for this query: all that
//! a blind append needs, so neither memory nor time grow with the table. Read
//! whole once through the kernel (which knows checkpoints), then carried
//! forward by reading the commits that follow, one small object each.

use std::sync::Arc;

use delta_kernel::snapshot::{Snapshot, SnapshotRef};
use deltalake_core::kernel::StructType;
use object_store::ObjectMeta;
use weir_core::storage::failure;
use weir_core::{Error, ErrorClass, Result};

use super::action::{CommitFacts, MetaData, Protocol, ROW_TRACKING, newest_row_id, read_commit};
use super::location::{TableLocation, commit_name, version_of};
use super::{damage, features};

/// The table at one version, as far as an append is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct TableState {
    /// The newest version.
    pub version: u64,
    /// Its metadata.
    pub metadata: MetaData,
    /// Its protocol.
    pub protocol: Protocol,
    /// The parsed schema.
    pub schema: StructType,
    /// The newest batch recorded for the query.
    pub recorded: Option<u64>,
    /// What the next version goes on from, in tables whose features ask for it.
    pub counts: Counts,
    /// What the newest entry looked like; tells a table that was replaced.
    pub entry: Fingerprint,
}

/// Counts that each version carries on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// When the newest version was made by its own word, milliseconds since the epoch.
    pub in_commit_timestamp: Option<i64>,
    /// The newest row id that was given.
    pub row_id: Option<i64>,
}

impl Counts {
    fn after(self, facts: &CommitFacts) -> Self {
        Self { in_commit_timestamp: facts.in_commit_timestamp, row_id: facts.row_ids.or(self.row_id) }
    }
}

/// What is known of a log entry's object; absent parts are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// Its size.
    pub size: Option<u64>,
    /// Its entity tag.
    pub e_tag: Option<String>,
    /// Its modification time, microseconds since the epoch.
    pub modified: Option<i64>,
}

impl Fingerprint {
    /// The fingerprint of an object.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self { size: Some(meta.size), e_tag: meta.e_tag.clone(), modified: Some(meta.last_modified.timestamp_micros()) }
    }

    /// Whether the object may be the one that this was taken of.
    pub fn matches(&self, meta: &ObjectMeta) -> bool {
        fn agrees<T: PartialEq>(known: Option<&T>, found: Option<&T>) -> bool {
            known.is_none() || found.is_none() || known == found
        }
        let found = Self::of(meta);
        agrees(self.size.as_ref(), found.size.as_ref())
            && agrees(self.e_tag.as_ref(), found.e_tag.as_ref())
            && agrees(self.modified.as_ref(), found.modified.as_ref())
    }
}

/// Whether commits seen on the way are known one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trail {
    /// Every commit since the last state was read.
    Followed,
    /// The state was read anew; single commits were not seen.
    Lost,
}

/// A refreshed state and what was met on the way.
#[derive(Debug)]
pub struct Refreshed {
    /// The table now; `None` while there is none.
    pub state: Option<TableState>,
    /// Whether the commits between were seen.
    pub trail: Trail,
    /// The `txnId`s of those commits.
    pub txn_ids: Vec<String>,
}

/// Longest log of a new table that is read entry by entry.
const FEW_ENTRIES: u64 = 1_000;

impl TableState {
    /// The state after one more commit.
    pub fn advance(&mut self, facts: &CommitFacts, entry: Fingerprint, app_id: &str) -> Result<()> {
        self.version += 1;
        self.entry = entry;
        self.counts = self.counts.after(facts);
        if let Some(metadata) = &facts.metadata {
            self.schema = parse_schema(metadata)?;
            self.metadata = metadata.clone();
        }
        if let Some(protocol) = &facts.protocol {
            self.protocol = protocol.clone();
        }
        if let Some(txn) = facts.txns.iter().rfind(|txn| txn.app_id == app_id) {
            self.recorded = u64::try_from(txn.version).ok();
        }
        Ok(())
    }

    /// The state of a table whose first commit is this one.
    pub fn first(facts: &CommitFacts, entry: Fingerprint, app_id: &str, url: &str) -> Result<Self> {
        let (Some(metadata), Some(protocol)) = (facts.metadata.clone(), facts.protocol.clone()) else {
            return Err(Error::incompatible(
                "DELTA_LOG_DAMAGED",
                format!("the first log entry of {url} has no metadata or no protocol; restore the table's log"),
            ));
        };
        let recorded = facts.txns.iter().rfind(|txn| txn.app_id == app_id).and_then(|txn| u64::try_from(txn.version).ok());
        let counts = Counts::default().after(facts);
        Ok(Self { version: 0, schema: parse_schema(&metadata)?, metadata, protocol, recorded, counts, entry })
    }
}

/// The schema of some metadata.
pub fn parse_schema(metadata: &MetaData) -> Result<StructType> {
    serde_json::from_str(&metadata.schema_string).map_err(|error| {
        Error::config(
            "DELTA_UNSUPPORTED_DATA_TYPE",
            format!("the schema of the Delta table with id {} has a type that Weir does not know; write to another table", metadata.id),
        )
        .with_source(error)
    })
}

/// The kernel's snapshot of a version, or of the newest.
pub async fn kernel_snapshot(location: &TableLocation, version: Option<u64>) -> Result<SnapshotRef> {
    let engine = location.log_store().engine(None);
    let root = location.root_url();
    let built = tokio::task::spawn_blocking(move || {
        let mut builder = Snapshot::builder_for(root);
        if let Some(version) = version {
            builder = builder.at_version(version);
        }
        builder.build(engine.as_ref())
    });
    flatten(location, "read the log of", version, built.await).await
}

/// One error for a kernel task that failed or died while it looked at a version, or at the newest; it names the damaged
/// file of the log, if there is one.
pub async fn flatten<T>(
    location: &TableLocation,
    action: &str,
    version: Option<u64>,
    joined: Result<Result<T, delta_kernel::Error>, tokio::task::JoinError>,
) -> Result<T> {
    let error = match joined {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => classified(location, action, error),
        Err(error) => {
            Error::retryable("DELTA_LOG_FAILURE", format!("could not {action} the Delta table {}", location.url())).with_source(error)
        }
    };
    Err(with_file(location, version, error).await)
}

/// The damaged file of the log in place of a failure that may come from one.
pub async fn with_file(location: &TableLocation, version: Option<u64>, error: Error) -> Error {
    if error.class() == ErrorClass::Config {
        return error;
    }
    match damage::find(location, version).await {
        Ok(Some(found)) => found,
        Ok(None) => error,
        Err(unread) => {
            tracing::debug!(%unread, "the log could not be looked at");
            error
        }
    }
}

/// The kernel's error with its class: what no retry heals is told apart from
/// what the store may have caused.
fn classified(location: &TableLocation, action: &str, error: delta_kernel::Error) -> Error {
    use delta_kernel::Error as Kernel;
    let url = location.url();
    match error {
        Kernel::Backtraced { source, .. } => classified(location, action, *source),
        Kernel::Unsupported(_) | Kernel::InvalidProtocol(_) | Kernel::InvalidColumnMappingMode(_) => Error::config(
            "DELTA_UNSUPPORTED_FEATURES",
            format!("could not {action} the Delta table {url}: it has features that this version of Weir does not know; use another table"),
        )
        .with_source(error),
        Kernel::MalformedJson(_)
        | Kernel::MissingVersion
        | Kernel::MissingMetadata
        | Kernel::MissingProtocol
        | Kernel::MissingMetadataAndProtocol
        | Kernel::Parquet(_)
        | Kernel::ParseError(_, _) => Error::incompatible(
            "DELTA_LOG_DAMAGED",
            format!("could not {action} the Delta table {url}: its log is damaged; restore the folder _delta_log from a copy"),
        )
        .with_source(error),
        _ => failure("DELTA_LOG_FAILURE", format!("could not {action} the Delta table {url}"), error),
    }
}

/// Reads the state whole; `None` when there is no table.
pub async fn load(location: &TableLocation, app_id: &str) -> Result<Option<TableState>> {
    if !location.log_names().await?.iter().any(|name| version_of(name).is_some()) {
        return Ok(None);
    }
    let snapshot = kernel_snapshot(location, None).await?;
    let recorded = recorded_in(location, &snapshot, app_id).await?;
    let (metadata, protocol) = facts_of(location, &snapshot)?;
    let schema = parse_schema(&metadata)?;
    let version = snapshot.version();
    let entry = damage::newest_entry(location, version).await?.as_ref().map(Fingerprint::of).unwrap_or_default();
    let counts = counts_in(location, &snapshot, &protocol).await?;
    Ok(Some(TableState { version, metadata, protocol, schema, recorded, counts, entry }))
}

/// The counts of a snapshot; the log is only looked through where a feature asks for it.
async fn counts_in(location: &TableLocation, snapshot: &SnapshotRef, protocol: &Protocol) -> Result<Counts> {
    let (timestamps, row_ids) = (features::has(protocol, features::IN_COMMIT_TIMESTAMP), features::has(protocol, features::ROW_TRACKING));
    if !timestamps && !row_ids {
        return Ok(Counts::default());
    }
    let engine = location.log_store().engine(None);
    let (snapshot, version) = (Arc::clone(snapshot), snapshot.version());
    let read = tokio::task::spawn_blocking(move || {
        let domain = if row_ids { snapshot.get_domain_metadata_internal(ROW_TRACKING, engine.as_ref())? } else { None };
        let in_commit_timestamp = if timestamps { snapshot.get_in_commit_timestamp(engine.as_ref())? } else { None };
        Ok(Counts { in_commit_timestamp, row_id: domain.as_deref().and_then(newest_row_id) })
    });
    flatten(location, "read the counts of", Some(version), read.await).await
}

/// The metadata and protocol of a snapshot.
pub fn facts_of(location: &TableLocation, snapshot: &SnapshotRef) -> Result<(MetaData, Protocol)> {
    let configuration = snapshot.table_configuration();
    Ok((reshape(location, configuration.metadata())?, reshape(location, configuration.protocol())?))
}

/// The version recorded for an application in a snapshot.
pub async fn recorded_in(location: &TableLocation, snapshot: &SnapshotRef, app_id: &str) -> Result<Option<u64>> {
    let engine = location.log_store().engine(None);
    let (snapshot, app_id, version) = (Arc::clone(snapshot), app_id.to_owned(), snapshot.version());
    let read = tokio::task::spawn_blocking(move || snapshot.get_app_id_version(&app_id, engine.as_ref())).await;
    Ok(flatten(location, "read the transaction identifiers of", Some(version), read).await?.and_then(|version| u64::try_from(version).ok()))
}

fn reshape<T: serde::de::DeserializeOwned>(location: &TableLocation, action: &impl serde::Serialize) -> Result<T> {
    serde_json::to_value(action).and_then(serde_json::from_value).map_err(|error| {
        Error::incompatible(
            "DELTA_LOG_DAMAGED",
            format!("the metadata of the Delta table {} cannot be read; restore its _delta_log, or write to a new path", location.url()),
        )
        .with_source(error)
    })
}

/// Carries the state forward to the newest commit.
pub async fn refresh(location: &TableLocation, known: Option<TableState>, app_id: &str) -> Result<Refreshed> {
    let Some(mut state) = known else {
        return follow_from_nothing(location, app_id).await;
    };
    // Without its newest entry as it was, the table is gone, another one, or
    // its log was cleaned far beyond; in each case what follows says nothing.
    match location.head(&commit_name(state.version)).await? {
        Some(meta) if state.entry.matches(&meta) => state.entry = Fingerprint::of(&meta),
        _ => return Ok(Refreshed { state: load(location, app_id).await?, trail: Trail::Lost, txn_ids: Vec::new() }),
    }
    let mut txn_ids = Vec::new();
    loop {
        let name = commit_name(state.version + 1);
        let Some((meta, body)) = location.read_with_meta(&name).await? else { break };
        let facts = read_commit(&location.whole(&name), &body)?;
        state.advance(&facts, Fingerprint::of(&meta), app_id)?;
        txn_ids.extend(facts.txn_id);
    }
    Ok(Refreshed { state: Some(state), trail: Trail::Followed, txn_ids })
}

async fn follow_from_nothing(location: &TableLocation, app_id: &str) -> Result<Refreshed> {
    let Some(state) = load(location, app_id).await? else {
        return Ok(Refreshed { state: None, trail: Trail::Followed, txn_ids: Vec::new() });
    };
    // A table that came to be since the last look: its entries are few.
    let mut txn_ids = Vec::new();
    if state.version > FEW_ENTRIES {
        return Ok(Refreshed { state: Some(state), trail: Trail::Lost, txn_ids });
    }
    for version in 0..=state.version {
        let name = commit_name(version);
        match location.read(&name).await? {
            Some(body) => txn_ids.extend(read_commit(&location.whole(&name), &body)?.txn_id),
            None => return Ok(Refreshed { state: Some(state), trail: Trail::Lost, txn_ids: Vec::new() }),
        }
    }
    Ok(Refreshed { state: Some(state), trail: Trail::Followed, txn_ids })
}
