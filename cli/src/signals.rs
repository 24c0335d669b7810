//! SIGINT and SIGTERM as an ordered pair of wishes: end well, then end now.
//!
//! The first signal asks for a stop at a batch boundary, a second one ends the
//! process at once. Nothing else of the process is decided here.

use tokio::signal::unix::{Signal, SignalKind, signal};
use weir_core::{Error, Result};

/// The signals that end a command.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes over SIGINT and SIGTERM; needs a running tokio runtime.
    pub fn listen() -> Result<Self> {
        let open = |kind| signal(kind).map_err(|e| Error::retryable("SIGNALS_UNAVAILABLE", "could not listen for signals").with_source(e));
        Ok(Self { interrupt: open(SignalKind::interrupt())?, terminate: open(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
