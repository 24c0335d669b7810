//! `sequence(start, stop[, step])` over integers, dates and timestamps.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::DataType;
use weir_core::Error;

use super::args;
use super::bounds::{Blame, Budget};
use crate::analyzer::{Analyzer, Typed, coerce};
use crate::error::spark_error;
use crate::types::{list_field, list_of};
use crate::udf::{Rows, downcast};
use weir_decode::interval::MICROS_PER_DAY;

type Result<T> = std::result::Result<T, Error>;

/// Bytes of an element.
const ITEM_BYTES: usize = 8;

/// Builds a call.
pub fn build(a: &Analyzer, mut list: Vec<Typed>) -> Result<Typed> {
    args::count("sequence", &list, 2, 3)?;
    let step = (list.len() == 3).then(|| list.remove(2));
    let ends = a.to_common("sequence", list)?;
    let ty = ends[0].ty.clone();
    let unit = match &ty {
        DataType::Date32 | DataType::Timestamp(..) => MICROS_PER_DAY,
        t if coerce::is_integral(t) => 1,
        _ => return Err(args::wrong_type("sequence", &ends[0], "integers, dates or timestamps")),
    };
    let temporal = unit != 1;
    let mut call: Vec<Typed> = Vec::new();
    for end in ends {
        // Dates go through days; the clock of a day has 24 hours here.
        let as_long = as_i64(a, end);
        call.push(as_long);
    }
    if let Some(step) = step {
        let ok = if temporal { matches!(step.ty, DataType::Duration(_)) } else { coerce::is_integral(&step.ty) };
        if !ok {
            return Err(args::wrong_type(
                "sequence",
                &step,
                if temporal { "a day-time interval as the step" } else { "an integer as the step" },
            ));
        }
        call.push(as_i64(a, step));
    }
    let (date, item) = (ty == DataType::Date32, ty.clone());
    Ok(a.call("sequence", "", list_of(ty), &call, move |rows: Rows| {
        let columns = rows.args.iter().map(downcast::<Int64Array>).collect::<datafusion::common::Result<Vec<_>>>()?;
        let mut budget = Budget::new("sequence");
        let mut values: Vec<i64> = Vec::new();
        let mut lengths = Vec::with_capacity(rows.len);
        let mut valid = Vec::with_capacity(rows.len);
        for row in 0..rows.len {
            if columns.iter().any(|c| c.is_null(row)) {
                valid.push(false);
                lengths.push(0);
                continue;
            }
            valid.push(true);
            let (start, stop) = (columns[0].value(row), columns[1].value(row));
            let scale = if date { MICROS_PER_DAY } else { 1 };
            let step = match columns.get(2) {
                Some(step) => step.value(row) / scale,
                None => {
                    let one = if temporal && !date { MICROS_PER_DAY } else { 1 };
                    if stop >= start { one } else { -one }
                }
            };
            if step == 0 && start == stop {
                values.push(start);
                lengths.push(1);
                continue;
            }
            if step == 0 || (step > 0) != (stop >= start) && start != stop {
                return Err(spark_error("_LEGACY_ERROR_TEMP_3235", format!("illegal sequence boundaries: {start} to {stop} by {step}")));
            }
            let count = (i128::from(stop) - i128::from(start)) / i128::from(step) + 1;
            budget.elements(count, ITEM_BYTES, Blame::Count)?;
            let before = values.len();
            let mut next = start;
            for _ in 0..count {
                values.push(next);
                next = next.wrapping_add(step);
            }
            lengths.push(values.len() - before);
        }
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        let values = from_i64(&values, &item)?;
        Ok(Arc::new(ListArray::try_new(
            list_field(item.clone()),
            OffsetBuffer::from_lengths(lengths),
            values,
            Some(NullBuffer::from(valid)).filter(|n| n.null_count() > 0),
        )?) as ArrayRef)
    })
    .may_fail())
}

fn as_i64(a: &Analyzer, value: Typed) -> Typed {
    let name = value.name.clone();
    a.call("raw_bigint", "", DataType::Int64, &[value], |rows: Rows| {
        let array = match rows.args[0].data_type() {
            DataType::Date32 => arrow::compute::cast(&rows.args[0], &DataType::Int32)?,
            _ => Arc::clone(&rows.args[0]),
        };
        Ok(arrow::compute::cast(&array, &DataType::Int64)?)
    })
    .named(name)
}

fn from_i64(values: &ArrayRef, item: &DataType) -> datafusion::common::Result<ArrayRef> {
    let values = match item {
        DataType::Date32 => arrow::compute::cast(values, &DataType::Int32)?,
        _ => Arc::clone(values),
    };
    Ok(arrow::compute::cast(&values, item)?)
}
