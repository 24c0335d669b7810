//! Stars: in select lists, and among arguments as in `to_json(struct(*))`.
//!
//! A star stands for the columns that are shown, for those of a table, or for the
//! fields of a struct, less what EXCEPT names. Among arguments the lexer has made
//! it a name (`parser::STAR`); every other place for one is refused.

use arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{Expr as Sql, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, WildcardAdditionalOptions};
use weir_core::Error;

use super::expr::Cx;
use super::scope::{Resolved, Visibility};
use super::{Analyzer, Result, Scope, ScopeCol, Typed, names};
use crate::error::{at_span, placed};
use crate::parser::{STAR, wrong};

/// A star as it is written.
pub(super) struct Star {
    /// The table or struct before it.
    pub qualifier: Vec<String>,
    except: Vec<Ident>,
}

impl Star {
    /// `*` alone.
    pub(super) fn is_all(&self) -> bool {
        self.qualifier.is_empty() && self.except.is_empty()
    }

    /// `*` of a select list, or `qualifier.*` there.
    pub(super) fn of_select_list(qualifier: Vec<String>, options: &WildcardAdditionalOptions) -> Result<Self> {
        if let Some(other) = [
            options.opt_ilike.as_ref().map(ToString::to_string),
            options.opt_exclude.as_ref().map(ToString::to_string),
            options.opt_replace.as_ref().map(ToString::to_string),
            options.opt_rename.as_ref().map(ToString::to_string),
        ]
        .into_iter()
        .flatten()
        .next()
        {
            return Err(wrong(&format!("Spark SQL has no `* {other}`; use * EXCEPT (column) and name the new expressions")));
        }
        let except = options.opt_except.iter().flat_map(|e| std::iter::once(&e.first_element).chain(&e.additional_elements)).cloned();
        Ok(Self { qualifier, except: except.collect() })
    }

    /// The star that an argument is, if it is one.
    pub(super) fn of_argument(sql: &Sql) -> Option<Result<Self>> {
        let last = match sql {
            Sql::Identifier(name) => name,
            Sql::CompoundIdentifier(path) => path.last()?,
            Sql::Function(function) => function.name.0.last()?.as_ident()?,
            _ => return None,
        };
        if last.quote_style.is_some() || last.value != STAR {
            return None;
        }
        let (mut qualifier, except): (Vec<String>, &[FunctionArg]) = match sql {
            Sql::CompoundIdentifier(path) => (names::idents(path), &[]),
            Sql::Function(function) => match &function.args {
                FunctionArguments::List(list) => (names::parts(&function.name), list.args.as_slice()),
                _ => return Some(Err(misplaced("a call"))),
            },
            _ => (vec![STAR.to_owned()], &[]),
        };
        qualifier.pop();
        let except = except.iter().map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Sql::Identifier(name))) => Ok(name.clone()),
            other => Err(wrong(&format!("`{other}` in EXCEPT is no column"))),
        });
        Some(except.collect::<Result<_>>().map(|except| Self { qualifier, except }))
    }
}

/// The refusal of a star in a place that takes none.
pub(super) fn misplaced(place: &str) -> Error {
    Error::config(
        "INVALID_USAGE_OF_STAR_OR_REGEX",
        format!("invalid usage of '*' in {place}; name the columns, or put them into struct(*)"),
    )
}

impl Analyzer<'_> {
    /// Arguments with their stars expanded.
    pub(super) fn arguments<'s>(&self, list: impl IntoIterator<Item = &'s Sql>, cx: &Cx) -> Result<Vec<Typed>> {
        let mut out = Vec::new();
        for sql in list {
            match Star::of_argument(sql) {
                Some(star) => out.extend(placed(star.and_then(|star| self.star_of(&star, cx)), sql)?),
                None => out.push(self.expr(sql, cx)?),
            }
        }
        Ok(out)
    }

    /// The columns of a star among arguments.
    pub(super) fn star_of(&self, star: &Star, cx: &Cx) -> Result<Vec<Typed>> {
        if cx.enclosing.is_some() {
            return Err(misplaced("a lambda function"));
        }
        self.star(star, cx.scope)
    }

    /// The columns of a star.
    pub(super) fn star(&self, star: &Star, scope: &Scope) -> Result<Vec<Typed>> {
        let mut out = match star.qualifier.last() {
            None if scope.cols.is_empty() => {
                return Err(Error::config("INVALID_USAGE_OF_STAR_OR_REGEX", "`*` needs a FROM clause; add one, or name the expressions"));
            }
            None => scope.shown().map(ScopeCol::typed).collect::<Vec<_>>(),
            Some(last) => {
                let cols = table_columns(scope, last);
                if cols.is_empty() { self.struct_star(&star.qualifier, scope)? } else { cols }
            }
        };
        for written in &star.except {
            let name = written.value.to_lowercase();
            if !out.iter().any(|o| o.name.to_lowercase() == name) {
                return Err(at_span(scope.unresolved(&[name]), written.span));
            }
        }
        self.grow(out.len())?;
        out.retain(|o| !star.except.iter().any(|written| written.value.to_lowercase() == o.name.to_lowercase()));
        Ok(out)
    }

    /// `d.*` where `d` is a struct.
    fn struct_star(&self, parts: &[String], scope: &Scope) -> Result<Vec<Typed>> {
        let value = match scope.resolve(parts, self.conf.case_sensitive)? {
            Resolved::Column(col, taken) => {
                let mut value = col.typed();
                for part in &parts[taken..] {
                    value = self.field(value, part)?;
                }
                value
            }
            Resolved::Missing => {
                return Err(Error::config(
                    "CANNOT_RESOLVE_STAR_EXPAND",
                    format!("cannot resolve `{0}`.* ; there is no table and no struct column named `{0}`", parts.join(".")),
                ));
            }
        };
        self.fields_of(&value, &parts.join("."))
    }

    /// All fields of a struct as columns.
    pub(super) fn fields_of(&self, value: &Typed, shown: &str) -> Result<Vec<Typed>> {
        let DataType::Struct(fields) = value.ty.clone() else {
            return Err(Error::config(
                "CANNOT_RESOLVE_STAR_EXPAND",
                format!("cannot expand `{shown}`.*: it is {}, not a struct", crate::types::quoted_type(&value.ty)),
            ));
        };
        fields.iter().map(|f| Ok(self.field(value.clone(), f.name())?.named(f.name()))).collect()
    }
}

/// The columns of a table by its name.
pub(super) fn table_columns(scope: &Scope, table: &str) -> Vec<Typed> {
    let cols = scope.cols.iter().filter(|c| c.visibility != Visibility::Metadata);
    cols.filter(|c| c.qualifier.as_deref().is_some_and(|q| q.eq_ignore_ascii_case(table))).map(ScopeCol::typed).collect()
}
