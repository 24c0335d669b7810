//! `percentile_approx` and `percentile`: values by rank.
//!
//! All values are kept, so that every answer is exact: `percentile_approx` gives
//! the element whose rank is the share of the count, rounded up, which is Spark's
//! answer as long as there are fewer values than its accuracy (10000); beyond it
//! Spark's may be a neighbour within that error. `percentile` interpolates.

use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{DataFusionError, Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use weir_core::Error;

use super::args;
use crate::analyzer::coerce::is_numeric;
use crate::analyzer::{Analyzer, Typed};
use crate::planned::constant;
use crate::types::list_of;
use crate::udf::Rows;

type Result<T> = std::result::Result<T, Error>;

/// The function, its one argument and the type of its result.
pub fn build(a: &Analyzer, name: &str, list: &[Typed]) -> Result<(Arc<AggregateUDF>, Typed, DataType)> {
    let approximate = name != "percentile";
    args::count(name, list, 2, if approximate { 3 } else { 2 })?;
    let (shares, many) = shares(name, &list[1])?;
    if let Some(accuracy) = list.get(2) {
        let given = constant(&accuracy.expr).ok_or_else(|| not_constant(name, accuracy))?.cast_to(&DataType::Int64);
        if !matches!(given, Ok(ScalarValue::Int64(Some(1..=2_147_483_647)))) {
            return Err(out_of_range(name, "accuracy", "(0, 2147483647]", accuracy));
        }
    }
    let value = match &list[0].ty {
        DataType::Utf8 | DataType::Null => a.cast(list[0].clone(), &DataType::Float64)?,
        ty if is_numeric(ty) => list[0].clone(),
        DataType::Date32 | DataType::Timestamp(..) | DataType::Duration(_) if approximate => list[0].clone(),
        _ => return Err(args::wrong_type(name, &list[0], "a number, a date or a timestamp")),
    };
    let one = if approximate { value.ty.clone() } else { DataType::Float64 };
    let numbers = a.call("as_double", "", DataType::Float64, &[value], |rows: Rows| as_double(&rows.args[0]));
    let result = if many { list_of(one.clone()) } else { one.clone() };
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    let shares = shares.into_iter().map(f64::to_bits).collect();
    let function = Percentile { approximate, shares, many, one, signature };
    Ok((Arc::new(AggregateUDF::new_from_impl(function)), numbers, result))
}

/// One share, or the shares of an array.
fn shares(name: &str, given: &Typed) -> Result<(Vec<f64>, bool)> {
    let many = matches!(given.ty, DataType::List(_));
    let value = constant(&given.expr).ok_or_else(|| not_constant(name, given))?;
    let target = if many { list_of(DataType::Float64) } else { DataType::Float64 };
    let array =
        value.cast_to(&target).and_then(|value| value.to_array()).map_err(|_| args::wrong_type(name, given, "a share from 0.0 to 1.0"))?;
    let numbers = if many { Arc::clone(array.as_list::<i32>().values()) } else { array };
    let numbers = numbers.as_primitive::<Float64Type>();
    if numbers.null_count() > 0 || numbers.is_empty() {
        return Err(Error::config(
            "DATATYPE_MISMATCH.UNEXPECTED_NULL",
            format!("the share of {name} must not be null, but is \"{}\"; write a number from 0.0 to 1.0", given.name),
        ));
    }
    if numbers.values().iter().any(|share| !(0.0..=1.0).contains(share)) {
        return Err(out_of_range(name, "percentage", "[0.0, 1.0]", given));
    }
    Ok((numbers.values().to_vec(), many))
}

fn not_constant(name: &str, given: &Typed) -> Error {
    Error::config(
        "DATATYPE_MISMATCH.NON_FOLDABLE_INPUT",
        format!("{name} needs a constant, however \"{}\" depends on the row; write a number", given.name),
    )
}

fn out_of_range(name: &str, what: &str, range: &str, given: &Typed) -> Error {
    Error::config(
        "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
        format!("the {what} of {name} must be between {range}, but is \"{}\"; write one that is", given.name),
    )
}

fn as_double(array: &ArrayRef) -> DfResult<ArrayRef> {
    let whole = match array.data_type() {
        DataType::Date32 => arrow::compute::cast(array, &DataType::Int32)?,
        DataType::Timestamp(..) | DataType::Duration(_) => arrow::compute::cast(array, &DataType::Int64)?,
        _ => Arc::clone(array),
    };
    Ok(arrow::compute::cast(&whole, &DataType::Float64)?)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    approximate: bool,
    /// The shares' bits, which can be compared.
    shares: Vec<u64>,
    many: bool,
    /// The type of one result.
    one: DataType,
    signature: Signature,
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &str {
        if self.approximate { "percentile_approx" } else { "percentile" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(if self.many { list_of(self.one.clone()) } else { self.one.clone() })
    }

    fn accumulator(&self, _: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let shares = self.shares.iter().copied().map(f64::from_bits).collect();
        Ok(Box::new(Values { approximate: self.approximate, shares, many: self.many, one: self.one.clone(), values: Vec::new() }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), list_of(DataType::Float64), true))])
    }
}

#[derive(Debug)]
struct Values {
    approximate: bool,
    shares: Vec<f64>,
    many: bool,
    one: DataType,
    values: Vec<f64>,
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.values.extend(values[0].as_primitive::<Float64Type>().iter().flatten());
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.values.sort_unstable_by(f64::total_cmp);
        let results = self.shares.iter().map(|share| value_of(self.at(*share), &self.one)).collect::<DfResult<Vec<_>>>()?;
        match (self.many, results.first()) {
            (true, _) if self.values.is_empty() => ScalarValue::try_from(&list_of(self.one.clone())),
            (true, _) => Ok(ScalarValue::List(ScalarValue::new_list(&results, &self.one, true))),
            (false, Some(one)) => Ok(one.clone()),
            (false, None) => ScalarValue::try_from(&self.one),
        }
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.capacity() * size_of::<f64>()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> = self.values.drain(..).map(|value| ScalarValue::Float64(Some(value))).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list(&values, &DataType::Float64, true))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for values in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[values])?;
        }
        Ok(())
    }
}

impl Values {
    /// The value at a share of the sorted values.
    fn at(&self, share: f64) -> Option<f64> {
        if self.approximate { element(&self.values, share) } else { interpolated(&self.values, share) }
    }
}

/// The element with the rank that is the share of the count, rounded up.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn element(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The value between the two elements that the share falls between.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn interpolated(sorted: &[f64], share: f64) -> Option<f64> {
    let position = sorted.len().checked_sub(1)? as f64 * share;
    let (low, high) = (position.floor(), position.ceil());
    let (below, above) = (*sorted.get(low as usize)?, *sorted.get(high as usize)?);
    if low == high || below == above { Some(below) } else { Some((high - position) * below + (position - low) * above) }
}

#[allow(clippy::cast_possible_truncation)]
fn value_of(value: Option<f64>, ty: &DataType) -> DfResult<ScalarValue> {
    let Some(value) = value else { return ScalarValue::try_from(ty) };
    let whole = match ty {
        DataType::Date32 => ScalarValue::Int32(Some(value as i32)),
        DataType::Timestamp(..) | DataType::Duration(_) => ScalarValue::Int64(Some(value as i64)),
        DataType::Float64 => return Ok(ScalarValue::Float64(Some(value))),
        _ => {
            let array: ArrayRef = Arc::new(Float64Array::from(vec![value]));
            return ScalarValue::try_from_array(&arrow::compute::cast(&array, ty).map_err(DataFusionError::from)?, 0);
        }
    };
    ScalarValue::try_from_array(&arrow::compute::cast(&whole.to_array()?, ty).map_err(DataFusionError::from)?, 0)
}

#[cfg(test)]
mod tests {
    use super::{element, interpolated};

    #[test]
    fn ranks_are_rounded_up_and_positions_interpolated() {
        let values = [10.0, 20.0, 30.0, 40.0];
        let at = |share| element(&values, share);
        assert_eq!([at(0.0), at(0.25), at(0.26), at(0.5), at(1.0)], [Some(10.0), Some(10.0), Some(20.0), Some(20.0), Some(40.0)]);
        assert_eq!(interpolated(&values, 0.5), Some(25.0));
        assert_eq!(interpolated(&values, 1.0), Some(40.0));
        assert_eq!((element(&[], 0.5), interpolated(&[], 0.5)), (None, None));
    }
}
