//! `json`, `csv`, `text` and `parquet`: how a record is read and written.
//!
//! Names, defaults and meanings follow `JSONOptions`, `CSVOptions`, `TextOptions` and `ParquetOptions`.
//! `from_json` and `to_json` in SQL take the options of `json` too.

use crate::options::kind::Kind;
use crate::options::row::OptionRow;

const JSON: &str = "org.apache.spark.sql.catalyst.json.JSONOptions";
const CSV: &str = "org.apache.spark.sql.catalyst.csv.CSVOptions";
const TEXT: &str = "org.apache.spark.sql.execution.datasources.text.TextOptions";
const PARQUET: &str = "org.apache.spark.sql.execution.datasources.parquet.ParquetOptions";

const MODES: Kind = Kind::Choice(&["PERMISSIVE", "DROPMALFORMED", "FAILFAST"]);
const TEXT_CODECS: Kind = Kind::Choice(&["none", "uncompressed", "gzip", "zstd"]);
const CHARSETS: Kind = Kind::Choice(&["UTF-8", "US-ASCII"]);
const REBASE: Kind = Kind::Choice(&["CORRECTED"]);
const BAD_RECORDS: &str = "is a setting of Databricks: write `badRecords: {format: json, options: {path: …}}` beside the query's sink, which has each bad record once";
const NO_TIME: &str = "formats values of the type TIME, which Weir does not have: remove it";
/// The only language whose month names and numbers are read.
const LOCALE: Kind = Kind::Choice(&["en-US"]);

/// Options of `json`.
pub const JSON_ROWS: &[OptionRow] = &[
    OptionRow::new("mode", MODES, "What happens to a record that cannot be read: nulls, dropped, or the query fails.", JSON)
        .read()
        .default("PERMISSIVE"),
    OptionRow::new(
        "columnNameOfCorruptRecord",
        Kind::NonEmpty,
        "String column of the schema that takes the text of a record that cannot be read.",
        JSON,
    )
    .read()
    .default("_corrupt_record"),
    OptionRow::new("multiLine", Kind::Bool, "Whether a file is one record, or one array of them, over several lines.", JSON)
        .read()
        .default("false"),
    OptionRow::new("primitivesAsString", Kind::Bool, "Whether all simple values are inferred as strings.", JSON).read().default("false"),
    OptionRow::new("prefersDecimal", Kind::Choice(&["false"]), "Whether fractions are inferred as decimals where they fit.", JSON)
        .read()
        .default("false"),
    OptionRow::new("allowComments", Kind::Bool, "Whether Java and C++ comments are skipped.", JSON).read().default("false"),
    OptionRow::new("allowUnquotedFieldNames", Kind::Bool, "Whether field names may stand without quotes.", JSON).read().default("false"),
    OptionRow::new("allowSingleQuotes", Kind::Bool, "Whether single quotes are taken as quotes.", JSON).read().default("true"),
    OptionRow::new("allowNumericLeadingZeros", Kind::Bool, "Whether numbers may begin with zeros.", JSON).read().default("false"),
    OptionRow::new("allowNonNumericNumbers", Kind::Bool, "Whether NaN, Infinity and their like are numbers.", JSON).read().default("true"),
    OptionRow::new("allowBackslashEscapingAnyCharacter", Kind::Bool, "Whether a backslash may stand before any character.", JSON)
        .read()
        .default("false"),
    OptionRow::new("allowUnquotedControlChars", Kind::Bool, "Whether strings may hold bare control characters.", JSON)
        .read()
        .default("false"),
    OptionRow::new("dropFieldIfAllNull", Kind::Bool, "Whether columns without a value are left out of an inferred schema.", JSON)
        .read()
        .default("false"),
    OptionRow::new("inferTimestamp", Kind::Choice(&["false"]), "Whether strings that are timestamps are inferred as such.", JSON)
        .read()
        .default("false"),
    OptionRow::new("samplingRatio", Kind::Float { min: 0.0, max: 1.0 }, "Part of the records that a schema is inferred from.", JSON)
        .read()
        .ignored("a schema is inferred from all records"),
    OptionRow::new("locale", LOCALE, "IETF language tag for dates and timestamps.", JSON).read().default("en-US"),
    OptionRow::new("dateFormat", Kind::NonEmpty, "Pattern of dates.", JSON).default("yyyy-MM-dd"),
    OptionRow::new("timestampFormat", Kind::NonEmpty, "Pattern of timestamps.", JSON).default("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]"),
    OptionRow::new("timestampNTZFormat", Kind::NonEmpty, "Pattern of timestamps without time zone.", JSON)
        .default("yyyy-MM-dd'T'HH:mm:ss[.SSS]"),
    OptionRow::new(
        "enableDateTimeParsingFallback",
        Kind::Bool,
        "Whether texts that the pattern does not fit are read by a cast. Default: true when no pattern is given.",
        JSON,
    )
    .read()
    .ignored("texts are read by a cast exactly when no pattern is given"),
    OptionRow::new("timeZone", Kind::NonEmpty, "Time zone of timestamps without one. Default: spark.sql.session.timeZone.", JSON),
    OptionRow::new("lineSep", Kind::Separator, "What ends a record. Default when reading: \\n, \\r and \\r\\n; when writing: \\n.", JSON),
    OptionRow::new("encoding", CHARSETS, "Character set; files in others are converted first. Default: UTF-8.", JSON).alias(&["charset"]),
    OptionRow::new("maxNestingDepth", Kind::Int { min: 1, max: 100_000 }, "Deepest nesting of a record.", JSON)
        .read()
        .ignored("records may nest 1000 levels deep"),
    OptionRow::new("maxStringLen", Kind::Int { min: 1, max: i32::MAX as i64 }, "Longest string of a record, in bytes.", JSON)
        .read()
        .ignored("a record may have 256 MiB"),
    OptionRow::new("compression", TEXT_CODECS, "Codec of written files.", JSON).write().default("none").alias(&["codec"]),
    OptionRow::new("timeFormat", Kind::Text, "Refused.", JSON).refused(NO_TIME),
    OptionRow::new("badRecordsPath", Kind::Text, "Refused.", JSON).read().refused(BAD_RECORDS),
    OptionRow::new("sortKeys", Kind::Text, "Refused.", JSON)
        .write()
        .refused("sorts the keys of written maps, which are written as they come here: remove it"),
    OptionRow::new("useUnsafeRow", Kind::Text, "Refused.", JSON).refused("is about Spark's own memory: remove it"),
    OptionRow::new("ignoreNullFields", Kind::Bool, "Whether null fields are left out.", JSON).write().default("true"),
    OptionRow::new("pretty", Kind::Choice(&["false"]), "Whether records are written over several lines.", JSON).write().default("false"),
    OptionRow::new(
        "writeNonAsciiCharacterAsCodePoint",
        Kind::Choice(&["false"]),
        "Whether characters beyond ASCII are written as \\u escapes.",
        JSON,
    )
    .write()
    .default("false"),
];

/// Options of `csv`.
pub const CSV_ROWS: &[OptionRow] = &[
    OptionRow::new("sep", Kind::Separator, "What separates columns.", CSV).default(",").alias(&["delimiter"]),
    OptionRow::new("header", Kind::Bool, "Whether the first line of each file names the columns.", CSV).default("false"),
    OptionRow::new("quote", Kind::Character, "Quote character; empty: none.", CSV).default("\""),
    OptionRow::new("escape", Kind::Character, "Character that escapes quotes inside quoted values.", CSV).default("\\"),
    OptionRow::new(
        "charToEscapeQuoteEscaping",
        Kind::Character,
        "Character that escapes the escape of a quote. Default: escape, where it differs from quote.",
        CSV,
    ),
    OptionRow::new("comment", Kind::Character, "Lines that begin with it are skipped; empty: none.", CSV),
    OptionRow::new("mode", MODES, "What happens to a record that cannot be read: nulls, dropped, or the query fails.", CSV)
        .read()
        .default("PERMISSIVE"),
    OptionRow::new(
        "columnNameOfCorruptRecord",
        Kind::NonEmpty,
        "String column of the schema that takes the text of a record that cannot be read.",
        CSV,
    )
    .read()
    .default("_corrupt_record"),
    OptionRow::new("inferSchema", Kind::Bool, "Whether types are inferred from the values.", CSV).read().default("false"),
    OptionRow::new("enforceSchema", Kind::Bool, "Whether the schema is applied by position; false compares it with the header.", CSV)
        .read()
        .default("true"),
    OptionRow::new("preferDate", Kind::Choice(&["true"]), "Whether dates are inferred as dates, not as timestamps.", CSV)
        .read()
        .default("true"),
    OptionRow::new("samplingRatio", Kind::Float { min: 0.0, max: 1.0 }, "Part of the records that a schema is inferred from.", CSV)
        .read()
        .ignored("a schema is inferred from all records"),
    OptionRow::new(
        "ignoreLeadingWhiteSpace",
        Kind::Bool,
        "Whether white space before values is dropped. Default: false when reading, true when writing.",
        CSV,
    ),
    OptionRow::new(
        "ignoreTrailingWhiteSpace",
        Kind::Bool,
        "Whether white space behind values is dropped. Default: false when reading, true when writing.",
        CSV,
    ),
    OptionRow::new("nullValue", Kind::Text, "Text that stands for null.", CSV).default(""),
    OptionRow::new("emptyValue", Kind::Text, "Text for an empty string. Default: empty when reading, \"\" when writing.", CSV),
    OptionRow::new("nanValue", Kind::Text, "Text for not-a-number.", CSV).read().default("NaN"),
    OptionRow::new("positiveInf", Kind::Text, "Text for positive infinity.", CSV).read().default("Inf"),
    OptionRow::new("negativeInf", Kind::Text, "Text for negative infinity.", CSV).read().default("-Inf"),
    OptionRow::new("dateFormat", Kind::NonEmpty, "Pattern of dates.", CSV).default("yyyy-MM-dd"),
    OptionRow::new("timestampFormat", Kind::NonEmpty, "Pattern of timestamps.", CSV).default("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]"),
    OptionRow::new("timestampNTZFormat", Kind::NonEmpty, "Pattern of timestamps without time zone.", CSV)
        .default("yyyy-MM-dd'T'HH:mm:ss[.SSS]"),
    OptionRow::new(
        "enableDateTimeParsingFallback",
        Kind::Bool,
        "Whether texts that the pattern does not fit are read by a cast. Default: true when no pattern is given.",
        CSV,
    )
    .read()
    .ignored("texts are read by a cast exactly when no pattern is given"),
    OptionRow::new("timeZone", Kind::NonEmpty, "Time zone of timestamps without one. Default: spark.sql.session.timeZone.", CSV),
    OptionRow::new("locale", LOCALE, "IETF language tag for numbers, dates and timestamps.", CSV).read().default("en-US"),
    OptionRow::new("multiLine", Kind::Bool, "Whether quoted values may hold line ends.", CSV).read().default("false"),
    OptionRow::new(
        "lineSep",
        Kind::Separator,
        "What ends a record, one or two characters. Default when reading: \\n, \\r and \\r\\n; when writing: \\n.",
        CSV,
    ),
    OptionRow::new("encoding", CHARSETS, "Character set; files in others are converted first.", CSV).default("UTF-8").alias(&["charset"]),
    OptionRow::new("maxColumns", Kind::Int { min: 1, max: i32::MAX as i64 }, "Most columns of a record.", CSV).read().default("20480"),
    OptionRow::new("maxCharsPerColumn", Kind::Int { min: -1, max: i32::MAX as i64 }, "Longest value, in characters; -1: no limit.", CSV)
        .read()
        .default("-1"),
    OptionRow::new(
        "unescapedQuoteHandling",
        Kind::Choice(&["STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "STOP_AT_DELIMITER", "SKIP_VALUE", "RAISE_ERROR"]),
        "What an unescaped quote inside a value means.",
        CSV,
    )
    .read()
    .default("STOP_AT_DELIMITER"),
    OptionRow::new("columnPruning", Kind::Bool, "Whether unused columns are skipped.", CSV)
        .read()
        .ignored("unused columns are always skipped"),
    OptionRow::new("inputBufferSize", Kind::Int { min: 1, max: i32::MAX as i64 }, "Buffer of the parser, in bytes.", CSV)
        .read()
        .ignored("buffers are sized by the engine's memory budget"),
    OptionRow::new("quoteAll", Kind::Bool, "Whether all values are quoted.", CSV).write().default("false"),
    OptionRow::new("escapeQuotes", Kind::Bool, "Whether values with quotes are quoted and escaped.", CSV).write().default("true"),
    OptionRow::new("compression", TEXT_CODECS, "Codec of written files.", CSV).write().default("none").alias(&["codec"]),
    OptionRow::new("timeFormat", Kind::Text, "Refused.", CSV).refused(NO_TIME),
    OptionRow::new("badRecordsPath", Kind::Text, "Refused.", CSV).read().refused(BAD_RECORDS),
    OptionRow::new("extension", Kind::Text, "Refused.", CSV)
        .write()
        .refused("names written files, whose names end in .csv here: remove it"),
];

/// Options of `text`.
pub const TEXT_ROWS: &[OptionRow] = &[
    OptionRow::new("wholetext", Kind::Bool, "Whether a file is one row.", TEXT).read().default("false"),
    OptionRow::new("lineSep", Kind::Separator, "What ends a line. Default when reading: \\n, \\r and \\r\\n; when writing: \\n.", TEXT),
    OptionRow::new("encoding", CHARSETS, "Character set; files in others are converted first.", TEXT).default("UTF-8"),
    OptionRow::new("compression", TEXT_CODECS, "Codec of written files.", TEXT).write().default("none"),
];

/// Options of `parquet`.
pub const PARQUET_ROWS: &[OptionRow] = &[
    OptionRow::new("mergeSchema", Kind::Bool, "Whether the schemas of all files are merged when one is inferred.", PARQUET)
        .read()
        .default("false"),
    OptionRow::new("datetimeRebaseMode", REBASE, "How dates and timestamps before 1900 that old writers left are read.", PARQUET)
        .read()
        .default("CORRECTED"),
    OptionRow::new("int96RebaseMode", REBASE, "How INT96 timestamps before 1900 that old writers left are read.", PARQUET)
        .read()
        .default("CORRECTED"),
    OptionRow::new(
        "compression",
        Kind::Choice(&["none", "uncompressed", "snappy", "gzip", "zstd", "lz4_raw"]),
        "Codec of written files.",
        PARQUET,
    )
    .write()
    .default("snappy"),
    OptionRow::new("parquet.compression", Kind::Text, "Refused.", PARQUET).write().refused("is an old name: write `compression`"),
];
