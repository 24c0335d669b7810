//! Where records begin and end in a stream of bytes.
//!
//! Bytes are appended, complete records taken out; what is incomplete stays.
//! Lines end at `\n`, `\r\n` or `\r`, or at a given separator; the CSV frame
//! looks for line ends outside quotes; a whole file may be one record. A record
//! beyond a quarter of a gigabyte is an error, so that a file without line ends
//! cannot fill the memory.

use memchr::{memchr2, memmem};

/// How records are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Any of the three line ends.
    Lines,
    /// An exact separator.
    Separator(Vec<u8>),
    /// Line ends outside quotes.
    Quoted(QuoteRules),
    /// The file is one record.
    Whole,
}

/// What a quoted field looks like, for finding its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteRules {
    /// The quote; none switches quoting off.
    pub quote: Option<u8>,
    /// Escapes a quote inside quotes.
    pub escape: Option<u8>,
    /// Between fields.
    pub separator: Vec<u8>,
    /// Between records; the three line ends when absent.
    pub line_separator: Option<Vec<u8>>,
    /// Begins a line that is no record.
    pub comment: Option<u8>,
}

/// The largest record.
pub const MAX_RECORD: usize = 256 * 1024 * 1024;

/// A record where it stands in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// Without what ends it.
    pub bytes: &'a [u8],
    /// Counted from 1, blank ones and comments too: the number of its line, where records are lines.
    pub number: u64,
    /// Bytes of the stream before it.
    pub at: u64,
}

/// A buffer that records are cut from.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    /// Bytes not yet handed out begin at `start`.
    buffer: Vec<u8>,
    start: usize,
    /// Where to go on looking for the end of the record at `start`.
    scanned: usize,
    ended: bool,
    at_beginning: bool,
    /// Bytes that are no longer in the buffer.
    dropped: u64,
    /// Records handed out.
    records: u64,
}

impl Framer {
    /// An empty buffer.
    pub fn new(framing: Framing) -> Self {
        Self { framing, buffer: Vec::new(), start: 0, scanned: 0, ended: false, at_beginning: true, dropped: 0, records: 0 }
    }

    /// The buffer to append to; what was handed out is dropped first.
    pub fn fill(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.dropped += self.start as u64;
            self.start = 0;
        }
        &mut self.buffer
    }

    /// No more bytes come.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether the record that has begun is too large.
    pub fn is_overfull(&self) -> bool {
        self.buffer.len() - self.start > MAX_RECORD
    }

    /// The next complete record; `None` when more bytes are needed or all are out.
    pub fn next_record(&mut self) -> Option<Framed<'_>> {
        if self.at_beginning && !self.skip_byte_order_mark() {
            return None;
        }
        let (length, after) = self.find()?;
        let record = self.start..self.start + length;
        self.start += after;
        self.scanned = self.start;
        self.records += 1;
        Some(Framed { number: self.records, at: self.dropped + record.start as u64, bytes: &self.buffer[record] })
    }

    /// False while it cannot be known whether there is a mark.
    fn skip_byte_order_mark(&mut self) -> bool {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        let have = &self.buffer[self.start..];
        if have.len() < MARK.len() && MARK.starts_with(have) && !self.ended {
            return false;
        }
        if have.starts_with(MARK) {
            self.start += MARK.len();
            self.scanned = self.start;
        }
        self.at_beginning = false;
        true
    }

    /// Length of the next record and of what to skip for it, from `start`.
    fn find(&mut self) -> Option<(usize, usize)> {
        let from = self.scanned - self.start;
        let rest = &self.buffer[self.start..];
        let found = match &self.framing {
            Framing::Lines => line_end(rest, from, self.ended),
            Framing::Separator(separator) => separator_end(rest, from, separator),
            Framing::Whole => Found::More(rest.len()),
            // Quotes have state, so the record is scanned from its beginning.
            Framing::Quoted(rules) => super::csv::tokens::record_end(rest, rules, self.ended),
        };
        match found {
            Found::At { length, after } => Some((length, after)),
            Found::More(scanned) => {
                self.scanned = self.start + scanned;
                (self.ended && !rest.is_empty()).then_some((rest.len(), rest.len()))
            }
        }
    }
}

/// Outcome of a search for the end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The record's length, and with what ends it.
    At {
        /// Bytes of the record.
        length: usize,
        /// Bytes to the beginning of the next.
        after: usize,
    },
    /// Not yet; so much need not be looked at again.
    More(usize),
}

/// The end of a line at or after `from`.
pub fn line_end(rest: &[u8], from: usize, ended: bool) -> Found {
    let Some(at) = memchr2(b'\n', b'\r', &rest[from..]).map(|at| at + from) else { return Found::More(rest.len()) };
    if rest[at] == b'\n' {
        return Found::At { length: at, after: at + 1 };
    }
    match rest.get(at + 1) {
        Some(b'\n') => Found::At { length: at, after: at + 2 },
        Some(_) => Found::At { length: at, after: at + 1 },
        None if ended => Found::At { length: at, after: at + 1 },
        None => Found::More(at),
    }
}

/// The next separator at or after `from`.
pub fn separator_end(rest: &[u8], from: usize, separator: &[u8]) -> Found {
    match memmem::find(&rest[from..], separator) {
        Some(at) => Found::At { length: from + at, after: from + at + separator.len() },
        None => Found::More(rest.len().saturating_sub(separator.len().saturating_sub(1)).max(from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(framing: Framing, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let whole = pieces.concat();
        let mut framer = Framer::new(framing);
        let mut out = Vec::new();
        for piece in pieces {
            framer.fill().extend_from_slice(piece);
            while let Some(record) = framer.next_record() {
                out.push(of(&whole, out.len(), record));
            }
        }
        framer.end();
        while let Some(record) = framer.next_record() {
            out.push(of(&whole, out.len(), record));
        }
        out
    }

    /// A record, which is where it says that it is.
    fn of(whole: &[u8], before: usize, record: Framed<'_>) -> Vec<u8> {
        assert_eq!(record.number, before as u64 + 1);
        assert!(whole[record.at as usize..].starts_with(record.bytes));
        record.bytes.to_vec()
    }

    fn quoted() -> Framing {
        Framing::Quoted(QuoteRules {
            quote: Some(b'"'),
            escape: Some(b'\\'),
            separator: b",".to_vec(),
            line_separator: None,
            comment: None,
        })
    }

    #[test]
    fn line_ends_may_be_cut() {
        assert_eq!(records(Framing::Lines, &[b"a\r", b"\nb\n\nc"]), [&b"a"[..], b"b", b"", b"c"]);
        assert_eq!(records(Framing::Lines, &[b"\xef\xbb", b"\xbfa"]), [&b"a"[..]]);
        assert_eq!(records(Framing::Separator(b"||".to_vec()), &[b"a|", b"|b||"]), [&b"a"[..], b"b"]);
        assert_eq!(records(Framing::Whole, &[b"a\n", b"b"]), [&b"a\nb"[..]]);
        assert_eq!(records(quoted(), &[b"\"a\n", b"b\",1\nc,2"]), [&b"\"a\nb\",1"[..], b"c,2"]);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same_records(text in "[ab\",\\\\\r\n|]{0,40}", cuts in proptest::collection::vec(0usize..40, 0..5)) {
            for framing in [Framing::Lines, Framing::Separator(b"||".to_vec()), Framing::Whole, quoted()] {
                let whole = records(framing.clone(), &[text.as_bytes()]);
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
                cuts.extend([0, text.len()]);
                cuts.sort_unstable();
                let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
                prop_assert_eq!(records(framing, &pieces), whole);
            }
        }
    }
}
