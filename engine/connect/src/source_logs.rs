//! Whether the logs that sources keep in a checkpoint can be read.
//!
//! For `weir checkpoint verify`, which knows no manifest: whose log `sources/<n>` is shows in the offsets of the plans,
//! and before the first plan in the log itself. What is damaged is decided by the readers of the sources, which a run
//! uses too. Reads only.

use std::collections::BTreeSet;

use serde_json::Value;
use weir_core::checkpoint::entries::damage_of;
use weir_core::checkpoint::inspect::Inspection;
use weir_core::checkpoint::{Fence, FencedLog, OffsetEntry};
use weir_core::storage::Folder;
use weir_core::{Error, ErrorClass, Offset, Result};

use crate::files::source_log;
use crate::{delta, kafka, rate};

/// Whose log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Files,
    Kafka,
    Rate,
    RatePerBatch,
    Delta,
    /// A source that has planned nothing.
    Without,
}

/// What a run could not read of the sources' logs in the checkpoint `root`, a sentence each.
pub async fn damage(root: &Folder, found: &Inspection) -> Result<Vec<String>> {
    let newest = found.plans.last_key_value();
    let is_run_again = newest.is_some_and(|(batch, _)| !found.committed.contains(batch));
    let before = newest.and_then(|(batch, _)| found.plans.get(&batch.checked_sub(1)?));
    let mut sentences = Vec::new();
    if let (Some((batch, last)), Some(before), false) = (newest, before, found.is_newest_sealed) {
        sentences.extend(went_back(before, last).map(|why| damage_of(&format!("{}/offsets/{batch}", root.url()), why)));
    }
    for number in numbers(root, found).await? {
        let offset_of = |entry: Option<&OffsetEntry>| entry?.offsets.get(number)?.clone();
        let (last, start) = (offset_of(newest.map(|(_, entry)| entry)), offset_of(before));
        let run_again = is_run_again.then_some(start.as_ref());
        // Nothing is written under this fence.
        let log = FencedLog::new(root.child(&format!("sources/{number}")), Fence::new(root.child("_weir/epochs"), 0));
        let looked = async {
            match kind(last.as_ref(), log.read("0").await?.as_deref()) {
                Kind::Files => sentences.extend(source_log::damage(log, last.as_ref(), run_again).await?),
                Kind::Kafka => kafka::damage(&log, last.as_ref(), run_again).await?,
                Kind::Rate => rate::damage(&log, last.as_ref()).await?,
                Kind::RatePerBatch => rate::damage_per_batch(last.as_ref())?,
                Kind::Delta => delta::source_damage(&log, last.as_ref()).await?,
                Kind::Without => {}
            }
            Ok::<_, Error>(())
        };
        match looked.await {
            Err(error) if error.class() == ErrorClass::Incompatible => sentences.push(error.message().to_owned()),
            other => other?,
        }
    }
    Ok(sentences)
}

/// What of the plan `last` lies before the plan `before` that it follows on, which would read rows a second time.
pub fn went_back(before: &OffsetEntry, last: &OffsetEntry) -> Option<String> {
    let pairs = before.offsets.iter().zip(&last.offsets);
    let back =
        pairs.filter_map(|(before, last)| Some((before.as_ref()?, last.as_ref()?))).find(|(before, last)| lies_before(before, last))?;
    Some(format!("it ends at {} where the batch before it ended at {}, so rows would be read twice", back.1, back.0))
}

/// Whether `last` lies before `before`; what cannot be read is told elsewhere.
fn lies_before(before: &Offset, last: &Offset) -> bool {
    let kinds = (kind(Some(before), None), kind(Some(last), None));
    let both = |of: fn(&Offset) -> Option<i128>| of(last).zip(of(before)).is_some_and(|(last, before)| last < before);
    match kinds {
        (Kind::Kafka, Kind::Kafka) => kafka::lies_before(before, last),
        (Kind::Delta, Kind::Delta) => delta::lies_before(before, last),
        (Kind::RatePerBatch, Kind::RatePerBatch) => both(|offset| offset.to_value().get("offset")?.as_i64().map(i128::from)),
        _ => both(|offset| {
            let value = offset.to_value();
            value.get("logOffset").unwrap_or(&value).as_i64().map(i128::from)
        }),
    }
}

/// The sources that have a log or an offset.
async fn numbers(root: &Folder, found: &Inspection) -> Result<BTreeSet<usize>> {
    let sources = root.child("sources");
    let objects = sources.list_recursive().await?;
    let of_log = |object: &object_store::ObjectMeta| object.location.prefix_match(sources.prefix())?.next()?.as_ref().parse().ok();
    let planned = found.plans.values().map(|entry| entry.offsets.len()).max().unwrap_or(0);
    Ok(objects.iter().filter_map(of_log).chain(0..planned).collect())
}

/// Tells the source by its newest offset, or by its first entry while nothing is planned.
fn kind(last: Option<&Offset>, first: Option<&[u8]>) -> Kind {
    let line = |first: &[u8]| first.split(|byte| *byte == b'\n').nth(1).and_then(|line| line.first().copied());
    match (last.map(Offset::to_value), first) {
        (Some(Value::Object(offset)), _) if offset.get("logOffset").is_some_and(Value::is_number) => Kind::Files,
        (Some(Value::Object(offset)), _) if offset.get("timestamp").is_some_and(Value::is_number) => Kind::RatePerBatch,
        (Some(Value::Object(offset)), _) if offset.get("reservoirId").is_some_and(Value::is_string) => Kind::Delta,
        (Some(Value::Object(_)), _) => Kind::Kafka,
        // Spark 1.x wrote bare numbers for files, too.
        (Some(Value::Number(_)), first) if first.and_then(line) == Some(b'{') => Kind::Files,
        (Some(Value::Number(_)), _) => Kind::Rate,
        (_, None) => Kind::Without,
        (_, Some([0, ..])) => Kind::Kafka,
        (_, Some(first)) if first.starts_with(b"v1\n{\"sourceVersion\"") => Kind::Delta,
        (_, Some(first)) if line(first).is_some_and(|byte| byte.is_ascii_digit()) => Kind::Rate,
        (_, Some(_)) => Kind::Files,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::storage;
    use weir_core::checkpoint::inspect::inspect;

    const PLAN: &str = "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":1,\"conf\":{}}\n";

    /// What is said of a checkpoint of these files, with a plan and a commit for each offset but the last commit.
    async fn said(offsets: &[&str], commits: usize, files: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("metadata", "{\"id\":\"00000000-0000-0000-0000-000000000000\"}");
        for (batch, offset) in offsets.iter().enumerate() {
            write(&format!("offsets/{batch}"), &format!("{PLAN}{offset}"));
        }
        (0..commits).for_each(|batch| write(&format!("commits/{batch}"), "v1\n{\"nextBatchWatermarkMs\":0}"));
        files.iter().for_each(|(name, text)| write(name, text));
        let root = storage().open(dir.path().to_str().unwrap()).unwrap();
        let found = inspect(&root).await.unwrap();
        assert!(found.damage.is_empty(), "{:?}", found.damage);
        damage(&root, &found).await.unwrap()
    }

    fn entry(id: u64) -> String {
        format!("v1\n{}", line(id))
    }

    fn line(id: u64) -> String {
        format!("{{\"path\":\"file:///in/{id}\",\"timestamp\":1,\"batchId\":{id}}}")
    }

    #[tokio::test]
    async fn a_file_sources_log_is_read_as_a_run_reads_it() {
        let two = ["{\"logOffset\":0}", "{\"logOffset\":1}"];
        let (zero, one) = (entry(0), entry(1));
        let whole = [("sources/0/0", zero.as_str()), ("sources/0/1", one.as_str())];
        assert_eq!(said(&two, 2, &whole).await, [""; 0]);
        let missing = said(&two, 2, &whole[..1]).await;
        assert!(
            missing.len() == 1 && missing[0].contains("planned up to log entry 1") && missing[0].contains("/sources/0 is 0"),
            "{missing:?}"
        );
        let first = said(&two, 2, &whole[1..]).await;
        assert!(first.len() == 1 && first[0].contains("sources/0/0 is missing"), "{first:?}");
        let cut = said(&two, 2, &[whole[0], ("sources/0/1", &one[..one.len() - 4])]).await;
        assert!(cut.len() == 1 && cut[0].contains("sources/0/1 is damaged: line 2"), "{cut:?}");
        let empty = said(&two, 2, &[whole[0], ("sources/0/1", "")]).await;
        assert!(empty.len() == 1 && empty[0].contains("sources/0/1 is damaged: it is empty"), "{empty:?}");
        // A log of a step that no batch has yet, and a second source without one.
        assert_eq!(said(&[], 0, &whole[..1]).await, [""; 0]);
        assert_eq!(said(&["{\"logOffset\":0}\n-"], 1, &whole[..1]).await, [""; 0]);
    }

    #[tokio::test]
    async fn compactions_of_any_interval_are_known_by_their_names() {
        let compact = |to: u64| format!("v1\n{}", (0..=to).map(line).collect::<Vec<_>>().join("\n"));
        let newest = "{\"logOffset\":12}";
        let (nine, ten, eleven, twelve) = (compact(9), entry(10), entry(11), entry(12));
        let usual = [
            ("sources/0/9.compact", nine.as_str()),
            ("sources/0/10", ten.as_str()),
            ("sources/0/11", eleven.as_str()),
            ("sources/0/12", twelve.as_str()),
        ];
        assert_eq!(said(&[newest], 1, &usual).await, [""; 0]);
        let gone = said(&[newest], 1, &usual[1..]).await;
        assert!(gone.len() == 1 && gone[0].contains("sources/0/9.compact is missing"), "{gone:?}");
        // The writer's setting was 20: there is no compaction yet.
        let texts: Vec<(String, String)> = (0..=12).map(|id| (format!("sources/0/{id}"), entry(id))).collect();
        let long: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(said(&[newest], 1, &long).await, [""; 0]);
    }

    #[tokio::test]
    async fn the_beginnings_of_other_sources_are_read_too() {
        let kafka = ["{\"t\":{\"0\":3}}", "{\"t\":{\"0\":5}}"];
        let begins = ("sources/0/0", "\0v1\n{\"t\":{\"0\":0}}");
        assert_eq!(said(&kafka, 2, &[begins]).await, [""; 0]);
        let cut = said(&kafka, 2, &[("sources/0/0", "\0v1\n{\"t\":{\"0")]).await;
        assert!(cut.len() == 1 && cut[0].contains("/sources/0/0 cannot be read"), "{cut:?}");
        assert_eq!(said(&kafka, 2, &[]).await, [""; 0], "nobody reads it any more");
        let needed = said(&kafka[..1], 0, &[]).await;
        assert!(needed.len() == 1 && needed[0].contains("/sources/0/0, the initial offsets"), "{needed:?}");
        let odd = said(&["{\"t\":{\"a\":3}}"], 1, &[begins]).await;
        assert!(odd.len() == 1 && odd[0].contains("restore the checkpoint"), "{odd:?}");
        let rate = ("sources/0/0", "v1\n1700000000000");
        assert_eq!(said(&["7"], 1, &[rate]).await, [""; 0]);
        assert!(said(&["7"], 1, &[]).await[0].contains("creation time of the rate source, is gone"));
        assert!(said(&["7"], 1, &[("sources/0/0", "v1\n17x")]).await[0].contains("should hold"));
        assert_eq!(said(&["{\"offset\":5,\"timestamp\":9}"], 1, &[]).await, [""; 0]);
        for odd in ["{\"offset\":-5,\"timestamp\":9}", "{\"offset\":5,\"timestamp\":-9}", "18446744073709551615"] {
            assert_eq!(said(&[odd], 1, &[rate]).await.len(), 1, "{odd}");
        }
        let delta = r#"{"sourceVersion":1,"reservoirId":"t","reservoirVersion":3,"index":-1,"isStartingVersion":false}"#;
        let beginning = format!("v1\n{delta}");
        assert_eq!(said(&[delta], 1, &[("sources/0/0", &beginning)]).await, [""; 0]);
        assert_eq!(said(&[], 0, &[("sources/0/0", &beginning)]).await, [""; 0]);
        for odd in [beginning.replace("3", "-3"), beginning.replace("-1", "-5"), beginning[..20].to_owned()] {
            assert_eq!(said(&[delta], 1, &[("sources/0/0", &odd)]).await.len(), 1, "{odd}");
        }
    }

    #[tokio::test]
    async fn a_plan_that_lies_before_the_one_before_it_is_told_of() {
        let delta = |version: u64, index: i64| {
            format!(r#"{{"sourceVersion":1,"reservoirId":"t","reservoirVersion":{version},"index":{index},"isStartingVersion":false}}"#)
        };
        let entry = |offset: &str| OffsetEntry {
            watermark_ms: 0,
            timestamp_ms: 0,
            conf: Default::default(),
            offsets: vec![None, Some(Offset::new(offset))],
        };
        let cases = [
            ("{\"logOffset\":4}".to_owned(), "{\"logOffset\":3}".to_owned()),
            ("5".to_owned(), "{\"logOffset\":3}".to_owned()),
            ("9".to_owned(), "8".to_owned()),
            ("{\"offset\":5,\"timestamp\":9}".to_owned(), "{\"offset\":4,\"timestamp\":10}".to_owned()),
            ("{\"t\":{\"0\":3,\"1\":9}}".to_owned(), "{\"t\":{\"0\":4,\"1\":8}}".to_owned()),
            (delta(3, 2), delta(3, 1)),
            (delta(3, -1), delta(2, 7)),
        ];
        for (before, last) in &cases {
            let told = went_back(&entry(before), &entry(last)).unwrap_or_default();
            assert!(told.contains(&format!("ends at {last} where the batch before it ended at {before}")), "{before} {last}: {told}");
            assert_eq!(went_back(&entry(last), &entry(before)).is_some(), before.starts_with("{\"t\""), "{before} {last}");
            assert_eq!(went_back(&entry(last), &entry(last)), None);
        }
        assert_eq!(went_back(&entry("{\"t\":{\"0\":3}}"), &entry("{\"u\":{\"0\":1}}")), None, "a partition that is gone is data loss");
        let said =
            said(&["{\"logOffset\":1}", "{\"logOffset\":0}"], 2, &[("sources/0/0", &self::entry(0)), ("sources/0/1", &self::entry(1))])
                .await;
        assert!(said.len() == 1 && said[0].contains("offsets/1 is damaged: it ends at"), "{said:?}");
    }

    #[tokio::test]
    async fn steps_say_what_they_are() {
        let two = ["{\"logOffset\":0}", "{\"logOffset\":1}"];
        let (zero, one) = (entry(0), entry(1));
        for (odd, words) in [
            (one.replace("\"batchId\":1", "\"batchId\":0"), "names the step 0"),
            ("v1".to_owned(), "names no file"),
            (one.replace("file:///in/1", "file:///in/0"), "file:///in/0 twice"),
            (one.replace("\"timestamp\":1", "\"timestamp\":9223372036854775807"), "no file has such a time"),
            ("v1\n[\"file:///in/1\",1,1]".to_owned(), "line 2"),
        ] {
            let told = said(&two, 2, &[("sources/0/0", &zero), ("sources/0/1", &odd)]).await;
            assert!(told.len() == 1 && told[0].contains(words) && told[0].contains("restore"), "{odd}: {told:?}");
        }
        let negative = said(&["{\"logOffset\":-1}"], 1, &[("sources/0/0", &zero)]).await;
        assert!(negative.len() == 1 && negative[0].contains("the offset {\"logOffset\":-1}"), "{negative:?}");
        // A compaction has every step up to its own.
        let lines: Vec<String> = (0..=9).filter(|id| *id != 4).map(line).collect();
        let hole = said(&["{\"logOffset\":9}"], 1, &[("sources/0/9.compact", &format!("v1\n{}", lines.join("\n")))]).await;
        assert!(hole.len() == 1 && hole[0].contains("step 4"), "{hole:?}");
        for name in ["sources/0/18446744073709551615", "sources/0/01", "sources/0/9000000000000000000.compact"] {
            let told = said(&two, 2, &[("sources/0/0", &zero), ("sources/0/1", &one), (name, &one)]).await;
            assert!(told.len() == 1 && told[0].contains(name), "{name}: {told:?}");
        }
        let extra = said(&two, 2, &[("sources/0/0", &zero), ("sources/0/1", &one), ("sources/0/7", &entry(7))]).await;
        assert!(extra.len() == 1 && extra[0].contains("sources/0/2 is missing"), "{extra:?}");
    }
}
