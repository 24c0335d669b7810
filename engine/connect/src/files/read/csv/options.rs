//! The options of Spark's CSV reader (`CSVOptions`).
//!
//! Read once; characters may be written as escapes (`\t`). Only UTF-8 is read.
//! What needs a character outside ASCII for quote or escape is refused.

use weir_core::{Error, Result};
use weir_decode::options::parse_mode;
use weir_decode::{Formats, ParseMode};

use super::super::frame::{Framing, QuoteRules};
use super::tokens::{Blanks, TokenRules, UnescapedQuote};
use crate::options::{Options, invalid};

/// How CSV files are read.
#[derive(Clone, Debug)]
pub struct CsvOptions {
    /// How records are split.
    pub rules: TokenRules,
    /// How records are found.
    pub framing: Framing,
    /// `header`.
    pub header: Header,
    /// `enforceSchema`: whether the header's names are looked at.
    pub names: HeaderNames,
    /// `nullValue`.
    pub null_value: String,
    /// `emptyValue`: what quotes with nothing inside are.
    pub empty_value: String,
    /// `nanValue`, `positiveInf`, `negativeInf`.
    pub special: SpecialNumbers,
    /// Zone and patterns.
    pub formats: Formats,
    /// `mode`.
    pub mode: ParseMode,
    /// `columnNameOfCorruptRecord`.
    pub corrupt_column: String,
    /// `maxColumns`.
    pub max_columns: usize,
    /// `maxCharsPerColumn`; no bound when absent.
    pub max_chars: Option<usize>,
    /// `inferSchema`, for schema inference only.
    pub infer_types: bool,
}

/// Whether files begin with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The first record is data.
    Absent,
    /// The first record is skipped.
    First,
}

/// Whether the header must fit the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderNames {
    /// Columns go by position.
    Ignored,
    /// Names are compared and a difference is an error.
    Checked,
}

/// Texts that stand for numbers which are not finite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecialNumbers {
    /// Not a number.
    pub nan: String,
    /// Positive infinity.
    pub positive: String,
    /// Negative infinity.
    pub negative: String,
}

impl CsvOptions {
    /// Reads the options; `formats` come from the caller, who knows the session's zone.
    pub fn parse(options: &Options, formats: Formats) -> Result<Self> {
        if let Some(encoding) = options.first(&["encoding", "charset"]) {
            require_utf8(encoding)?;
        }
        let quote = character(options, "quote", Some('"'))?;
        let escape = character(options, "escape", Some('\\'))?;
        let escape_escape = match options.get("charToEscapeQuoteEscaping") {
            Some(_) => character(options, "charToEscapeQuoteEscaping", None)?,
            None if quote == escape => None,
            None => escape,
        };
        let comment = character(options, "comment", None)?;
        let separator = options.first(&["sep", "delimiter"]).unwrap_or(",");
        let separator = unescape(separator).into_bytes();
        if separator.is_empty() {
            return Err(Error::config(
                "INVALID_DELIMITER_VALUE.NULL_VALUE",
                "Delimiter cannot be empty string; set the option sep to one or more characters",
            ));
        }
        let line_separator = line_separator(options)?;
        let quotes = QuoteRules { quote, escape, separator, line_separator: line_separator.clone(), comment };
        let multi_line = options.flag("multiLine", false)?;
        let framing = match (multi_line, line_separator) {
            (true, _) => Framing::Quoted(quotes.clone()),
            (false, Some(separator)) => Framing::Separator(separator),
            (false, None) => Framing::Lines,
        };
        let blanks = |name: &str| options.flag(name, false).map(|on| if on { Blanks::Drop } else { Blanks::Keep });
        let rules = TokenRules {
            quotes,
            escape_escape,
            leading: blanks("ignoreLeadingWhiteSpace")?,
            trailing: blanks("ignoreTrailingWhiteSpace")?,
            unescaped: unescaped(options)?,
        };
        let text = |name: &str, default: &str| options.get(name).unwrap_or(default).to_owned();
        let special =
            SpecialNumbers { nan: text("nanValue", "NaN"), positive: text("positiveInf", "Inf"), negative: text("negativeInf", "-Inf") };
        Ok(Self {
            rules,
            framing,
            header: if options.flag("header", false)? { Header::First } else { Header::Absent },
            names: if options.flag("enforceSchema", true)? { HeaderNames::Ignored } else { HeaderNames::Checked },
            null_value: text("nullValue", ""),
            empty_value: text("emptyValue", ""),
            special,
            formats,
            mode: parse_mode(options.get("mode").unwrap_or("PERMISSIVE")),
            corrupt_column: text("columnNameOfCorruptRecord", "_corrupt_record"),
            max_columns: options.number("maxColumns", "must be an integer")?.unwrap_or(20_480),
            max_chars: options.number::<i64>("maxCharsPerColumn", "must be an integer")?.and_then(|n| usize::try_from(n).ok()),
            infer_types: options.flag("inferSchema", false)?,
        })
    }
}

/// Refuses encodings other than UTF-8.
pub fn require_utf8(encoding: &str) -> Result<()> {
    let known = ["utf-8", "utf8", "us-ascii", "ascii"];
    if known.contains(&encoding.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(Error::config("UNSUPPORTED_ENCODING", format!("the encoding '{encoding}' cannot be read or written; convert the files to UTF-8")))
}

/// `lineSep`, when it is set.
pub fn line_separator(options: &Options) -> Result<Option<Vec<u8>>> {
    match options.get("lineSep") {
        None => Ok(None),
        Some("") => Err(invalid("lineSep", "", "must not be empty")),
        Some(text) => Ok(Some(text.as_bytes().to_vec())),
    }
}

/// Undoes the escapes that Spark takes in separators.
pub fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('n') => out.push('\n'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some(other @ ('"' | '\'' | '\\')) => out.push(other),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
    out
}

/// One ASCII character; an empty text or `\0` switches the rule off.
pub fn character(options: &Options, name: &str, default: Option<char>) -> Result<Option<u8>> {
    let Some(text) = options.get(name) else { return Ok(default.and_then(|c| u8::try_from(c).ok())) };
    let text = if text.len() > 1 { unescape(text) } else { text.to_owned() };
    if text == "\0" || text == "\\0" || text == "\\u0000" {
        return Ok(None);
    }
    let mut bytes = text.bytes();
    match (bytes.next(), bytes.next()) {
        (None, _) => Ok(None),
        (Some(byte), None) if byte.is_ascii() => Ok(Some(byte)),
        _ => Err(invalid(name, &text, "must be at most one ASCII character")),
    }
}

fn unescaped(options: &Options) -> Result<UnescapedQuote> {
    let Some(text) = options.get("unescapedQuoteHandling") else { return Ok(UnescapedQuote::default()) };
    match text.to_ascii_uppercase().as_str() {
        "STOP_AT_DELIMITER" => Ok(UnescapedQuote::StopAtDelimiter),
        "STOP_AT_CLOSING_QUOTE" => Ok(UnescapedQuote::StopAtClosingQuote),
        "BACK_TO_DELIMITER" => Ok(UnescapedQuote::BackToDelimiter),
        "SKIP_VALUE" => Ok(UnescapedQuote::SkipValue),
        "RAISE_ERROR" => Ok(UnescapedQuote::RaiseError),
        _ => {
            let allowed = "must be one of STOP_AT_CLOSING_QUOTE, BACK_TO_DELIMITER, STOP_AT_DELIMITER, SKIP_VALUE, RAISE_ERROR";
            Err(invalid("unescapedQuoteHandling", text, allowed))
        }
    }
}
