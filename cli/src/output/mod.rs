//! Text on stdout and stderr that cannot break a command.
//!
//! A reader that has gone (`weir sql … | head`, a closed terminal) ends neither
//! a command nor the jobs of a runner: what it would have read is dropped, and
//! the exit code stays the command's own. Results that cannot be written for
//! another reason, such as a full disk, are an error.

pub mod background;

use std::io;

use weir_core::{Error, Result};
pub use weir_crds::departing::stdout;

/// Prints a command's result.
pub fn print(text: &str) -> Result<()> {
    weir_crds::departing::print(text).map_err(not_printed)
}

/// The error for a result that could not be written.
pub fn not_printed(error: io::Error) -> Error {
    Error::retryable("NOT_PRINTED", "could not write the result to stdout").with_source(error)
}

/// Shows a line on stdout, if somebody reads it.
pub fn show(line: &str) {
    background::line(background::Stream::Out, line);
}

/// Says a line on stderr, if somebody reads it.
pub fn say(line: &str) {
    background::line(background::Stream::Err, line);
}
