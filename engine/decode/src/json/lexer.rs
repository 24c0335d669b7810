//! Tokens of JSON text, with the deviations that Jackson can be told to accept.
//!
//! Strings are not checked for UTF-8 here; `beyond_ascii` tells the decoder
//! whether a record needs the check. Methods leave
//! the position after what they read; a `Fault::Syntax` ends the record, a
//! `Fault::Value` means only that a value does not fit its column.

use crate::options::Leniency;

/// Nesting limit, that of Jackson's StreamReadConstraints.
pub(crate) const MAX_DEPTH: usize = 1_000;

/// Why a value was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not JSON.
    Syntax(&'static str),
    /// JSON, but not of the wanted type.
    Value(&'static str),
}

/// A string or name between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// Past the last byte.
    pub end: usize,
    /// Whether there are escapes to resolve.
    pub escaped: bool,
}

/// What a number looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NumberForm {
    /// Digits only.
    Integer,
    /// With a fraction or an exponent.
    Float,
    /// NaN or an infinity.
    NonFinite(f64),
}

/// A number's text and form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number<'a> {
    /// As written.
    pub raw: &'a [u8],
    /// Its form.
    pub form: NumberForm,
}

/// A position in one record.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    /// The record.
    pub bytes: &'a [u8],
    /// The next byte.
    pub pos: usize,
    /// Objects and arrays that are open.
    pub depth: usize,
    /// Whether a string had, or may have had, bytes beyond ASCII.
    pub(crate) beyond_ascii: bool,
    rules: Leniency,
}

const END: Fault = Fault::Syntax("the text ends inside a value");

impl<'a> Lexer<'a> {
    /// At the start of a record.
    pub fn new(bytes: &'a [u8], rules: Leniency) -> Self {
        Self { bytes, pos: 0, depth: 0, beyond_ascii: false, rules }
    }

    /// The accepted deviations.
    pub fn rules(&self) -> Leniency {
        self.rules
    }

    /// The next byte without taking it.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    /// The first byte of the value that is due, blanks skipped.
    #[inline]
    pub fn value_start(&mut self) -> Result<u8, Fault> {
        self.skip_blank()?;
        self.peek().ok_or(END)
    }

    /// Blanks, and comments if they are accepted.
    #[inline]
    pub fn skip_blank(&mut self) -> Result<(), Fault> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.pos += 1,
                b'/' if self.rules.comments => self.comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    #[cold]
    fn comment(&mut self) -> Result<(), Fault> {
        let rest = &self.bytes[self.pos..];
        let length = if rest.starts_with(b"//") {
            memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            memchr::memmem::find(&rest[2..], b"*/").ok_or(END)? + 4
        } else {
            return Err(Fault::Syntax("`/` does not begin a comment"));
        };
        self.pos += length;
        Ok(())
    }

    /// Takes one byte that must be there.
    #[inline]
    pub fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Fault> {
        if self.value_start()? != byte {
            return Err(Fault::Syntax(what));
        }
        self.pos += 1;
        Ok(())
    }

    /// Takes `[` or `{`.
    #[inline]
    pub fn open(&mut self) -> Result<(), Fault> {
        self.pos += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::Syntax("nested deeper than 1000 levels"));
        }
        Ok(())
    }

    /// Takes the closing byte if it is next.
    #[inline]
    pub fn close(&mut self, byte: u8) -> Result<bool, Fault> {
        if self.value_start()? != byte {
            return Ok(false);
        }
        self.pos += 1;
        self.depth -= 1;
        Ok(true)
    }

    /// After an element: true for a comma, false for the closing byte.
    #[inline]
    pub fn more(&mut self, closing: u8) -> Result<bool, Fault> {
        let byte = self.value_start()?;
        self.pos += 1;
        if byte == b',' {
            Ok(true)
        } else if byte == closing {
            self.depth -= 1;
            Ok(false)
        } else {
            Err(Fault::Syntax("neither a comma nor the end of the object or array follows"))
        }
    }

    /// Takes `true`, `false` or `null`.
    #[inline]
    pub fn literal(&mut self, word: &'static [u8]) -> Result<(), Fault> {
        let end = self.pos + word.len();
        let next_is_word = self.bytes.get(end).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
        if self.bytes.get(self.pos..end) != Some(word) || next_is_word {
            return Err(Fault::Syntax("unknown word"));
        }
        self.pos = end;
        Ok(())
    }

    /// Whether the byte begins a string.
    #[inline]
    pub fn is_quote(&self, byte: u8) -> bool {
        byte == b'"' || (byte == b'\'' && self.rules.single_quotes)
    }

    /// Takes a field name and its colon.
    #[inline]
    pub fn name(&mut self) -> Result<Span, Fault> {
        let first = self.value_start()?;
        let span = if self.is_quote(first) {
            self.string()?
        } else if self.rules.unquoted_field_names {
            let start = self.pos;
            let word = |b: &u8| b.is_ascii_alphanumeric() || b"_$".contains(b) || *b >= 0x80;
            self.pos += self.bytes[start..].iter().take_while(|b| word(b)).count();
            if self.pos == start || first.is_ascii_digit() {
                return Err(Fault::Syntax("a field name is missing"));
            }
            Span { start, end: self.pos, escaped: false }
        } else {
            return Err(Fault::Syntax("a field name must begin with a double quote"));
        };
        self.expect(b':', "no colon after a field name")?;
        Ok(span)
    }

    /// Takes a string; the position is at its opening quote.
    #[inline]
    pub fn string(&mut self) -> Result<Span, Fault> {
        let quote = self.bytes[self.pos];
        let start = self.pos + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            at = special(self.bytes, at, quote, &mut self.beyond_ascii);
            match self.bytes.get(at) {
                None => return Err(END),
                Some(byte) if *byte == quote => break,
                Some(b'\\') => {
                    escaped = true;
                    at += self.escape(at)?;
                }
                Some(_) if self.rules.unquoted_control_chars => at += 1,
                Some(_) => return Err(Fault::Syntax("unescaped control character in a string")),
            }
        }
        self.pos = at + 1;
        Ok(Span { start, end: at, escaped })
    }

    /// Length of the escape at a backslash.
    fn escape(&self, at: usize) -> Result<usize, Fault> {
        let next = *self.bytes.get(at + 1).ok_or(END)?;
        match next {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(2),
            b'u' => {
                let digits = self.bytes.get(at + 2..at + 6).ok_or(END)?;
                if digits.iter().all(u8::is_ascii_hexdigit) { Ok(6) } else { Err(Fault::Syntax("\\u needs four hexadecimal digits")) }
            }
            b'\'' if self.rules.single_quotes => Ok(2),
            _ if self.rules.backslash_escaping_any_character => Ok(1 + utf8_len(next)),
            _ => Err(Fault::Syntax("unknown escape in a string")),
        }
    }

    /// The text of a span, through `scratch` if it has escapes.
    #[inline]
    pub fn text<'t>(&self, span: Span, scratch: &'t mut Vec<u8>) -> &'t [u8]
    where
        'a: 't,
    {
        let raw = &self.bytes[span.start..span.end];
        if !span.escaped {
            return raw;
        }
        scratch.clear();
        unescape(raw, scratch);
        scratch
    }

    /// Takes a number without looking at its value.
    #[inline]
    pub(crate) fn skip_number(&mut self) -> Result<(), Fault> {
        // Up to 18 digits, the first not zero, are the common case.
        let mut at = self.pos;
        if matches!(self.peek(), Some(b'1'..=b'9')) {
            while let Some(chunk) = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
                let digits = digits_in_word(u64::from_le_bytes(*chunk));
                at += digits;
                if digits < 8 {
                    if matches!(chunk[digits], b'.' | b'e' | b'E') || at - self.pos > 18 {
                        break;
                    }
                    self.pos = at;
                    return Ok(());
                }
            }
        }
        self.number().map(|_| ())
    }

    /// Takes a number; the position is at its first byte.
    pub fn number(&mut self) -> Result<Number<'a>, Fault> {
        let start = self.pos;
        let mut at = start;
        let byte = |at: usize| self.bytes.get(at).copied().unwrap_or(0);
        let digits = |at: usize| self.bytes.get(at..).map_or(0, |r| r.iter().take_while(|b| b.is_ascii_digit()).count());
        if byte(at) == b'-' {
            at += 1;
        }
        if !byte(at).is_ascii_digit() {
            return self.non_finite(start);
        }
        let whole = digits(at);
        if whole > 1 && byte(at) == b'0' && !self.rules.numeric_leading_zeros {
            return Err(Fault::Syntax("a number has leading zeros"));
        }
        at += whole;
        let mut form = NumberForm::Integer;
        if byte(at) == b'.' {
            let fraction = digits(at + 1);
            if fraction == 0 {
                return Err(Fault::Syntax("a decimal point needs digits after it"));
            }
            at += 1 + fraction;
            form = NumberForm::Float;
        }
        if matches!(byte(at), b'e' | b'E') {
            at += 1 + usize::from(matches!(byte(at + 1), b'+' | b'-'));
            let exponent = digits(at);
            if exponent == 0 {
                return Err(Fault::Syntax("an exponent needs digits"));
            }
            at += exponent;
            form = NumberForm::Float;
        }
        if at - start > 1_000 {
            return Err(Fault::Syntax("a number has more than 1000 characters"));
        }
        self.pos = at;
        Ok(Number { raw: &self.bytes[start..at], form })
    }

    #[cold]
    fn non_finite(&mut self, start: usize) -> Result<Number<'a>, Fault> {
        const WORDS: [(&[u8], f64); 6] = [
            (b"NaN", f64::NAN),
            (b"Infinity", f64::INFINITY),
            (b"-Infinity", f64::NEG_INFINITY),
            (b"+Infinity", f64::INFINITY),
            (b"-INF", f64::NEG_INFINITY),
            (b"+INF", f64::INFINITY),
        ];
        let rest = &self.bytes[start..];
        let found = WORDS.iter().find(|(word, _)| rest.starts_with(word) && !rest.get(word.len()).is_some_and(u8::is_ascii_alphanumeric));
        match found {
            Some((word, value)) if self.rules.non_numeric_numbers => {
                self.pos = start + word.len();
                Ok(Number { raw: &rest[..word.len()], form: NumberForm::NonFinite(*value) })
            }
            _ => Err(Fault::Syntax("not a JSON value")),
        }
    }
}

fn utf8_len(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

/// First byte at or after `from` that is the quote, a backslash or a control
/// character, 32 or eight bytes at a time; notes bytes beyond ASCII.
#[inline]
fn special(bytes: &[u8], from: usize, quote: u8, beyond_ascii: &mut bool) -> usize {
    let mut at = from;
    #[cfg(target_arch = "x86_64")]
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<32>) {
        let (found, high) = special_in_block(block, quote);
        *beyond_ascii |= high;
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += 32;
    }
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let found = special_in_word(word, quote);
        *beyond_ascii |= word & 0x8080_8080_8080_8080 != 0;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    *beyond_ascii |= !rest.is_ascii();
    let tail = rest.iter().position(|b| *b == quote || *b == b'\\' || *b < 0x20);
    tail.map_or(bytes.len(), |offset| at + offset)
}

/// One bit for each special byte, and whether any is beyond ASCII.
#[cfg(target_arch = "x86_64")]
#[inline]
fn special_in_block(block: &[u8; 32], quote: u8) -> (u32, bool) {
    use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8};
    // SAFETY: SSE2 belongs to every x86_64; the loads read the two halves of
    // the array and need no alignment.
    unsafe {
        let halves = block.as_ptr().cast::<__m128i>();
        let (low, high) = (_mm_loadu_si128(halves), _mm_loadu_si128(halves.add(1)));
        let special = |bytes: __m128i| {
            let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(quote.cast_signed()));
            let slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\'.cast_signed()));
            let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, slashes), controls)).cast_unsigned()
        };
        (special(low) | special(high) << 16, _mm_movemask_epi8(_mm_or_si128(low, high)) != 0)
    }
}

/// The high bit of each special byte; only the lowest one is exact, borrows
/// disturb those above it.
#[inline]
fn special_in_word(word: u64, quote: u8) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let equal = |byte: u8| {
        let x = word ^ (ONES * u64::from(byte));
        x.wrapping_sub(ONES) & !x
    };
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (equal(quote) | equal(b'\\') | control) & HIGH
}

/// Digits at the start of eight bytes.
#[inline]
pub(crate) fn digits_in_word(word: u64) -> usize {
    let digits = word ^ 0x3030_3030_3030_3030;
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    (others.trailing_zeros() / 8) as usize
}

/// The number of the first `count` digits, 1 to 8, of eight bytes.
#[inline]
pub(crate) fn number_in_word(word: u64, count: usize) -> u64 {
    // Bytes shifted in are zeros before the first digit.
    let digits = (word ^ 0x3030_3030_3030_3030) << (64 - 8 * count);
    let pairs = (digits.wrapping_mul(2_561) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(6_553_601) >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(42_949_672_960_001) >> 32
}

/// Resolves escapes that the lexer has checked. A half of a surrogate pair
/// becomes `?`, as in Java's encoder.
pub(crate) fn unescape(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let kind = rest.get(at + 1).copied().unwrap_or(b'\\');
        let mut length = 2;
        match kind {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let (c, taken) = unicode(&rest[at..]);
                length = taken;
                let mut buffer = [0u8; 4];
                out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            }
            other => out.push(other),
        }
        rest = rest.get(at + length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// The character of `\uXXXX` or of a pair of them, and the length.
fn unicode(text: &[u8]) -> (char, usize) {
    let unit = |at: usize| -> Option<u32> {
        let escape = text.get(at..at + 6)?;
        let digits = std::str::from_utf8(&escape[2..]).ok()?;
        escape.starts_with(b"\\u").then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    };
    let first = unit(0).unwrap_or(0xfffd);
    if (0xd800..0xdc00).contains(&first)
        && let Some(second) = unit(6).filter(|u| (0xdc00..0xe000).contains(u))
    {
        let scalar = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(scalar).unwrap_or('?'), 12);
    }
    (char::from_u32(first).unwrap_or('?'), 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn special_finds_the_first(bytes in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(0x1f), any::<u8>(), Just(b'a'), Just(0x80), Just(0xff)], 0..40), from in 0usize..10) {
            let from = from.min(bytes.len());
            let expected = bytes[from..].iter().position(|b| *b == b'"' || *b == b'\\' || *b < 0x20)
                .map_or(bytes.len(), |i| from + i);
            let mut beyond = false;
            prop_assert_eq!(special(&bytes, from, b'"', &mut beyond), expected);
            prop_assert!(beyond || bytes[from..expected].is_ascii());
            for at in (from..bytes.len()).take_while(|at| at + 8 <= bytes.len()) {
                let mut word = [0; 8];
                word.copy_from_slice(&bytes[at..at + 8]);
                let first = word.iter().position(|b| *b == b'"' || *b == b'\\' || *b < 0x20);
                let found = special_in_word(u64::from_le_bytes(word), b'"');
                prop_assert_eq!((found != 0).then(|| found.trailing_zeros() as usize / 8), first);
            }
        }

        #[test]
        fn words_are_read_as_numbers(text in "[0-9]{0,8}[^0-9]{8}") {
            let mut word = [0; 8];
            word.copy_from_slice(&text.as_bytes()[..8]);
            let count = text.bytes().take(8).take_while(u8::is_ascii_digit).count();
            prop_assert_eq!(digits_in_word(u64::from_le_bytes(word)), count);
            if count > 0 {
                prop_assert_eq!(number_in_word(u64::from_le_bytes(word), count).to_string(), text[..count].trim_start_matches('0').parse::<u64>().unwrap_or(0).to_string());
            }
        }
    }
}
