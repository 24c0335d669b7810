//! The change data feed as a stream, held against Spark's own reading of it.

use deltalake_core::datafusion::prelude::SessionContext;
use serde_json::{Value, json};
use weir_connect::{ReadLimits, Scan};
use weir_core::{ErrorClass, Offset};
use weir_testkit::judge::{Input, Judge};
use weir_testkit::scratch;

use super::query::{Query, kv, storage};
use super::stream::{Stream, Trigger, read_columns, rows_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_feed_has_the_rows_that_spark_reads() {
    let folder = scratch::folder("delta-feed").unwrap();
    let table = folder.path().join("src");
    let run = |sql: &str| Judge::shared().sql(&sql.replace("{t}", &format!("delta.`{}`", table.display())), &[]).unwrap();
    run("CREATE TABLE {t} (k STRING, v INT) USING delta PARTITIONED BY (k) \
         TBLPROPERTIES('delta.enableChangeDataFeed'='true', 'delta.enableDeletionVectors'='true')");
    run("INSERT INTO {t} VALUES ('a', 1), ('a', 2), ('b', 3), ('b', 4)");
    let writer = Query::to(&table);
    let sink = writer.open(kv(&[]).schema()).await.unwrap();
    writer.write(&sink, 0, &kv(&[("w", 9), ("w", 10)])).await.unwrap();
    run("DELETE FROM {t} WHERE v = 1");
    run("UPDATE {t} SET v = v + 10 WHERE k = 'b'");
    run("OPTIMIZE {t}");
    run("DELETE FROM {t} WHERE k = 'w'");
    let spark = |columns: &str| {
        let feed = Input::at("delta", &table).option("readChangeFeed", "true").option("startingVersion", "0");
        let rows = Judge::shared().query(&feed, &format!("SELECT {columns} FROM source")).unwrap().rows;
        let mut rows: Vec<Value> = rows.into_iter().map(Value::Array).collect();
        rows.sort_by_key(ToString::to_string);
        rows
    };
    let feed = |name: &str| Stream::of(&table, &folder.path().join(name)).with("readChangeFeed", "true");
    let mut whole = feed("whole").with("startingVersion", "0");
    let expected = spark("k, v, _change_type, _commit_version");
    assert_eq!(rows_of(&whole.run(Trigger::AvailableNow).await.unwrap()), expected);
    // One version at a time, in two runs, and a batch that is repeated.
    let mut cut = feed("cut").with("startingVersion", "0").with("maxFilesPerTrigger", "1");
    let mut source = cut.open().await.unwrap();
    let (first, _) = cut.next_batch(source.as_mut(), ReadLimits::Apply).await.unwrap();
    cut.committed -= 1;
    drop(source);
    let batches = cut.run(Trigger::AvailableNow).await.unwrap();
    assert_eq!((batches[0].rows.clone(), batches.len()), (first.rows, 6), "five versions with changes, and an idle one");
    assert_eq!(rows_of(&batches), expected);
    // The same as a static table.
    let as_table = async |bounds: &[(&str, &str)], query: &str| {
        let options = [("path", table.to_str().unwrap()), ("readChangeFeed", "true")].into_iter().chain(bounds.iter().copied());
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let context = SessionContext::new();
        context.register_table("t", weir_connect::tables::open_table("delta", &options, None, &storage()).await?).unwrap();
        let found = context.sql(query).await.unwrap().collect().await.unwrap();
        Ok::<_, weir_core::Error>(found.iter().map(|batch| batch.num_rows()).sum::<usize>())
    };
    let all = "SELECT k, v, _change_type, _commit_version FROM t";
    assert_eq!(as_table(&[("startingVersion", "0")], all).await.unwrap(), expected.len());
    let between = spark("_commit_version").iter().filter(|row| (2..=3).contains(&row[0].as_i64().unwrap())).count();
    assert_eq!(as_table(&[("startingVersion", "2"), ("endingVersion", "3")], all).await.unwrap(), between);
    assert_eq!(
        as_table(&[("startingVersion", "2"), ("endingVersion", "3")], "SELECT _change_type FROM t WHERE v > 0").await.unwrap(),
        between
    );
    for (bounds, condition) in [
        (&[][..], "DELTA_NO_START_FOR_CDC_READ"),
        (&[("startingVersion", "3"), ("endingVersion", "2")][..], "DELTA_INVALID_CDC_RANGE"),
        (&[("startingVersion", "99")][..], "DELTA_VERSION_NOT_FOUND"),
        (&[("startingVersion", "1"), ("versionAsOf", "2")][..], "DELTA_ILLEGAL_OPTION"),
        (&[("startingVersion", "1"), ("endingTimestamp", "2000-01-01")][..], "DELTA_TIMESTAMP_NOT_FOUND"),
    ] {
        assert_eq!(as_table(bounds, all).await.unwrap_err().condition(), condition);
    }
    // The feed's columns alone, with the times that Spark has.
    let mut source = feed("times").with("startingVersion", "0").open().await.unwrap();
    let (start, end) = (source.initial_offset().await.unwrap(), &cut.planned[&(cut.committed - 1)]);
    let mut times = read_columns(source.as_mut(), start.as_ref(), end, vec![3, 4]).await.unwrap();
    times.sort_by_key(ToString::to_string);
    assert_eq!(times, spark("_commit_version, unix_micros(_commit_timestamp)"));

    // A new query begins with what is there, as inserts, and goes on with changes, under new columns too.
    let mut began = feed("began");
    let snapshot = rows_of(&began.run(Trigger::AvailableNow).await.unwrap());
    let entries = std::fs::read_dir(table.join("_delta_log")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let newest = entries.filter(|name| name.ends_with(".json")).count() - 1;
    assert_eq!(snapshot, [json!(["a", 2, "insert", newest]), json!(["b", 13, "insert", newest]), json!(["b", 14, "insert", newest])]);
    run("DELETE FROM {t} WHERE v = 13");
    run("ALTER TABLE {t} ADD COLUMNS (x STRING)");
    run("INSERT INTO {t} VALUES ('c', 5, 'new')");
    let mut later = rows_of(&began.run(Trigger::AvailableNow).await.unwrap());
    later.sort_by_key(|row| row[4].as_u64());
    assert_eq!(later, [json!(["b", 13, null, "delete", newest + 1]), json!(["c", 5, "new", "insert", newest + 3])]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_are_gone_or_were_not_recorded_are_refused() {
    let folder = scratch::folder("delta-feed-lost").unwrap();
    let table = folder.path().join("src");
    let run = |sql: &str| Judge::shared().sql(&sql.replace("{t}", &format!("delta.`{}`", table.display())), &[]).unwrap();
    run("CREATE TABLE {t} (k STRING, v INT) USING delta TBLPROPERTIES('delta.enableChangeDataFeed'='true')");
    run("INSERT INTO {t} VALUES ('a', 1), ('b', 2)");
    run("UPDATE {t} SET v = 3 WHERE k = 'a'");
    let mut feed = Stream::of(&table, &folder.path().join("ck")).with("readChangeFeed", "true").with("startingVersion", "1");
    let mut source = feed.open().await.unwrap();
    let end = source.plan(None, ReadLimits::Apply, 0).await.unwrap().end.unwrap();
    let files = std::fs::read_dir(table.join("_change_data")).unwrap();
    files.for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
    let start = source.initial_offset().await.unwrap();
    let read = async |source: &mut dyn weir_connect::Source, start: Option<&Offset>| {
        let scan = Scan { columns: vec![0, 1, 2], max_rows: 7, max_bytes: 1 << 20 };
        let mut readers = source.partitions(start, &end, &scan).await.unwrap();
        while readers[0].next().await?.is_some() {}
        Ok::<_, weir_core::Error>(())
    };
    let gone = read(source.as_mut(), start.as_ref()).await.unwrap_err();
    assert_eq!((gone.class(), gone.condition()), (ErrorClass::Incompatible, "FAILED_READ_FILE.FILE_NOT_EXIST"), "{gone}");
    assert!(gone.message().contains("_change_data/"), "{gone}");
    run("ALTER TABLE {t} SET TBLPROPERTIES('delta.enableChangeDataFeed'='false')");
    let ended = feed.run(Trigger::AvailableNow).await.unwrap_err();
    assert_eq!((ended.class(), ended.condition()), (ErrorClass::Config, "DELTA_MISSING_CHANGE_DATA"));
    assert!(ended.message().contains("version [3]"), "{ended}");
}
