//! A Delta table as a stream: first all that it holds, then what each commit adds.
//!
//! Offsets, order and limits are those of Delta's own source, so a checkpoint
//! moves between Spark and Weir. Where a new query begins is stored in the
//! source's log before its first batch, so that a batch is repeated with the
//! same files; Spark stores it nowhere. A commit that took data away, lost
//! versions and columns that do not fit end the query, by the options. With
//! `readChangeFeed` it is what each version did to rows (`feed`), as a static table too (`changes_table`).
//!
//! `offset`, `plan`, `entry`, `compat`, `check`, `waiting` decide; `log`,
//! `table`, `starting`, `read` do; this module brings them together.

mod changes_table;
mod check;
mod compat;
mod entry;
mod feed;
mod log;
mod offset;
mod options;
mod plan;
mod read;
mod starting;
mod table;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use weir_core::checkpoint::FencedLog;
use weir_core::storage::Storage;
use weir_core::{Offset, Result};

pub use self::changes_table::open_changes;
use self::entry::{Commit, DataFile};
use self::feed::{Grouped, Inserted};
use self::log::{CommitLog, Expect};
use self::offset::{DeltaOffset, Mark, Stage};
pub use self::options::DeltaSourceOptions;
use self::plan::{Limits, Walk, lies_between};
use self::read::{Piece, TableScan};
pub use self::starting::damage;
use self::table::SourceTable;
use self::waiting::Waiting;
use crate::delta::location::TableLocation;
use crate::open::SourcePlace;
use crate::source::{AvailableNow, Backlog, PartitionReader, PlannedRange, PreparedSource, ReadLimits, Scan, Source};

/// Versions beyond a batch whose sizes are looked at with it.
const LOOK_AHEAD: usize = 64;

/// A table whose newest metadata was read; no checkpoint was touched.
#[derive(Debug)]
pub struct PreparedDelta {
    options: DeltaSourceOptions,
    table: SourceTable,
}

impl PreparedDelta {
    /// Opens the table that the options name.
    pub async fn open(options: DeltaSourceOptions, storage: &Storage) -> Result<Self> {
        let folder = storage.open(&options.path)?;
        folder.refuse_file("the source's option path")?;
        let table = SourceTable::open(TableLocation::in_folder(&folder)).await?;
        Ok(Self { options, table })
    }
}

#[async_trait]
impl PreparedSource for PreparedDelta {
    fn schema(&self) -> SchemaRef {
        self.options.schema(&self.table)
    }

    async fn bind(self: Box<Self>, place: SourcePlace) -> Result<Box<dyn Source>> {
        Ok(Box::new(DeltaSource::new(*self, place)))
    }
}

/// A stream of a Delta table.
pub struct DeltaSource {
    options: DeltaSourceOptions,
    table: Arc<SourceTable>,
    commits: CommitLog,
    log: FencedLog,
    /// Where the query began, once that is asked for.
    beginning: Option<DeltaOffset>,
    /// The end of the newest planned batch of an earlier life.
    planned: Option<DeltaOffset>,
    end: EndOfRun,
    /// The files of the first snapshot, while it is read.
    snapshot: Option<(u64, Arc<Vec<DataFile>>)>,
    waiting: Waiting,
    scan: Option<(Vec<usize>, Arc<TableScan>)>,
}

/// Whether the offset `last` lies before `before` in one table; what cannot be read is told elsewhere.
pub fn lies_before(before: &Offset, last: &Offset) -> bool {
    let read = |offset| DeltaOffset::read(offset).ok();
    read(before).zip(read(last)).is_some_and(|(before, last)| before.table_id == last.table_id && last.mark < before.mark)
}

/// How far this run goes.
#[derive(Clone, Copy, Debug)]
enum EndOfRun {
    /// On and on.
    Open,
    /// `availableNow`; the end is fixed when the first batch is planned, after a planned one was re-run.
    ToBeFrozen,
    /// `availableNow`, fixed.
    Frozen(Mark),
}

impl DeltaSource {
    /// The stream at its place.
    pub fn new(prepared: PreparedDelta, place: SourcePlace) -> Self {
        let PreparedDelta { options, table } = prepared;
        let table = Arc::new(table);
        tracing::info!(source = %description(&table), version = table.version(), limits = ?options.limits, changes = ?options.changes, "Delta source");
        if options.changes == options::Changes::ReadAgain {
            tracing::warn!("ignoreChanges reads rows again that an update left as they were; skipChangeCommits repeats none");
        }
        Self {
            commits: CommitLog::new(Arc::clone(&table), options.loss),
            options,
            table,
            log: place.log,
            beginning: None,
            planned: None,
            end: EndOfRun::Open,
            snapshot: None,
            waiting: Waiting::default(),
            scan: None,
        }
    }

    fn url(&self) -> &str {
        self.table.location.url().as_str()
    }

    fn parse(&self, offset: &Offset) -> Result<DeltaOffset> {
        DeltaOffset::from_checkpoint(offset, &self.table.id, self.url())
    }

    async fn start_or_beginning(&mut self, start: Option<&Offset>) -> Result<DeltaOffset> {
        match start {
            Some(offset) => self.parse(offset),
            None => self.begin().await,
        }
    }

    /// Where the query begins: as stored, as a batch that Spark planned implies, or as the options say.
    async fn begin(&mut self) -> Result<DeltaOffset> {
        if let Some(beginning) = &self.beginning {
            return Ok(beginning.clone());
        }
        let beginning = match starting::stored(&self.log, &self.table).await? {
            Some(stored) => stored,
            None => match &self.planned {
                Some(planned) => starting::implied_by(planned, self.options.starting, &self.table).await?,
                None => starting::store(&self.log, &starting::resolve(self.options.starting, &self.table).await?, &self.table).await?,
            },
        };
        if beginning.stage == Stage::Log {
            self.table.check_columns_at(beginning.mark.version).await?;
        }
        if self.options.change_feed {
            feed::check_version(beginning.mark.version, &self.table).await?;
        }
        Ok(self.beginning.insert(beginning).clone())
    }

    /// The files of a commit, if a stream may read it.
    fn judged<'a>(&mut self, commit: &'a Commit) -> Result<&'a [DataFile]> {
        self.table.check_commit(commit)?;
        if self.options.change_feed {
            feed::check_commit(commit, &self.table)?;
        }
        let files = self.options.files_of(commit, &self.table.path())?;
        self.waiting.note(commit, files);
        Ok(files)
    }

    async fn snapshot_files(&mut self, version: u64) -> Result<Arc<Vec<DataFile>>> {
        if let Some((of, files)) = &self.snapshot
            && *of == version
        {
            return Ok(Arc::clone(files));
        }
        let files = Arc::new(self.table.files_at(version).await?);
        self.snapshot = Some((version, Arc::clone(&files)));
        Ok(files)
    }

    async fn walk(&mut self, start: &DeltaOffset, bound: Option<Mark>, limits: Option<Limits>, now_ms: i64) -> Result<DeltaOffset> {
        let mut walk = Walk::new(start.mark, bound, limits);
        let mut version = start.mark.version;
        if start.stage == Stage::FirstSnapshot {
            let files = self.snapshot_files(version).await?;
            if walk.version(version, files.iter().map(|file| file.size)).is_break() {
                return Ok(walk.end(start));
            }
            version += 1;
        }
        while !walk.is_beyond(version) {
            let Some(commit) = self.commits.commit(version, Expect::Perhaps(now_ms)).await? else { break };
            version = commit.version + 1;
            let files = self.judged(&commit)?;
            let sizes = files.iter().map(|file| file.size);
            let taken = match self.options.change_feed {
                true => walk.changes(commit.version, &sizes.collect::<Vec<_>>()),
                false => walk.version(commit.version, sizes),
            };
            if taken.is_break() {
                break;
            }
        }
        Ok(walk.end(start))
    }

    async fn bound(&mut self, start: &DeltaOffset, now_ms: i64) -> Result<Option<Mark>> {
        if matches!(self.end, EndOfRun::ToBeFrozen) {
            let end = self.walk(start, None, None, now_ms).await?;
            self.end = EndOfRun::Frozen(end.mark);
        }
        Ok(match self.end {
            EndOfRun::Frozen(mark) => Some(mark),
            EndOfRun::Open | EndOfRun::ToBeFrozen => None,
        })
    }

    /// Looks at what waits behind a batch, some versions at a time. What a stream may not read is refused when it comes to it.
    async fn look_ahead(&mut self, end: &DeltaOffset) -> Result<()> {
        let first = match end.stage {
            Stage::FirstSnapshot => end.mark.version + 1,
            Stage::Log => end.mark.version,
        };
        for _ in 0..LOOK_AHEAD {
            let version = self.waiting.next_behind(first);
            let Some(commit) = self.commits.read(version).await? else { return Ok(()) };
            let files = self.options.files_of(&commit, "").unwrap_or(&commit.added);
            self.waiting.note(&commit, files);
        }
        Ok(())
    }

    /// The files of a planned range in reading order.
    async fn files_between(&mut self, start: &DeltaOffset, end: &DeltaOffset) -> Result<Vec<DataFile>> {
        let mut found = self.snapshot_files_between(start, end).await?;
        let mut version = start.mark.version + u64::from(start.stage == Stage::FirstSnapshot);
        while Mark::before(version) < end.mark {
            let Some(commit) = self.commits.commit(version, Expect::Certainly).await? else { break };
            if Mark::before(commit.version) < end.mark {
                let files = self.judged(&commit)?;
                let inside = (0..).zip(files).filter(|(file, _)| lies_between(start.mark, end.mark, commit.version, *file));
                found.extend(inside.map(|(_, file)| file.clone()));
            }
            version = commit.version + 1;
        }
        found.retain(|file| self.options.wants(&file.path));
        Ok(found)
    }

    async fn snapshot_files_between(&mut self, start: &DeltaOffset, end: &DeltaOffset) -> Result<Vec<DataFile>> {
        if start.stage != Stage::FirstSnapshot {
            return Ok(Vec::new());
        }
        let files = self.snapshot_files(start.mark.version).await?;
        let inside = (0..).zip(files.iter()).filter(|(file, _)| lies_between(start.mark, end.mark, start.mark.version, *file));
        Ok(inside.map(|(_, file)| file.clone()).collect())
    }

    /// What a planned range of the change feed is read from.
    async fn changes_between(&mut self, start: &DeltaOffset, end: &DeltaOffset) -> Result<Vec<feed::Changes>> {
        let mut grouped = Grouped::default();
        let mut version = start.mark.version + u64::from(start.stage == Stage::FirstSnapshot || start.mark.file.is_some());
        while Mark::before(version) < end.mark {
            let Some(commit) = self.commits.commit(version, Expect::Certainly).await? else { break };
            if Mark::before(commit.version) < end.mark {
                self.judged(&commit)?;
                grouped.take(&commit);
            }
            version = commit.version + 1;
        }
        Ok(grouped.into_groups())
    }

    fn table_scan(&mut self, scan: &Scan) -> Result<Arc<TableScan>> {
        if let Some((columns, made)) = &self.scan
            && *columns == scan.columns
        {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(TableScan::new(&self.table, &self.options.schema(&self.table), self.options.loss, scan)?);
        self.scan = Some((scan.columns.clone(), Arc::clone(&made)));
        Ok(made)
    }

    fn outstanding(&self, processed: Option<&Offset>) -> Option<waiting::Outstanding> {
        let offset = match processed {
            Some(offset) => self.parse(offset).ok()?,
            None => self.beginning.clone()?,
        };
        let snapshot = self.snapshot.as_ref().filter(|(version, _)| *version == offset.mark.version);
        Some(self.waiting.behind(&offset, snapshot.map_or(&[][..], |(_, files)| files.as_slice())))
    }
}

impl DeltaSourceOptions {
    fn schema(&self, table: &SourceTable) -> SchemaRef {
        if self.change_feed { feed::schema(&table.schema) } else { Arc::clone(&table.schema) }
    }

    /// The files of a commit that the stream reads, by which offsets count.
    fn files_of<'a>(&self, commit: &'a Commit, url: &str) -> Result<&'a [DataFile]> {
        if self.change_feed { Ok(&commit.changes) } else { commit.readable(self.changes, url) }
    }
}

fn description(table: &SourceTable) -> String {
    format!("DeltaSource[{}]", table.path())
}

#[async_trait]
impl Source for DeltaSource {
    fn schema(&self) -> SchemaRef {
        self.options.schema(&self.table)
    }

    fn description(&self) -> String {
        description(&self.table)
    }

    async fn open(&mut self, last: Option<&Offset>) -> Result<()> {
        let Some(last) = last else { return Ok(()) };
        let last = self.parse(last)?;
        // What was read last was read with the columns of its version.
        let version =
            if last.mark.file.is_none() && last.stage == Stage::Log { last.mark.version.saturating_sub(1) } else { last.mark.version };
        self.table.check_columns_at(version).await?;
        if self.options.change_feed {
            feed::check_version(version, &self.table).await?;
        }
        self.planned = Some(last);
        Ok(())
    }

    async fn initial_offset(&mut self) -> Result<Option<Offset>> {
        Ok(Some(self.begin().await?.to_offset()))
    }

    async fn freeze_available_now(&mut self) -> Result<AvailableNow> {
        self.end = EndOfRun::ToBeFrozen;
        Ok(AvailableNow::Frozen)
    }

    async fn plan(&mut self, start: Option<&Offset>, limits: ReadLimits, now_ms: i64) -> Result<PlannedRange> {
        let start = self.start_or_beginning(start).await?;
        if start.stage == Stage::Log {
            self.snapshot = None;
        }
        let bound = self.bound(&start, now_ms).await?;
        let limits = match limits {
            ReadLimits::Apply => Some(self.options.limits),
            ReadLimits::Ignore => None,
        };
        let end = self.walk(&start, bound, limits, now_ms).await?;
        if end != start {
            self.look_ahead(&end).await?;
        }
        // Nothing was read yet, and nothing is there.
        let is_nothing = self.beginning.as_ref() == Some(&end);
        Ok(PlannedRange { end: (!is_nothing).then(|| end.to_offset()), latest: None })
    }

    async fn partitions(&mut self, start: Option<&Offset>, end: &Offset, scan: &Scan) -> Result<Vec<Box<dyn PartitionReader>>> {
        let start = self.start_or_beginning(start).await?;
        let end = self.parse(end)?;
        let files = match self.options.change_feed {
            true => self.snapshot_files_between(&start, &end).await?,
            false => self.files_between(&start, &end).await?,
        };
        let changes = if self.options.change_feed { self.changes_between(&start, &end).await? } else { Vec::new() };
        if files.is_empty() && changes.is_empty() {
            return Ok(Vec::new());
        }
        let inserted = match self.options.change_feed && !files.is_empty() {
            true => Some(Inserted::at(&self.table, start.mark.version).await?),
            false => None,
        };
        let scan = self.table_scan(scan)?;
        let mut pieces = scan.resolved(files, inserted).await?;
        pieces.extend(changes.into_iter().map(Piece::Changes));
        Ok(scan.readers(pieces))
    }

    async fn commit(&mut self, end: &Offset) -> Result<()> {
        let end = self.parse(end)?;
        self.commits.forget_below(end.mark.version);
        self.waiting.forget_before(end.mark);
        Ok(())
    }

    fn metrics(&self, end: Option<&Offset>, _latest: Option<&Offset>) -> BTreeMap<String, String> {
        let Some(waiting) = self.outstanding(end) else { return BTreeMap::new() };
        BTreeMap::from([
            ("numFilesOutstanding".to_owned(), waiting.files.to_string()),
            ("numBytesOutstanding".to_owned(), waiting.bytes.to_string()),
        ])
    }

    async fn backlog(&mut self, processed: Option<&Offset>, now_ms: i64) -> Result<Backlog> {
        let Some(waiting) = self.outstanding(processed) else { return Ok(Backlog::default()) };
        let seconds = waiting.oldest_ms.map_or(0.0, |oldest| (now_ms - oldest).max(0) as f64 / 1000.0);
        Ok(Backlog { records: None, bytes: Some(waiting.bytes), files: Some(waiting.files), seconds: Some(seconds) })
    }
}
