//! Instances of which nobody knows whether they are over.
//!
//! One on a silent node, or one that vanished without being seen to end, is
//! followed by another only where both stand behind one fence, which makes it
//! harmless, or a human vouches for its end; else the job waits for proof. A
//! fence is one task's, and the one that was begun behind: no edit moves it. The word of a human is good for
//! what waited for it when it came, and for nothing later: one that names an
//! epoch by mistake is answered and has no effect when that one falls silent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::decide::{Pass, left_behind};
use crate::events::EventReason;
use crate::memory::{ConfirmationMemory, Stranger};
use crate::observed::{Instance, Observed, Phase, Slot};
use crate::time::elapsed;

/// How long a node may be silent before its tasks are judged.
pub(crate) const NODE_GRACE: Duration = Duration::from_secs(30);

/// Why an instance is given up without proof of its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// It can do no harm any more.
    Fenced,
    /// A human vouches for its end.
    Confirmed,
}

/// Takes in the word of a human, and answers one that nothing waits for; each once.
pub(super) fn confirm(pass: &mut Pass<'_>) {
    if pass.desired.paused {
        return;
    }
    let Some(said) = &pass.observed.confirmed_terminated else {
        pass.memory.confirmation = None;
        return;
    };
    if pass.memory.confirmation.as_ref().is_some_and(|known| known.text == said.text) {
        return;
    }
    let seen = instances(pass.observed).filter(|(_, instance)| is_unproven(instance)).map(|(_, own)| own.epoch);
    let waiting: BTreeSet<u64> = seen.chain(pass.memory.left_behind.values().map(|left| left.epoch)).collect();
    let epoch = said.epoch.filter(|epoch| waiting.contains(epoch));
    pass.memory.confirmation = Some(ConfirmationMemory { text: said.text.clone(), epoch });
    if let Some(epoch) = epoch {
        // Also one whose successor is in its slot.
        pass.memory.left_behind.retain(|_, left| left.epoch != epoch);
        return;
    }
    let right: Vec<String> = waiting.iter().map(u64::to_string).collect();
    let remedy = if right.is_empty() {
        "nothing waits for a confirmation; remove the annotation".to_owned()
    } else {
        format!("what waits for a confirmation has epoch {}", right.join(", "))
    };
    let what = if said.epoch.is_some() { "" } else { ", which is no epoch," };
    pass.tell(EventReason::ConfirmationIgnored, format!("weir.dev/confirm-terminated: {:?}{what} was ignored: {remedy}", said.text));
}

/// What is left of the slots once what vanished and is given up counts as gone; none where nothing is.
pub(super) fn settle(pass: &mut Pass<'_>) -> Option<Observed> {
    let vanished = instances(pass.observed).filter(|(_, instance)| instance.phase == Phase::Vanished);
    let settled: Vec<_> = vanished.filter_map(|(name, instance)| Some((name, instance, given_up(pass, name, instance)?))).collect();
    if settled.is_empty() {
        return None;
    }
    let mut left = pass.observed.clone();
    for (name, instance, because) in settled {
        left.slots.insert(name.clone(), Slot::Absent);
        left_behind::remember(pass, name, instance, because);
        if because == GivenUp::Confirmed {
            tell(pass, name, instance, because);
        }
    }
    Some(left)
}

/// Whether an instance of a task is given up.
pub(super) fn given_up(pass: &Pass<'_>, task: &str, instance: &Instance) -> Option<GivenUp> {
    if pass.desired.paused || !is_unproven(instance) {
        return None;
    }
    if pass.memory.confirmation.as_ref().is_some_and(|known| known.epoch == Some(instance.epoch)) {
        return Some(GivenUp::Confirmed);
    }
    let has_lasted = match instance.phase {
        Phase::Unreachable { since } => elapsed(since, pass.now) >= NODE_GRACE,
        // Nothing of it can come back.
        _ => true,
    };
    (has_lasted && left_behind::is_harmless(pass, task, instance)).then_some(GivenUp::Fenced)
}

/// Gives up an instance that is still in its slot, and says so once.
pub(super) fn give_up(pass: &mut Pass<'_>, task: &str, instance: &Instance, because: GivenUp) {
    left_behind::remember(pass, task, instance, because);
    tell(pass, task, instance, because);
}

fn tell(pass: &mut Pass<'_>, task: &str, instance: &Instance, because: GivenUp) {
    if !pass.memory.given_up.insert(instance.epoch) {
        return;
    }
    let seen = match instance.phase {
        Phase::Vanished => "vanished without being seen to end",
        _ => "is on a node that does not answer",
    };
    let why = match because {
        GivenUp::Fenced => "its checkpoints and sinks fence it",
        GivenUp::Confirmed => "weir.dev/confirm-terminated vouches that it is gone",
    };
    let (name, epoch) = (&instance.name, instance.epoch);
    pass.tell(EventReason::RunForceReplaced, format!("{name}, epoch {epoch} of task {task}, {seen} and is given up: {why}"));
}

/// Remembers strangers, tells of those that are given up, and forgets what was told of instances that are gone.
pub(super) fn observe_strangers(pass: &mut Pass<'_>) {
    pass.memory.strangers = strangers(pass);
    let present: BTreeSet<u64> = instances(pass.observed).map(|(_, instance)| instance.epoch).collect();
    pass.memory.given_up.retain(|epoch| present.contains(epoch));
    let begun: BTreeSet<u64> = pass.memory.run.iter().flat_map(|run| run.tasks.values()).filter_map(|task| task.epoch).collect();
    // Something else may have the place of a stranger, which is waited for all the same.
    let awaited: BTreeSet<u64> = pass.memory.strangers.values().map(|stranger| stranger.epoch).collect();
    pass.memory.fences.retain(|epoch, _| [&present, &begun, &awaited].iter().any(|known| known.contains(epoch)));
    for (name, instance) in instances(pass.observed) {
        if let Some(because) = given_up(pass, name, instance).filter(|_| !is_owned(pass, name, instance)) {
            give_up(pass, name, instance, because);
        }
    }
}

/// Whoever is in a slot now, belongs to nobody and is not given up. What is none of the job's says nothing of who was there
/// before it.
fn strangers(pass: &Pass<'_>) -> BTreeMap<String, Stranger> {
    let known = |name: &String| pass.memory.strangers.get(name);
    let found = pass.observed.slots.iter().filter_map(|(name, slot)| match slot {
        Slot::Occupied { .. } | Slot::Unclassified { .. } => Some((name.clone(), known(name)?.clone())),
        _ => {
            let is_awaited = |instance: &&Instance| !is_owned(pass, name, instance) && given_up(pass, name, instance).is_none();
            let instance = slot.live().filter(is_awaited)?;
            let remembered = known(name).filter(|known| known.epoch == instance.epoch).and_then(|known| known.place.clone());
            Some((name.clone(), Stranger { epoch: instance.epoch, place: instance.place.clone().or(remembered) }))
        }
    });
    found.collect()
}

fn is_owned(pass: &Pass<'_>, name: &str, instance: &Instance) -> bool {
    let task = pass.memory.run.as_ref().and_then(|run| run.tasks.get(name));
    task.is_some_and(|task| task.state.is_live() && task.epoch == Some(instance.epoch))
}

fn instances(observed: &Observed) -> impl Iterator<Item = (&String, &Instance)> {
    observed.slots.iter().filter_map(|(name, slot)| Some((name, slot.live()?)))
}

fn is_unproven(instance: &Instance) -> bool {
    matches!(instance.phase, Phase::Unreachable { .. } | Phase::Vanished)
}
