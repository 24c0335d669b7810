//! The lines of a file sink's log.
//!
//! `_spark_metadata/<batch>` lists the files of a batch; files that no entry
//! names do not exist for readers. Fields, their order and values are those of
//! Spark's `SinkFileStatus`.

use serde::{Deserialize, Serialize};

use super::compactible::{LogEntry, Retention};

/// One file of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SinkFileStatus {
    /// The file as Java spells it.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Always false here.
    pub is_dir: bool,
    /// Milliseconds since the epoch.
    pub modification_time: i64,
    /// As the file system reports it; 1 on local disks.
    pub block_replication: i32,
    /// As the file system reports it.
    pub block_size: i64,
    /// `add`.
    pub action: String,
}

/// Hadoop's block size for the local file system.
const BLOCK_SIZE: i64 = 33_554_432;

impl SinkFileStatus {
    /// The line of a finished file.
    pub fn added(path: String, size: u64, modification_time: i64) -> Self {
        Self { path, size, is_dir: false, modification_time, block_replication: 1, block_size: BLOCK_SIZE, action: "add".to_owned() }
    }
}

impl LogEntry for SinkFileStatus {
    const IS_SEALED: bool = false;

    fn keep(&self, retention: &Retention) -> bool {
        retention.oldest_ms.is_none_or(|oldest| self.modification_time >= oldest)
    }
}
