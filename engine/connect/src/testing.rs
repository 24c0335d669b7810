//! Contexts over a temporary folder for the unit tests of this crate.
#![allow(clippy::unwrap_used)]

use weir_core::checkpoint::{Fence, FencedLog};
use weir_core::storage::{Durability, Storage};

use crate::open::{SinkContext, SourceContext};

/// Opens a folder of the temporary checkpoint.
pub fn storage() -> Storage {
    Storage::new(Durability::PageCache)
}

/// A source context whose log is `sources/0` in a new temporary folder.
pub fn source_context() -> (tempfile::TempDir, SourceContext) {
    let dir = tempfile::tempdir().unwrap();
    let context = source_context_in(dir.path());
    (dir, context)
}

/// A source context over a checkpoint that exists already.
pub fn source_context_in(checkpoint: &std::path::Path) -> SourceContext {
    let root = storage().open(checkpoint.to_str().unwrap()).unwrap();
    SourceContext {
        log: FencedLog::new(root.child("sources/0"), Fence::new(root.child("_weir/epochs"), 1)),
        storage: storage(),
        conf: std::collections::BTreeMap::new(),
        query_id: uuid::Uuid::nil(),
    }
}

/// A sink context of a query with the given id.
pub fn sink_context(checkpoint: &std::path::Path, query_id: uuid::Uuid) -> SinkContext {
    let root = storage().open(checkpoint.to_str().unwrap()).unwrap();
    SinkContext { query_id, fence: Fence::new(root.child("_weir/epochs"), 1), storage: storage(), conf: std::collections::BTreeMap::new() }
}
