//! What `/metrics` shows: the operator's own figures, and those of every job.
//!
//! Figures of jobs are computed at scrape time from the [`JobBoard`], which the
//! controller keeps; a job that is taken off the board is gone from the next
//! scrape. Labels are namespace, name and closed sets, and every counter starts
//! at 0 for each known label value. The text is made in pieces, so ten thousand
//! jobs do not need the memory of their whole text.

mod board;
mod families;
mod operator;
#[cfg(test)]
mod tests;
mod view;

pub use board::JobBoard;
pub use operator::{CreateConflict, OperatorMetrics, ReconcileResult, StatusWrite, WatchKind};
pub use view::{JobView, Restarts};

use std::sync::Arc;

/// The content type of the text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All that is shown.
#[derive(Clone)]
pub struct Metrics {
    /// Of the operator itself.
    pub operator: Arc<OperatorMetrics>,
    /// Of the jobs.
    pub board: Arc<JobBoard>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { operator: Arc::new(OperatorMetrics::new()), board: Arc::new(JobBoard::default()) }
    }
}

impl Metrics {
    /// This process looks after no job any more, and watches none.
    pub fn forget_jobs(&self) {
        self.board.clear();
        self.operator.forget_jobs();
    }

    /// The text in pieces of bounded size.
    pub fn pieces(&self) -> impl Iterator<Item = String> + Send + 'static {
        std::iter::once(self.operator.text()).chain(families::pieces(self.board.snapshot()))
    }
}
