//! Generators: functions that make several rows or columns of one row.
//!
//! A generator becomes an array of structs, one per row to make; the plan
//! unnests it and takes the struct apart. `json_tuple` makes columns only.

use arrow::datatypes::DataType;
use datafusion::common::{Column, NullHandling, UnnestOptions};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Expr as Sql, Function};
use weir_core::Error;

use super::expr::Cx;
use super::scope::Visibility;
use super::{Analyzer, Relation, Result, ScopeCol, Typed};
use crate::error::from_planning;
use crate::functions::nested;
use crate::types::{list_of, map_types, quoted_type, struct_of};
use crate::udf::Rows;

/// The generator functions.
pub const NAMES: &[&str] = &["explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"];

/// The most rows that one call of `stack` makes; each is written out in the plan.
const MOST_STACKED: usize = 10_000;

/// The generator call in a select item, if it is one.
pub fn as_generator(sql: &Sql) -> Option<&Function> {
    match sql {
        Sql::Function(f) if f.over.is_none() && NAMES.contains(&f.name.to_string().to_ascii_lowercase().as_str()) => Some(f),
        Sql::Nested(inner) => as_generator(inner),
        _ => None,
    }
}

impl Analyzer<'_> {
    /// Applies a generator to every row. The columns it makes are returned and
    /// are not yet part of the relation's scope.
    pub(super) fn generate(&self, input: Relation, function: &Function, outer: bool) -> Result<(Relation, Vec<ScopeCol>)> {
        let cx = Cx::new(&input.scope, "a generator");
        let name = function.name.to_string().to_ascii_lowercase();
        let outer = outer || name.ends_with("_outer");
        let args = self.plain_args(function, &cx)?;
        let (rows, fields) = self.generator_rows(name.trim_end_matches("_outer"), args)?;
        self.expand(input, rows, fields, outer)
    }

    /// A row for each of the structs in an array, which `rows` gives for a row.
    pub(super) fn expand(
        &self,
        input: Relation,
        rows: Typed,
        fields: Vec<(String, DataType)>,
        outer: bool,
    ) -> Result<(Relation, Vec<ScopeCol>)> {
        let column = self.fresh("gen");
        let mut exprs: Vec<Expr> = input.plan.schema().columns().into_iter().map(Expr::Column).collect();
        exprs.push(rows.expr.alias(&column));
        let unnested = LogicalPlanBuilder::from(input.plan.clone())
            .project(exprs)
            .map_err(from_planning)?
            .unnest_columns_with_options(
                vec![Column::new_unqualified(&column)],
                UnnestOptions {
                    null_handling: if outer { NullHandling::PreserveAndExpandEmpty } else { NullHandling::Drop },
                    recursions: vec![],
                },
            )
            .map_err(from_planning)?;
        let made = Typed::new(
            Expr::Column(Column::new_unqualified(&column)),
            struct_of(fields.iter().map(|(n, t)| (n.clone(), t.clone()))),
            column.clone(),
        );
        let mut exprs: Vec<Expr> = input.plan.schema().columns().into_iter().map(Expr::Column).collect();
        let mut cols = Vec::new();
        for (index, (name, ty)) in fields.into_iter().enumerate() {
            let field = self.call("get_field", index.to_string(), ty.clone(), std::slice::from_ref(&made), move |rows: Rows| {
                nested::struct_field(&rows.args[0], index)
            });
            let alias = self.fresh("c");
            exprs.push(field.expr.alias(&alias));
            cols.push(ScopeCol {
                qualifier: None,
                name,
                column: Column::new_unqualified(alias),
                ty,
                spark_type: None,
                visibility: Visibility::Shown,
            });
        }
        let plan = unnested.project(exprs).map_err(from_planning)?.build().map_err(from_planning)?;
        Ok((Relation { plan, ..input }, cols))
    }

    /// The rows to make as an array of structs, and the structs' fields.
    fn generator_rows(&self, name: &str, mut args: Vec<Typed>) -> Result<(Typed, Vec<(String, DataType)>)> {
        let wrong = |args: &[Typed]| {
            Error::config(
                "WRONG_NUM_ARGS.WITHOUT_SUGGESTION",
                format!("{name} cannot take {} arguments; give it as many as Spark does", args.len()),
            )
        };
        if name == "stack" {
            return self.stack(args);
        }
        if name == "json_tuple" {
            return self.json_tuple(args);
        }
        if args.len() != 1 {
            return Err(wrong(&args));
        }
        let mut arg = args.swap_remove(0);
        if arg.ty == DataType::Null {
            arg = self.cast(arg, &list_of(DataType::Null))?;
        }
        let mismatch = |wanted: &str, arg: &Typed| {
            Error::config(
                "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
                format!("the parameter of {name} requires {wanted}, however \"{}\" has the type {}", arg.name, quoted_type(&arg.ty)),
            )
        };
        let with_position = name == "posexplode";
        let mut fields: Vec<(String, DataType)> = Vec::new();
        if with_position {
            fields.push(("pos".to_owned(), DataType::Int32));
        }
        match (name, arg.ty.clone()) {
            ("inline", DataType::List(item)) => {
                let DataType::Struct(inner) = item.data_type() else { return Err(mismatch("an array of structs", &arg)) };
                let fields = inner.iter().map(|f| (f.name().clone(), f.data_type().clone())).collect();
                return Ok((arg, fields));
            }
            ("explode" | "posexplode", DataType::List(item)) => fields.push(("col".to_owned(), item.data_type().clone())),
            ("explode" | "posexplode", DataType::Map(..)) => {
                let Some((key, value)) = map_types(&arg.ty) else { return Err(mismatch("a map", &arg)) };
                fields.push(("key".to_owned(), key.clone()));
                fields.push(("value".to_owned(), value.clone()));
            }
            ("inline", _) => return Err(mismatch("an array of structs", &arg)),
            _ => return Err(mismatch("an array or a map", &arg)),
        }
        let result = list_of(struct_of(fields.clone()));
        let target = result.clone();
        let rows = self.call(name, "", result, &[arg], move |rows: Rows| nested::exploded(&rows.args[0], with_position, &target));
        Ok((rows, fields))
    }

    /// `stack(n, a, b, c, d)`: n rows of the values in order.
    pub(super) fn stack(&self, args: Vec<Typed>) -> Result<(Typed, Vec<(String, DataType)>)> {
        let rows = args.first().and_then(Typed::integer).and_then(|n| usize::try_from(n).ok()).filter(|n| (1..=MOST_STACKED).contains(n));
        let Some(rows) = rows else {
            return Err(Error::config(
                "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
                "the first argument of stack must be a number of rows from 1 to 10000, written as a literal",
            ));
        };
        let values = &args[1..];
        let width = values.len().div_ceil(rows).max(1);
        let mut columns: Vec<Vec<Typed>> = vec![Vec::new(); width];
        for row in 0..rows {
            for (column, cells) in columns.iter_mut().enumerate() {
                cells.push(values.get(row * width + column).cloned().unwrap_or_else(Typed::null));
            }
        }
        let columns = columns.into_iter().map(|c| self.to_common("stack", c)).collect::<Result<Vec<_>>>()?;
        let fields: Vec<_> = columns.iter().enumerate().map(|(i, c)| (format!("col{i}"), c[0].ty.clone())).collect();
        let cells: Vec<Typed> = (0..rows).flat_map(|row| columns.iter().map(move |c| c[row].clone())).collect();
        let result = list_of(struct_of(fields.clone()));
        let target = result.clone();
        let made =
            self.call("stack", rows.to_string(), result, &cells, move |rows: Rows| nested::stacked(rows.args, rows.len, width, &target));
        Ok((made, fields))
    }

    /// `json_tuple(json, 'a', 'b')`: one row with the values of the keys.
    fn json_tuple(&self, args: Vec<Typed>) -> Result<(Typed, Vec<(String, DataType)>)> {
        let json = args
            .first()
            .cloned()
            .ok_or_else(|| Error::config("WRONG_NUM_ARGS.WITHOUT_SUGGESTION", "json_tuple needs a JSON string and at least one key"))?;
        let mut cells = Vec::new();
        for key in &args[1..] {
            let value = crate::json::build(self, crate::json::TUPLE_FIELD, vec![json.clone(), key.clone()])?;
            cells.push(value);
        }
        let fields: Vec<_> = (0..cells.len()).map(|i| (format!("c{i}"), DataType::Utf8)).collect();
        let width = cells.len().max(1);
        let result = list_of(struct_of(fields.clone()));
        let target = result.clone();
        let made = self.call("json_tuple", "", result, &cells, move |rows: Rows| nested::stacked(rows.args, rows.len, width, &target));
        Ok((made, fields))
    }
}
