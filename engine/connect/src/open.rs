//! What a connector is given when it is opened.
//!
//! The contexts carry handles, never paths: the source's own log, the storage
//! to open user locations with, the session's settings. A source gets them in
//! two steps: what settles its schema before the checkpoint is claimed, its
//! place in the claimed checkpoint after. Which connector a format means is
//! decided in `registry`.

use weir_core::checkpoint::{Fence, FencedLog};
use weir_core::storage::Storage;

/// What every source is prepared with.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// Opens the locations that the options name.
    pub storage: Storage,
    /// Spark settings by name that the manifest sets; the connector asks for those it knows.
    pub conf: std::collections::BTreeMap<String, String>,
}

/// A source's place in a claimed checkpoint.
#[derive(Clone, Debug)]
pub struct SourcePlace {
    /// `sources/<n>/` of the checkpoint.
    pub log: FencedLog,
    /// The query's id; part of client and group ids.
    pub query_id: uuid::Uuid,
}

/// What every sink is opened with.
#[derive(Clone, Debug)]
pub struct SinkContext {
    /// The query's id: the transaction identifier of fenced sinks.
    pub query_id: uuid::Uuid,
    /// The fence of this run's epoch.
    pub fence: Fence,
    /// Opens the locations that the options name.
    pub storage: Storage,
    /// Spark settings by name that the manifest sets.
    pub conf: std::collections::BTreeMap<String, String>,
}
