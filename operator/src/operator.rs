//! One operator: its parts put together, run until it is told to stop.
//!
//! Everything that a test replaces is an argument: the client, the clock, the
//! key, the election. The process's entry point only reads its arguments and
//! calls [`run`].

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use crate::authority::Authority;
use crate::check::{Checker, Limits};
use crate::checks::Checks;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::context::{Context, Left};
use crate::controller::{self, Wakers};
use crate::events::EventSink;
use crate::gate::Gate;
use crate::http::Health;
use crate::lease::{Leadership, while_leading};
use crate::metrics::{Metrics, WatchKind};
use crate::poll::Poller;
use crate::rbac::Scope;
use crate::restores::Restores;
use crate::settings::Settings;
use crate::token::OperatorKey;
use crate::turns::Turns;

/// Verdicts that may wait for the controller.
const CHECKED_AHEAD: usize = 1024;
/// The pause before everything is looked at anew, so that a store that flips causes no busy loop.
const AFTER_RESTORE: Duration = Duration::from_secs(2);

/// What an operator is made of.
#[derive(Clone)]
pub struct Services {
    /// The API server.
    pub client: Client,
    /// Settings.
    pub settings: Settings,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Counts jumps of the clock; every job is looked at after one.
    pub jumps: watch::Receiver<u64>,
    /// The installation's key.
    pub key: OperatorKey,
    /// The right to write.
    pub authority: Authority,
    /// Name of this process, for events.
    pub instance: String,
    /// Counters, and what is shown of each job.
    pub metrics: Metrics,
    /// Whether this process does its part.
    pub health: Arc<Health>,
}

/// Looks after the jobs of the scope, whenever this process may, until `stop` resolves.
pub async fn run(services: Services, stop: watch::Receiver<bool>) -> Result<(), reqwest::Error> {
    let events = EventSink::start(services.client.clone(), &services.instance);
    run_telling(services, events, stop).await
}

/// The same with a sink of the caller's, who shows its totals.
pub async fn run_telling(services: Services, events: EventSink, stop: watch::Receiver<bool>) -> Result<(), reqwest::Error> {
    let poller = Poller::new()?;
    let restores = Restores::default();
    match services.authority.clone() {
        Authority::Alone => lead(&services, poller, events, restores, stop).await,
        Authority::Elected(leadership) => {
            let work = || lead(&services, poller.clone(), events.clone(), restores.clone(), stop.clone());
            while_leading(leadership, stop.clone(), work).await;
        }
    }
    Ok(())
}

/// One time of leading. Begins anew when the API server's store went back in time: its watches would stay silent.
async fn lead(services: &Services, poller: Poller, events: EventSink, restores: Restores, stop: watch::Receiver<bool>) {
    loop {
        let mut found = restores.subscribe();
        tokio::select! {
            () = look_after(services, poller.clone(), events.clone(), restores.clone(), stop.clone()) => return,
            _ = found.changed() => tracing::warn!("the watches are begun anew"),
        }
        tokio::time::sleep(AFTER_RESTORE).await;
    }
}

/// Looks after the jobs of the scope until `stop` resolves. Nothing is carried over from an earlier time.
async fn look_after(services: &Services, poller: Poller, events: EventSink, restores: Restores, mut stop: watch::Receiver<bool>) {
    let (checked, _) = broadcast::channel(CHECKED_AHEAD);
    let checker = Checker::new(services.settings.checker.clone(), Limits::default(), services.settings.checks_at_once);
    let scopes: Vec<&str> = match &services.settings.scope {
        Scope::Cluster => vec![""],
        Scope::Namespaces(names) => names.iter().map(String::as_str).collect(),
    };
    services.health.expect(&[WatchKind::StreamingJob, WatchKind::Pod], scopes, services.settings.watch_stale_after());
    services.metrics.forget_jobs();
    // Also where this future is dropped because the leadership is lost.
    let _forgotten = ForgetJobs(services.metrics.clone());
    let context = Arc::new(Context {
        cluster: Cluster::new(services.client.clone(), services.settings.call_timeout, services.authority.clone()),
        poller,
        settings: services.settings.clone(),
        clock: Arc::clone(&services.clock),
        key: services.key.clone(),
        checks: Checks::new(checker, Arc::clone(&services.clock), checked.clone()),
        events,
        metrics: services.metrics.clone(),
        health: Arc::clone(&services.health),
        restores,
        gate: Gate::default(),
        turns: Turns::new(services.settings.concurrency.into()),
        left: Left::default(),
    });
    let wakers = Wakers { checked, jumps: services.jumps.clone() };
    let stopped = async move {
        // A sender that is gone is a process that ends.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    controller::run(context, wakers, stopped).await;
}

/// Takes all jobs out of the metrics at the end of a leadership: they are the next leader's to show.
struct ForgetJobs(Metrics);

impl Drop for ForgetJobs {
    fn drop(&mut self) {
        self.0.forget_jobs();
    }
}

/// The leadership of a process that has no rival. A hundred years will do.
pub fn endless() -> Leadership {
    Leadership::Leading { until: Instant::now() + Duration::from_secs(100 * 365 * 86_400) }
}

/// Shows what the election says, until it is over.
pub async fn tell_leadership(mut leadership: watch::Receiver<Leadership>, metrics: Metrics, health: Arc<Health>) {
    loop {
        let now = leadership.borrow_and_update().clone();
        metrics.operator.leads(now.leads_at(Instant::now()));
        health.leadership(&now);
        if leadership.changed().await.is_err() {
            metrics.operator.leads(false);
            return;
        }
    }
}
