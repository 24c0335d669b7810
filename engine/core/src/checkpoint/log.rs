//! A folder of numbered log entries written by create-if-absent under a fence.
//!
//! This is the only way anything is written to `offsets/`, `commits/`,
//! `sources/*/` and `_spark_metadata/`. An entry is never overwritten. When it
//! exists already, the fence decides: with the own epoch highest the stored
//! entry is taken (an earlier life of this query, or a lost response, wrote
//! it); otherwise the process is fenced (protocol.md section 4).

use bytes::Bytes;

use super::fence::Fence;
use super::numbered::{self, Naming};
use crate::error::Result;
use crate::storage::Folder;

/// One log folder and the right to write to it.
#[derive(Clone, Debug)]
pub struct FencedLog {
    folder: Folder,
    fence: Fence,
}

/// The entry that counts after an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    /// Ours was written.
    New,
    /// This one was there before and wins over ours.
    Stored(Bytes),
}

impl FencedLog {
    /// A log in `folder`, written to under `fence`.
    pub fn new(folder: Folder, fence: Fence) -> Self {
        Self { folder, fence }
    }

    /// The folder of the log.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The fence that guards the log.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Creates the entry `name`, or takes over the one that is there.
    pub async fn append(&self, name: &str, body: impl Into<Bytes>) -> Result<Appended> {
        let Some(stored) = self.folder.create_or_read(name, body).await? else { return Ok(Appended::New) };
        self.fence.check().await?;
        Ok(Appended::Stored(stored))
    }

    /// The entry `name`, if there is one.
    pub async fn read(&self, name: &str) -> Result<Option<Bytes>> {
        self.folder.read(name).await
    }

    /// The file names in the log, sorted as text.
    pub async fn names(&self) -> Result<Vec<String>> {
        let objects = self.folder.list().await?;
        Ok(objects.iter().filter_map(|o| o.location.filename()).map(str::to_owned).collect())
    }

    /// The entries, whose names are plain numbers, rising; the log must hold nothing that only looks like one.
    pub async fn ids(&self) -> Result<Vec<u64>> {
        numbered::ids(&self.folder, Naming::Plain).await
    }

    /// Deletes an entry; retention only.
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.folder.delete(name).await
    }
}
