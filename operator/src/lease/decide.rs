//! What to do about the lease: a pure function of the record and of what was seen of it.
//!
//! Times are those of the candidate's own monotonic clock, as a duration since
//! any fixed point. The wall clock only fills the record's fields for people.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff;

/// Who a candidate is: unique per process, not per pod, so that nobody takes the record of a dead predecessor for its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(String);

impl Identity {
    /// The pod's or host's name, made unique by a random number.
    pub fn new(pod: &str, random: u64) -> Self {
        Self(format!("{pod}_{random:016x}"))
    }

    /// As it stands in `holderIdentity`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The three durations of leader election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durations {
    lease: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

/// Durations that would let two lead, or nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "leader election: the lease lasts {lease:?}, renewals are given up after {renew_deadline:?} and tried every {retry_period:?}; \
     the lease must last longest and the retry period be the shortest and above zero (default 15s, 10s, 2s)"
)]
pub struct DurationsError {
    lease: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew_deadline: Duration::from_secs(10), retry_period: Duration::from_secs(2) }
    }
}

impl Durations {
    /// The others follow from how long the lease lasts: renewals are given up after two thirds of it and tried every two fifteenths.
    pub fn of_lease(lease: Duration) -> Result<Self, DurationsError> {
        Self::new(lease, lease / 3 * 2, lease / 15 * 2)
    }

    /// Checked: `lease > renew_deadline > retry_period > 0`.
    pub fn new(lease: Duration, renew_deadline: Duration, retry_period: Duration) -> Result<Self, DurationsError> {
        if lease > renew_deadline && renew_deadline > retry_period && !retry_period.is_zero() {
            Ok(Self { lease, renew_deadline, retry_period })
        } else {
            Err(DurationsError { lease, renew_deadline, retry_period })
        }
    }

    /// How long a record that does not change keeps others from taking it.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// How long a leader leads after the start of its last renewal.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// How long to wait between two looks at the record.
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }
}

/// The record as it was last seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Sight {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// There was never a record that somebody held.
    Absent,
    /// A held record was removed; its holder may not know yet.
    Vanished {
        /// When that was noticed.
        since: Duration,
    },
    /// A record.
    Record {
        /// What it says.
        spec: LeaseSpec,
        /// Since when it has not changed, as far as was seen.
        since: Duration,
    },
}

/// What a candidate has seen of the record and done to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The record.
    pub sight: Sight,
    /// `leaseTransitions` of the newest take or creation that was sent: a record of that term with our name is ours,
    /// also when the answer was lost. Forgotten when another's record is seen.
    pub term: Option<i32>,
    /// Until when we lead; None when we do not.
    pub leading_until: Option<Duration>,
}

impl Seen {
    /// Notes what the API server has answered. The time is that of the answer, never earlier than the read itself.
    pub fn observe(&mut self, lease: Option<&LeaseSpec>, me: &Identity, now: Duration) {
        self.sight = match (lease, std::mem::take(&mut self.sight)) {
            (Some(lease), Sight::Record { spec, since }) if spec == *lease => Sight::Record { spec, since },
            (Some(lease), _) => Sight::Record { spec: lease.clone(), since: now },
            (None, Sight::Record { spec, .. }) if holder(&spec).is_some() => Sight::Vanished { since: now },
            (None, Sight::Vanished { since }) => Sight::Vanished { since },
            (None, _) => Sight::Absent,
        };
        if lease.and_then(holder).is_some_and(|other| other != me.as_str()) {
            self.term = None;
        }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// There is no record: make it.
    Create,
    /// The record is ours: renew it.
    Renew,
    /// Nobody holds it, or the holder let it lapse: take it.
    Take,
    /// Somebody holds it; it cannot lapse before this has passed.
    Wait(Duration),
    /// We led, and do so no more: the time is over or another holds the record.
    StepDown,
}

/// Who holds the record; an empty name is a released lease.
pub fn holder(lease: &LeaseSpec) -> Option<&str> {
    lease.holder_identity.as_deref().filter(|name| !name.is_empty())
}

/// The rule of the election.
pub fn decide(lease: Option<&LeaseSpec>, me: &Identity, seen: &Seen, now: Duration, durations: &Durations) -> LeaseAction {
    let another = lease.and_then(holder).is_some_and(|name| name != me.as_str());
    if seen.leading_until.is_some_and(|until| now >= until || another) {
        return LeaseAction::StepDown;
    }
    let Some(lease) = lease else {
        return match seen.sight {
            Sight::Vanished { since } if seen.leading_until.is_none() => lapsed(since + durations.lease, now, LeaseAction::Create),
            _ => LeaseAction::Create,
        };
    };
    match holder(lease) {
        None => LeaseAction::Take,
        Some(name) if name == me.as_str() && seen.term == lease.lease_transitions => LeaseAction::Renew,
        // Another's, or one with our name that we know nothing of (a restored backup): either may be led by somebody.
        Some(_) => match &seen.sight {
            Sight::Record { spec, since } if spec == lease => lapsed(*since + lifetime(lease, durations), now, LeaseAction::Take),
            _ => LeaseAction::Wait(lifetime(lease, durations)),
        },
    }
}

fn lapsed(at: Duration, now: Duration, then: LeaseAction) -> LeaseAction {
    match at.checked_sub(now) {
        Some(left) if !left.is_zero() => LeaseAction::Wait(left),
        _ => then,
    }
}

/// How long the record protects its holder: what it says, and never less than our own setting.
fn lifetime(lease: &LeaseSpec, durations: &Durations) -> Duration {
    let said = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
    durations.lease.max(Duration::from_secs(said))
}

/// The record after a creation, take or renewal.
pub fn next_spec(
    lease: Option<&LeaseSpec>,
    me: &Identity,
    action: LeaseAction,
    now_wall: DateTime<Utc>,
    durations: &Durations,
) -> LeaseSpec {
    let old = lease.cloned().unwrap_or_default();
    // Two renewals must differ, or they would look like silence; a clock may stand or jump back.
    let now = micro_time(now_wall);
    let now = match &old.renew_time {
        Some(last) if *last == now => micro_time(now_wall + chrono::TimeDelta::microseconds(1)),
        _ => now,
    };
    let renewed = LeaseSpec {
        holder_identity: Some(me.as_str().to_owned()),
        lease_duration_seconds: Some(whole_seconds(durations.lease)),
        renew_time: Some(now.clone()),
        ..old
    };
    match action {
        LeaseAction::Create => LeaseSpec { acquire_time: Some(now), lease_transitions: Some(0), ..renewed },
        LeaseAction::Take => {
            let transitions = renewed.lease_transitions.unwrap_or(0).saturating_add(1);
            LeaseSpec { acquire_time: Some(now), lease_transitions: Some(transitions), ..renewed }
        }
        LeaseAction::Renew | LeaseAction::Wait(_) | LeaseAction::StepDown => renewed,
    }
}

/// The record after a release: anyone may take it at once.
pub(super) fn released(lease: &LeaseSpec, now_wall: DateTime<Utc>) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        renew_time: Some(micro_time(now_wall)),
        ..lease.clone()
    }
}

fn whole_seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(i32::MAX)
}

fn micro_time(at: DateTime<Utc>) -> MicroTime {
    MicroTime(jiff::Timestamp::from_microsecond(at.timestamp_micros()).unwrap_or(jiff::Timestamp::MAX))
}
