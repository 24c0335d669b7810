//! The commands, a module each.

pub mod check;
pub mod checkpoint;
pub mod completion;
pub mod run;
pub mod sql;
pub mod status;
pub mod task;
