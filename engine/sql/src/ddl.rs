//! Spark's DDL for schemas and types: `a INT, b STRUCT<x: STRING>, c DECIMAL(10,2)`.
//!
//! Parsed once into Arrow types by the constructors of `types`. Nullability is
//! kept for the top-level columns; inside structs it is accepted and dropped,
//! because Spark's readers make everything nullable. Errors carry Spark's
//! condition and the place in the text.

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as Parsed, StructBracketKind, StructField};
use weir_core::Error;

use crate::parser::depth::{MAX_TYPE_DEPTH, too_deep};
use crate::types::{MAX_PRECISION, calendar_interval, day_time_interval, list_of, map_of, timestamp, timestamp_ntz, year_month_interval};

/// Parses a column list: `a INT, b STRUCT<x: STRING NOT NULL> COMMENT 'c'`.
pub fn parse_ddl_schema(ddl: &str) -> Result<Schema, Error> {
    let mut parser = Parser::new(ddl)?;
    let fields = parser.columns(None)?;
    parser.end()?;
    Ok(Schema::new(fields))
}

/// Parses what `from_json` and its kin accept: a column list, or any one type.
pub fn parse_ddl_type(ddl: &str) -> Result<DataType, Error> {
    match parse_ddl_schema(ddl) {
        Ok(schema) => Ok(DataType::Struct(schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect())),
        Err(columns) => parse_type_name(ddl).map_err(|_| columns),
    }
}

/// Parses exactly one type: `INT`, `ARRAY<STRUCT<a: INT>>`.
pub fn parse_type_name(ddl: &str) -> Result<DataType, Error> {
    let mut parser = Parser::new(ddl)?;
    let data_type = parser.data_type()?;
    parser.end()?;
    Ok(data_type)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Quoted(String),
    Text(String),
    Number(String),
    Symbol(char),
}

struct Parser<'a> {
    ddl: &'a str,
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(ddl: &'a str) -> Result<Self, Error> {
        let mut tokens = Vec::new();
        let mut chars = ddl.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c.is_whitespace() => {}
                '`' => {
                    let mut name = String::new();
                    loop {
                        match chars.next() {
                            Some((_, '`')) if matches!(chars.peek(), Some((_, '`'))) => {
                                chars.next();
                                name.push('`');
                            }
                            Some((_, '`')) => break,
                            Some((_, c)) => name.push(c),
                            None => return Err(syntax(ddl, at, "an unclosed backtick")),
                        }
                    }
                    tokens.push((at, Token::Quoted(name)));
                }
                '\'' | '"' => {
                    let mut text = String::new();
                    loop {
                        match chars.next() {
                            Some((_, '\\')) => text.extend(chars.next().map(|(_, c)| c)),
                            Some((_, end)) if end == c => break,
                            Some((_, c)) => text.push(c),
                            None => return Err(syntax(ddl, at, "an unclosed string")),
                        }
                    }
                    tokens.push((at, Token::Text(text)));
                }
                c if c.is_alphanumeric() || c == '_' => {
                    let mut word = String::from(c);
                    while let Some((_, c)) = chars.peek() {
                        if c.is_alphanumeric() || *c == '_' {
                            word.push(*c);
                            chars.next();
                        } else {
                            break;
                        }
                    }
                    let digits = word.chars().all(|c| c.is_ascii_digit());
                    tokens.push((at, if digits { Token::Number(word) } else { Token::Word(word) }));
                }
                c => tokens.push((at, Token::Symbol(c))),
            }
        }
        Ok(Self { ddl, tokens, next: 0, depth: 0 })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, t)| t)
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let at = self.tokens.get(self.next).map_or(self.ddl.len(), |(at, _)| *at);
        syntax(self.ddl, at, wanted)
    }

    fn symbol(&mut self, c: char) -> bool {
        let found = self.peek() == Some(&Token::Symbol(c));
        self.next += usize::from(found);
        found
    }

    fn expect_symbol(&mut self, c: char) -> Result<(), Error> {
        if self.symbol(c) { Ok(()) } else { Err(self.unexpected(&format!("`{c}` is expected"))) }
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(w)) if w.eq_ignore_ascii_case(word));
        self.next += usize::from(found);
        found
    }

    fn end(&self) -> Result<(), Error> {
        if self.next == self.tokens.len() { Ok(()) } else { Err(self.unexpected("the end is expected")) }
    }

    fn columns(&mut self, close: Option<char>) -> Result<Vec<Field>, Error> {
        let mut fields = Vec::new();
        if close.is_some_and(|c| self.peek() == Some(&Token::Symbol(c))) {
            return Ok(fields);
        }
        loop {
            let name = match self.peek().cloned() {
                Some(Token::Word(w) | Token::Quoted(w)) => w,
                Some(Token::Number(n)) if close.is_some() => n,
                _ => return Err(self.unexpected("a column name is expected")),
            };
            self.next += 1;
            self.symbol(':');
            let data_type = self.data_type()?;
            let mut nullable = true;
            loop {
                if self.keyword("NOT") {
                    if !self.keyword("NULL") {
                        return Err(self.unexpected("NULL is expected after NOT"));
                    }
                    nullable = false;
                } else if self.keyword("COMMENT") || self.keyword("DEFAULT") {
                    self.next += 1;
                } else {
                    break;
                }
            }
            // Spark's readers make what lies inside a struct nullable.
            fields.push(Field::new(name, data_type, nullable || close.is_some()));
            if !self.symbol(',') {
                return Ok(fields);
            }
        }
    }

    fn number(&mut self) -> Result<u8, Error> {
        match self.peek() {
            Some(Token::Number(n)) => {
                let n = n.parse().map_err(|_| self.unexpected("a number up to 38 is expected"))?;
                self.next += 1;
                Ok(n)
            }
            _ => Err(self.unexpected("a number is expected")),
        }
    }

    /// A type; how deeply types nest is bounded, since everything that reads them recurs.
    fn data_type(&mut self) -> Result<DataType, Error> {
        if self.depth == MAX_TYPE_DEPTH {
            return Err(too_deep("a type", MAX_TYPE_DEPTH));
        }
        self.depth += 1;
        let data_type = self.one_type();
        self.depth -= 1;
        data_type
    }

    fn one_type(&mut self) -> Result<DataType, Error> {
        let Some(Token::Word(word)) = self.peek().cloned() else {
            return Err(self.unexpected("a type is expected"));
        };
        let at = self.next;
        self.next += 1;
        Ok(match word.to_ascii_uppercase().as_str() {
            "VOID" | "NULL" => DataType::Null,
            "BOOLEAN" => DataType::Boolean,
            "TINYINT" | "BYTE" => DataType::Int8,
            "SMALLINT" | "SHORT" => DataType::Int16,
            "INT" | "INTEGER" => DataType::Int32,
            "BIGINT" | "LONG" => DataType::Int64,
            "FLOAT" | "REAL" => DataType::Float32,
            "DOUBLE" => {
                self.keyword("PRECISION");
                DataType::Float64
            }
            "DECIMAL" | "DEC" | "NUMERIC" => self.decimal(at)?,
            "STRING" | "TEXT" => {
                if self.keyword("COLLATE") {
                    match self.peek() {
                        Some(Token::Word(name) | Token::Quoted(name)) => check_collation(name)?,
                        _ => return Err(self.unexpected("the name of a collation is expected")),
                    }
                    self.next += 1;
                }
                DataType::Utf8
            }
            "CHAR" | "CHARACTER" | "VARCHAR" => {
                self.expect_symbol('(')?;
                match self.peek() {
                    Some(Token::Number(_)) => self.next += 1,
                    _ => return Err(self.unexpected("a length is expected")),
                }
                self.expect_symbol(')')?;
                DataType::Utf8
            }
            "BINARY" => DataType::Binary,
            "DATE" => DataType::Date32,
            "TIMESTAMP" => {
                if self.keyword("WITHOUT") {
                    if !(self.keyword("TIME") && self.keyword("ZONE")) {
                        return Err(self.unexpected("TIME ZONE is expected"));
                    }
                    timestamp_ntz()
                } else {
                    timestamp()
                }
            }
            "TIMESTAMP_LTZ" => timestamp(),
            "TIMESTAMP_NTZ" => timestamp_ntz(),
            "INTERVAL" => self.interval()?,
            "ARRAY" => {
                self.expect_symbol('<')?;
                let element = self.data_type()?;
                self.close_angle()?;
                list_of(element)
            }
            "MAP" => {
                self.expect_symbol('<')?;
                let key = self.data_type()?;
                self.expect_symbol(',')?;
                let value = self.data_type()?;
                self.close_angle()?;
                map_of(key, value)
            }
            "STRUCT" => {
                self.expect_symbol('<')?;
                let fields = self.columns(Some('>'))?;
                self.close_angle()?;
                DataType::Struct(fields.into())
            }
            "VARIANT" => return Err(no_variant("the type VARIANT")),
            _ => {
                self.next = at;
                return Err(Error::config(
                    "UNSUPPORTED_DATATYPE",
                    format!(
                        "unsupported data type \"{}\" in `{}`; use one of BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, \
                         DECIMAL(p,s), STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, ARRAY<..>, MAP<..>, STRUCT<..>",
                        word.to_uppercase(),
                        self.ddl
                    ),
                ));
            }
        })
    }

    fn close_angle(&mut self) -> Result<(), Error> {
        if self.keyword("NOT") && !self.keyword("NULL") {
            return Err(self.unexpected("NULL is expected after NOT"));
        }
        self.expect_symbol('>')
    }

    fn decimal(&mut self, at: usize) -> Result<DataType, Error> {
        let (mut precision, mut scale) = (10, 0);
        if self.symbol('(') {
            precision = self.number()?;
            if self.symbol(',') {
                scale = self.number()?;
            }
            self.expect_symbol(')')?;
        }
        if precision > MAX_PRECISION {
            self.next = at;
            return Err(Error::config(
                "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION",
                format!("decimal precision {precision} exceeds the maximum of {MAX_PRECISION} in `{}`; write a smaller one", self.ddl),
            ));
        }
        if scale > precision || precision == 0 {
            self.next = at;
            return Err(Error::config(
                "INVALID_DECIMAL_SCALE",
                format!(
                    "decimal scale {scale} does not fit precision {precision} in `{}`; write a scale from 0 to the precision",
                    self.ddl
                ),
            ));
        }
        Ok(DataType::Decimal128(precision, i8::try_from(scale).expect("a scale is at most the precision of 38")))
    }

    fn interval(&mut self) -> Result<DataType, Error> {
        let start = match self.peek() {
            Some(Token::Word(w)) => w.to_ascii_uppercase(),
            _ => return Ok(calendar_interval()),
        };
        let data_type = match start.as_str() {
            "YEAR" | "MONTH" => year_month_interval(),
            "DAY" | "HOUR" | "MINUTE" | "SECOND" => day_time_interval(),
            _ => return Ok(calendar_interval()),
        };
        self.next += 1;
        if self.keyword("TO") {
            self.next += 1;
        }
        Ok(data_type)
    }
}

/// Refuses what needs VARIANT, which Weir does not have.
pub(crate) fn no_variant(what: &str) -> Error {
    Error::config(
        "UNSUPPORTED_DATATYPE",
        format!(
            "{what} is not supported, as Weir has no VARIANT; keep the JSON as STRING and read it with from_json(text, 'a INT, b STRING') \
             or get_json_object(text, '$.a')"
        ),
    )
}

/// Refuses collations other than the one by which strings are compared byte by byte.
pub(crate) fn check_collation(name: &str) -> Result<(), Error> {
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.eq_ignore_ascii_case("UTF8_BINARY") {
        return Ok(());
    }
    Err(Error::config(
        "WEIR_UNSUPPORTED_COLLATION",
        format!("the collation {name} is not supported, only UTF8_BINARY is; compare lower(..) or upper(..) of both sides"),
    ))
}

fn syntax(ddl: &str, at: usize, wanted: &str) -> Error {
    let near: String = ddl.get(at..).unwrap_or_default().chars().take(20).collect();
    let found = if near.is_empty() { "the end of input".to_owned() } else { format!("'{near}'") };
    Error::config(
        "PARSE_SYNTAX_ERROR",
        format!(
            "syntax error at or near {found} (position {}) in the schema `{ddl}`: {wanted}; write columns as `name TYPE, name TYPE`",
            at + 1
        ),
    )
}

/// A type of parsed SQL as it is written: a map prints in another dialect's words.
pub fn written(parsed: &Parsed) -> String {
    match parsed {
        Parsed::Map(key, value) => format!("MAP<{}, {}>", written(key), written(value)),
        Parsed::Array(ArrayElemTypeDef::AngleBracket(element)) => format!("ARRAY<{}>", written(element)),
        Parsed::Struct(fields, StructBracketKind::AngleBrackets) => {
            let field = |field: &StructField| match &field.field_name {
                Some(name) => format!("{name}: {}", written(&field.field_type)),
                None => written(&field.field_type),
            };
            format!("STRUCT<{}>", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::types::spark_type_name;

    #[test]
    fn reads_columns_with_and_without_colons() {
        let schema =
            parse_ddl_schema("a INT NOT NULL, `b.c` struct<x: string not null, y map<string,array<decimal(5,2)>>> comment 'x'").unwrap();
        assert_eq!(
            spark_type_name(&DataType::Struct(schema.fields().clone())),
            "struct<a:int,b.c:struct<x:string,y:map<string,array<decimal(5,2)>>>>"
        );
        assert!(!schema.field(0).is_nullable());
    }

    #[test]
    fn reads_a_bare_type() {
        assert_eq!(spark_type_name(&parse_ddl_type("ARRAY<STRUCT<a:INT>>").unwrap()), "array<struct<a:int>>");
        assert_eq!(spark_type_name(&parse_ddl_type("a INT, b STRING").unwrap()), "struct<a:int,b:string>");
    }

    #[test]
    fn names_what_is_wrong() {
        assert_eq!(parse_ddl_schema("a INTT").unwrap_err().condition(), "UNSUPPORTED_DATATYPE");
        assert_eq!(parse_ddl_schema("a INT b").unwrap_err().condition(), "PARSE_SYNTAX_ERROR");
        let deep = format!("a {}INT{}", "ARRAY<".repeat(9000), ">".repeat(9000));
        assert_eq!(parse_ddl_schema(&deep).unwrap_err().condition(), "FAILED_TO_PARSE_TOO_COMPLEX");
        assert_eq!(parse_ddl_schema("a DECIMAL(39,1)").unwrap_err().condition(), "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in ".{0,60}") {
            let _ = parse_ddl_type(&text);
        }
    }
}
