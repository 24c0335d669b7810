//! Copying a checkpoint to another location, also beside a running query.
//!
//! Takes the newest committed batch and everything up to it, nothing above, so
//! that what a running query is in the middle of is not half in the copy. The
//! claims and the owner stay behind: the copy belongs to whoever claims it
//! first. A fork gets a new query id and forgets its sink, since the sink's
//! record is kept under the old id (protocol.md section 6).

use bytes::Bytes;
use object_store::ObjectStoreExt;
use uuid::Uuid;

use super::entries;
use super::numbered::{self, Naming};
use crate::error::{Error, Result};
use crate::storage::{Created, Folder};

/// What the copy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyAs {
    /// The same query at another place.
    SameQuery,
    /// A query of its own, with this id.
    Fork(Uuid),
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The newest batch in the copy.
    pub batch: u64,
    /// Objects written.
    pub objects: usize,
}

/// Copies the checkpoint `from` to the empty location `to`.
pub async fn copy(from: &Folder, to: &Folder, kind: CopyAs) -> Result<Copied> {
    let missing = || {
        Error::config(
            "CHECKPOINT_NOT_FOUND",
            format!("there is no checkpoint with a committed batch at {}; give the checkpointLocation of a query that has run", from.url()),
        )
    };
    let metadata = from.read_small("metadata").await?.ok_or_else(missing)?;
    let committed = numbered::ids(&from.child("commits"), Naming::Plain).await?;
    let newest = committed.last().copied().ok_or_else(missing)?;
    if !to.list_recursive().await?.is_empty() {
        return Err(Error::config("LOCATION_NOT_EMPTY", format!("{} is not empty; copy to a new location", to.url())));
    }
    let metadata = match kind {
        CopyAs::SameQuery => metadata,
        CopyAs::Fork(id) => Bytes::from(entries::metadata_text(id)),
    };
    let mut objects = 0;
    let base = from.prefix().as_ref().len();
    for object in from.list_recursive().await? {
        let name = object.location.as_ref()[base..].trim_start_matches('/').to_owned();
        if is_part(&name, newest, kind) {
            let found = from.store().get(&object.location).await;
            let body = match found {
                Ok(found) => found.bytes().await,
                // Retention of the running query may take an old entry away meanwhile.
                Err(object_store::Error::NotFound { .. }) => continue,
                Err(error) => Err(error),
            };
            let body =
                body.map_err(|e| Error::retryable("STORAGE_FAILURE", format!("could not read {}/{name}", from.url())).with_source(e))?;
            objects += usize::from(to.create_new(&name, body).await? == Created::New);
        }
    }
    // Last, so that an interrupted copy is not a checkpoint.
    to.create_new("metadata", metadata).await?;
    Ok(Copied { batch: newest, objects: objects + 1 })
}

/// Whether an object of the checkpoint belongs into a copy up to `newest`.
fn is_part(name: &str, newest: u64, kind: CopyAs) -> bool {
    let (folder, rest) = name.split_once('/').unwrap_or(("", name));
    match folder {
        "offsets" | "commits" => numbered::id_of(rest, Naming::Plain).is_some_and(|batch| batch <= newest),
        "sources" | "state" => true,
        "_weir" => kind == CopyAs::SameQuery && rest.starts_with("sink"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::storage::{Durability, Storage};

    async fn checkpoint(folder: &Folder) {
        let files = [
            "metadata",
            "offsets/3",
            "offsets/4",
            "offsets/5",
            "commits/3",
            "commits/4",
            "sources/0/0",
            "_weir/sink",
            "_weir/owner/0",
            "_weir/epochs/000000000007",
        ];
        for file in files {
            folder.create_new(file, format!("text of {file}")).await.unwrap();
        }
    }

    #[tokio::test]
    async fn everything_up_to_the_newest_commit_and_nothing_above() {
        let dir = tempfile::tempdir().unwrap();
        let root = Storage::new(Durability::PageCache).open(dir.path().to_str().unwrap()).unwrap();
        let (from, same, fork) = (root.child("from"), root.child("same"), root.child("fork"));
        checkpoint(&from).await;
        assert_eq!(copy(&from, &same, CopyAs::SameQuery).await.unwrap(), Copied { batch: 4, objects: 7 });
        assert!(same.read("offsets/5").await.unwrap().is_none());
        assert!(same.read("_weir/owner/0").await.unwrap().is_none());
        assert_eq!(same.read("metadata").await.unwrap().unwrap(), "text of metadata");
        assert!(same.read("_weir/sink").await.unwrap().is_some());
        let id = Uuid::from_u128(7);
        copy(&from, &fork, CopyAs::Fork(id)).await.unwrap();
        assert_eq!(fork.read("metadata").await.unwrap().unwrap(), entries::metadata_text(id));
        assert!(fork.read("_weir/sink").await.unwrap().is_none());
        assert_eq!(copy(&from, &same, CopyAs::SameQuery).await.unwrap_err().condition(), "LOCATION_NOT_EMPTY");
    }
}
