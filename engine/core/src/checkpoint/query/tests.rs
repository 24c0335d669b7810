//! Recovery against a predecessor that finishes its batch meanwhile.
#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use super::*;
use crate::checkpoint::{Claimant, Owner, claim};
use crate::error::ErrorClass;
use crate::offset::Offset;
use crate::storage::{Durability, Storage};

async fn claimed(root: &Folder, epoch: u64) -> QueryLog {
    let owner =
        Owner { job_uid: "uid".into(), namespace: "default".into(), job: "orders".into(), task: "bronze".into(), query: "readings".into() };
    let new_query_id = Uuid::from_u128(7);
    let claimant = Claimant { owner, epoch, instance: Uuid::new_v4(), pod_uid: None, adopt: None, now_ms: 0, new_query_id };
    QueryLog::new(root.clone(), claim(root, &claimant).await.unwrap())
}

fn entry(end: u64) -> OffsetEntry {
    OffsetEntry { watermark_ms: 0, timestamp_ms: 0, conf: Default::default(), offsets: vec![Some(Offset::new(end.to_string()))] }
}

#[tokio::test]
async fn a_batch_finished_after_the_sink_was_read_is_no_lost_batch() {
    let dir = tempfile::tempdir().unwrap();
    let root = Storage::new(Durability::PageCache).open(dir.path().to_str().unwrap()).unwrap();
    let predecessor = claimed(&root, 1).await;
    predecessor.plan(0, &entry(1)).await.unwrap();
    let successor = claimed(&root, 2).await;
    let (sink, readings) = (Mutex::new(None), Mutex::new(0));
    let read = || async {
        let seen = *sink.lock().unwrap();
        *readings.lock().unwrap() += 1;
        if seen.is_none() {
            // Past its last look at the fence, the predecessor ends its batch.
            *sink.lock().unwrap() = Some(0);
            predecessor.commit(0, &CommitEntry::default()).await?;
        }
        Ok(Recorded { rows: seen, bad_records: None })
    };
    let (recovery, recorded) = successor.recover(read, Some(0), 1, |_, _| None).await.unwrap();
    assert_eq!(recovery, Recovery::Next { batch: 1, last: entry(1), watermark_ms: 0 });
    assert_eq!((recorded, *readings.lock().unwrap()), (Some(0), 2));
}

#[tokio::test]
async fn a_sink_that_stays_behind_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = Storage::new(Durability::PageCache).open(dir.path().to_str().unwrap()).unwrap();
    let log = claimed(&root, 1).await;
    log.plan(0, &entry(1)).await.unwrap();
    log.commit(0, &CommitEntry::default()).await.unwrap();
    let error = log.recover(|| async { Ok(Recorded::default()) }, Some(0), 1, |_, _| None).await.unwrap_err();
    assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "SINK_BEHIND_CHECKPOINT"));
}

#[tokio::test]
async fn a_sink_made_anew_under_its_name_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let root = Storage::new(Durability::PageCache).open(dir.path().to_str().unwrap()).unwrap();
    let log = claimed(&root, 1).await;
    let sink = |location: &str, id: &str| format!(r#"{{"format":"kafka","location":"{location}","tableId":"{id}"}}"#);
    assert!(log.bind_sink(BindSink::Rows, &sink("t", "A"), 0).await.unwrap().is_new);
    assert!(log.bind_sink(BindSink::Rows, &sink("t", "A"), 0).await.unwrap().is_new, "the same process, whose answer got lost");
    let log = claimed(&root, 2).await;
    assert!(log.bind_sink(BindSink::Rows, &sink("t", "A"), 0).await.unwrap().is_new, "its process ended before rows could come");
    log.sink_begins(BindSink::Rows, 0).await.unwrap();
    let log = claimed(&root, 3).await;
    assert!(!log.bind_sink(BindSink::Rows, &sink("t", "A"), 0).await.unwrap().is_new);
    for (now, words) in
        [(sink("t", "B"), "deleted and made anew (its id was \"A\" and is \"B\")"), (sink("u", "A"), "was written for the sink")]
    {
        let error = log.bind_sink(BindSink::Rows, &now, 0).await.unwrap_err();
        assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "CHECKPOINT_SINK_CHANGED"));
        assert!(error.to_string().contains(words) && error.to_string().contains("checkpointResetNonce"), "{error}");
        assert!(!error.to_string().contains(INSTANCE) && !error.to_string().contains(SINCE), "{error}");
    }
    assert!(log.bind_sink(BindSink::Rows, &sink("t", "B"), 1).await.unwrap().is_new);
    // Earlier versions left nothing to tell when rows might come.
    root.create_new("_weir/sink.2", sink("t", "C")).await.unwrap();
    assert!(!log.bind_sink(BindSink::Rows, &sink("t", "C"), 2).await.unwrap().is_new);
}

#[tokio::test]
async fn the_table_of_a_sink_is_kept_to_once_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let root = Storage::new(Durability::PageCache).open(dir.path().to_str().unwrap()).unwrap();
    let log = claimed(&root, 1).await;
    let (bad, refused) = (BindSink::BadRecords, |error: Error| (error.class(), error.condition().to_owned(), error.to_string()));
    // Made after the sink was bound.
    log.bind_sink(bad, r#"{"format":"delta","location":"t"}"#, 0).await.unwrap();
    log.bind_table(bad, None, 0).await.unwrap();
    for id in ["A", "A"] {
        log.bind_table(bad, Some(id), 0).await.unwrap();
    }
    for (now, words) in [(None, "was deleted:"), (Some("B"), "was deleted and made anew (its id is B now)")] {
        let (class, condition, text) = refused(log.bind_table(bad, now, 0).await.unwrap_err());
        assert_eq!((class, condition.as_str()), (ErrorClass::Incompatible, "CHECKPOINT_SINK_CHANGED"));
        assert!(text.contains(words) && text.contains("(id A)") && text.contains("checkpointResetNonce"), "{text}");
    }
    log.bind_table(bad, None, 1).await.unwrap();
    log.bind_table(bad, Some("B"), 1).await.unwrap();
    // There when the sink was bound.
    log.bind_sink(bad, r#"{"format":"delta","location":"t","tableId":"C"}"#, 2).await.unwrap();
    assert!(refused(log.bind_table(bad, None, 2).await.unwrap_err()).2.contains("(id C)"));
}
