//! Bytes to records: where one line ends and the next begins.
//!
//! Without a separator a line ends at `\n`, `\r\n` or `\r`, as in Spark's text
//! sources; a last line without an end is a line. Nothing is copied.

use memchr::{memchr2, memmem};

/// The records of a buffer.
pub fn lines<'a>(buffer: &'a [u8], separator: Option<&'a [u8]>) -> Lines<'a> {
    Lines { rest: buffer, separator }
}

/// Iterator over the records of a buffer.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
    separator: Option<&'a [u8]>,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (end, skip) = match self.separator {
            Some(separator) => (memmem::find(self.rest, separator), separator.len().max(1)),
            None => {
                let end = memchr2(b'\n', b'\r', self.rest);
                let pair = end.is_some_and(|at| self.rest[at..].starts_with(b"\r\n"));
                (end, if pair { 2 } else { 1 })
            }
        };
        let Some(end) = end else { return Some(std::mem::take(&mut self.rest)) };
        let line = &self.rest[..end];
        self.rest = &self.rest[end + skip..];
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn all_line_ends_are_taken() {
        let text = b"a\nb\r\nc\rd\n\ne";
        let found: Vec<&[u8]> = lines(text, None).collect();
        assert_eq!(found, [&b"a"[..], b"b", b"c", b"d", b"", b"e"]);
        let found: Vec<&[u8]> = lines(b"a||b||", Some(b"||")).collect();
        assert_eq!(found, [&b"a"[..], b"b"]);
    }
}
