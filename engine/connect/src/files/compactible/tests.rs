//! The log format against texts that Spark wrote, and compaction against none.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::files::seen::{Identity, SeenFiles};
use crate::files::sink_log::SinkFileStatus;
use crate::files::source_log::{self, FileEntry};
use crate::testing::source_place;

// Written by Spark 4.2.
const SOURCE_LOG: &str = "v1\n{\"path\":\"file:///tmp/pst/in%20dir/é%20f%2500.json\",\"timestamp\":1700000000000,\"batchId\":0}\n{\"path\":\"file:///tmp/pst/in%20dir/é%20f%2501.json\",\"timestamp\":1700000001000,\"batchId\":1}";
const SINK_LOG: &str = "v1\n{\"path\":\"file:///tmp/pst/out/k=a%20b/part-00000-1f2dd6c3-59a0-4b4c-8a0c-6b1f4a0ce4c4.c000.json\",\"size\":8,\"isDir\":false,\"modificationTime\":1796003771000,\"blockReplication\":1,\"blockSize\":33554432,\"action\":\"add\"}";

fn settings(interval: u64) -> LogSettings {
    LogSettings { compact_interval: interval, deletion: true, cleanup_delay_ms: 0, min_batches: 2 }
}

#[test]
fn sparks_texts_survive_reading_and_writing() {
    let source: Vec<FileEntry> = parse(SOURCE_LOG.as_bytes(), "0").unwrap();
    assert_eq!((source.len(), source[1].batch_id), (2, 1));
    let written = render(0, &source).unwrap();
    assert!(written.contains("\"batchId\":0,\"weirChecksum\":\"") && written.ends_with(SOURCE_LOG.lines().last().unwrap()), "{written}");
    assert_eq!(parse::<FileEntry>(written.as_bytes(), "ck/sources/0/0").unwrap(), source);
    for (changed, name) in
        [(written.replace("01.json", "02.json"), "0"), (written.clone(), "1"), (written[..written.rfind('\n').unwrap()].to_owned(), "0")]
    {
        let error = parse::<FileEntry>(changed.as_bytes(), name).unwrap_err().to_string();
        assert!(error.contains("its text was changed") && error.contains("restore it"), "{error}");
    }
    let sink: Vec<SinkFileStatus> = parse(SINK_LOG.as_bytes(), "0").unwrap();
    assert_eq!(render(0, &sink).unwrap(), SINK_LOG);
    assert!(parse::<FileEntry>(b"v1", "0").unwrap().is_empty());
    for damaged in ["", "v2\n", "{}", "v1\n{\"path\":"] {
        assert!(parse::<FileEntry>(damaged.as_bytes(), "0").is_err(), "{damaged}");
    }
}

#[test]
fn the_interval_of_a_log_wins_as_in_spark() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(interval_for(&names(&["0", "1"]), 10), 10);
    assert_eq!(interval_for(&names(&["2.compact", "5.compact", "6"]), 10), 3);
    assert_eq!(interval_for(&names(&["11.compact", "12"]), 5), 6);
    assert_eq!(interval_for(&names(&["2.compact"]), 10), 3);
    assert_eq!(interval_for(&names(&["6.compact"]), 5), 7);
    assert_eq!(interval_for(&names(&["23.compact"]), 5), 6);
    assert_eq!(interval_for(&names(&["999999999988.compact"]), 10), 999_999_999_989, "a prime, found at once");
    assert_eq!(name_of(9, 10), "9.compact");
    assert_eq!(id_of("19.compact"), Some(19));
    assert_eq!(id_of(".9.crc"), None);
}

async fn filled(interval: u64, steps: &[Vec<u8>], checkpoint: &std::path::Path) -> CompactibleLog<FileEntry> {
    let log = CompactibleLog::open(source_place(checkpoint).log, settings(interval)).await.unwrap();
    for (id, files) in steps.iter().enumerate() {
        let id = id as u64;
        let entry = |file: &u8| FileEntry { path: format!("file:///{file}"), timestamp: i64::from(*file), batch_id: id };
        source_log::add(&log, id, files.iter().map(entry).collect()).await.unwrap();
        log.delete_expired(id, i64::MAX).await.unwrap();
    }
    CompactibleLog::open(source_place(checkpoint).log, settings(interval)).await.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn compaction_and_deletion_lose_nothing(
        steps in proptest::collection::vec(proptest::collection::vec(0u8..100, 1..4), 1..25),
        interval in 1u64..6,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let log = filled(interval, &steps, dir.path()).await;
            let latest = log.latest().await.unwrap().unwrap();
            assert_eq!(latest, steps.len() as u64 - 1);
            let (mut restored, mut expected) = (SeenFiles::new(Identity::Uri, i64::MAX), SeenFiles::new(Identity::Uri, i64::MAX));
            for entry in log.all(latest).await.unwrap() {
                restored.add(&entry.path, entry.timestamp);
            }
            for file in steps.iter().flatten() {
                expected.add(&format!("file:///{file}"), i64::from(*file));
            }
            assert_eq!(restored.len(), expected.len());
            for (id, files) in steps.iter().enumerate() {
                let step = source_log::steps(&log, id as u64, id as u64).await;
                // The newest step is never a deleted one's business.
                if let Ok(step) = step {
                    let found: Vec<String> = step.iter().map(|entry| entry.path.clone()).collect();
                    let wanted: Vec<String> = files.iter().map(|file| format!("file:///{file}")).collect();
                    assert_eq!(found, wanted);
                } else {
                    panic!("step {id} is lost");
                }
            }
            let kept = std::fs::read_dir(dir.path().join("sources/0")).unwrap().count() as u64;
            assert!(kept <= 2 * interval + 3, "{kept} files stay");
        });
    }
}
