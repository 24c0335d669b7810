//! The rule by examples.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use k8s_openapi::api::coordination::v1::LeaseSpec;

use super::super::{Durations, Identity, LeaseAction, Seen, decide, next_spec};

const SECOND: Duration = Duration::from_secs(1);

fn me() -> Identity {
    Identity::new("here", 1)
}

fn other() -> Identity {
    Identity::new("there", 2)
}

fn wall() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn held_by(who: &Identity, action: LeaseAction, before: Option<&LeaseSpec>, at: DateTime<Utc>) -> LeaseSpec {
    next_spec(before, who, action, at, &Durations::default())
}

fn judged(lease: Option<&LeaseSpec>, seen: &Seen, now: Duration) -> LeaseAction {
    decide(lease, &me(), seen, now, &Durations::default())
}

#[test]
fn a_lease_that_nobody_made_is_made() {
    let mut seen = Seen::default();
    seen.observe(None, &me(), 5 * SECOND);
    assert_eq!(judged(None, &seen, 5 * SECOND), LeaseAction::Create);
}

#[test]
fn only_silence_as_seen_from_here_lets_a_lease_lapse() {
    // The other's wall clock is ten minutes behind, then ten minutes ahead: neither matters.
    let mut seen = Seen::default();
    let old = held_by(&other(), LeaseAction::Create, None, wall() - TimeDelta::minutes(10));
    seen.observe(Some(&old), &me(), SECOND);
    assert_eq!(judged(Some(&old), &seen, SECOND), LeaseAction::Wait(15 * SECOND));
    seen.observe(Some(&old), &me(), 14 * SECOND);
    assert_eq!(judged(Some(&old), &seen, 14 * SECOND), LeaseAction::Wait(2 * SECOND));
    let renewed = held_by(&other(), LeaseAction::Renew, Some(&old), wall() + TimeDelta::minutes(10));
    seen.observe(Some(&renewed), &me(), 15 * SECOND);
    assert_eq!(judged(Some(&renewed), &seen, 16 * SECOND), LeaseAction::Wait(14 * SECOND));
    assert_eq!(judged(Some(&renewed), &seen, 30 * SECOND), LeaseAction::Take);
}

#[test]
fn a_longer_lease_in_the_record_is_kept_and_a_shorter_one_is_not_believed() {
    for (said, waits) in [(60, 60), (1, 15), (-3, 15)] {
        let lease = LeaseSpec { lease_duration_seconds: Some(said), ..held_by(&other(), LeaseAction::Create, None, wall()) };
        let mut seen = Seen::default();
        seen.observe(Some(&lease), &me(), Duration::ZERO);
        assert_eq!(judged(Some(&lease), &seen, Duration::ZERO), LeaseAction::Wait(waits * SECOND));
    }
}

#[test]
fn a_released_lease_is_taken_at_once_and_transitions_count() {
    let held = held_by(&other(), LeaseAction::Create, None, wall());
    let free = super::super::decide::released(&held, wall());
    let mut seen = Seen::default();
    seen.observe(Some(&free), &me(), SECOND);
    assert_eq!(judged(Some(&free), &seen, SECOND), LeaseAction::Take);
    let taken = held_by(&me(), LeaseAction::Take, Some(&free), wall());
    assert_eq!((taken.lease_transitions, taken.lease_duration_seconds), (Some(1), Some(15)));
    let renewed = held_by(&me(), LeaseAction::Renew, Some(&taken), wall() + TimeDelta::seconds(2));
    assert_eq!((renewed.lease_transitions, &renewed.acquire_time), (Some(1), &taken.acquire_time));
}

#[test]
fn a_record_with_our_name_is_ours_only_in_a_term_that_we_began() {
    let ours = held_by(&me(), LeaseAction::Create, None, wall());
    let mut seen = Seen { term: Some(0), ..Seen::default() };
    seen.observe(Some(&ours), &me(), SECOND);
    assert_eq!(judged(Some(&ours), &seen, SECOND), LeaseAction::Renew, "the answer to the creation was lost");
    seen.observe(Some(&held_by(&other(), LeaseAction::Take, Some(&ours), wall())), &me(), 2 * SECOND);
    seen.observe(Some(&ours), &me(), 3 * SECOND);
    assert_eq!(judged(Some(&ours), &seen, 3 * SECOND), LeaseAction::Wait(15 * SECOND), "the store was restored from a backup");
}

#[test]
fn a_leader_steps_down_at_its_time_and_for_another() {
    let ours = held_by(&me(), LeaseAction::Create, None, wall());
    let mut seen = Seen { term: Some(0), leading_until: Some(10 * SECOND), ..Seen::default() };
    seen.observe(Some(&ours), &me(), SECOND);
    assert_eq!(judged(Some(&ours), &seen, 9 * SECOND), LeaseAction::Renew);
    assert_eq!(judged(Some(&ours), &seen, 10 * SECOND), LeaseAction::StepDown);
    let taken = held_by(&other(), LeaseAction::Take, Some(&ours), wall());
    seen.observe(Some(&taken), &me(), 2 * SECOND);
    assert_eq!(judged(Some(&taken), &seen, 2 * SECOND), LeaseAction::StepDown);
}

#[test]
fn a_removed_lease_is_made_anew_only_when_its_holder_must_have_noticed() {
    let mut seen = Seen::default();
    seen.observe(Some(&held_by(&other(), LeaseAction::Create, None, wall())), &me(), SECOND);
    seen.observe(None, &me(), 3 * SECOND);
    assert_eq!(judged(None, &seen, 4 * SECOND), LeaseAction::Wait(14 * SECOND));
    assert_eq!(judged(None, &seen, 18 * SECOND), LeaseAction::Create);
    seen.leading_until = Some(20 * SECOND);
    assert_eq!(judged(None, &seen, 4 * SECOND), LeaseAction::Create, "the holder itself makes it again");
}

#[test]
fn renewals_differ_although_the_clock_stands() {
    let first = held_by(&me(), LeaseAction::Create, None, wall());
    assert_ne!(first, held_by(&me(), LeaseAction::Renew, Some(&first), wall()));
}

#[test]
fn durations_that_would_let_two_lead_are_refused() {
    assert!(Durations::new(10 * SECOND, 10 * SECOND, SECOND).is_err());
    assert!(Durations::new(15 * SECOND, 2 * SECOND, 2 * SECOND).is_err());
    assert!(Durations::new(15 * SECOND, 10 * SECOND, Duration::ZERO).is_err());
    assert!(Durations::new(15 * SECOND, 10 * SECOND, 2 * SECOND).is_ok());
    assert_eq!(Durations::of_lease(15 * SECOND), Ok(Durations::default()));
    assert!(Durations::of_lease(Duration::ZERO).is_err());
}
