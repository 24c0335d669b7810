//! How much a function may make of little input.
//!
//! A count in the data decides how long the result of `repeat`, `sequence` and
//! their kin is, so it is judged before memory is asked for: arrays by Spark's
//! limit, bytes by a limit of Weir's own for the rows of one slice. What puts its
//! arguments together, such as `replace`, may make a whole column, whose offsets
//! have 32 bits; what only grows, such as `concat`, is judged by its arguments
//! before each call, as a chain of such calls doubles with each link. Beyond a
//! limit the query fails with an error that names the function; the process goes on.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

use crate::error::spark_error;

/// The most elements that an array may have, as in Spark.
const MOST_ELEMENTS: i128 = 2_147_483_632;
/// The most bytes that a count may ask for, for the rows of one slice.
pub const MOST_BYTES: usize = 256 << 20;
/// The most bytes of a column, as its offsets can tell.
const MOST_OF_COLUMN: usize = (1 << 31) - 1;
/// What an element costs beside its value: positions while it is gathered, and its offset.
const ELEMENT_BYTES: usize = 24;

/// How a call with too many elements is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The count that it was given.
    Count,
    /// The function itself.
    Function,
}

/// The bytes that a call may still make.
#[derive(Debug)]
pub struct Budget<'f> {
    function: &'f str,
    most: usize,
    left: usize,
}

impl<'f> Budget<'f> {
    /// For one call over the rows of one slice, whose size a count decides.
    pub fn new(function: &'f str) -> Self {
        Self { function, most: MOST_BYTES, left: MOST_BYTES }
    }

    /// For one call over the rows of one slice, whose size its arguments have together.
    pub fn of_column(function: &'f str) -> Self {
        Self { function, most: MOST_OF_COLUMN, left: MOST_OF_COLUMN }
    }

    /// Takes the bytes of a value.
    pub fn bytes(&mut self, bytes: usize) -> DfResult<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(spark_error(
                "WEIR_RESULT_TOO_LARGE",
                format!(
                    "{} would make more than {} bytes for the rows of one slice; bound its arguments, or filter the rows before it",
                    self.function, self.most
                ),
            )),
        }
    }

    /// Takes the elements of an array, each of `width` bytes.
    pub fn elements(&mut self, count: i128, width: usize, blame: Blame) -> DfResult<()> {
        if count > MOST_ELEMENTS {
            let function = self.function;
            let (condition, why) = match blame {
                Blame::Count => ("PARAMETER", format!("the value of its count in the function {function} is invalid")),
                Blame::Function => ("FUNCTION", format!("the function {function} cannot make it")),
            };
            return Err(spark_error(
                format!("COLLECTION_SIZE_LIMIT_EXCEEDED.{condition}"),
                format!("an array of {count} elements exceeds the limit of {MOST_ELEMENTS}; {why}"),
            ));
        }
        let count = usize::try_from(count).unwrap_or(0);
        self.bytes(count.saturating_mul(width.saturating_add(ELEMENT_BYTES)))
    }
}

/// About the bytes of one value of an array.
pub fn width(array: &ArrayRef, row: usize) -> usize {
    if array.is_null(row) { 0 } else { width_of(array, row, 1) }
}

/// About the bytes of some values of an array that stand side by side.
fn width_of(array: &ArrayRef, start: usize, count: usize) -> usize {
    let between = |offsets: &[i32]| {
        let (from, to) = (offsets[start], offsets[start + count]);
        (usize::try_from(from).unwrap_or(0), usize::try_from(to - from).unwrap_or(0))
    };
    match array.data_type() {
        DataType::Utf8 => between(array.as_string::<i32>().value_offsets()).1,
        DataType::Binary => between(array.as_binary::<i32>().value_offsets()).1,
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (from, items) = between(list.value_offsets());
            width_of(list.values(), from, items)
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (from, entries) = between(map.value_offsets());
            width_of(map.keys(), from, entries).saturating_add(width_of(map.values(), from, entries))
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| width_of(column, start, count)).sum(),
        other => other.primitive_width().unwrap_or(1).saturating_mul(count),
    }
}

/// About the bytes of a constant beside its own place.
fn constant_width(value: &ScalarValue) -> usize {
    value.size().saturating_sub(size_of::<ScalarValue>())
}

/// Judges a constant that is to stand in that many rows.
pub fn judge_repeated(function: &str, value: &ColumnarValue, rows: usize) -> DfResult<()> {
    match value {
        ColumnarValue::Scalar(constant) if rows > 1 => Budget::of_column(function).bytes(constant_width(constant).saturating_mul(rows)),
        _ => Ok(()),
    }
}

/// The least bytes that a function makes of each byte of its arguments, where it never makes fewer: those that put values
/// together, and those that write them out longer.
fn growth(function: &str) -> Option<usize> {
    match function {
        "array" | "array_append" | "array_prepend" | "arrays_zip" | "base64" | "concat" | "concat_ws" | "flatten" | "format_string"
        | "map" | "map_concat" | "map_from_arrays" | "printf" | "quote" | "to_csv" | "to_json" => Some(1),
        "hex" => Some(2),
        _ => None,
    }
}

/// Judges a call by what it will at least make.
pub fn judge_growth(function: &str, args: &[ArrayRef]) -> DfResult<()> {
    let Some(factor) = growth(function) else { return Ok(()) };
    let bytes = args.iter().map(|column| width_of(column, 0, column.len())).fold(0, usize::saturating_add);
    Budget::new(function).bytes(bytes.saturating_mul(factor))
}

/// A value for that many rows. A constant is judged before it is repeated.
pub fn for_rows(function: &str, value: ColumnarValue, rows: usize) -> DfResult<ArrayRef> {
    judge_repeated(function, &value, rows)?;
    value.into_array(rows)
}

/// Judges columns that are to have the values of these rows, in this order.
pub fn judge_taken(function: &str, columns: &[ArrayRef], rows: &UInt32Array) -> DfResult<()> {
    for column in columns {
        let mut budget = Budget::of_column(function);
        for row in rows.values() {
            budget.bytes(width(column, *row as usize))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{ListArray, StringArray, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

    use super::*;
    use crate::error::find_spark_error;
    use crate::types::list_field;

    fn condition(result: DfResult<()>) -> String {
        find_spark_error(&result.unwrap_err()).unwrap().condition.clone()
    }

    #[test]
    fn limits() {
        let mut budget = Budget::new("repeat");
        budget.bytes(MOST_BYTES).unwrap();
        assert_eq!(condition(budget.bytes(1)), "WEIR_RESULT_TOO_LARGE");
        let mut budget = Budget::new("sequence");
        budget.elements(1000, 8, Blame::Count).unwrap();
        budget.elements(-5, 8, Blame::Count).unwrap();
        assert_eq!(condition(budget.elements(2_147_483_632, 8, Blame::Count)), "WEIR_RESULT_TOO_LARGE");
        assert_eq!(condition(budget.elements(2_147_483_633, 8, Blame::Count)), "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER");
        assert_eq!(condition(budget.elements(2_147_483_633, 8, Blame::Function)), "COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION");
    }

    #[test]
    fn what_only_grows_is_judged_by_its_arguments() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(MOST_BYTES / 4)]));
        let args = |count: usize| vec![Arc::clone(&column); count];
        judge_growth("concat", &args(4)).unwrap();
        judge_growth("substring", &args(5)).unwrap();
        judge_growth("hex", &args(2)).unwrap();
        for (function, count) in [("concat", 5), ("hex", 3), ("to_json", 5)] {
            assert_eq!(condition(judge_growth(function, &args(count))), "WEIR_RESULT_TOO_LARGE", "{function}");
        }
    }

    #[test]
    fn values_in_values_are_weighed() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("abc"), None, Some("0123456789")]));
        let lists = ListArray::new(list_field(DataType::Utf8), OffsetBuffer::from_lengths([2, 0, 1]), Arc::clone(&texts), None);
        let lists: ArrayRef = Arc::new(lists);
        assert_eq!((0..3).map(|row| width(&lists, row)).collect::<Vec<_>>(), [3, 0, 10]);
        let both = vec![("t", texts), ("l", lists)]
            .into_iter()
            .map(|(name, column)| (Arc::new(Field::new(name, column.data_type().clone(), true)), column));
        let both: ArrayRef = Arc::new(StructArray::from(both.collect::<Vec<_>>()));
        assert_eq!((0..3).map(|row| width(&both, row)).collect::<Vec<_>>(), [6, 0, 20]);
        let numbers: ArrayRef = Arc::new(UInt32Array::from(vec![1, 2]));
        assert_eq!(width(&numbers, 1), 4);
    }

    #[test]
    fn constants_and_taken_rows_are_judged_before_they_are_made() {
        let constant = |bytes: usize| ColumnarValue::Scalar(ScalarValue::Utf8(Some("x".repeat(bytes))));
        assert_eq!(for_rows("f", constant(1000), 3).unwrap().len(), 3);
        assert_eq!(condition(for_rows("f", constant(1000), 1 << 40).map(|_| ())), "WEIR_RESULT_TOO_LARGE");
        let column: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
        judge_taken("f", &[Arc::clone(&column)], &UInt32Array::from(vec![0; 2047])).unwrap();
        assert_eq!(condition(judge_taken("f", &[column], &UInt32Array::from(vec![0; 2048]))), "WEIR_RESULT_TOO_LARGE");
    }
}
