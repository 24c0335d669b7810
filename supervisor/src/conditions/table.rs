//! From a situation to `Ready`, `Reconciling`, `Stalled` and `Running`.
//!
//! One arm per situation, so that the published table can be read off. What
//! Kubernetes tools make of it (kstatus): a true `Reconciling` is in progress,
//! a true `Stalled` is failed, else a true `Ready` is current.

use super::situation::{self, Running, Situation};
use super::{ConditionStatus, Look, Reason, Verdict};
use crate::desired::Acceptance;
use crate::observed::Shutdown;

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
    let awaits_check = core.stalled.status != ConditionStatus::True && look.observed.shutdown == Shutdown::None;
    if let (Acceptance::Checking { obstacle, .. }, true) = (&look.desired.acceptance, awaits_check) {
        // The newest generation is not in effect yet: waiters must not take the old one's word.
        let message = match obstacle {
            None => "the newest generation is being checked".to_owned(),
            Some(why) => format!("the newest generation could not be checked and is tried again: {why}"),
        };
        core.ready = Verdict::fails(Reason::Upgrading, message.clone());
        core.reconciling = Verdict::holds(Reason::ApplyingSpec, message);
    }
    if look.desired.paused {
        core.reconciling = Verdict::fails(Reason::Paused, "weir.dev/paused is set; nothing but status is written");
    }
    core
}

/// The row of a job of which nothing may be decided: what runs goes on, and nobody looks.
pub(super) fn held(reason: Reason, message: String) -> Core {
    Core { running: Verdict::unknown(reason, ""), ..broken(reason, message, Running::NoRun) }
}

fn row(situation: Situation) -> Core {
    match situation {
        Situation::NotYetObserved => Core {
            ready: Verdict::unknown(Reason::NotYetObserved, ""),
            reconciling: Verdict::holds(Reason::ApplyingSpec, ""),
            stalled: no_stall(),
            running: Verdict::fails(Reason::NoRun, ""),
        },
        Situation::SpecInvalid { reason, message, running } => Core {
            ready: Verdict::fails(reason, message.clone()),
            reconciling: Verdict::fails(Reason::Stalled, ""),
            stalled: Verdict::holds(reason, message),
            running: if running { streaming() } else { Verdict::fails(Reason::NoRun, "") },
        },
        Situation::Stopping { message } => moving(Reason::Stopping, Reason::StoppingRun, message, Verdict::fails(Reason::Stopping, "")),
        Situation::StopBlocked { message } => Core {
            ready: Verdict::fails(Reason::Stopping, message.clone()),
            ..broken(Reason::FinalizerBlocked, message, Running::Stopping)
        },
        Situation::Suspended => idle(Reason::Suspended, "spec.suspend is true".to_owned(), Reason::Suspended),
        Situation::NodeUnreachable { message, lasting } => {
            let running = Verdict::unknown(Reason::NodeLost, message.clone());
            if lasting {
                Core { running, ..broken(Reason::PreviousRunUnconfirmed, message, Running::NoRun) }
            } else {
                moving(Reason::PreviousRunUnconfirmed, Reason::WaitingForTermination, message, running)
            }
        }
        Situation::WaitingForTermination { message } => {
            moving(Reason::RunStarting, Reason::WaitingForTermination, message, Verdict::fails(Reason::RunStarting, ""))
        }
        Situation::Held { message, lasting: true } => Core {
            ready: Verdict::fails(Reason::RunStarting, message.clone()),
            ..broken(Reason::FinalizerBlocked, message, Running::Starting)
        },
        Situation::Held { message, lasting: false } => {
            moving(Reason::RunStarting, Reason::WaitingForTermination, message, Verdict::fails(Reason::RunStarting, ""))
        }
        Situation::Upgrading { message } => {
            moving(Reason::Upgrading, Reason::WaitingForTermination, message, Verdict::fails(Reason::Stopping, ""))
        }
        Situation::Stalled { reason, message, running } => broken(reason, message, running),
        Situation::Starting { obstacle, message } => {
            let (reason, message) = obstacle.unwrap_or((Reason::RunStarting, message));
            moving(reason, Reason::StartingRun, message, Verdict::fails(Reason::RunStarting, ""))
        }
        Situation::TaskDown { never_retried: true, message } => broken(Reason::TaskFailed, message, Running::Streaming),
        Situation::TaskDown { never_retried: false, message } => {
            moving(Reason::TaskRetrying, Reason::TaskRetrying, message, Verdict::fails(Reason::RunStarting, ""))
        }
        Situation::Streaming { message } => Core {
            ready: Verdict::holds(Reason::Streaming, message),
            reconciling: Verdict::fails(Reason::Idle, ""),
            stalled: no_stall(),
            running: streaming(),
        },
        Situation::BackingOff { message } => {
            moving(Reason::BackingOff, Reason::BackingOff, message, Verdict::fails(Reason::BackingOff, ""))
        }
        Situation::BetweenRuns { message, ready: true } => idle(Reason::BetweenRuns, message, Reason::BetweenRuns),
        Situation::BetweenRuns { message, ready: false } => {
            moving(Reason::RunStarting, Reason::StartingRun, message, Verdict::fails(Reason::BetweenRuns, ""))
        }
        Situation::WaitingForTrigger { message } => idle(Reason::WaitingForTrigger, message, Reason::NoRun),
    }
}

fn no_stall() -> Verdict {
    Verdict::fails(Reason::NoStall, "")
}

fn streaming() -> Verdict {
    Verdict::holds(Reason::Streaming, "")
}

/// On the way to something better without human help.
fn moving(ready: Reason, reconciling: Reason, message: String, running: Verdict) -> Core {
    Core { ready: Verdict::fails(ready, message.clone()), reconciling: Verdict::holds(reconciling, message), stalled: no_stall(), running }
}

/// Intentionally idle.
fn idle(ready: Reason, message: String, running: Reason) -> Core {
    Core {
        ready: Verdict::holds(ready, message),
        reconciling: Verdict::fails(Reason::Idle, ""),
        stalled: no_stall(),
        running: Verdict::fails(running, ""),
    }
}

fn broken(reason: Reason, message: String, running: Running) -> Core {
    Core {
        ready: Verdict::fails(reason, message.clone()),
        reconciling: Verdict::fails(Reason::Stalled, ""),
        stalled: Verdict::holds(reason, message),
        running: match running {
            Running::Streaming => streaming(),
            Running::Starting => Verdict::fails(Reason::RunStarting, ""),
            Running::Stopping => Verdict::fails(Reason::Stopping, ""),
            Running::BackingOff => Verdict::fails(Reason::BackingOff, ""),
            Running::NoRun => Verdict::fails(Reason::NoRun, ""),
        },
    }
}
