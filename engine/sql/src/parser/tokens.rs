//! Spark's lexical rules on top of sqlparser's tokens.
//!
//! A number directly followed by a suffix becomes one token that keeps the
//! suffix (`1.9D`), strings get Spark's escapes, double-quoted strings are
//! strings, `r'..'` stays raw, and adjacent strings are joined.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer, Whitespace};
use weir_core::Error;

use crate::error::at_span;

/// All tokens of the text, whitespace left out.
pub fn tokenize(sql: &str, dialect: &dyn Dialect) -> Result<Vec<TokenWithSpan>, Error> {
    let tokens = Tokenizer::new(dialect, sql).with_unescape(false).tokenize_with_location();
    let raw = tokens.map_err(|e| at_span(super::wrong(&e.message), Span::new(e.location, e.location)))?;
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(raw.len());
    let mut adjacent = false;
    for mut token in raw {
        token.token = match token.token {
            Token::Whitespace(Whitespace::Space | Whitespace::Newline | Whitespace::Tab) => {
                adjacent = false;
                continue;
            }
            Token::Whitespace(_) => {
                adjacent = false;
                continue;
            }
            Token::SingleQuotedString(s) => Token::SingleQuotedString(unescape(&s, '\'')),
            Token::DoubleQuotedString(s) => Token::SingleQuotedString(unescape(&s, '"')),
            Token::SingleQuotedRawStringLiteral(s) | Token::DoubleQuotedRawStringLiteral(s) => Token::SingleQuotedString(s),
            other => other,
        };
        if let Some(last) = out.last_mut() {
            match (&mut last.token, &token.token) {
                (Token::Number(number, long), Token::Word(word))
                    if adjacent
                        && !*long
                        && word.quote_style.is_none()
                        && matches!(word.value.to_ascii_uppercase().as_str(), "D" | "F" | "BD" | "S" | "Y" | "L") =>
                {
                    number.push_str(&word.value.to_ascii_uppercase());
                    last.span.end = token.span.end;
                    continue;
                }
                (Token::Word(word), Token::SingleQuotedString(text))
                    if adjacent && word.quote_style.is_none() && word.value.eq_ignore_ascii_case("r") =>
                {
                    // `R'..'` where sqlparser does not know raw strings: the escapes were resolved
                    // already, so only strings without a backslash come here unchanged.
                    last.token = Token::SingleQuotedString(text.clone());
                    continue;
                }
                (Token::SingleQuotedString(text), Token::SingleQuotedString(more)) => {
                    text.push_str(more);
                    last.span.end = token.span.end;
                    adjacent = true;
                    continue;
                }
                _ => {}
            }
        }
        adjacent = true;
        out.push(token);
    }
    Ok(out)
}

/// Spark's escapes: `\n`, `\t`, `\0`, `\u0041`, octal `\101`; `\%` and `\_` keep
/// their backslash for `LIKE`; any other escaped character stands for itself.
fn unescape(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == quote && chars.peek() == Some(&quote) {
            chars.next();
            out.push(quote);
            continue;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some(escaped) = chars.next() else {
            out.push('\\');
            break;
        };
        match escaped {
            '0' if !chars.peek().is_some_and(char::is_ascii_digit) => out.push('\0'),
            'b' => out.push('\u{8}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'Z' => out.push('\u{1a}'),
            '%' => out.push_str("\\%"),
            '_' => out.push_str("\\_"),
            'u' => unicode(&mut chars, 4, &mut out, 'u'),
            'U' => unicode(&mut chars, 8, &mut out, 'U'),
            '0'..='3' => {
                let rest: String = chars.clone().take(2).collect();
                let digits = format!("{escaped}{rest}");
                match u8::from_str_radix(&digits, 8) {
                    Ok(code) if digits.len() == 3 => {
                        chars.nth(1);
                        out.push(char::from(code));
                    }
                    _ => out.push(escaped),
                }
            }
            other => out.push(other),
        }
    }
    out
}

fn unicode(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, digits: usize, out: &mut String, letter: char) {
    let hex: String = chars.clone().take(digits).collect();
    let code = (hex.chars().count() == digits).then(|| u32::from_str_radix(&hex, 16).ok()).flatten();
    let Some(code) = code else {
        out.push(letter);
        return;
    };
    chars.nth(digits - 1);
    // A pair of surrogates stands for one character.
    if (0xD800..0xDC00).contains(&code) {
        let low: String = chars.clone().skip(2).take(4).collect();
        let marked: String = chars.clone().take(2).collect();
        if marked == "\\u"
            && let Ok(low) = u32::from_str_radix(&low, 16)
            && (0xDC00..0xE000).contains(&low)
        {
            chars.nth(5);
            out.extend(char::from_u32(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)));
            return;
        }
    }
    out.push(char::from_u32(code).unwrap_or('\u{FFFD}'));
}

#[cfg(test)]
mod tests {
    use super::unescape;

    #[test]
    fn resolves_sparks_escapes() {
        assert_eq!(unescape(r"a\nb\'c\\d\%\_\d\u00e9\101''", '\''), "a\nb'c\\d\\%\\_d\u{e9}A'");
        assert_eq!(unescape(r"\uD83D\uDE00", '\''), "\u{1F600}");
    }
}
