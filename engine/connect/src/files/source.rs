//! The streaming file source.
//!
//! A step of its offset `{"logOffset":k}` is one entry of the source log; the
//! entry is written while planning, before the offset is returned, so a step
//! once named always means the same files (Spark's `FileStreamSource`). After a
//! crash between the two, the next plan covers the files that are logged and
//! unread. Reading is in `read`, choosing in `select`, forgetting in `seen`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use weir_core::storage::Storage;
use weir_core::{Error, Offset, Result};

use super::clean::Cleaner;
use super::compactible::{CompactibleLog, LogSettings};
use super::listing::{self, FoundFile, Origin};
use super::location::Location;
use super::options::{CleanSource, FileSourceOptions, Order};
use super::read::{FileTask, ReadSettings, Unreadable, partition_readers};
use super::schema::{self, FileSchema};
use super::seen::SeenFiles;
use super::select::{Caching, Limit, Selected, select};
use super::source_log::{self, FileEntry, step_of};
use crate::open::{MalformedRecords, SourceContext, SourcePlace};
use crate::options::Options;
use crate::source::{AvailableNow, Backlog, PartitionReader, PlannedRange, PreparedSource, ReadLimits, Scan, Source};

/// The most partitions of one batch; a lane reads several.
const MAX_PARTITIONS: usize = 32;

/// A folder or glob with its options, read and listed once for the schema.
pub struct FileStream {
    location: Location,
    options: FileSourceOptions,
    settings: Arc<ReadSettings>,
    schema: FileSchema,
    storage: Storage,
    cleaner: Cleaner,
    log_settings: LogSettings,
}

/// A stream of the files of a folder or glob.
pub struct FileStreamSource {
    stream: FileStream,
    log: CompactibleLog<FileEntry>,
    /// The newest step in the log.
    log_offset: Option<u64>,
    committed: Option<u64>,
    seen: SeenFiles,
    cached: Vec<FoundFile>,
    frozen: Option<Vec<FoundFile>>,
    /// What the last listing had and no step has.
    left: Outstanding,
    /// Steps that were planned and perhaps not yet processed.
    steps: BTreeMap<u64, Outstanding>,
}

/// Files that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outstanding {
    files: u64,
    bytes: u64,
    oldest_ms: Option<i64>,
}

impl Outstanding {
    fn plus(self, other: Self) -> Self {
        let oldest_ms = match (self.oldest_ms, other.oldest_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { files: self.files + other.files, bytes: self.bytes + other.bytes, oldest_ms }
    }

    fn of(files: &[FoundFile]) -> Self {
        Self {
            files: files.len() as u64,
            bytes: files.iter().map(|file| file.size).sum(),
            oldest_ms: files.iter().map(|file| file.modified_ms).min(),
        }
    }
}

fn offset_of(step: u64) -> Offset {
    Offset::new(format!("{{\"logOffset\":{step}}}"))
}

impl FileStream {
    /// Reads options, lists the files once for partition columns and settles the schema.
    pub async fn prepare(format: &str, options: &Options, declared: Option<SchemaRef>, context: SourceContext) -> Result<Self> {
        let SourceContext { storage, conf, malformed } = context;
        let file_options = FileSourceOptions::parse(format, options)?;
        let location = Location::new(&file_options.path, &storage)?;
        if !location.is_pattern() && !listing::exists(&location).await? {
            return Err(listing::path_not_found(location.text()));
        }
        let cleaner = Cleaner::new(&file_options.clean, &location, &storage)?;
        let mut read = super::read::FormatOptions::parse(format, options, &conf)?;
        let apart = malformed == MalformedRecords::SetApart && read.set_malformed_apart()?;
        let malformed = if apart { MalformedRecords::SetApart } else { MalformedRecords::ByMode };
        let listed = listing::list(&location, &file_options.listing, &storage).await?;
        refuse_cleaning_a_sink(&listed.origin, &file_options.clean)?;
        let schema = schema::for_stream(&read, declared, &listed, &file_options.listing, &conf, location.folder().store()).await?;
        let unreadable = Unreadable::parse(options, &conf)?;
        let settings = ReadSettings::new(read, schema.clone(), location.folder().store().clone(), unreadable);
        let settings = Arc::new(settings.with_malformed(malformed));
        let log_settings = LogSettings::from_conf(&conf, "fileSource")?;
        Ok(Self { location, options: file_options, settings, schema, storage, cleaner, log_settings })
    }
}

#[async_trait]
impl PreparedSource for FileStream {
    fn schema(&self) -> SchemaRef {
        self.schema.table.clone()
    }

    fn sets_malformed_apart(&self) -> bool {
        self.settings.sets_malformed_apart()
    }

    async fn bind(self: Box<Self>, place: SourcePlace) -> Result<Box<dyn Source>> {
        Ok(Box::new(FileStreamSource::new(*self, place).await?))
    }
}

impl FileStreamSource {
    /// The stream with its log in the checkpoint.
    pub async fn new(stream: FileStream, place: SourcePlace) -> Result<Self> {
        Ok(Self {
            seen: SeenFiles::new(stream.options.identity, stream.options.max_file_age_ms),
            log: CompactibleLog::open(place.log, stream.log_settings).await?,
            stream,
            log_offset: None,
            committed: None,
            cached: Vec::new(),
            frozen: None,
            left: Outstanding::default(),
            steps: BTreeMap::new(),
        })
    }

    /// New files in reading order.
    async fn new_files(&self) -> Result<Vec<FoundFile>> {
        let listed = listing::list(&self.stream.location, &self.stream.options.listing, &self.stream.storage).await?;
        refuse_cleaning_a_sink(&listed.origin, &self.stream.options.clean)?;
        let mut files = listed.files;
        files.retain(|file| self.seen.is_new(&file.uri, file.modified_ms));
        match self.stream.options.order {
            Order::OldestFirst => files.sort_by_key(|file| file.modified_ms),
            Order::NewestFirst => files.sort_by_key(|file| std::cmp::Reverse(file.modified_ms)),
        }
        Ok(files)
    }

    async fn select(&mut self, limit: Limit) -> Result<Selected> {
        if let Some(frozen) = self.frozen.take() {
            let keep_all = Caching { max_files: usize::MAX, discard_ratio: 0.0 };
            let mut selected = select(frozen, limit, Some(keep_all));
            self.frozen = Some(std::mem::take(&mut selected.cached));
            return Ok(selected);
        }
        let files = if self.cached.is_empty() { self.new_files().await? } else { std::mem::take(&mut self.cached) };
        let caching = (self.stream.options.order == Order::OldestFirst).then_some(self.stream.options.caching);
        let mut selected = select(files, limit, caching);
        self.cached = std::mem::take(&mut selected.cached);
        Ok(selected)
    }

    /// Writes the next step; files that an earlier life logged there win.
    async fn log_step(&mut self, batch: &[FoundFile], now_ms: i64) -> Result<()> {
        let step = self.log_offset.map_or(0, |step| step + 1);
        let entry = |file: &FoundFile| FileEntry { path: file.uri.clone(), timestamp: file.modified_ms, batch_id: step };
        let ours: Vec<FileEntry> = batch.iter().map(entry).collect();
        let counted = source_log::add(&self.log, step, ours.clone()).await?;
        if counted != ours {
            for entry in &ours {
                self.seen.remove(&entry.path);
            }
            self.cached.clear();
        }
        for entry in &counted {
            self.seen.add(&entry.path, entry.timestamp);
        }
        if let Some(frozen) = self.frozen.as_mut().filter(|_| counted != ours) {
            // A run that ends takes each of its files once: those that the entry names are gone, and ours wait again in their place.
            frozen.splice(0..0, batch.iter().cloned());
            frozen.retain(|file| !self.seen.has(&file.uri));
        }
        self.log_offset = Some(step);
        self.steps.insert(step, Outstanding { files: counted.len() as u64, ..Outstanding::of(batch) });
        if self.log.is_compaction(step) {
            self.log.delete_expired(step, now_ms).await?;
        }
        Ok(())
    }
}

fn refuse_cleaning_a_sink(origin: &Origin, clean: &CleanSource) -> Result<()> {
    if *origin == Origin::SinkLog && *clean != CleanSource::Off {
        let text = "Clean up source files is not supported when reading from the output directory of FileStreamSink.";
        return Err(Error::config("UNSUPPORTED_CLEAN_SOURCE", format!("{text} Remove the option cleanSource.")));
    }
    Ok(())
}

#[async_trait]
impl Source for FileStreamSource {
    fn schema(&self) -> SchemaRef {
        self.stream.schema.table.clone()
    }

    fn description(&self) -> String {
        format!("FileStreamSource[{}]", self.stream.location.qualified())
    }

    async fn open(&mut self, last: Option<&Offset>) -> Result<()> {
        let (latest, entries) = source_log::known(&self.log, step_of(last)?).await?;
        self.log_offset = latest;
        if latest.is_some() {
            for entry in entries {
                self.seen.add(&entry.path, entry.timestamp);
            }
            self.seen.purge();
        }
        Ok(())
    }

    async fn initial_offset(&mut self) -> Result<Option<Offset>> {
        Ok(None)
    }

    async fn freeze_available_now(&mut self) -> Result<AvailableNow> {
        self.frozen = Some(self.new_files().await?);
        Ok(AvailableNow::Frozen)
    }

    async fn plan(&mut self, start: Option<&Offset>, limits: ReadLimits, now_ms: i64) -> Result<PlannedRange> {
        step_of(start)?;
        let limit = match limits {
            ReadLimits::Apply => self.stream.options.limit,
            ReadLimits::Ignore => Limit::All,
        };
        let selected = self.select(limit).await?;
        self.left = Outstanding { files: selected.left_files, bytes: selected.left_bytes, oldest_ms: selected.left_oldest_ms };
        if !selected.batch.is_empty() {
            self.log_step(&selected.batch, now_ms).await?;
            self.seen.purge();
        }
        Ok(PlannedRange { end: self.log_offset.map(offset_of), latest: None })
    }

    async fn partitions(&mut self, start: Option<&Offset>, end: &Offset, scan: &Scan) -> Result<Vec<Box<dyn PartitionReader>>> {
        let from = step_of(start)?.map_or(0, |step| step + 1);
        let Some(to) = step_of(Some(end))? else { return Ok(Vec::new()) };
        if from > to {
            return Ok(Vec::new());
        }
        let mut tasks = Vec::new();
        for entry in source_log::steps(&self.log, from, to).await? {
            let path = self.stream.location.spelling().path(&entry.path)?;
            let root_depth = self.partition_root(&path);
            tasks.push(FileTask { path, uri: entry.path, root_depth });
        }
        partition_readers(&self.stream.settings, tasks, scan, MAX_PARTITIONS)
    }

    async fn commit(&mut self, end: &Offset) -> Result<()> {
        let Some(to) = step_of(Some(end))? else { return Ok(()) };
        if self.stream.cleaner.is_active() {
            let from = self.committed.map_or(to, |step| step + 1);
            if from <= to {
                for entry in source_log::steps(&self.log, from, to).await? {
                    self.stream.cleaner.clean(&entry.path).await;
                }
            }
        }
        self.committed = Some(to);
        Ok(())
    }

    fn metrics(&self, end: Option<&Offset>, _latest: Option<&Offset>) -> BTreeMap<String, String> {
        let waiting = self.waiting_behind(step_of(end).ok().flatten());
        BTreeMap::from([
            ("numFilesOutstanding".to_owned(), waiting.files.to_string()),
            ("numBytesOutstanding".to_owned(), waiting.bytes.to_string()),
        ])
    }

    async fn backlog(&mut self, processed: Option<&Offset>, now_ms: i64) -> Result<Backlog> {
        let processed = step_of(processed)?;
        let waiting = self.waiting_behind(processed);
        if let Some(processed) = processed {
            self.steps.retain(|step, _| *step > processed);
        }
        let seconds = waiting.oldest_ms.map_or(0.0, |oldest| (now_ms - oldest).max(0) as f64 / 1000.0);
        Ok(Backlog { records: None, bytes: Some(waiting.bytes), files: Some(waiting.files), seconds: Some(seconds) })
    }
}

impl FileStreamSource {
    fn waiting_behind(&self, processed: Option<u64>) -> Outstanding {
        let planned = self.steps.iter().filter(|(step, _)| processed.is_none_or(|processed| **step > processed));
        planned.fold(self.left, |sum, (_, step)| sum.plus(*step))
    }

    fn partition_root(&self, path: &object_store::path::Path) -> usize {
        self.stream.schema.base_depth.or_else(|| self.stream.location.root_depth(path)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests;
