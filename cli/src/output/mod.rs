//! Text on stdout and stderr that cannot break a command.
//!
//! A reader that has gone (`weir sql … | head`, a closed terminal) ends neither
//! a command nor the jobs of a runner: what it would have read is dropped, and
//! the exit code stays the command's own. Results that cannot be written for
//! another reason, such as a full disk, are an error.

pub mod background;

use std::io::{self, Write};

use weir_core::{Error, Result};

/// A writer whose reader may go.
#[derive(Debug)]
pub struct Departing<W>(pub W);

impl<W: Write> Write for Departing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }
}

/// Stdout, for results.
pub fn stdout() -> Departing<io::StdoutLock<'static>> {
    Departing(io::stdout().lock())
}

/// Prints a command's result.
pub fn print(text: &str) -> Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(not_printed)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Fails(io::ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error_and_a_full_disk_is_one() {
        let mut gone = Departing(Fails(io::ErrorKind::BrokenPipe));
        gone.write_all(b"x").unwrap();
        gone.flush().unwrap();
        assert!(Departing(Fails(io::ErrorKind::StorageFull)).write_all(b"x").is_err());
    }
}
