//! A log that somebody cut, emptied or lost a file of: the file is named, and what the message advises works.

use super::*;
use crate::delta::location::commit_name;
use crate::delta::state::kernel_snapshot;

/// What the sink and a reader say of the table; both the same file, for good.
async fn told(query: &Query, path: &str) -> String {
    let opened = query.open(kv(&[]).schema()).await.err().expect("the sink opens");
    let read = crate::delta::open_table(path, &BTreeMap::new(), &storage()).await.err().expect("the table is read");
    for error in [&opened, &read] {
        assert_eq!((error.class(), error.condition()), (ErrorClass::Incompatible, "DELTA_LOG_DAMAGED"), "{error}");
    }
    assert_eq!(opened.to_string(), read.to_string());
    opened.to_string()
}

#[tokio::test]
async fn the_damaged_file_of_a_log_is_named_with_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    for batch in 0..3 {
        query.write(&sink, batch, &[kv(&[("a", 0)])]).await.unwrap();
    }
    let file = |version| format!("{path}/{}", commit_name(version));
    let whole = [0, 1, 2].map(|version| std::fs::read(file(version)).unwrap());
    let newest = format!("{}.json is damaged: ", "00000000000000000002");

    std::fs::write(file(2), &whole[2][..whole[2].len() - 9]).unwrap();
    let cut = told(&query, &path).await;
    assert!(cut.contains(&format!("{newest}line ")) && cut.contains("/out/_delta_log/"), "{cut}");
    std::fs::write(file(2), "").unwrap();
    let empty = told(&query, &path).await;
    assert!(empty.contains(&format!("{newest}it is empty")) && empty.contains("move it out of _delta_log"), "{empty}");
    // The sink that has read the table before meets the next entry by itself.
    std::fs::write(file(3), "\n").unwrap();
    let error = query.write(&sink, 3, &[kv(&[("a", 0)])]).await.unwrap_err().to_string();
    assert!(error.contains("_delta_log/00000000000000000003.json is damaged: it is empty"), "{error}");
    std::fs::remove_file(file(3)).unwrap();
    // As advised where there is no copy.
    std::fs::remove_file(file(2)).unwrap();
    let before = query.open(kv(&[]).schema()).await.unwrap();
    assert_eq!(before.recorded_batch(query.id).await.unwrap(), Some(1));
    assert_eq!(count(&path).await, 2);

    std::fs::write(file(2), &whole[2]).unwrap();
    std::fs::remove_file(file(1)).unwrap();
    let lost = told(&query, &path).await;
    assert!(lost.contains("00000000000000000001.json is damaged: it is missing"), "{lost}");
    std::fs::write(file(1), &whole[1]).unwrap();
    assert_eq!(count(&path).await, 3);
}

#[tokio::test]
async fn a_cut_checkpoint_of_a_log_is_named_and_a_hint_that_is_no_hint_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out").to_str().unwrap().to_owned();
    let query = Query::to(&path);
    let sink = query.open(kv(&[]).schema()).await.unwrap();
    for batch in 0..3 {
        query.write(&sink, batch, &[kv(&[("a", 0)])]).await.unwrap();
    }
    let location = TableLocation::in_folder(&storage().open(&path).unwrap());
    let (snapshot, engine) = (kernel_snapshot(&location, None).await.unwrap(), location.log_store().engine(None));
    tokio::task::spawn_blocking(move || snapshot.checkpoint(engine.as_ref(), None).map(|_| ())).await.unwrap().unwrap();
    let hint = dir.path().join("out/_delta_log/_last_checkpoint");
    let written = std::fs::read(&hint).unwrap();
    for garbage in ["", "{\"version\":", "hello"] {
        std::fs::write(&hint, garbage).unwrap();
        assert_eq!(count(&path).await, 3, "{garbage:?}");
        query.open(kv(&[]).schema()).await.unwrap();
    }
    std::fs::write(&hint, &written).unwrap();
    let checkpoint = dir.path().join("out/_delta_log/00000000000000000002.checkpoint.parquet");
    let whole = std::fs::read(&checkpoint).unwrap();
    std::fs::write(&checkpoint, &whole[..whole.len() / 2]).unwrap();
    let cut = told(&query, &path).await;
    assert!(cut.contains("00000000000000000002.checkpoint.parquet is damaged: it was cut") && cut.contains("_last_checkpoint"), "{cut}");
    // As advised where the entries are all there.
    std::fs::remove_file(&checkpoint).unwrap();
    std::fs::remove_file(&hint).unwrap();
    assert_eq!(count(&path).await, 3);
    assert_eq!(query.open(kv(&[]).schema()).await.unwrap().recorded_batch(query.id).await.unwrap(), Some(2));
}
