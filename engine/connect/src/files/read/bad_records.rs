//! Records of files that were set apart, until somebody takes them.
//!
//! The reader bounds what is held by ending its slice early.

use arrow::array::{Int64Builder, StringBuilder};

use super::frame::Framed;
use crate::bad_records::{BadRows, Places};

/// Bytes of a record beside its own and its reason's.
const OVERHEAD: usize = 64;

/// Bad records of one file.
#[derive(Default)]
pub struct BadRecords {
    reason: StringBuilder,
    record: StringBuilder,
    path: StringBuilder,
    number: Int64Builder,
    byte: Int64Builder,
    bytes: usize,
}

impl BadRecords {
    /// Keeps a record.
    pub fn push(&mut self, uri: &str, record: &Framed<'_>, reason: &str) {
        self.reason.append_value(reason);
        self.record.append_value(String::from_utf8_lossy(record.bytes));
        self.path.append_value(uri);
        self.number.append_value(record.number.cast_signed());
        self.byte.append_value(record.at.cast_signed());
        self.bytes += record.bytes.len() + reason.len() + uri.len() + OVERHEAD;
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is held, if anything.
    pub fn take(&mut self) -> Option<BadRows> {
        if std::mem::take(&mut self.bytes) == 0 {
            return None;
        }
        let place = Places::Files { path: self.path.finish(), number: self.number.finish(), byte: self.byte.finish() };
        Some(BadRows { reason: self.reason.finish(), record: self.record.finish(), place })
    }
}
