//! Taking a checkpoint: query id, owner, epoch (protocol.md section 3).
//!
//! `claim` walks steps 1 to 4 before anything is read or planned; `clean_up`
//! is step 7; `release` marks a clean stop, after which the same job under a
//! new UID may go on without ceremony. All files are written by create-if-
//! absent only, so a lost response or a crash at any point is repeated safely.
//!
//! `owner::decide` is pure; this is the shell around it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::entries;
use super::fence::{self, Fence};
use super::numbered::{self, Naming};
use super::owner::{self, Owner, OwnerFacts, OwnerStep};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::storage::Folder;

/// Who claims, and under which epoch.
#[derive(Clone, Debug)]
pub struct Claimant {
    /// The owner that this query is.
    pub owner: Owner,
    /// The epoch that the supervisor gave to this process.
    pub epoch: u64,
    /// A random id of this process, so that a lost response is recognised.
    pub instance: Uuid,
    /// The pod's UID, where there is one.
    pub pod_uid: Option<String>,
    /// `weir.dev/adopt-checkpoint`: the highest claim a human vouches for.
    pub adopt: Option<u64>,
    /// Now, ms since the epoch.
    pub now_ms: i64,
    /// The id that a new checkpoint gets.
    pub new_query_id: Uuid,
}

/// A claimed checkpoint.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The query's id from `metadata`.
    pub query_id: Uuid,
    /// The fence of the claimed epoch.
    pub fence: Fence,
    weir: Folder,
    epoch: u64,
    instance: Uuid,
    job_uid: String,
}

/// The content of `_weir/epochs/<epoch>`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EpochClaim {
    owner: Owner,
    instance: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod_uid: Option<String>,
    time_ms: i64,
}

/// Claims `root` for the claimant, or says why not.
pub async fn claim(root: &Folder, claimant: &Claimant) -> Result<Claim> {
    let query_id = query_id(root, claimant.new_query_id).await?;
    let weir = root.child("_weir");
    take_owner(&weir, claimant).await?;
    take_epoch(&weir, claimant).await?;
    recheck(&weir, claimant).await?;
    let fence = Fence::new(weir.child("epochs"), claimant.epoch);
    Ok(Claim { query_id, fence, weir, epoch: claimant.epoch, instance: claimant.instance, job_uid: claimant.owner.job_uid.clone() })
}

impl Claim {
    /// The folder of Weir's own files in the checkpoint.
    pub fn weir(&self) -> &Folder {
        &self.weir
    }

    /// The id of this process.
    pub fn instance(&self) -> Uuid {
        self.instance
    }

    /// Says why this epoch was fenced: when the newest owner is another one, the
    /// checkpoint was adopted and a higher epoch of this job would not help.
    pub async fn explain(&self, fenced: Error) -> Error {
        match owner_facts(&self.weir).await {
            Ok(OwnerFacts { newest: Some((_, owner)), .. }) if owner.job_uid != self.job_uid => Error::incompatible(
                weir_crds::exit::CHECKPOINT_ADOPTED,
                format!(
                    "the checkpoint {} was taken over by {}/{} (job UID {}); give this query a checkpointLocation of its own, or \
                     change restartNonce to claim it again",
                    self.weir.url(),
                    owner.namespace,
                    owner.job,
                    owner.job_uid
                ),
            ),
            _ => fenced,
        }
    }

    /// Step 7: deletes the claims below the own one, and their releases.
    pub async fn clean_up(&self) -> Result<()> {
        failpoint::hit("claim.cleanup.before")?;
        for folder in ["epochs", "released"] {
            let folder = self.weir.child(folder);
            for epoch in fence::claims(&folder).await?.into_iter().filter(|epoch| *epoch < self.epoch) {
                folder.delete(&fence::claim_name(epoch)).await?;
            }
        }
        failpoint::hit("claim.cleanup.after")
    }

    /// Marks a clean stop of this epoch.
    pub async fn release(&self) -> Result<()> {
        failpoint::hit("release.before")?;
        self.weir.child("released").create_or_read(&fence::claim_name(self.epoch), "{}").await?;
        failpoint::hit("release.after")
    }
}

async fn query_id(root: &Folder, fresh: Uuid) -> Result<Uuid> {
    let name = format!("{}/metadata", root.url());
    loop {
        if let Some(bytes) = root.read_small("metadata").await? {
            return entries::parse_metadata(&name, &bytes);
        }
        for log in ["offsets", "commits"] {
            if !root.child(log).list().await?.is_empty() {
                return Err(missing_metadata(root, log));
            }
        }
        failpoint::hit("claim.metadata.before")?;
        root.create_new("metadata", entries::metadata_text(fresh)).await?;
        failpoint::hit("claim.metadata.after")?;
    }
}

fn missing_metadata(root: &Folder, log: &str) -> Error {
    Error::incompatible(
        "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
        format!(
            "{}/metadata is missing, but {log}/ holds entries; restore the file (its text is {{\"id\":\"<query id>\"}}, \
             and the id is the sink's transaction identifier), or set a new checkpointLocation with a changed \
             checkpointResetNonce",
            root.url()
        ),
    )
}

async fn owner_facts(weir: &Folder) -> Result<OwnerFacts> {
    let owners = weir.child("owner");
    let highest_claim = fence::highest(&numbered::ids(&weir.child("epochs"), Naming::Epochs).await?);
    let released = fence::claims(&weir.child("released")).await?;
    let newest = match numbered::ids(&owners, Naming::Plain).await?.last().copied() {
        None => None,
        Some(number) => Some((number, owner::read(&owners, number).await?)),
    };
    let is_released = highest_claim.is_none_or(|claim| released.contains(&claim));
    Ok(OwnerFacts { newest, highest_claim, is_released })
}

async fn take_owner(weir: &Folder, claimant: &Claimant) -> Result<()> {
    loop {
        let facts = owner_facts(weir).await?;
        match owner::decide(&facts, &claimant.owner, claimant.adopt, weir.url().as_str())? {
            OwnerStep::Ours => return Ok(()),
            OwnerStep::Create(number) => {
                failpoint::hit("claim.owner.before")?;
                let body = serde_json::to_vec(&claimant.owner).expect("an owner is strings");
                weir.child("owner").create_new(&number.to_string(), body).await?;
                failpoint::hit("claim.owner.after")?;
            }
        }
    }
}

async fn take_epoch(weir: &Folder, claimant: &Claimant) -> Result<()> {
    let epochs = weir.child("epochs");
    let name = fence::claim_name(claimant.epoch);
    let body = EpochClaim {
        owner: claimant.owner.clone(),
        instance: claimant.instance,
        pod_uid: claimant.pod_uid.clone(),
        time_ms: claimant.now_ms,
    };
    failpoint::hit("claim.epoch.before")?;
    let stored = epochs.create_or_read(&name, serde_json::to_vec(&body).expect("a claim is strings")).await?;
    failpoint::hit("claim.epoch.after")?;
    let Some(stored) = stored else { return Ok(()) };
    match serde_json::from_slice::<EpochClaim>(&stored) {
        Ok(claim) if claim.instance == claimant.instance => Ok(()),
        _ => {
            let highest = fence::highest(&fence::claims(&epochs).await?).unwrap_or(claimant.epoch);
            Err(Error::fenced(
                highest.max(claimant.epoch),
                format!("epoch {} of {} was claimed by another process", claimant.epoch, epochs.url()),
            ))
        }
    }
}

async fn recheck(weir: &Folder, claimant: &Claimant) -> Result<()> {
    let epochs = weir.child("epochs");
    Fence::new(epochs, claimant.epoch).check().await?;
    let facts = owner_facts(weir).await?;
    match facts.newest {
        Some((_, owner)) if owner.job_uid == claimant.owner.job_uid => failpoint::hit("claim.recheck.after"),
        Some((_, owner)) => Err(owner::refusal(&owner, &claimant.owner, facts.highest_claim, weir.url().as_str())),
        None => Err(entries::damaged(&format!("{}/owner", weir.url()), "it vanished during the claim")),
    }
}
