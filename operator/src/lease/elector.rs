//! A candidate without I/O: which call to make next, and what an answer means.
//!
//! Every write carries the `resourceVersion` of the record that the decision
//! was made on. While leading, a renewal is one write; whatever is not a plain
//! success, a lost answer too, leads back to a read. Leadership is counted from
//! the time at which the successful write was *sent*.

use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};

use super::decide::{Durations, Identity, LeaseAction, Seen, decide, holder, next_spec, released};

/// A call of the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Read the record.
    Get,
    /// Make it; fails when there is one.
    Create(LeaseSpec),
    /// Replace it; fails when its `resourceVersion` is no longer this one.
    Replace(Box<Lease>),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make this call and hand back its answer.
    Call(Call),
    /// Nothing before this time.
    Sleep(Duration),
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The record as it is now; None when there is none.
    Record(Option<Box<Lease>>),
    /// It was changed, made or removed by another.
    Conflict,
    /// No answer, or one that says nothing: the call may or may not have had its effect.
    Failed,
}

/// What is known of the object now.
#[derive(Clone, Debug)]
enum View {
    Stale,
    Absent,
    Present(Box<Lease>),
}

/// A candidate.
#[derive(Clone, Debug)]
pub struct Elector {
    me: Identity,
    durations: Durations,
    seen: Seen,
    view: View,
    next_at: Duration,
}

impl Elector {
    /// A candidate that has seen nothing yet.
    pub fn new(me: Identity, durations: Durations) -> Self {
        Self { me, durations, seen: Seen::default(), view: View::Stale, next_at: Duration::ZERO }
    }

    /// Until when this candidate leads, if it leads now.
    pub fn leading_until(&self, now: Duration) -> Option<Duration> {
        self.seen.leading_until.filter(|until| now < *until)
    }

    /// Who holds the lease, as last seen.
    pub fn holder(&self) -> Option<&str> {
        match &self.seen.sight {
            super::Sight::Record { spec, .. } => holder(spec),
            _ => None,
        }
    }

    /// What to do now.
    pub fn step(&mut self, now: Duration, now_wall: DateTime<Utc>) -> Step {
        if self.seen.leading_until.is_some() && self.leading_until(now).is_none() {
            self.seen.leading_until = None;
            self.view = View::Stale;
        }
        if now < self.next_at {
            return Step::Sleep(self.next_at);
        }
        let lease = match &self.view {
            View::Stale => return Step::Call(Call::Get),
            View::Absent => None,
            View::Present(lease) => Some(lease.clone()),
        };
        let spec = lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let action = decide(spec.as_ref(), &self.me, &self.seen, now, &self.durations);
        match action {
            LeaseAction::Create | LeaseAction::Renew | LeaseAction::Take => {
                let next = next_spec(spec.as_ref(), &self.me, action, now_wall, &self.durations);
                self.seen.term = next.lease_transitions;
                Step::Call(match lease {
                    None => Call::Create(next),
                    Some(lease) => Call::Replace(Box::new(Lease { spec: Some(next), ..*lease })),
                })
            }
            // Whatever follows begins with a new look.
            LeaseAction::Wait(_) | LeaseAction::StepDown => {
                self.seen.leading_until = None;
                self.view = View::Stale;
                Step::Call(Call::Get)
            }
        }
    }

    /// Takes in the answer to a call that was sent at `sent`. `draw` in [0, 1) spreads the candidates.
    pub fn answered(&mut self, call: &Call, sent: Duration, now: Duration, answer: Answer, draw: f64) {
        match answer {
            Answer::Record(lease) => self.saw(call, lease, sent, now, draw),
            // A leader is in a hurry, and so is who has just lost a race.
            Answer::Failed if self.seen.leading_until.is_none() => self.look_again(now + self.durations.retry_period()),
            Answer::Conflict | Answer::Failed => self.look_again(now + self.durations.retry_period() / 4),
        }
    }

    fn saw(&mut self, call: &Call, lease: Option<Box<Lease>>, sent: Duration, now: Duration, draw: f64) {
        let spec = lease.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        self.seen.observe(spec.as_ref(), &self.me, now);
        self.view = lease.map_or(View::Absent, View::Present);
        self.next_at = now;
        if *call != Call::Get {
            let until = sent + self.durations.renew_deadline();
            self.seen.leading_until = Some(until).filter(|until| now < *until);
            self.next_at = now + self.durations.retry_period();
            return;
        }
        match decide(spec.as_ref(), &self.me, &self.seen, now, &self.durations) {
            LeaseAction::Wait(left) => {
                let period = self.durations.retry_period();
                self.look_again(now + left.min(period.mul_f64(1.0 + 0.2 * draw.clamp(0.0, 1.0))));
            }
            LeaseAction::StepDown => {
                self.seen.leading_until = None;
                self.view = View::Stale;
            }
            LeaseAction::Create | LeaseAction::Renew | LeaseAction::Take => {}
        }
    }

    fn look_again(&mut self, at: Duration) {
        self.view = View::Stale;
        self.next_at = at;
    }

    /// Stops leading and gives the call that releases the lease: a read where the record is not known, None when it is not ours.
    pub fn release(&mut self, now_wall: DateTime<Utc>) -> Option<Call> {
        self.seen.leading_until = None;
        let lease = match &self.view {
            View::Stale if self.seen.term.is_some() => return Some(Call::Get),
            View::Stale | View::Absent => return None,
            View::Present(lease) => lease,
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let ours = holder(&spec) == Some(self.me.as_str()) && self.seen.term == spec.lease_transitions;
        let spec = released(&spec, now_wall);
        ours.then(|| Call::Replace(Box::new(Lease { spec: Some(spec), ..(**lease).clone() })))
    }
}
