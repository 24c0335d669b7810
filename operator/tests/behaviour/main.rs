//! The operator against a real API server, with real processes for its pods.
//!
//! One binary, so that the tests share one control plane. Each test has a
//! namespace, a node and a clock of its own. Tests are named after the mistakes
//! that operators make (M1 to M15 of the list in `docs/incidents.md`).
#![allow(clippy::unwrap_used)]

mod backoff;
mod churn;
mod edits;
mod epochs;
mod exits;
mod finalizers;
mod fleet;
mod hostile;
mod install;
mod kills;
mod leaders;
mod lifecycle;
mod nodes;
mod obstacles;
mod outage;
mod ownership;
mod pairs;
mod panics;
mod readiness;
mod search;
mod sizes;
mod stale;
mod stored;
mod taken;
mod telling;
mod timers;
mod world;
