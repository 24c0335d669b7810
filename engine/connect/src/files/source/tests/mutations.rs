//! A checkpoint that somebody has changed by hand: a run refuses it, or every row still comes once; and whoever verifies it
//! says what the run says.
//!
//! A query of files with a fenced sink, its steps those of the driver; only reading is left out: a batch is its files.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::Index;
use weir_core::checkpoint::inspect::inspect;
use weir_core::checkpoint::query::Planned;
use weir_core::checkpoint::{BindSink, Claimant, CommitEntry, OffsetEntry, Owner, QueryLog, Recorded, Recovery, claim};
use weir_core::{ErrorClass, Result};

use super::super::*;
use crate::source_logs;
use crate::testing::{source_context, storage};

const SINK: &str = r#"{"format":"delta","location":"file:///out"}"#;
/// More than one file a step, and more steps than a compaction has.
const FILES: u64 = 25;
const RETAIN: u64 = 4;

/// What the sink holds, by batch.
type Sink = BTreeMap<u64, Vec<String>>;

struct World {
    dir: tempfile::TempDir,
    sink: Sink,
}

/// Where a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Nothing is new.
    Done,
    /// The batch is planned.
    Planned(u64),
    /// The sink has it.
    Sunk(u64),
}

impl World {
    fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap(), sink: Sink::new() };
        std::fs::create_dir(world.dir.path().join("in")).unwrap();
        (0..FILES).for_each(|file| world.add(file));
        world
    }

    fn add(&self, file: u64) {
        let path = self.dir.path().join(format!("in/{file}.txt"));
        std::fs::write(&path, "x\n").unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000 + file);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }

    fn checkpoint(&self) -> PathBuf {
        self.dir.path().join("ck")
    }

    async fn run(&mut self, epoch: u64, until: Until) -> Result<()> {
        let root = storage().open(self.checkpoint().to_str().unwrap())?;
        let text = |text: &str| text.to_owned();
        let owner = Owner { job_uid: text("uid"), namespace: text("n"), job: text("j"), task: text("t"), query: text("q") };
        let claimant = Claimant {
            owner,
            epoch,
            instance: uuid::Uuid::new_v4(),
            pod_uid: None,
            adopt: None,
            now_ms: 1_700_000_000_000,
            new_query_id: uuid::Uuid::new_v4(),
        };
        let log = QueryLog::new(root.clone(), claim(&root, &claimant).await?);
        let input = self.dir.path().join("in");
        let options = Options::new([("path", input.to_str().unwrap()), ("maxFilesPerTrigger", "2")]);
        let stream = FileStream::prepare("text", &options, None, source_context()).await?;
        let mut source = FileStreamSource::new(stream, SourcePlace { log: log.source_log(0), query_id: log.query_id() }).await?;
        let bound = log.bind_sink(BindSink::Rows, SINK, 0).await?;
        let recorded = self.sink.last_key_value().map(|(batch, _)| *batch);
        let read = || async move { Ok(Recorded { rows: recorded, bad_records: None }) };
        let (recovery, recorded) = log.recover(read, Some(bound.since), 1, source_logs::went_back).await?;
        log.claim().clean_up().await?;
        let (mut batch, mut start, last, mut replay) = match recovery {
            Recovery::Fresh => (0, None, None, None),
            Recovery::Next { batch, last, .. } => (batch, last.offsets[0].clone(), last.offsets[0].clone(), None),
            Recovery::Replay { batch, plan, before } => {
                (batch, before.and_then(|before| before.offsets[0].clone()), plan.offsets[0].clone(), Some(plan))
            }
        };
        source.open(last.as_ref()).await?;
        log.purge_all(batch, RETAIN).await?;
        source.freeze_available_now().await?;
        loop {
            let plan = match replay.take() {
                Some(plan) => plan,
                None => {
                    let end = source.plan(start.as_ref(), ReadLimits::Apply, 0).await?.end;
                    if end.is_none() || end == start {
                        return Ok(());
                    }
                    let entry = OffsetEntry { watermark_ms: 0, timestamp_ms: 1_700_000_000_000, conf: BTreeMap::new(), offsets: vec![end] };
                    match log.plan(batch, &entry).await? {
                        Planned::AsProposed => entry,
                        Planned::Stored(stored) => stored,
                    }
                }
            };
            log.purge(batch, RETAIN).await?;
            if until == Until::Planned(batch) {
                return Ok(());
            }
            let end = plan.offsets[0].clone();
            if recorded.is_none_or(|recorded| recorded < batch) {
                let from = step_of(start.as_ref())?.map_or(0, |step| step + 1);
                let to = step_of(end.as_ref())?.unwrap_or(0);
                let files = if from > to { Vec::new() } else { source_log::steps(&source.log, from, to).await? };
                self.sink.insert(batch, files.into_iter().map(|entry| entry.path).collect());
            }
            if until == Until::Sunk(batch) {
                return Ok(());
            }
            log.commit(batch, &CommitEntry::default()).await?;
            (batch, start) = (batch + 1, end);
        }
    }

    async fn verified(&self) -> Vec<String> {
        let root = storage().open(self.checkpoint().to_str().unwrap()).unwrap();
        let mut found = inspect(&root).await.unwrap();
        found.damage.extend(source_logs::damage(&root, &found).await.unwrap());
        found.damage
    }

    /// The checkpoint's files, in order.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.checkpoint()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        found
    }
}

/// What is done to one file.
#[derive(Clone, Debug)]
enum Change {
    Delete,
    Cut(Index),
    Byte(Index, u8),
    Append(String),
    /// The number in the text that the index picks.
    Number(Index, &'static str),
    /// Its text under another's name.
    Over(Index),
    /// Its text under a name of its own beside it.
    Beside(&'static str),
    Folder,
    LinkToNowhere,
    NoText,
}

fn change() -> impl Strategy<Value = Change> {
    let numbers = prop::sample::select(vec!["-1", "0", "1", "3", "9223372036854775807", "18446744073709551615", "\"5\"", "null", "[]"]);
    let names = prop::sample::select(vec!["6", "7", "12", "13", "14", "007", "19.compact", "18446744073709551615", "000000000009"]);
    prop_oneof![
        2 => Just(Change::Delete),
        2 => any::<Index>().prop_map(Change::Cut),
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        1 => "[ -~\n]{1,9}".prop_map(Change::Append),
        6 => (any::<Index>(), numbers).prop_map(|(at, number)| Change::Number(at, number)),
        3 => any::<Index>().prop_map(Change::Over),
        3 => names.prop_map(Change::Beside),
        1 => Just(Change::Folder),
        1 => Just(Change::LinkToNowhere),
        1 => Just(Change::NoText),
    ]
}

fn apply(change: &Change, path: &Path, files: &[PathBuf]) {
    let bytes = std::fs::read(path).unwrap();
    let write = |bytes: &[u8]| std::fs::write(path, bytes).unwrap();
    match change {
        Change::Delete => std::fs::remove_file(path).unwrap(),
        Change::Cut(at) => write(&bytes[..at.index(bytes.len() + 1)]),
        Change::Byte(at, byte) => {
            let mut bytes = bytes.clone();
            if let Some(place) = (!bytes.is_empty()).then(|| at.index(bytes.len())) {
                bytes[place] = *byte;
            }
            write(&bytes);
        }
        Change::Append(text) => write(&[&bytes, text.as_bytes()].concat()),
        Change::Number(at, number) => {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let numbers: Vec<regex::Match<'_>> = regex::Regex::new("[0-9]+").unwrap().find_iter(&text).collect::<Vec<_>>();
            if let Some(found) = (!numbers.is_empty()).then(|| at.get(&numbers)) {
                write(format!("{}{number}{}", &text[..found.start()], &text[found.end()..]).as_bytes());
            }
        }
        Change::Over(other) => std::fs::write(other.get(files), &bytes).unwrap(),
        Change::Beside(name) => std::fs::write(path.with_file_name(name), &bytes).unwrap(),
        Change::Folder => {
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
        }
        Change::LinkToNowhere => {
            std::fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink("nowhere", path).unwrap();
        }
        Change::NoText => write(b"v1\n\xff\xfe"),
    }
}

/// What only a run can know: whose checkpoint it is, and what the sink holds.
const OF_THE_WORLD: [&str; 5] = [
    "CHECKPOINT_OWNED_BY_ANOTHER",
    "CHECKPOINT_SINK_CHANGED",
    "CHECKPOINT_BEHIND_SINK",
    "SINK_BEHIND_CHECKPOINT",
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
];

async fn changed_by_hand(until: Until, at: Index, change: Change) {
    let mut world = World::new();
    world.run(1, until).await.unwrap();
    assert_eq!(world.verified().await, Vec::<String>::new());
    let files = world.files();
    let path = at.get(&files).clone();
    apply(&change, &path, &files);
    (FILES..FILES + 3).for_each(|file| world.add(file));
    let told = world.verified().await;
    let begun = std::time::Instant::now();
    match world.run(2, Until::Done).await {
        Ok(()) => {
            let mut seen: Vec<&String> = world.sink.values().flatten().collect();
            let all = seen.len();
            seen.sort();
            seen.dedup();
            assert_eq!((seen.len(), all as u64), (all, FILES + 3), "rows twice or lost: {change:?} of {}", path.display());
        }
        Err(error) => {
            assert!(matches!(error.class(), ErrorClass::Incompatible | ErrorClass::Fenced), "{change:?} of {}: {error}", path.display());
            let is_told = !told.is_empty() || error.class() == ErrorClass::Fenced || OF_THE_WORLD.contains(&error.condition());
            assert!(is_told, "{change:?} of {} passes a verification: {error}", path.display());
            assert!(
                error.class() == ErrorClass::Fenced
                    || error.message().contains("restore")
                    || error.message().contains("checkpointLocation"),
                "{error}"
            );
        }
    }
    assert!(begun.elapsed().as_secs() < 60);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(90) })]

    #[test]
    fn a_changed_checkpoint_is_refused_or_does_no_harm(
        until in prop_oneof![Just(Until::Done), (2..13_u64).prop_map(Until::Planned), (2..13_u64).prop_map(Until::Sunk)],
        at in any::<Index>(),
        change in change(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(changed_by_hand(until, at, change));
    }
}
