//! SIGINT and SIGTERM as an ordered pair of wishes: end well, then end now.
//!
//! The first signal asks for a stop at a batch boundary, a second one ends the
//! process at once. Nothing else of the process is decided here. A thread of
//! its own counts them, for the system makes one of signals that nobody has
//! looked at yet, and the others may be busy with a slow disk.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use weir_core::{Error, Result};

/// The signals that end a command.
#[derive(Debug)]
pub struct Signals {
    heard: mpsc::UnboundedReceiver<()>,
}

impl Signals {
    /// Takes over SIGINT and SIGTERM.
    pub fn listen() -> Result<Self> {
        let failed = |e| Error::retryable("SIGNALS_UNAVAILABLE", "could not listen for signals").with_source(e);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let context = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        drop(context);
        let (sender, heard) = mpsc::unbounded_channel();
        let listen = async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if sender.send(()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || runtime.block_on(listen)).map_err(failed)?;
        Ok(Self { heard })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        if self.heard.recv().await.is_none() {
            // Without the thread no signal comes any more.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::process::{Signal, getpid, kill_process};
    use std::time::{Duration, Instant};

    #[test]
    fn two_signals_are_two_though_nobody_looks() {
        let signals = Signals::listen().unwrap();
        for count in 1..=2 {
            kill_process(getpid(), Signal::INT).unwrap();
            let until = Instant::now() + Duration::from_secs(30);
            while signals.heard.len() < count {
                assert!(Instant::now() < until, "signal {count} was not heard");
                std::thread::yield_now();
            }
        }
    }
}
