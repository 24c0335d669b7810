//! What is promised in every state, and what must be possible at all.
//!
//! The `always` ones are the promise of protocol.md; a mutant is found when one
//! of them fails. The `sometimes` ones keep the model from being true for want
//! of anything happening.

use stateright::Property;

use crate::protocol::Protocol;
use crate::state::State;

pub const ONCE: &str = "every batch takes effect once, whole and in order";
pub const RISING: &str = "the epochs of batches that took effect never decrease";
pub const OWN_EPOCH: &str = "two pods of one job UID never share an epoch that the API server remembers";
pub const ALONE: &str = "outside the stated paths at most one process runs";
pub const NO_REFUSAL: &str = "no sound checkpoint is refused as damaged";

/// Everything that has to hold in every state.
pub const PROMISES: [&str; 5] = [ONCE, RISING, OWN_EPOCH, ALONE, NO_REFUSAL];

pub const COMMITS: &str = "a batch takes effect";
pub const SUCCEEDS: &str = "a successor's batch takes effect after its predecessor's node was lost";
pub const OVERLAPS: &str = "two processes run at once";
pub const FENCES: &str = "a process is fenced by a higher epoch";
pub const LATE: &str = "a create comes late, below the epoch that the status has reached";
pub const INHERITS: &str = "a job that was applied again goes on with a released checkpoint";
pub const FORGETS: &str = "after a wiped status that no pod makes up for, two pods share an epoch";

fn once(state: &State) -> bool {
    let mut end = 0;
    state.sink.iter().enumerate().all(|(at, effect)| {
        let follows = usize::from(effect.batch) == at && effect.start == end;
        end = effect.end;
        follows
    })
}

fn running(state: &State) -> usize {
    state.processes.iter().filter(|process| process.is_running()).count()
}

fn alone(state: &State) -> bool {
    state.processes.iter().filter(|process| process.is_running() && !process.given_up).count() <= 1
}

fn late(state: &State) -> bool {
    let below = |epoch: u8| state.job.status.slot.epoch().is_some_and(|ordered| epoch < ordered);
    state.pod.is_some_and(|pod| pod.job == state.job.uid && below(pod.epoch) && state.processes.len() == usize::from(pod.uid))
}

pub fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(ONCE, |_, state: &State| once(state)),
        Property::always(RISING, |_, state: &State| state.sink.is_sorted_by_key(|effect| effect.epoch)),
        Property::always(OWN_EPOCH, |_, state: &State| !state.history.shared),
        Property::always(ALONE, |_, state: &State| alone(state)),
        Property::always(NO_REFUSAL, |_, state: &State| !state.history.refused),
        Property::sometimes(COMMITS, |_, state: &State| !state.sink.is_empty()),
        Property::sometimes(SUCCEEDS, |_, state: &State| {
            let replaced = state.history.replaced;
            replaced > 0 && state.node_lost && state.sink.last().is_some_and(|effect| effect.epoch > replaced)
        }),
        Property::sometimes(OVERLAPS, |_, state: &State| running(state) > 1),
        Property::sometimes(FENCES, |_, state: &State| state.history.fenced),
        Property::sometimes(LATE, |_, state: &State| late(state)),
        Property::sometimes(INHERITS, |_, state: &State| {
            state.checkpoint.owners.len() > 1 && state.checkpoint.owners.last() == Some(&state.job.uid) && state.sink.len() > 1
        }),
        Property::sometimes(FORGETS, |_, state: &State| state.history.shared_forgotten),
    ]
}
