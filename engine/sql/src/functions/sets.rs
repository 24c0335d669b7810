//! Arrays as sets, arrays in arrays, and the extreme of a row.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, ListArray, UInt32Array};
use arrow::compute::{concat, take};
use arrow::row::OwnedRow;
use datafusion::common::Result as DfResult;

use super::bounds::{Blame, Budget};
use super::collection::{Keys, at, joined, pick_lists, span};
use crate::udf::downcast;

/// Bytes of a position in an array that is being gathered.
const POSITION_BYTES: usize = 8;

pub(super) fn flatten(array: &ArrayRef) -> DfResult<ArrayRef> {
    let outer: &ListArray = downcast(array)?;
    let inner: &ListArray = downcast(outer.values())?;
    let mut budget = Budget::of_column("flatten");
    budget.elements(inner.values().len() as i128, POSITION_BYTES, Blame::Function)?;
    let picked: Vec<Option<Vec<Option<u32>>>> = (0..outer.len())
        .map(|row| {
            let mut out = Vec::new();
            for i in span(outer, row)? {
                out.extend(span(inner, i)?.map(at));
            }
            Some(out)
        })
        .collect();
    pick_lists(inner.values(), &picked)
}

pub(super) fn concat_lists(columns: &[ArrayRef], len: usize) -> DfResult<ArrayRef> {
    let lists = columns.iter().map(downcast::<ListArray>).collect::<DfResult<Vec<_>>>()?;
    let values: Vec<&dyn Array> = lists.iter().map(|l| l.values().as_ref()).collect();
    Budget::of_column("concat").elements(values.iter().map(|v| v.len() as i128).sum(), POSITION_BYTES, Blame::Function)?;
    let all = concat(&values)?;
    let mut starts = Vec::with_capacity(lists.len());
    let mut start = 0;
    for list in &lists {
        starts.push(start);
        start += list.values().len();
    }
    let picked: Vec<_> = (0..len)
        .map(|row| {
            let mut out = Vec::new();
            for (list, start) in lists.iter().zip(&starts) {
                out.extend(span(list, row)?.map(|i| at(start + i)));
            }
            Some(out)
        })
        .collect();
    pick_lists(&all, &picked)
}

pub(super) fn set_operation(kind: &str, columns: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (l, r): (&ListArray, &ListArray) = (downcast(&columns[0])?, downcast(&columns[1])?);
    let (all, offset) = joined(l.values(), r.values())?;
    let keys = Keys::new(&all)?;
    let picked: Vec<_> = (0..l.len())
        .map(|row| {
            let (left, right) = (span(l, row)?, span(r, row)?);
            let right = right.start + offset..right.end + offset;
            let others: HashSet<OwnedRow> = right.clone().map(|i| keys.key(i)).collect();
            let mut seen = HashSet::new();
            let keep: Vec<usize> = match kind {
                "array_union" => left.chain(right).filter(|i| seen.insert(keys.key(*i))).collect(),
                "array_intersect" => left.filter(|i| others.contains(&keys.key(*i)) && seen.insert(keys.key(*i))).collect(),
                _ => left.filter(|i| !others.contains(&keys.key(*i)) && seen.insert(keys.key(*i))).collect(),
            };
            Some(keep.into_iter().map(at).collect())
        })
        .collect();
    pick_lists(&all, &picked)
}

pub(super) fn overlap(columns: &[ArrayRef]) -> DfResult<ArrayRef> {
    let (l, r): (&ListArray, &ListArray) = (downcast(&columns[0])?, downcast(&columns[1])?);
    let (all, offset) = joined(l.values(), r.values())?;
    let keys = Keys::new(&all)?;
    Ok(Arc::new(
        (0..l.len())
            .map(|row| {
                let (left, right) = (span(l, row)?, span(r, row)?);
                let right = right.start + offset..right.end + offset;
                let others: HashSet<OwnedRow> = right.clone().filter(|i| all.is_valid(*i)).map(|i| keys.key(i)).collect();
                if left.clone().any(|i| all.is_valid(i) && others.contains(&keys.key(i))) {
                    return Some(true);
                }
                let null = left.clone().chain(right.clone()).any(|i| all.is_null(i));
                (!null || left.is_empty() || right.is_empty()).then_some(false)
            })
            .collect::<BooleanArray>(),
    ))
}

/// The least or greatest of each row, nulls skipped.
pub fn extreme(columns: &[ArrayRef], greatest: bool) -> DfResult<ArrayRef> {
    let arrays: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let all = concat(&arrays)?;
    let keys = Keys::new(&all)?;
    let len = columns.first().map_or(0, |c| c.len());
    let picked: Vec<Option<u32>> = (0..len)
        .map(|row| {
            let valid = (0..columns.len()).map(|c| c * len + row).filter(|i| all.is_valid(*i));
            let best = if greatest { valid.max_by(|l, r| keys.compare(*l, *r)) } else { valid.min_by(|l, r| keys.compare(*l, *r)) };
            best.and_then(at)
        })
        .collect();
    Ok(take(&all, &UInt32Array::from(picked), None)?)
}
