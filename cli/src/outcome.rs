//! How a command ended, and the exit code that says so.
//!
//! Commands return a code for an end they have already explained (a report, a
//! list of problems), or an error that is printed here, on stderr, once.

use std::process::ExitCode;

use weir_core::Error;

/// An end that needs no more words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u8);

impl Code {
    /// Done, or cleanly stopped.
    pub const DONE: Self = Self(0);
    /// The manifest or its data was rejected.
    pub const CONFIG: Self = Self(20);
    /// Stopped at once, by a second Ctrl-C.
    pub const INTERRUPTED: Self = Self(130);
}

/// What a command returns.
pub type Ended = Result<Code, Error>;

/// Prints an error and gives the exit code.
pub fn exit(ended: Ended) -> ExitCode {
    let code = match ended {
        Ok(Code(code)) => code,
        Err(error) => {
            crate::output::say(&format!("error: {error}"));
            error.class().exit_code()
        }
    };
    // The last words too, before the process goes.
    crate::output::background::drain();
    ExitCode::from(code)
}
