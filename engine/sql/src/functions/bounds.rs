//! How much a function may make of little input.
//!
//! A count in the data decides how long the result of `repeat`, `sequence` and
//! their kin is, so it is judged before memory is asked for: arrays by Spark's
//! limit, bytes by a limit of Weir's own for the rows of one slice. Beyond either
//! the query fails with an error that names the function; the process goes on.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;

use crate::error::spark_error;

/// The most elements that an array may have, as in Spark.
const MOST_ELEMENTS: i128 = 2_147_483_632;
/// The most bytes that one call may make for the rows of one slice.
pub const MOST_BYTES: usize = 256 << 20;
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
pub struct Budget {
    function: &'static str,
    left: usize,
}

impl Budget {
    /// For one call over the rows of one slice.
    pub fn new(function: &'static str) -> Self {
        Self { function, left: MOST_BYTES }
    }

    /// Takes the bytes of a text.
    pub fn bytes(&mut self, bytes: usize) -> DfResult<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(spark_error(
                "WEIR_RESULT_TOO_LARGE",
                format!(
                    "{} would make more than {MOST_BYTES} bytes for the rows of one slice; bound its count, or filter the rows before it",
                    self.function
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
    match array.data_type() {
        _ if array.is_null(row) => 0,
        DataType::Utf8 => array.as_string::<i32>().value_length(row).unsigned_abs() as usize,
        DataType::Binary => array.as_binary::<i32>().value_length(row).unsigned_abs() as usize,
        _ => array.get_buffer_memory_size() / array.len().max(1),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::find_spark_error;

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
}
