//! Waiting without blocking the runtime: the asynchronous twin of `weir_testkit::eventually`.
//!
//! The question answers with an error for "not yet"; the last of them is what
//! a missed deadline reports, so that a test says why it failed.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

pub use weir_testkit::wait::GENEROUS;

const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is `Ok`; after `deadline` the last error, under a line that names `what` was waited for.
pub async fn eventually<T, Answer>(what: &str, deadline: Duration, mut ask: impl FnMut() -> Answer) -> Result<T>
where
    Answer: Future<Output = Result<T>>,
{
    let end = Instant::now() + deadline;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if Instant::now() >= end => return Err(error).with_context(|| format!("waited {deadline:?} in vain for: {what}")),
            Err(_) => sleep(PAUSE).await,
        }
    }
}
