//! The end of a controller: no new pass begins, those under way end.
//!
//! Pending wake-ups, which may be minutes away, are not waited for.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// Lets passes in until it is closed.
pub struct Gate {
    is_closed: AtomicBool,
    inside: watch::Sender<usize>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { is_closed: AtomicBool::new(false), inside: watch::channel(0).0 }
    }
}

/// A pass that is inside; leaves when dropped.
pub struct Inside<'a>(&'a Gate);

impl Gate {
    /// Lets a pass in, unless the gate is closed.
    pub fn enter(&self) -> Option<Inside<'_>> {
        self.inside.send_modify(|count| *count += 1);
        let inside = Inside(self);
        // Counted first: who closes either sees this pass or is seen by it.
        (!self.is_closed.load(Ordering::SeqCst)).then_some(inside)
    }

    /// Closes the gate and waits until nobody is inside.
    pub async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // The sender is ours, so the channel stays open.
        let _ = self.inside.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn closing_waits_for_who_is_inside_and_lets_nobody_in() {
        let gate = Arc::new(Gate::default());
        let inside = gate.enter();
        let closing = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.close().await }
        });
        while gate.enter().is_some() {
            tokio::task::yield_now().await;
        }
        assert!(!closing.is_finished());
        drop(inside);
        assert!(closing.await.is_ok());
    }
}
