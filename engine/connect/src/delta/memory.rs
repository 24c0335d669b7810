//! How much the open files of Delta sinks hold in memory.
//!
//! A lane's writer stays below `LANE_BYTES` plus one slice: beyond it, row
//! groups are flushed and then files are closed, least recently used first.
//! `buffered_bytes` is the gauge over all lanes of the process.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one lane's open files may hold.
pub const LANE_BYTES: usize = 16 << 20;

/// Files that one lane keeps open.
pub const LANE_FILES: usize = 32;

/// What a merge by `upsertKeys` holds for each row of a batch: its key, with 20 bytes of its own, and the row of the table that it meets.
pub const MERGED_ROW_BYTES: u64 = 200;

static BUFFERED: AtomicU64 = AtomicU64::new(0);

/// Bytes held by all open files of the process.
pub fn buffered_bytes() -> u64 {
    BUFFERED.load(Ordering::Relaxed)
}

/// The limit for a number of lanes.
pub fn limit_bytes(lanes: usize) -> u64 {
    (lanes * LANE_BYTES) as u64
}

/// One writer's share of the gauge; gives it back when dropped.
#[derive(Debug, Default)]
pub struct Share(u64);

impl Share {
    /// Reports what the writer holds now.
    pub fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes >= self.0 {
            BUFFERED.fetch_add(bytes - self.0, Ordering::Relaxed);
        } else {
            BUFFERED.fetch_sub(self.0 - bytes, Ordering::Relaxed);
        }
        self.0 = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}
