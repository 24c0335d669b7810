//! `weir completion`: the shell's completion script, generated from the
//! command line's own definition.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::outcome::{Code, Ended};
use crate::output;

/// Prints the script.
pub fn run(shell: Shell) -> Ended {
    // The generator takes it for a panic when nobody reads on.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "weir", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Code::DONE)
}
