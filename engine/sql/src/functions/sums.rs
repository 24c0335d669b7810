//! `sum` and `avg`, which do not wrap.
//!
//! Whole numbers, decimals and intervals are added in 256 bits, so that what
//! comes of them does not depend on the order of rows or on lanes, and only a
//! result that does not fit is an overflow: an error, null, or for BIGINT outside
//! of ANSI mode the low 64 bits. Doubles are added as they come. A window that
//! slides adds its doubles anew for each row, as taking away is not exact.

use std::collections::{HashSet, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, DurationMicrosecondType, Field, FieldRef, Float64Type, Int64Type, IntervalUnit,
    IntervalYearMonthType, TimeUnit, i256,
};
use datafusion::common::{DataFusionError, Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::arithmetic::Overflow;
use crate::error::spark_error;
use crate::types::list_of;

/// What is made of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Made {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
}

/// The function over values of a type: BIGINT, DOUBLE, a decimal or an interval; of BIGINT there is no mean.
pub fn function(made: Made, overflow: Overflow, of: &DataType, result: &DataType) -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![of.clone()], Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(Total { made, overflow, of: of.clone(), result: result.clone(), signature }))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Total {
    made: Made,
    overflow: Overflow,
    of: DataType,
    result: DataType,
    signature: Signature,
}

/// The type of a sum that is not finished: the most that 256 bits tell of a decimal.
const UNFINISHED: DataType = DataType::Decimal256(76, 0);
/// The type of one value as a whole number.
const VALUE: DataType = DataType::Decimal128(38, 0);

impl AggregateUDFImpl for Total {
    fn name(&self) -> &str {
        match self.made {
            Made::Sum => "total_sum",
            Made::Mean => "total_mean",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.result.clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let distinct = args.is_distinct;
        Ok(match self.of {
            DataType::Float64 => Box::new(Doubles { made: self.made, sum: 0.0, count: 0, seen: distinct.then(HashSet::new) }),
            _ => Box::new(Wholes { of: self.clone(), sum: i256::ZERO, count: 0, seen: distinct.then(HashSet::new) }),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        match self.of {
            DataType::Float64 => Ok(Box::new(Sliding { made: self.made, values: VecDeque::new() })),
            _ => self.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let field = |what: &str, ty: DataType| Arc::new(Field::new(format!("{}[{what}]", args.name), ty, true));
        let is_double = self.of == DataType::Float64;
        Ok(match (args.is_distinct, is_double) {
            (true, true) => vec![field("values", list_of(DataType::Float64))],
            (true, false) => vec![field("values", list_of(VALUE))],
            (false, _) => vec![field("sum", if is_double { DataType::Float64 } else { UNFINISHED }), field("count", DataType::Int64)],
        })
    }
}

/// Values that are whole numbers of their type's smallest unit.
#[derive(Debug)]
struct Wholes {
    of: Total,
    sum: i256,
    count: i64,
    /// The values so far, where equal ones count once.
    seen: Option<HashSet<i128>>,
}

/// Calls something with each value of an array that is there.
fn each(array: &ArrayRef, mut take: impl FnMut(i128)) -> DfResult<()> {
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().iter().flatten().for_each(|v| take(v.into())),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().iter().flatten().for_each(take),
        DataType::Duration(TimeUnit::Microsecond) => {
            array.as_primitive::<DurationMicrosecondType>().iter().flatten().for_each(|v| take(v.into()));
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            array.as_primitive::<IntervalYearMonthType>().iter().flatten().for_each(|v| take(v.into()));
        }
        other => return Err(DataFusionError::Internal(format!("sum and avg got {other}, which was not planned"))),
    }
    Ok(())
}

/// The sum of the values of an array, and how many there are.
fn summed(array: &ArrayRef) -> DfResult<(i256, i64)> {
    let (mut sum, mut part, mut count) = (i256::ZERO, 0_i128, 0);
    each(array, |value| {
        count += 1;
        part = part.checked_add(value).unwrap_or_else(|| {
            sum = sum.wrapping_add(i256::from_i128(part));
            value
        });
    })?;
    Ok((sum.wrapping_add(i256::from_i128(part)), count))
}

impl Wholes {
    fn overflowed(&self) -> DfResult<ScalarValue> {
        let name = if self.of.made == Made::Sum { "sum" } else { "avg" };
        let has_sum = self.of.made == Made::Mean && self.kept_sum().is_some();
        match (&self.of.of, self.of.overflow) {
            (_, Overflow::Null) | (DataType::Decimal128(..), Overflow::Wrap) => ScalarValue::try_from(&self.of.result),
            (of, _) => Err(spark_error(
                match of {
                    DataType::Decimal128(..) if has_sum => "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
                    DataType::Int64 | DataType::Decimal128(..) => "ARITHMETIC_OVERFLOW",
                    _ => "INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION",
                },
                format!(
                    "overflow in {name} of {}; use try_{name} to get NULL, or CAST its argument to a type that has room",
                    crate::types::quoted_type(of)
                ),
            )),
        }
    }

    /// The sum of decimals that a mean is made of. Spark keeps it in ten more digits, and what does not fit there has no mean.
    fn kept_sum(&self) -> Option<i128> {
        let DataType::Decimal128(precision, _) = self.of.of else { return None };
        fitting(self.sum, precision.saturating_add(10).min(crate::types::MAX_PRECISION))
    }

    /// The result in units of its type, if it fits.
    fn result(&self) -> Option<i128> {
        let (DataType::Decimal128(precision, scale), DataType::Decimal128(_, s)) = (&self.of.result, &self.of.of) else {
            let result = if self.of.made == Made::Mean { quotient(self.sum, self.count) } else { self.sum };
            return result.to_i128();
        };
        if self.of.made == Made::Sum {
            return fitting(self.sum, *precision);
        }
        self.kept_sum()?;
        let factor = i256::from_i128(10_i128.checked_pow(u32::try_from(scale - s).ok()?)?);
        fitting(quotient(self.sum.checked_mul(factor)?, self.count), *precision)
    }
}

/// The number if it has no more digits.
fn fitting(value: i256, precision: u8) -> Option<i128> {
    let most = 10_i128.checked_pow(u32::from(precision))?;
    value.to_i128().filter(|value| value.unsigned_abs() < most.unsigned_abs())
}

/// The quotient, rounded half up, away from zero.
fn quotient(value: i256, by: i64) -> i256 {
    let by = i256::from_i128(by.into());
    let (whole, rest) = (value.wrapping_div(by), value.wrapping_rem(by).wrapping_abs());
    if rest.wrapping_add(rest) < by {
        whole
    } else if value.is_negative() {
        whole.wrapping_sub(i256::ONE)
    } else {
        whole.wrapping_add(i256::ONE)
    }
}

impl Accumulator for Wholes {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let Self { sum, count, seen, .. } = self;
        if let Some(seen) = seen {
            return each(&values[0], |value| {
                if seen.insert(value) {
                    *sum = sum.wrapping_add(i256::from_i128(value));
                    *count += 1;
                }
            });
        }
        let (more, rows) = summed(&values[0])?;
        *sum = sum.wrapping_add(more);
        *count += rows;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let (less, rows) = summed(&values[0])?;
        self.sum = self.sum.wrapping_sub(less);
        self.count -= rows;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.seen.is_none()
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_from(&self.of.result);
        }
        let wraps = self.of.overflow == Overflow::Wrap;
        let whole = match self.result() {
            Some(whole) => whole,
            None if wraps && self.of.result == DataType::Int64 => self.sum.as_i128(),
            None => return self.overflowed(),
        };
        #[allow(clippy::cast_possible_truncation)]
        let low = whole as i64;
        Ok(match &self.of.result {
            DataType::Int64 if wraps => ScalarValue::Int64(Some(low)),
            DataType::Decimal128(precision, scale) => ScalarValue::Decimal128(Some(whole), *precision, *scale),
            _ if i128::from(low) != whole => return self.overflowed(),
            DataType::Int64 => ScalarValue::Int64(Some(low)),
            DataType::Interval(_) => match i32::try_from(low) {
                Ok(months) => ScalarValue::IntervalYearMonth(Some(months)),
                Err(_) => return self.overflowed(),
            },
            _ => ScalarValue::DurationMicrosecond(Some(low)),
        })
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.seen.as_ref().map_or(0, |seen| seen.capacity() * (size_of::<i128>() + 1))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        if let Some(seen) = &self.seen {
            let values: Vec<ScalarValue> = seen.iter().map(|value| ScalarValue::Decimal128(Some(*value), 38, 0)).collect();
            return Ok(vec![ScalarValue::List(ScalarValue::new_list(&values, &VALUE, true))]);
        }
        Ok(vec![ScalarValue::Decimal256(Some(self.sum), 76, 0), ScalarValue::Int64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        if self.seen.is_some() {
            return states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]));
        }
        let (sums, counts) = (states[0].as_primitive::<Decimal256Type>(), states[1].as_primitive::<Int64Type>());
        for (sum, count) in sums.iter().zip(counts) {
            self.sum = self.sum.wrapping_add(sum.unwrap_or(i256::ZERO));
            self.count += count.unwrap_or(0);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Doubles {
    made: Made,
    sum: f64,
    count: i64,
    /// The bits of the values so far, where equal ones count once.
    seen: Option<HashSet<u64>>,
}

/// The bits by which doubles are equal: one zero, one NaN.
fn bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// The sum or mean of doubles; null of none.
#[allow(clippy::cast_precision_loss)]
fn finished(made: Made, sum: f64, count: i64) -> ScalarValue {
    let value = match (made, count) {
        (_, 0) => None,
        (Made::Sum, _) => Some(sum),
        (Made::Mean, _) => Some(sum / count as f64),
    };
    ScalarValue::Float64(value)
}

impl Accumulator for Doubles {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for value in values[0].as_primitive::<Float64Type>().iter().flatten() {
            if self.seen.as_mut().is_none_or(|seen| seen.insert(bits(value))) {
                self.sum += value;
                self.count += 1;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(finished(self.made, self.sum, self.count))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.seen.as_ref().map_or(0, |seen| seen.capacity() * (size_of::<u64>() + 1))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        if let Some(seen) = &self.seen {
            let values: Vec<ScalarValue> = seen.iter().map(|bits| ScalarValue::Float64(Some(f64::from_bits(*bits)))).collect();
            return Ok(vec![ScalarValue::List(ScalarValue::new_list(&values, &DataType::Float64, true))]);
        }
        Ok(vec![ScalarValue::Float64(Some(self.sum)), ScalarValue::Int64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        if self.seen.is_some() {
            return states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]));
        }
        let (sums, counts) = (states[0].as_primitive::<Float64Type>(), states[1].as_primitive::<Int64Type>());
        for (sum, count) in sums.iter().zip(counts) {
            self.sum += sum.unwrap_or(0.0);
            self.count += count.unwrap_or(0);
        }
        Ok(())
    }
}

/// The doubles of a window's frame, in their order.
#[derive(Debug)]
struct Sliding {
    made: Made,
    values: VecDeque<Option<f64>>,
}

impl Accumulator for Sliding {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.values.extend(values[0].as_primitive::<Float64Type>().iter());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.values.drain(..values[0].len().min(self.values.len()));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let (sum, count) = self.values.iter().flatten().fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
        Ok(finished(self.made, sum, count))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.capacity() * size_of::<Option<f64>>()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Err(DataFusionError::Internal("the frame of a window has no state to hand on".to_owned()))
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> DfResult<()> {
        Err(DataFusionError::Internal("the frame of a window has no state to take over".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Decimal128Array, Float64Array, Int64Array};

    use super::*;

    fn wholes(made: Made, overflow: Overflow, of: DataType, result: DataType) -> Wholes {
        let signature = Signature::exact(vec![of.clone()], Volatility::Immutable);
        Wholes { of: Total { made, overflow, of, result, signature }, sum: i256::ZERO, count: 0, seen: None }
    }

    #[test]
    fn what_does_not_fit_is_told_whatever_the_order_and_the_lanes() {
        for overflow in [Overflow::Fail, Overflow::Wrap, Overflow::Null] {
            let lane = |values: Vec<i64>| {
                let mut total = wholes(Made::Sum, overflow, DataType::Int64, DataType::Int64);
                total.update_batch(&[Arc::new(Int64Array::from(values))]).unwrap();
                total
            };
            let mut whole = lane(vec![]);
            assert_eq!(whole.evaluate().unwrap(), ScalarValue::Int64(None));
            for mut part in [lane(vec![i64::MAX, 1]), lane(vec![-1])] {
                let states: Vec<ArrayRef> = part.state().unwrap().iter().map(|state| state.to_array().unwrap()).collect();
                whole.merge_batch(&states).unwrap();
            }
            assert_eq!(whole.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX)));
            whole.update_batch(&[Arc::new(Int64Array::from(vec![1]))]).unwrap();
            match (overflow, whole.evaluate()) {
                (Overflow::Fail, found) => assert!(found.unwrap_err().to_string().contains("try_sum")),
                (Overflow::Wrap, found) => assert_eq!(found.unwrap(), ScalarValue::Int64(Some(i64::MIN))),
                (Overflow::Null, found) => assert_eq!(found.unwrap(), ScalarValue::Int64(None)),
            }
            whole.retract_batch(&[Arc::new(Int64Array::from(vec![i64::MAX]))]).unwrap();
            assert_eq!(whole.evaluate().unwrap(), ScalarValue::Int64(Some(1)));
        }
    }

    #[test]
    fn means_are_rounded_half_up_and_have_the_room_of_their_type() {
        let mean = |values: Vec<i128>, of: (u8, i8), result: (u8, i8)| {
            let (of, result) = (DataType::Decimal128(of.0, of.1), DataType::Decimal128(result.0, result.1));
            let mut total = wholes(Made::Mean, Overflow::Wrap, of.clone(), result);
            let DataType::Decimal128(p, s) = of else { return None };
            let values = Decimal128Array::from(values).with_precision_and_scale(p, s).unwrap();
            total.update_batch(&[Arc::new(values)]).unwrap();
            let ScalarValue::Decimal128(value, ..) = total.evaluate().unwrap() else { return None };
            value
        };
        assert_eq!(mean(vec![1, 1, 0], (3, 1), (7, 5)), Some(6667));
        assert_eq!((mean(vec![-1, 0], (38, 38), (38, 38)), mean(vec![1, 0], (38, 38), (38, 38))), (Some(-1), Some(1)));
        assert_eq!(mean(vec![10_i128.pow(38) - 1; 2], (38, 0), (38, 4)), None);
    }

    #[test]
    fn a_frame_is_summed_anew() {
        let column = |values: &[f64]| [Arc::new(Float64Array::from(values.to_vec())) as ArrayRef];
        let mut frame = Sliding { made: Made::Sum, values: VecDeque::new() };
        frame.update_batch(&column(&[f64::INFINITY, 1e20, 1.0])).unwrap();
        frame.retract_batch(&column(&[f64::INFINITY, 1e20])).unwrap();
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(Some(1.0)));
        frame.retract_batch(&column(&[1.0])).unwrap();
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(None));
    }

    #[test]
    fn equal_doubles_count_once() {
        let mut total = Doubles { made: Made::Mean, sum: 0.0, count: 0, seen: Some(HashSet::new()) };
        total.update_batch(&[Arc::new(Float64Array::from(vec![0.0, -0.0, 3.0, 3.0]))]).unwrap();
        assert_eq!(total.evaluate().unwrap(), ScalarValue::Float64(Some(1.5)));
    }
}
