//! Contexts over a temporary folder for the unit tests of this crate.
#![allow(clippy::unwrap_used)]

use weir_core::checkpoint::{Fence, FencedLog};
use weir_core::storage::{Durability, Storage};

use crate::open::{SinkContext, SourceContext, SourcePlace};

/// Opens a folder of the temporary checkpoint.
pub fn storage() -> Storage {
    Storage::new(Durability::PageCache)
}

/// A source context without settings.
pub fn source_context() -> SourceContext {
    SourceContext { storage: storage(), conf: std::collections::BTreeMap::new() }
}

/// `sources/0` of a checkpoint.
pub fn source_place(checkpoint: &std::path::Path) -> SourcePlace {
    let root = storage().open(checkpoint.to_str().unwrap()).unwrap();
    let log = FencedLog::new(root.child("sources/0"), Fence::new(root.child("_weir/epochs"), 1));
    SourcePlace { log, query_id: uuid::Uuid::nil() }
}

/// The place of a sink of a query with the given id.
pub fn sink_context(checkpoint: &std::path::Path, query_id: uuid::Uuid) -> SinkContext {
    let root = storage().open(checkpoint.to_str().unwrap()).unwrap();
    SinkContext { query_id, fence: Fence::new(root.child("_weir/epochs"), 1) }
}
