//! sqlparser's settings and hooks for Spark's grammar.
//!
//! Poses as the Databricks dialect where sqlparser asks for a name, so that
//! `array(..)` and `exists(..)` are functions; adds `div` with the precedence of
//! `*`, backslash escapes (left raw here, `tokens` resolves them) and typed
//! literals for Spark's own type names.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, Ident, ObjectName, TimezoneInfo, TypedString};
use datafusion::sql::sqlparser::dialect::{DatabricksDialect, Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Spark SQL.
#[derive(Debug)]
pub struct SparkDialect;

impl Dialect for SparkDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<DatabricksDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_'
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_lambda_functions(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_struct_literal(&self) -> bool {
        true
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }

    fn supports_long_type_as_bigint(&self) -> bool {
        true
    }

    fn supports_values_as_table_factor(&self) -> bool {
        true
    }

    fn supports_bang_not_operator(&self) -> bool {
        true
    }

    fn supports_select_item_multi_column_alias(&self) -> bool {
        true
    }

    fn supports_cte_without_as(&self) -> bool {
        true
    }

    fn supports_map_literal_with_angle_brackets(&self) -> bool {
        true
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn supports_interval_options(&self) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let Token::Word(word) = parser.peek_token().token else { return None };
        if word.quote_style.is_some() {
            return None;
        }
        let next = parser.peek_nth_token(1).token;
        let name = word.value.to_ascii_lowercase();
        match (name.as_str(), next) {
            ("timestamp_ntz" | "timestamp_ltz", Token::SingleQuotedString(_)) => {
                parser.next_token();
                let data_type = if name == "timestamp_ntz" {
                    DataType::Custom(ObjectName::from(vec![Ident::new("TIMESTAMP_NTZ")]), vec![])
                } else {
                    DataType::Timestamp(None, TimezoneInfo::None)
                };
                Some(parser.parse_value().map(|value| Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false })))
            }
            // Words that sqlparser would take for syntax, but that are functions in Spark.
            ("array" | "map" | "position" | "ceil" | "floor" | "substr" | "substring" | "convert" | "char" | "exists", Token::LParen)
                if Self::is_plain_call(&name, parser) =>
            {
                parser.next_token();
                let name = ObjectName::from(vec![Ident::new(word.value.clone())]);
                Some(parser.parse_function(name))
            }
            _ => None,
        }
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        if !parser.parse_keyword(Keyword::DIV) {
            return None;
        }
        Some(parser.parse_subexpr(precedence).map(|right| Expr::BinaryOp {
            left: Box::new(expr.clone()),
            op: BinaryOperator::MyIntegerDivide,
            right: Box::new(right),
        }))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::Spaceship => Some(Ok(self.prec_value(Precedence::Eq))),
            _ => None,
        }
    }
}

impl SparkDialect {
    /// True unless the call uses keyword syntax (`substring(a FROM 1)`,
    /// `position(a IN b)`, `exists (SELECT ..)`), which sqlparser reads itself.
    fn is_plain_call(name: &str, parser: &Parser) -> bool {
        if let Token::Word(word) = parser.peek_nth_token(2).token
            && matches!(word.keyword, Keyword::SELECT | Keyword::WITH)
        {
            return false;
        }
        let (mut depth, mut at) = (0, 1);
        loop {
            match parser.peek_nth_token(at).token {
                Token::LParen => depth += 1,
                Token::RParen => {
                    depth -= 1;
                    if depth == 0 {
                        return true;
                    }
                }
                Token::Word(w)
                    if depth == 1
                        && w.quote_style.is_none()
                        && matches!(
                            (name, w.keyword),
                            ("substr" | "substring", Keyword::FROM | Keyword::FOR) | ("position", Keyword::IN)
                        ) =>
                {
                    return false;
                }
                Token::EOF => return true,
                _ => {}
            }
            at += 1;
        }
    }
}
