//! The epoch fence: who may still write to a checkpoint.
//!
//! A claim is the object `_weir/epochs/<12-digit epoch>`. A process may go on
//! as long as no claim above its own exists. Looking is one list of a folder
//! that holds one entry in the normal case, since claims below the own one are
//! deleted after a successful claim.
//!
//! Safety does not rest on the looks alone: every log entry is made by
//! create-if-absent and every sink skips what it has recorded (protocol.md 4).

use super::numbered::{self, Naming};
use crate::error::{Error, Result};
use crate::storage::Folder;

/// The right of one epoch to write, checked against the claims on disk.
#[derive(Clone, Debug)]
pub struct Fence {
    epochs: Folder,
    epoch: u64,
}

impl Fence {
    /// The fence of `epoch` over the folder of claims.
    pub fn new(epochs: Folder, epoch: u64) -> Self {
        Self { epochs, epoch }
    }

    /// The own epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Fails with class Fenced when a higher epoch has claimed the checkpoint.
    pub async fn check(&self) -> Result<()> {
        match highest(&claims(&self.epochs).await?) {
            Some(highest) if highest > self.epoch => Err(fenced(self.epoch, highest, &self.epochs)),
            _ => Ok(()),
        }
    }
}

/// The object name of a claim: twelve digits, so that names sort by epoch.
pub fn claim_name(epoch: u64) -> String {
    format!("{epoch:012}")
}

/// All claimed epochs, rising. Objects with other names are not claims.
pub async fn claims(epochs: &Folder) -> Result<Vec<u64>> {
    Ok(numbered::look(epochs, Naming::Epochs).await?.ids)
}

/// The highest of some claims.
pub fn highest(claims: &[u64]) -> Option<u64> {
    claims.iter().copied().max()
}

/// The error of a process that finds a higher claim than its own.
pub fn fenced(own: u64, highest: u64, epochs: &Folder) -> Error {
    Error::fenced(highest, format!("epoch {own} may not write any more: epoch {highest} has claimed the checkpoint ({})", epochs.url()))
}
