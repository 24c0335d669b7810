//! Pure decisions for the life of a streaming job.
//!
//! One function decides: [`decide`] takes what the owner wants ([`Desired`]),
//! what a shell sees ([`Observed`]), what is remembered ([`Memory`]), the time
//! and a source of jitter, and answers with a [`Plan`]. Nothing here knows a
//! clock, a process, a pod or a file. Two shells carry plans out: the local
//! runner (tasks are child processes) and the operator (tasks are pods).
//!
//! # The loop of a shell
//!
//! 1. Look: fill an [`Observed`], one [`observed::Slot`] per task.
//! 2. `let plan = decide(&desired, &observed, &memory, now, &mut draw);`
//! 3. If [`Memory::needs_storing`], store `plan.memory` (atomically; in a cluster
//!    with the `resourceVersion` just read). If that fails, forget the plan and
//!    begin at 1.
//! 4. Carry out `plan.actions`, publish `plan.events`, show
//!    [`status`](status::status()).
//! 5. If `plan.finished` is set, end. Else, if all actions could be carried out,
//!    begin at 1 at once; if there were none, or one failed (an API that does
//!    not answer), wait for an observation, a change of the manifest, or
//!    `plan.wake_at`, which comes soon while an effect is awaited.
//!
//! Whoever dies between any two of these steps loses nothing: actions are given
//! again until their effect is seen, and each is harmless when repeated.
//!
//! # What is promised
//!
//! - At most one run; at most one order to start per slot, and only into an
//!   empty slot. Every order has a new epoch, above all that were ever seen.
//! - Delays follow the published formula ([`backoff`]) for every history.
//! - In every state that something may still come of, `wake_at` is set and later
//!   than now; with nothing changed there is nothing to do.
//! - The same inputs give the same plan, before and after a restart.
//!
//! # Backoff contract
//!
//! See [`backoff`] for the formula. The run counter grows with each failed run.
//! It goes back to zero with a successful run; when a run has been ready for
//! `stableAfter`, written when due; and with a disruptive edit, `restartNonce`,
//! resume and run-now. Task counters belong to their run and go back to zero
//! after `stableAfter` ready. Disruptions, refused starts, fences and the first
//! schema change per source version do not count.

pub mod answer;
pub mod backoff;
pub mod conditions;
mod decide;
pub mod desired;
pub mod events;
pub mod exit;
pub mod generation;
pub mod health;
pub mod memory;
pub mod observed;
pub mod plan;
pub mod schedule;
pub mod status;
pub mod text;
pub mod time;
pub mod waits;

pub use decide::decide;
pub use desired::{Acceptance, Desired, Lifetime};
pub use events::{Event, EventKind, EventReason};
pub use exit::{ExitClass, ExitReport};
pub use memory::Memory;
pub use observed::{Observed, Slot};
pub use plan::{Action, Finished, Plan};
pub use time::Timestamp;
