//! The operator: StreamingJob resources become pods, one run at a time.
//!
//! Five steps per pass, each in a module of its own: *observe* (uncached
//! reads into facts), *decide* (`weir_supervisor::decide`, no rule lives
//! here), *build* (pure: pods and ConfigMaps), *apply* (one function that
//! creates pods, one that deletes them, always by UID), *status* (one function
//! that writes it). The supervisor's memory is in `.status` before anything
//! that it plans is done; a conflict there ends the pass, which is what keeps
//! a leader that was asleep from acting on what it knew.

pub mod accept;
pub mod apply;
pub mod authority;
pub mod budget;
pub mod build;
pub mod check;
pub mod checks;
pub mod clock;
pub mod cluster;
pub mod context;
pub mod controller;
pub mod ended;
pub mod epochs;
pub mod events;
pub mod fencing;
pub mod gate;
pub mod http;
pub mod install;
pub mod job;
pub mod key;
pub mod lease;
pub mod local;
pub mod look;
pub mod metrics;
pub mod names;
pub mod observe;
pub mod operator;
pub mod paths;
pub mod poll;
pub mod rbac;
pub mod reconcile;
pub mod restores;
pub mod schema;
pub mod search;
pub mod settings;
pub mod slim;
pub mod status;
pub mod stored;
pub mod telemetry;
pub mod token;
pub mod turns;
pub mod values;
