//! The engine's stand-in: a small program that obeys the fence and does as its control file says.
//!
//! Invariants: batches are claimed, planned and committed by create-if-absent
//! in the order of the protocol (claim, look, plan, look, commit), so that
//! what a store holds is evidence; every process leaves an exit report unless
//! it is told not to. Reads no data, knows no connector, checks no manifest.

mod arguments;
mod binary;
mod check;
mod control;
mod http;
mod store;
mod task;

#[cfg(test)]
mod tests;

pub use binary::binary;
pub use control::{BacklogFigures, Control, End, Ending, Hang};
pub use store::{Commit, STORE_VARIABLE, Store};

use arguments::Command;

/// Runs the program; the exit code.
pub fn run(arguments: Vec<String>) -> i32 {
    match arguments::parse(arguments) {
        Ok(Command::Task(task)) => task::run(&task),
        Ok(Command::Check(files)) => check::run(&files),
        Err(usage) => {
            eprintln!("{usage}");
            2
        }
    }
}
