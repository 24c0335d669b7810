//! Spark's lexical rules on top of sqlparser's tokens.
//!
//! A number directly followed by a suffix becomes one token that keeps the
//! suffix (`1.9D`), strings get Spark's escapes, double-quoted strings are
//! strings, `r'..'` stays raw, and adjacent strings are joined. A star that is
//! an argument (`struct(*)`, `hash(t.*)`) becomes a name, since sqlparser knows
//! stars in select lists only; `analyzer::star` reads it.

use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer};
use weir_core::Error;

use crate::error::at_span;

/// All tokens of the text, whitespace left out.
pub fn tokenize(sql: &str, dialect: &dyn Dialect) -> Result<Vec<TokenWithSpan>, Error> {
    let tokens = Tokenizer::new(dialect, sql).with_unescape(false).tokenize_with_location();
    let raw = tokens.map_err(|e| at_span(super::wrong(&e.message), Span::new(e.location, e.location)))?;
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(raw.len());
    let mut adjacent = false;
    for mut token in raw {
        // `r'..'` arrives as a word and a string.
        let is_raw = adjacent
            && matches!(out.last().map(|t| &t.token), Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("r"));
        let unescaped = |text: String, quote: char| if is_raw { text } else { unescape(&text, quote) };
        token.token = match token.token {
            Token::Whitespace(_) => {
                adjacent = false;
                continue;
            }
            Token::SingleQuotedString(s) => Token::SingleQuotedString(unescaped(s, '\'')),
            Token::DoubleQuotedString(s) => Token::SingleQuotedString(unescaped(s, '"')),
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
                (Token::Word(_), Token::SingleQuotedString(text)) if is_raw => {
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
    Ok(lateral_views(stars(out)))
}

/// What may follow a LATERAL VIEW without column names, and sqlparser would take for such a name.
const AFTER_VIEW: &[Keyword] = &[
    Keyword::ORDER,
    Keyword::SORT,
    Keyword::DISTRIBUTE,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::UNION,
    Keyword::EXCEPT,
    Keyword::MINUS,
    Keyword::INTERSECT,
    Keyword::QUALIFY,
    Keyword::WINDOW,
];

/// `LATERAL VIEW inline(a) i ORDER BY` gets a WHERE TRUE behind the view's name, which sqlparser takes for no column.
fn lateral_views(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let keyword = |token: Option<&TokenWithSpan>| match token.map(|t| &t.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    let mut at = 0;
    while at < tokens.len() {
        let is_view = keyword(tokens.get(at)) == Keyword::LATERAL && keyword(tokens.get(at + 1)) == Keyword::VIEW;
        at += 1;
        if !is_view {
            continue;
        }
        let mut depth = 0_usize;
        let close = tokens[at..].iter().position(|t| {
            match t.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ => return false,
            }
            depth == 0
        });
        let Some(close) = close else { break };
        // Behind the bracket comes the view's name.
        let behind = at + close + 2;
        if AFTER_VIEW.contains(&keyword(tokens.get(behind))) {
            let condition = ["WHERE", "TRUE"].map(|word| TokenWithSpan::wrap(Token::make_keyword(word)));
            tokens.splice(behind..behind, condition);
        }
    }
    tokens
}

/// The name that a star among arguments becomes; no name that is written without quotes is this one.
pub const STAR: &str = "*";

/// Stars inside the brackets of a call become names, and `* EXCEPT (a, b)` there a call `*(a, b)`.
fn stars(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: Option<&TokenWithSpan>, keywords: &[Keyword]| matches!(token.map(|t| &t.token), Some(Token::Word(w)) if w.quote_style.is_none() && keywords.contains(&w.keyword));
    let mut brackets_of_calls: Vec<bool> = Vec::new();
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.into_iter().peekable();
    while let Some(mut token) = rest.next() {
        let next = rest.peek();
        match token.token {
            Token::LParen => {
                brackets_of_calls.push(!word(next, &[Keyword::SELECT, Keyword::WITH, Keyword::FROM, Keyword::VALUES, Keyword::TABLE]));
            }
            Token::RParen => {
                brackets_of_calls.pop();
            }
            // A star that multiplies has a value behind it.
            Token::Mul if brackets_of_calls.last() == Some(&true) => {
                let without = word(next, &[Keyword::EXCEPT]);
                if without || matches!(next.map(|t| &t.token), Some(Token::RParen | Token::Comma)) {
                    token.token = Token::make_word(STAR, None);
                }
                if without {
                    rest.next();
                }
            }
            _ => {}
        }
        out.push(token);
    }
    out
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
    #![allow(clippy::unwrap_used)]
    use super::super::dialect::SparkDialect;
    use super::{tokenize, unescape};

    fn shown(sql: &str) -> String {
        tokenize(sql, &SparkDialect).unwrap().iter().map(|t| t.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn raw_strings_keep_their_backslashes() {
        assert_eq!(shown(r"rlike(a, r'\d+\.' 'x\tb') R"), "rlike ( a , '\\d+\\.x\tb' ) R");
    }

    #[test]
    fn stars_among_arguments_are_names() {
        let names = |sql: &str| {
            tokenize(sql, &SparkDialect)
                .unwrap()
                .iter()
                .filter(|t| matches!(&t.token, super::Token::Word(w) if w.value == super::STAR))
                .count()
        };
        for (sql, count) in [
            ("SELECT *, a, * EXCEPT (b) FROM t", 0),
            ("SELECT struct(*), count(*), hash(a, t.*, b), a IN (*) FROM t", 4),
            ("SELECT struct(a * b), f(2 * (a), a*b) FROM (SELECT *, a FROM t)", 0),
            ("SELECT struct(* EXCEPT (a), (SELECT max(b) FROM (SELECT *, 1 FROM u)))", 1),
            ("SELECT concat_ws(',', count(DISTINCT *))", 1),
        ] {
            assert_eq!(names(sql), count, "{sql}");
        }
        let view = "SELECT a FROM t LATERAL VIEW OUTER inline(f(b)) i";
        let where_true = shown(&format!("{view} ORDER BY a"));
        assert!(where_true.ends_with("i WHERE TRUE ORDER BY a"), "{where_true}");
        assert!(shown(&format!("{view} AS x ORDER BY a")).ends_with("i AS x ORDER BY a"));
        assert_eq!(shown("struct(t.* EXCEPT (a, b))"), "struct ( t . * ( a , b ) )");
    }

    #[test]
    fn resolves_sparks_escapes() {
        assert_eq!(unescape(r"a\nb\'c\\d\%\_\d\u00e9\101''", '\''), "a\nb'c\\d\\%\\_d\u{e9}A'");
        assert_eq!(unescape(r"\uD83D\uDE00", '\''), "\u{1F600}");
    }
}
