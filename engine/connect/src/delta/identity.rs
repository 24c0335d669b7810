//! Identity columns: numbers that the table gives to its rows.
//!
//! Delta protocol, "Identity Columns": values are `start`, `start + step`, ... beyond the high water mark that the schema
//! carries; a commit that gave values raises it. All lanes of a batch draw from one allocator. Another writer that raised
//! the mark meanwhile changes the table's rules, and the batch is run again with other numbers: none is given twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, Int64Array};
use deltalake_core::kernel::{MetadataValue, StructField, StructType};
use weir_core::{Error, Result};

const START: &str = "delta.identity.start";
const STEP: &str = "delta.identity.step";
const HIGH_WATER_MARK: &str = "delta.identity.highWaterMark";
const EXPLICIT: &str = "delta.identity.allowExplicitInsert";

/// An identity column whose values the table gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The column.
    pub column: String,
    /// The first value to give.
    first: i64,
    step: i64,
}

/// Counts the rows of one batch.
#[derive(Debug, Default)]
pub struct Allocator(AtomicU64);

impl Identity {
    /// The column's identity, if it has one that the query leaves to the table.
    pub fn of(field: &StructField, given: bool) -> Result<Option<Self>> {
        let number = |key: &str| match field.metadata.get(key) {
            Some(MetadataValue::Number(number)) => Some(*number),
            _ => None,
        };
        let (Some(start), Some(step)) = (number(START), number(STEP)) else { return Ok(None) };
        let column = field.name().clone();
        if step == 0 {
            let text = format!(
                "the step of the identity column `{column}` is 0, so that all rows would get one number; write to a table with another step"
            );
            return Err(Error::config("DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP", text));
        }
        if given {
            return match field.metadata.get(EXPLICIT) {
                Some(MetadataValue::Boolean(true)) => Ok(None),
                _ => Err(Error::config(
                    "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
                    format!(
                        "the column `{column}` is GENERATED ALWAYS AS IDENTITY, and the query yields values for it; leave it out of the SELECT"
                    ),
                )),
            };
        }
        let first = number(HIGH_WATER_MARK).map_or(Some(start), |mark| mark.checked_add(step));
        Ok(Some(Self { first: first.ok_or_else(|| exhausted(&column))?, column, step }))
    }

    /// The values of `rows` rows behind `base` earlier ones of the batch.
    pub fn values(&self, base: u64, rows: usize) -> Result<ArrayRef> {
        let values = (base..).take(rows).map(|row| self.value(row)).collect::<Result<Vec<i64>>>()?;
        Ok(Arc::new(Int64Array::from(values)))
    }

    fn value(&self, row: u64) -> Result<i64> {
        let offset = i64::try_from(row).ok().and_then(|row| row.checked_mul(self.step));
        offset.and_then(|offset| self.first.checked_add(offset)).ok_or_else(|| exhausted(&self.column))
    }
}

impl Allocator {
    /// Takes the numbers of some rows; the number of rows before them.
    pub fn take(&self, rows: usize) -> u64 {
        self.0.fetch_add(rows as u64, Ordering::Relaxed)
    }

    /// Rows that numbers were taken for.
    pub fn taken(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The schema with the marks raised by `taken` rows.
pub fn raised(schema: &StructType, identities: &[Identity], taken: u64) -> Result<StructType> {
    let Some(last) = taken.checked_sub(1) else { return Ok(schema.clone()) };
    let fields = schema.fields().map(|field| match identities.iter().find(|identity| identity.column == *field.name()) {
        Some(identity) => Ok(field.clone().add_metadata([(HIGH_WATER_MARK, MetadataValue::Number(identity.value(last)?))])),
        None => Ok(field.clone()),
    });
    StructType::try_new(fields.collect::<Result<Vec<_>>>()?)
        .map_err(|e| Error::config("DELTA_INVALID_SCHEMA", "the columns make no Delta schema").with_source(e))
}

fn exhausted(column: &str) -> Error {
    let text = format!("the identity column `{column}` has no numbers left in BIGINT; write to a table whose column begins anew");
    Error::config("DELTA_IDENTITY_COLUMNS_EXHAUSTED", text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use deltalake_core::kernel::DataType;

    fn column(start: i64, step: i64, mark: Option<i64>) -> StructField {
        let mark = mark.map(|mark| (HIGH_WATER_MARK, MetadataValue::Number(mark)));
        let fixed = [(START, MetadataValue::Number(start)), (STEP, MetadataValue::Number(step)), (EXPLICIT, MetadataValue::Boolean(false))];
        StructField::nullable("id", DataType::LONG).with_metadata(fixed.into_iter().chain(mark))
    }

    #[test]
    fn numbers_go_on_behind_the_mark_and_the_mark_follows() {
        for (start, step, mark, values) in [(1, 1, None, [1, 2, 3]), (1, 1, Some(4), [5, 6, 7]), (100, -5, Some(95), [90, 85, 80])] {
            let field = column(start, step, mark);
            let identity = Identity::of(&field, false).unwrap().unwrap();
            let allocator = Allocator::default();
            let (one, two) = (allocator.take(2), allocator.take(1));
            let drawn = [identity.values(one, 2).unwrap(), identity.values(two, 1).unwrap()];
            let drawn: Vec<i64> = drawn.iter().flat_map(|array| array.as_primitive::<Int64Type>().values().to_vec()).collect();
            assert_eq!(drawn, values);
            let schema = StructType::try_new([field]).unwrap();
            assert_eq!(raised(&schema, std::slice::from_ref(&identity), 0).unwrap(), schema);
            let after = raised(&schema, &[identity], allocator.taken()).unwrap();
            let next = Identity::of(after.field("id").unwrap(), false).unwrap().unwrap();
            assert_eq!(next.first, values[2] + step);
        }
    }

    #[test]
    fn values_of_ones_own_and_numbers_beyond_bigint_are_refused() {
        let error = Identity::of(&column(1, 1, None), true).unwrap_err();
        assert_eq!(error.condition(), "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED");
        let by_default = column(1, 1, None).add_metadata([(EXPLICIT, MetadataValue::Boolean(true))]);
        assert_eq!(Identity::of(&by_default, true).unwrap(), None);
        assert_eq!(Identity::of(&column(1, 0, None), false).unwrap_err().condition(), "DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP");
        assert!(Identity::of(&column(1, 1, Some(i64::MAX)), false).is_err());
        let last = Identity::of(&column(i64::MAX, 1, None), false).unwrap().unwrap();
        assert!(last.values(0, 1).is_ok() && last.values(0, 2).is_err());
    }
}
