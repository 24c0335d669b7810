//! How deeply a query may be nested.
//!
//! Analysis, planning and evaluation walk a query recursively, so its depth is
//! bounded before any of them starts; `weir_runtime::lanes::STACK_BYTES` is the
//! stack that a query of this depth needs. Spark refuses such queries with the
//! same condition when its own stack is used up. Parentheses and calls that are
//! nested in the text are bounded by the parser's own limit.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, SetExpr, Visit, Visitor};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use weir_core::Error;

/// Levels of a query's expressions, sub-queries and set operations, a chain of `a + b + c` counting each.
pub const MAX_DEPTH: usize = 500;

/// Levels of one type's name.
pub const MAX_TYPE_DEPTH: usize = 100;

/// The refusal of a query or type that is nested more deeply than `most` levels.
pub fn too_deep(what: &str, most: usize) -> Error {
    Error::config(
        "FAILED_TO_PARSE_TOO_COMPLEX",
        format!(
            "{what} is nested more deeply than {most} levels; divide it into smaller steps, for example with `views`, IN lists or higher-order functions"
        ),
    )
}

/// Refuses types that are nested too deeply, before the recursive parser meets them.
pub fn check_types(tokens: &[TokenWithSpan]) -> Result<(), Error> {
    let mut depth = 0_usize;
    let mut before = &Token::EOF;
    for token in tokens.iter().map(|t| &t.token).filter(|t| !matches!(t, Token::Whitespace(_))) {
        let opens = matches!(token, Token::Lt)
            && matches!(before, Token::Word(w) if ["ARRAY", "MAP", "STRUCT"].iter().any(|name| w.value.eq_ignore_ascii_case(name)));
        match token {
            _ if opens => depth += 1,
            Token::Gt => depth = depth.saturating_sub(1),
            Token::ShiftRight => depth = depth.saturating_sub(2),
            _ => {}
        }
        if depth > MAX_TYPE_DEPTH {
            return Err(too_deep("a type", MAX_TYPE_DEPTH));
        }
        before = token;
    }
    Ok(())
}

/// Refuses queries that are nested too deeply.
pub fn check_query(query: &Query) -> Result<(), Error> {
    match query.visit(&mut Depth(0)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(too_deep("the query", MAX_DEPTH)),
    }
}

struct Depth(usize);

impl Depth {
    fn enter(&mut self, levels: usize) -> ControlFlow<()> {
        self.0 += levels;
        if self.0 > MAX_DEPTH { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Depth {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.0 -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.enter(1 + set_operations(&query.body))
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.0 -= 1 + set_operations(&query.body);
        ControlFlow::Continue(())
    }
}

/// Length of the chain of set operations that a body is; they nest to the left.
fn set_operations(mut body: &SetExpr) -> usize {
    let mut length = 0;
    while let SetExpr::SetOperation { left, .. } = body {
        length += 1;
        body = left;
    }
    length
}
