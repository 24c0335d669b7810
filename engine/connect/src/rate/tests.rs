//! The rate sources against Spark's rules and figures.
#![allow(clippy::unwrap_used)]

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};

use super::per_second::Speed;
use super::*;
use crate::source::{AvailableNow, ReadLimits, Source};
use crate::testing::source_place;
use weir_core::Offset;

async fn rows(readers: Vec<Box<dyn PartitionReader>>) -> Vec<(i64, i64)> {
    let mut rows = Vec::new();
    for mut reader in readers {
        while let Some(batch) = reader.next().await.unwrap() {
            let times = batch.column(0).as_primitive::<TimestampMicrosecondType>();
            let values = batch.column(1).as_primitive::<Int64Type>();
            rows.extend(times.values().iter().copied().zip(values.values().iter().copied()));
        }
    }
    rows.sort_by_key(|row| row.1);
    rows
}

fn scan(max_rows: usize) -> Scan {
    Scan { columns: vec![0, 1], max_rows, max_bytes: 1 << 20 }
}

#[test]
fn ramp_up_follows_sparks_table() {
    let speed = Speed { rows_per_second: 10, ramp_up_seconds: 4 };
    let values: Vec<i64> = (0..=6).map(|second| speed.value_at(second).unwrap()).collect();
    assert_eq!(values, [0, 2, 6, 12, 20, 30, 40]);
    assert_eq!(Speed { rows_per_second: u64::MAX >> 1, ramp_up_seconds: 0 }.value_at(3), None);
}

#[tokio::test]
async fn creation_time_is_stored_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let options = RateOptions::parse(&Options::new([("rowsPerSecond", "5"), ("numPartitions", "2")])).unwrap();
    let mut source = RateSource::new(options.clone(), source_place(dir.path()).log);
    assert_eq!(source.description(), "RateStreamV2[rowsPerSecond=5, rampUpTimeSeconds=0, numPartitions=2");
    source.open(None).await.unwrap();
    assert_eq!(source.initial_offset().await.unwrap().unwrap().json(), "0");
    let planned = source.plan(None, ReadLimits::Apply, 1_000_000).await.unwrap();
    assert_eq!(planned.end.unwrap().json(), "0");
    assert_eq!(std::fs::read_to_string(dir.path().join("sources/0/0")).unwrap(), "v1\n1000000");
    let mut again = RateSource::new(options, source_place(dir.path()).log);
    again.open(Some(&Offset::new("7"))).await.unwrap();
    let planned = again.plan(Some(&Offset::new("7")), ReadLimits::Apply, 1_002_999).await.unwrap();
    assert_eq!(planned.end.unwrap().json(), "7");
    let planned = again.plan(Some(&Offset::new("7")), ReadLimits::Apply, 1_009_000).await.unwrap();
    assert_eq!(planned.end.unwrap().json(), "9");
    let readers = again.partitions(Some(&Offset::new("0")), &Offset::new("2"), &scan(3)).await.unwrap();
    assert_eq!(readers.len(), 2);
    let rows = rows(readers).await;
    assert_eq!(rows.len(), 10);
    assert_eq!(rows[0], (1_000_000_000, 0));
    assert_eq!(rows[3], (1_000_600_000, 3));
    assert_eq!(again.freeze_available_now().await.unwrap(), AvailableNow::SingleBatch);
}

#[tokio::test]
async fn per_batch_steps_as_spark() {
    let options = Options::new([("rowsPerBatch", "4"), ("numPartitions", "2"), ("startTimestamp", "1000")]);
    let mut source = RatePerBatchSource::new(&options).unwrap();
    assert_eq!(
        source.description(),
        "RatePerMicroBatchStream[rowsPerBatch=4, numPartitions=2, startTimestamp=1000, advanceMsPerBatch=1000]"
    );
    let end = source.plan(None, ReadLimits::Apply, 0).await.unwrap().end.unwrap();
    assert_eq!(end.json(), r#"{"offset":4,"timestamp":2000}"#);
    let readers = source.partitions(None, &end, &scan(100)).await.unwrap();
    assert_eq!(rows(readers).await, [(1_000_000, 0), (1_000_000, 1), (1_000_000, 2), (1_000_000, 3)]);
    source.freeze_available_now().await.unwrap();
    let one = source.plan(Some(&end), ReadLimits::Apply, 0).await.unwrap().end.unwrap();
    assert_eq!(source.plan(Some(&one), ReadLimits::Apply, 0).await.unwrap().end.unwrap(), one);
}

#[test]
fn bad_options_have_sparks_sentences() {
    let error = RatePerBatchSource::new(&Options::default()).unwrap_err();
    assert_eq!(error.message(), "Invalid value '0'. The option 'rowsPerBatch' must be positive");
    let error = RateOptions::parse(&Options::new([("rowsPerSecond", "0")])).unwrap_err();
    assert_eq!(error.message(), "Invalid value '0'. The option 'rowsPerSecond' must be positive");
}
