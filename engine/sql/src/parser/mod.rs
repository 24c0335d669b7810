//! SQL text to syntax tree, in Spark's dialect.
//!
//! sqlparser does the grammar; `dialect` bends it towards Spark, `tokens`
//! rewrites what its tokenizer reads differently (numeric suffixes, string
//! escapes, double-quoted strings). Every failure is `PARSE_SYNTAX_ERROR` with
//! line and column inside the SQL and what to do.

pub mod depth;
mod dialect;
mod tokens;

use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, SetExpr, Statement};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use weir_core::Error;

use crate::error::at_span;
use dialect::SparkDialect;
pub use tokens::STAR;

/// Parses one query: `SELECT`, `WITH`, `VALUES`, or set operations of them.
pub fn parse_query(sql: &str) -> Result<Query, Error> {
    query_of(sql, tokens::tokenize(sql, &SparkDialect)?)
}

/// Parses one expression, as it may stand in a select list.
pub fn parse_expression(text: &str) -> Result<Expr, Error> {
    let mut tokens = tokens::tokenize(text, &SparkDialect)?;
    tokens.insert(0, TokenWithSpan::wrap(Token::make_keyword("SELECT")));
    let query = query_of(text, tokens)?;
    if let SetExpr::Select(select) = *query.body
        && select.from.is_empty()
        && select.projection.len() == 1
        && let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = select.projection.into_iter().next()
    {
        return Ok(expr);
    }
    Err(Error::config("PARSE_SYNTAX_ERROR", format!("`{text}` is not one expression; write one, such as `count(*)`")))
}

fn query_of(sql: &str, tokens: Vec<TokenWithSpan>) -> Result<Query, Error> {
    depth::check_types(&tokens)?;
    let mut parser = Parser::new(&SparkDialect).with_recursion_limit(200).with_tokens_with_locations(tokens);
    let statement = parser.parse_statement().map_err(|e| syntax_error(sql, &e))?;
    while parser.consume_token(&Token::SemiColon) {}
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        let message = format!(
            "syntax error at or near '{}': the query should end there; correct the SQL before it, or remove what follows",
            rest.token
        );
        return Err(at_span(Error::config("PARSE_SYNTAX_ERROR", message), rest.span));
    }
    match statement {
        Statement::Query(query) => {
            depth::check_query(&query)?;
            Ok(*query)
        }
        other => {
            let text = other.to_string();
            let verb = text.split_whitespace().next().unwrap_or_default();
            Err(Error::config(
                "WEIR_UNSUPPORTED_STATEMENT",
                format!("{verb} is not supported here; write a query that begins with SELECT, WITH or VALUES"),
            )
            .at(1, 1))
        }
    }
}

fn syntax_error(sql: &str, error: &ParserError) -> Error {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => "the expression is nested too deeply",
    };
    let located = text.rsplit_once(" at Line: ").and_then(|(what, place)| {
        let (line, column) = place.split_once(", Column: ")?;
        Some((what, (line.parse().ok()?, column.parse().ok()?)))
    });
    // Where the text ends too early, sqlparser names no place.
    let end = || (sql.lines().count().max(1), sql.lines().last().map_or(0, |line| line.chars().count()) + 1);
    let (what, (line, column)) = located.unwrap_or_else(|| (text, end()));
    wrong(what).at(line, column)
}

/// `PARSE_SYNTAX_ERROR` with the remedy.
pub fn wrong(what: &str) -> Error {
    let remedy = "correct the SQL there; a comma, a bracket or a keyword before it may be missing or misspelt";
    Error::config("PARSE_SYNTAX_ERROR", format!("syntax error: {what}; {remedy}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn says_where_the_error_is_and_what_to_do() {
        let place = |error: Result<(), Error>| {
            let mut error = error.unwrap_err();
            assert_eq!(error.condition(), "PARSE_SYNTAX_ERROR");
            assert!(error.message().contains("; correct the SQL") || error.message().contains("; write one"), "{error}");
            error.take_place().at
        };
        let query = |sql| place(parse_query(sql).map(drop));
        assert_eq!(query("SELECT a,\n  b FORM t WHERE"), Some((2, 10)));
        assert_eq!(query("SELECT a FROM t\nWHERE ("), Some((2, 8)));
        assert_eq!(query("SELECT 'a\nFROM t"), Some((1, 8)));
        assert_eq!(query("SELECT a,\n  FROM 7"), Some((2, 8)));
        assert_eq!(place(parse_expression("a +\n * b").map(drop)), Some((2, 2)));
        assert_eq!(place(parse_expression("a, b").map(drop)), None);
    }

    #[test]
    fn refuses_what_is_nested_too_deeply() {
        let types = format!("SELECT CAST('1' AS {}INT{})", "ARRAY<".repeat(5000), ">".repeat(5000));
        for sql in [
            format!("SELECT 1{}", " + 1".repeat(20_000)),
            format!("SELECT true{}", " AND true".repeat(5000)),
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(5000)),
            types,
        ] {
            let error = parse_query(&sql).unwrap_err();
            assert_eq!(error.condition(), "FAILED_TO_PARSE_TOO_COMPLEX", "{error}");
        }
        parse_query(&format!("SELECT 1 FROM t WHERE a = 1{} AND b IN (0{})", " OR a = 2".repeat(400), ", 1".repeat(5000))).unwrap();
        parse_query("SELECT a < 1, b > 2, CAST(c AS MAP<STRING, ARRAY<ARRAY<INT>>>), array(1)[0] < 3 FROM t").unwrap();
    }

    #[test]
    fn reads_sparks_own_spellings() {
        for sql in [
            "1L",
            "1.9D",
            "2BD",
            "1S",
            "1Y",
            "1.0E7D",
            "X'1F'",
            "7 div 2",
            "a <=> b",
            "a RLIKE 'x'",
            "a == b",
            "transform(a, x -> x + 1)",
            "map_filter(m, (k, v) -> v > 1)",
            "array(1,2)[0]",
            "struct(1 AS a).a",
            "named_struct('a', 1).a",
            "DOUBLE('NaN')",
            "INT('7')",
            "STRING(7)",
            "DATE'2024-01-01'",
            "TIMESTAMP_NTZ'2024-01-01 00:00:00'",
            "TIMESTAMP'2024-01-01'",
            "INTERVAL '1' DAY",
            "INTERVAL 90 MINUTES",
            "INTERVAL '1 02:03:04' DAY TO SECOND",
            "exists(a, x -> x > 1)",
            "CAST(a AS STRUCT<a: INT, b: ARRAY<STRING>>)",
            "CAST(a AS LONG)",
            "CAST(a AS MAP<STRING,INT>)",
            "CAST('1 day' AS INTERVAL DAY)",
            "a::string",
            "left('a', 1)",
            "trim(BOTH 'x' FROM 'xax')",
            "substring('a' FROM 2 FOR 2)",
            "position('l' IN 'hello')",
            "overlay('Spark SQL' PLACING '_' FROM 6)",
            "extract(YEAROFWEEK FROM d)",
            "char(322)",
            "if(1>2,'a','b')",
            "count(*) FILTER (WHERE a > 1)",
            "timestampadd(HOUR, 5, t)",
            "a.b.c",
            "a['k']",
            "date",
            "timestamp",
            "5 ^ 3",
            "replace('a', 'b')",
            "map()",
            "array()",
            "CAST(1 AS BYTE)",
            "TRY_CAST('a' AS INT)",
            "ARRAY(NAMED_STRUCT('a',1))",
            "NOT NULL",
            "!true",
            "window(ts, '10 minutes').start",
            "CAST(1 AS TIMESTAMP_LTZ)",
            "CAST('x' AS CHAR(3))",
            "reduce(a, 0, (acc, x) -> acc + x, acc -> acc * 10)",
            "CASE WHEN a THEN 1 END",
            "a LIKE 'a/%' ESCAPE '/'",
            "max(a)",
            "CAST(NULL AS VOID)",
            "current_timestamp",
            "current_date()",
            "aggregate(a, 0, (x, y) -> x + y)",
        ] {
            if let Err(error) = parse_query(&format!("SELECT {sql} FROM t")) {
                panic!("{sql}: {error}");
            }
        }
        for sql in [
            "SELECT * FROM t LATERAL VIEW explode(a) x AS y",
            "SELECT d.* FROM (SELECT from_json(v, 'a INT') AS d FROM raw)",
            "WITH x AS (SELECT 1 AS a) SELECT * FROM x",
            "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(x, y)",
            "SELECT * FROM a LEFT SEMI JOIN b ON a.x = b.x",
            "SELECT * EXCEPT (a) FROM t",
            "SELECT a, b FROM t UNION ALL SELECT c, d FROM u",
            "SELECT stack(2, 1, 2) AS (a)",
            "SELECT posexplode(a) AS (i, v) FROM t",
        ] {
            if let Err(error) = parse_query(sql) {
                panic!("{sql}: {error}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in ".{0,80}") {
            let _ = parse_query(&text);
            let _ = parse_query(&format!("SELECT {text}"));
        }
    }
}
