//! The words of a JAAS text, cut as Java cuts them.
//!
//! Kafka reads `sasl.jaas.config` with `java.io.StreamTokenizer`, so its rules are the rules here: both kinds of quotes, which end
//! at the end of the line; the escapes of C with up to three octal digits; comments; numbers, which have no text; any
//! character above 255 is a letter. Total: every text has tokens.

use std::iter::Peekable;
use std::str::Chars;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word, or a text in quotes: what Java calls `sval`.
    Text(String),
    /// A character that stands for itself.
    Sign(char),
    /// A number, which is no text for Java.
    Number,
}

impl Token {
    /// The text, if it has one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Token::Text(text) => Some(text),
            Token::Sign(_) | Token::Number => None,
        }
    }
}

/// Cuts a text.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut chars = text.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(c) = chars.next() {
        match c {
            '\0'..=' ' => {}
            '-' | '.' | '0'..='9' => tokens.push(number(c, &mut chars)),
            c if is_letter(c) => tokens.push(Token::Text(word(c, &mut chars))),
            '"' | '\'' => tokens.push(Token::Text(quoted(c, &mut chars))),
            '/' => skip_comment(&mut chars),
            other => tokens.push(Token::Sign(other)),
        }
    }
    tokens
}

/// `_` and `$` are letters because Kafka says so.
fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic() || matches!(c, '_' | '$') || u32::from(c) >= 160
}

fn word(first: char, chars: &mut Peekable<Chars<'_>>) -> String {
    let mut word = String::from(first);
    while let Some(next) = chars.next_if(|&c| is_letter(c) || c.is_ascii_digit() || matches!(c, '-' | '.')) {
        word.push(next);
    }
    word
}

fn number(first: char, chars: &mut Peekable<Chars<'_>>) -> Token {
    if first == '-' && !chars.peek().is_some_and(|c| c.is_ascii_digit() || *c == '.') {
        return Token::Sign('-');
    }
    let mut dots = usize::from(first == '.');
    while let Some(next) = chars.next_if(|&c| c.is_ascii_digit() || c == '.' && dots == 0) {
        dots += usize::from(next == '.');
    }
    Token::Number
}

fn quoted(quote: char, chars: &mut Peekable<Chars<'_>>) -> String {
    let mut text = String::new();
    loop {
        match chars.peek().copied() {
            // Whatever comes after the line's end is read as if the quote were closed.
            None | Some('\n' | '\r') => return text,
            Some(c) => {
                chars.next();
                match c {
                    c if c == quote => return text,
                    '\\' => text.extend(escaped(chars)),
                    other => text.push(other),
                }
            }
        }
    }
}

fn escaped(chars: &mut Peekable<Chars<'_>>) -> Option<char> {
    let first = chars.next()?;
    if !('0'..='7').contains(&first) {
        return Some(match first {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            other => other,
        });
    }
    // Up to \377, not \477.
    let most = if first <= '3' { 3 } else { 2 };
    let mut code = first.to_digit(8)?;
    for _ in 1..most {
        match chars.next_if(|c| ('0'..='7').contains(c)) {
            Some(next) => code = code * 8 + next.to_digit(8)?,
            None => break,
        }
    }
    char::from_u32(code)
}

/// A slash begins a comment even when it stands alone; what follows it is part of the comment, also the end of the line.
fn skip_comment(chars: &mut Peekable<Chars<'_>>) {
    if chars.next() == Some('*') {
        let mut before = '\0';
        for c in chars.by_ref() {
            if before == '*' && c == '/' {
                return;
            }
            before = c;
        }
        return;
    }
    while chars.next_if(|c| !matches!(c, '\n' | '\r')).is_some() {}
}
