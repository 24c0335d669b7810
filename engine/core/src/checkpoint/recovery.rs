//! Where a query goes on: a pure decision over what the checkpoint holds.
//!
//! `Facts` are read by the shell; `decide` knows Spark's recovery rules
//! (`MicroBatchExecution.populateStartOffsets`) and Weir's stricter reading of
//! damage: a commit without its plan, a log with a hole where an entry is
//! needed, and a sink that is ahead of the checkpoint are refused, never
//! skipped over.
//!
//! The sink is read before the logs are listed, so that a predecessor that
//! finishes its batch meanwhile cannot make the sink look ahead of them. The
//! same predecessor can make it look behind; hence a second reading, after the
//! lists, decides that.

use crate::error::{Error, Result};

use super::entries::{CommitEntry, OffsetEntry, damaged};
use super::shape;

/// What a checkpoint holds, as far as recovery needs it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Where it is, for messages.
    pub location: String,
    /// Ids in `offsets/`, rising.
    pub planned: Vec<u64>,
    /// Ids in `commits/`, rising.
    pub committed: Vec<u64>,
    /// The newest offsets entry.
    pub newest: Option<OffsetEntry>,
    /// The entry before the newest.
    pub before_newest: Option<OffsetEntry>,
    /// The newest commit entry.
    pub newest_commit: Option<CommitEntry>,
    /// The batch that the sink recorded, read before the lists.
    pub sink_recorded: Option<u64>,
    /// The batch that the sink of bad records recorded, read together with it.
    pub bad_records_recorded: Option<u64>,
    /// What the sink had recorded, read again after the lists, if it was; only
    /// needed where the first reading is behind (`sink_seems_behind`).
    pub sink_recorded_after: Option<u64>,
    /// First batch of a sink that records every batch; one behind the newest
    /// commit since has lost something.
    pub records_since: Option<u64>,
    /// How many sources the query has now.
    pub sources: usize,
}

/// Where to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing was ever planned.
    Fresh,
    /// All that was planned is committed: plan `batch` from `start`.
    Next {
        /// The next batch id.
        batch: u64,
        /// The newest entry, whose ends are the starts of `batch`.
        last: OffsetEntry,
        /// The watermark to go on with, ms.
        watermark_ms: i64,
    },
    /// `batch` was planned and not committed: run it again as planned.
    Replay {
        /// The batch.
        batch: u64,
        /// Its plan.
        plan: OffsetEntry,
        /// The entry before it; `None` for batch 0.
        before: Option<OffsetEntry>,
    },
}

/// The decision.
pub fn decide(facts: Facts) -> Result<Recovery> {
    let planned = facts.planned.last().copied();
    let committed = facts.committed.last().copied();
    if let Some(recorded) =
        facts.sink_recorded.max(facts.bad_records_recorded).filter(|recorded| planned.is_none_or(|newest| *recorded > newest))
    {
        return Err(restored_copy(&facts.location, recorded, planned));
    }
    if let Some(commit) = commit_beyond_sink(&facts) {
        return Err(replaced_sink(&facts.location, newest_reading(&facts), commit));
    }
    let Some(newest) = planned else {
        return match committed {
            None => Ok(Recovery::Fresh),
            Some(commit) => Err(commit_without_plan(&facts.location, commit)),
        };
    };
    let entry = facts.newest.ok_or_else(|| damaged(&format!("{}/offsets/{newest}", facts.location), "it vanished while it was read"))?;
    if entry.offsets.len() != facts.sources {
        return Err(source_count(&facts.location, entry.offsets.len(), facts.sources));
    }
    let recovery = match committed {
        Some(commit) if commit > newest => Err(commit_without_plan(&facts.location, commit)),
        Some(commit) if commit == newest => {
            let next = facts.newest_commit.unwrap_or_default().next_watermark_ms;
            Ok(Recovery::Next { batch: newest + 1, watermark_ms: entry.watermark_ms.max(next), last: entry })
        }
        _ if newest == 0 => Ok(Recovery::Replay { batch: 0, plan: entry, before: None }),
        _ => match facts.before_newest {
            Some(before) => Ok(Recovery::Replay { batch: newest, plan: entry, before: Some(before) }),
            None => Err(damaged(
                &format!("{}/offsets/{}", facts.location, newest - 1),
                format!("batch {} doesn't exist, and batch {newest} starts where it ended", newest - 1),
            )),
        },
    }?;
    let holes = shape::holes(&facts.location, &facts.planned, &facts.committed);
    if holes.is_empty() { Ok(recovery) } else { Err(Error::incompatible("CHECKPOINT_DAMAGED", holes.join("; "))) }
}

/// Whether the sink is to be read again before it is called behind.
pub fn sink_seems_behind(facts: &Facts) -> bool {
    commit_beyond_sink(facts).is_some()
}

/// The newest commit, where the sink should have recorded it and has not.
fn commit_beyond_sink(facts: &Facts) -> Option<u64> {
    let commit = facts.committed.last().copied()?;
    let is_due = facts.records_since.is_some_and(|since| since <= commit);
    (is_due && newest_reading(facts).is_none_or(|recorded| recorded < commit)).then_some(commit)
}

fn newest_reading(facts: &Facts) -> Option<u64> {
    facts.sink_recorded.max(facts.sink_recorded_after)
}

fn restored_copy(location: &str, recorded: u64, planned: Option<u64>) -> Error {
    let newest = planned.map_or_else(|| "none".to_owned(), |id| id.to_string());
    Error::incompatible(
        "CHECKPOINT_BEHIND_SINK",
        format!(
            "the sink has recorded batch {recorded} of this query, but the newest planned batch in {location} is \
             {newest}: an old copy of the checkpoint was restored, and going on would lose or repeat rows; restore the \
             sink to the same time, or fork the checkpoint with 'weir checkpoint copy --new-query-id' to a new \
             checkpointLocation under a changed checkpointResetNonce"
        ),
    )
}

fn replaced_sink(location: &str, recorded: Option<u64>, committed: u64) -> Error {
    let recorded = recorded.map_or_else(|| "no batch".to_owned(), |id| format!("batch {id} at most"));
    Error::incompatible(
        "SINK_BEHIND_CHECKPOINT",
        format!(
            "batch {committed} is committed in {location}, but the sink has recorded {recorded} of this query: it was deleted, \
             replaced or restored from an old copy, and going on would leave rows out; restore the sink, or begin anew with a new \
             checkpointLocation and a changed checkpointResetNonce"
        ),
    )
}

fn commit_without_plan(location: &str, commit: u64) -> Error {
    damaged(
        &format!("{location}/offsets/{commit}"),
        format!("commits/{commit} exists, but the plan of that batch does not (CONCURRENT_STREAM_LOG_UPDATE in Spark)"),
    )
}

fn source_count(location: &str, stored: usize, now: usize) -> Error {
    Error::incompatible(
        "CHECKPOINT_SOURCES_CHANGED",
        format!(
            "there are {stored} sources in the offsets of {location} and now {now} sources in the query; restore the \
             query's sources, or set a new checkpointLocation with a changed checkpointResetNonce"
        ),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorClass;
    use crate::offset::Offset;

    fn entry(end: u64) -> OffsetEntry {
        OffsetEntry { watermark_ms: 10, timestamp_ms: 1, conf: Default::default(), offsets: vec![Some(Offset::new(end.to_string()))] }
    }

    fn facts(planned: &[u64], committed: &[u64]) -> Facts {
        Facts {
            location: "ck".into(),
            planned: planned.to_vec(),
            committed: committed.to_vec(),
            newest: planned.last().map(|id| entry(*id)),
            before_newest: planned
                .len()
                .checked_sub(2)
                .map(|at| planned[at])
                .filter(|id| Some(id + 1) == planned.last().copied())
                .map(entry),
            newest_commit: committed.last().map(|_| CommitEntry { next_watermark_ms: 20 }),
            sink_recorded: None,
            bad_records_recorded: None,
            sink_recorded_after: None,
            records_since: None,
            sources: 1,
        }
    }

    #[test]
    fn spark_rules() {
        assert_eq!(decide(facts(&[], &[])).unwrap(), Recovery::Fresh);
        assert_eq!(decide(facts(&[0], &[])).unwrap(), Recovery::Replay { batch: 0, plan: entry(0), before: None });
        assert_eq!(decide(facts(&[0, 1], &[0, 1])).unwrap(), Recovery::Next { batch: 2, last: entry(1), watermark_ms: 20 });
        assert_eq!(decide(facts(&[0, 1], &[0])).unwrap(), Recovery::Replay { batch: 1, plan: entry(1), before: Some(entry(0)) });
        // A hole in the commits is forgiven, as Spark does: what lies between is done.
        assert_eq!(decide(facts(&[3, 4], &[1])).unwrap(), Recovery::Replay { batch: 4, plan: entry(4), before: Some(entry(3)) });
    }

    #[test]
    fn a_batch_that_a_predecessor_finishes_between_two_readings_is_no_loss() {
        let raced = Facts { records_since: Some(0), sink_recorded: Some(0), ..facts(&[0, 1], &[0, 1]) };
        assert!(sink_seems_behind(&raced));
        let again = Facts { sink_recorded_after: Some(1), ..raced };
        assert!(!sink_seems_behind(&again));
        assert_eq!(decide(again).unwrap(), Recovery::Next { batch: 2, last: entry(1), watermark_ms: 20 });
        // A reading after the lists may be ahead of them; only the first one tells a restored copy.
        let later = Facts { records_since: Some(0), sink_recorded_after: Some(2), ..facts(&[0, 1], &[0, 1]) };
        assert!(decide(later).is_ok());
    }

    #[test]
    fn refusals() {
        let cases = [
            (facts(&[], &[0]), "commits/0"),
            (facts(&[0], &[0, 1]), "commits/1"),
            (facts(&[0, 2], &[0]), "batch 1 doesn't exist"),
            (Facts { sink_recorded: Some(5), ..facts(&[0, 1], &[0, 1]) }, "recorded batch 5"),
            (Facts { bad_records_recorded: Some(2), ..facts(&[0, 1], &[0, 1]) }, "recorded batch 2"),
            (Facts { sink_recorded: Some(0), ..facts(&[], &[]) }, "newest planned batch in ck is none"),
            (Facts { sources: 2, ..facts(&[0], &[0]) }, "there are 1 sources"),
            (Facts { records_since: Some(0), ..facts(&[0], &[0]) }, "recorded no batch"),
            (Facts { records_since: Some(0), sink_recorded: Some(0), ..facts(&[0, 1], &[0, 1]) }, "recorded batch 0 at most"),
        ];
        for (facts, expected) in cases {
            let error = decide(facts).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Incompatible);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
