//! Whether this process does its part.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::Instant;

use crate::lease::Leadership;
use crate::metrics::WatchKind;

/// A follower that could not read the lease for this long is of no use.
pub const LEASE_STALE_AFTER: Duration = Duration::from_secs(60);

/// What is known of the parts of this process.
#[derive(Default)]
pub struct Health {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    leadership: Option<Leadership>,
    /// By kind and namespace; an empty one stands for all namespaces.
    watches: BTreeMap<(WatchKind, Arc<str>), Watch>,
    /// A watch that says nothing for this long, not even a bookmark or its end, is taken for dead.
    stale_after: Duration,
}

#[derive(Clone, Copy, Default)]
struct Watch {
    synced: bool,
    heard: Option<Instant>,
}

impl Health {
    /// Takes over what the election says. A process without an election tells a leadership without end.
    pub fn leadership(&self, leadership: &Leadership) {
        self.state.write().leadership = Some(leadership.clone());
    }

    /// The watches that a leader must have, one of each kind in each scope, none of them synced yet. To be told at the
    /// begin of each leadership.
    pub fn expect<'a>(&self, kinds: &[WatchKind], scopes: impl IntoIterator<Item = &'a str>, stale_after: Duration) {
        let scopes: Vec<Arc<str>> = scopes.into_iter().map(Arc::from).collect();
        let watches = kinds.iter().flat_map(|kind| scopes.iter().map(move |scope| ((*kind, Arc::clone(scope)), Watch::default())));
        let mut state = self.state.write();
        state.watches = watches.collect();
        state.stale_after = stale_after;
    }

    /// The cache of this kind is complete.
    pub fn synced(&self, kind: WatchKind, scope: &str, now: Instant) {
        self.state.write().watches.insert((kind, Arc::from(scope)), Watch { synced: true, heard: Some(now) });
    }

    /// The watch of this kind was heard of.
    pub fn heard(&self, kind: WatchKind, scope: &str, now: Instant) {
        self.state.write().watches.entry((kind, Arc::from(scope))).or_default().heard = Some(now);
    }

    /// Ready, or why not.
    pub fn ready(&self, now: Instant) -> Result<(), String> {
        let state = self.state.read();
        match &state.leadership {
            None => Err("the election has not begun".to_owned()),
            Some(Leadership::Following { seen, .. }) => follower(*seen, now),
            Some(leading) if !leading.leads_at(now) => Err("the leadership has run out and nothing follows it yet".to_owned()),
            Some(_) => leader(&state.watches, state.stale_after, now),
        }
    }
}

fn follower(seen: Option<Instant>, now: Instant) -> Result<(), String> {
    match seen.map(|seen| now.saturating_duration_since(seen)) {
        None => Err("the lease was not read yet".to_owned()),
        Some(age) if age > LEASE_STALE_AFTER => Err(format!("the lease was last read {} s ago", age.as_secs())),
        Some(_) => Ok(()),
    }
}

fn leader(watches: &BTreeMap<(WatchKind, Arc<str>), Watch>, stale_after: Duration, now: Instant) -> Result<(), String> {
    if watches.is_empty() {
        return Err("the watches have not begun".to_owned());
    }
    for ((kind, scope), watch) in watches {
        let place = if scope.is_empty() { String::new() } else { format!(" in namespace {scope}") };
        let kind = format!("{}{place}", kind.as_str());
        match watch.heard.map(|heard| now.saturating_duration_since(heard)) {
            _ if !watch.synced => return Err(format!("the cache of {kind} is not complete yet")),
            Some(age) if age > stale_after => return Err(format!("the watch of {kind} was last heard of {} s ago", age.as_secs())),
            _ => {}
        }
    }
    Ok(())
}
