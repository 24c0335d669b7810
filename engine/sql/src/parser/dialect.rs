//! sqlparser's settings and hooks for Spark's grammar.
//!
//! Poses as the Databricks dialect where sqlparser asks for a name, so that
//! `array(..)` and `exists(..)` are functions; adds `div` with the precedence of
//! `*`, backslash escapes (left raw here, `tokens` resolves them) and typed
//! literals for Spark's own type names.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DateTimeField, Expr, Ident, Interval, ObjectName, TimezoneInfo, TypedString, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::{DatabricksDialect, Dialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use weir_decode::interval::Unit;

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

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_table_sample_before_alias(&self) -> bool {
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
            ("interval", Token::Number(..) | Token::SingleQuotedString(_) | Token::Minus | Token::Plus) => {
                Self::parse_units(parser).map(Ok)
            }
            // `NOT exists(array, x -> ..)`, where sqlparser expects a subquery.
            ("not", Token::Word(next))
                if next.quote_style.is_none()
                    && next.value.eq_ignore_ascii_case("exists")
                    && parser.peek_nth_token(2).token == Token::LParen
                    && !matches!(parser.peek_nth_token(3).token, Token::Word(w) if matches!(w.keyword, Keyword::SELECT | Keyword::WITH)) =>
            {
                parser.next_token();
                let inner = parser.parse_subexpr(self.prec_value(Precedence::UnaryNot));
                Some(inner.map(|expr| Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }))
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
    /// `INTERVAL 1 DAY 2 HOURS`; none for a single unit, which sqlparser reads itself.
    fn parse_units(parser: &mut Parser) -> Option<Expr> {
        let (mut words, mut units, mut at) = (Vec::new(), Vec::new(), 1);
        loop {
            let mut next = parser.peek_nth_token(at).token;
            let sign = match next {
                Token::Minus => "-",
                Token::Plus => "+",
                _ => "",
            };
            let signed = usize::from(!sign.is_empty());
            if signed == 1 {
                next = parser.peek_nth_token(at + 1).token;
            }
            let (Token::Number(count, _) | Token::SingleQuotedString(count)) = next else { break };
            let Token::Word(unit) = parser.peek_nth_token(at + signed + 1).token else { break };
            let Some(size) = Unit::parse(&unit.value).filter(|_| unit.quote_style.is_none()) else { break };
            words.push(format!("{sign}{} {}", count.trim(), unit.value));
            units.push(size.canonical());
            at += signed + 2;
        }
        let (first, last) = (*units.iter().min()?, *units.iter().max()?);
        if units.len() < 2 {
            return None;
        }
        for _ in 0..at {
            parser.next_token();
        }
        // The largest and the smallest unit, with which Spark names the type.
        let field = |unit: Unit| match unit {
            Unit::Year => DateTimeField::Year,
            Unit::Month => DateTimeField::Month,
            Unit::Day | Unit::Week => DateTimeField::Day,
            Unit::Hour => DateTimeField::Hour,
            Unit::Minute => DateTimeField::Minute,
            Unit::Second | Unit::Millisecond | Unit::Microsecond => DateTimeField::Second,
        };
        Some(Expr::Interval(Interval {
            value: Box::new(Expr::Value(Value::SingleQuotedString(words.join(" ")).into())),
            leading_field: Some(field(first)),
            leading_precision: None,
            last_field: Some(field(last)),
            fractional_seconds_precision: None,
        }))
    }

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
