//! `weir completion`: the shell's completion script, generated from the
//! command line's own definition.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::outcome::{Code, Ended};

/// Prints the script.
pub fn run(shell: Shell) -> Ended {
    clap_complete::generate(shell, &mut Arguments::command(), "weir", &mut std::io::stdout());
    Ok(Code::DONE)
}
