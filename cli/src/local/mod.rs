//! The local runner: the operator's supervisor over child processes.
//!
//! `state` is the folder that outlives the runner, `child` is one running task,
//! `look` fills the supervisor's view of the children, `job` is the loop of one
//! job, `writing` what becomes of one whose state cannot be written, `watching` sees edits,
//! `checking` judges them beside the jobs, `display` shows it all. What is decided is decided by `weir_supervisor::decide` alone.

pub mod checking;
pub mod child;
pub mod display;
pub mod edit;
pub mod folder;
pub mod job;
pub mod look;
pub mod state;
pub mod watching;
pub mod writing;
