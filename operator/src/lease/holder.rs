//! Runs a candidate: calls with deadlines, sleeps, and tells who leads.
//!
//! A call never outlives the leadership that it renews: at the end of that time
//! it is given up and Following is told, whatever the API server does. Stopping
//! releases the lease, so it must come after what the leader does has ended.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::api::{LeaseApi, LeaseError};
use super::decide::{Durations, Identity};
use super::elector::{Answer, Call, Elector, Step};
use crate::clock::Clock;

/// Whether this process leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It does, and stops by itself at this time unless a later one is told before.
    Leading {
        /// The end, unless renewed.
        until: Instant,
    },
    /// It does not.
    Following {
        /// Who leads, as last seen.
        holder: Option<String>,
        /// When the lease was last read; None before the first time.
        seen: Option<Instant>,
    },
}

impl Leadership {
    /// Whether it leads at a time.
    pub fn leads_at(&self, now: Instant) -> bool {
        matches!(self, Leadership::Leading { until } if now < *until)
    }
}

/// A candidate with its API.
pub struct LeaseHolder<A> {
    api: A,
    elector: Elector,
    durations: Durations,
    clock: Arc<dyn Clock>,
    start: Instant,
    seen: Option<Instant>,
    leadership: watch::Sender<Leadership>,
}

impl<A: LeaseApi + 'static> LeaseHolder<A> {
    /// Starts the candidate. When `stop` ends, or its task is aborted, it leads no more; after `stop` the lease is released
    /// and the channel closes. Let what the leader does end before `stop` does.
    pub fn run(
        api: A,
        me: Identity,
        durations: Durations,
        clock: Arc<dyn Clock>,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> (watch::Receiver<Leadership>, JoinHandle<()>) {
        let (leadership, receiver) = watch::channel(Leadership::Following { holder: None, seen: None });
        let elector = Elector::new(me, durations);
        let holder = Self { api, elector, durations, clock, start: Instant::now(), seen: None, leadership };
        (receiver, tokio::spawn(holder.until(stop)))
    }

    async fn until(mut self, stop: impl Future<Output = ()> + Send) {
        tokio::select! {
            () = stop => {}
            () = self.campaign() => {}
        }
        self.release().await;
    }

    async fn campaign(&mut self) {
        loop {
            let step = self.elector.step(self.start.elapsed(), self.clock.now());
            self.tell();
            match step {
                Step::Sleep(until) => {
                    let ends = self.elector.leading_until(self.start.elapsed());
                    sleep_until(self.start + ends.map_or(until, |ends| ends.min(until))).await;
                }
                Step::Call(call) => self.call(&call).await,
            }
        }
    }

    async fn call(&mut self, call: &Call) {
        let sent = self.start.elapsed();
        let patience = sent + (self.durations.renew_deadline() - self.durations.retry_period()) / 2;
        let deadline = self.elector.leading_until(sent).map_or(patience, |ends| ends.min(patience));
        let answer = match timeout_at(self.start + deadline, perform(&self.api, call)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                tracing::warn!(%error, "leader election");
                Answer::Failed
            }
            Err(_) => {
                tracing::warn!("leader election: the API server did not answer in time");
                Answer::Failed
            }
        };
        if matches!(answer, Answer::Record(_)) {
            self.seen = Some(Instant::now());
        }
        self.elector.answered(call, sent, self.start.elapsed(), answer, rand::random());
    }

    fn tell(&self) {
        let next = match self.elector.leading_until(self.start.elapsed()) {
            Some(until) => Leadership::Leading { until: self.start + until },
            None => Leadership::Following { holder: self.elector.holder().map(str::to_owned), seen: self.seen },
        };
        let before = self.leadership.send_replace(next.clone());
        match (before, next) {
            (Leadership::Following { .. }, Leadership::Leading { .. }) => tracing::info!("this process leads"),
            (Leadership::Leading { .. }, Leadership::Following { holder, .. }) => {
                tracing::warn!(holder = holder.unwrap_or_default(), "this process leads no more");
            }
            _ => {}
        }
    }

    /// Leads no more and tries, for a short time, to let the next one begin at once.
    async fn release(&mut self) {
        let mut call = self.elector.release(self.clock.now());
        self.tell();
        let deadline = Instant::now() + self.durations.retry_period().min(Duration::from_secs(2));
        // A read where the record is not known, then the write.
        for _ in 0..2 {
            let Some(next) = call else { return };
            match timeout_at(deadline, perform(&self.api, &next)).await {
                Ok(Ok(answer)) if next == Call::Get => {
                    let now = self.start.elapsed();
                    self.elector.answered(&next, now, now, answer, 0.0);
                    call = self.elector.release(self.clock.now());
                }
                Ok(Ok(Answer::Record(_))) => {
                    tracing::info!("the lease is released");
                    return;
                }
                _ => {
                    tracing::warn!("the lease could not be released; it lapses by itself");
                    return;
                }
            }
        }
    }
}

async fn perform(api: &impl LeaseApi, call: &Call) -> Result<Answer, LeaseError> {
    let answer = match call {
        Call::Get => api.get().await,
        Call::Create(spec) => api.create(spec).await.map(Some),
        Call::Replace(lease) => api.replace(lease).await.map(Some),
    };
    match answer {
        Ok(lease) => Ok(Answer::Record(lease.map(Box::new))),
        Err(LeaseError::Conflict | LeaseError::Gone) => Ok(Answer::Conflict),
        Err(error) => Err(error),
    }
}
