//! Fields of a CSV record as univocity splits them under Spark's settings.
//!
//! A field that begins with the quote runs to a quote that a separator, a line
//! end or blanks follow. Any other quote inside is "unescaped": by default the
//! field then is what stands there, opening quote included, up to the next
//! separator. The same scan finds the end of a record that spans lines, so
//! frame and fields cannot disagree.

use super::super::frame::{Found, QuoteRules, line_end, separator_end};

/// What becomes of a field with an unescaped quote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnescapedQuote {
    /// The raw text up to the next separator.
    #[default]
    StopAtDelimiter,
    /// The quote is content; the field goes on to a closing quote.
    StopAtClosingQuote,
    /// As if the field had no quotes, the opening one left out.
    BackToDelimiter,
    /// The field is null.
    SkipValue,
    /// The record is malformed.
    RaiseError,
}

/// Everything that decides how a record is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRules {
    /// Quotes and separators.
    pub quotes: QuoteRules,
    /// Escapes the escape itself inside quotes.
    pub escape_escape: Option<u8>,
    /// `ignoreLeadingWhiteSpace`.
    pub leading: Blanks,
    /// `ignoreTrailingWhiteSpace`.
    pub trailing: Blanks,
    /// `unescapedQuoteHandling`.
    pub unescaped: UnescapedQuote,
}

/// What becomes of blanks around a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blanks {
    /// They belong to it.
    Keep,
    /// They go.
    Drop,
}

/// One field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
    kind: FieldKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldKind {
    Bare,
    Quoted,
    Skipped,
}

/// A field's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// Without quotes.
    Bare(&'a str),
    /// Inside quotes.
    Quoted(&'a str),
    /// Left out because of an unescaped quote.
    Skipped,
}

/// The fields of one record; reused from record to record.
#[derive(Debug, Default)]
pub struct Fields {
    text: Vec<u8>,
    spans: Vec<Span>,
    /// A quote that the rules do not allow was met.
    pub broken: bool,
}

impl Fields {
    /// Number of fields.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Field `at`, if the record has so many; invalid UTF-8 was replaced before.
    pub fn get(&self, at: usize) -> Option<Field<'_>> {
        let span = self.spans.get(at)?;
        let text = std::str::from_utf8(&self.text[span.start..span.end]).unwrap_or("\u{fffd}");
        Some(match span.kind {
            FieldKind::Bare => Field::Bare(text),
            FieldKind::Quoted => Field::Quoted(text),
            FieldKind::Skipped => Field::Skipped,
        })
    }

    /// Splits a record that is complete and valid UTF-8.
    pub fn split(&mut self, record: &str, rules: &TokenRules) {
        self.text.clear();
        self.spans.clear();
        self.broken = false;
        let scan = Scan { input: record.as_bytes(), rules, lines: Lines::None, ended: true };
        let mut at = 0;
        while let Some((next, more)) = scan.field(at, Some(self)) {
            at = next;
            if !more {
                break;
            }
        }
    }
}

/// Whether line ends end a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    None,
    EndRecords,
}

struct Scan<'a> {
    input: &'a [u8],
    rules: &'a TokenRules,
    lines: Lines,
    ended: bool,
}

/// The end of a record that may span lines.
pub fn record_end(input: &[u8], quotes: &QuoteRules, ended: bool) -> Found {
    if quotes.comment.is_some_and(|comment| input.first() == Some(&comment)) {
        return plain_end(input, 0, quotes, ended);
    }
    let rules = TokenRules {
        quotes: quotes.clone(),
        escape_escape: quotes.escape,
        leading: Blanks::Keep,
        trailing: Blanks::Keep,
        unescaped: UnescapedQuote::StopAtDelimiter,
    };
    let scan = Scan { input, rules: &rules, lines: Lines::EndRecords, ended };
    let mut at = 0;
    loop {
        match scan.field(at, None) {
            None => return Found::More(0),
            Some((next, true)) => at = next,
            Some((next, false)) => return plain_end(input, next, quotes, ended),
        }
    }
}

fn plain_end(input: &[u8], from: usize, quotes: &QuoteRules, ended: bool) -> Found {
    match &quotes.line_separator {
        None => line_end(input, from, ended),
        Some(separator) => separator_end(input, from, separator),
    }
}

impl Scan<'_> {
    /// Whether the text at `at` is a separator.
    fn at_separator(&self, at: usize) -> bool {
        self.input[at..].starts_with(&self.rules.quotes.separator)
    }

    fn at_line_end(&self, at: usize) -> bool {
        self.lines == Lines::EndRecords
            && match &self.rules.quotes.line_separator {
                None => matches!(self.input[at], b'\n' | b'\r'),
                Some(separator) => self.input[at..].starts_with(separator),
            }
    }

    /// Scans one field: where the next begins and whether there is one, or
    /// nothing when the input ends before that is known.
    fn field(&self, from: usize, out: Option<&mut Fields>) -> Option<(usize, bool)> {
        let mut at = from;
        if self.rules.leading == Blanks::Drop {
            while at < self.input.len() && self.input[at] <= b' ' && !self.at_separator(at) && !self.at_line_end(at) {
                at += 1;
            }
        }
        if at < self.input.len() && Some(self.input[at]) == self.rules.quotes.quote {
            return self.quoted(at, out);
        }
        self.bare(at, at, Vec::new(), FieldKind::Bare, out)
    }

    /// A field up to the next separator or line end; `before` precedes what stands from `keep` on.
    fn bare(&self, keep: usize, from: usize, before: Vec<u8>, kind: FieldKind, out: Option<&mut Fields>) -> Option<(usize, bool)> {
        let mut at = from;
        while at < self.input.len() && !self.at_separator(at) && !self.at_line_end(at) {
            at += 1;
        }
        if at >= self.input.len() && !self.ended {
            return None;
        }
        if let Some(out) = out {
            let start = out.text.len();
            out.text.extend_from_slice(&before);
            out.text.extend_from_slice(&self.input[keep..at]);
            while self.rules.trailing == Blanks::Drop && out.text.len() > start && out.text[out.text.len() - 1] <= b' ' {
                out.text.pop();
            }
            let end = out.text.len();
            out.spans.push(Span { start, end, kind });
        }
        self.after(at)
    }

    /// What follows a field that ended at `at`.
    fn after(&self, at: usize) -> Option<(usize, bool)> {
        if at < self.input.len() && self.at_separator(at) {
            return Some((at + self.rules.quotes.separator.len(), true));
        }
        Some((at, false))
    }

    fn quoted(&self, open: usize, mut out: Option<&mut Fields>) -> Option<(usize, bool)> {
        let quotes = &self.rules.quotes;
        let quote = quotes.quote.unwrap_or(b'"');
        let mut content = Vec::new();
        let mut at = open + 1;
        while at < self.input.len() {
            let byte = self.input[at];
            let next = self.input.get(at + 1).copied();
            if next.is_none() && !self.ended {
                return None;
            }
            let quotes_run = if byte == quote && quotes.escape != quotes.quote { self.run(at, quote)? } else { 1 };
            let escapes = quotes.escape == Some(byte) && quotes.escape != quotes.quote;
            if escapes && next == Some(quote) {
                content.push(quote);
                at += 2;
            } else if escapes && self.rules.escape_escape == Some(byte) && next == Some(byte) {
                content.push(byte);
                at += 2;
            } else if byte == quote && quotes.escape == quotes.quote && next == Some(quote) {
                content.push(quote);
                at += 2;
            } else if byte == quote && self.closes(at + quotes_run) {
                // Of several quotes before the end all but one are content.
                content.extend(std::iter::repeat_n(quote, quotes_run - 1));
                return self.after_quotes(open, at + quotes_run - 1, content, out);
            } else if byte == quote {
                match self.rules.unescaped {
                    UnescapedQuote::StopAtClosingQuote => {
                        content.extend(std::iter::repeat_n(quote, quotes_run));
                        at += quotes_run;
                    }
                    UnescapedQuote::StopAtDelimiter => {
                        content.insert(0, quote);
                        return self.bare(at, at, content, FieldKind::Bare, out);
                    }
                    UnescapedQuote::BackToDelimiter => return self.bare(open + 1, open + 1, Vec::new(), FieldKind::Bare, out),
                    UnescapedQuote::SkipValue => return self.bare(at, at, Vec::new(), FieldKind::Skipped, out),
                    UnescapedQuote::RaiseError => {
                        if let Some(fields) = out.as_deref_mut() {
                            fields.broken = true;
                        }
                        return self.bare(at, at, content, FieldKind::Bare, out);
                    }
                }
            } else if byte == b'\r' && next == Some(b'\n') {
                // Line ends inside quotes are one character for the reader.
                content.push(b'\n');
                at += 2;
            } else {
                content.push(byte);
                at += 1;
            }
        }
        // The quote was never closed: all the rest is the field.
        if !self.ended {
            return None;
        }
        push(out, &content, FieldKind::Quoted);
        Some((self.input.len(), false))
    }

    /// How many quotes stand at `at`; nothing when the input ends among them.
    fn run(&self, at: usize, quote: u8) -> Option<usize> {
        let run = self.input[at..].iter().take_while(|byte| **byte == quote).count();
        (at + run < self.input.len() || self.ended).then_some(run)
    }

    /// Whether a quote before `at` is a closing one.
    fn closes(&self, at: usize) -> bool {
        at >= self.input.len() || self.input[at] <= b' ' || self.at_separator(at) || self.at_line_end(at)
    }

    /// Blanks after the closing quote at `close` are dropped, other text makes
    /// the quote an unescaped one.
    fn after_quotes(&self, open: usize, close: usize, content: Vec<u8>, out: Option<&mut Fields>) -> Option<(usize, bool)> {
        let mut at = close + 1;
        while at < self.input.len() && self.input[at] <= b' ' && !self.at_separator(at) && !self.at_line_end(at) {
            at += 1;
        }
        if at >= self.input.len() && !self.ended {
            return None;
        }
        if at < self.input.len() && !self.at_separator(at) && !self.at_line_end(at) {
            let quote = self.input[open];
            let mut before = vec![quote];
            before.extend_from_slice(&content);
            return self.bare(close, close, before, FieldKind::Bare, out);
        }
        push(out, &content, FieldKind::Quoted);
        self.after(at)
    }
}

fn push(out: Option<&mut Fields>, content: &[u8], kind: FieldKind) {
    if let Some(out) = out {
        let start = out.text.len();
        out.text.extend_from_slice(content);
        out.spans.push(Span { start, end: out.text.len(), kind });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_with(record: &str, unescaped: UnescapedQuote, blanks: Blanks) -> Vec<String> {
        let quotes = QuoteRules { quote: Some(b'"'), escape: Some(b'\\'), separator: b",".to_vec(), line_separator: None, comment: None };
        let rules = TokenRules { quotes, escape_escape: Some(b'\\'), leading: blanks, trailing: blanks, unescaped };
        let mut fields = Fields::default();
        fields.split(record, &rules);
        (0..fields.count())
            .map(|at| match fields.get(at) {
                Some(Field::Bare(text)) => text.to_owned(),
                Some(Field::Quoted(text)) => format!("Q{text}"),
                _ => "-".to_owned(),
            })
            .collect()
    }

    fn split(record: &str) -> Vec<String> {
        split_with(record, UnescapedQuote::StopAtDelimiter, Blanks::Keep)
    }

    // Each line was run through Spark 4.2.
    #[test]
    fn fields_are_univocitys() {
        assert_eq!(split(r#""a ""b"" c",2"#), [r#""a ""b"" c""#, "2"]);
        assert_eq!(split(r#""a"b,2"#), [r#""a"b"#, "2"]);
        assert_eq!(split(r#""a" ,2"#), ["Qa", "2"]);
        assert_eq!(split(r#" "a",2"#), [r#" "a""#, "2"]);
        assert_eq!(split(r#""a \" b",2"#), ["Qa \" b", "2"]);
        assert_eq!(split(r#""a \\",2"#), ["Qa \\", "2"]);
        assert_eq!(split(r#""a \n b",2"#), ["Qa \\n b", "2"]);
        assert_eq!(split(r"a\,b,2"), [r"a\", "b", "2"]);
        assert_eq!(split(r#"a"b,"c"#), ["a\"b", "Qc"]);
        assert_eq!(split(r#""abc,2"#), ["Qabc,2"]);
        assert_eq!(split(r#""a,"b",c"#), [r#""a,"b""#, "c"]);
        assert_eq!(split(r#""a",b""#), ["Qa", "b\""]);
        assert_eq!(split("a,b,"), ["a", "b", ""]);
        assert_eq!(split(r#""","#), ["Q", ""]);
        assert_eq!(split(r#""a""",2"#), ["Qa\"\"", "2"]);
        assert_eq!(split(r#""""",2"#), ["Q\"\"", "2"]);
        assert_eq!(split(r#""a"" b"",c",2"#), [r#""a"" b"""#, "c\"", "2"]);
        assert_eq!(split(r#""a\"x"b,2"#), [r#""a"x"b"#, "2"]);
        assert_eq!(split(r#""a\\"b",2"#), [r#""a\"b""#, "2"]);
        assert_eq!(split_with(r#""a,"b",c"#, UnescapedQuote::BackToDelimiter, Blanks::Keep), ["a", "Qb", "c"]);
        assert_eq!(split_with(r#""a,"b",c"#, UnescapedQuote::SkipValue, Blanks::Keep), ["-", "c"]);
        assert_eq!(split_with(r#""a,"b",c"#, UnescapedQuote::StopAtClosingQuote, Blanks::Keep), ["Qa,\"b", "c"]);
        assert_eq!(split_with(r#" "a" , b "#, UnescapedQuote::StopAtDelimiter, Blanks::Drop), ["Qa", "b"]);
        assert_eq!(split_with(r#"" a "," b ""#, UnescapedQuote::StopAtDelimiter, Blanks::Drop), ["Q a ", "Q b "]);
    }
}
