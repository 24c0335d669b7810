//! Properties and examples of the batch decisions; the examples were executed on Spark.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::offsets::parse;
use super::*;

fn of(ends: &[i64]) -> PartitionOffsets {
    ends.iter().enumerate().map(|(p, end)| (TopicPartition::new("t", p as i32), *end)).collect()
}

fn range(partition: i32, start: i64, end: i64) -> OffsetRange {
    OffsetRange { partition: TopicPartition::new("t", partition), start, end }
}

#[test]
fn a_limit_of_twenty_over_skewed_partitions() {
    let latest = of(&[100, 10, 1]);
    let mut at = of(&[0, 0, 0]);
    for expected in [[18, 1, 1], [36, 2, 1], [53, 4, 1], [70, 6, 1], [87, 8, 1], [100, 10, 1]] {
        at = rate_limit(20, &at, &latest);
        assert_eq!(at, of(&expected));
    }
    assert_eq!(rate_limit(0, &of(&[0]), &of(&[2])), of(&[0]));
}

#[test]
fn the_lag_is_printed_with_one_decimal() {
    let metrics = lag_metrics(&of(&[18, 1, 1]), &of(&[100, 10, 1]));
    assert_eq!(metrics["avgOffsetsBehindLatest"], "30.3");
    assert_eq!((metrics["minOffsetsBehindLatest"].as_str(), metrics["maxOffsetsBehindLatest"].as_str()), ("0", "82"));
    assert_eq!(lag_metrics(&of(&[0, 0, 0, 0]), &of(&[1, 0, 0, 0]))["avgOffsetsBehindLatest"], "0.3");
    assert!(lag_metrics(&of(&[]), &of(&[])).is_empty());
}

#[test]
fn few_records_wait_for_the_longest_delay_but_the_first_batch_does_not() {
    assert_eq!(hold_back(100, 3000, &of(&[0]), &of(&[3]), 0, 1_700_000_000_000), Hold::Go);
    assert_eq!(hold_back(100, 3000, &of(&[3]), &of(&[5]), 1_000, 3_999), Hold::Wait);
    assert_eq!(hold_back(100, 3000, &of(&[3]), &of(&[5]), 1_000, 4_000), Hold::Go);
    assert_eq!(hold_back(2, 3000, &of(&[3]), &of(&[5]), 1_000, 1_001), Hold::Go);
}

#[test]
fn what_is_missing_is_named() {
    let conditions = |start: &str, end: &str, earliest: &str| {
        let found = resolve(&parse(start).unwrap(), &parse(end).unwrap(), &parse(earliest).unwrap(), GroupIdSet::Generated);
        found.losses.into_iter().map(|loss| loss.0.to_string()).collect::<Vec<_>>().join("\n")
    };
    assert!(
        conditions(r#"{"t":{"0":3},"u":{"0":3}}"#, r#"{"t":{"0":5}}"#, "{}")
            .contains("KAFKA_DATA_LOSS.PARTITIONS_DELETED] the partitions u-0")
    );
    let back = conditions(r#"{"t":{"0":50}}"#, r#"{"t":{"0":2}}"#, "{}");
    assert!(back.contains("PARTITION_OFFSET_CHANGED") && back.contains("from 50 to 2") && back.contains("[2, 50)"), "{back}");
    assert!(conditions("{}", r#"{"t":{"0":2}}"#, "{}").contains("INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"));
    assert!(conditions("{}", r#"{"t":{"0":9}}"#, r#"{"t":{"0":4}}"#).contains("ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"));
    assert_eq!(conditions(r#"{"t":{"0":3}}"#, r#"{"t":{"0":5,"1":1}}"#, r#"{"t":{"1":0}}"#), "");
}

#[test]
fn a_frozen_end_is_kept_to() {
    assert!(verify_frozen(&of(&[5, 5]), &of(&[5, 4])).is_ok());
    assert!(verify_frozen(&of(&[5]), &of(&[5, 4])).unwrap_err().condition().starts_with("MISMATCHED"));
    assert!(verify_frozen(&of(&[5]), &of(&[6])).unwrap_err().condition().ends_with("THAN_PREFETCHED"));
    assert!(verify_still_there(&of(&[]), &of(&[6])).unwrap_err().condition().starts_with("LOST"));
    assert!(verify_still_there(&of(&[5]), &of(&[6])).unwrap_err().condition().ends_with("TRIGGER_AVAILABLENOW"));
    assert!(verify_still_there(&of(&[7, 1]), &of(&[6])).is_ok());
}

#[test]
fn reading_goes_on_at_the_first_record_that_is_left() {
    assert_eq!(resume_after_loss(10, 20, 15, 20), Resume::At(15));
    assert_eq!(resume_after_loss(10, 20, 20, 30), Resume::SkipRest);
    assert_eq!(resume_after_loss(10, 20, 0, 5), Resume::SkipRest);
    assert_eq!(resume_after_loss(10, 20, 0, 15), Resume::At(10));
}

#[test]
fn a_large_range_is_split_and_a_small_one_is_not() {
    let split_sizes =
        |sizes: &[i64], min: u64| split(sizes.iter().enumerate().map(|(p, s)| range(p as i32, 0, *s)).collect(), Some(min), None).len();
    assert_eq!(split_sizes(&[100], 4), 4);
    assert_eq!(split_sizes(&[1000, 1], 4), 4);
    assert_eq!(split_sizes(&[5, 5, 5], 2), 3);
    assert_eq!(split(vec![range(0, 0, 10)], None, Some(4)), vec![range(0, 0, 3), range(0, 3, 6), range(0, 6, 10)]);
}

#[test]
fn a_read_that_is_not_continued_takes_what_lies_between_two_ends() {
    let two = of(&[3, 5]);
    assert_eq!(between(&two, &of(&[7, 5])), vec![range(0, 3, 7)]);
    assert_eq!(between(&two, &of(&[2, 6, 9])), vec![range(1, 5, 6)]);
}

proptest! {
    #[test]
    fn a_limited_batch_moves_forward_and_never_past_the_end(limit in 1..10_000_u64, parts in proptest::collection::vec((0..1_000_i64, 0..100_000_i64), 1..20)) {
        let start = of(&parts.iter().map(|(s, _)| *s).collect::<Vec<_>>());
        let latest = of(&parts.iter().map(|(s, size)| s + size).collect::<Vec<_>>());
        let end = rate_limit(limit, &start, &latest);
        let mut taken = 0;
        for (p, e) in &end {
            prop_assert!(*e <= latest[p] && *e >= start[p]);
            prop_assert!(*e > start[p] || latest[p] == start[p], "{p} starves");
            taken += e - start[p];
        }
        prop_assert!(taken as u64 <= limit + parts.len() as u64);
    }

    #[test]
    fn splitting_loses_and_repeats_nothing(sizes in proptest::collection::vec(1..5_000_i64, 1..12), min in proptest::option::of(1..64_u64), max in proptest::option::of(1..500_u64)) {
        let ranges: Vec<OffsetRange> = sizes.iter().enumerate().map(|(p, size)| range(p as i32, 7, 7 + size)).collect();
        let pieces = split(ranges.clone(), min, max);
        for whole in &ranges {
            let mut at = whole.start;
            for piece in pieces.iter().filter(|piece| piece.partition == whole.partition) {
                prop_assert!(piece.start == at && piece.end > at);
                prop_assert!(max.is_none_or(|max| piece.size() as u64 <= max));
                at = piece.end;
            }
            prop_assert_eq!(at, whole.end);
        }
    }
}
