//! Walking over a value of any shape: to skip it, or to write it anew.
//!
//! No recursion: which containers are open is one bit per level.

use super::lexer::{Fault, Lexer, MAX_DEPTH, Number, Span, unescape};
use super::write::{write_number, write_string};

trait Sink {
    fn raw(&mut self, bytes: &[u8]);
    fn string(&mut self, raw: &[u8], span: Span);
    fn number(&mut self, number: &Number<'_>);
}

struct Skip;

impl Sink for Skip {
    #[inline]
    fn raw(&mut self, _: &[u8]) {}
    #[inline]
    fn string(&mut self, _: &[u8], _: Span) {}
    #[inline]
    fn number(&mut self, _: &Number<'_>) {}
}

struct Rewrite<'o> {
    out: &'o mut Vec<u8>,
    scratch: Vec<u8>,
}

impl Sink for Rewrite<'_> {
    fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn string(&mut self, raw: &[u8], span: Span) {
        if span.escaped {
            self.scratch.clear();
            unescape(raw, &mut self.scratch);
            write_string(&self.scratch, self.out);
        } else {
            write_string(raw, self.out);
        }
    }

    fn number(&mut self, number: &Number<'_>) {
        write_number(number, self.out);
    }
}

impl Lexer<'_> {
    /// Passes over one value, checking its form.
    #[inline]
    pub fn skip_value(&mut self) -> Result<(), Fault> {
        match self.value_start()? {
            b'"' => self.string().map(|_| ()),
            b'-' | b'0'..=b'9' => self.skip_number(),
            _ => self.walk(&mut Skip),
        }
    }

    /// Writes one value without blanks, as Jackson's `copyCurrentStructure` does.
    pub fn rewrite_value(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.walk(&mut Rewrite { out, scratch: Vec::new() })
    }

    fn walk_name<S: Sink>(&mut self, sink: &mut S) -> Result<(), Fault> {
        let span = self.name()?;
        sink.string(&self.bytes[span.start..span.end], span);
        sink.raw(b":");
        Ok(())
    }

    fn walk<S: Sink>(&mut self, sink: &mut S) -> Result<(), Fault> {
        let outside = self.depth;
        let mut objects = [0u64; MAX_DEPTH / 64 + 1];
        loop {
            let first = self.value_start()?;
            match first {
                b'{' | b'[' => {
                    self.open()?;
                    sink.raw(&[first]);
                    let level = self.depth - 1;
                    let bit = 1u64 << (level % 64);
                    let closing = if first == b'{' {
                        objects[level / 64] |= bit;
                        b'}'
                    } else {
                        objects[level / 64] &= !bit;
                        b']'
                    };
                    if !self.close(closing)? {
                        if first == b'{' {
                            self.walk_name(sink)?;
                        }
                        continue;
                    }
                    sink.raw(&[closing]);
                }
                b't' => {
                    self.literal(b"true")?;
                    sink.raw(b"true");
                }
                b'f' => {
                    self.literal(b"false")?;
                    sink.raw(b"false");
                }
                b'n' => {
                    self.literal(b"null")?;
                    sink.raw(b"null");
                }
                quote if self.is_quote(quote) => {
                    let span = self.string()?;
                    sink.string(&self.bytes[span.start..span.end], span);
                }
                _ => {
                    let number = self.number()?;
                    sink.number(&number);
                }
            }
            // After a value: go on in the innermost container, or close it.
            loop {
                if self.depth == outside {
                    return Ok(());
                }
                let level = self.depth - 1;
                let object = objects[level / 64] >> (level % 64) & 1 == 1;
                let closing = if object { b'}' } else { b']' };
                if self.more(closing)? {
                    sink.raw(b",");
                    if object {
                        self.walk_name(sink)?;
                    }
                    break;
                }
                sink.raw(&[closing]);
            }
        }
    }
}
