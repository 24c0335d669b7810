//! What a leader does, kept to the time in which it leads.
//!
//! The work is a future: made anew when this process begins to lead, dropped
//! when it ends. The end is judged here too, against the time that was told,
//! so that work never goes on because the candidate's task was not scheduled.
//! An order to stop ends the wait for the leadership at once; work that is
//! under way has the order itself, and ends in its own time.

use std::future::Future;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::holder::Leadership;

/// Runs `work` whenever this process leads. Ends with the election or, while this process does not lead, with `stop` (None), or with
/// the work's own result.
///
/// Tasks that the work has spawned live on when it is dropped; they are the work's own to bind.
pub async fn while_leading<W, F>(
    mut leadership: watch::Receiver<Leadership>,
    mut stop: watch::Receiver<bool>,
    mut work: W,
) -> Option<F::Output>
where
    W: FnMut() -> F,
    F: Future,
{
    loop {
        let leads = tokio::select! {
            biased;
            // A sender that is gone is a process that ends.
            () = async { drop(stop.wait_for(|stop| *stop).await) } => return None,
            leads = async { leadership.wait_for(|now| now.leads_at(Instant::now())).await.is_ok() } => leads,
        };
        if !leads {
            return None;
        }
        tokio::select! {
            biased;
            // The last word of an election that is over is no leadership.
            () = lost(&mut leadership) => if leadership.has_changed().is_err() {
                return None;
            },
            result = work() => return Some(result),
        }
    }
}

/// Ends when this process leads no more.
async fn lost(leadership: &mut watch::Receiver<Leadership>) {
    loop {
        let until = match *leadership.borrow_and_update() {
            Leadership::Leading { until } => until,
            Leadership::Following { .. } => return,
        };
        tokio::select! {
            changed = leadership.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = sleep_until(until) => {
                if !leadership.borrow().leads_at(Instant::now()) {
                    return;
                }
            }
        }
    }
}
