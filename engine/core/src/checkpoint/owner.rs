//! Whose checkpoint it is: the files of owners, and a pure decision over them.
//!
//! A checkpoint belongs to one query of one task of one job, identified by the
//! job's UID. A job that was deleted and applied again has a new UID: it may go
//! on where its predecessor stopped cleanly. Anything else needs a human, and
//! the refusal prints the exact annotation (protocol.md sections 3 and 7).

use serde::{Deserialize, Serialize};

use super::entries;
use crate::error::{Error, Result};
use crate::storage::Folder;

/// The owner of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// UID of the StreamingJob; locally random, kept in the state directory.
    pub job_uid: String,
    /// Namespace of the job.
    pub namespace: String,
    /// The job.
    pub job: String,
    /// The task.
    pub task: String,
    /// The query.
    pub query: String,
}

/// What the checkpoint says about its owners.
#[derive(Clone, Debug, Default)]
pub struct OwnerFacts {
    /// The newest owner and its number.
    pub newest: Option<(u64, Owner)>,
    /// The highest claimed epoch.
    pub highest_claim: Option<u64>,
    /// Whether the highest claim was released by a clean stop.
    pub is_released: bool,
}

/// What to do about the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerStep {
    /// It is ours already.
    Ours,
    /// Create `_weir/owner/<n>` and look again.
    Create(u64),
}

/// The decision; class Incompatible when the checkpoint is somebody else's.
pub fn decide(facts: &OwnerFacts, own: &Owner, adopt: Option<u64>, location: &str) -> Result<OwnerStep> {
    let Some((number, newest)) = &facts.newest else {
        return Ok(OwnerStep::Create(0));
    };
    if newest.job_uid == own.job_uid && same_place(newest, own) {
        return Ok(OwnerStep::Ours);
    }
    let successor = same_place(newest, own) && facts.is_released;
    let adopted = adopt.is_some() && adopt == facts.highest_claim;
    if successor || adopted {
        return Ok(OwnerStep::Create(number + 1));
    }
    Err(refusal(newest, own, facts.highest_claim, location))
}

/// Reads owner `number` in the folder of owners.
pub async fn read(owners: &Folder, number: u64) -> Result<Owner> {
    let name = number.to_string();
    let bytes = owners.read_small(&name).await?.unwrap_or_default();
    entries::object(&bytes).map_err(|e| entries::damaged(&format!("{}/{name}", owners.url()), format!("it is not JSON of an owner ({e})")))
}

fn same_place(a: &Owner, b: &Owner) -> bool {
    (&a.namespace, &a.job, &a.task, &a.query) == (&b.namespace, &b.job, &b.task, &b.query)
}

/// The refusal: both owners and the exact annotation.
pub fn refusal(newest: &Owner, own: &Owner, highest_claim: Option<u64>, location: &str) -> Error {
    let name = |o: &Owner| format!("{}/{}, task {}, query {} (job UID {})", o.namespace, o.job, o.task, o.query, o.job_uid);
    let epoch = highest_claim.unwrap_or_default();
    Error::incompatible(
        "CHECKPOINT_OWNED_BY_ANOTHER",
        format!(
            "the checkpoint {location} belongs to {}, and this is {}; give this query a checkpointLocation of its own; or stop the \
             other for good, then take the checkpoint over with the annotation weir.dev/adopt-checkpoint: \"{epoch}\"",
            name(newest),
            name(own)
        ),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn owner(uid: &str, query: &str) -> Owner {
        let text = |s: &str| s.to_owned();
        Owner { job_uid: text(uid), namespace: text("ns"), job: text("j"), task: text("t"), query: text(query) }
    }

    fn facts(uid: &str, query: &str, is_released: bool) -> OwnerFacts {
        OwnerFacts { newest: Some((3, owner(uid, query))), highest_claim: Some(41), is_released }
    }

    #[test]
    fn rules() {
        let own = owner("u1", "q");
        assert_eq!(decide(&OwnerFacts::default(), &own, None, "ck").unwrap(), OwnerStep::Create(0));
        assert_eq!(decide(&facts("u1", "q", false), &own, None, "ck").unwrap(), OwnerStep::Ours);
        assert_eq!(decide(&facts("u0", "q", true), &own, None, "ck").unwrap(), OwnerStep::Create(4));
        assert_eq!(decide(&facts("u0", "other", false), &own, Some(41), "ck").unwrap(), OwnerStep::Create(4));
        for (facts, adopt) in [
            (facts("u0", "q", false), None),
            (facts("u0", "other", true), None),
            (facts("u1", "other", true), None),
            (facts("u0", "q", false), Some(40)),
        ] {
            let error = decide(&facts, &own, adopt, "ck").unwrap_err().to_string();
            assert!(error.contains("adopt-checkpoint: \"41\"") && error.contains("u0") | error.contains("other"), "{error}");
        }
    }
}
