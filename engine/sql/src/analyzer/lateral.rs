//! Aliases of a select list that later items of it use: `SELECT from_json(..) AS d, d.a`.
//!
//! A name that no input column has may be the alias of an item before. In a plain
//! select list that item is computed once, in a projection below; over groups its
//! expression takes the place of the name.

use std::cell::{Cell, RefCell};

use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use weir_core::Error;

use super::query::project;
use super::window::WINDOW_COLUMN;
use super::{Analyzer, Relation, Result, ScopeCol, Typed};

/// What a use of an alias becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// A column that a projection below makes.
    ForColumn,
    /// The expression itself.
    ForExpression,
}

/// The aliases so far.
#[derive(Debug)]
pub struct Laterals {
    stands: Stands,
    list: RefCell<Vec<Lateral>>,
}

#[derive(Debug)]
struct Lateral {
    alias: String,
    value: Typed,
    /// The column of the projection below.
    column: String,
    /// The place in the select list.
    place: usize,
    used: Cell<bool>,
}

impl Laterals {
    pub(super) fn new(stands: Stands) -> Self {
        Self { stands, list: RefCell::default() }
    }

    /// The value that an alias stands for.
    pub(super) fn find(&self, name: &str, case_sensitive: bool) -> Result<Option<Typed>> {
        let list = self.list.borrow();
        let same = |a: &str| if case_sensitive { a == name } else { a.to_lowercase() == name.to_lowercase() };
        let mut found = list.iter().filter(|lateral| same(&lateral.alias));
        let Some(lateral) = found.next() else { return Ok(None) };
        let more = found.count();
        if more > 0 {
            return Err(Error::config(
                "AMBIGUOUS_LATERAL_COLUMN_ALIAS",
                format!("the lateral column alias `{name}` is ambiguous and has {} matches; give them different names", more + 1),
            ));
        }
        let value = lateral.value.clone().named(&lateral.alias);
        // What a window function gives is not there yet in a projection below.
        let is_windowed = value.expr.column_refs().iter().any(|column| column.name.starts_with(WINDOW_COLUMN));
        if self.stands == Stands::ForExpression || is_windowed || matches!(value.expr, Expr::Column(_) | Expr::Literal(..)) {
            return Ok(Some(value));
        }
        lateral.used.set(true);
        Ok(Some(Typed { expr: Expr::Column(Column::new_unqualified(&lateral.column)), ..value }))
    }
}

impl Analyzer<'_> {
    /// Makes an item's alias known to the items after it.
    pub(super) fn define(&self, laterals: &Laterals, alias: &str, value: &Typed, place: usize) {
        let column = self.fresh("lat");
        let lateral = Lateral { alias: alias.to_owned(), value: value.clone(), column, place, used: Cell::new(false) };
        laterals.list.borrow_mut().push(lateral);
    }

    /// Makes the columns of a generator known to the items after it.
    pub(super) fn define_columns(&self, laterals: &Laterals, made: &[ScopeCol], place: usize) {
        for (index, col) in made.iter().enumerate() {
            self.define(laterals, &col.name, &col.typed(), place + index);
        }
    }

    /// Computes the aliases that were used below the select list.
    pub(super) fn stage(&self, mut input: Relation, out: &mut [Typed], laterals: Laterals) -> Result<Relation> {
        let mut stages: Vec<Vec<(Expr, String)>> = Vec::new();
        for lateral in laterals.list.into_inner().into_iter().filter(|lateral| lateral.used.get()) {
            let fits_last = stages.last().is_some_and(|stage| {
                let needed = lateral.value.expr.column_refs();
                stage.iter().all(|(_, column)| needed.iter().all(|c| &c.name != column))
            });
            out[lateral.place].expr = Expr::Column(Column::new_unqualified(&lateral.column));
            let made = (lateral.value.expr, lateral.column);
            match stages.last_mut() {
                Some(stage) if fits_last => stage.push(made),
                _ => stages.push(vec![made]),
            }
        }
        for stage in stages {
            let kept = input.plan.schema().columns().into_iter().map(Expr::Column);
            let exprs = kept.chain(stage.into_iter().map(|(expr, column)| expr.alias(column))).collect();
            input.plan = project(input.plan, exprs)?;
        }
        Ok(input)
    }
}
