//! From a situation to `Ready`, `Reconciling`, `Stalled` and `Running`.
//!
//! One arm per situation, so that the published table can be read off. What
//! Kubernetes tools make of it (kstatus): a true `Reconciling` is in progress,
//! a true `Stalled` is failed, else a true `Ready` is current.

use super::situation::{self, Running, Situation};
use super::{ConditionStatus, Look, Verdict};
use crate::desired::Acceptance;

/// The four that belong together.
pub(super) struct Core {
    pub(super) ready: Verdict,
    pub(super) reconciling: Verdict,
    pub(super) stalled: Verdict,
    pub(super) running: Verdict,
}

/// The row of the situation that the job is in.
pub(super) fn of(look: &Look<'_>) -> Core {
    let mut core = row(situation::of(look));
    if let (Acceptance::Checking { obstacle, .. }, true) = (&look.desired.acceptance, core.stalled.status != ConditionStatus::True) {
        // The newest generation is not in effect yet: waiters must not take the old one's word.
        let message = match obstacle {
            None => "the newest generation is being checked".to_owned(),
            Some(why) => format!("the newest generation could not be checked and is tried again: {why}"),
        };
        core.ready = Verdict::fails("Upgrading", message.clone());
        core.reconciling = Verdict::holds("ApplyingSpec", message);
    }
    if look.desired.paused {
        core.reconciling = Verdict::fails("Paused", "weir.dev/paused is set; nothing but status is written");
    }
    core
}

/// The row of a job of which nothing may be decided: what runs goes on, and nobody looks.
pub(super) fn held(reason: &str, message: String) -> Core {
    Core { running: Verdict::unknown(reason, ""), ..broken(reason, message, Running::NoRun) }
}

fn row(situation: Situation) -> Core {
    match situation {
        Situation::NotYetObserved => Core {
            ready: Verdict::unknown("NotYetObserved", ""),
            reconciling: Verdict::holds("ApplyingSpec", ""),
            stalled: no_stall(),
            running: Verdict::fails("NoRun", ""),
        },
        Situation::SpecInvalid { reason, message, running } => Core {
            ready: Verdict::fails(&reason, message.clone()),
            reconciling: Verdict::fails("Stalled", ""),
            stalled: Verdict::holds(&reason, message),
            running: if running { streaming() } else { Verdict::fails("NoRun", "") },
        },
        Situation::Stopping { message } => moving("Stopping", "StoppingRun", message, Verdict::fails("Stopping", "")),
        Situation::StopBlocked { message } => {
            Core { ready: Verdict::fails("Stopping", message.clone()), ..broken("FinalizerBlocked", message, Running::Stopping) }
        }
        Situation::Suspended => idle("Suspended", "spec.suspend is true".to_owned(), "Suspended"),
        Situation::NodeUnreachable { message, lasting } => {
            let running = Verdict::unknown("NodeLost", message.clone());
            if lasting {
                Core { running, ..broken("PreviousRunUnconfirmed", message, Running::NoRun) }
            } else {
                moving("PreviousRunUnconfirmed", "WaitingForTermination", message, running)
            }
        }
        Situation::WaitingForTermination { message } => {
            moving("RunStarting", "WaitingForTermination", message, Verdict::fails("RunStarting", ""))
        }
        Situation::Held { message, lasting: true } => {
            Core { ready: Verdict::fails("RunStarting", message.clone()), ..broken("FinalizerBlocked", message, Running::Starting) }
        }
        Situation::Held { message, lasting: false } => {
            moving("RunStarting", "WaitingForTermination", message, Verdict::fails("RunStarting", ""))
        }
        Situation::Upgrading { message } => moving("Upgrading", "WaitingForTermination", message, Verdict::fails("Stopping", "")),
        Situation::Stalled { reason, message, running } => broken(&reason, message, running),
        Situation::Starting { obstacle, message } => {
            let (reason, message) = obstacle.unwrap_or(("RunStarting", message));
            moving(reason, "StartingRun", message, Verdict::fails("RunStarting", ""))
        }
        Situation::TaskDown { never_retried: true, message } => broken("TaskFailed", message, Running::Streaming),
        Situation::TaskDown { never_retried: false, message } => {
            moving("TaskRetrying", "TaskRetrying", message, Verdict::fails("RunStarting", ""))
        }
        Situation::Streaming { message } => Core {
            ready: Verdict::holds("Streaming", message),
            reconciling: Verdict::fails("Idle", ""),
            stalled: no_stall(),
            running: streaming(),
        },
        Situation::BackingOff { message } => moving("BackingOff", "BackingOff", message, Verdict::fails("BackingOff", "")),
        Situation::BetweenRuns { message, ready: true } => idle("BetweenRuns", message, "BetweenRuns"),
        Situation::BetweenRuns { message, ready: false } => {
            moving("RunStarting", "StartingRun", message, Verdict::fails("BetweenRuns", ""))
        }
        Situation::WaitingForTrigger { message } => idle("WaitingForTrigger", message, "NoRun"),
    }
}

fn no_stall() -> Verdict {
    Verdict::fails("NoStall", "")
}

fn streaming() -> Verdict {
    Verdict::holds("Streaming", "")
}

/// On the way to something better without human help.
fn moving(ready: &str, reconciling: &str, message: String, running: Verdict) -> Core {
    Core { ready: Verdict::fails(ready, message.clone()), reconciling: Verdict::holds(reconciling, message), stalled: no_stall(), running }
}

/// Intentionally idle.
fn idle(ready: &str, message: String, running: &str) -> Core {
    Core {
        ready: Verdict::holds(ready, message),
        reconciling: Verdict::fails("Idle", ""),
        stalled: no_stall(),
        running: Verdict::fails(running, ""),
    }
}

fn broken(reason: &str, message: String, running: Running) -> Core {
    Core {
        ready: Verdict::fails(reason, message.clone()),
        reconciling: Verdict::fails("Stalled", ""),
        stalled: Verdict::holds(reason, message),
        running: match running {
            Running::Streaming => streaming(),
            Running::Starting => Verdict::fails("RunStarting", ""),
            Running::Stopping => Verdict::fails("Stopping", ""),
            Running::BackingOff => Verdict::fails("BackingOff", ""),
            Running::NoRun => Verdict::fails("NoRun", ""),
        },
    }
}
