//! How large a query may become.
//!
//! A view, like a WITH clause, is put in wherever it is read, so a few of them,
//! each reading the one before it twice, make a plan of any size, and a struct
//! that holds the one before it twice makes a type of any size. Both are counted
//! while they grow and refused beyond limits far above what people write, with
//! the view that went beyond. Depth is the parser's business.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use weir_core::Error;

use super::{Analyzer, Result, ScopeCol};

/// Columns, expressions and sub-queries of one query with its views put in.
pub const MOST_STEPS: usize = 100_000;
/// Columns and fields of one step, those inside of structs, arrays and maps among them.
pub const MOST_FIELDS: usize = 100_000;

impl Analyzer<'_> {
    /// Counts what is added to the plan.
    pub(super) fn grow(&self, steps: usize) -> Result<()> {
        let now = self.steps.get().saturating_add(steps);
        self.steps.set(now);
        if now <= MOST_STEPS {
            return Ok(());
        }
        let what = match self.open_views.borrow().last() {
            Some(view) => format!("the query grows beyond {MOST_STEPS} steps in the view {view}"),
            None => format!("the query grows beyond {MOST_STEPS} steps"),
        };
        Err(Error::config(
            "WEIR_QUERY_TOO_LARGE",
            format!(
                "{what}, since views and WITH clauses are put in wherever they are read; read each fewer times, or write an \
                 intermediate table with a query of its own"
            ),
        ))
    }

    /// Counts a view that was counted before, so that the one that reads it too often is named.
    pub(super) fn grow_by_view(&self, name: &str) -> Result<()> {
        let known = self.view_steps.borrow().get(name).copied().unwrap_or(0);
        let before = self.steps.get();
        self.grow(known)?;
        self.steps.set(before);
        Ok(())
    }

    /// Counts an expression that takes the place of a name.
    pub(super) fn grow_by(&self, expr: &Expr) -> Result<()> {
        let mut parts = 0;
        // The visitor never fails.
        let _ = expr.apply(|_| {
            parts += 1;
            Ok(if parts > MOST_STEPS { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        self.grow(parts)
    }
}

/// Refuses a type with too many fields.
pub(super) fn check_type(name: &str, ty: &DataType) -> Result<()> {
    let mut left = MOST_FIELDS;
    if takes(ty, &mut left) { Ok(()) } else { Err(too_wide(&format!("the type of `{}`", name.chars().take(100).collect::<String>()))) }
}

/// Refuses a step with too many columns and fields.
pub(super) fn check_columns(cols: &[ScopeCol]) -> Result<()> {
    let mut left = MOST_FIELDS;
    let fits = cols.iter().all(|col| take(&mut left) && takes(&col.ty, &mut left));
    if fits { Ok(()) } else { Err(too_wide("the columns of a select list")) }
}

fn too_wide(what: &str) -> Error {
    Error::config(
        "WEIR_SCHEMA_TOO_LARGE",
        format!("{what} would have more than {MOST_FIELDS} fields in all; select fewer columns, and put each value into one field only"),
    )
}

fn take(left: &mut usize) -> bool {
    match left.checked_sub(1) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}

/// Takes the fields inside of a type from those that are left; stops where there are none.
fn takes(ty: &DataType, left: &mut usize) -> bool {
    match ty {
        DataType::List(field) | DataType::Map(field, _) => takes(field.data_type(), left),
        DataType::Struct(fields) => fields.iter().all(|field| take(left) && takes(field.data_type(), left)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{list_of, map_of, struct_of};

    #[test]
    fn fields_are_counted_to_the_limit_and_no_further() {
        let mut ty = DataType::Int32;
        for level in 1..40 {
            ty = list_of(struct_of([("x", ty.clone()), ("y", ty)]));
            // The fields of this level are 2 + 4 + ... + 2^level.
            let fits = (1_usize << (level + 1)) - 2 <= MOST_FIELDS;
            assert_eq!(check_type("s", &ty).is_ok(), fits, "{level}");
        }
        assert!(check_type("m", &map_of(DataType::Utf8, list_of(DataType::Int32))).is_ok());
    }
}
