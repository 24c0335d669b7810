//! Printing for a reader that may go.
//!
//! A reader that has gone (`weir completion bash | head`, a closed terminal) is
//! no failure of who prints: what it would have read is dropped, and the exit
//! code stays the program's own. Another reason, such as a full disk, is an
//! error. Both programs print their results through here.

use std::io::{self, Write};

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

/// Prints a result to stdout.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
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
