//! The texts of the checkpoint's files, parsed once and written back exactly.
//!
//! Owns `metadata`, `offsets/N` and `commits/N` (Spark's `OffsetSeqLog` and
//! `CommitLog`, version 1): first line the version, then JSON lines, no newline
//! at the end. A plan carries a checksum, which Spark passes by. Anything that
//! does not parse is damage: class Incompatible, the file's name, what was found
//! and what to do. Nothing is ever repaired.
//!
//! Version 2 of the offset log (named sources) belongs to newer writers and is
//! refused by name.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::checksum::{self, Seal};
use crate::error::{Error, Result};
use crate::offset::Offset;

/// A source without an offset yet.
const NO_OFFSET: &str = "-";
const VERSION: u32 = 1;
/// The line of a plan that carries its checksum.
const METADATA_LINE: usize = 1;
/// The latest time of a plan: as microseconds it still fits.
const LATEST_MS: i64 = i64::MAX / 1000;
/// How much of a damaged text is told.
const SHOWN: usize = 80;
/// What to do about damage.
pub const RESTORE: &str = "restore the file from a copy of the checkpoint, or start a new checkpoint at a new checkpointLocation with a \
                           changed checkpointResetNonce";

/// `offsets/N`: what batch N reads, and under which clock and settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    /// The watermark in force in the batch, ms.
    pub watermark_ms: i64,
    /// `current_timestamp()` of the batch, ms; a re-run uses the same.
    pub timestamp_ms: i64,
    /// Settings pinned when the query began.
    pub conf: BTreeMap<String, String>,
    /// Exclusive end offset of each source, in plan order.
    pub offsets: Vec<Option<Offset>>,
}

/// `commits/N`: batch N is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitEntry {
    /// The watermark of the next batch, ms.
    pub next_watermark_ms: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OffsetMetadata {
    #[serde(default)]
    batch_watermark_ms: i64,
    #[serde(default)]
    batch_timestamp_ms: i64,
    #[serde(default)]
    conf: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommitMetadata {
    #[serde(default)]
    next_batch_watermark_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct QueryMetadata {
    id: Uuid,
}

impl OffsetEntry {
    /// The text of the file of `batch`.
    pub fn to_text(&self, batch: u64) -> String {
        checksum::seal(batch, &self.plain_text(), METADATA_LINE)
    }

    fn plain_text(&self) -> String {
        let metadata =
            OffsetMetadata { batch_watermark_ms: self.watermark_ms, batch_timestamp_ms: self.timestamp_ms, conf: self.conf.clone() };
        let mut text = format!("v{VERSION}\n{}", json(&metadata));
        for offset in &self.offsets {
            text.push('\n');
            text.push_str(offset.as_ref().map_or(NO_OFFSET, Offset::json));
        }
        text
    }

    /// Parses the text of the file `name`, which is the plan of `batch`, and says whether it vouches for itself.
    pub fn parse(name: &str, batch: u64, bytes: &[u8]) -> Result<(Self, Seal)> {
        let text = text_of(name, bytes, "Incomplete log file")?;
        match checksum::open(batch, text) {
            Ok((plain, seal)) => Ok((Self::parse_plain(name, &plain)?, seal)),
            // What cannot be read says more than that it was changed.
            Err(why) => Self::parse_plain(name, text).and_then(|_| Err(damaged(name, why))),
        }
    }

    fn parse_plain(name: &str, text: &str) -> Result<Self> {
        let mut lines = body_lines(name, text)?;
        let line = lines.next().ok_or_else(|| damaged(name, "it ends after the version line"))?;
        let metadata: OffsetMetadata =
            object(line.as_bytes()).map_err(|e| damaged(name, format!("its metadata line is not JSON of its kind ({e})")))?;
        let offsets = lines
            .map(|line| match line {
                NO_OFFSET => Ok(None),
                text => serde_json::from_str::<serde_json::Value>(text)
                    .map(|_| Some(Offset::new(text)))
                    .map_err(|e| damaged(name, format!("the offset '{}' is not JSON ({e})", shown(text)))),
            })
            .collect::<Result<Vec<_>>>()?;
        if offsets.is_empty() {
            return Err(damaged(name, "it holds no offset line"));
        }
        let watermark_ms = time(name, "batchWatermarkMs", metadata.batch_watermark_ms)?;
        let timestamp_ms = time(name, "batchTimestampMs", metadata.batch_timestamp_ms)?;
        Ok(Self { watermark_ms, timestamp_ms, conf: metadata.conf, offsets })
    }
}

impl CommitEntry {
    /// The file's text.
    pub fn to_text(&self) -> String {
        format!("v{VERSION}\n{}", json(&CommitMetadata { next_batch_watermark_ms: self.next_watermark_ms }))
    }

    /// Parses the text of the file `name`. Only the version line means
    /// watermark 0, as old writers left it.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self> {
        let mut lines = body_lines(name, text_of(name, bytes, "Incomplete log file in the offset commit log")?)?;
        let Some(line) = lines.next().filter(|line| !line.is_empty()) else {
            return Ok(Self::default());
        };
        let metadata: CommitMetadata =
            object(line.as_bytes()).map_err(|e| damaged(name, format!("its second line is not JSON of its kind ({e})")))?;
        Ok(Self { next_watermark_ms: time(name, "nextBatchWatermarkMs", metadata.next_batch_watermark_ms)? })
    }
}

/// The text of `metadata` for a query id.
pub fn metadata_text(id: Uuid) -> String {
    json(&QueryMetadata { id })
}

/// The query id in the text of `metadata`.
pub fn parse_metadata(name: &str, bytes: &[u8]) -> Result<Uuid> {
    object::<QueryMetadata>(bytes).map(|metadata| metadata.id).map_err(|e| damaged(name, format!("it is not {{\"id\":\"<uuid>\"}} ({e})")))
}

/// The error of a damaged file.
pub fn damaged(name: &str, why: impl std::fmt::Display) -> Error {
    Error::incompatible("CHECKPOINT_DAMAGED", damage_of(name, why))
}

/// What is said of a damaged file.
pub fn damage_of(name: &str, why: impl std::fmt::Display) -> String {
    format!("{name} is damaged: {why}; {RESTORE}")
}

/// Reads a JSON object; a list of the same values in order would pass for one otherwise.
pub fn object<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err("it does not begin with '{'".to_owned());
    }
    serde_json::from_slice(text).map_err(|e| e.to_string())
}

fn time(name: &str, field: &str, ms: i64) -> Result<i64> {
    if (0..=LATEST_MS).contains(&ms) { Ok(ms) } else { Err(damaged(name, format!("its {field} is {ms}, which is no time of a batch"))) }
}

/// The beginning of a text, which may be of any size.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN).chain(text.chars().nth(SHOWN).map(|_| '…')).collect()
}

fn text_of<'a>(name: &str, bytes: &'a [u8], when_empty: &str) -> Result<&'a str> {
    let text = std::str::from_utf8(bytes).map_err(|_| damaged(name, "it is not UTF-8"))?;
    if text.is_empty() { Err(damaged(name, format!("it is empty ({when_empty})"))) } else { Ok(text) }
}

fn body_lines<'a>(name: &str, text: &'a str) -> Result<impl Iterator<Item = &'a str>> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let version = first
        .strip_prefix('v')
        .and_then(|digits| digits.parse::<u32>().ok())
        .ok_or_else(|| damaged(name, format!("its first line is '{}', not a log version (MALFORMED_LOG_FILE)", shown(first))))?;
    if version > VERSION {
        return Err(Error::incompatible(
            "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION",
            format!(
                "{name} has format v{version}, and this engine reads up to v{VERSION}: a newer engine or a newer \
                 setting wrote it; run the version that wrote it, or begin a new checkpoint at a new \
                 checkpointLocation with a changed checkpointResetNonce"
            ),
        ));
    }
    Ok(lines)
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("maps of strings and numbers always serialise")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spark_texts_round_trip() {
        let text = "v1\n{\"batchWatermarkMs\":0,\"batchTimestampMs\":1795984761521,\"conf\":{\"spark.sql.shuffle.partitions\":\"2\"}}\n{\"logOffset\":0}\n-";
        let (entry, seal) = OffsetEntry::parse("offsets/0", 0, text.as_bytes()).unwrap();
        assert_eq!((&entry.offsets, seal), (&vec![Some(Offset::new("{\"logOffset\":0}")), None], Seal::Absent));
        assert_eq!(entry.plain_text(), text);
        let sealed = entry.to_text(0);
        assert_eq!(OffsetEntry::parse("offsets/0", 0, sealed.as_bytes()).unwrap(), (entry, Seal::Whole));
        for changed in
            [sealed.replace("\"logOffset\":0", "\"logOffset\":1"), sealed.replace("\n-", "\n{}"), sealed.replace("761521", "761522")]
        {
            let error = OffsetEntry::parse("ck/offsets/0", 0, changed.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("ck/offsets/0 is damaged: its text was changed") && error.contains("restore the file"), "{error}");
        }
        assert!(OffsetEntry::parse("offsets/1", 1, sealed.as_bytes()).is_err(), "another batch's plan");
        let commit = "v1\n{\"nextBatchWatermarkMs\":5}";
        assert_eq!(CommitEntry::parse("commits/0", commit.as_bytes()).unwrap().to_text(), commit);
        assert_eq!(CommitEntry::parse("commits/0", b"v1").unwrap(), CommitEntry::default());
    }

    #[test]
    fn damage_is_named() {
        let cases: [(&[u8], &str); 13] = [
            (b"", "empty"),
            (b"hello\n{}", "MALFORMED_LOG_FILE"),
            (b"v1 \n{}", "MALFORMED_LOG_FILE"),
            (b"v99\n{}\n3", "format v99"),
            (b"v1\n", "after the version line"),
            (b"v1\n{}\n{\"logOffset\":", "not JSON"),
            (b"v1\n{}", "no offset line"),
            (b"v1\n{\"batchWatermarkMs\":-1}\n-", "batchWatermarkMs is -1"),
            (b"v1\n{\"batchTimestampMs\":9223372036854775807}\n-", "batchTimestampMs is 9223372036854775807"),
            (b"v1\n{\"batchTimestampMs\":\"5\"}\n-", "not JSON"),
            (b"v1\n{\"conf\":[]}\n-", "not JSON"),
            (b"v1\n[0,0,{}]\n-", "not JSON"),
            (b"\xff\xfe", "not UTF-8"),
        ];
        for (bytes, expected) in cases {
            let error = OffsetEntry::parse("offsets/2", 2, bytes).unwrap_err();
            assert_eq!(error.class(), crate::ErrorClass::Incompatible);
            assert!(error.to_string().contains(expected) && error.to_string().contains("offsets/2"), "{error}");
        }
        let huge = OffsetEntry::parse("offsets/2", 2, &vec![b'x'; 1 << 20]).unwrap_err();
        assert!(huge.to_string().len() < 500 && huge.to_string().contains("xx…"), "{huge}");
        for (bytes, expected) in [(&b"v1\n{\"nextBatchWatermarkMs\":-3}"[..], "nextBatchWatermarkMs is -3"), (b"v1\n[]", "not JSON")] {
            assert!(CommitEntry::parse("commits/2", bytes).unwrap_err().to_string().contains(expected));
        }
        assert!(parse_metadata("metadata", b"{}").is_err());
    }

    proptest! {
        #[test]
        fn any_entry_survives_its_text(watermark in 0..=LATEST_MS, timestamp in 0..=LATEST_MS, ends in prop::collection::vec(prop::option::of(any::<i64>()), 1..4)) {
            let entry = OffsetEntry {
                watermark_ms: watermark,
                timestamp_ms: timestamp,
                conf: BTreeMap::from([("k".to_owned(), "v \"quoted\"\n".to_owned())]),
                offsets: ends.into_iter().map(|end| end.map(|n| Offset::new(n.to_string()))).collect(),
            };
            prop_assert_eq!(OffsetEntry::parse("offsets/1", 1, entry.to_text(1).as_bytes()).unwrap(), (entry, Seal::Whole));
        }

        #[test]
        fn no_bytes_make_the_parsers_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = OffsetEntry::parse("offsets/1", 1, &bytes);
            let _ = CommitEntry::parse("commits/1", &bytes);
        }
    }
}
