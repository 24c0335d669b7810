//! How far a reader of several files has come, as one number.
//!
//! The number has the files that are read to their end in its upper bits and the
//! rows that were handed out of the next one in its lower: a file that vanishes
//! moves no place in another. Rows are counted before any is passed by, so that a
//! place means the same however often reading was begun.

use std::cmp::Ordering;
use std::collections::VecDeque;

use arrow::record_batch::RecordBatch;

/// Low bits of a position that count the rows of a file.
const ROW_BITS: u32 = 40;

/// The way through the files.
#[derive(Debug, Default)]
pub struct Passage {
    /// Files taken so far, the open one among them.
    taken: u64,
    /// Rows that were read of the open file.
    rows: u64,
    /// Rows to pass by: those of so many files, and so many of the one after them.
    pass_by: (u64, u64),
}

impl Passage {
    /// The next file is taken.
    pub fn begin_file(&mut self) {
        self.taken += 1;
        self.rows = 0;
    }

    /// The rows of the open file's next slice that are not to be passed by.
    pub fn hand_out(&mut self, slice: RecordBatch) -> RecordBatch {
        let (files, rows) = self.pass_by;
        let left = match self.taken.cmp(&(files + 1)) {
            Ordering::Less => u64::MAX,
            Ordering::Equal => rows.saturating_sub(self.rows),
            Ordering::Greater => 0,
        };
        let passed = usize::try_from(left).unwrap_or(usize::MAX).min(slice.num_rows());
        self.rows += slice.num_rows() as u64;
        slice.slice(passed, slice.num_rows() - passed)
    }

    /// The place behind the last row that was handed out.
    pub fn position(&self, is_file_open: bool) -> u64 {
        if is_file_open { (self.taken - 1) << ROW_BITS | self.rows } else { self.taken << ROW_BITS }
    }

    /// Begins at a place: what is before it is passed by.
    pub fn skip_to(&mut self, position: u64) {
        self.pass_by = (position >> ROW_BITS, position & ((1 << ROW_BITS) - 1));
    }

    /// Drops the files that are passed by as a whole, which need not be read then.
    pub fn drop_read<F>(&mut self, files: &mut VecDeque<F>) {
        while self.taken < self.pass_by.0 && files.pop_front().is_some() {
            self.taken += 1;
        }
    }
}
