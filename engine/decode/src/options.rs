//! The options of Spark's JSON data source and of `from_json`.
//!
//! Parsed once from the string map of a source or of a SQL call; names ignore
//! case. Options that only schema inference or writing uses are accepted and
//! kept by their owners; unknown names are the caller's to refuse.

use crate::error::DecodeError;
use crate::text::Formats;
use crate::time::Zone;

/// What becomes of a record that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParseMode {
    /// Bad fields are null, the text goes to the corrupt-record column.
    #[default]
    Permissive,
    /// The record is left out.
    DropMalformed,
    /// The record is an error.
    FailFast,
}

/// Where records come from; decides what Spark decides by the same fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A string column, as `from_json` reads it: one row out for one in, a
    /// top-level array is malformed for a struct, values read as STRING are
    /// written anew, invalid UTF-8 is replaced.
    Column,
    /// Lines of a file: blank ones vanish, a top-level array is one row per
    /// element, values read as STRING keep their text, invalid UTF-8 is malformed.
    File,
}

/// Deviations from strict JSON that the parser accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leniency {
    /// `/* */` and `//` between tokens.
    pub comments: bool,
    /// Field names without quotes.
    pub unquoted_field_names: bool,
    /// Single-quoted names and strings.
    pub single_quotes: bool,
    /// `007`.
    pub numeric_leading_zeros: bool,
    /// `NaN`, `Infinity` and the like, bare or quoted.
    pub non_numeric_numbers: bool,
    /// `\x` for any x.
    pub backslash_escaping_any_character: bool,
    /// Control characters inside strings.
    pub unquoted_control_chars: bool,
}

impl Default for Leniency {
    fn default() -> Self {
        Self {
            comments: false,
            unquoted_field_names: false,
            single_quotes: true,
            numeric_leading_zeros: false,
            non_numeric_numbers: true,
            backslash_escaping_any_character: false,
            unquoted_control_chars: false,
        }
    }
}

/// Options of a JSON reader.
#[derive(Clone, Debug)]
pub struct JsonOptions {
    /// `mode`.
    pub mode: ParseMode,
    /// Where the records come from.
    pub origin: Origin,
    /// `columnNameOfCorruptRecord`; filled only if the schema has the column.
    pub corrupt_record_column: String,
    /// Zone and patterns.
    pub formats: Formats,
    /// Accepted deviations.
    pub leniency: Leniency,
    /// `multiLine`: a file is one record.
    pub multi_line: bool,
    /// `lineSep`; the three usual line ends when absent.
    pub line_sep: Option<String>,
    /// `primitivesAsString`, used by schema inference.
    pub primitives_as_string: bool,
    /// `prefersDecimal`, used by schema inference.
    pub prefers_decimal: bool,
    /// `dropFieldIfAllNull`, used by schema inference.
    pub drop_field_if_all_null: bool,
}

impl JsonOptions {
    /// Spark's defaults.
    pub fn new(origin: Origin, zone: Zone) -> Self {
        Self {
            mode: ParseMode::Permissive,
            origin,
            corrupt_record_column: "_corrupt_record".to_owned(),
            formats: Formats::iso(zone),
            leniency: Leniency::default(),
            multi_line: false,
            line_sep: None,
            primitives_as_string: false,
            prefers_decimal: false,
            drop_field_if_all_null: false,
        }
    }

    /// Reads the options it knows from name-value pairs; others are ignored.
    ///
    /// # Errors
    /// A value that the option cannot have.
    pub fn parse<'a>(origin: Origin, session_zone: Zone, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, DecodeError> {
        let mut options = Self::new(origin, session_zone);
        let (mut timestamp, mut timestamp_ntz, mut date) = (None, None, None);
        for (name, value) in pairs {
            let flag = || match value.to_ascii_lowercase().as_str() {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(DecodeError::option(name, value, "true or false")),
            };
            let leniency = &mut options.leniency;
            match name.to_ascii_lowercase().as_str() {
                "mode" => options.mode = parse_mode(value),
                "columnnameofcorruptrecord" => options.corrupt_record_column = value.to_owned(),
                "timestampformat" => timestamp = Some(value),
                "timestampntzformat" => timestamp_ntz = Some(value),
                "dateformat" => date = Some(value),
                "timezone" => {
                    options.formats.zone = Zone::parse(value).ok_or_else(|| DecodeError::option(name, value, "a time zone id"))?;
                }
                "allowcomments" => leniency.comments = flag()?,
                "allowunquotedfieldnames" => leniency.unquoted_field_names = flag()?,
                "allowsinglequotes" => leniency.single_quotes = flag()?,
                "allownumericleadingzeros" => leniency.numeric_leading_zeros = flag()?,
                "allownonnumericnumbers" => leniency.non_numeric_numbers = flag()?,
                "allowbackslashescapinganycharacter" => {
                    leniency.backslash_escaping_any_character = flag()?;
                }
                "allowunquotedcontrolchars" => leniency.unquoted_control_chars = flag()?,
                "multiline" => options.multi_line = flag()?,
                "linesep" => {
                    if value.is_empty() {
                        return Err(DecodeError::option(name, value, "not empty"));
                    }
                    options.line_sep = Some(value.to_owned());
                }
                "encoding" | "charset" if !is_utf8(value) => {
                    return Err(DecodeError::option(name, value, "UTF-8; convert the files first"));
                }
                "primitivesasstring" => options.primitives_as_string = flag()?,
                "prefersdecimal" => options.prefers_decimal = flag()?,
                "dropfieldifallnull" => options.drop_field_if_all_null = flag()?,
                _ => {}
            }
        }
        options.formats = Formats::new(options.formats.zone, timestamp, timestamp_ntz, date)?;
        Ok(options)
    }
}

fn is_utf8(name: &str) -> bool {
    ["utf-8", "utf8", "us-ascii", "ascii"].contains(&name.to_ascii_lowercase().as_str())
}

/// Unknown modes are PERMISSIVE, as in Spark's ParseMode.fromString.
pub fn parse_mode(value: &str) -> ParseMode {
    match value.to_ascii_uppercase().as_str() {
        "DROPMALFORMED" => ParseMode::DropMalformed,
        "FAILFAST" => ParseMode::FailFast,
        _ => ParseMode::Permissive,
    }
}
