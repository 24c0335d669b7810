//! The columns that an expression can see, and how a name finds one.
//!
//! Names are compared without case unless the session says otherwise. A name
//! with dots may be qualifier and column, or column and struct fields. Lambda
//! bodies have a scope of their own; what they use from outside is captured.

use std::cell::RefCell;

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::logical_expr::Expr;
use weir_core::Error;

use super::{Result, Typed};

/// One visible column.
#[derive(Clone, Debug)]
pub struct ScopeCol {
    /// Table name or alias.
    pub qualifier: Option<String>,
    /// Spark's name.
    pub name: String,
    /// The column inside the plan.
    pub column: Column,
    /// Its type.
    pub ty: DataType,
    /// Spark's name of the type where Arrow's does not tell it.
    pub spark_type: Option<String>,
    /// Whether `*` has it.
    pub visibility: Visibility,
}

/// Whether `*` and what counts or pairs columns by position see a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// They do.
    Shown,
    /// The other side of a USING join: found under its table's name only.
    OtherSide,
    /// A metadata column, such as `_metadata` of files: found by name only, and gone with the next select list.
    Metadata,
}

impl ScopeCol {
    /// Whether `*` has it.
    pub fn is_shown(&self) -> bool {
        self.visibility == Visibility::Shown
    }

    /// The column as an expression.
    pub fn typed(&self) -> Typed {
        let mut typed = Typed::new(Expr::Column(self.column.clone()), self.ty.clone(), self.name.clone());
        typed.spark_type.clone_from(&self.spark_type);
        typed
    }
}

/// An expression of the enclosing scope that a lambda body uses.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The name inside the body.
    pub name: String,
    /// The expression outside.
    pub outer: Typed,
}

/// What a lambda body sees of the scope around it.
#[derive(Clone, Copy)]
pub struct Enclosing<'a> {
    /// The scope around.
    pub scope: &'a Scope,
    /// What was used so far.
    pub captures: &'a RefCell<Vec<Capture>>,
}

/// The visible columns.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// In order of `*`.
    pub cols: Vec<ScopeCol>,
}

/// What the start of a dotted name stands for.
pub enum Resolved {
    /// A column, and how many parts of the name it took.
    Column(Box<ScopeCol>, usize),
    /// Nothing.
    Missing,
}

impl Scope {
    /// Finds the column that the first parts of a dotted name stand for.
    pub fn resolve(&self, parts: &[String], case_sensitive: bool) -> Result<Resolved> {
        let same =
            |a: &str, b: &str| if case_sensitive { a == b } else { a.eq_ignore_ascii_case(b) || a.to_lowercase() == b.to_lowercase() };
        for taken in [2_usize, 1] {
            if parts.len() < taken {
                continue;
            }
            let mut found: Vec<&ScopeCol> = self
                .cols
                .iter()
                .filter(|c| match taken {
                    2 => c.qualifier.as_deref().is_some_and(|q| same(q, &parts[0])) && same(&c.name, &parts[1]),
                    _ => same(&c.name, &parts[0]),
                })
                .collect();
            if found.len() > 1 && taken == 1 {
                found.retain(|c| c.visibility != Visibility::OtherSide);
            }
            match found.as_slice() {
                [] => {}
                [one] => return Ok(Resolved::Column(Box::new((*one).clone()), taken)),
                many => {
                    if many.iter().all(|c| c.column == many[0].column) {
                        return Ok(Resolved::Column(Box::new(many[0].clone()), taken));
                    }
                    let options: Vec<_> = many.iter().map(|c| c.display()).collect();
                    return Err(Error::config(
                        "AMBIGUOUS_REFERENCE",
                        format!(
                            "reference `{}` is ambiguous, could be: [{}]; put the table's name before it",
                            parts.join("`.`"),
                            options.join(", ")
                        ),
                    ));
                }
            }
        }
        Ok(Resolved::Missing)
    }

    /// The error for a name that no column has, with the nearest names.
    pub fn unresolved(&self, parts: &[String]) -> Error {
        let wanted = parts.join(".").to_lowercase();
        let mut ranked: Vec<(usize, String)> =
            self.shown().map(|c| (strsim::damerau_levenshtein(&wanted, &c.name.to_lowercase()), c.display())).collect();
        ranked.sort();
        ranked.dedup();
        let name = format!("`{}`", parts.join("`.`"));
        if ranked.is_empty() {
            return Error::config(
                "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION",
                format!(
                    "a column, variable, or function parameter with name {name} cannot be resolved; there is no column here, so read a source in FROM or write a literal"
                ),
            );
        }
        let near: Vec<_> = ranked.into_iter().take(5).map(|(_, name)| name).collect();
        Error::config(
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            format!(
                "a column, variable, or function parameter with name {name} cannot be resolved; did you mean one of [{}]?",
                near.join(", ")
            ),
        )
    }

    /// Whether the columns are those of several tables.
    pub fn is_joined(&self) -> bool {
        self.cols.iter().any(|col| col.qualifier != self.cols[0].qualifier)
    }

    /// The columns of `*`.
    pub fn shown(&self) -> impl Iterator<Item = &ScopeCol> {
        self.cols.iter().filter(|c| c.is_shown())
    }

    /// All columns under another qualifier.
    #[must_use]
    pub fn qualified(mut self, qualifier: &str) -> Self {
        for col in &mut self.cols {
            col.qualifier = Some(qualifier.to_owned());
        }
        self.cols.retain(|c| c.visibility != Visibility::OtherSide);
        self
    }
}

impl ScopeCol {
    fn display(&self) -> String {
        match &self.qualifier {
            Some(q) => format!("`{q}`.`{}`", self.name),
            None => format!("`{}`", self.name),
        }
    }
}
