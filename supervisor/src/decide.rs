//! The one decision function: policy, world, memory and time in; a plan out.
//!
//! A decision is a chain of small rounds on a copy of the memory, repeated
//! until nothing changes, so that a chain of causes (a task ends, its run ends,
//! the next begins) is one write and one set of actions. Actions and wake-up
//! are derived at the end from the memory and the observation alone; that is
//! why a restart of the shell at any point changes no decision.

use crate::desired::Desired;
use crate::events::{Event, EventReason};
use crate::memory::Memory;
use crate::observed::Observed;
use crate::plan::{Finished, Plan};
use crate::time::Timestamp;
use crate::{conditions, health};

mod actions;
mod left_behind;
mod outcomes;
mod requests;
mod runs;
mod tasks;
mod ticks;
mod timers;
mod unproven;
mod wake;

pub(crate) use outcomes::START_REJECTED;
pub(crate) use runs::next as next_run;
pub(crate) use unproven::NODE_GRACE;
pub(crate) use wake::{BETWEEN_RUNS_GRACE, STUCK_GRACE, stuck_at};

/// A chain of causes is far shorter; the bound only guards against a mistake in the rules.
const MOST_ROUNDS: usize = 16;

/// Decides what to do next.
///
/// `draw` gives numbers in `[0, 1)` for jitter; it is called once per failure
/// and the result is stored in the memory, so that nothing is drawn twice.
/// See [`Plan`] for the order in which the answer is to be carried out.
pub fn decide(desired: &Desired, observed: &Observed, memory: &Memory, now: Timestamp, draw: &mut dyn FnMut() -> f64) -> Plan {
    let settled;
    let mut pass = Pass { desired, observed, now, draw, memory: memory.clone(), events: Vec::new() };
    requests::answer_unreadable(&mut pass);
    left_behind::observe(&mut pass);
    unproven::confirm(&mut pass);
    if let Some(left) = unproven::settle(&mut pass) {
        settled = left;
        pass.observed = &settled;
    }
    let observed = pass.observed;
    health::remember(&mut pass.memory.health, desired, observed, now);
    for _ in 0..MOST_ROUNDS {
        let before = pass.memory.clone();
        pass.round();
        if pass.memory == before {
            break;
        }
    }
    let actions = actions::wanted(&pass);
    let (conditions, flips) = conditions::decide(desired, observed, &pass.memory, now);
    pass.memory.conditions = conditions;
    pass.events.extend(flips);
    Plan { wake_at: wake::next(&pass, !actions.is_empty()), finished: pass.finished(), actions, events: pass.events, memory: pass.memory }
}

/// One decision in the making.
struct Pass<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    now: Timestamp,
    draw: &'a mut dyn FnMut() -> f64,
    memory: Memory,
    events: Vec<Event>,
}

impl Pass<'_> {
    fn round(&mut self) {
        timers::absorb_epochs(self);
        timers::clamp(self);
        if !self.desired.paused {
            requests::apply(self);
            ticks::apply(self);
        }
        tasks::observe(self);
        unproven::observe_strangers(self);
        runs::judge(self);
        if !self.desired.paused {
            runs::begin(self);
            tasks::start_due(self);
        }
    }

    fn finished(&self) -> Option<Finished> {
        requests::finished(self)
    }

    fn tell(&mut self, reason: EventReason, note: String) {
        let note = crate::text::cut(&note, crate::text::NOTE_BYTES);
        self.events.push(Event { reason, note });
    }
}
