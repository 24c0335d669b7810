//! `weir`: run streaming jobs from manifests, check them, look at them.
//!
//! This file maps the command line to commands and their results to exit codes
//! (design section 9): 0 done or cleanly stopped, 2 usage, 10 retryable,
//! 20 configuration, 21 checkpoint, 22 fenced. The commands are in `commands`.

mod arguments;
mod commands;
mod local;
mod manifests;
mod outcome;
mod output;
mod parent;
mod reading;
mod signals;
mod terminal;

use std::process::ExitCode;

use clap::Parser;
use weir_core::Error;
use weir_runtime::lanes::STACK_BYTES;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    // The stack of the first thread is whatever the machine's limit says.
    let body = std::thread::Builder::new().name("main".to_owned()).stack_size(STACK_BYTES).spawn(command);
    match body.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // The panic has been told already.
        Ok(Err(_)) => ExitCode::from(101),
        Err(error) => outcome::exit(Err(Error::retryable("THREAD_NOT_STARTED", "could not start the main thread").with_source(error))),
    }
}

fn command() -> ExitCode {
    let arguments = Arguments::parse();
    terminal::init_logs(arguments.log_format);
    weir_core::failpoint::init();
    let ended = match arguments.command {
        Command::Run(run) => commands::run::run(run),
        Command::Check(check) => commands::check::run(&check),
        Command::Task(task) => commands::task::run(task),
        Command::Status(status) => commands::status::run(&status),
        Command::Checkpoint(checkpoint) => commands::checkpoint::run(&checkpoint),
        Command::Sql(sql) => commands::sql::run(&sql),
        Command::Completion { shell } => commands::completion::run(shell),
    };
    outcome::exit(ended)
}
