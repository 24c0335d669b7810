//! Faults between a client and the API server: a layer around the client's HTTP service.
//!
//! Invariants: every call that is not a watch is recorded, in order and before
//! anything happens to it; a call that is said to be lost after its commit has
//! completed on the server; after [`Faults::sever`] or a reached
//! [`Faults::stop_at`] nothing goes out and nothing comes back, as with a
//! killed process. Does not know what the calls mean, and retries nothing.

mod call;
mod rule;
mod service;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use kube::client::ClientBuilder;
use parking_lot::Mutex;
use tokio::sync::watch as channel;

use crate::wait::{GENEROUS, eventually};

pub use call::{Call, Target, Verb, classify};
pub use rule::{Caller, Effect, Matcher, Refusal, Times, WatchEffect};
pub use service::FaultService;

/// On which side of a call the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The call is not sent.
    Before,
    /// The call completes on the server; its response does not come back.
    After,
}

/// Names a rule, to take it away again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

/// The handle of a fault layer; clones share everything.
#[derive(Clone, Default)]
pub struct Faults {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Whether anything still goes out.
    connected: channel::Sender<bool>,
    /// Counts changes of the rules, so that open streams and held calls look again.
    rules_changed: channel::Sender<u64>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { state: Mutex::default(), connected: channel::Sender::new(true), rules_changed: channel::Sender::new(0) }
    }
}

#[derive(Default)]
struct State {
    calls: Vec<Call>,
    next_rule: u64,
    rules: Vec<Rule>,
    watch_rules: Vec<(RuleId, Matcher, WatchEffect)>,
    hits: Vec<(RuleId, Call)>,
    stop_at: Option<(usize, Side)>,
    held: HashMap<RuleId, usize>,
}

struct Rule {
    id: RuleId,
    matcher: Matcher,
    left: Option<usize>,
    effect: Effect,
}

/// What the service does with a call.
enum Decision {
    Pass,
    Do(RuleId, Effect),
    /// The process ends here.
    Stop(Side),
}

impl Faults {
    /// A layer without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client whose every request goes through this layer. The client's own retries of real 429 and 503 answers lie beneath it, so what
    /// a rule answers is never retried by the client.
    pub fn client(&self, config: kube::Config) -> Result<kube::Client> {
        let builder = ClientBuilder::try_from(config).context("building the client under the fault layer")?;
        Ok(builder.with_layer(self).build())
    }

    /// The calls so far, without watches.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.state.lock().calls.clone()
    }

    /// The calls that change something.
    pub fn writes(&self) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.verb.is_write()).collect()
    }

    /// Adds a rule; earlier rules come first.
    pub fn add(&self, matcher: Matcher, times: Times, effect: Effect) -> RuleId {
        let mut state = self.shared.state.lock();
        let id = state.next_id();
        let left = match times {
            Times::Once => Some(1),
            Times::Next(count) => Some(count),
            Times::Always => None,
        };
        state.rules.push(Rule { id, matcher, left, effect });
        id
    }

    /// Adds a rule for watches, those that are open already too.
    pub fn disturb_watches(&self, matcher: Matcher, effect: WatchEffect) -> RuleId {
        let mut state = self.shared.state.lock();
        let id = state.next_id();
        state.watch_rules.push((id, matcher, effect));
        drop(state);
        self.shared.rules_changed.send_modify(|count| *count += 1);
        id
    }

    /// Waits until so many calls were disturbed by a rule.
    pub async fn until_hit(&self, id: RuleId, times: usize) -> Result<()> {
        eventually(&format!("{times} calls for {id:?}"), GENEROUS, || async {
            let hits = self.hits(id);
            ensure!(hits.len() >= times, "only {hits:?} of {:?}", self.calls());
            Ok(())
        })
        .await
    }

    /// Takes a rule of either kind away.
    pub fn remove(&self, id: RuleId) {
        let mut state = self.shared.state.lock();
        state.rules.retain(|rule| rule.id != id);
        state.watch_rules.retain(|(other, ..)| *other != id);
        drop(state);
        self.shared.rules_changed.send_modify(|count| *count += 1);
    }

    /// Takes all rules away.
    pub fn clear(&self) {
        let mut state = self.shared.state.lock();
        state.rules.clear();
        state.watch_rules.clear();
        drop(state);
        self.shared.rules_changed.send_modify(|count| *count += 1);
    }

    /// The calls that a rule has disturbed.
    pub fn hits(&self, id: RuleId) -> Vec<Call> {
        let state = self.shared.state.lock();
        state.hits.iter().filter(|(rule, _)| *rule == id).map(|(_, call)| call.clone()).collect()
    }

    /// From call `index` on nothing goes out and nothing comes back, as when the process is killed there.
    pub fn stop_at(&self, index: usize, side: Side) {
        self.shared.state.lock().stop_at = Some((index, side));
    }

    /// Waits until the call of [`Faults::stop_at`] was made, or the client was severed.
    pub async fn reached(&self) {
        let mut connected = self.shared.connected.subscribe();
        // The sender lives in `self`.
        let _ = connected.wait_for(|connected| !connected).await;
    }

    /// Whether nothing goes out any more.
    pub fn is_severed(&self) -> bool {
        !*self.shared.connected.borrow()
    }

    /// Nothing goes out and nothing comes back from now on.
    pub fn sever(&self) {
        self.shared.connected.send_replace(false);
    }

    fn decide(&self, verb: Verb, target: Target, path: &str, body_bytes: u64) -> Decision {
        let mut state = self.shared.state.lock();
        let index = state.calls.len();
        let call = Call { index, verb, path: path.to_owned(), target, body_bytes };
        state.calls.push(call.clone());
        if let Some((at, side)) = state.stop_at
            && at == index
        {
            if side == Side::Before {
                self.sever();
            }
            return Decision::Stop(side);
        }
        let Some(found) = state.rules.iter_mut().find(|rule| rule.left != Some(0) && rule.matcher.takes(&call)) else {
            return Decision::Pass;
        };
        found.left = found.left.map(|left| left - 1);
        let (id, effect) = (found.id, found.effect.clone());
        state.hits.push((id, call));
        Decision::Do(id, effect)
    }

    /// Takes a rule away that holds calls, and waits until they are through.
    pub async fn release(&self, id: RuleId) {
        self.remove(id);
        let mut changed = self.shared.rules_changed.subscribe();
        // The sender lives in `self`.
        while self.shared.state.lock().held.contains_key(&id) && changed.changed().await.is_ok() {}
    }

    fn hold(&self, id: RuleId) {
        *self.shared.state.lock().held.entry(id).or_default() += 1;
    }

    fn is_through(&self, id: RuleId) {
        let mut state = self.shared.state.lock();
        let left = state.held.get(&id).map_or(0, |count| count - 1);
        if left == 0 {
            state.held.remove(&id);
        } else {
            state.held.insert(id, left);
        }
        drop(state);
        self.shared.rules_changed.send_modify(|count| *count += 1);
    }

    /// Waits until a rule is removed.
    async fn released(&self, id: RuleId) {
        let mut changed = self.shared.rules_changed.subscribe();
        // The sender lives in `self`.
        while self.shared.state.lock().rules.iter().any(|rule| rule.id == id) && changed.changed().await.is_ok() {}
    }

    fn watch_effects(&self, target: &Target, path: &str) -> Vec<WatchEffect> {
        let state = self.shared.state.lock();
        let matching = state.watch_rules.iter().filter(|(_, matcher, _)| matcher.takes_target(Verb::Watch, target, path));
        matching.map(|(.., effect)| *effect).collect()
    }
}

impl State {
    fn next_id(&mut self) -> RuleId {
        self.next_rule += 1;
        RuleId(self.next_rule)
    }
}
