//! A slice of the query's rows as rows that the table's rules allow.
//!
//! Order: the query's columns in the table's types, then numbers and defaults, then generated columns, which may read defaults, then
//! what must be true. A row that breaks a rule fails the batch before anything of it can be seen; a condition that is null
//! is broken, as in Delta. Columns that nobody gives are null to the expressions. All of it judges the row as it will be
//! read: an empty text in a partition column is null.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use weir_core::{Error, Result};

use super::conform::{conform, to_type};
use super::identity::Allocator;
use super::layout::{InUse, Layout};
use super::partition;
use super::rules::{Check, Origin, Step};
use super::schema::same_name;
use crate::expressions::{Evaluator, Planned};

/// Applies the rules for one lane's part of a batch.
pub struct Enforcer {
    layout: Arc<Layout>,
    numbers: Arc<Allocator>,
    evaluators: [Option<Box<dyn Evaluator>>; 3],
}

impl Enforcer {
    /// Nothing is planned before the first rows come.
    pub fn new(InUse { layout, numbers }: InUse) -> Self {
        Self { layout, numbers, evaluators: [None, None, None] }
    }

    /// The slice with the layout's columns and types.
    pub async fn rows(&mut self, slice: &RecordBatch) -> Result<RecordBatch> {
        let layout = Arc::clone(&self.layout);
        let rules = &layout.rules;
        let mut columns = conform(&layout, slice)?;
        as_partitions(&layout, &mut columns)?;
        let rows = slice.num_rows();
        if !rules.identity.is_empty() {
            let base = self.numbers.take(rows);
            for identity in &rules.identity {
                let Some(at) = position(&layout.written, &identity.column) else { continue };
                columns[at] = Some(identity.values(base, rows)?);
            }
        }
        for (number, step) in [&rules.defaults, &rules.generated].into_iter().enumerate() {
            let values = self.evaluate(number, step.plan.as_ref(), &columns, rows).await?;
            for (fill, value) in step.items.iter().zip(values) {
                let Some(at) = position(&layout.written, &fill.column) else { continue };
                let field = layout.written.field(at);
                columns[at] = Some(to_type(&value, field.data_type()).map_err(|e| unfilled(&fill.column, e))?);
            }
        }
        as_partitions(&layout, &mut columns)?;
        check_not_null(&layout, &columns)?;
        check_lengths(&layout, &columns)?;
        self.check(&rules.checks, &columns, rows).await?;
        let filled = columns.into_iter().zip(layout.written.fields());
        let columns = filled.map(|(column, field)| column.unwrap_or_else(|| new_null_array(field.data_type(), rows))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&layout.written), columns, &options).map_err(|e| {
            Error::config("TASK_WRITE_FAILED", "the query's rows do not fit the table; CAST the columns to the table's types in the SQL")
                .with_source(e)
        })
    }

    async fn evaluate(
        &mut self,
        number: usize,
        plan: Option<&Arc<dyn Planned>>,
        columns: &[Option<ArrayRef>],
        rows: usize,
    ) -> Result<Vec<ArrayRef>> {
        let Some(plan) = plan else { return Ok(Vec::new()) };
        let input = input(&self.layout, &plan.columns(), columns, rows)?;
        let evaluator = match &mut self.evaluators[number] {
            Some(evaluator) => evaluator,
            none @ None => none.insert(plan.evaluator()?),
        };
        let values = evaluator.evaluate(input).await?;
        match values.iter().all(|value| value.len() == rows) {
            true => Ok(values),
            false => {
                Err(Error::config("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "an expression of the table does not yield one value per row"))
            }
        }
    }

    async fn check(&mut self, checks: &Step<Check>, columns: &[Option<ArrayRef>], rows: usize) -> Result<()> {
        let verdicts = self.evaluate(2, checks.plan.as_ref(), columns, rows).await?;
        for (check, verdict) in checks.items.iter().zip(verdicts) {
            let Some(verdict) = verdict.as_boolean_opt() else {
                let text = format!("{} ({}) is no condition; drop it, or write to a table without it", check.name(), check.expression);
                return Err(Error::config("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", text));
            };
            if let Some(row) = first_broken(verdict) {
                return Err(self.broken(check, columns, rows, row));
            }
        }
        Ok(())
    }

    /// The refusal of a row, with the values that the condition reads.
    fn broken(&self, check: &Check, columns: &[Option<ArrayRef>], rows: usize, row: usize) -> Error {
        let plan = self.layout.rules.over.as_ref().and_then(|over| over.plan(std::slice::from_ref(&check.expression)).ok());
        let read = plan.and_then(|plan| input(&self.layout, &plan.columns(), columns, rows).ok());
        let values = read.map_or_else(String::new, |read| values_of(&read, row));
        let expression = check.expression.replace('\n', "");
        let name = check.name();
        let remedy = match &check.origin {
            Origin::Constraint(name) => {
                format!("filter or mend such rows in the query's SQL, or run ALTER TABLE ... DROP CONSTRAINT {name}")
            }
            Origin::Generated(column) => format!("leave `{column}` out of the SELECT, so that the table computes it"),
            Origin::Invariant => "filter or mend such rows in the query's SQL".to_owned(),
        };
        let text = format!("{name} ({expression}) violated by row with values: {values}; {remedy}");
        Error::config("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", text)
    }
}

/// The columns of the table with these indexes, as far as they are there.
fn input(layout: &Layout, wanted: &[usize], columns: &[Option<ArrayRef>], rows: usize) -> Result<RecordBatch> {
    let Some(all) = layout.rules.over.as_ref().map(|over| &over.columns) else {
        return Err(Error::config("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "the table's expressions are not planned"));
    };
    let mut fields: Vec<Field> = Vec::with_capacity(wanted.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(wanted.len());
    for index in wanted {
        let field = all.field(*index);
        let known = position(&layout.written, field.name()).and_then(|at| columns[at].clone());
        let array = known.unwrap_or_else(|| new_null_array(field.data_type(), rows));
        fields.push(Field::new(field.name(), array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| Error::retryable("TASK_WRITE_FAILED", "the rows could not be checked against the table's constraints").with_source(e))
}

/// Partition columns as they are read back.
fn as_partitions(layout: &Layout, columns: &mut [Option<ArrayRef>]) -> Result<()> {
    for at in &layout.partition_indexes {
        if let Some(column) = &mut columns[*at] {
            *column = partition::as_read(column)
                .map_err(|e| Error::retryable("TASK_WRITE_FAILED", "the partition values could not be made").with_source(e))?;
        }
    }
    Ok(())
}

fn position(schema: &SchemaRef, name: &str) -> Option<usize> {
    schema.fields().iter().position(|field| same_name(field.name(), name))
}

fn unfilled(column: &str, error: arrow::error::ArrowError) -> Error {
    let text = format!("a value that the table computes for the column `{column}` does not fit its type; mend the rows in the query's SQL");
    Error::config("TASK_WRITE_FAILED", text).with_source(error)
}

fn first_broken(verdict: &BooleanArray) -> Option<usize> {
    if verdict.null_count() == 0 && verdict.true_count() == verdict.len() {
        return None;
    }
    (0..verdict.len()).find(|row| verdict.is_null(*row) || !verdict.value(*row))
}

fn values_of(rows: &RecordBatch, row: usize) -> String {
    let schema = rows.schema();
    let named = schema.fields().iter().zip(rows.columns()).map(|(field, column)| value_of(field.name(), column, row));
    named.collect::<Vec<_>>().join(", ")
}

fn value_of(name: &str, column: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default().with_null("null");
    let text = ArrayFormatter::try_new(column, &options).map_or_else(|_| "?".to_owned(), |f| f.value(row).to_string());
    format!("{name} : {text}")
}

fn check_lengths(layout: &Layout, columns: &[Option<ArrayRef>]) -> Result<()> {
    for length in &layout.rules.lengths {
        let column = position(&layout.written, &length.column).and_then(|at| columns[at].as_ref());
        if let Some((column, row)) = column.and_then(|column| Some((column, length.first_broken(column)?))) {
            return Err(Error::config(
                "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
                format!(
                    "a value exceeds the char/varchar length of the column `{}`, whose type is {} ({}); shorten it in the query's SQL",
                    length.column,
                    length.declared,
                    value_of(&length.column, column, row)
                ),
            ));
        }
    }
    Ok(())
}

fn check_not_null(layout: &Layout, columns: &[Option<ArrayRef>]) -> Result<()> {
    for path in &layout.rules.not_null {
        let Some(at) = position(&layout.written, &path[0]) else { continue };
        if columns[at].as_ref().is_some_and(|column| has_null(column, &path[1..])) {
            return Err(Error::config(
                "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
                format!("NOT NULL constraint violated for column: {}; filter or replace nulls in the query's SQL", path.join(".")),
            ));
        }
    }
    Ok(())
}

/// Whether the column at the path is null in any row, by itself or because what holds it is null.
fn has_null(column: &ArrayRef, path: &[String]) -> bool {
    if column.logical_null_count() > 0 {
        return true;
    }
    let Some((first, rest)) = path.split_first() else { return false };
    if !matches!(column.data_type(), DataType::Struct(_)) {
        return false;
    }
    let fields = column.as_struct();
    fields.column_names().iter().position(|name| same_name(name, first)).is_none_or(|at| has_null(fields.column(at), rest))
}
