//! Everything that passes share: the API server, the tasks, settings, counters, and what each job left.
//!
//! Passes of one job never overlap (the controller's queue sees to it), so a
//! job's leavings are taken out for a pass and put back after it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::board::JobBoard;
use crate::checks::Checks;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::events::EventSink;
use crate::local::Local;
use crate::metrics::Metrics;
use crate::names::JobId;
use crate::poll::Poller;
use crate::settings::Settings;
use crate::token;

/// What passes share.
pub struct Context {
    /// The API server.
    pub cluster: Cluster,
    /// The tasks.
    pub poller: Poller,
    /// Settings.
    pub settings: Settings,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The installation's key.
    pub key: token::Key,
    /// Checks of new generations.
    pub checks: Checks,
    /// Events about jobs.
    pub events: EventSink,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What is shown of each job.
    pub board: Arc<JobBoard>,
    locals: Mutex<HashMap<JobId, Local>>,
    failures: Mutex<HashMap<(String, String), u32>>,
}

/// What a context is made of.
pub struct Parts {
    /// The API server.
    pub cluster: Cluster,
    /// The tasks.
    pub poller: Poller,
    /// Settings.
    pub settings: Settings,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The installation's key.
    pub key: token::Key,
    /// Checks of new generations.
    pub checks: Checks,
    /// Events about jobs.
    pub events: EventSink,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// What is shown of each job.
    pub board: Arc<JobBoard>,
}

impl Context {
    /// A context in which no pass has been.
    pub fn new(parts: Parts) -> Context {
        let Parts { cluster, poller, settings, clock, key, checks, events, metrics, board } = parts;
        Context { cluster, poller, settings, clock, key, checks, events, metrics, board, locals: Mutex::default(), failures: Mutex::default() }
    }

    /// What the last pass of a job left.
    pub fn take_local(&self, id: &JobId) -> Local {
        self.locals.lock().remove(id).unwrap_or_default()
    }

    /// Leaves something for the next pass.
    pub fn put_local(&self, id: &JobId, local: Local) {
        if !local.is_idle() {
            self.locals.lock().insert(id.clone(), local);
        }
    }

    /// The job is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        let is_it = |id: &JobId| id.namespace == namespace && id.name == name;
        let gone: Vec<JobId> = self.locals.lock().keys().filter(|id| is_it(id)).cloned().collect();
        for id in gone {
            self.locals.lock().remove(&id);
        }
        for id in self.board.forget(namespace, name) {
            self.checks.forget(&id);
        }
        self.failures.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Counts a failed pass; how many there were in a row.
    pub fn count_failure(&self, namespace: &str, name: &str) -> u32 {
        let mut failures = self.failures.lock();
        let count = failures.entry((namespace.to_owned(), name.to_owned())).or_default();
        *count = count.saturating_add(1);
        *count
    }

    /// A pass went through.
    pub fn clear_failures(&self, namespace: &str, name: &str) {
        self.failures.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }
}
